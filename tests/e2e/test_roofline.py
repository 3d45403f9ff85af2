# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# traces nothing
"""Rooflines of planted traces: work of known size, against numbers computed by hand and by tests/oracle/roofline.py."""
import json
import os
import subprocess
import sys

import pytest

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(TESTS, "oracle"))
import oracle  # noqa: E402

# 2 * 3201 MHz * 6144 bits
GBPS = 4916.736
PEAK, ROOF = 989.4, 989.4 * 1980 / 1830
DEVICE = {"model": "NVIDIA H200", "capability": 90, "multiprocessors": 132, "clock_khz": 1980000, "memory_khz": 3201000, "bus_bits": 6144}
ADD = "void at::native::vectorized_elementwise_kernel<8, at::native::CUDAFunctor_add<c10::Half>, std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<c10::Half>, std::array<char*, 3ul>)"
GEMM, REDUCE, OTHER = "nvjet_sm90_tst_128x256_64x4", "splitKreduce_kernel", "my_kernel(float*)"


def word(value, size):
    return value.to_bytes(size, "little").hex()


class Trace:
    """Launches and their executions, one after the other."""

    def __init__(self, device=None):
        self.lines, self.id, self.now, self.gpu, self.capturing, self.nodes = [], 0, 1_000_000, 0, False, []
        self.lines.append({"ts": 0, "type": "header", "name": "cudatrace", "schema": 2, "version": "0", "command": ["sim"], "clock": "CLOCK_MONOTONIC", "clock_base_ns": 10 ** 9,
                           "wall_time": "2026-01-01T00:00:00.000000000Z"})
        self.event(1000, "gpu_device", "device", "device", device=0, uuid="GPU-f11f7369-27f6-7c9a-be41-307bc77a1f43", **(DEVICE if device is None else device))

    def event(self, ns, kind, op, name, **fields):
        self.lines.append({"ts": ns / 1e6, "type": kind, "op": op, "name": name, "pid": 7, "tid": 7, "comm": "sim", **fields})

    def call(self, kind, op, name, us=5, id=None, start=None, **fields):
        self.id += id is None
        id = id or self.id
        self.event(self.now if start is None else start, kind, op, name, symbol=name, id=id, duration_us=us, result=0, args=fields.pop("args", {}), **fields)
        self.now += us * 1000
        return id

    def execution(self, id, op, ns, **fields):
        begin = max(self.now + 1000, self.gpu)
        self.gpu = begin + ns
        self.event(begin, "gpu", op, op, duration_us=ns / 1e3, device=0, context=1, gpu_stream=7, correlation=id, call_id=id, call="cuLaunchKernel", queue_us=1.0, **fields)

    def launch(self, name, ns, params=None, parent=None, operator=None, grid=(1, 1, 1)):
        more = {"params": [{"offset": 8 * i, "size": len(p) // 2 if isinstance(p, str) else 4 if p < 1 << 32 else 8,
                            "value": p if isinstance(p, str) else hex(p)} for i, p in enumerate(params)]} if params else {}
        if operator:
            more["operator_id"], more["operator"] = 1 << 40, operator
        if parent:
            more.update(parent=parent, depth=1)
        if self.capturing:
            more["capturing"] = True
        id = self.call("kernel", "launch", "cuLaunchKernel", stream="0x10", kernel=name, grid=list(grid), block=[128, 1, 1], shared_mem=0, **more)
        if self.capturing:
            self.nodes.append((name, ns))
        return id, name, ns

    def kernel(self, name, ns, **fields):
        id, name, ns = self.launch(name, ns, **fields)
        if not self.capturing:
            self.execution(id, "kernel", ns, kernel=name)

    def add(self, cnt, ns, same=False, **fields):
        self.kernel(ADD, ns, params=[cnt, "00", word(0x7f0000100000, 8) + word(0x7f0000200000, 8) + word(0x7f0000200000 if same else 0x7f0000300000, 8)], **fields)

    def product(self, m, n, k, parts, batch=1, name="cublasGemmEx", early=False, **fields):
        """parts: kernel names with their times. early: their executions arrive before the call's line."""
        self.id += 1
        id, start = self.id, self.now
        runs = [self.launch(kernel, ns, parent=id) for kernel, ns in parts]
        if early:
            for at, kernel, ns in runs:
                self.execution(at, "kernel", ns, kernel=kernel)
        us = (self.now - start) // 1000 + 2
        self.now = start
        self.call("blas", "gemm", name, us, id=id, start=start, api="cublas", lib=3, stream="0x10", m=m, n=n, k=k, batch=batch,
                  **{"a_type": "CUDA_R_16BF", "b_type": "CUDA_R_16BF", "c_type": "CUDA_R_16BF", "compute_type": "CUBLAS_COMPUTE_32F", "flops": 2 * m * n * k * batch, **fields})
        if not early and not self.capturing:
            for at, kernel, ns in runs:
                self.execution(at, "kernel", ns, kernel=kernel)

    def copy(self, size, ns, direction="DtoD"):
        id = self.call("transfer", "copy", "cuMemcpyAsync", stream="0x10", size=size, direction=direction)
        self.execution(id, "copy", ns, size=size, direction=direction)

    def memset(self, size, ns):
        id = self.call("transfer", "memset", "cuMemsetD8Async", stream="0x10", size=size)
        self.execution(id, "memset", ns, size=size)

    def wait(self):
        self.now = max(self.now + 2000, self.gpu)
        self.call("sync", "sync", "cuStreamSynchronize", 3, stream="0x10")

    def graph(self, op, name, **args):
        return self.call("graph", op, name, 20, stream="0x10", args=args)

    def replay(self):
        id = self.graph("launch", "cuGraphLaunch", hGraphExec="0x8000", hStream="0x10")
        for i, (name, ns) in enumerate(self.nodes):
            self.execution(id, "kernel", ns, kernel=name, graph_node=2 << 32 | i)

    def report(self, folder, *options):
        end = {"ts": (self.now + 1000) / 1e6, "type": "end", "name": "cudatrace", "reason": "command exited", "events": {}, "calls": self.id, "drops": {"calls": 0},
               "bad_records": 0, "wall_ms": (self.now + 1000) / 1e6}
        path = folder / "trace.jsonl"
        path.write_text("".join(json.dumps(x) + "\n" for x in [*self.lines, end]))
        run = lambda *more: subprocess.run([os.environ["CUDATRACE"], "report", *more, path], check=True, capture_output=True, text=True).stdout  # noqa: E731
        if options:
            return run(*options)
        report = json.loads(run("--format=json"))
        d = oracle.Differences()
        oracle.roofline.check(oracle.TOOLS, d, self.lines, oracle.located(report))
        assert not d
        return report


