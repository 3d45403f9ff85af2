# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# takes: 40
"""The end of a trace, orderly or not: no probe stays in the target, calls in flight are shown as unfinished, and losses are counted."""
import json
import os
import re
import shutil
import signal
import time

import pytest
from helpers.jsonl import Trace
from helpers.probed import probed
from helpers.run import ALL, CASES, FAKE, MECHANISMS, O, cudatrace, needs_mechanism, needs_tracing, passes, until

LIB = FAKE + "/libcuda.so.1"
ENV = {"LD_LIBRARY_PATH": FAKE}


@pytest.fixture(autouse=True, scope="module")
def can_trace():
    needs_tracing()


def copied(folder, fake="fake"):
    """A copy with another name, which no tracer of the whole machine finds."""
    return shutil.copy(f"{O}/{fake}/libcuda.so.1", f"{folder}/{fake}.bin")


# The kernel handles simultaneous attaching by the other mechanism.
@pytest.mark.parametrize("mech,fake,place,how", [
    ("session", "fake", "0x0", "Ctrl-C"), ("session", "fake535", "0xa", "SIGKILL"), ("multi", "fake535", "0xa", "Ctrl-C"), ("multi", "fake", "0x0", "SIGKILL")])
def test_bytes(running, tmp_path, mech, fake, place, how):
    """The target's code must equal the file before and after the trace, and have a probe in each function meanwhile."""
    needs_mechanism(mech)
    lib = copied(tmp_path, fake)
    target = running.caller().ready(lib)
    assert probed(target.pid, lib) == "none"
    t = running.tracer("bytes", f"--mechanism={mech}", "-e", ALL, "--libcuda", lib, "-p", target.pid)
    assert target.tell("alloc 10") == 10
    with open(t.path, encoding="utf-8") as f:
        functions = json.loads(f.readline())["libraries"][0]["functions"]
    assert probed(target.pid, lib) == f"{functions} at {place}"
    if how == "SIGKILL":
        t.stop(signal.SIGKILL)
        # The kernel removes the probes when the last descriptor is closed, shortly after the process ends.
        until(lambda: probed(target.pid, lib) == "none")
    else:
        assert t.stop() == 0
        assert t.trace.sym == {"cuMemAlloc_v2": 10, "cuMemFree_v2": 10} and t.trace.accounts()
    assert probed(target.pid, lib) == "none"
    assert target.tell("alloc 1000") == 1000 and target.tell("threads 3 100") == 300 and target.end() == 0


def test_killed_tracer(running):
    """A killed tracer must leave whole lines, except perhaps the last one."""
    prey = running.caller().ready(LIB)
    t = running.tracer("killed", "-e", ALL, "-p", prey.pid)
    prey.tell("alloc 3000")
    # Lines are written twice a second, also without another call.
    until(lambda: sum(1 for _ in open(t.path, "rb")) > 3000)
    prey.tell("alloc 10")
    t.stop(signal.SIGKILL)
    assert prey.end() == 0
    with open(t.path, encoding="utf-8") as f:
        events = [json.loads(line) for line in f.read().split("\n")[:-1]]
    assert events[0]["type"] == "header" and all(e["type"] != "end" for e in events) and len(events) > 3000


def test_killed_target(running):
    victim = running.caller().ready(LIB)
    t = running.tracer("victim", "-e", ALL, "-p", victim.pid)
    victim.tell("alloc 20")
    victim.tell("sleep 20000000")
    victim.p.kill()
    victim.p.wait()
    assert t.ended() == 0
    trace = t.trace
    assert trace.end["reason"] == "traced processes exited" and trace.sym["cuMemAlloc_v2"] == 20 and trace.accounts()
    assert [(p["op"], p["signal"], "exit_code" in p) for p in trace.proc] == [("exit", 9, False)]
    # The call in which it was killed
    assert [(c["symbol"], c["args"]["arg0"]) for c in trace.calls if c.get("unfinished")] == [("cuFakeSleep", hex(20000000))]


@pytest.mark.parametrize("how,status", [("kill", 137), (None, 0)])
def test_command_ends_in_a_call(tmp_path, how, status):
    """A command that ends inside a call, by a signal or by exit(), must pass its status on."""
    path, said = tmp_path / "t.jsonl", tmp_path / "said"
    ran = cudatrace("-q", "-e", ALL, "--jsonl", path, "--", CASES + "/exit_in_call", *[how] * bool(how), env=ENV)
    assert ran.status == status, ran
    said.write_text(ran.out)
    passes("cases/expect.py", path, said)
    trace = Trace(path)
    assert trace.end["unfinished"] == 1 and trace.accounts() and (not how or trace.end["reason"] == "command exited")


def test_a_call_that_lasts(running, tmp_path):
    """If a call outlasts the trace, a second trace must see neither its begin nor its end."""
    lib = copied(tmp_path)
    asleep = running.caller().ready(lib)
    t = running.tracer("asleep", "-e", ALL, "--duration", 1, "--libcuda", lib, "-p", asleep.pid)
    asleep.tell("sleep 2500000")
    asleep.tell("alloc 5")
    assert t.ended() == 0
    trace = t.trace
    assert [c["symbol"] for c in trace.calls if c.get("unfinished")] == ["cuFakeSleep"] and trace.sym["cuMemFree_v2"] == 5
    assert trace.end["unfinished"] == 1 and trace.end["reason"] == "duration" and trace.accounts()
    # It returns through the kernel's trampoline long after the probes were removed.
    assert asleep.tell("join") == 0 and probed(asleep.pid, lib) == "none"

    asleep.tell("sleep 800000")
    t = running.tracer("again", "-e", ALL, "--libcuda", lib, "-p", asleep.pid)
    asleep.tell("join")
    asleep.tell("alloc 1")
    asleep.end()
    t.ended()
    assert t.trace.sym == {"cuMemAlloc_v2": 1, "cuMemFree_v2": 1} and t.trace.accounts()


