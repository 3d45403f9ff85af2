# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# timeout: 600
# takes: 12
"""--probe=inject with the other options, without privileges: they have the same effect as with uprobes."""
import collections
import json
import os
import shutil
import subprocess
import time

import pytest
from helpers.jsonl import Trace
from helpers.run import ALL, CASES, CUDATRACE, FAKE, INSIDE, TESTS, Ran, cudatrace, inside, passes

SAMPLE = [FAKE + "/sample", "--tokens", "2", "--quiet"]
CC = os.environ.get("CC", "gcc").split()


def made(path):
    """The mock's counts."""
    with open(path, encoding="utf-8") as f:
        return {s: int(n) for s, n in map(str.split, f)}


class Traced:
    """A trace of a command, and the driver's counts."""

    def __init__(self, folder, *args, command=SAMPLE, status=0, env=None):
        path, counts = folder / "trace", folder / "counts"
        self.ran = inside("-q", *args, "--jsonl", path, "--", *command,
                             env={"LD_LIBRARY_PATH": FAKE, "FAKE_CUDA_COUNTS": str(counts), **(env or {})})
        assert self.ran.status == status, self.ran
        self.path = str(path)
        self.trace = Trace(path)
        self.end, self.calls, self.sym = self.trace.end, self.trace.calls, self.trace.sym
        self.made = made(counts)


def test_functions(tmp_path):
    t = Traced(tmp_path, "-e", "cuMemAlloc,launch,!cuLaunchKernelEx")
    assert t.trace.accounts() and t.sym["cuLaunchKernel"] > 50
    assert dict(t.sym) == {s: t.made[s] for s in ("cuMemAlloc_v2", "cuLaunchKernel")}


def test_only_what_is_requested(tmp_path):
    """If the program calls none of the selected functions, it must still be traced."""
    t = Traced(tmp_path, "-e", "cuTexObjectCreate")
    assert t.trace.accounts() and not t.calls and t.trace.lib


def test_clock(tmp_path):
    """Durations must not be negative, which would be shown as 580 years."""
    top = os.path.dirname(TESTS)
    subprocess.run([*CC, "-D_GNU_SOURCE=", f"-I{top}/include", "-O2", "-o", tmp_path / "clock",
                    TESTS + "/inject/clock.c", top + "/inject/clock.c"], check=True)
    ran = Ran([tmp_path / "clock"])
    assert ran.status == 0, ran.out


@pytest.mark.parametrize("threads", [1, 2])
def test_count(tmp_path, threads):
    t = Traced(tmp_path, "--count", "cuLaunchKernel", "-e", "init", command=[CASES + "/many", "cuLaunchKernel", "20000", str(threads)])
    c = t.end["counted"]["cuLaunchKernel"]
    assert t.trace.accounts() and c["calls"] == t.made["cuLaunchKernel"] >= threads * 20000
    # The launched function does not exist.
    assert t.sym == {"cuInit": 1} and 0 < c["max_us"] <= c["total_us"] and c["errors"] == c["calls"]


def test_count_errors(tmp_path):
    t = Traced(tmp_path, "-e", ALL, "--count", "query", command=[CASES + "/queries"])
    counted = t.end["counted"]
    assert t.trace.accounts() and (counted["cuDeviceGet"]["calls"], counted["cuDeviceGet"]["errors"]) == (2, 1)
    assert {s: c["calls"] for s, c in counted.items()} == {s: t.made[s] for s in counted} and len(counted) > 5


def test_count_what_is_left(tmp_path):
    t = Traced(tmp_path, "-e", "cu*Callback,cuMemAlloc_v2", "--count", "cu*Callback", command=[CASES + "/longjmp"])
    assert t.trace.accounts() and t.end["abandoned"] == 3 == sum(c.get("abandoned", 0) for c in t.end["counted"].values())


