# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# timeout: 1800
# takes: 100
"""--probe=inject as root: uprobes record the calls that the library in the process misses. The trace is the same as with
uprobes alone, each call once, however the library is loaded, or if it is not; and unneeded probes are removed."""
import collections
import os
import pathlib
import platform
import re
import shutil
import signal
import subprocess
import time

import pytest
from helpers.jsonl import Trace
from helpers.run import ALL, CASES, CUDATRACE, FAKE, MECHANISMS, O, TESTS, cudatrace, needs_mechanism, needs_tracing, until
from test_cases import NAMES, normal
from test_inject import FAULTS, faults, unprobed  # noqa: F401, a fixture

CC = os.environ.get("CC", "gcc").split()
# How the library is loaded into the program.
WAYS = {"preloaded": [], "by the driver": ["env", "-u", "LD_PRELOAD"], "not at all": ["env", "-u", "LD_PRELOAD", "-u", "CUDA_INJECTION64_PATH"]}


@pytest.fixture(autouse=True, scope="module")
def root():
    needs_tracing()


def trace(tmp_path, probe, *command, driver="fake", args=(), functions=ALL):
    path = tmp_path / probe
    ran = cudatrace("-q", f"--probe={probe}", "-e", functions, *args, "--jsonl", path, "--", *command, env={"LD_LIBRARY_PATH": f"{O}/{driver}"})
    assert ran.status == 0 and ran.err == "", ran
    t = Trace(path)
    assert t.accounts()
    for e in t.calls:
        # The arguments of an unknown function are arbitrary register values.
        if e["type"] == "other":
            e.pop("args", None)
        # The library reads these from NCCL's kernels in its calls, but not for calls recorded by probes, whose addresses the program
        # looked up.
        if e["type"] == "collective" and "LD_PRELOAD" in command:
            e.pop("algorithm", None)
            e.pop("protocol", None)
    return t


def same(tmp_path, *command, driver="fake", args=(), functions=ALL):
    outside, both = (trace(tmp_path, p, *command, driver=driver, args=args, functions=functions) for p in ("uprobe", "inject"))
    assert both.sym == outside.sym
    assert normal(both.calls) == normal(outside.calls)
    # fork, exec, exit: once each
    assert sorted(e["op"] for e in both.proc) == sorted(e["op"] for e in outside.proc)
    return both


def seen_by_library(t):
    return sum(e["id"] >> 48 == 2 for e in t.calls)


# In check; the others in check-all.
FEW = ["nested", "threads", "fork", "exec"]


def longer(*args):
    return pytest.param(*args, marks=pytest.mark.long)


@pytest.mark.parametrize("name,driver,way", [(n, "fake", "preloaded") for n in NAMES if n != "dlopen_late"]
                         + [longer(n, "fake", "by the driver") for n in NAMES if n not in ("dlopen_late", *FEW)]
                         + [(n, "fake", "by the driver") for n in FEW]
                         + [longer(n, "fake535", w) for n in (*FEW, "launch", "longjmp", "undocumented") for w in WAYS]
                         + [(n, d, "not at all") for n in ("launch", "threads", "fork") for d in ("fake", "fakeplain")])
def test_same_as_by_uprobes(tmp_path, name, driver, way):
    """Names, arguments, results and nesting must be the same as with uprobes, in the order of each thread."""
    t = same(tmp_path, *WAYS[way], f"{CASES}/{name}", driver=driver)
    seen = seen_by_library(t)
    if driver == "fakeplain" or way == "not at all":
        assert not seen
    elif way == "preloaded":
        # The library also records NCCL's functions that tables know (inject/bypass.c).
        nccl = platform.machine() == "x86_64" and sum(e["type"] == "collective" and e["id"] >> 48 == 2 for e in t.calls)
        assert seen - nccl == sum(n for s, n in t.sym.items() if s.startswith("cu")) and bool(nccl) == (name == "nccl")
    assert t.end["orphans"] == 0


# The other tests here use the first mechanism.
@pytest.mark.parametrize("mech", [longer(MECHANISMS[0]), *MECHANISMS[1:-1], longer(MECHANISMS[-1])])
@pytest.mark.parametrize("name,way", [("nested", "by the driver"), ("threads", "by the driver"), ("exec", "by the driver"), ("nccl", "preloaded")])
def test_mechanisms(tmp_path, mech, name, way):
    needs_mechanism(mech)
    # The kernel takes 0.1 s to close a perf event.
    functions = ALL if mech != "perf" else "init,cuMemAlloc,cuLaunchKernel"
    assert seen_by_library(same(tmp_path, *WAYS[way], f"{CASES}/{name}", args=["--mechanism", mech], functions=functions))


