# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# timeout: 600
# takes: 20
"""cuBLAS, cuBLASLt, cuDNN and the runtime are not traced by default. Each matrix product is counted once, with sizes, types, operations
and GPU time. Tested with mocks, and with the real libraries if nvcc is installed."""
import glob
import json
import os
import re
import shutil
import subprocess

import pytest
from helpers.jsonl import Trace
from helpers.run import CC, CUDATRACE, FAKE, O, TESTS, Ran, cudatrace, needs_tracing

SOURCES = TESTS + "/blas/"


@pytest.fixture(scope="module")
def program():
    folder = os.environ["TMP"] + "/blas"
    os.makedirs(folder, exist_ok=True)
    link = [*CC, "-O1", "-w", f"-L{FAKE}", f"-L{folder}"]
    subprocess.run([*link, "-fPIC", "-shared", "-DLT", "-Wl,-soname,libcublasLt.so.13", "-o", folder + "/libcublasLt.so.13", SOURCES + "libcublas.c", "-lcuda"], check=True)
    subprocess.run([*link, "-fPIC", "-shared", "-Wl,-soname,libcublas.so.13", "-o", folder + "/libcublas.so.13", SOURCES + "libcublas.c",
                    "-l:libcublasLt.so.13", "-lcuda"], check=True)
    subprocess.run([*link, "-o", folder + "/products", SOURCES + "products.c", "-l:libcublas.so.13", "-l:libcublasLt.so.13", "-lcuda"], check=True)
    return folder


def traced(tmp_path, folder, *args):
    needs_tracing()
    path = str(tmp_path / "t.jsonl")
    ran = Ran([CUDATRACE, "-q", "--probe=uprobe", *args, "--jsonl", path, "--", folder + "/products"], env={"LD_LIBRARY_PATH": f"{folder}:{FAKE}:{O}/cupti"})
    assert ran.status == 0, ran
    t = Trace(path)
    assert t.accounts(missed=("depth",))
    return path, t


def test_off(tmp_path, program):
    for args in (["--detail=all", "-e", "!cu[FP]*[LI]*[de]"], ["-e", "memory,query"], ["-e", "cuM*"]):
        _, t = traced(tmp_path, program, *args)
        assert t.calls and not [e for e in t.calls if "api" in e], args


def test_products(tmp_path, program):
    _, t = traced(tmp_path, program, "-e", "cublas,transfer")
    got = [(e["name"], *(e.get(x) for x in ("m", "n", "k", "batch", "a_type", "b_type", "c_type", "compute_type", "flops"))) for e in t.calls if e.get("api") == "cublas"]
    f32 = ["CUDA_R_32F"] * 3
    sgemm = ("cublasSgemm", 100, 50, 25, 1, *f32, None, 250000)
    assert got == [
        sgemm, sgemm, sgemm,
        # An inner call: its operations count for the outer one. A call's line is written when it returns.
        ("cublasLtMatmul", 10, 20, 30, 1, "CUDA_R_16F", "CUDA_R_16F", "CUDA_R_32F", "CUBLAS_COMPUTE_32F", None),
        ("cublasGemmEx", 10, 20, 30, 1, "CUDA_R_16F", "CUDA_R_16F", "CUDA_R_32F", "CUBLAS_COMPUTE_32F", 12000),
        # The call has 23 arguments: A's type is beyond the recorded ones.
        ("cublasGemmStridedBatchedEx", 10, 20, 30, 7, None, "CUDA_R_16BF", "CUDA_R_16BF", "CUBLAS_COMPUTE_32F", 84000),
        ("cublasCgemmStridedBatched", 2, 3, 4, 5, *["CUDA_C_32F"] * 3, None, 8 * 2 * 3 * 4 * 5),
        sgemm[:-1] + (None,),
        ("cublasSgemm", *[None] * 9),
    ]
    failed = [e for e in t.calls if e.get("error")]
    assert [e["error"] for e in failed] == ["CUBLAS_STATUS_NOT_INITIALIZED"]
    by_id = {e["id"]: e for e in t.calls}
    assert [by_id[e["parent"]]["name"] for e in t.calls if e["type"] == "transfer"][:3] == ["cublasSgemm"] * 3
    args = {e["name"]: e["args"] for e in t.calls if e.get("api") == "cublas" and not e.get("error")}
    strided = args["cublasGemmStridedBatchedEx"]
    assert strided["batchCount"] == 7 and strided["ldb"] == 30 and strided["transa"] == "CUBLAS_OP_N"
    # The call has 19 arguments: two in the middle and the last one are not recorded.
    ex, c = args["cublasGemmEx"], int(args["cublasSgemm"]["C"], 16)
    assert [int(ex[x], 16) - c for x in "ABC"] == [256, 512, 0] and (ex["lda"], ex["ldc"]) == (10, 10)
    assert {k for k, v in ex.items() if v is None} | {"ldb", "beta", "algo"} - set(ex) == {"ldb", "beta", "algo"}, ex


