# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# timeout: 1800
# takes: 30 300
"""--gpu-time -p: CUPTI is started in a program that runs already while no thread is in the driver. The mock CUPTI aborts as the
real one may. Each launch after the start has a GPU time; reasons for having none are reported in one line."""
import collections
import contextlib
import os
import pathlib
import platform
import shutil
import signal
import subprocess
import sys
import time

import pytest
from helpers.daemon import Daemon, for_all  # noqa: F401, a fixture
from helpers.jsonl import Trace
from helpers.live import compiled
from helpers.run import CUDATRACE, FAKE, O, TESTS, cudatrace, needs_tracing, until

# Threads are in the driver most of the time.
DELAYS = "cuLaunchKernel:200,cuStreamSynchronize:500"


@pytest.fixture(autouse=True, scope="module")
def own():
    """The program whose threads launch."""
    return compiled(os.environ["TMP"] + "/late_gpu", TESTS + "/inject/late_gpu.c")


@pytest.fixture(autouse=True, scope="module")
def root():
    needs_tracing()
    if platform.machine() != "x86_64":
        pytest.skip("only programs on x86-64 can be entered")


@contextlib.contextmanager
def program(*command, **env):
    """A program that must be unharmed at the end."""
    with subprocess.Popen([*map(str, command)], stderr=subprocess.PIPE, text=True,
                          env={**os.environ, "LD_LIBRARY_PATH": f"{FAKE}:{O}/cupti", "FAKE_CUPTI": "strict", "FAKE_DELAY_US": DELAYS, **env}) as p:
        try:
            until(lambda: "libcuda" in open(f"/proc/{p.pid}/maps", encoding="utf-8").read())
            time.sleep(0.2)
            yield p
            assert p.poll() is None, (p.returncode, p.stderr.read())
            p.terminate()
            assert p.wait(60) == (0 if "late_gpu" in str(command[0]) else -signal.SIGTERM), (p.returncode, p.stderr.read())
        finally:
            p.kill()


class Late:
    """A late trace of a program."""

    def __init__(self, p, tmp_path, *args, duration=1.5):
        path = tmp_path / "t.jsonl"
        path.unlink(missing_ok=True)
        self.ran = cudatrace("-q", "--gpu-time", "--yes", "-p", p.pid, "--jsonl", path, "--duration", duration, *args)
        assert self.ran.status == 0, self.ran
        self.t = Trace(path)
        self.states = [e for e in self.t.ev if e.get("op") == "gpu-time"]
        self.gpu = [e for e in self.t.ev if e["type"] == "gpu"]

    def timed(self):
        """Launches after CUPTI's start, but for those in flight at the end, have their executions. Returns their calls."""
        (state,) = self.states
        assert state["name"] == "on", state
        first, last = (f(e["ts"] for e in self.gpu) for f in (min, max))
        calls = [e for e in self.t.calls if e["symbol"].startswith(("cuLaunchKernel", "cuGraphLaunch")) and not e.get("capturing") and not e.get("result", 1)]
        # Probes stop some milliseconds before the library: its calls then seem to be in the last one that a probe saw.
        within = [e for e in calls if state["ts"] < e["ts"] < last - 100 and not e.get("depth")]
        of = collections.Counter(e.get("call_id") for e in self.gpu if e["op"] in ("kernel", "graph") and not e.get("graph_node", 1) > 1)
        assert len(within) > 50 and first < last
        # A machine that is too busy drops some, and the trace reports it.
        if self.t.end["drops"]["calls"] or self.t.end["gpu_discarded"] or self.t.end["gpu_lost"]:
            return within
        assert all(of[e["id"]] == 1 for e in within), [e for e in within if of[e["id"]] != 1][:3]
        assert self.t.end["gpu_launches_timed"] >= len(within) and self.t.end["gpu_launches_untimed"] < 100, self.t.end
        return within


def test_twice(tmp_path, own):
    """Seven threads, graphs that were instantiated before; the second start is warm; then a trace without GPU times."""
    with program(own, 7) as p:
        for mode in ("graphs", "nodes"):
            r = Late(p, tmp_path, f"--gpu-time={mode}")
            calls = r.timed()
            graphs = [e for e in calls if e["symbol"] == "cuGraphLaunch"]
            ops = collections.Counter("node" if "graph_node" in e else e["op"] for e in r.gpu)
            assert graphs and bool(ops["graph"]) == (mode == "graphs") and bool(ops["node"]) == (mode == "nodes"), ops
            assert r.t.head["gpu_time"] == mode
        ran = cudatrace("-q", "--probe=inject", "-p", p.pid, "--jsonl", tmp_path / "u.jsonl", "-e", "launch", "--duration", "1")
        assert ran.status == 0 and any(e["id"] >> 48 == 2 for e in Trace(tmp_path / "u.jsonl").calls), ran


