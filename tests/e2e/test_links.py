# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# takes: 40
# timeout: 300
"""The process that makes and closes links (cudatrace-links) may hang, be killed, or take a minute: the tracer must not wait for it, and
nothing may stay behind. Suite blocking tests a real memory lock."""
import json
import os
import re
import shutil
import signal
import subprocess
import threading
import time

import pytest
from helpers.jsonl import Trace
from helpers.live import is_gone
from helpers.probed import probed
from helpers.run import ALL, CASES, CUDATRACE, FAKE, Ran, needs_mechanism, needs_tracing, until
from runner.contain import descendants

LIB = FAKE + "/libcuda.so.1"


class Prey:
    """A target with a private library, which other tracers of the mock driver do not record. Another tracer of the whole machine may have
    probes in it: before."""

    def __init__(self, running, folder):
        folder.mkdir()
        self.lib, self.caller = shutil.copy(LIB, folder), running.caller("prey")
        self.pid, self.tell = self.caller.pid, self.caller.ready(self.lib).tell
        time.sleep(0.5)
        self.before = probed(self.pid, self.lib)

    def until_clean(self, seconds=10):
        until(lambda: probed(self.pid, self.lib) in ("none", self.before), seconds)


@pytest.fixture
def prey(running, tmp_path):
    needs_tracing()
    return Prey(running, tmp_path / "lib")


@pytest.fixture
def other(tmp_path):
    """Another library."""
    (tmp_path / "other").mkdir()
    return shutil.copy(LIB, tmp_path / "other")


def links_of(t):
    (pid,) = [p for p, name in descendants(t.pid).items() if name == "cudatrace-links"]
    return pid


def stop(t):
    """Ends the tracer; returns its status and how long that took."""
    begin = time.monotonic()
    return t.stop(signal.SIGTERM), time.monotonic() - begin


def has_all(t, made):
    return t.trace.sym == {"cuMemAlloc_v2": made, "cuMemFree_v2": made} and t.trace.accounts()


def lost(t):
    found = json.loads(Ran([CUDATRACE, "report", "--format=json", t.path]).out)
    ids = [x["id"] for x in found["lost"]]
    assert found["complete"] == (not ids)
    return ids


def test_hangs(running, prey, other):
    """If it is stopped, as if it waited in the kernel, the tracer reports that once, and ends with a whole trace. Its probes stay attached,
    but do no harm; other tracers see everything, and it ends when it goes on."""
    late = running.caller("late")
    t = running.tracer("hangs", "-e", ALL, "-p", prey.pid, "-p", late.pid)
    links = links_of(t)
    prey.tell("alloc 10")
    os.kill(links, signal.SIGSTOP)
    late.tell(f"open {other}")
    until(lambda: re.search(f"{other}: cannot attach [0-9]* probes", t.err))
    prey.tell("alloc 5")
    status, took = stop(t)
    assert status == 0 and took < 9 and has_all(t, 15) and t.err.count("cannot attach") == 1
    assert prey.tell("alloc 100") == 100
    after = running.tracer("after", "-e", ALL, "-p", prey.pid)
    prey.tell("alloc 7")
    stop(after)
    assert has_all(after, 7) and lost(after) == []
    os.kill(links, signal.SIGCONT)
    until(lambda: is_gone(links), 60)
    prey.until_clean()


def test_killed(running, prey):
    """This must end the tracer with a message and a whole trace, but do no harm."""
    t = running.tracer("killed", "-e", ALL, "-p", prey.pid)
    prey.tell("alloc 10")
    os.kill(links_of(t), signal.SIGKILL)
    t.ended()
    assert "cudatrace-links has ended" in t.err
    assert t.trace.end["reason"] == "probes gone" and t.trace.sym["cuMemAlloc_v2"] == 10 and t.trace.accounts()
    assert "the trace is incomplete, missing: 1 early end of the trace" in t.err
    assert lost(t) == ["probes_gone"]
    prey.until_clean()


def test_ends_with_its_tracer(running, prey):
    """It must end when the tracer is killed, even while it is busy."""
    t = running.tracer("orphan", "-e", ALL, "-p", prey.pid)
    links = links_of(t)
    os.kill(links, signal.SIGSTOP)
    t.stop(signal.SIGKILL)
    os.kill(links, signal.SIGCONT)
    until(lambda: is_gone(links), 60)
    prey.until_clean()


def test_perf_events_are_closed_in_the_background(running, prey):
    """Each takes 0.1 s to close: the prompt is back meanwhile, no output stays open, and another tracer sees everything."""
    needs_mechanism("perf")
    t = running.tracer("prompt", "--mechanism=perf", "-e", "cuMem*", "-p", prey.pid)
    links = links_of(t)
    prey.tell("alloc 10")
    _, took = stop(t)
    files = Ran(["ls", "-l", f"/proc/{links}/fd"]).out
    assert took < 5 and has_all(t, 10) and "bpf" in files and "/prompt." not in files
    again = running.tracer("again", "--mechanism=perf", "-e", "cuMem*", "-p", prey.pid)
    prey.tell("alloc 20")
    stop(again)
    assert has_all(again, 20)
    prey.until_clean(60)
    until(lambda: is_gone(links), 60)


def test_four_seconds_without_progress(running, other):
    """The processes wait for each other (event_mutex): seconds, on a busy machine. The tracer must wait for them, and see everything."""
    needs_mechanism("perf")
    late = running.caller("late")
    t = running.tracer("slow", "--mechanism=perf", "-e", "cuMemAlloc_v2", "-p", late.pid)
    links = links_of(t)
    os.kill(links, signal.SIGSTOP)
    threading.Timer(4, os.kill, (links, signal.SIGCONT)).start()
    late.tell(f"open {other}")
    time.sleep(6)
    late.tell("init")
    late.tell("alloc 10")
    stop(t)
    assert not re.search("cannot attach [0-9]* probes", t.err) and t.trace.sym == {"cuMemAlloc_v2": 10} and t.trace.accounts()


def test_a_command_waits(tmp_path):
    """On a busy machine, the kernel may need seconds for the first probes. The command is stopped until then, and no call is missed."""
    needs_tracing()
    trace = tmp_path / "trace"
    t = subprocess.Popen([CUDATRACE, "--jsonl", trace, "--", CASES + "/memory"], env={**os.environ, "LD_LIBRARY_PATH": FAKE},
                         stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, encoding="utf-8")
    until(lambda: "cudatrace-links" in descendants(t.pid).values())
    os.kill(links_of(t), signal.SIGSTOP)
    threading.Timer(4, os.kill, (links_of(t), signal.SIGCONT)).start()
    err = t.communicate()[1]
    assert t.returncode == 0 and "cannot attach" not in err and Trace(trace).sym["cuInit"] == 1, err
