# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# takes: 30
"""--kernel on this machine's kernel, without the driver. A program (drive.c) makes system calls to mock devices, inside and outside CUDA
calls of the mock libcuda, and prints the expected trace. Its files are recognized by name, and only tracepoints record them: tests/vm
tests probes on the driver's own functions."""
import json
import os
import re
import signal
import subprocess
import time

import pytest
from helpers.live import compiled
from helpers.nvfuse import BY_NAME, mock_devices
from helpers.run import ALL, FAKE, TESTS, cudatrace, needs_tracing, passes, traced, until

ENV = {**BY_NAME, "LD_LIBRARY_PATH": FAKE}
CPU_INFO = "NV0000_CTRL_CMD_SYSTEM_GET_CPU_INFO"


@pytest.fixture(scope="module")
def nv():
    needs_tracing()
    with mock_devices(os.environ["TMP"]) as folder:
        yield folder


@pytest.fixture(scope="module")
def drive(nv):
    """The command of a program that makes system calls to the mock devices."""
    return [compiled(os.environ["TMP"] + "/drive", "-g", TESTS + "/nvfuse/drive.c"), nv]


def driver_events(t):
    return sum(e["type"] == "kernel" for e in t.ev)


def ioctls(t):
    return [e for e in t.ev if e.get("op") == "ioctl"]


class Waiting:
    """A drive that waits for go(); expected is what a trace of it must contain."""

    def __init__(self, running, drive, expected, count=1):
        self.expected = expected
        self.p = running.start(*drive, "wait", count, stdin=subprocess.PIPE, stdout=expected)
        until(lambda: "ready" in expected.read_text())

    def go(self):
        self.p.stdin.write(b"\n")
        self.p.stdin.close()
        self.p.wait(60)


@pytest.mark.parametrize("in_dev", [False, True])
def test_all_commands(tmp_path, nv, drive, in_dev):
    """Every command of the server, and every kind of error, must be recorded. Opened devices are recognized by their path: with a private
    /dev, opens are recorded, too."""
    command = ["unshare", "-m", "sh", "-c", 'mount --bind "$1" /dev && exec "$2" /dev', "sh", nv, drive[0]] if in_dev else drive
    t = traced(tmp_path / "t", "--kernel", "-e", ALL, "--chrome", tmp_path / "c", "--", *command, env=ENV)
    assert t.ran.err == "" and t.head["kernel_probe"] == "tracepoint" and t.accounts()
    (tmp_path / "expected").write_text(t.ran.out)
    passes("nvfuse/compare.py", tmp_path / "t", tmp_path / "expected", tmp_path / "c")
    assert sum(e.get("op") == "open" for e in t.ev) == 8 * in_dev


def test_one_process(running, tmp_path, drive):
    """-p must record this process and no other."""
    target, other = (Waiting(running, drive, tmp_path / name, 20) for name in ("target", "other"))
    t = running.tracer("pid", "--kernel", "-p", target.p.pid, env=BY_NAME)
    other.go()
    target.go()
    assert t.ended() == 0 and t.trace.accounts()
    passes("nvfuse/compare.py", t.path, target.expected)


def test_system_wide(running, tmp_path, drive):
    """Without a CUDA program: the whole machine, also programs that start meanwhile."""
    t = running.tracer("sys", "--kernel", "--duration", "2s", env=BY_NAME)
    both = [Waiting(running, drive, tmp_path / "one", 7), Waiting(running, drive, tmp_path / "two", 9)]
    for w in both:
        w.go()
    assert t.ended() == 0 and t.trace.end["reason"] == "duration" and 1900 < t.trace.end["wall_ms"] < 6000
    (tmp_path / "expected").write_text("".join(w.expected.read_text() for w in both))
    passes("nvfuse/compare.py", "--only", t.path, tmp_path / "expected")


def blocking(tmp_path, name):
    """The pid of a drive in a driver call that does not return."""
    out = tmp_path / f"{name}.out"
    until(lambda: "blocking" in out.read_text())
    return int(re.search(r"^blocking (\d+)", out.read_text(), re.M)[1])


