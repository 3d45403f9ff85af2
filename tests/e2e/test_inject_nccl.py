# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# timeout: 600
# takes: 20
"""NCCL recorded in the process, as a user without privileges: however a program gets NCCL's functions (tests/inject/nccl.c),
each call is in the trace once. Case nccl of test_inject.py tests the calls themselves; ranks are in test_collectives.py."""
import os
import platform
import select
import shutil
import signal
import subprocess

import pytest
from helpers.jsonl import Trace
from helpers.live import pending
from helpers.run import ALL, CUDATRACE, FAKE, INSIDE, O, TESTS, cudatrace, inside, needs_tracing, passes, until
from test_cases import normal

CC = os.environ.get("CC", "gcc").split()
# How the plugin has NCCL's functions: looked up at the first call, at the start in pages that are not to be written, by words.
TABLES = {"lazy": ["-Wl,-z,lazy,-z,norelro"], "now": ["-Wl,-z,now,-z,relro"], "no-plt": ["-fno-plt", "-Wl,-z,now,-z,relro"]}
LINKED = {"lazy": ["-no-pie", "-fno-pie", "-Wl,-z,lazy"], "now": ["-pie", "-fPIE", "-Wl,-z,now"]}
# What one `run` and one `names` are.
RUN = {"ncclGetVersion": 2, "ncclCommInitRank": 1, "ncclGroupStart": 1, "ncclAllReduce": 2, "ncclGroupEnd": 1, "ncclBcast": 1, "ncclBroadcast": 1,
       "ncclCommDestroy": 1}
NAMES = {"ncclGetVersion": 1, "ncclCommInitRank": 1, "ncclBcast": 1, "ncclBroadcast": 1, "ncclCommDestroy": 1}


@pytest.fixture(scope="module")
def place():
    folder = os.environ["TMP"] + "/nccl"
    source, to = TESTS + "/inject/nccl.c", [f"-L{FAKE}", "-l:libnccl.so.2"]
    for how, flags in TABLES.items():
        os.makedirs(f"{folder}/{how}")
        subprocess.run([*CC, "-O1", "-Wall", "-DPLUGIN", "-shared", "-fPIC", *flags, "-o", f"{folder}/{how}/plugin.so", source, *to], check=True)
    subprocess.run([*CC, "-O1", "-Wall", "-o", f"{folder}/program", source, "-ldl", "-lpthread"], check=True)
    for how, flags in LINKED.items():
        subprocess.run([*CC, "-O1", "-Wall", "-DLINKED", *flags, "-o", f"{folder}/linked-{how}", source, *to, "-ldl", "-lpthread"], check=True)
    return folder


def trace(tmp_path, place, program, steps, how="now", way=(), tracer=inside, options=()):
    env = {"LD_LIBRARY_PATH": f"{FAKE}:{place}/{how}", "FAKE_CUDA_COUNTS": str(tmp_path / "counts"), "CUDATRACE_VERBOSE": "1"}
    ran = tracer("-q", "-e", ALL, *options, "--jsonl", tmp_path / "t", "--", *way, f"{place}/{program}", *steps.split(), env=env)
    assert ran.status == 0 and ran.silent(), ran
    t = Trace(tmp_path / "t")
    # Without LD_PRELOAD the driver is in cuInit when the library comes.
    assert t.accounts(missed=["calls"] if way else []) and t.end["orphans"] == 0
    name = {e["lib"]: e["name"] for e in t.ev if e["type"] == "library"}
    assert all(name[e.get("lib", 1)] == ("libnccl" if e["type"] == "collective" else "libcuda") for e in t.calls)
    return t


def as_root(*args, **how):
    """With probes, too, for what the library does not see."""
    return cudatrace("--probe=inject", *args, **how)


def by_library(t):
    """How many calls of NCCL it has seen, and not probes."""
    return sum(e["id"] >> 48 == 2 for e in t.calls if e["type"] == "collective")


def of_nccl(t):
    return {s: n for s, n in t.sym.items() if s.startswith("nccl")}


def times(*counts):
    """(counts, n)..., added up"""
    return {s: n for s in RUN if (n := sum(c.get(s, 0) * k for c, k in counts))}


def all_are_there(tmp_path):
    """As many of each as the stand-ins have counted, of NCCL and of the driver."""
    passes("cases/expect.py", "--counts", tmp_path / "counts", tmp_path / "t")