def rows(report):
    return {(r["kind"], r["name"] if r["kind"] != "copy" else r["direction"]): r for r in report["roofline"]["list"]}


def about(got, want):
    return got == pytest.approx(want, rel=1e-3)


def mixed(t):
    n = 4096
    roof = 2 * n ** 3 / ROOF / 1e3
    t.product(n, n, n, [(GEMM, round(1.05 * roof))])
    t.product(n, 1, n, [(GEMM, 20000), (REDUCE, 4000)], name="cublasLtMatmul", early=True)
    t.add(1 << 20, 5000, operator="aten::add")
    t.kernel(OTHER, 7000, operator="aten::mine")
    t.copy(1 << 30, 500_000)
    t.copy(1 << 30, 500_000, "HtoD")
    t.memset(1 << 30, 300_000)
    return n, roof


def test_limits(tmp_path):
    """Each kind of work: bytes, operations, limit and headroom by hand."""
    t = Trace()
    n, roof = mixed(t)
    report = t.report(tmp_path)
    section, by = report["roofline"], rows(report)
    gemm = by["product", "cublasGemmEx"]
    assert (gemm["ops"], gemm["bytes"], gemm["limit"], gemm["type"], gemm["works"]) == (pytest.approx(2 * n ** 3), 3 * n * n * 2, "compute", "BF16", 1)
    assert about(gemm["roof_ns"], roof) and about(gemm["roof_share"], 1 / 1.05) and about(gemm["intensity"], n / 3)
    # Two kernels share the work of one product.
    gemv = by["product", "cublasLtMatmul"]
    size = 2 * (n * n + 2 * n)
    assert (gemv["bytes"], gemv["executions"], gemv["works"], gemv["gpu_ns"], gemv["limit"]) == (size, 2, 1, 24000, "memory")
    assert about(gemv["roof_ns"], size / GBPS) and about(gemv["headroom_ns"], 24000 - size / GBPS) and about(gemv["gbps"], size / 24000)
    add = by["kernel", ADD]
    assert (add["bytes"], add["ops"], add["limit"]) == (6 << 20, 0, "memory") and about(add["headroom_ns"], 5000 - (6 << 20) / GBPS)
    assert about(by["copy", "DtoD"]["roof_ns"], (2 << 30) / GBPS) and about(by["memset", "memset"]["roof_ns"], (1 << 30) / GBPS)
    # The rate of the bus is not known, nor is what a kernel without parameters does.
    for key in (("copy", "HtoD"), ("kernel", OTHER)):
        assert by[key]["known_work_ns"] == 0 and not {"bytes", "ops", "limit", "headroom_ns", "roof_ns"} & set(by[key])
    assert section["gpu_ns"] - section["known_work_ns"] == 507_000
    assert about(section["headroom_ns"], sum(r.get("headroom_ns", 0) for r in section["list"]))
    device = section["devices"][0]
    assert about(device["memory_gbps"], GBPS) and device["memory_source"] == "device" and about(device["roof_tflops"]["BF16"], ROOF) and about(device["peak_tflops"]["BF16"], PEAK)
    assert {r["name"]: r["known_work_ns"] for r in section["operators"]} == {"aten::add": 5000, "aten::mine": 0}
    text = t.report(tmp_path, "--section=roofline")
    assert "at the roof" in text and "unknown" in text and "4917 GB/s by its memory clock and bus" in text
    # In the map, the nodes below each operator or call have it.
    nodes = {x["name"]: x for x in report["map"]["nodes"]}
    assert nodes["all"]["headroom_ns"] == pytest.approx(section["headroom_ns"], abs=10) and nodes["all"]["known_work_ns"] == section["known_work_ns"]
    assert about(nodes["cublasLtMatmul"]["headroom_ns"], gemv["headroom_ns"]) and "headroom_ns" not in nodes[OTHER]


