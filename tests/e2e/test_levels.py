# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# takes: 61
"""Calls that are counted, or recorded at their entry only, against the mock driver's own counts, by each mechanism. Also levels that
change while calls are made."""
import collections
import glob
import pathlib
import re
import shlex
import shutil
import subprocess
import time

import pytest
from helpers.cli import command
from helpers.jsonl import Trace
from helpers.live import compiled
from helpers.outputs import schema
from helpers.run import CASES, FAKE, MECHANISMS, O, TESTS, needs_mechanism, needs_tracing, until

LIB = FAKE + "/libcuda.so.1"
# Few functions by perf events, because closing one takes 0.1 s.
FEW = "cuMemAlloc,cuMemFree,cuCtxGetDevice,cuLaunchKernel,cuDeviceGet"


@pytest.fixture(autouse=True)
def environment(monkeypatch, tmp_path):
    needs_tracing()
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    yield
    # Every output must match docs/SCHEMA.md.
    for path in glob.glob(f"{tmp_path}/*.jsonl"):
        schema(path)


class Counted(Trace):
    """The trace of a command, and the driver's own counts."""

    def __init__(self, folder, mech, line):
        path, counts = folder / "t.jsonl", folder / "counts"
        self.ran = command(f"cudatrace -q --mechanism={mech} --jsonl {path} {line}",
                           env={"LD_LIBRARY_PATH": FAKE, "FAKE_CUDA_COUNTS": str(counts)})
        print(line, self.ran, flush=True)
        super().__init__(path)
        self.own = collections.Counter()
        for name, n in map(str.split, counts.read_text().splitlines()):
            self.own[name] += int(n)
        self.counted = self.end.get("counted", {})
        assert self.accounts()

    def same(self):
        """Whether the driver's own counts equal the trace's lines plus its counted calls."""
        counted = {k: c["calls"] + c.get("unfinished", 0) + c.get("abandoned", 0) for k, c in self.counted.items()}
        return collections.Counter(self.sym) + collections.Counter(counted) == +self.own


def launches(t):
    return [c for c in t.calls if c["symbol"] == "cuLaunchKernel"]


# The functions ({set}: all, or few by perf events), the options and the command, and what holds.
COUNTED = {
    # Queries must be counted with durations and errors: five calls of cuCtxGetDevice, and one of two calls of cuDeviceGet failed.
    "queries": ("-e '{set}' --count {queries} -- {cases}/queries", lambda t, mech:
                t.ran.status == 0 and t.sym["cuCtxGetDevice"] == 0
                and (t.counted["cuCtxGetDevice"]["calls"], t.counted["cuCtxGetDevice"]["errors"]) == (5, 0)
                and 0 < t.counted["cuCtxGetDevice"]["max_us"] <= t.counted["cuCtxGetDevice"]["total_us"]
                and (t.counted["cuDeviceGet"]["calls"], t.counted["cuDeviceGet"]["errors"]) == (2, 1) and (mech == "perf" or t.same())),
    # Two threads, 40,000 calls: no count is lost between them.
    "all calls of two threads": ("-e {few} --count cuLaunchKernel -- {cases}/many cuLaunchKernel 20000 2", lambda t, mech:
                                 t.counted["cuLaunchKernel"]["calls"] == t.own["cuLaunchKernel"] >= 40000 and not launches(t)),
    "all entries of two threads": (
        "-e {few} --count cuLaunchKernel --entry-only cuLaunchKernel -- {cases}/many cuLaunchKernel 20000 2", lambda t, mech:
        t.counted["cuLaunchKernel"]["calls"] == t.counted["cuLaunchKernel"]["entry_only"] == t.own["cuLaunchKernel"] >= 40000
        and "total_us" not in t.counted["cuLaunchKernel"] and t.end["orphans"] == 0),
    # Entries alone must have records too, without end or result; others have both.
    "entries": ("-e {few} --entry-only launch -- {cases}/launch", lambda t, mech:
                launches(t) and all(c["entry_only"] and "grid" in c and not {"duration_us", "result"} & c.keys() for c in launches(t))
                and t.end["orphans"] == 0 and all("result" in c and "entry_only" not in c
                                                  for c in t.calls if c["symbol"] != "cuLaunchKernel")),
    "abandoned": ("-e 'cu*Callback,cuMemAlloc_v2' --count 'cu*Callback' -- {cases}/longjmp", lambda t, mech:
                  t.end["abandoned"] == 3 == sum(c.get("abandoned", 0) for c in t.counted.values())),
    # A record in a counted call has no parent.
    "nested": ("-e 'cu*Callback,cuMemAlloc,cuMemFree' --count 'cu*Callback' -- {cases}/nested", lambda t, mech:
               t.counted and all(("parent" in c) == ("depth" in c) for c in t.calls)
               and {c["parent"] for c in t.calls if "parent" in c} <= {c["id"] for c in t.calls}),
}