@pytest.mark.parametrize("how", TABLES)
@pytest.mark.parametrize("steps,runs", [
    ("driver init load early run run", 2),          # loaded when the driver is there
    ("load driver init early run", 1),              # and before: PyTorch's way
    ("driver init load run unload load run", 2),    # the plugin may be at another place then
    ("driver load thread init run", 1),
    ("driver load fork init run", 2),               # the parent's pointers lead to the child's calls, too
    ("driver fork init load run", 2),               # loaded by a child
    ("load fork driver init run", 2),               # a child that is the first to load the driver
])
def test_plugin(tmp_path, place, how, steps, runs):
    t = trace(tmp_path, place, "program", steps, how)
    early = {"ncclGetVersion": steps.split().count("early")}
    assert of_nccl(t) == times((RUN, runs), (early, 1))
    all_are_there(tmp_path)
    made = [e for e in t.calls if e["symbol"] in ("ncclBcast", "ncclGroupEnd")]
    # The parent's communicator is 0x...; a child's may be at the same address: read anew.
    assert {(e.get("algorithm"), e.get("protocol")) for e in made} == {("RING", "LL"), ("RING", "SIMPLE")}
    launches = [e for e in t.calls if e["symbol"] == "cuLaunchKernel"]
    by_id = {e["id"]: e for e in t.calls}
    assert len(launches) == 2 * runs and {by_id[e["parent"]]["symbol"] for e in launches} == {"ncclGroupEnd", "ncclBroadcast"}


@pytest.mark.parametrize("steps,cnt", [
    ("driver init names names", 2),
    ("names driver init names", 1),             # asked for when no driver is there: it is loaded then
    ("driver init names unload names", 2),
    ("driver fork names init names", 2),        # by a child that has made no call yet
    ("driver names fork init names", 2),
])
def test_by_name(tmp_path, place, steps, cnt):
    t = trace(tmp_path, place, "program", steps)
    early = {"ncclGetVersion": {"names driver": 1, "driver fork": 2, "driver names": 1}.get(" ".join(steps.split()[:2]), 0)}
    assert of_nccl(t) == times((NAMES, cnt), (early, 1))
    if "names fork" not in steps:   # a child has its parent's counts
        all_are_there(tmp_path)


@pytest.mark.parametrize("how", LINKED)
@pytest.mark.parametrize("steps,runs", [("early driver init run run", 2), ("fork early driver init run", 2)])
def test_linked(tmp_path, place, how, steps, runs):
    """A program that is linked to NCCL: its calls before it loads the driver, too."""
    t = trace(tmp_path, place, "linked-" + how, steps)
    assert of_nccl(t) == times((RUN, runs), ({"ncclGetVersion": 1}, 1 + steps.count("fork")))
    all_are_there(tmp_path)


@pytest.mark.parametrize("program,steps", [("linked-lazy", "early driver init run run"), ("program", "load driver init run unload load run names")])
def test_same_as_by_uprobes(tmp_path, place, program, steps):
    needs_tracing()
    found = []
    for probe, tracer in (("uprobe", lambda *args, **how: cudatrace("--probe=uprobe", *args, **how)), ("inject", inside)):
        (tmp_path / probe).mkdir()
        found.append(normal(trace(tmp_path / probe, place, program, steps, "now", tracer=tracer).calls))
    assert found[0] == found[1]


@pytest.mark.parametrize("how", TABLES)
def test_loaded_by_the_driver(tmp_path, place, how):
    """Without LD_PRELOAD: what has NCCL when the driver is initialised is seen from then on."""
    t = trace(tmp_path, place, "program", "load early driver init run", how, way=["env", "-u", "LD_PRELOAD"])
    assert of_nccl(t) == RUN


@pytest.mark.parametrize("how", TABLES)
def test_loaded_by_many_at_once(tmp_path, place, how):
    """Each thread's calls are seen from its object's first one on, whoever looks at what was loaded meanwhile."""
    for i in range(8):
        shutil.copy(f"{place}/{how}/plugin.so", f"{place}/{how}/plugin{i}.so")
    t = trace(tmp_path, place, "program", "driver names storm", how)
    assert of_nccl(t) == {"ncclGetVersion": 1 + 8 * 50}


@pytest.mark.parametrize("tracer", [inside, as_root])
def test_destroyed_meanwhile(tmp_path, place, tracer):
    """A communicator that another thread destroys when a call with it has just returned: its memory is gone then."""
    if tracer is as_root:
        needs_tracing()
    # So fast that a tracer that does not get a processor for some milliseconds needs room.
    t = trace(tmp_path, place, "program", "driver init race", tracer=tracer, options=("--buffer-size", "128M"))
    n = of_nccl(t)
    assert (n["ncclCommInitRank"], n["ncclCommAbort"], n["ncclCommDestroy"]) == (2000, 1000, 1000)
    all_are_there(tmp_path)
    reduces = [e for e in t.calls if e["symbol"] == "ncclAllReduce"]
    went_well = [e for e in reduces if e["result"] == 0]
    assert len(went_well) > 1000
    # Some are gone before they are read.
    told = [e for e in went_well if "rank" in e]
    assert len(told) > len(went_well) / 2 and all((e["rank"], e["nranks"]) == (0, 2) for e in told)