def test_killed_in_an_ioctl(running, tmp_path, drive):
    """The kernel ends a system call of a killed process: its return is recorded, with EINTR."""
    t = running.tracer("killed", "--kernel", "-e", ALL, "--", *drive, "block", env=ENV)
    pid = blocking(tmp_path, "killed")
    time.sleep(0.3)
    os.kill(pid, signal.SIGKILL)
    t.ended()
    trace = t.trace
    assert [(e["name"], e.get("result"), "status" in e, e["duration_us"] > 200e3, e["call"]) for e in ioctls(trace)] \
        == [(CPU_INFO, -4, False, True, "cuFakeCallback")]
    assert [(c["ioctls"], "result" in c) for c in trace.calls if c.get("unfinished")] == [(1, False)] and trace.accounts()


def test_trace_ends_in_an_ioctl(running, tmp_path, drive):
    """The ioctl and its call must be unfinished."""
    t = running.tracer("cut", "--kernel", "-e", ALL, "--duration", "700ms", "--", *drive, "block", env=ENV)
    pid = blocking(tmp_path, "cut")
    # When its trace is complete, the tracer still waits for the command's status.
    until(lambda: '"type":"end"' in open(t.path, encoding="utf-8").read())
    os.kill(pid, signal.SIGKILL)
    t.ended()
    trace = t.trace
    assert [(e["name"], e.get("unfinished"), e["object"]) for e in ioctls(trace) if not set(e) & {"result", "status", "duration_us"}] \
        == [(CPU_INFO, True, "0x5c000001")]
    assert [c["symbol"] for c in trace.calls if c.get("unfinished")] == ["cuFakeCallback"] and trace.accounts()


def test_losses(running, tmp_path, drive):
    """If the reader is too slow, recorded and lost events must add up to those made. The closes of the four files count, too."""
    flood = Waiting(running, drive, tmp_path / "flood", 3000)
    t = running.tracer("flood", "--kernel", "--buffer-size", "64K", "-p", flood.p.pid, env=BY_NAME)
    t.p.send_signal(signal.SIGSTOP)
    flood.go()
    t.p.send_signal(signal.SIGCONT)
    assert t.ended() == 0
    trace = t.trace
    dropped, order = trace.end["drops"]["driver"], [e["params_size"] for e in ioctls(trace)]
    assert driver_events(trace) > 50 and dropped > 1000 and driver_events(trace) + dropped == 3004
    # Each processor has its own ring: when one was full, another may have had space.
    assert order == sorted(set(order)) and order[:50] == list(range(50)) and trace.accounts(drops=True)
    # With a running reader, losses depend on the machine, but the sum must be right.
    many = traced(tmp_path / "many", "--kernel", "--buffer-size", "64K", "--", *drive, "many", 20000, env=ENV)
    assert driver_events(many) + many.end["drops"]["driver"] == 20004


def test_full_table(tmp_path, drive):
    """More objects than the limit for a process (16,384, one of them a client): those in it have a class, others have none; both are
    counted, and reported in the summary."""
    t = traced(tmp_path / "t", "--kernel", "--buffer-size", "256M", "--summary=full", "--", *drive, "objects", 16448, env=BY_NAME)
    assert [e.get("object_class") for e in t.ev if e.get("escape") == "NV_ESC_RM_CONTROL"] \
        == ["NV01_DEVICE_0"] * 3 + [None] * 3 + ["NV01_DEVICE_0"] and t.accounts()
    assert (t.end["objects_refused"], t.end["objects_unknown"]) == (65, 3)
    assert {"  3 ioctls on objects whose allocation was not recorded: no class",
            "  65 objects not stored: the table of handles was full"} <= set(t.ran.err.split("\n"))


