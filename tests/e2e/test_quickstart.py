# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# takes: 3
"""cudatrace without arguments prints the usage and what this machine allows, and traces nothing, like strace and perf."""
import os
import pty
import re
import shutil
import signal
import subprocess

import pytest
from helpers.run import CUDATRACE, FAKE, Ran, cudatrace, ended, needs_tracing, until

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
    assert status == 1 and lines[0] == "Usage:" and lines[1].startswith("  cudatrace [OPTIONS] -- COMMAND"), lines
    assert max(map(len, lines[:lines.index("")])) <= 80 and len(lines) <= 24
    lines = lines[lines.index("") + 1:]
    assert [x[:8] for x in lines] == ["You     ", "Kernel  ", "GPU     ", "Start   ", "More    "], lines
    assert max(map(len, lines)) <= 100 and "cudatrace check" in lines[4]
    return [x[8:] for x in lines]


def has_gpu():
    return any(n.startswith("nvidia") or n == "dxg" for n in os.listdir("/dev"))


def test_root():
    needs_tracing()
    you, kernel, gpu, start, _ = five()
    assert you == "root: can trace any program" and kernel.startswith(os.uname().release)
    best = re.search(r"possible, with (\S+);", cudatrace("check").out)[1]
    assert kernel.endswith(f"calls are traced by {best}")
    assert has_gpu() or gpu == "none: the NVIDIA driver is not loaded" and start.startswith("make demo")


def test_user():
    if os.geteuid() == 0 and (not shutil.which("setpriv") or Ran([*NOBODY, "test", "-x", CUDATRACE]).status):
        pytest.skip("nobody may not run it here")
    you, kernel, gpu, start, _ = five(before=NOBODY if os.geteuid() == 0 else [])
    assert re.fullmatch(r"user \d+, not root: can only trace programs that you start, in-process", you)
    assert kernel.endswith("has uprobes, which need root") or "no uprobes: " in kernel
    assert gpu and start


def with_driver(*args):
    """A command before which a driver is simulated: a version in /proc, device files."""
    script = """mount -t tmpfs none /proc/driver && mkdir /proc/driver/nvidia &&
        echo 'NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build' >/proc/driver/nvidia/version &&
        mount -t tmpfs none /dev && mknod -m 666 /dev/null c 1 3 && touch /dev/nvidia0 /dev/nvidiactl && exec "$@" """
    return ["unshare", "-m", "sh", "-c", script, "sh", *args]


def test_gpu():
    if os.geteuid() or Ran(with_driver("true")).status:
        pytest.skip("no driver can be feigned here")
    _, _, gpu, start, _ = five(before=with_driver("setpriv", "--bounding-set=-bpf,-perfmon,-sys_admin"))
    assert gpu == "NVIDIA driver 580.159.04 (open kernel modules): nvidia0 nvidiactl"
    assert start == "cudatrace -- COMMAND; with sudo also -p PID (a running program) and -a (all)"


def test_rights_and_gpu(tmp_path):
    """Without arguments nothing may be traced."""
    needs_tracing()
    if Ran(with_driver("true")).status:
        pytest.skip("no driver can be feigned here")
    five(before=with_driver(), cwd=tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("before", ([], ["setpriv", "--bounding-set=-bpf,-perfmon,-sys_admin"]))
def test_no_terminal(before):
    """Without a terminal the same must be printed on stderr."""
    if before and (os.geteuid() or not shutil.which("setpriv")):
        pytest.skip("needs root and setpriv")
    ran = Ran([*before, CUDATRACE])
    assert ran.status == 1 and not ran.out and ran.err.startswith("Usage:\n") and "More    cudatrace check" in ran.err, ran


@pytest.mark.parametrize("args", (["-q"], ["--kernel"], ["-e", "launch"], ["--duration=1"], ["trace"]))
def test_no_target(args, tmp_path):
    ran = cudatrace(*args, cwd=tmp_path)
    assert (ran.status, ran.out) == (2, "") and "no target: add a command, -p PID, or -a for every process" in ran.err, ran
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("args", (["-a"], ["--system"], ["--kernel", "--chrome", "out.json"], ["--jsonl", "out.jsonl"]))
def test_every_process(args, tmp_path):
    """Every process must be traced on request, including programs that start later. An output option is enough."""
    needs_tracing()
    if "--kernel" not in args:
        args = [*args, f"--libcuda={FAKE}/libcuda.so.1"]
    with subprocess.Popen([CUDATRACE, "-q", "-e", "cuInit", *args], cwd=tmp_path) as p:
        def is_traced():
            Ran([FAKE + "/sample", "--tokens", "1", "--quiet"], env={"LD_LIBRARY_PATH": FAKE})
            return any('"cuInit"' in f.read_text(encoding="utf-8") for f in tmp_path.rglob("*.json*")) or p.poll() is not None
        try:
            until(is_traced, 60)
        finally:
            p.send_signal(signal.SIGINT)
            status = ended(p, 60)
        assert status == 0
    assert any('"cuInit"' in f.read_text(encoding="utf-8") for f in tmp_path.rglob("*.json*"))


def test_with_an_option(tmp_path):
    """With any such option every process must be traced, also on a terminal without a GPU."""
    needs_tracing()
    status, lines = on_terminal("-q", "-e", "launch", "--duration=0.1", f"--libcuda={FAKE}/libcuda.so.1", "--jsonl", str(tmp_path / "a.jsonl"))
    assert status == 0 and not lines and (tmp_path / "a.jsonl").read_text(encoding="utf-8").count('"type":"end"') == 1