@pytest.mark.parametrize("name", COUNTED)
@pytest.mark.parametrize("mech", MECHANISMS)
def test_counted(tmp_path, mech, name):
    """Each call must be counted once, or have a line, and counts must have what lines would have."""
    needs_mechanism(mech)
    line, holds = COUNTED[name]
    perf = mech == "perf"
    words = {"set": FEW if perf else "all,!other", "queries": "cuDeviceGet,cuCtxGetDevice" if perf else "query", "few": FEW, "cases": CASES}
    t = Counted(tmp_path, mech, line.format(**words))
    assert holds(t, mech), (t.ran, t.counted, t.own)


def test_counted_call_that_lasts(running):
    """It must be counted as unfinished."""
    c = running.caller().ready(LIB)
    tracer = running.tracer("t", "-e", "all,!cu[FP]*[LI]*[de]", "--count", "cu[EF]*S*", "--duration", "0.7", "-p", c.pid)
    c.tell("sleep 4000000")
    tracer.ended()
    t = tracer.trace
    assert t.end["counted"] == {"cuFakeSleep": {"calls": 0, "unfinished": 1}} and t.end["unfinished"] == 1 and t.accounts()


def test_counts_of_children(running):
    """Processes that come and go: counts of ended processes must stay in the sum."""
    c = running.caller().ready(LIB)
    tracer = running.tracer("t", "--count", "cuMemAlloc,cuMemFree", "-p", c.pid)
    assert [c.tell("child 50") for _ in range(5)] == [50] * 5 and c.tell("alloc 7") == 7
    c.end()
    tracer.ended()
    t = tracer.trace
    assert [t.end["counted"][s]["calls"] for s in ("cuMemAlloc_v2", "cuMemFree_v2")] == [257, 257] and t.accounts()


def has_written(tracer, text):
    return lambda: text in pathlib.Path(tracer.path).read_text(encoding="utf-8")


def changes(t):
    return [e for e in t.ev if e["type"] == "tracer"]


def test_max_overhead(running, tmp_path):
    """The overhead of a flood must stay low, and every change of level must be reported."""
    flood = running.start(CASES + "/many", "cuCtxGetDevice", 1000000000, 1, env={"LD_LIBRARY_PATH": FAKE, "FAKE_NO_SEM": "1"},
                          stderr=subprocess.DEVNULL)
    until(lambda: "libcuda" in pathlib.Path(f"/proc/{flood.pid}/maps").read_text())
    begun = time.monotonic()
    tracer = running.tracer("t", "--all", "--max-overhead", 5, "-p", flood.pid, "--chrome", tmp_path / "chrome.json")
    until(has_written(tracer, '"to":"count"'))
    # Longer than it was traced.
    time.sleep(2 * (time.monotonic() - begun) + 1)
    tracer.stop()
    t = tracer.trace
    first = changes(t)[0]
    assert (first["from"], first["to"], first["name"]) == ("trace", "count", "cuCtxGetDevice")
    assert all(e["op"] == "level" and e["why"] for e in changes(t))
    assert t.end["counted"]["cuCtxGetDevice"]["calls"] > 1000 and t.accounts(drops=True)
    assert t.end["calls"] + t.end["drops"]["calls"] < t.end["entries"] / 2
    assert re.search('"cat":"tracer".*"from":"trace","to":"count"', (tmp_path / "chrome.json").read_text())


