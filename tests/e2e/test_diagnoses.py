# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# takes: 10
"""What limits a kernel (--stalls): the samples of fourteen kernels with one known problem each, or none, on an H100; kernels made to have
the signs of one problem, and kernels that lack one of them. tests/oracle/stalls.py has the bounds a second time."""
import collections
import copy
import json
import random
import sys

import pytest
from helpers.run import TESTS, cudatrace

sys.path.insert(0, TESTS + "/oracle")
import stalls as oracle  # noqa: E402

# Samples of tests/gpu/stalls.cu's relatives (2^14 cycles, 0.4 s each, driver 580.159.04, CUPTI 13.0, 2026-11-27) as lines of --stalls have
# them: not_issued, reasons and classes as sampled, the rest from the machine code.
MEASURED = [json.loads(x) for x in open(TESTS + "/oracle/kernels-h100.jsonl", encoding="utf-8")]
# healthy: no problem, only a limit. fill_chain: too few samples that issued.
EXPECTED = {"healthy_copy": "memory_bandwidth", "healthy_math": "instructions", "shared_ok": "instructions", "uncoalesced": "scattered_access", "bank_conflict": "bank_conflicts",
            "divergent": "divergence", "predicated": "predication", "one_atomic": "contended_atomic", "spread_atomic": "memory_latency", "spills": "local_memory",
            "too_small": "small_grid", "barrier_wait": "barrier", "pointer_chase": "scattered_access", "sfu_bound": "special_functions", "fill_chain": None}
MODEL = "NVIDIA H100 80GB HBM3"
OWN = ("kernel", "kernel_mangled", "grid", "block", "registers", "static_shared", "shared_mem")

# The second set, on an H200 (docs/measured/stalls.md), with what is found now. Its matrix instructions are corrected: VIADD was decoded as HMMA.
SECOND = [json.loads(x) for x in open(TESTS + "/oracle/kernels-h200.jsonl", encoding="utf-8")]
FOUND = {"hash_lookup": "scattered_access", "pick_channel": "scattered_access", "row_sums": "bank_conflicts", "sum_by_atomic": "contended_atomic", "bucket_max": "local_memory",
         "wide_rows": "local_memory", "interpret": "divergence", "n_body": "small_grid", "softmax_rows": "small_grid", "last_wave": "tail", "uneven_waves": "tail",
         "sgemm_tile": "no_tensor_cores", "matmul_ieee": "no_tensor_cores", "sm80_xmma_gemm_f32f32": "no_tensor_cores", "list_walk": "memory_latency", "thin_sum": "memory_latency",
         "monte_carlo": "instructions", "horner": "instructions"}
HEALTHY = {"axpy": "memory_bandwidth", "copy_blocks": "memory_bandwidth", "vectorized_gather": "memory_bandwidth", "matmul_half": None, "nvjet": None, "flash_fwd": None, "layer_norm": None,
           "SoftMaxForward": None}
# Bank conflicts, contended atomics and divergence that are not found.
MISSED = {"transpose_tile": None, "count_all": "memory_latency", "escape_time": "instructions"}