def test_no_return(tmp_path):
    t = Traced(tmp_path, "--entry-only", "launch")
    assert t.trace.accounts()
    launches = [c for c in t.calls if c["symbol"] == "cuLaunchKernel"]
    assert len(launches) == t.made["cuLaunchKernel"]
    assert all(c["entry_only"] and "duration_us" not in c and "result" not in c and "grid" in c for c in launches)
    assert all("result" in c for c in t.calls if c["type"] not in ("kernel", "graph"))


def test_count_no_return(tmp_path):
    t = Traced(tmp_path, "-e", "init", "--count=launch", "--entry-only=launch", command=[CASES + "/many", "cuLaunchKernel", "20000", "2"])
    c = t.end["counted"]["cuLaunchKernel"]
    assert c["calls"] == c["entry_only"] == t.made["cuLaunchKernel"] >= 40000 and "total_us" not in c and t.trace.accounts()


@pytest.mark.parametrize("probe", ["inject", "uprobe"])
def test_count_between(tmp_path, probe):
    """A counted call must not be a parent: calls inside it belong to the enclosing call."""
    path = tmp_path / "trace"
    ran = (inside if probe == "inject" else cudatrace)("-q", "--all", "--count=cuMemAllocPitch,cuFakeCallback", "--jsonl", path, "--", CASES + "/nested", env={"LD_LIBRARY_PATH": FAKE})
    assert ran.status == 0, ran
    t = Trace(path)
    by_id = {c["id"]: c for c in t.calls}
    assert t.accounts() and t.end["counted"]["cuMemAllocPitch_v2"]["calls"] == 2
    memory = [c for c in t.calls if c["type"] == "memory"]
    inner, = (c for c in memory if "parent" in c)
    assert len(memory) > 5 and inner["symbol"] == "cuMemAlloc_v2" and inner["depth"] == 4
    assert by_id[inner["parent"]]["symbol"] == "cuFakeNest" and by_id[inner["parent"]]["depth"] == 3


def test_min_duration(tmp_path):
    t = Traced(tmp_path, "-e", "cuMemFree,cuLaunchKernel", "--min-duration", "3000", env={"FAKE_DELAY_US": "cuMemFree_v2:4000"})
    assert t.trace.accounts() and all(c["duration_us"] >= 3000 for c in t.calls)
    assert t.sym["cuMemFree_v2"] == t.made["cuMemFree_v2"] and t.end["filtered"] + len(t.calls) == t.end["entries"]
    assert t.end["filtered"] > 50


@pytest.mark.parametrize("probe", ["inject", "uprobe"])
def test_min_duration_unfinished(tmp_path, probe):
    """The duration of an unfinished call is unknown, so the call must be in the trace, and count in the end line."""
    path = tmp_path / "trace"
    (inside if probe == "inject" else cudatrace)("-q", "--all", "--min-duration", "100000000", "--duration", "0.7", "--jsonl", path, "--", CASES + "/inflight", "3000",
                                                 env={"LD_LIBRARY_PATH": FAKE})
    t = Trace(path)
    call, = t.calls
    assert call["symbol"] == "cuFakeSleep" and call["unfinished"] and t.end["unfinished"] == 1 and t.end["filtered"] > 2 and t.accounts()


def test_no_args(tmp_path):
    t = Traced(tmp_path, "--no-args")
    assert t.trace.accounts() and t.trace.head["redacted"] == "arguments"
    assert not [c for c in t.calls if c["args"] or "size" in c or "ptr" in c or "grid" in c]
    passes("golden/schema_check.py", t.path)


def test_no_strings(tmp_path):
    t = Traced(tmp_path, "--no-strings")
    assert t.trace.accounts() and t.trace.head["redacted"] == "strings"
    with open(t.path, encoding="utf-8") as f:
        text = f.read()
    assert "matmul" not in text and '"grid"' in text


