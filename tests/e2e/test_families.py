# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# takes: 20
"""Families of libraries other than the driver: NCCL and NVSHMEM, as mocks and real ones. Driver calls made by them stay hidden details in all
sums. Case nccl of test_cases.py tests the calls themselves."""
import collections
import ctypes.util
import json
import os
import re
import subprocess
import sys

import pytest
from helpers.jsonl import Trace
from helpers.live import compiled
from helpers.run import CASES, FAKE, cudatrace, needs_tracing
from test_blas import real_folders

ENV = {"LD_LIBRARY_PATH": FAKE}


@pytest.fixture(scope="module")
def traced():
    """The case's trace with -e all, and its summary as JSON."""
    needs_tracing()
    path = os.environ["TMP"] + "/nccl.jsonl"
    ran = cudatrace("-q", "-e", "all", "--jsonl", path, "--summary", "--json", "--", CASES + "/nccl", env=ENV)
    assert ran.status == 0, ran
    return path, Trace(path), json.loads([line for line in ran.err.split("\n") if line.startswith("{")][0])


def report(path, *args):
    ran = cudatrace("report", "--format=json", *args, path)
    assert ran.status == 0, ran
    return json.loads(ran.out)


def test_top_level(traced):
    """Launches inside collectives must count as launches in the summary and the report; driver times are only the driver's own."""
    path, trace, summary = traced
    launches = [e for e in trace.calls if e["symbol"] == "cuLaunchKernel"]
    assert len(launches) == 9 and all(e["depth"] == 1 and e["api_depth"] == 0 for e in launches)
    by_id = {e["id"]: e for e in trace.calls}
    assert {by_id[e["parent"]]["symbol"] for e in launches} == {
        "ncclAllReduce", "ncclAllGather", "ncclReduceScatter", "ncclBroadcast", "ncclReduce", "ncclSend", "ncclGroupEnd"}
    driver_ns = sum(round(e["duration_us"] * 1000) for e in trace.calls if "api" not in e)
    said = report(path)
    assert said["overview"]["call_ns"] == driver_ns
    assert summary["call_ms"] == float(f"{driver_ns / 1e6:.6g}")  # 6 significant digits
    shares = {c["class"]: c["share"] for c in said["overview"]["classes"]}
    assert shares.pop("collective") == 0 and abs(sum(shares.values()) - 1) < 1e-4  # 6 significant digits each
    assert said["overview"]["launches"] == 9


def test_detail_low():
    """The lowest level must have collectives and their launches with kernel names, but no NCCL queries."""
    needs_tracing()
    path = os.environ["TMP"] + "/low.jsonl"
    ran = cudatrace("-q", "--detail=low", "--jsonl", path, "--", CASES + "/nccl", env=ENV)
    assert ran.status == 0, ran
    calls = Trace(path).calls
    symbols = collections.Counter(e["symbol"] for e in calls)
    assert symbols["ncclAllReduce"] == 9 and symbols["ncclGroupEnd"] == 6 and not symbols["ncclGetVersion"], symbols
    assert [e["kernel"] for e in calls if e["symbol"] == "cuLaunchKernel"] == ["ncclDevKernel_AllReduce_Sum_f32_RING_LL"] * 9
    assert not {e["op"] for e in calls} & {"query", "set", "record", "wait"}


def test_memory(traced):
    """Memory that NCCL allocates through the driver must count once."""
    path, trace, _ = traced
    live = 0
    for e in trace.calls:
        if e["symbol"] == "cuMemAlloc_v2":
            live += e["size"]
        elif e["symbol"] == "cuMemFree_v2":
            live -= 8192
    memory = report(path)["memory"]
    assert [k["live_bytes"] for k in memory["kinds"] if k["kind"] == "device"] == [live], memory


def test_chosen(traced):
    """-e must accept classes and names of every family; families without a selected function are not attached to."""
    path = os.environ["TMP"] + "/chosen.jsonl"
    for functions, wanted in (("collective", lambda e: e["type"] == "collective"),
                              ("all,!collective", lambda e: e["type"] != "collective"),
                              ("ncclGroup*,cuLaunchKernel", lambda e: e["symbol"].startswith(("ncclGroup", "cuLaunchKernel")))):
        ran = cudatrace("-q", "-e", functions, "--jsonl", path, "--", CASES + "/nccl", env=ENV)
        assert ran.status == 0, ran
        got = Trace(path)
        assert got.accounts()
        assert got.sym == collections.Counter(e["symbol"] for e in traced[1].calls if wanted(e)), functions
        assert any("libnccl" in lib["path"] for lib in got.lib) == any("api" in e for e in got.calls), got.lib


