# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# takes: 40
"""No thread may lose calls: the trace must match the mock driver's counts for each thread (FAKE_TID_COUNTS). Tests every kind of
load, and every way in which a call can end."""
import collections
import json
import os
import sys

import pytest
from helpers.jsonl import Trace
from helpers.live import compiled
from helpers.run import ALL, CASES, FAKE, FAKE535, MECHANISMS, TESTS, cudatrace, needs_mechanism, needs_tracing, passes, script

LIB = FAKE + "/libcuda.so.1"
PER_THREAD = TESTS + "/cases/per_thread.py"
# Attaching hundreds of single perf events takes long.
FEW = "cuInit,cuDeviceGet,cuDevicePrimaryCtxRetain,cuCtxSetCurrent,cuMemAlloc,cuMemsetD8,cuMemFree"


@pytest.fixture(autouse=True, scope="module")
def can_trace():
    needs_tracing()


class Traced:
    def __init__(self, folder, *program, options=(), env=None):
        self.path, self.tids = folder / "t.jsonl", folder / "tids"
        cudatrace("-q", "-e", ALL, "--buffer-size", "64M", *options, "--jsonl", self.path, "--", *program,
                  env={"LD_LIBRARY_PATH": FAKE, "FAKE_TID_COUNTS": str(self.tids), **(env or {})})

    def agrees(self, *flag):
        """The trace must agree with the driver's counts, in each thread and in total."""
        print(passes("cases/per_thread.py", *flag, self.path, self.tids))
        trace = Trace(self.path)
        assert trace.accounts(drops=flag in (("--drops",), ("--killed",)))
        return trace


@pytest.mark.parametrize("mech", MECHANISMS)
def test_eight_threads(tmp_path, mech):
    needs_mechanism(mech)
    Traced(tmp_path, CASES + "/threads", options=[f"--mechanism={mech}", *(["-e", FEW] if mech == "perf" else [])]).agrees()


def test_entry_points_of_535(tmp_path):
    Traced(tmp_path, CASES + "/threads", env={"LD_LIBRARY_PATH": FAKE535}).agrees()


@pytest.mark.parametrize("case", ["streams_events", "fork", "exec", "exit_in_call", "longjmp", "nested"])
def test_case(tmp_path, case):
    Traced(tmp_path, f"{CASES}/{case}").agrees()


def test_inference(tmp_path):
    Traced(tmp_path, FAKE + "/sample", "--threads", 8, "--tokens", 20, "--quiet").agrees()


@pytest.fixture(scope="module")
def life():
    return compiled(os.environ["TMP"] + "/life", TESTS + "/faults/life.c")


# siglongjmp out of calls; processes killed in a call ...
@pytest.mark.parametrize("flag,what", [([], ["threads", 1000]), ([], ["procs", 500]), ([], ["vfork", 20]), ([], ["cancel", 10]), (["--left"], ["jump", 30]),
                                       ([], ["kill", 10]), ([], ["crash"]), ([], ["exec"])], ids=lambda x: " ".join(map(str, x)))
def test_life(tmp_path, life, flag, what):
    Traced(tmp_path, life, LIB, *what).agrees(*flag)


@pytest.mark.parametrize("probe", ["uprobe", "inject"])
def test_names(tmp_path, life, probe):
    """Each of many threads must have its name in all of its lines, even if it ends before its lines are written."""
    cudatrace("-q", "--no-summary", "-e", ALL, "--probe", probe, "--buffer-size", "64M", "--jsonl", tmp_path / "t.jsonl", "--", life, LIB, "threads", 1000)
    names = collections.defaultdict(set)
    for e in Trace(tmp_path / "t.jsonl").calls:
        names[e["tid"]].add(e["comm"])
    assert sorted(map(sorted, names.values())) == sorted([f"life {i}"] for i in range(1000))