def test_not_a_roof(tmp_path):
    """Work that took less than device memory allows came from a cache: no headroom, and no share. A batch may share a matrix, x + x reads x once."""
    t = Trace()
    t.add(1 << 20, 800)
    t.product(64, 64, 64, [(GEMM, 9000)], batch=16, name="cublasGemmStridedBatchedEx", args={"strideA": 0, "strideB": 4096})
    t.product(64, 64, 64, [(GEMM, 9000)], args={"A": "0x7f0000000000", "B": "0x7f0000000000"})
    by = rows(t.report(tmp_path))
    assert by["product", "cublasGemmEx"]["bytes"] == 2 * 64 * 64 * 2
    assert by["kernel", ADD]["limit"] == "cache" and by["kernel", ADD]["headroom_ns"] == 0 and "roof_share" not in by["kernel", ADD]
    assert by["product", "cublasGemmStridedBatchedEx"]["bytes"] == 2 * 64 * 64 * (1 + 16 + 16)
    t = Trace()
    t.add(1 << 20, 5000, same=True)
    t.lines[-2]["kernel"] = ADD  # the oracle counts three operands
    path = t.report(tmp_path, "--format=json", "--section=roofline")
    assert rows(json.loads(path))["kernel", ADD]["bytes"] == 4 << 20


@pytest.mark.parametrize("device", [{}, {"capability": 90, "multiprocessors": 132, "clock_khz": 1980000}, {**DEVICE, "capability": 121, "model": "NVIDIA GB10"}], ids=["unknown", "no memory", "no peak"])
def test_unknown_device(tmp_path, device):
    """Without a peak nothing is claimed."""
    t = Trace(device)
    mixed(t)
    report = t.report(tmp_path)
    known = {k for k, r in rows(report).items() if r["known_work_ns"]}
    assert known == ({("kernel", ADD), ("copy", "DtoD"), ("memset", "memset")} if device.get("memory_khz") else set())
    if not known:
        assert "headroom" not in t.report(tmp_path, "--full")


def test_types_decide(tmp_path):
    """32-bit products have a peak only if a kernel's name shows whether TF32 is allowed; FP8 and mixed types."""
    n, f32 = 1024, dict.fromkeys(("a_type", "b_type", "c_type"), "CUDA_R_32F")
    t = Trace()
    t.product(n, n, n, [("sm80_xmma_gemm_f32f32_tf32f32_f32_tn", 50000)], **f32)
    t.product(n, n, n, [("ampere_sgemm_128x64_tn", 50000), (REDUCE, 2000)], name="cublasSgemm", **f32)
    t.product(n, n, n, [("secret_kernel", 50000)], name="cublasSgemm_other", **f32)
    t.product(n, n, n, [(GEMM, 50000)], name="cublasLtMatmul", a_type="CUDA_R_8F_E4M3", b_type="CUDA_R_8F_E5M2")
    by = rows(t.report(tmp_path))
    assert [by["product", x].get("type") for x in ("cublasGemmEx", "cublasSgemm", "cublasLtMatmul")] == ["TF32", "FP32", "FP8"]
    assert about(by["product", "cublasSgemm"]["roof_ns"], 2 * n ** 3 / 66.9 / 1e3) and about(by["product", "cublasLtMatmul"]["bytes"], 4 * n * n)
    assert by["kernel", "secret_kernel"]["known_work_ns"] == 0