def test_stack(tmp_path):
    program = tmp_path / "program"
    source = """extern int cuInit(unsigned), cuDevicePrimaryCtxRetain(void **, int), cuCtxSetCurrent(void *), cuMemAlloc_v2(void **, unsigned long);
        __attribute__((noipa)) int inner(void) { void *p; int r = cuMemAlloc_v2(&p, 64); __asm__ volatile("" ::: "memory"); return r; }
        __attribute__((noipa)) int outer(void) { int r = inner(); __asm__ volatile("" ::: "memory"); return r; }
        int main(int argc, char **argv) { void *c; int r; cuInit(0); cuDevicePrimaryCtxRetain(&c, 0); cuCtxSetCurrent(c); r = outer(); system(argv[1]); return r; }"""
    # Addresses cannot be resolved after the process has ended.
    seen = f"""for i in $(seq 600); do grep -q '"type":"stack"' '{tmp_path}/trace' && exit; sleep 0.05; done"""
    subprocess.run([*CC, "-O1", "-w", "-g", "-fno-omit-frame-pointer", "-x", "c", "-", "-o", program, f"-L{FAKE}", "-lcuda"], input=source, text=True, check=True)
    # A private copy: if another tracer probes the function's return, its caller's address is the kernel's.
    shutil.copy(FAKE + "/libcuda.so.1", tmp_path)
    t = Traced(tmp_path, "--stack=memory", command=[program, seen], env={"LD_LIBRARY_PATH": str(tmp_path)})
    stacks = {e["id"]: [f.get("symbol", "").split("+")[0] for f in e["frames"]] for e in t.trace.ev if e["type"] == "stack"}
    alloc, = (c for c in t.calls if c["symbol"] == "cuMemAlloc_v2")
    assert t.trace.accounts() and stacks[alloc["stack"]][:3] == ["inner", "outer", "main"]
    assert ["stack" in c for c in t.calls].count(True) == 1


def levels(t):
    return [e for e in t.ev if e["type"] == "tracer" and e["op"] == "level"]