@pytest.mark.parametrize("probe", ["uprobe", "inject"])
def test_short(tmp_path, life, probe):
    """No first call of a thread may be dropped because the process's other threads end at that moment."""
    cudatrace("-q", "-e", ALL, "--probe", probe, "--buffer-size", "64M", "--jsonl", tmp_path / "t.jsonl", "--", life, LIB, "short", 40000)
    t = Trace(tmp_path / "t.jsonl")
    assert t.end["drops"]["threads"] == 0 and t.sym["cuDriverGetVersion"] == 40000 and t.accounts(), t.end


def test_last_threads(tmp_path, life):
    """If threads exit at the same time, so that each may be the last one, their process must end once."""
    ops = collections.Counter(e["op"] for e in Traced(tmp_path, life, LIB, "leave", 500).agrees().proc)
    assert ops["fork"] == 500 and ops["exit"] == 501


@pytest.mark.parametrize("old", ['"symbol":', '"result":0'], ids=["less", "left"])
def test_wrong_by_one_call(tmp_path, life, old):
    """The check must fail if a call is missing, or if one did not return."""
    t = Traced(tmp_path, life, LIB, "exec")
    t.agrees()
    lines = t.path.read_text().splitlines(keepends=True)
    i = next(i for i, line in enumerate(lines) if old in line)
    lines[i] = "" if old == '"symbol":' else lines[i].replace(old, "", 1).replace(",,", ",").replace(",}", "}")
    t.path.write_text("".join(lines))
    assert script(PER_THREAD, t.path, t.tids)[0] == 1


NO_SEM = {"FAKE_NO_SEM": "1"}


def test_full_speed(tmp_path):
    Traced(tmp_path, CASES + "/many", "cuMemFree_v2", 50000, 4, options=["--buffer-size", "256M"], env=NO_SEM).agrees()


def test_full_speed_in_a_small_ring(tmp_path):
    t = Traced(tmp_path, CASES + "/many", "cuMemFree_v2", 50000, 4, options=["--buffer-size", "64K"], env=NO_SEM)
    assert t.agrees("--drops").end["drops"]["calls"] > 0


def test_killed_at_full_speed(tmp_path):
    Traced(tmp_path, "sh", "-c", 'for i in 1 2 3 4; do timeout -s KILL 0.08 "$@"; done; :', "sh", CASES + "/many", "cuMemFree_v2", 100000000, 2,
           options=["--buffer-size", "256M"], env=NO_SEM).agrees("--killed")


def test_reused_addresses(running, tmp_path):
    """A thread may get an address before the record of its release by another thread: twenty programs' live memory must be right to the byte."""
    jsonl, chrome = tmp_path / "reuse.jsonl", tmp_path / "reuse.json"
    running.caller()
    cudatrace("-q", "-e", "memory,init", "--buffer-size", "64M", "--jsonl", jsonl, "--chrome", chrome, "--",
              "sh", "-c", 'for i in $(seq 20); do printf "open libcuda.so.1\\ninit\\nthreads 48 100\\n" | "$0"; done', running.program, env={"LD_LIBRARY_PATH": FAKE})
    trace = Trace(jsonl)
    assert trace.sym["cuMemFree_v2"] == 20 * 4800 and trace.accounts()
    seen = collections.defaultdict(list)
    for e in json.loads(chrome.read_text()):
        if e["ph"] == "C" and e["name"] == "device memory":
            seen[e["pid"]].append(e["args"]["bytes"])
    assert len(seen) == 20 and not {p: v[-3:] for p, v in seen.items() if v[-1] != 0 or max(v) > 48 * 4096}


def test_destroyed_contexts(tmp_path):
    """A context's memory must go with it: if it is destroyed, or if a primary context is released for the last time."""
    ran = cudatrace("-q", "-e", "init,context,memory", "--libcuda", LIB, "--jsonl", tmp_path / "t.jsonl", "--summary", "--json", "--",
                    sys.executable, TESTS + "/faults/contexts.py", LIB)
    device = json.loads(ran.err)["memory"][0]
    assert (device["allocated"], device["peak"], device["at_end"]) == (1052672, 1048576, 0)
