# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Shared by tests of traces: paths, whether this machine can trace, and running commands."""
import contextlib
import io
import os
import platform
import re
import runpy
import subprocess
import sys
import time

import pytest

from .jsonl import Trace
from .tracing import why_not

CC = os.environ.get("CC", "gcc").split()
O = os.environ["O"]
# As make wants it: relative, if it is in the top folder.
MAKE_O = O.removeprefix(os.getcwd() + "/")
CUDATRACE = os.environ["CUDATRACE"]
FAKE, FAKE535, CASES = O + "/fake", O + "/fake535", O + "/cases"
TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Everything but cuFakeLocked, which the kernel refuses to probe in fakelocked: finding it takes more than a second. The glob also
# matches cuProfilerInitialize and cuFuncIsLoaded, because a glob must match a row.
ALL = "all,!cu[FP]*[LI]*[de]"
KERNEL = tuple(int(n) for n in platform.release().replace("-", ".").split(".")[:2])
SINCE = {"session": (6, 13), "multi": (6, 6), "perf": (5, 15)}
MECHANISMS = list(SINCE)


def needs_tracing():
    if why_not():
        pytest.skip(why_not())


def needs_mechanism(name):
    needs_tracing()
    if KERNEL < SINCE[name]:
        pytest.skip(f"kernel {platform.release()} has no {name}")


class Ran:
    """A finished command: its status, out and err (text)."""

    def __init__(self, args, timeout=60, env=None, **how):
        p = subprocess.run(args, env={**os.environ, **env} if env else None, stdin=subprocess.DEVNULL, capture_output=True,
                           text=True, errors="replace", timeout=timeout, check=False, **how)
        self.status, self.out, self.err = p.returncode, p.stdout, p.stderr

    def silent(self):
        """Whether its stderr is empty, except for losses, which the end line counts too."""
        return not self.rest()

    def rest(self):
        """Its stderr without the line about losses."""
        return re.sub(r"^cudatrace: (warning: )?the trace is incomplete, missing: .*\n", "", self.err, flags=re.M)

    def __repr__(self):
        return f"status {self.status}, said {self.err[-2000:]!r}"


def cudatrace(*args, **how):
    return Ran([CUDATRACE, *map(str, args)], **how)


def traced(path, *args, status=0, out=None, **how):
    """The trace of a run of cudatrace -q with these arguments, which must end with this status and, if given, this output."""
    ran = cudatrace("-q", "--jsonl", path, *args, **how)
    assert ran.status == status and (out is None or ran.out == out), ran
    t = Trace(path)
    t.ran = ran
    return t


def files_below(folder):
    """The regular files below a folder, as paths from there."""
    return {f.relative_to(folder).as_posix() for f in folder.rglob("*") if f.is_file() and not f.is_symlink()}


def building(*args, timeout=600):
    """Runs make in the build folder, one suite at a time. The time in which others build does not count: the suite's own limit ends it."""
    return Ran(["flock", O + "/check/make.lock", "timeout", str(timeout), "make", "-j2", f"O={MAKE_O}", *args], timeout=None)


# Without the capabilities for BPF programs: --probe=inject then uses only the library, like for an ordinary user.
INSIDE = [] if os.geteuid() else ["setpriv", "--bounding-set=-bpf,-perfmon,-sys_admin"]


def inside(*args, **how):
    return Ran([*INSIDE, CUDATRACE, "--probe=inject", *map(str, args)], **how)


def script(path, *args):
    """Runs a Python script of ours with these arguments in this process: (exit status, output)."""
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
    """Waits until what() is true. seconds is for a quiet machine; the limit is six times that."""
    end = time.monotonic() + 6 * seconds
    while not what():
        assert time.monotonic() < end, f"not within {seconds * 6} s"
        time.sleep(0.02)


def ended(p, seconds):
    """The exit status of a process, which is killed if it still runs after that time."""
    try:
        return p.wait(seconds)
    except subprocess.TimeoutExpired:
        p.kill()
        raise


def into_full(fifo):
    """A command that runs another one whose stderr is a pipe that is full, and a descriptor of it."""
    os.mkfifo(fifo)
    fd = os.open(fifo, os.O_RDWR | os.O_NONBLOCK)
    for part in (b"x" * 4096, b"x"):
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(fd, part)
    return ["sh", "-c", 'exec "$@" 2>"$0"', str(fifo)], fd