def test_max_overhead(tmp_path):
    """A flood must be counted, each change of level reported, and no call lost between the levels."""
    path = tmp_path / "trace"
    # Runs long enough, and to its end: a kill could come between two counters.
    p = subprocess.Popen([*INSIDE, CUDATRACE, "-q", "--probe=inject", "-e", ALL, "--max-overhead", "5", "--jsonl", path, "--chrome", tmp_path / "chrome", "--",
                          CASES + "/many", "cuCtxGetDevice", "60000000"], env={**os.environ, "LD_LIBRARY_PATH": FAKE, "FAKE_NO_SEM": "1"},
                         stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    p.communicate(timeout=120)
    t = Trace(path)
    first = levels(t)[0]
    assert (first["name"], first["from"], first["to"]) == ("cuCtxGetDevice", "trace", "count") and "of the busiest thread's time" in first["why"]
    assert t.accounts(drops=True) and t.end["counted"]["cuCtxGetDevice"]["calls"] > 1000
    assert '"from":"trace","to":"count"' in (tmp_path / "chrome").read_text(encoding="utf-8")


def test_duration(tmp_path):
    """If the trace ends inside a call, it must name the call; the program continues, and ends normally."""
    begin = time.monotonic()
    t = Traced(tmp_path, "--duration", "2", env={"FAKE_DELAY_US": "cuDevicePrimaryCtxRetain:5000000"})
    assert time.monotonic() - begin > 5 and t.ran.out.startswith("loaded 48 weights")
    last, = (c for c in t.calls if c.get("unfinished"))
    assert t.trace.accounts() and t.end["reason"] == "duration" and t.sym["cuInit"] == 1
    assert last["symbol"] == "cuDevicePrimaryCtxRetain" and last["elapsed_us"] > 0 and last["args"]["dev"] == 0


@pytest.mark.parametrize("n", [1, 50])
def test_max_events(tmp_path, n):
    t = Traced(tmp_path, "--max-events", n)
    assert t.end["reason"] == "max-events" and len(t.trace.ev) == n + 2 and t.ran.out.startswith("loaded 48 weights")


def test_all_outputs(tmp_path):
    """Chrome trace, summary and reports must agree with the lines."""
    chrome, page = tmp_path / "chrome", tmp_path / "page.html"
    t = Traced(tmp_path, "--summary", "--json", "--chrome", chrome, "--report", page)
    shown = collections.Counter(e["cat"] for e in json.loads(chrome.read_text(encoding="utf-8")) if e["ph"] == "X")
    assert shown == collections.Counter(c["type"] for c in t.calls)
    summary = json.loads(next(line for line in t.ran.err.splitlines() if line.startswith('{"type":"summary"')))
    assert summary["calls"] == sum(c["calls"] for c in summary["classes"]) == len(t.calls)
    assert "</html>" in page.read_text(encoding="utf-8")
    said = Ran([CUDATRACE, "report", "--format=json", t.path])
    kernels = json.loads(said.out)["kernels"]
    assert kernels["launches"] + kernels["nodes"] == t.sym["cuLaunchKernel"] + t.sym["cuLaunchKernelEx"] > 50


def test_exports_that_no_table_knows(tmp_path):
    t = Traced(tmp_path, "-e", ALL, command=[CASES + "/undocumented"])
    unknown = [c for c in t.calls if c["symbol"] == "cuFakeUndocumented"]
    assert t.trace.accounts() and len(unknown) == t.made["cuFakeUndocumented"] == 11
    assert all(c["type"] == "other" and len(c["args"]) == 6 for c in unknown)


@pytest.mark.parametrize("args,said", [
    ([], "--probe=inject needs a command (cudatrace --probe=inject -- COMMAND) or processes (-p PID)"),
    (["--kernel", "--kernel-probe=fentry", "--", "true"], "--kernel-probe does not work in-process: use --probe=uprobe, as root"),
    (["--sched", "--", "true"], "--sched does not work in-process: use --probe=uprobe, as root"),
    (["--torch", "--kernel", "--", "true"], "--torch is not recorded in-process with --kernel: use --probe=uprobe, as root"),
    (["--all-layers", "--kernel", "--", "true"], "--python and --torch (--all-layers) are not recorded in-process with --kernel: use"),
    (["-p", "1", "--", "true"], "both -p and a command"),
    (["--probe=nosuch", "--", "true"], "--probe 'nosuch': unknown; choose one of: auto uprobe inject"),
])
def test_not_with(tmp_path, args, said):
    ran = cudatrace("-q", "--probe=inject", "--jsonl", tmp_path / "trace", *args)
    assert ran.status == 2 and said in ran.err and not (tmp_path / "trace").exists(), ran


def test_another_tool_is_loaded_too(tmp_path):
    """A tool already named in CUDA_INJECTION64_PATH must be loaded after our library."""
    tool, log = tmp_path / "tool.so", tmp_path / "log"
    source = """#include <stdio.h>
        #include <stdlib.h>
        int InitializeInjection(void) { FILE *f = fopen(getenv("TOOL_LOG"), "a"); fputs("loaded\\n", f); fclose(f); return 1; }"""
    subprocess.run([*CC, "-O1", "-w", "-shared", "-fPIC", "-x", "c", "-", "-o", tool], input=source, text=True, check=True)
    for preload in ("", "env -u LD_PRELOAD"):
        log.unlink(missing_ok=True)
        t = Traced(tmp_path, command=[*preload.split(), *SAMPLE], env={"CUDA_INJECTION64_PATH": str(tool), "TOOL_LOG": str(log)})
        assert log.read_text(encoding="utf-8") == "loaded\n" and t.trace.accounts(missed=["calls"] if preload else []) and t.sym["cuLaunchKernel"] == t.made["cuLaunchKernel"]
    # If it cannot be loaded, tracing must still work.
    t = Traced(tmp_path, env={"CUDA_INJECTION64_PATH": "/nowhere/tool.so"})
    assert t.trace.accounts() and t.sym["cuLaunchKernel"] == t.made["cuLaunchKernel"]