def test_list():
    """list must give the family, and how this file's exports compare."""
    rows = json.loads(cudatrace("list", "--json", "-e", "nccl*", env=ENV).out)
    assert len(rows) > 70 and {r["api"] for r in rows} == {"nccl"} and {r["class"] for r in rows} == {"collective"}
    assert all(r["exported"] for r in rows), [r for r in rows if not r["exported"]]
    assert {r["api"] for r in json.loads(cudatrace("list", "--json", "-e", "cu*", env=ENV).out)} == {"cuda"}


def real_nccl():
    """A real libnccl.so.2 of NVIDIA, from the linker's cache or else from the folders of Python packages."""
    found = ctypes.util.find_library("nccl")
    if found:
        return found
    for folder in sys.path:
        path = folder + "/nvidia/nccl/lib/libnccl.so.2"
        if os.path.exists(path):
            return path
    return None


def test_real_communicators(tmp_path):
    """The location of the rank in a communicator must be found in a real libnccl's code, and in the mock driver's."""
    needs_tracing()
    lib = real_nccl()
    if not lib or os.uname().machine != "x86_64":
        pytest.skip("no libnccl.so.2 of x86-64 here")
    ran = cudatrace("-v", "-e", "ncclGetVersion", "--jsonl", tmp_path / "t.jsonl", "--", sys.executable, "-c",
                    "import ctypes, sys; n = ctypes.CDLL(sys.argv[1]); v = ctypes.c_int(); n.ncclGetVersion(ctypes.byref(v)); print(v.value)",
                    lib, timeout=120)
    assert ran.status == 0 and f"NCCL {int(ran.out)}, hash of communicators at 0x" in ran.err, ran


def test_real(tmp_path):
    """A real libnccl's calls that need no GPU must be traced with names, arguments and results."""
    needs_tracing()
    lib = real_nccl()
    if not lib:
        pytest.skip("no libnccl.so.2 here")
    program = ("import ctypes, os, sys\n"
               "n = ctypes.CDLL(sys.argv[1])\n"
               "v = ctypes.c_int()\n"
               "assert n.ncclGetVersion(ctypes.byref(v)) == 0\n"
               "assert n.ncclGetVersion(None) == 4\n"
               "n.ncclGetErrorString(5)\n"
               "assert n.pncclGroupStart() == 0 and n.ncclGroupEnd() == 0\n"
               "assert n.ncclCommDestroy(None) == 0\n"
               "print(v.value)\n")
    path = str(tmp_path / "real.jsonl")
    ran = cudatrace("-q", "-e", "all", "--jsonl", path, "--", sys.executable, "-c", program, lib, timeout=120)
    assert ran.status == 0, ran
    trace = Trace(path)
    calls = [e for e in trace.calls if e.get("api") == "nccl"]
    assert trace.accounts() and [e["symbol"] for e in calls] == [
        "ncclGetVersion", "ncclGetVersion", "ncclGetErrorString", "ncclGroupStart", "ncclGroupEnd", "ncclCommDestroy"]
    assert calls[0]["args"]["version"] == int(ran.out) and "error" not in calls[0]
    assert calls[1]["error"] == "ncclInvalidArgument"
    assert "result" not in calls[2] and calls[2]["args"] == {"result": "ncclInvalidUsage"}


NVSHMEM = """
#include <dlfcn.h>
#ifdef LIBRARY
int nvshmemid_hostlib_init_attr(int requested, int *provided) { *provided = requested; return 0; }
int nvshmem_my_pe(void) { return 3; }
void *nvshmem_malloc(unsigned long size) { return (void *)0x1000; }
int nvshmem_team_split_strided(int parent, int start, int stride, int size, void *config, long mask, int *team) { *team = 7; return 0; }
void nvshmemx_putmem_signal_on_stream(void *dest, void *source, unsigned long bytes, void *sig, unsigned long long signal, int op, int pe, void *stream) {}
int nvshmemx_barrier_on_stream(int team, void *stream) { return 6; }
int nvshmemx_float_sum_reduce_on_stream(int team, void *dest, void *source, unsigned long cnt, void *stream) { return 0; }
#else
int main(void)
{
	void *lib = dlopen("libnvshmem_host.so.3", RTLD_NOW);
	int (*f)() = dlsym(lib, "nvshmemid_hostlib_init_attr"), x;
	long (*g)() = dlsym(lib, "nvshmem_malloc");

	f(2, &x, 5u, (void *)0, 0l, 0l, (void *)0);
	((int (*)())dlsym(lib, "nvshmem_my_pe"))();
	g(4096ul);
	((int (*)())dlsym(lib, "nvshmem_team_split_strided"))(0, 1, 2, 4, (void *)0, 1l, &x);
	((int (*)())dlsym(lib, "nvshmemx_putmem_signal_on_stream"))((void *)0x1000, (void *)0x2000, 64ul, (void *)0x3000, 1ul, 10, 2, (void *)0x55);
	((int (*)())dlsym(lib, "nvshmemx_barrier_on_stream"))(7, (void *)0x55);
	((int (*)())dlsym(lib, "nvshmemx_float_sum_reduce_on_stream"))(0, (void *)0x1000, (void *)0x2000, 16ul, (void *)0x55);
	return 0;
}
#endif
"""