@pytest.mark.parametrize("way", WAYS)
def test_sample(tmp_path, way):
    t = same(tmp_path, *WAYS[way], FAKE + "/sample", "--tokens", "2", "--quiet")
    begun = {}
    for e in sorted(t.calls, key=lambda e: e["ts"]):
        begun.setdefault(e["symbol"], e)
    seen = seen_by_library(t)
    if way == "by the driver":
        # uprobes record the first calls, the library the rest.
        assert begun["cuInit"]["id"] >> 48 == 0 and seen > 0.9 * len(t.calls)
    else:
        assert seen == (len(t.calls) if way == "preloaded" else 0)


@pytest.fixture(scope="module")
def both():
    program = os.environ["TMP"] + "/both"
    subprocess.run([*CC, "-O1", "-Wall", "-o", program, TESTS + "/inject/both.c", "-ldl"], check=True)
    return program


@pytest.mark.parametrize("mech", ["session", longer("multi")])
@pytest.mark.parametrize("driver,way", [("fake", "preloaded"), longer("fake535", "by the driver")])
def test_probes_go_and_come(tmp_path, both, driver, way, mech):
    """A program with the library must have no probes. A later program is recorded from its first call on: it is stopped until the probes
    are back, and they are removed again later. Uses a private copy of libcuda."""
    needs_mechanism(mech)
    path = tmp_path / "trace"
    shutil.copy(f"{O}/{driver}/libcuda.so.1", tmp_path)
    later = f"env -u LD_PRELOAD {both} '{CASES}/launch >/dev/null'"
    ran = cudatrace("-q", "--probe=inject", "--mechanism", mech, "-e", ALL, "--jsonl", path, "--", *WAYS[way], both, later + " >" + str(tmp_path / "later"),
                    env={"LD_LIBRARY_PATH": f"{tmp_path}:{O}/{driver}"}, timeout=560)
    assert ran.status == 0 and ran.err == "", ran
    t = Trace(path)
    made = int(ran.out) + int((tmp_path / "later").read_text(encoding="utf-8"))
    launched = trace(tmp_path, "uprobe", f"{CASES}/launch", driver=driver)
    assert t.accounts() and t.sym["cuDriverGetVersion"] == made + launched.sym["cuDriverGetVersion"]
    assert {s: n for s, n in t.sym.items() if s not in ("cuInit", "cuDriverGetVersion")} == \
        {s: n for s, n in launched.sym.items() if s not in ("cuInit", "cuDriverGetVersion")}
    assert t.sym["cuInit"] == 2 + launched.sym["cuInit"]


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the library has no pointers there")
@pytest.mark.parametrize("way", ["preloaded", longer("by the driver")])
@pytest.mark.parametrize("mech", ["session", longer("multi")])
def test_functions_without_a_pointer(tmp_path, both, way, mech):
    """Functions without a dispatch pointer must keep their probes. Nesting must be right between both producers, in both directions."""
    needs_mechanism(mech)
    path, n = tmp_path / "trace", 200
    (tmp_path / "lib").mkdir()
    subprocess.run([*CC, "-O1", "-Wall", "-shared", "-fPIC", "-fno-builtin", "-Wl,-soname,libcuda.so.1", "-o", tmp_path / "lib/libcuda.so.1",
                    TESTS + "/inject/rest_lib.c", "-ldl"], check=True)
    ran = cudatrace("-q", "--probe=inject", "--mechanism", mech, "-e", "all", "--jsonl", path, "--", *WAYS[way], both, "-n", str(n),
                    env={"LD_LIBRARY_PATH": str(tmp_path / "lib")}, timeout=560)
    assert ran.status == 0 and ran.err == "", ran
    t = Trace(path)
    assert t.accounts() and t.sym == {"cuInit": 1, "cuDeviceGetCount": 2 * n, "cuMemGetAttribute": 4 * n, "cuDriverGetVersion": int(ran.out) + 4 * n}
    by_id = {e["id"]: e for e in t.calls}

    def chain(e):
        return [e["symbol"], *(chain(by_id[e["parent"]]) if "parent" in e else [])]
    chains = collections.Counter()
    for e in t.calls:
        names = chain(e)
        assert e.get("depth", 0) == len(names) - 1
        assert (e["id"] >> 48 == 2) == (e["symbol"] != "cuMemGetAttribute" and (e["symbol"] != "cuInit" or way == "preloaded"))
        chains[" ".join(names)] += 1
    assert chains == {"cuInit": 1, "cuDeviceGetCount": 2 * n, "cuMemGetAttribute cuDeviceGetCount": 2 * n, "cuMemGetAttribute": 2 * n,
                      "cuDriverGetVersion cuMemGetAttribute cuDeviceGetCount": 2 * n, "cuDriverGetVersion cuMemGetAttribute": 2 * n,
                      "cuDriverGetVersion": int(ran.out)}