def step(t):
    t.product(2048, 2048, 2048, [(GEMM, 30000)])
    t.product(2048, 8, 2048, [(GEMM, 6000), (REDUCE, 3000)])
    t.add(1 << 20, 3000)
    t.kernel(OTHER, 4000)


def test_steps(tmp_path):
    """The model FLOPs utilization of a step, and its headroom; clocks as measured."""
    t = Trace()
    for i in range(20):
        t.event(t.now, "gpu_stats", "sample", "sample", gpu=0, uuid="GPU-f11f7369-27f6-7c9a-be41-307bc77a1f43", util=100 if i else 0, sm_clock_mhz=1500 if i else 300)
        step(t)
        t.wait()
    report = t.report(tmp_path)
    steps, ops = report["roofline"]["steps"], 2 * 2048 ** 2 * (2048 + 8)
    assert steps["count"] == report["iterations"]["count"] - report["iterations"]["warmup"]
    assert about(steps["mfu"], ops / PEAK / 1e3 / steps["time_ns"]) and 0.2 < steps["mfu"] < 0.9
    roof = max(2 * 2048 ** 3 / ROOF / 1e3, 6 * 2048 ** 2 / GBPS) + 2 * (2048 ** 2 + 2 * 2048 * 8) / GBPS + (6 << 20) / GBPS
    assert about(steps["headroom_ns"], 42000 - roof) and steps["known_work_ns"] == 42000
    big = max((r for r in report["roofline"]["list"] if r["kind"] == "product"), key=lambda r: r["ops"])
    assert about(report["roofline"]["devices"][0]["measured_clock_mhz"], 1500) and about(big["clock_share"], big["roof_share"] * 1980 / 1500)
    iterations = next(x for x in report["map"]["nodes"] if x["kind"] == "iterations" and x["name"] == "iterations")
    assert iterations["per_iteration"]["headroom_ns"] == pytest.approx(steps["headroom_ns"], abs=1)


def test_no_steps(tmp_path):
    """Iterations that do not contain their work, because the host runs ahead, have no utilization."""
    t = Trace()
    for _ in range(20):
        step(t)
        t.now += 2000
        t.call("sync", "sync", "cuStreamSynchronize", 3, stream="0x20")
        t.gpu += 500_000
    for line in t.lines:
        if line["type"] == "gpu":
            line["duration_us"] *= 100
    assert "steps" not in t.report(tmp_path)["roofline"]


def test_replayed_graph(tmp_path):
    """Nodes of a graph have the work of the calls that were captured: the same as without a graph."""
    t = Trace()
    t.graph("capture_begin", "cuStreamBeginCapture", hStream="0x10", mode=2)
    t.capturing = True
    step(t)
    t.capturing = False
    t.graph("capture_end", "cuStreamEndCapture", hStream="0x10", phGraph="0x6000")
    t.graph("instantiate", "cuGraphInstantiateWithFlags", phGraphExec="0x8000", hGraph="0x6000", flags=0)
    for _ in range(10):
        t.replay()
        t.wait()
    report = t.report(tmp_path)
    plain = Trace()
    for _ in range(10):
        step(plain)
        plain.wait()
    want = plain.report(tmp_path)
    key = lambda r: (r["kind"], r["name"], r.get("m"), r.get("n"))  # noqa: E731
    got, want_rows = ({key(r): r for r in x["roofline"]["list"]} for x in (report, want))
    assert set(got) == set(want_rows) and len(got) == 4
    for name in ("works", "executions", "gpu_ns", "known_work_ns", "bytes", "ops", "limit"):
        assert {k: r.get(name) for k, r in got.items()} == {k: r.get(name) for k, r in want_rows.items()}
    assert about(report["roofline"]["headroom_ns"], want["roofline"]["headroom_ns"])
    assert about(report["map"]["nodes"][0]["headroom_ns"], report["roofline"]["headroom_ns"])