@pytest.fixture(scope="module")
def nvshmem():
    """A program that calls a mock NVSHMEM."""
    needs_tracing()
    folder = os.environ["TMP"]
    with open(folder + "/nvshmem.c", "w", encoding="utf-8") as f:
        f.write(NVSHMEM)
    compiled(folder + "/libnvshmem_host.so.3", folder + "/nvshmem.c", "-shared", "-fPIC", "-DLIBRARY")

    def run(functions):
        path = f"{folder}/nvshmem.jsonl"
        ran = cudatrace("-e", functions, "--jsonl", path, "--", compiled(folder + "/nvshmem", folder + "/nvshmem.c"),
                        env={"LD_LIBRARY_PATH": f"{FAKE}:{folder}"})
        assert ran.status == 0 and "without" not in ran.err, ran
        return [x for x in Trace(path).calls if x.get("api") == "nvshmem"]
    return run


def test_nvshmem(nvshmem):
    """-e nvshmem has the functions with a row; those for one type are traced by name."""
    assert nvshmem("all") == []
    calls = {x["name"]: x for x in nvshmem("nvshmem")}
    assert list(calls) == ["nvshmemid_hostlib_init_attr", "nvshmem_my_pe", "nvshmem_malloc", "nvshmem_team_split_strided",
                           "nvshmemx_putmem_signal_on_stream", "nvshmemx_barrier_on_stream"]
    assert calls["nvshmemid_hostlib_init_attr"]["args"].items() >= {"requested": 2, "provided": 2, "bootstrap_flags": "0x5"}.items()
    assert calls["nvshmem_malloc"]["args"] == {"size": 4096} and "result" not in calls["nvshmem_my_pe"]
    split = calls["nvshmem_team_split_strided"]["args"]
    assert (split["parent_team"], split["PE_stride"], split["PE_size"], split["new_team"]) == ("NVSHMEM_TEAM_WORLD", 2, 4, 7), split
    put = calls["nvshmemx_putmem_signal_on_stream"]
    assert put["stream"] == "0x55" and (put["args"]["bytes"], put["args"]["sig_op"], put["args"]["pe"]) == (64, "NVSHMEM_SIGNAL_ADD", 2), put
    failed = calls["nvshmemx_barrier_on_stream"]
    assert (failed["result"], failed["error"]) == (6, "NVSHMEMX_ERROR_COLLECTIVE_LAUNCH_FAILED"), failed
    reduce, = nvshmem("nvshmemx_*_reduce_on_stream")
    assert (reduce["name"], reduce["args"]["arg3"]) == ("nvshmemx_float_sum_reduce_on_stream", "0x10"), reduce


@pytest.mark.parametrize("folder", real_folders("libnvshmem_host.so.3"))
def test_nvshmem_exports(folder):
    """All functions with a row are exports of the real library, and all its exports but those for one type have rows."""
    if not folder:
        pytest.skip("no NVSHMEM in $NVIDIA_LIBS")
    table = subprocess.run(["nm", "-D", "--defined-only", folder + "/libnvshmem_host.so.3"], capture_output=True, text=True, check=True).stdout
    exports = {line.split()[-1].split("@")[0] for line in table.splitlines() if line.split()[1] in "TW"}
    types = "float|double|half|bfloat16|u?int(8|16|32|64)?|s?char|u?(char|short|long|longlong)|size|ptrdiff"
    general = {x for x in exports if re.match(r"nvshmem(x|id)?_(?!debug_)", x) and not re.match(rf"nvshmemx?_({types})_", x)}
    rows = {r["symbol"]: r["since"] for r in json.loads(cudatrace("list", "--json", "-e", "nvshmem").out)}
    assert general <= rows.keys(), general - rows.keys()
    assert {x for x, since in rows.items() if since == "3.1"} <= exports