def trace(kernels, model=MODEL, gpu=True):
    """A trace in which each of these kernels ran once, with its samples."""
    lines, ts = [], 1.0
    where = {"pid": 42, "tid": 42, "comm": "kernels"}
    if model:
        lines.append({"ts": 0.5, "type": "gpu_device", "op": "device", "name": "device", **where, "device": 0, "uuid": "GPU-0", "model": model, "capability": 90,
                      "multiprocessors": 132, "clock_khz": 1980000})
    for i, k in enumerate(kernels):
        us = k["duration_us"]
        lines.append({"ts": ts, "type": "kernel", "op": "launch", "name": "cuLaunchKernel", "symbol": "cuLaunchKernel", **where, "id": i + 1, "duration_us": 5, "result": 0,
                      "stream": "0x0", "kernel": k["kernel"], "func": hex(i + 1), "grid": [k["grid"], 1, 1], "block": [k["block"], 1, 1], "shared_mem": k.get("shared_mem", 0)})
        if gpu:
            lines.append({"ts": ts + 0.01, "type": "gpu", "op": "kernel", "name": "kernel", **where, "duration_us": us, "device": 0, "context": 1, "gpu_stream": 7,
                          "kernel": k["kernel"], "correlation": i + 1, "call_id": i + 1, "call": "cuLaunchKernel", "queue_us": 10,
                          **({"registers": k["registers"], "shared_mem": k["static_shared"]} if "registers" in k else {})})
        lines.append({"ts": ts, "type": "stalls", "op": "function", "name": "function", **where, "duration_us": us, "device": 0, "function": hex(i + 1), "period_cycles": 1 << 14,
                      "multiprocessors": 132, "code": "decoded", "architecture": 90, **{m: v for m, v in k.items() if m not in OWN[2:] and m != "duration_us"}})
        ts += us / 1000 + 1
    head = {"ts": 0, "type": "header", "name": "cudatrace", "schema": 2, "version": "0", "command": ["kernels"], "host": "sim", "kernel": "6.1", "machine": "x86_64",
            "mechanism": "inject", "stalls": 1 << 14, "degraded": [], "clock": "CLOCK_MONOTONIC", "clock_base_ns": 10**9, "wall_time": "2026-01-01T00:00:00.000000000Z"}
    if gpu:
        head["gpu_time"] = "graphs"
    return [head, *lines, {"ts": ts, "type": "end", "name": "cudatrace", "reason": "command exited", "events": collections.Counter(x["type"] for x in lines),
                           "calls": len(kernels), "entries": len(kernels), "drops": {"calls": 0}, "bad_records": 0, "unfinished": 0, "abandoned": 0, "filtered": 0, "wall_ms": ts,
                           "stall_samples": sum(k["samples"] for k in kernels)}]


class Report:
    def __init__(self, tmp_path, lines):
        self.path = tmp_path / "t.jsonl"
        self.path.write_text("".join(json.dumps(x) + "\n" for x in lines))
        self.json = json.loads(cudatrace("report", "--json", str(self.path)).out)
        self.of = {k["kernel"]: k for k in self.json["stalls"]["kernels"]}
        assert not (wrong := oracle.check(lines, self.json)), wrong

    def first(self, name):
        found = [k for kernel, k in self.of.items() if name in kernel]
        assert len(found) == 1, name
        return found[0]["diagnoses"][0]["diagnosis"] if found[0]["diagnoses"] else None

    def text(self):
        return cudatrace("report", "--section=stalls", "--width=400", str(self.path)).out


def test_measured(tmp_path):
    r = Report(tmp_path, trace(MEASURED))
    assert {name: r.first(name) for name in EXPECTED} == EXPECTED
    for name in "healthy_copy", "healthy_math", "shared_ok":
        k, = [k for kernel, k in r.of.items() if name in kernel]
        assert [d["kind"] for d in k["diagnoses"]] == ["limit"], k
    for k in r.of.values():
        for d in k["diagnoses"]:
            assert len(d["signs"]) >= 2 and d["advice"] and d["title"]
    text = Report(tmp_path, trace([k for k in MEASURED if any(x in k["kernel"] for x in ("healthy_copy", "bank_conflict", "fill_chain"))])).text()
    assert "Limited by bank conflicts of shared memory: 97.8 % of the samples wait for shared memory; a wait takes 302 cycles. Let the threads" in text, text
    assert "At its limit: bandwidth of memory: 98.9 % of the samples wait for loads and stores of global memory; a wait takes 2,320 cycles; the GPU's memory can move 490 bytes" in text
    assert "No known cause" in text and text.rstrip().splitlines()[-1].strip().endswith("kernels") and "ncu " in text


def test_second_set(tmp_path):
    r = Report(tmp_path, trace([{**k, "period_cycles": 1 << 16} for k in SECOND], model="NVIDIA H200"))
    assert {name: r.first(name) for name in FOUND | HEALTHY | MISSED} == FOUND | HEALTHY | MISSED and len(r.of) == len(FOUND | HEALTHY | MISSED)
    for name in HEALTHY:
        k, = [k for kernel, k in r.of.items() if name in kernel]
        assert all(d["kind"] == "limit" for d in k["diagnoses"]), k