@pytest.mark.parametrize("option", ["--python=launch", pytest.param("--torch", marks=pytest.mark.long)])
def test_calls_of_probes(tmp_path, own, option):
    """Uprobes record the calls that have operators or Python frames. They pass the gate, too: without it the mock aborts."""
    with program(own, 7) as p:
        r = Late(p, tmp_path, option)
        calls = [e for e in r.t.calls if e["symbol"] == "cuLaunchKernel"]
        assert len(r.timed()) > 50 and calls and not any(e["id"] >> 48 == 2 for e in calls)


def test_program_ends_first(tmp_path, own):
    """CUPTI's own handler at the exit was registered when CUPTI started: the mock aborts if it is called afterwards."""
    for duration, after in ((5, 0.3), (1, 0.9), (1, 1)):
        with subprocess.Popen([own, "3"], stderr=subprocess.PIPE, text=True,
                              env={**os.environ, "LD_LIBRARY_PATH": f"{FAKE}:{O}/cupti", "FAKE_CUPTI": "strict", "FAKE_DELAY_US": DELAYS}) as p:
            until(lambda p=p: "libcuda" in open(f"/proc/{p.pid}/maps", encoding="utf-8").read())
            time.sleep(0.2)
            with subprocess.Popen([CUDATRACE, "-q", "--gpu-time", "--yes", "-p", str(p.pid), "--jsonl", tmp_path / "t.jsonl", "--duration", str(duration)]) as tracer:
                until(lambda: '"name":"on"' in (tmp_path / "t.jsonl").read_text(encoding="utf-8") if (tmp_path / "t.jsonl").exists() else False)
                time.sleep(after)
                p.terminate()
                assert p.wait(60) == 0, p.stderr.read()
                assert tracer.wait(60) == 0
        (tmp_path / "t.jsonl").unlink()


@pytest.mark.parametrize("word,reason", [("taken", "in use already (a test)"), ("fail", "cuptiActivityEnable failed"), ("missing", "no libcupti was found")])
def test_refusals(tmp_path, own, word, reason):
    with program(own, 1, FAKE_CUPTI=word) as p:
        r = Late(p, tmp_path, *(("--cupti", "/nonexistent") if word == "missing" else ()))
        (state,) = r.states
        assert state["name"] == "off" and reason in state["why"] and r.ran.err.count("--gpu-time:") == 1 and not r.gpu
        assert r.t.end["gpu_launches_untimed"] > 10


def test_options(own):
    with program(own) as p:
        for args, word in ((["--gpu-time"], "--yes"), (["--gpu-time", "--yes", "--probe=uprobe"], "--probe=uprobe"), (["--gpu-time", "--probe=inject"], "--yes")):
            ran = cudatrace(*args, "-p", p.pid)
            assert ran.status == 2 and word in ran.err and ran.err.count("\n") == 1, ran
        assert "libcudatrace-inject" not in open(f"/proc/{p.pid}/maps", encoding="utf-8").read()


# Threads that begin at these times. Those with a negative time make short calls, the others wait most of the time.
WAITS = """
import ctypes, sys, threading, time
cu, ctx = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
assert not cu.cuInit(0) and not cu.cuDevicePrimaryCtxRetain(ctypes.byref(ctx), 0) and not cu.cuCtxSetCurrent(ctx)
def work(begin):
    time.sleep(abs(begin))
    assert not cu.cuCtxSetCurrent(ctx)
    p = ctypes.c_uint64()
    assert not cu.cuMemAlloc_v2(ctypes.byref(p), 4096)
    while True:
        assert not cu.cuMemsetD8_v2(p, 1, 4096)
        assert not (cu.cuStreamSynchronize(None) or time.sleep(0.01) if begin < 0 else cu.cuCtxSynchronize())
for begin in map(float, sys.argv[1:]):
    threading.Thread(target=work, args=(begin,)).start()
"""


def waiting(us, *begins):
    return program(sys.executable, "-c", WAITS, *begins, FAKE_DELAY_US=f"cuCtxSynchronize:{us}")


def test_waits_all_the_time(tmp_path):
    """One thread is always in a wait, and between two waits nobody is in the driver."""
    with waiting(150000, 0) as p:
        r = Late(p, tmp_path)
        (state,) = r.states
        assert state["name"] == "on" and len(r.gpu) >= 3, r.states


@pytest.mark.long
@pytest.mark.parametrize("us,begins,reason", [(900000, (0, 0.3, 0.6), "a thread was always in a CUDA call"), (20000000, (0, -0.1), "may be in a CUDA call since before: thread python")])
def test_never_alone(tmp_path, us, begins, reason):
    with waiting(us, *begins) as p:
        r = Late(p, tmp_path, duration=12)
        (state,) = r.states
        assert state["name"] == "off" and reason in state["why"] and r.ran.err.count("--gpu-time:") == 1 and not r.gpu


def test_tracer_is_killed(tmp_path, own):
    """The library notices, and CUPTI is free for the next tracer."""
    path = tmp_path / "k.jsonl"
    with program(own, 3) as p:
        with subprocess.Popen([CUDATRACE, "-q", "--gpu-time", "--yes", "-p", str(p.pid), "--jsonl", str(path)], stderr=subprocess.DEVNULL) as tracer:
            until(lambda: path.exists() and '"type":"gpu"' in path.read_text(errors="replace"))
            tracer.send_signal(signal.SIGKILL)
        time.sleep(5)
        Late(p, tmp_path).timed()


