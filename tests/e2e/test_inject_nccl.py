# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# timeout: 600
# takes: 20
"""NCCL recorded in the process, without privileges. However a program gets NCCL's functions (tests/inject/nccl.c), each call must be in
the trace once. Case nccl of test_inject.py tests the calls themselves; ranks are in test_collectives.py."""
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
# How the plugin calls NCCL's functions: lazy binding, read-only pages bound at the start, or direct pointers.
TABLES = {"lazy": ["-Wl,-z,lazy,-z,norelro"], "now": ["-Wl,-z,now,-z,relro"], "no-plt": ["-fno-plt", "-Wl,-z,now,-z,relro"]}
LINKED = {"lazy": ["-no-pie", "-fno-pie", "-Wl,-z,lazy"], "now": ["-pie", "-fPIE", "-Wl,-z,now"]}
# The calls of one `run` and of one `names`.
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
    # Without LD_PRELOAD, the library is loaded while the driver is in cuInit.
    assert t.accounts(missed=["calls"] if way else []) and t.end["orphans"] == 0
    name = {e["lib"]: e["name"] for e in t.ev if e["type"] == "library"}
    assert all(name[e.get("lib", 1)] == ("libnccl" if e["type"] == "collective" else "libcuda") for e in t.calls)
    return t


def as_root(*args, **how):
    """Also uses probes for calls that the library misses."""
    return cudatrace("--probe=inject", *args, **how)


def by_library(t):
    """The number of NCCL calls recorded by the library, not by probes."""
    return sum(e["id"] >> 48 == 2 for e in t.calls if e["type"] == "collective")


def of_nccl(t):
    return {s: n for s, n in t.sym.items() if s.startswith("nccl")}


def times(*counts):
    """The sum of n times counts, for each (counts, n)"""
    return {s: n for s in RUN if (n := sum(c.get(s, 0) * k for c, k in counts))}


def all_are_there(tmp_path):
    """The trace must have as many calls of each NCCL and driver function as the mocks counted."""
    passes("cases/expect.py", "--counts", tmp_path / "counts", tmp_path / "t")


@pytest.mark.parametrize("how", TABLES)
@pytest.mark.parametrize("steps,runs", [
    ("driver init load early run run", 2),          # loaded after the driver
    ("load driver init early run", 1),              # loaded before the driver, like PyTorch
    ("driver init load run unload load run", 2),    # the plugin's address may then differ
    ("driver load thread init run", 1),
    ("driver load fork init run", 2),               # the child uses the parent's pointers
    ("driver fork init load run", 2),               # loaded by a child
    ("load fork driver init run", 2),               # the child is the first to load the driver
])
def test_plugin(tmp_path, place, how, steps, runs):
    t = trace(tmp_path, place, "program", steps, how)
    early = {"ncclGetVersion": steps.split().count("early")}
    assert of_nccl(t) == times((RUN, runs), (early, 1))
    all_are_there(tmp_path)
    made = [e for e in t.calls if e["symbol"] in ("ncclBcast", "ncclGroupEnd")]
    # A child's communicator may have the address of its parent's: it must be read again.
    assert {(e.get("algorithm"), e.get("protocol")) for e in made} == {("RING", "LL"), ("RING", "SIMPLE")}
    launches = [e for e in t.calls if e["symbol"] == "cuLaunchKernel"]
    by_id = {e["id"]: e for e in t.calls}
    assert len(launches) == 2 * runs and {by_id[e["parent"]]["symbol"] for e in launches} == {"ncclGroupEnd", "ncclBroadcast"}


def test_main_thread_has_ended(tmp_path, place):
    """A process's id finds no memory when its main thread is gone: the communicator must be read all the same."""
    t = trace(tmp_path, place, "program", "driver alone init load run")
    assert of_nccl(t) == RUN
    made = [e for e in t.calls if e["symbol"] == "ncclBcast"]
    assert [(e["rank"], e["nranks"], e["algorithm"]) for e in made] == [(1, 2, "RING")], made


