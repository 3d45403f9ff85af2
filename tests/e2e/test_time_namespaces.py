# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# timeout: 300
# takes: 25
"""Time namespaces (time_namespaces(7)): the tracer in one, the program in one, or each in its own. All times of a trace use one
clock, whatever the producer."""
import json
import os
import shutil
import subprocess
import time

import pytest
from helpers.daemon import NOBODY, Daemon, for_all, library  # noqa: F401, a fixture
from helpers.jsonl import Trace
from helpers.live import compiled
from helpers.run import CUDATRACE, FAKE, TESTS, Ran, needs_tracing, until

SAMPLE = [FAKE + "/sample", "--tokens", "2", "--quiet"]


def away(seconds, *options):
    """A command prefix that sets its monotonic clock ahead by so many seconds, and its boot clock by another amount."""
    return ["unshare", *options, "--time", f"--monotonic={seconds}", f"--boottime={seconds // 2}"] if seconds else []


@pytest.fixture(autouse=True, scope="module")
def can_trace():
    needs_tracing()
    if not os.path.exists("/proc/self/ns/time") or Ran([*away(7), "true"]).status:
        pytest.skip("this kernel or unshare has no time namespaces")


# Offsets before and after the present, and with a fraction of a second.
OFFSETS = [(0, 86400), (86400, 0), (-5, 0), (0, -5), (40, 100000), (-5, 30)]
HOW = {"uprobe": ([], ["--probe=uprobe"]), "both": ([], ["--probe=inject"]), "inject": (["setpriv", "--bounding-set=-bpf,-perfmon,-sys_admin"], ["--probe=inject"])}


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("tracer,program", OFFSETS)
def test_trace(tmp_path, how, tracer, program):
    before, args = HOW[how]
    begun, clock = time.time(), time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    # An unprivileged user may create one in a private user namespace.
    own = ["--map-root-user"] if how == "inject" else []
    ran = Ran([*away(tracer), *before, CUDATRACE, "-q", "--kernel-probe=auto", *args, "-e", "launch", "--jsonl", f"{tmp_path}/t", "--", *away(program, *own), *SAMPLE],
              env={"LD_LIBRARY_PATH": FAKE})
    most = (time.time() - begun) * 1000
    assert ran.status == 0 and "offset" not in ran.err, ran
    t = Trace(f"{tmp_path}/t")
    assert t.accounts() and t.sym["cuLaunchKernel"] > 50
    times = [e["ts"] for e in t.ev]
    assert min(times) > -1000 and max(times) < most, (min(times), max(times), most)
    assert 0 <= t.end["wall_ms"] < most
    assert 0 <= t.head["clock_base_ns"] - clock < most * 1e6
    # In order of events: the process, its library, its calls.
    assert t.calls[0]["ts"] > next(e["ts"] for e in t.lib if e["op"] in ("attached", "mapped")) - 1000


def test_children(tmp_path):
    """A child that is born into a namespace that its parent made must have times of the trace's clock."""
    path = tmp_path / "t"
    prog = tmp_path / "p.py"
    prog.write_text("import ctypes, os\n"
                    "l = ctypes.CDLL('libcuda.so.1')\nl.cuInit(0)\nc = ctypes.CDLL(None)\n"
                    "assert not c.unshare(0x80)\n"
                    "open('/proc/self/timens_offsets', 'w').write('monotonic 77777 5\\n')\n"
                    "p = os.fork()\nl.cuCtxSynchronize()\n"
                    "if p: os.waitpid(p, 0)\n")
    for probe in ("uprobe", "inject"):
        begun = time.time()
        ran = Ran([CUDATRACE, "-q", f"--probe={probe}", "--jsonl", str(path), "--", shutil.which("python3"), str(prog)], env={"LD_LIBRARY_PATH": FAKE})
        t = Trace(path)
        assert ran.status == 0 and len({c["pid"] for c in t.calls}) == 2, ran
        assert 0 <= min(e["ts"] for e in t.ev) <= max(e["ts"] for e in t.ev) < (time.time() - begun) * 1000


@pytest.mark.parametrize("daemon,program", [(3000, 0), (0, 3000), (-5, 70)])
def test_daemon(for_all, daemon, program):  # noqa: F811
    """The daemon's files must have times of one clock, by the library and by uprobes."""
    lib = for_all / "lib"
    lib.mkdir()
    shutil.copy(FAKE + "/libcuda.so.1", lib)
    caller = compiled(for_all / "caller", TESTS + "/caller.c")
    d = Daemon(for_all, trace="inject: true", own=True, libcuda=str(lib / "libcuda.so.1"), before=away(daemon))
    begun = time.time()
    for opted in (True, False):
        with subprocess.Popen([*away(program), *NOBODY, caller], env={**os.environ, **(library(d.folder) if opted else {})}, text=True,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE) as p:
            for what, said in ((f"open {lib}/libcuda.so.1", 1), ("init", 0), ("alloc 20", 20)):
                # Its level is known, and its calls have probes if needed.
                until(lambda: what.startswith("open") or d.process(p.pid) and (opted or all(x["probes"] == "all" for x in d.ctl("status")["libraries"])))
                p.stdin.write(what + "\n")
                p.stdin.flush()
                assert int(p.stdout.readline()) == said
    d.stop()
    most = (time.time() - begun) * 1000
    calls = [e for e in d.lines() if e.get("symbol", "").startswith("cuMem")]
    assert len({e["pid"] for e in calls}) == 2 and len({e["id"] >> 48 for e in calls}) == 2
    assert max(e["ts"] for e in calls) - min(e["ts"] for e in calls) < most
    head = next(e for e in d.lines() if e["type"] == "header")
    wall = json.loads(Ran(["python3", "-c", "import sys, datetime as d; print(d.datetime.fromisoformat(sys.argv[1][:26].rstrip('Z') + '+00:00').timestamp())",
                           head["wall_time"]]).out)
    assert all(begun - 5 < wall + e["ts"] / 1000 < time.time() + 5 for e in calls)