def test_threads_of_forked_children(tmp_path):
    """First calls made while another thread connects must be recorded once each, by the library; uprobes skip them."""
    program = str(tmp_path / "crowd")
    subprocess.run([*CC, "-O1", "-Wall", "-o", program, TESTS + "/inject/crowd.c", "-ldl", "-lpthread"], check=True)
    ran = cudatrace("-q", "--probe=inject", "-e", "all", "--jsonl", tmp_path / "trace", "--", *WAYS["preloaded"], program, "60", "16", "10",
                    env={"LD_LIBRARY_PATH": f"{O}/fake", "CUDATRACE_VERBOSE": "1"})
    t = Trace(tmp_path / "trace")
    seen, made = t.sym["cuCtxSynchronize"], int(ran.out)
    late = t.end["drops"].get("processes", 0)
    assert ran.status == 0 and t.accounts(drops=bool(late)) and made == 9600 and seen <= made, (ran, t.end)
    # On a busy machine some processes connect too late, which is counted.
    assert seen == made or late, (ran, seen)
    assert len({e["id"] for e in t.calls}) == len(t.calls)


def test_begins_that_are_lost(tmp_path, both):
    """Lost begins of calls must count as begins, not as tasks: a full ring drops few tasks."""
    path = tmp_path / "trace"
    (tmp_path / "lib").mkdir()
    subprocess.run([*CC, "-O1", "-Wall", "-shared", "-fPIC", "-fno-builtin", "-Wl,-soname,libcuda.so.1", "-o", tmp_path / "lib/libcuda.so.1",
                    TESTS + "/inject/rest_lib.c", "-ldl"], check=True)
    p = subprocess.Popen([CUDATRACE, "-q", "--probe=inject", "-e", "all", "--buffer-size=64K", "--jsonl", path, "--", *WAYS["preloaded"], both, "-n", "1000000"],
                         env={**os.environ, "LD_LIBRARY_PATH": str(tmp_path / "lib")}, stdout=subprocess.DEVNULL)
    until(lambda: path.exists() and "cuMemGetAttribute" in path.read_text(), 20)
    child, = pathlib.Path(f"/proc/{p.pid}/task/{p.pid}/children").read_text().split()[-1:]
    p.send_signal(signal.SIGSTOP)
    time.sleep(1)
    p.send_signal(signal.SIGCONT)
    os.kill(int(child), signal.SIGKILL)
    p.wait(60)
    drops = Trace(path).end["drops"]
    assert drops["calls"] > 100 and drops["begins"] > 100 and drops["tasks"] < 20, drops


def test_not_reached(tmp_path):
    """A driver with an unknown layout, and a process without the library, must be reported in one line each."""
    path = tmp_path / "trace"
    for driver, way, said in (("fakeplain", "preloaded", "its libcuda has an unknown layout"),
                              ("fake", "not at all", "the in-process library was not loaded"), ("fake", "preloaded", None)):
        ran = cudatrace("--no-summary", "--probe=inject", "--jsonl", path, "--", *WAYS[way], CASES + "/launch", env={"LD_LIBRARY_PATH": f"{O}/{driver}"})
        lines = [line for line in ran.err.splitlines() if "uprobes" in line]
        assert ran.status == 0
        assert [re.sub("process [0-9]+", "process N", line) for line in lines] == \
            ([f"cudatrace: process N (launch): {said}: its calls are traced by uprobes"] if said else [])
        assert Trace(path).accounts()