def test_without(tmp_path):
    """What a diagnosis needs and the trace lacks: it is not made, and no other one instead."""
    for lines in trace(MEASURED, model=None), trace(MEASURED, model="NVIDIA Unknown"):
        r = Report(tmp_path, lines)
        assert (r.first("healthy_copy"), r.first("uncoalesced"), r.first("bank_conflict")) == (None, None, "bank_conflicts")
        assert "access_bytes" not in json.dumps(r.json["stalls"])
    r = Report(tmp_path, trace(MEASURED, gpu=False))
    assert (r.first("too_small"), r.first("healthy_copy")) == (None, "memory_bandwidth")
    few = [{**k, **{m: v // 15000 for m, v in k.items() if isinstance(v, int) and m not in OWN}} for k in MEASURED if k["samples"] > 15000]
    r = Report(tmp_path, trace(few))
    assert all(not k["diagnoses"] for k in r.of.values() if k["samples"] < 300) and any(k["diagnoses"] for k in r.of.values())
    missing = copy.deepcopy(MEASURED)
    for k in missing:
        for m in [m for m in k if m.startswith("for_") or m in ("guarded", "diverged", "issued_memory", "issued_multiply", "matrix")]:
            del k[m]
    r = Report(tmp_path, trace(missing))
    assert {r.first(name) for name in EXPECTED} == {None, "instructions", "barrier", "small_grid"}


def made(rng, i):
    """A kernel whose signs lie near the bounds."""
    n = 1_000_000

    def near(bound):
        return rng.choice((0, 0, bound * rng.uniform(0.5, 0.99), bound * rng.uniform(1.01, 1.5)))
    main, cls, share = rng.choice((("long_scoreboard", "global_load", 0.5), ("long_scoreboard", "atomic", 0.4), ("long_scoreboard", "local_load", 0.2), ("lg_throttle", "global_store", 0.5),
                                   ("short_scoreboard", "shared", 0.3), ("mio_throttle", "special", 0.4), ("barrier", None, 0.4), ("wait", None, 0.2)))
    k = {main: round(n * rng.uniform(0.3, 0.7))}
    if cls:
        k["for_" + cls] = round(min(k[main], n * share * rng.choice((0.5, 0.9, 1.02, 1.1, 2))))
    for reason, bound in (("branch_resolving", 0.15), ("dispatch_stall", 0.1), ("not_selected", 0.4)) if rng.random() < 0.5 else ():
        k[reason] = round(n * near(bound))
    k["selected"] = round(n * rng.choice((0.01, 0.02, 0.05, 0.2)))
    k["wait"] = k.get("wait", 0) + max(0, n // 3 - sum(v for m, v in k.items() if not m.startswith("for_")))
    samples = sum(v for m, v in k.items() if not m.startswith("for_"))
    reason = oracle.main_of(collections.Counter({r: k[r] for r in oracle.REASONS if r in k}))
    by = k[reason]
    cycles = rng.choice((100, 200, 300, 1000, 1500, 4000)) * rng.uniform(0.9, 1.2)
    wait = {"waiting": by, "waiting_issued": max(1, round(by / cycles))}
    issued = near(0.75) if rng.random() < 0.4 else 0
    issued = issued or rng.uniform(0.02, 0.3)
    # Accesses of about as many bytes as the bound.
    per_cycle = 3352 / 132 / 1.98 / (rng.choice((600, 700)) * rng.uniform(0.7, 1.3))
    busy = near(0.5) or 1
    sm_us = samples * (1 << 14) / 1980
    # A third has a matrix instruction, half of them the name of a product.
    multiply, name = 0.9 if i % 2 else 0.3 + i % 40 / 100, "k_gemm" if i % 4 < 2 else "k_axpy"
    return {"kernel": f"{name}{i}()", "kernel_mangled": f"_Z{len(name + str(i))}{name}{i}v", "issued_multiply": round(k["selected"] * min(1, multiply)), "matrix": i % 3 // 2, "grid": rng.choice((4, 130, 132, 1056)), "block": 256, "samples": samples,
            "not_issued": round(samples * (1 - min(issued, 1))), "sm_us": sm_us, "duration_us": sm_us / 132 / min(busy, 1), "guarded": round(samples * min(1, near(0.6))),
            "diverged": round(samples * min(1, near(0.5))), "issued_memory": round(k["selected"] * min(1, per_cycle / 4 / issued)), "reason": reason, **wait,
            **{m: v for m, v in k.items() if v}}


@pytest.mark.parametrize("seed", [1, 2])
def test_bounds(tmp_path, seed):
    """Each diagnosis is made and is not made, near its bounds."""
    rng = random.Random(seed)
    r = Report(tmp_path, trace([made(rng, i) for i in range(600)]))
    found = collections.Counter(d["diagnosis"] for k in r.of.values() for d in k["diagnoses"])
    assert set(found) == set(oracle.DIAGNOSES) - {"tail"} and all(3 < n < 500 for n in found.values()), found
    assert any(not k["diagnoses"] for k in r.of.values()) and any(len(k["diagnoses"]) > 2 for k in r.of.values())
    wrong = copy.deepcopy(r.json)
    next(k for k in wrong["stalls"]["kernels"] if k["diagnoses"])["diagnoses"][0]["signs"][0]["value"] *= 1.01
    assert oracle.check(trace([made(rng, 0)]), wrong)


@pytest.mark.parametrize("other, found", [
    ({}, "no_tensor_cores"), ({"kernel": "Conv2d(float*)"}, "no_tensor_cores"), ({"kernel": "polynomial(float*)"}, "instructions"), ({"kernel": "convert(float*)"}, "instructions"),
    ({"matrix": 1}, "instructions"), ({"issued_multiply": 7_000}, "instructions"), ({"not_issued": 6_000}, None)])
def test_no_tensor_cores(tmp_path, other, found):
    """A matrix product of multiply-adds, and what lacks one of its signs."""
    k = {"kernel": "sgemm(float*)", "kernel_mangled": "_Z5sgemmPf", "grid": 1056, "block": 256, "samples": 100_000, "not_issued": 10_000, "selected": 15_000, "not_selected": 60_000,
         "wait": 25_000, "reason": "wait", "waiting": 20_000, "waiting_issued": 10_000, "sm_us": 132_000, "duration_us": 1000, "guarded": 0, "diverged": 0, "issued_memory": 100,
         "issued_multiply": 12_000, "matrix": 0, **other}
    if "not_issued" in other:
        k |= {"not_issued": 60_000, "not_selected": 10_000, "wait": 75_000}
    r = Report(tmp_path, trace([k]))
    assert r.first(k["kernel"]) == found
    assert found != "no_tensor_cores" or "80.0 % of the issued instructions are multiply-adds, and none uses tensor cores; an instruction is issued in 90.0 %" in r.text()


# The diagnoses of a kernel with these signs.
BASE = {"kernel": "k()", "kernel_mangled": "_Z1kv", "grid": 1056, "block": 256, "samples": 1_000_000, "sm_us": 132_000, "duration_us": 1000, "guarded": 0, "diverged": 0,
        "issued_memory": 10, "issued_multiply": 0, "matrix": 0}


@pytest.mark.parametrize("issued, found", [(0, "contended_atomic"), (19, "contended_atomic"), (400, None)])
def test_longest_waits(tmp_path, issued, found):
    """The longer a wait, the fewer samples issued: then it takes at least as long as with 20 of them."""
    k = {**BASE, "not_issued": 1_000_000 - 16 * issued, "selected": issued, "long_scoreboard": 900_000, "wait": 100_000 - issued, "for_atomic": 400_000, "for_global_load": 400_000, "reason": "long_scoreboard",
         "waiting": 800_000, "waiting_issued": issued}
    r = Report(tmp_path, trace([k]))
    assert r.first("k()") == found
    assert not found or "a wait takes at least 40,000 cycles" in r.text()
    assert "wait_cycles" not in r.of["k()"] or issued >= 20


def test_order(tmp_path):
    """Samples are of busy multiprocessors: their share counts only for these. Problems come before limits."""
    k = {**BASE, "grid": 40, "duration_us": 1000 / 0.3, "not_issued": 900_000, "selected": 50_000, "long_scoreboard": 800_000, "wait": 150_000, "for_global_load": 780_000,
         "reason": "long_scoreboard", "waiting": 800_000, "waiting_issued": 2000}
    assert [d["diagnosis"] for d in Report(tmp_path, trace([k])).of["k()"]["diagnoses"]] == ["small_grid", "memory_latency"]
    # With registers: 2 blocks of 8 warps per multiprocessor. 300 blocks are 1.1 waves; 40 are less than one.
    k |= {"grid": 300, "duration_us": 1000 / 0.7, "mio_throttle": 700_000, "for_special": 700_000, "long_scoreboard": 0, "for_global_load": 0, "wait": 250_000, "reason": "mio_throttle"}
    for grid, found in (300, ["tail", "special_functions"]), (40, ["special_functions"]):
        lines = trace([{**k, "grid": grid}])
        next(x for x in lines if x["type"] == "gpu")["registers"] = 96
        assert [d["diagnosis"] for d in Report(tmp_path, lines).of["k()"]["diagnoses"]] == found


@pytest.mark.parametrize("grid, busy, found", [(290, 0.6, "tail"), (528, 0.6, None), (290, 0.9, None)])
def test_tail(tmp_path, grid, busy, found):
    """1.1 waves of blocks: known if the program queried its occupancy, or with --gpu-time."""
    k = {"kernel": "k()", "kernel_mangled": "_Z1kv", "grid": grid, "block": 256, "samples": 100_000, "not_issued": 60_000, "selected": 40_000, "wait": 60_000, "reason": "wait",
         "waiting": 60_000, "waiting_issued": 40_000, "sm_us": 132_000, "duration_us": 1000 / busy, "guarded": 0, "diverged": 0, "issued_memory": 0}
    head, *lines = trace([k])
    answers = (("cuDeviceGetAttribute", {"pi": 132, "attrib": "CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT", "dev": 0}), ("cuDeviceComputeCapability", {"major": 9, "minor": 0, "dev": 0}),
               ("cuOccupancyMaxActiveBlocksPerMultiprocessor", {"numBlocks": 2, "func": "0x1", "blockSize": 256, "dynamicSMemSize": 0}))
    asked = [{"ts": 0.1 * (i + 1), "type": "occupancy" if "Occupancy" in name else "device", "op": "query", "name": name, "symbol": name, "pid": 42, "tid": 42, "comm": "kernels", "id": 100 + i, "duration_us": 1, "result": 0, "args": args}
             for i, (name, args) in enumerate(answers)]
    lines[-1] |= {"events": collections.Counter(x["type"] for x in [*asked, *lines[:-1]]), "calls": 4, "entries": 4}
    r = Report(tmp_path, [head, *asked, *lines])
    assert r.json["kernels"]["list"][0]["tail_share"] == pytest.approx(0.45 if grid == 290 else 0, abs=0.01)
    assert r.first("k()") == found
    # The same without queries, if executions have registers: of 64 warps 20 fit, which are 2 blocks of 8.
    head, *lines = trace([k])
    execution = next(x for x in lines if x["type"] == "gpu")
    execution["registers"] = 96
    assert Report(tmp_path, [head, *lines]).first("k()") == found
    # Two kernels of one name, with other registers: not known.
    lines.insert(-1, {**execution, "ts": execution["ts"] + execution["duration_us"] / 1000, "duration_us": 0.001, "registers": 32})
    lines[-1]["events"] = collections.Counter(x["type"] for x in lines[:-1])
    assert Report(tmp_path, [head, *lines]).first("k()") is None
