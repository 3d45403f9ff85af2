# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# timeout: 600
# takes: 20
"""cuDNN: each execution has its plan's operation, from the plan's descriptors, and each convolution of the older interface has its own.
Sizes, types and operations are as for matrix products. Tested with mocks, and with the real libraries if nvcc is installed."""
import json
import os
import subprocess

import pytest
from helpers.jsonl import Trace
from helpers.run import CC, CUDATRACE, FAKE, O, TESTS, Ran, cudatrace, needs_tracing
from test_blas import real_folders

SOURCES = TESTS + "/blas/"
GRAPH, OPS, CNN = "libcudnn_graph.so.9", "libcudnn_ops.so.9", "libcudnn_cnn.so.9"
F16, F32, C32 = "CUDA_R_16F", "CUDA_R_32F", "CUBLAS_COMPUTE_32F"
CONV = 2 * 6272 * 64 * 288 * 2
# op, m, n, k, batch, A, B, C, compute
PLANS = [("convolution_forward", 6272, 64, 288, 2, F16, F16, F16, C32),
         ("convolution_backward_data", 6272, 288, 64, 2, F16, F16, F16, C32),
         ("convolution_backward_filter", 64, 288, 6272, 2, F16, F16, F16, C32),
         ("gemm", 128, 256, 64, 12, F16, F16, F32, C32)]
CLASSIC = [("convolution_forward", 1568, 16, 75, 1, F32, F32, F32, C32),
           ("convolution_backward_data", 1568, 75, 16, 1, F32, F32, F32, C32),
           ("convolution_backward_filter", 16, 75, 1568, 1, F32, F32, F32, C32),
           ("convolution_forward", 1568, 16, 75, 1, F32, F32, F32, C32)]
NAMES = ["cudnnBackendExecute"] * 4 + ["cudnnConvolutionForward", "cudnnConvolutionBackwardData", "cudnnConvolutionBackwardFilter",
                                       "cudnnConvolutionBiasActivationForward"]
UNKNOWN = ("execute", *[None] * 8)


@pytest.fixture(scope="module")
def program():
    folder = os.environ["TMP"] + "/dnn"
    os.makedirs(folder, exist_ok=True)
    link = [*CC, "-O1", "-w", f"-L{FAKE}", f"-L{folder}"]
    so = [*link, "-fPIC", "-shared"]
    subprocess.run([*so, "-DLT", "-Wl,-soname,libcublasLt.so.13", "-o", folder + "/libcublasLt.so.13", SOURCES + "libcublas.c", "-lcuda"], check=True)
    subprocess.run([*so, "-Wl,-soname,libcublas.so.13", "-o", folder + "/libcublas.so.13", SOURCES + "libcublas.c", "-l:libcublasLt.so.13", "-lcuda"], check=True)
    for name, part in ((GRAPH, "GRAPH"), (OPS, "OPS"), (CNN, "CNN")):
        subprocess.run([*so, f"-D{part}", f"-Wl,-soname,{name}", "-o", f"{folder}/{name}", SOURCES + "libcudnn.c", "-l:libcublas.so.13", "-lcuda"], check=True)
    subprocess.run([*link, "-o", folder + "/plans", SOURCES + "plans.c", "-ldl"], check=True)
    return folder


def traced(tmp_path, folder, *args):
    needs_tracing()
    path = str(tmp_path / "t.jsonl")
    ran = Ran([CUDATRACE, "-q", "--probe=uprobe", *args, "--jsonl", path, "--", folder + "/plans", folder, GRAPH, OPS, CNN, FAKE],
              env={"LD_LIBRARY_PATH": f"{folder}:{FAKE}:{O}/cupti"})
    assert ran.status == 0, ran
    t = Trace(path)
    assert t.accounts(missed=("depth",))
    return path, t


def work(e):
    return (e["op"], *(e.get(x) for x in ("m", "n", "k", "batch", "a_type", "b_type", "c_type", "compute_type")))


def done(t):
    return [e for e in t.calls if e.get("api") == "cudnn" and (e["name"] == "cudnnBackendExecute" or e["op"].startswith("conv"))]