@pytest.mark.parametrize("way", WAYS)
def test_levels(tmp_path, way):
    """With --count, --entry-only and without arguments, results must be the same with both producers."""
    sample = [*WAYS[way], FAKE + "/sample", "--tokens", "2", "--quiet"]
    args = ["--count", "memory,cuInit", "--entry-only", "launch", "--no-args"]
    outside, inside = (trace(tmp_path, p, *sample, args=args, functions="all,!cuFakeLocked") for p in ("uprobe", "inject"))
    assert inside.sym == outside.sym and normal(inside.calls) == normal(outside.calls)
    for t in outside, inside:
        for c in t.end["counted"].values():
            for k in ("total_us", "max_us"):
                c.pop(k, None)
    assert inside.end["counted"] == outside.end["counted"]
    assert (inside.end["entries"], inside.end["unfinished"]) == (outside.end["entries"], 0)


def made(ran):
    """The counts that the program prints."""
    cnt = collections.Counter()
    for line in ran.out.splitlines():
        symbol, n = line.split()
        cnt[symbol] += int(n)
    return cnt


@pytest.mark.parametrize("part", ["args", "threads", "forks", *map(longer, ["raw_threads", "ends", "stacks", "signals", "altstack"])])
def test_hard(tmp_path, part):
    """Programs that are hard for a thunk must be traced with probes on the same functions."""
    path = tmp_path / "trace"
    ran = cudatrace("-q", "--probe=inject", "-e", "all", "--jsonl", path, "--", O + "/hard/hard", part, env={"LD_LIBRARY_PATH": O + "/hard"})
    # A call in a signal handler that interrupts the library's own code is dropped, counted and reported.
    warning = r"cudatrace: warning: the trace is incomplete, missing: [\d,]+ CUDA calls?\n"
    assert ran.status == 0 and re.fullmatch(f"({warning})?", ran.err), ran
    t = Trace(path)
    assert bool(ran.err) == bool(t.end["drops"]["calls"])
    assert t.accounts(drops=True) and t.end["entries"] == sum(made(ran).values()) == len(t.calls) + t.end["drops"]["calls"]


@pytest.mark.parametrize("part", ["killed", "interrupted"])
def test_put_back(tmp_path, part):
    ran = cudatrace("-q", "--probe=inject", "-e", "all", "--jsonl", tmp_path / "trace", "--", O + "/hard/hard", part, env={"LD_LIBRARY_PATH": O + "/hard"})
    assert "hard:" not in ran.err and "cuInit 1" in ran.out, ran


# Programs that do not call cuInit have only uprobes unless the library is preloaded. An exception does not pass a probed return.
@pytest.mark.parametrize("number,way", [(n, w) for n, f in enumerate(FAULTS) for w in ("preloaded", "by the driver") if w == "preloaded" or f[0] == "life.c"],
                         ids=str)
def test_left_and_unfinished(tmp_path, faults, number, way):  # noqa: F811
    source, args, status, abandoned, unfinished, nested = FAULTS[number]
    path = tmp_path / "trace"
    ran, path = unprobed(lambda: (cudatrace("-q", "--probe=inject", "-e", ALL, "--jsonl", path, "--", *WAYS[way], faults(source), FAKE + "/libcuda.so.1",
                                            *args.split(), env={"LD_LIBRARY_PATH": FAKE}), path))
    assert ran.status == status, ran
    t = Trace(path)
    assert t.accounts() and (t.end["abandoned"], t.end["unfinished"]) == (abandoned, unfinished)
    assert sum("parent" in c for c in t.calls) == nested
    if ran.out:
        assert ran.out == f"{t.sym['cuDriverGetVersion']}\n"


def test_tracer_is_killed(tmp_path):
    """If the tracer is killed, the program must continue, and no probe or process of ours may remain."""
    path = tmp_path / "trace"
    with subprocess.Popen([CUDATRACE, "-q", "--probe=inject", "--jsonl", path, "--", *WAYS["by the driver"], CASES + "/many", "cuCtxGetDevice", "3000", "1", "1000000"],
                          env={**os.environ, "LD_LIBRARY_PATH": FAKE}, stdout=subprocess.PIPE) as p:
        until(lambda: path.exists() and b'"library"' in path.read_bytes())
        ours = [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and parent(pid) == p.pid]
        p.kill()
        p.communicate(timeout=100)
    until(lambda: not [pid for pid in ours if os.path.exists(f"/proc/{pid}") and state(pid) != "Z"], 20)


def stat(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as f:
            return f.read().rsplit(")", 1)[1].split()
    except (FileNotFoundError, ProcessLookupError):
        return ["Z", "0"]


def parent(pid):
    return int(stat(pid)[1])


def state(pid):
    return stat(pid)[0]