def test_gpu_time(tmp_path, program):
    path, t = traced(tmp_path, program, "-e", "cublas,transfer", "--gpu-time")
    gpu = sum(e["duration_us"] for e in t.ev if e["type"] == "gpu") * 1e3
    assert gpu
    out = str(tmp_path / "o.json")
    assert cudatrace("report", "--format=json", "-o", out, path).status == 0
    with open(out, encoding="utf-8") as f:
        report = json.load(f)
    gemms, nodes = report["gemms"], report["map"]["nodes"]
    assert gemms["count"] == 6 and gemms["flops"] == 3 * 250000 + 12000 + 84000 + 960
    assert nodes[0]["flops"] == gemms["flops"] and [n["flops"] for n in nodes if n["name"] == "cublasSgemm"] == [750000]
    rows = {x["name"]: x for x in gemms["list"]}
    # Executions through cublasLt count, too.
    assert {name: x["gpu_executions"] for name, x in rows.items()} == {
        "cublasSgemm": 3, "cublasGemmStridedBatchedEx": 1, "cublasGemmEx": 1, "cublasCgemmStridedBatched": 0}
    s = rows["cublasSgemm"]
    assert s["tflops"] == pytest.approx(750000 / (s["gpu_ns"] * 1e3), rel=1e-3) and s["count"] == 3
    # The mock has 132 multiprocessors (9.0) at 1500 MHz. A call with 32-bit types does not state the type of its arithmetic.
    peak = 4096 * 132 * 1.5e9 / 1e12
    for name, kind in (("cublasGemmEx", "FP16"), ("cublasGemmStridedBatchedEx", "BF16")):
        x = rows[name]
        assert (x["peak_type"], x["peak_clock_mhz"]) == (kind, 1500) and x["peak_tflops"] == pytest.approx(peak)
        assert x["peak_share"] == pytest.approx(x["tflops"] / peak)
    assert "peak_tflops" not in s and "peak_tflops" not in rows["cublasCgemmStridedBatched"]
    # No peak is given for an unknown device.
    with open(path, encoding="utf-8") as f:
        lines = f.readlines()
    unknown = tmp_path / "unknown.jsonl"
    unknown.write_text("".join(line for line in lines if '"type":"gpu_device"' not in line))
    assert '"tflops"' in (said := cudatrace("report", "--format=json", unknown).out) and "peak" not in json.dumps(json.loads(said)["gemms"])
    ran = cudatrace("report", "--full", path)
    assert "Peak of BF16: 811 TFLOP/s, dense: 132 multiprocessors at 1500 MHz, Mock GPU" in re.sub(r"\s+", " ", ran.out)
    assert ran.status == 0 and "Matrix products: 6" in ran.out and "100 50 25 R_32F Sgemm" in ran.out


def real_folders(lib):
    """Folders that have this library: beside nvcc, and those of $NVIDIA_LIBS (other versions, as in the lib/ of a wheel); or None."""
    return [x for x in [beside_nvcc(), *os.environ.get("NVIDIA_LIBS", "").split(":")] if x and glob.glob(f"{x}/{lib}")] or [None]


def beside_nvcc():
    nvcc = shutil.which("nvcc")
    root = os.path.dirname(os.path.dirname(os.path.realpath(nvcc))) if nvcc else ""
    for lib in ("/lib", "/lib64"):
        if root and os.path.exists(root + lib + "/libcublas.so.13"):
            return root + lib
    return None


@pytest.mark.parametrize("lib,prefix,most", [("libcublas.so.13", "cublas", 10), ("libcublasLt.so.13", "cublas", 150), ("libcudnn_graph.so.9", "cudnn", 8),
                                             ("libcudnn_ops.so.9", "cudnn", 0), ("libcudart.so.13", "cuda", 3)])
def test_tables_have_real_exports(lib, prefix, most):
    """All exports of a real library have rows, except at most MOST; exports without a row are traced with raw arguments."""
    folder = beside_nvcc()
    if not folder or not os.path.exists(f"{folder}/{lib}"):
        pytest.skip(f"no {lib} beside nvcc")
    table = subprocess.run(["nm", "-D", "--defined-only", f"{folder}/{lib}"], capture_output=True, text=True, check=True).stdout
    exports = {line.split()[-1].split("@")[0] for line in table.splitlines() if line.split()[1] in "TW"}
    exports = {x for x in exports if x.removeprefix("__").startswith(prefix) and x.removeprefix("__")[len(prefix)].isupper()}
    rows = set()
    for api in ("cublas", "cudnn", "cudart"):
        rows |= {r["symbol"] for r in json.loads(cudatrace("list", "--json", "-e", api).out) if r["known"]}
    assert len(exports) > 30 and len(exports - rows) <= most, sorted(exports - rows)


@pytest.mark.parametrize("folder", real_folders("libcublasLt.so.*"))
def test_real_libraries(tmp_path, folder):
    needs_tracing()
    if not folder:
        pytest.skip("no cuBLAS beside nvcc, nor in $NVIDIA_LIBS")
    program, path = str(tmp_path / "real"), str(tmp_path / "t.jsonl")
    subprocess.run([*CC, "-O1", "-o", program, SOURCES + "real.c", "-ldl"], check=True)
    ran = Ran([CUDATRACE, "-q", "--probe=uprobe", "-e", "cublas,cudart", "--jsonl", path, "--", program, folder], timeout=300,
              env={"LD_LIBRARY_PATH": folder})
    if ran.status == 77:
        pytest.skip("one of the libraries cannot be loaded")
    assert ran.status == 0, ran
    by = {e["name"]: e for e in Trace(path).calls}
    e = by["cublasLtMatmul"]
    assert (e["m"], e["n"], e["k"], e["a_type"], e["c_type"], e["compute_type"]) == (128, 32, 64, "CUDA_R_16F", "CUDA_R_32F", "CUBLAS_COMPUTE_32F")
    assert e["error"] and "flops" not in e
    e = by["cublasGemmStridedBatchedEx"]
    assert (e["m"], e["n"], e["k"], e["batch"], e["c_type"]) == (10, 20, 30, 7, "CUDA_R_16BF")
    if glob.glob(f"{folder}/libcudart.so.*"):
        assert by["cudaRuntimeGetVersion"]["api"] == "cudart"