def test_destroyer_waits(tmp_path):
    """For who reads a communicator at that moment; and until it is destroyed nobody reads it directly."""
    program, top = tmp_path / "comm", os.path.dirname(TESTS)
    subprocess.run([*CC, "-D_GNU_SOURCE=", "-I", top + "/include", "-O1", "-Wall", "-o", program, TESTS + "/inject/comm.c", top + "/inject/comm.c", "-lpthread"],
                   check=True)
    assert subprocess.run([program], timeout=60, check=False).returncode == 0


def test_another_copy(tmp_path, place):
    """The first that is loaded is traced; the other one works as ever."""
    copy = shutil.copy(FAKE + "/libnccl.so.2", tmp_path / "another.so.2")
    t = trace(tmp_path, place, "program", f"driver init names path={copy} names")
    assert of_nccl(t) == times((NAMES, 2))


def test_not_wanted(tmp_path, place):
    """Functions that are not traced: no pointer leads elsewhere."""
    path = tmp_path / "t"
    env = {"LD_LIBRARY_PATH": f"{FAKE}:{place}/now"}
    ran = inside("-q", "-e", "launch", "--jsonl", path, "--", place + "/program", *"driver init load run names ready".split(), env=env)
    assert ran.status == 1 and "is not traced" in ran.err, ran
    assert set(Trace(path).sym) == {"cuLaunchKernel"}


@pytest.mark.parametrize("hide", ["--no-args", "--no-strings"])
def test_redacted(tmp_path, place, hide):
    """Nothing of a communicator, nor of a launch's arguments, is read; of strings there are none."""
    env = {"LD_LIBRARY_PATH": f"{FAKE}:{place}/now"}
    assert inside("-q", hide, "-e", ALL, "--jsonl", tmp_path / "t", "--", place + "/program", *"driver init load run".split(), env=env).status == 0
    calls = [e for e in Trace(tmp_path / "t").calls if e["type"] == "collective"]
    told = {k for e in calls for k in e} & {"communicator", "rank", "count", "bytes", "seq", "datatype", "algorithm"}
    assert len(calls) == sum(RUN.values()) and bool(told) == (hide == "--no-strings"), told


@pytest.mark.parametrize("how,end", [*((how, signal.SIGINT) for how in TABLES), ("now", signal.SIGKILL)])
def test_pointers_are_put_back(tmp_path, place, how, end):
    """When the tracer is gone, or the trace has ended, the program has NCCL's own functions again."""
    env = {**os.environ, "LD_LIBRARY_PATH": f"{FAKE}:{place}/{how}"}
    with subprocess.Popen([*INSIDE, CUDATRACE, "-q", "--probe=inject", "-e", ALL, "--jsonl", tmp_path / "t", "--", "sh", "-c", "trap '' INT; echo $$; exec \"$@\"", "sh",
                           place + "/program", *"driver init load run ready run".split()], stdout=subprocess.PIPE, text=True, env=env) as tracer:
        pid = int(tracer.stdout.readline())
        assert tracer.stdout.readline() == "ready\n"
        fd = os.pidfd_open(pid)
        tracer.send_signal(end)
        if end == signal.SIGINT:
            # The second ends the trace.
            until(lambda: pending(tracer.pid) == 0)
            tracer.send_signal(end)
        # It goes on without a tracer, or without a trace, and ends by itself.
        assert select.select([fd], [], [], 20)[0]
        os.close(fd)
    t = Trace(tmp_path / "t") if end == signal.SIGINT else None
    assert not t or t.accounts()


@pytest.mark.parametrize("program,how,steps,counts", [
    *(("program", how, "load driver init early run unload load run names", ((RUN, 2), (NAMES, 1), ({"ncclGetVersion": 1}, 1))) for how in TABLES),
    ("program", "now", "driver fork init load run", ((RUN, 2),)),
    ("linked-lazy", "now", "early driver init run run", ((RUN, 2), ({"ncclGetVersion": 1}, 1))),
])
def test_as_root(tmp_path, place, program, how, steps, counts):
    """By the library where it is called through it, which costs no trap then, and by probes otherwise: each call once."""
    needs_tracing()
    t = trace(tmp_path, place, program, steps, how, tracer=as_root)
    assert of_nccl(t) == times(*counts)
    all_are_there(tmp_path)
    cnt = sum(of_nccl(t).values())
    assert by_library(t) >= cnt - 4 if platform.machine() == "x86_64" else not by_library(t)
    made = [e for e in t.calls if e["symbol"] in ("ncclBcast", "ncclGroupEnd")]
    assert {(e.get("algorithm"), e.get("protocol")) for e in made} == {("RING", "LL"), ("RING", "SIMPLE")}