def test_plans(tmp_path, program):
    _, t = traced(tmp_path, program, "-e", "cublas,cudnn,transfer")
    got = done(t)
    assert [e["name"] for e in got[:8]] == NAMES
    assert [work(e) for e in got[:8]] == PLANS + CLASSIC
    flops = [CONV] * 3 + [2 * 12 * 128 * 256 * 64] + [2 * 1568 * 16 * 75] * 4
    assert [e["flops"] for e in got[:8]] == flops
    # A plan from heuristics, whose descriptors were destroyed; then cuBLAS computes it, and once more after the plan was destroyed.
    assert [(work(e), e.get("flops")) for e in got[8:11]] == [(PLANS[0], CONV), (PLANS[0], None), (UNKNOWN, None)]
    assert [e["flops"] for e in t.calls if e["name"] == "cublasSgemm"] == [2 * 2 * 2 * 2]
    # Two products around a reduction; then cuDNN's own attention operation, with fewer heads for keys and values.
    heads = 2 * 2 * 12 * 128 * 256
    assert [(*work(e)[:6], e["flops"]) for e in got[11:13]] == [("attention_forward", 128, 256, 64, 24, F16, heads * (64 + 32))] * 2
    assert [(*work(e)[:5], e["flops"]) for e in got[13:15]] == [("gemm", 128, 256, 64, 24, heads * 64), ("gemm", 128, 256, 64, 24, 2 * heads * 64)]
    # A plan from JSON, from itself, from nothing; a negative dimension, dimensions that are too large; no product; more operations than
    # are read; other shapes; no handle.
    none = [None] * 8
    assert [work(e) for e in got[15:]] == [
        UNKNOWN, UNKNOWN, UNKNOWN, ("gemm", *none), ("gemm", *none), ("reduction", *none), ("gemm", 128, 256, 64, 12, F16, F16, F16, C32),
        ("gemm", *none), ("gemm", 128, 256, 64, 12, F16, F16, F16, C32)]
    assert not any("flops" in e for e in got[15:]) and got[-1]["error"] == "CUDNN_STATUS_BAD_PARAM"
    # The value of an attribute is not shown, because most are shorter than what is read.
    assert all(e["args"]["arrayOfElements"].startswith("0x") for e in t.calls if e["name"] == "cudnnBackendSetAttribute")


def test_redacted(tmp_path, program):
    _, t = traced(tmp_path, program, "-e", "cudnn", "--no-args")
    assert len(done(t)) > 20 and not any("m" in e or "flops" in e for e in t.calls)
    assert {e["op"] for e in done(t) if e["name"] == "cudnnBackendExecute"} == {"execute"}


def test_short_calls(tmp_path, program):
    """Short calls that make a plan must be evaluated, although they have no line."""
    _, t = traced(tmp_path, program, "-e", "cudnn", "--min-duration=1us", "--detail=low")
    made = [e for e in done(t) if e["name"] == "cudnnBackendExecute" and e.get("flops") == CONV]
    assert made and {e["op"] for e in made} <= {p[0] for p in PLANS}


def test_report(tmp_path, program):
    path, _ = traced(tmp_path, program, "-e", "cudnn,transfer", "--gpu-time")
    report = json.loads(cudatrace("report", "--format=json", path).out)
    rows = report["gemms"]
    # cuBLAS is not traced, so its product counts as the plan's.
    assert rows["unknown_plans"] == 4 and rows["count"] == 14
    by = {(x["name"], x["op"]): x for x in rows["list"]}
    x = by["cudnnBackendExecute", "convolution_forward"]
    assert (x["count"], x["gpu_executions"]) == (3, 3) and x["flops"] == pytest.approx(3 * CONV, rel=1e-5) and x["tflops"] > 0 and x["peak_type"] == "FP16"
    assert sorted((round(x["flops"], -6), x["count"]) for x in rows["list"] if x["op"] == "gemm" and x["batch"] == 24) == [(101e6, 1), (201e6, 1)]
    assert {op for _, op in by} == {"convolution_forward", "convolution_backward_data", "convolution_backward_filter", "gemm", "attention_forward"}
    nodes = report["map"]["nodes"]
    assert rows["flops"] == sum(n.get("flops", 0) for n in nodes if n["kind"] == "call" and n["name"].startswith("cudnn"))
    out = " ".join(cudatrace("report", "--full", path).out.split())
    assert "R_16F conv 1" in out and "4 executions of cuDNN plans are not included" in out


@pytest.mark.parametrize("folder", real_folders(GRAPH))
@pytest.mark.parametrize("libs", [(GRAPH, OPS, CNN), ("libcudnn.so.9",) * 3], ids=["parts", "whole"])
def test_real(tmp_path, libs, folder):
    """The real libraries must accept these descriptors. Without a GPU nothing is executed. libcudnn.so.9 jumps to the other libraries."""
    needs_tracing()
    if not folder:
        pytest.skip(f"no {GRAPH} beside nvcc, nor in $NVIDIA_LIBS")
    program, path = str(tmp_path / "plans"), str(tmp_path / "t.jsonl")
    subprocess.run([*CC, "-O1", "-w", "-o", program, SOURCES + "plans.c", "-ldl"], check=True)
    ran = Ran([CUDATRACE, "-q", "--probe=uprobe", "-e", "cudnn", "--jsonl", path, "--", program, folder, *libs], timeout=300,
              env={"LD_LIBRARY_PATH": f"{folder}:{FAKE}"})
    if ran.status == 77:
        pytest.skip("one of the libraries cannot be loaded")
    assert ran.status == 0, ran
    got = done(Trace(path))
    assert [e["name"] for e in got] == NAMES and [work(e) for e in got] == PLANS + CLASSIC
    assert all(e["error"] == "CUDNN_STATUS_BAD_PARAM" and "flops" not in e for e in got)