def burst(d, p, why=None, seconds=0.7):
    """ctl burst PID --gpu-time, until it is over."""
    assert d.ctl("burst", p.pid, f"{seconds}s", "--gpu-time")["gpu_burst"] in ("enters", "starts")
    until(lambda: d.process(p.pid)["gpu_burst"] not in ("enters", "starts", "on", "stops"), 30)
    result = d.process(p.pid)["gpu_burst"]
    assert why in result if why else result == "done", (result, d.log.read_text())


def threads(p):
    return {f.read_text().strip() for f in pathlib.Path(f"/proc/{p.pid}/task").glob("*/comm")}


def burst_files(d):
    """The traces of bursts that are finished."""
    return [Trace(f) for f in sorted(d.files.iterdir()) if f.suffix == ".jsonl" and '"type":"gpu"' in f.read_text()]


def test_burst(for_all, own):  # noqa: F811
    """ctl burst PID --gpu-time: twice in a running program, which the library enters for it, and once where the program is refused."""
    shutil.copytree(FAKE, for_all / "lib")
    mine = shutil.copy(own, for_all / "late_gpu")
    d = Daemon(for_all, own=True, trace="inject: true, gpu_time: graphs, gpu_burst: graphs", level="metrics", libcuda=for_all / "lib/libcuda.so.1")
    path = f"{for_all}/lib:{O}/cupti"
    with program(mine, 7, LD_LIBRARY_PATH=path) as p, program(mine, 1, LD_LIBRARY_PATH=path, FAKE_CUPTI="taken") as taken, \
            program(mine, 1, LD_LIBRARY_PATH=path, CUDATRACE_NO_INJECT="1") as never:
        until(lambda: all(d.process(x.pid) for x in (p, taken, never)))
        for args, word in (((p.pid, "--gpu-time=nodes"), "trace.gpu_burst"), (("1s", "--gpu-time"), "of one process"),
                           ((p.pid, "--at", "2030-01-01T00:00:00Z", "--gpu-time"), "of one process")):
            ran = d.ask("burst", *args)
            assert ran.status and word in ran.err and ran.err.count("\n") == 1, ran
        # trace.gpu_time is of programs that load the library themselves.
        d.ctl("inject", p.pid)
        until(lambda: d.process(p.pid).get("inject") == "entered" and d.process(p.pid)["seen"] == "inproc")
        time.sleep(0.3)
        assert "cudatrace-gpu" not in threads(p) and not d.metric("cudatrace_gpu_executions_total")
        burst(d, p)
        until(lambda: not d.process(p.pid)["traced"] and burst_files(d))
        burst(d, p)
        burst(d, taken, "in use already")
        burst(d, never, "CUDATRACE_NO_INJECT")
        until(lambda: not any(d.process(x.pid)["traced"] for x in (p, taken, never)) and len(burst_files(d)) >= 2)
        for t in burst_files(d):
            (on,) = [e for e in t.ev if e.get("op") == "gpu-time" and e["name"] == "on"]
            gpu = [e for e in t.ev if e["type"] == "gpu" and e["op"] in ("kernel", "graph")]
            of = collections.Counter(e.get("call_id") for e in gpu)
            within = [e for e in t.calls if e["symbol"].startswith(("cuLaunchKernel", "cuGraphLaunch")) and on["ts"] + 20 < e["ts"] < on["ts"] + 600]
            assert t.head["gpu_time"] == "graphs" and len(within) > 50 and {e["pid"] for e in gpu} == {p.pid}
            lost = t.end["drops"]["calls"] or t.end.get("gpu_discarded") or t.end.get("gpu_lost")
            lacks = [e["symbol"] for e in within if not of[e["id"]]]
            assert lost or not lacks, (len(lacks), len(within), lacks[:3])
        assert d.metric("cudatrace_gpu_executions_total", op="graph") > 10
    d.stop()


@pytest.mark.long
def test_cold_starts(tmp_path, own):
    """80 cold starts with seven threads. The mock aborts if a thread is in the driver meanwhile."""
    path = tmp_path / "t.jsonl"
    for n in range(40):
        with contextlib.ExitStack() as programs:
            pids = [programs.enter_context(program(own, 7)).pid for _ in range(2)]
            with subprocess.Popen([CUDATRACE, "-q", "--gpu-time", "--yes", "-p", ",".join(map(str, pids)), "--jsonl", str(path), "-e", "graph"], stderr=subprocess.DEVNULL) as tracer:
                until(lambda: path.exists() and path.read_bytes().count(b'"op":"gpu-time"') == 2)
                tracer.terminate()
            states = collections.Counter(e["name"] for e in Trace(path).ev if e.get("op") == "gpu-time")
            assert tracer.returncode == 0 and states == {"on": 2}, (n, states)
        path.unlink()
