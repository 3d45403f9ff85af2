# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# takes: 3
"""cudatrace without an argument: on a terminal it says what can be done here, else it does what it always did."""
import os
import pty
import re
import shutil
import subprocess

import pytest
from helpers.run import CUDATRACE, FAKE, Ran, cudatrace, needs_tracing

NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


def on_terminal(*args, before=(), cwd=None):
    """(exit status, lines) with a terminal for stdout."""
    ours, theirs = pty.openpty()
    with subprocess.Popen([*before, CUDATRACE, *args], stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, cwd=cwd) as p:
        os.close(theirs)
        said = b""
        try:
            while more := os.read(ours, 4096):
                said += more
        except OSError:  # the other end is closed
            pass
        os.close(ours)
        status = p.wait(60)
    return status, said.decode().replace("\r\n", "\n").splitlines()


def five(*args, **how):
    status, lines = on_terminal(*args, **how)
    assert status == 0 and [x[:8] for x in lines] == ["You     ", "Kernel  ", "GPU     ", "Start   ", "More    "], lines
    assert max(map(len, lines)) <= 100 and "cudatrace check" in lines[4]
    return [x[8:] for x in lines]


def has_gpu():
    return any(n.startswith("nvidia") or n == "dxg" for n in os.listdir("/dev"))


def test_root():
    needs_tracing()
    if has_gpu():
        pytest.skip("every process would be traced")
    you, kernel, gpu, start, _ = five()
    assert you.startswith("root, which is enough") and kernel.startswith(os.uname().release)
    best = re.search(r"possible, with (\S+);", cudatrace("check").out)[1]
    assert kernel.endswith(f"calls are seen by {best}")
    assert gpu == "none: the NVIDIA driver is not loaded" and start.startswith("make demo")


def test_user():
    if os.geteuid() == 0 and (not shutil.which("setpriv") or Ran([*NOBODY, "test", "-x", CUDATRACE]).status):
        pytest.skip("nobody may not run it here")
    you, kernel, gpu, start, _ = five(before=NOBODY if os.geteuid() == 0 else [])
    assert re.fullmatch(r"user \d+, not root: programs that you start are traced, from inside", you)
    assert kernel.endswith("has uprobes, which need root") or "no uprobes: " in kernel
    assert gpu and start


def with_driver(*args):
    """As if there were one: a version in /proc, device files."""
    script = """mount -t tmpfs none /proc/driver && mkdir /proc/driver/nvidia &&
        echo 'NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build' >/proc/driver/nvidia/version &&
        mount -t tmpfs none /dev && mknod -m 666 /dev/null c 1 3 && touch /dev/nvidia0 /dev/nvidiactl && exec "$@" """
    return ["unshare", "-m", "sh", "-c", script, "sh", *args]


def test_gpu():
    if os.geteuid() or Ran(with_driver("true")).status:
        pytest.skip("no driver can be feigned here")
    _, _, gpu, start, _ = five(before=with_driver("setpriv", "--bounding-set=-bpf,-perfmon,-sys_admin"))
    assert gpu == "NVIDIA driver 580.159.04 (open kernel modules): nvidia0 nvidiactl"
    assert start == "cudatrace -- COMMAND (with sudo also -p PID, for one that runs)"


def test_all(tmp_path):
    """Rights and a GPU: every process is traced."""
    needs_tracing()
    if Ran(with_driver("true")).status:
        pytest.skip("no driver can be feigned here")
    # Until the signal: it would go on for ever.
    status, lines = on_terminal(before=with_driver("timeout", "--preserve-status", "-s", "INT", "5"), cwd=tmp_path)
    assert status == 0 and not any(x.startswith("You ") for x in lines), lines
    assert '"type":"end"' in next(tmp_path.glob("traces/*.jsonl")).read_text(encoding="utf-8")


def test_no_terminal():
    """As ever: without the privileges an error, with them a trace of every process."""
    if os.geteuid():
        before = []
    elif shutil.which("setpriv"):
        before = ["setpriv", "--bounding-set=-bpf,-perfmon,-sys_admin"]
    else:
        pytest.skip("needs setpriv")
    ran = Ran([*before, CUDATRACE])
    assert ran.status == 1 and not ran.out and "CAP_BPF" in ran.err, ran


def test_with_an_option(tmp_path):
    """Any option: every process is traced, also on a terminal without a GPU."""
    needs_tracing()
    status, lines = on_terminal("-q", "-e", "launch", "--duration=0.1", f"--libcuda={FAKE}/libcuda.so.1", "--jsonl", str(tmp_path / "a.jsonl"))
    assert status == 0 and not lines and (tmp_path / "a.jsonl").read_text(encoding="utf-8").count('"type":"end"') == 1