@pytest.mark.parametrize("mech", MECHANISMS)
def test_busy(running, mech):
    """Probes are removed one by one while the target makes calls: at most one call of each thread may be unfinished, and none may look
    abandoned."""
    needs_mechanism(mech)
    target = running.start(CASES + "/many", "cuMemFree_v2", 1000000000, 2, 20000, env={**ENV, "FAKE_NO_SEM": "1"})
    until(lambda: "libcuda" in open(f"/proc/{target.pid}/maps", encoding="utf-8").read())
    t = running.tracer("busy", f"--mechanism={mech}", "-e", ALL if mech != "perf" else "cuMemAlloc_v2,cuMemFree_v2", "--duration", 0.5, "-p", target.pid)
    assert t.ended() == 0
    trace = t.trace
    assert len(trace.calls) > 1000 and trace.end["abandoned"] == 0 and trace.end["unfinished"] <= 2 and trace.accounts(drops=True)


@pytest.mark.parametrize("mech", MECHANISMS)
def test_longjmp(tmp_path, mech):
    """Calls left by longjmp must be abandoned, and later calls must not be nested in them."""
    needs_mechanism(mech)
    path = tmp_path / "jump.jsonl"
    ran = cudatrace("-q", "-e", ALL if mech != "perf" else "cu*Callback,cuMemAlloc_v2", f"--mechanism={mech}", "--jsonl", path, "--", CASES + "/longjmp", env=ENV)
    assert ran.status == 0, ran
    trace = Trace(path)
    assert trace.end["abandoned"] == 3 and trace.end["unfinished"] == 0 and trace.accounts()
    assert all("parent" not in c and "depth" not in c for c in trace.calls if c["symbol"].startswith("cuMem"))


def seconds_to_end(running, target, libs, mech):
    """How long a tracer takes to end, whose target maps these files."""
    t = running.tracer("libs", f"--mechanism={mech}", "-e", ALL, "-p", target.pid)
    until(lambda: all(probed(target.pid, lib) != "none" for lib in libs))
    made = target.tell("alloc 10")
    start = time.monotonic()
    assert t.stop(signal.SIGTERM) == 0
    took = time.monotonic() - start
    assert t.trace.end["calls"] == 2 * made and t.trace.accounts() and t.trace.end["reason"] == "terminated"
    until(lambda: all(probed(target.pid, lib) == "none" for lib in libs))
    return took


@pytest.mark.parametrize("mech", ["session", "multi"])
def test_many_libraries(running, tmp_path, mech):
    """An end must not wait for each library in turn: the kernel takes 40 ms and more for one."""
    needs_mechanism(mech)
    libs = []
    for i in range(24):
        (tmp_path / str(i)).mkdir()
        libs.append(shutil.copy(LIB, tmp_path / str(i)))
    one, many = running.caller("one").ready(libs[0]), running.caller("many")
    for lib in libs:
        many.tell(f"open {lib}")
    many.tell("init")
    took = [(seconds_to_end(running, one, libs[:1], mech), seconds_to_end(running, many, libs, mech)) for _ in range(3)]
    # The machine may be slow once.
    assert min(m for _, m in took) < len(libs) / 3 * min(o for o, _ in took), took


def test_ring_overflow(running):
    """A stopped tracer loses events, and must report the exact number."""
    flood = running.caller().ready(LIB)
    t = running.tracer("flood", "-e", ALL, "--buffer-size", "64K", "-p", flood.pid)
    flood.tell("alloc 10")
    until(lambda: open(t.path, "rb").read().count(b"cuMemFree") >= 10)
    t.p.send_signal(signal.SIGSTOP)
    # The target is not blocked.
    assert flood.tell("alloc 5000") == 5000
    t.p.send_signal(signal.SIGCONT)
    # When the pending records are read, the ring has room.
    until(lambda: b'"lost"' in open(t.path, "rb").read())
    flood.tell("alloc 10")
    flood.end()
    assert t.ended() == 0
    trace = t.trace
    dropped = trace.end["drops"]["calls"]
    assert dropped > 5000 and trace.end["calls"] + dropped == 10040 and trace.accounts(drops=True)
    assert [c["symbol"] for c in trace.calls[-20:]] == ["cuMemAlloc_v2", "cuMemFree_v2"] * 10


def test_a_small_ring(tmp_path):
    """The same without stopping the tracer: every loss must be counted."""
    path, counts = tmp_path / "many.jsonl", tmp_path / "counts"
    ran = cudatrace("-q", "-e", "all,!other", "--buffer-size", "64K", "--jsonl", path, "--", CASES + "/many", "cuLaunchKernel", 100000, 2,
                    env={**ENV, "FAKE_NO_SEM": "1", "FAKE_CUDA_COUNTS": str(counts)})
    assert ran.status == 0, ran
    trace = Trace(path)
    made = sum(int(n) for n in re.findall(r"^\S+ (\d+)", counts.read_text(), re.M))
    assert trace.end["calls"] + trace.end["drops"]["calls"] == made and trace.accounts(drops=True)


def test_sigterm(running):
    """SIGTERM must be passed on to the command, and the trace must end with it."""
    out = open(os.path.join(running.folder, "said"), "wb")  # pylint: disable=consider-using-with
    t = running.tracer("int", "-e", ALL, "--", CASES + "/dlopen_late", LIB, 30000, env=ENV, stdout=out)
    out.close()
    until(lambda: os.path.getsize(out.name))
    assert t.stop(signal.SIGTERM) == 143
    assert t.trace.end["reason"] == "terminated" and t.trace.proc[-1]["signal"] == 15 and t.trace.accounts()