def test_off_cpu(tmp_path, drive):
    """Threads that wait off the CPU and threads that spin; drive compares with the thread's CPU clock. An interrupt between its read of the
    clock and its call counts as off-CPU time in only one of the two, and a busy machine may interrupt the spinning thread at any rate."""
    agree = apart = False
    for _ in range(4):
        t = traced(tmp_path / "t", "--kernel", "--sched", "-e", ALL, "--", *drive, "sched", 150, env=ENV)
        want = [json.loads(line)["off_cpu_us"] for line in t.ran.out.splitlines()]
        assert want and [c["symbol"] for c in t.calls] == ["cuInit", "cuFakeSleep", "cuFakeCallback", "cuFakeCallback"]
        assert t.accounts() and t.ran.err == ""
        agree = agree or max(abs(c["off_cpu_us"] - w) for c, w in zip(t.calls[1:], want)) < 10000
        sleeps, spins, waits = ((c["off_cpu_us"], c["duration_us"]) for c in t.calls[1:])
        apart = apart or (150e3 <= sleeps[0] <= sleeps[1] and spins[0] < spins[1] * .8 and spins[1] >= 150e3
                          and 15e3 < waits[0] <= waits[1])
        if agree and apart:
            return
    assert agree and apart, (want, t.calls)


def test_xid(running, tmp_path, drive):
    """Xids of the kernel log during the trace must be there, redacted ones without text. Other suites write Xids of other GPUs."""
    mark = f"cudatrace test {os.getpid()}"

    def log(*lines):
        for line in lines:
            with open("/dev/kmsg", "w", encoding="utf-8") as f:
                f.write(f"{line}{mark}\n")
    try:
        log("NVRM: Xid (PCI:0000:ff:00): 1, before, ")
    except OSError:
        pytest.skip("the kernel log cannot be written here")
    idle = Waiting(running, drive, tmp_path / "idle")
    hiding = [running.tracer(f"no-{what}", "--kernel", f"--no-{what}", "-p", idle.p.pid, env=BY_NAME) for what in ("strings", "args")]
    t = running.tracer("xid", "--kernel", "-p", idle.p.pid, env=BY_NAME)
    # Waits until the tracer has written its header and opened the log.
    time.sleep(0.3)
    log("NVRM: Xid (PCI:0000:6c:00): 79, pid=1234, name=python, GPU has fallen off the bus. ", "NVRM: Xid: not one, ",
        "NVRM: Xid (PCI:0000:6c:00): many, ", "NVRM: Xid (PCI:0000:6d:00): 31, ")
    time.sleep(0.3)
    idle.go()
    assert t.ended() == 0 and t.trace.accounts()
    xids = [e for e in t.trace.ev if e["type"] == "xid" and mark in e.get("message", "")]
    assert [(e["xid"], e["gpu"]) for e in xids] == [(79, "PCI:0000:6c:00"), (31, "PCI:0000:6d:00")]
    assert xids[0]["message"] == "pid=1234, name=python, GPU has fallen off the bus. " + mark and "PCI bus" in xids[0]["meaning"]
    assert all(0 < e["ts"] < t.trace.end["ts"] for e in xids)
    for hidden in hiding:
        hidden.ended()
        xids = [e for e in hidden.trace.ev if e["type"] == "xid"]
        assert [e["xid"] for e in xids if e["gpu"] in ("PCI:0000:6c:00", "PCI:0000:6d:00")][-2:] == [79, 31]
        assert not [e for e in xids if "message" in e] and mark not in open(hidden.path, encoding="utf-8").read()


def test_driver_not_loaded(tmp_path, drive):
    """This must be reported, and CUDA calls be traced."""
    t = traced(tmp_path / "t", "--kernel", "-e", ALL, "--", *drive, env={"LD_LIBRARY_PATH": FAKE})
    assert len(re.findall("^cudatrace: warning: .*driver is not loaded", t.ran.err, re.M)) == 1
    assert t.sym["cuFakeCallback"] == 7 and "kernel_probe" not in t.head and not driver_events(t) and t.accounts()


@pytest.mark.parametrize("way", ["kprobe", "fentry"])
def test_refused(drive, way):
    """Probes on a driver that is not there are refused, in one line."""
    ran = cudatrace("-q", "--kernel", f"--kernel-probe={way}", "--jsonl", "/dev/null", "--", *drive, "many", 1, env=ENV)
    assert ran.status == 1 and ran.err.count("\n") == 1 and f"--kernel-probe={way}" in ran.err, ran
