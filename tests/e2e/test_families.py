# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# takes: 20
"""Families of libraries other than the driver: NCCL, as a mock and a real one. Driver calls made by them stay hidden details in all
sums. Case nccl of test_cases.py tests the calls themselves."""
import collections
import ctypes.util
import json
import os
import sys

import pytest
from helpers.jsonl import Trace
from helpers.run import CASES, FAKE, cudatrace, needs_tracing

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