def test_max_overhead_when_quiet(running):
    """When the target is quiet again, its calls must be recorded again; sums are exact all the time."""
    c = running.caller().ready(LIB)
    tracer = running.tracer("t", "-e", "cuDriverGetVersion", "--max-overhead", 1, "-p", c.pid)
    c.tell("version 300000")
    until(has_written(tracer, '"to":"count"'))
    until(has_written(tracer, '"to":"trace"'))
    c.tell("version 5")
    c.end()
    tracer.ended()
    t = tracer.trace
    assert (changes(t)[0]["to"], changes(t)[-1]["to"]) == ("count", "trace") and t.accounts(drops=True)
    assert [e["type"] for e in t.ev[-8:-2]] == ["tracer"] + ["init"] * 5
    counted = t.end.get("counted", {}).get("cuDriverGetVersion", {"calls": 0})["calls"]
    assert len(t.calls) + t.end["drops"]["calls"] + counted == 300005 == t.end["entries"]


@pytest.fixture
def attached(running, tmp_path):
    """tests/levels.c, which attaches for all processes: a function that sends it a command and returns the answer. Its library."""
    lib = shutil.copy(LIB, tmp_path)
    libs = shlex.split(command("pkg-config --libs libbpf libelf zlib libseccomp").out)
    program = compiled(tmp_path / "levels", "-std=gnu11", "-Isrc", "-Iinclude", "-I" + O, TESTS + "/levels.c", O + "/libct.a", *libs,
                       "-l:libstdc++.a", "-lm")
    p = running.start(program, lib, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert p.stdout.readline() == "ready\n"

    def ask(line):
        p.stdin.write(line + "\n")
        p.stdin.flush()
        return p.stdout.readline().strip()
    return ask, lib


def test_levels_that_change(running, attached):
    """The daemon's use: levels of processes and functions change while calls are made. Each row is a level, calls, and what was seen since
    the last row: records, and sums of calls and entries."""
    ask, lib = attached
    one, two = running.caller().ready(lib), running.caller().ready(lib)
    fn = "cuMemAlloc_v2"

    def saw(who, records, calls, entered, verb="read"):
        assert ask(f"{verb} {who.pid} {fn}") == f"records {records} calls {calls} errors 0 entered {entered} wrong 0"
    for change, calls, seen in [
            ("", [(one, 3)], [(one, 3, 0, 0)]),
            ("default metrics", [(one, 5), (two, 7)], [(one, 0, 5, 0), (two, 0, 7, 0)]),
            (f"proc {two.pid} trace", [(one, 1), (two, 2)], [(one, 0, 6, 0)]),
            ("", [(two, 2)], [(two, 2, 7, 0)]),
            (f"proc {one.pid} off", [(one, 10)], [(one, 0, 6, 0)]),
            (f"proc {one.pid} default", [], []),
            ("default trace", [(one, 4)], [(one, 4, 6, 0)]),
            (f"fn {fn} entries 1", [(one, 9)], [(one, 0, 6, 9)]),
            (f"fn {fn} off 1", [(one, 9)], [(one, 0, 6, 9)])]:
        if change:
            ask(change)
        for who, n in calls:
            assert who.tell(f"alloc {n}") == n
        for row in seen:
            saw(*row)
    ask(f"fn {fn} count 1")
    one.tell("threads 4 5000")
    saw(one, 0, 20006, 9)
    saw(one, 0, 20006, 9, "take")
    saw(one, 0, 0, 0)
    one.tell("turns 3 1000")
    # Threads that meet count in rows of their own; the last thread that is left in the shared row meets no other thread there.
    assert ask(f"rows {one.pid} {fn}") in ("rows 3", "rows 4")
    saw(one, 0, 3000, 0, "take")
    assert ask(f"rows {one.pid} {fn}") == "rows 0"
    # A sample: about a tenth; with the rest it is all.
    ask(f"fn {fn} sample 10")
    assert one.tell("alloc 2000") == 2000
    records, calls = map(int, re.match(r"records (\d+) calls (\d+)", ask(f"read {one.pid} {fn}")).groups())
    assert records + calls == 2000 and 120 < records < 290


@pytest.mark.parametrize("bad", ["--count=nosuch", "--entry-only=nosuch", "--count=", "--max-overhead=0", "--max-overhead=101",
                                 "--max-overhead=x"])
def test_refused(bad):
    assert command(f"cudatrace {bad} --duration 0.1").status == 2