@pytest.mark.parametrize("steps,cnt", [
    ("driver init names names", 2),
    ("names driver init names", 1),             # looked up before the driver is loaded, which happens then
    ("driver init names unload names", 2),
    ("driver fork names init names", 2),        # by a child that has not made a call yet
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
    """In a program linked to NCCL, calls before the driver is loaded must be recorded, too."""
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
    """Without LD_PRELOAD, objects that use NCCL when the driver is initialised must be recorded from then on."""
    t = trace(tmp_path, place, "program", "load early driver init run", how, way=["env", "-u", "LD_PRELOAD"])
    assert of_nccl(t) == RUN


@pytest.mark.parametrize("how", TABLES)
def test_loaded_by_many_at_once(tmp_path, place, how):
    """Each thread's calls must be recorded from its object's first call on, even while another thread inspects newly loaded objects."""
    for i in range(8):
        shutil.copy(f"{place}/{how}/plugin.so", f"{place}/{how}/plugin{i}.so")
    t = trace(tmp_path, place, "program", "driver names storm", how)
    assert of_nccl(t) == {"ncclGetVersion": 1 + 8 * 50}


@pytest.mark.parametrize("tracer", [inside, as_root])
def test_destroyed_meanwhile(tmp_path, place, tracer):
    """Another thread destroys a communicator just after a call with it returned: its memory must not be read afterwards."""
    if tracer is as_root:
        needs_tracing()
    # The calls are so fast that a tracer without a processor for a few milliseconds needs a large buffer.
    t = trace(tmp_path, place, "program", "driver init race", tracer=tracer, options=("--buffer-size", "128M"))
    n = of_nccl(t)
    assert (n["ncclCommInitRank"], n["ncclCommAbort"], n["ncclCommDestroy"]) == (2000, 1000, 1000)
    all_are_there(tmp_path)
    reduces = [e for e in t.calls if e["symbol"] == "ncclAllReduce"]
    went_well = [e for e in reduces if e["result"] == 0]
    assert len(went_well) > 1000
    # Some are destroyed before they are read.
    told = [e for e in went_well if "rank" in e]
    assert len(told) > len(went_well) / 2 and all((e["rank"], e["nranks"]) == (0, 2) for e in told)


def test_destroyer_waits(tmp_path):
    """The destroying thread must wait for a reader of the communicator. Until destruction, nothing may read the communicator directly."""
    program, top = tmp_path / "comm", os.path.dirname(TESTS)
    subprocess.run([*CC, "-D_GNU_SOURCE=", "-I", top + "/include", "-O1", "-Wall", "-o", program, TESTS + "/inject/comm.c", top + "/inject/comm.c", "-lpthread"],
                   check=True)
    assert subprocess.run([program], timeout=60, check=False).returncode == 0


def test_another_copy(tmp_path, place):
    """The first loaded copy must be traced; the other one works as before."""
    copy = shutil.copy(FAKE + "/libnccl.so.2", tmp_path / "another.so.2")
    t = trace(tmp_path, place, "program", f"driver init names path={copy} names")
    assert of_nccl(t) == times((NAMES, 2))


def test_not_wanted(tmp_path, place):
    """If NCCL's functions are not traced, no pointer may be changed."""
    path = tmp_path / "t"
    env = {"LD_LIBRARY_PATH": f"{FAKE}:{place}/now"}
    ran = inside("-q", "-e", "launch", "--jsonl", path, "--", place + "/program", *"driver init load run names ready".split(), env=env)
    assert ran.status == 1 and "is not traced" in ran.err, ran
    assert set(Trace(path).sym) == {"cuLaunchKernel"}


@pytest.mark.parametrize("hide", ["--no-args", "--no-strings"])
def test_redacted(tmp_path, place, hide):
    """Neither a communicator, nor a launch's arguments, nor strings may be read."""
    env = {"LD_LIBRARY_PATH": f"{FAKE}:{place}/now"}
    assert inside("-q", hide, "-e", ALL, "--jsonl", tmp_path / "t", "--", place + "/program", *"driver init load run".split(), env=env).status == 0
    calls = [e for e in Trace(tmp_path / "t").calls if e["type"] == "collective"]
    told = {k for e in calls for k in e} & {"communicator", "rank", "count", "bytes", "seq", "datatype", "algorithm"}
    assert len(calls) == sum(RUN.values()) and bool(told) == (hide == "--no-strings"), told


@pytest.mark.parametrize("how,end", [*((how, signal.SIGINT) for how in TABLES), ("now", signal.SIGKILL)])
def test_pointers_are_put_back(tmp_path, place, how, end):
    """When the tracer or the trace has ended, the program must have NCCL's own functions again."""
    env = {**os.environ, "LD_LIBRARY_PATH": f"{FAKE}:{place}/{how}"}
    with subprocess.Popen([*INSIDE, CUDATRACE, "-q", "--probe=inject", "-e", ALL, "--jsonl", tmp_path / "t", "--", "sh", "-c", "trap '' INT; echo $$; exec \"$@\"", "sh",
                           place + "/program", *"driver init load run ready run".split()], stdout=subprocess.PIPE, text=True, env=env) as tracer:
        pid = int(tracer.stdout.readline())
        assert tracer.stdout.readline() == "ready\n"
        fd = os.pidfd_open(pid)
        tracer.send_signal(end)
        if end == signal.SIGINT:
            # The second signal ends the trace.
            until(lambda: pending(tracer.pid) == 0)
            tracer.send_signal(end)
        # The program continues without a tracer or a trace, and ends by itself.
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
    """Calls through the library must be recorded by it, without a trap, and all others by probes: each call once."""
    needs_tracing()
    t = trace(tmp_path, place, program, steps, how, tracer=as_root)
    assert of_nccl(t) == times(*counts)
    all_are_there(tmp_path)
    cnt = sum(of_nccl(t).values())
    assert by_library(t) >= cnt - 4 if platform.machine() == "x86_64" else not by_library(t)
    made = [e for e in t.calls if e["symbol"] in ("ncclBcast", "ncclGroupEnd")]
    assert {(e.get("algorithm"), e.get("protocol")) for e in made} == {("RING", "LL"), ("RING", "SIMPLE")}
