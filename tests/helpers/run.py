# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What tests of traces have in common: where things are, whether this machine can trace, and running commands."""
import contextlib
import ctypes
import functools
import io
import os
import platform
import runpy
import subprocess
import sys
import time

import pytest

O = os.environ["O"]
CUDATRACE = os.environ["CUDATRACE"]
FAKE, FAKE535, CASES = O + "/fake", O + "/fake535", O + "/cases"
TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# As in tests/lib.sh: everything but cuFakeLocked, which the kernel refuses to probe.
ALL = "all,!cu[FP]*[LI]*[de]"
KERNEL = tuple(int(n) for n in platform.release().replace("-", ".").split(".")[:2])
SINCE = {"session": (6, 13), "multi": (6, 6), "perf": (5, 15)}
MECHANISMS = list(SINCE)


@functools.lru_cache(maxsize=None)
def why_no_tracing():
    """Asks the kernel, not cudatrace: a broken cudatrace must not look like a machine without BPF."""
    if os.geteuid():
        return "needs root"
    if not os.path.exists("/sys/bus/event_source/devices/uprobe"):
        return "this kernel has no uprobes"
    if not os.path.exists("/sys/kernel/btf/vmlinux"):
        return "this kernel has no BTF"
    # BPF_MAP_CREATE of an array of one element
    libc = ctypes.CDLL(None, use_errno=True)
    attr = (ctypes.c_uint32 * 18)(2, 4, 8, 1)
    fd = libc.syscall({"x86_64": 321, "aarch64": 280}[platform.machine()], 0, attr, ctypes.sizeof(attr))
    if fd < 0:
        return "bpf(): " + os.strerror(ctypes.get_errno())
    os.close(fd)
    return None


def needs_tracing():
    if why_no_tracing():
        pytest.skip(why_no_tracing())


def needs_mechanism(name):
    needs_tracing()
    if KERNEL < SINCE[name]:
        pytest.skip(f"kernel {platform.release()} has no {name}")


class Ran:
    """What has run: its status, out and err (text)."""

    def __init__(self, args, timeout=60, env=None, **how):
        p = subprocess.run(args, env={**os.environ, **env} if env else None, stdin=subprocess.DEVNULL, capture_output=True,
                           text=True, errors="replace", timeout=timeout, check=False, **how)
        self.status, self.out, self.err = p.returncode, p.stdout, p.stderr

    def __repr__(self):
        return f"status {self.status}, said {self.err[-2000:]!r}"


def cudatrace(*args, **how):
    return Ran([CUDATRACE, *map(str, args)], **how)


# Without what BPF programs take: --probe=inject is the library alone then, as a user has it.
INSIDE = [] if os.geteuid() else ["setpriv", "--bounding-set=-bpf,-perfmon,-sys_admin"]


def inside(*args, **how):
    return Ran([*INSIDE, CUDATRACE, "--probe=inject", *map(str, args)], **how)


def script(path, *args):
    """A Python script of ours, as if started with these arguments, in this process: (exit status, what it printed)."""
    out, old = io.StringIO(), sys.argv
    sys.argv = [path, *map(str, args)]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            runpy.run_path(path, run_name="__main__")
        status = 0
    except SystemExit as e:
        status = e.code if isinstance(e.code, int) else 0 if e.code is None else 1
        if isinstance(e.code, str):
            out.write(e.code + "\n")
    finally:
        sys.argv = old
    return status, out.getvalue()


def passes(path, *args):
    status, said = script(f"{TESTS}/{path}", *args)
    assert status == 0, f"{path}: exit status {status}\n{said[:3000]}"
    return said


def until(what, seconds=10):
    """Waits for what() to be true; six times as long as that takes on a quiet machine."""
    end = time.monotonic() + 6 * seconds
    while not what():
        assert time.monotonic() < end, f"not within {seconds * 6} s"
        time.sleep(0.02)
