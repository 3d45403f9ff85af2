# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Programs that run during a test: tracers, and targets that run commands."""
import os
import signal
import subprocess
import sys

from .jsonl import Trace
from .run import CC, CUDATRACE, TESTS, until


def state(pid):
    """The state in /proc: R, S, T, Z ...; X when the process is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as f:
            return f.read().rpartition(")")[2].split()[0]
    except OSError:
        return "X"


def is_gone(pid):
    return state(pid) in "XZ"


def pending(pid):
    """Pending signals of the process, as bits"""
    with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as f:
        return sum(int(line.split()[1], 16) for line in f if line.startswith(("SigPnd:", "ShdPnd:")))


def compiled(out, *args):
    """Builds a program from these sources and options, without warnings."""
    subprocess.run([*CC, "-O1", "-w", "-D_GNU_SOURCE", "-o", str(out), *map(str, args), "-ldl", "-lpthread"], check=True)
    return str(out)


class Caller:
    """tests/caller.c, which runs commands."""

    def __init__(self, program, name="caller", *args, env=None):
        self.p = subprocess.Popen([name, *args], executable=program, env={**os.environ, **(env or {})}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid = self.p.pid

    def ready(self, lib):
        """Opens this library and creates a context."""
        assert self.tell(f"open {lib}") == 1 and self.tell("init") == 0
        return self

    def tell(self, what):
        self.p.stdin.write(what + "\n")
        self.p.stdin.flush()
        return int(self.p.stdout.readline())

    def end(self):
        """Ends it; returns its status"""
        if not self.p.stdin.closed:
            try:
                self.p.stdin.close()
            except BrokenPipeError:
                pass
        return self.p.wait(120)


class Tracer:
    """A cudatrace that has attached and written its header."""

    def __init__(self, folder, name, *args, before=(), **how):
        self.path, self.said = f"{folder}/{name}.jsonl", f"{folder}/{name}.err"
        if os.path.exists(self.path):
            os.unlink(self.path)
        if "env" in how:
            how["env"] = {**os.environ, **how["env"]}
        with open(self.said, "wb") as err, open(f"{folder}/{name}.out", "wb") as out:
            self.p = subprocess.Popen([*before, CUDATRACE, "-q", "--jsonl", self.path, *map(str, args)], **{
                "stdin": subprocess.DEVNULL, "stdout": out, "stderr": err, **how})
        self.pid = self.p.pid
        until(lambda: self.p.poll() is not None or os.path.exists(self.path) and os.path.getsize(self.path), 20)
        assert self.p.poll() is None or os.path.exists(self.path), self.err

    @property
    def err(self):
        with open(self.said, encoding="utf-8", errors="replace") as f:
            return f.read()

    @property
    def trace(self):
        """The whole trace, after the tracer has ended."""
        return Trace(self.path)

    def ended(self):
        """Its status, as in a shell"""
        rc = self.p.wait(120)
        return rc if rc >= 0 else 128 - rc

    def stop(self, sig=signal.SIGINT):
        self.p.send_signal(sig)
        return self.ended()


class Running:
    """Programs that a test starts; those still running at its end are killed."""

    def __init__(self, folder):
        self.folder, self.all, self.program = str(folder), [], None

    def start(self, *args, env=None, **how):
        """Starts a program. stdout and stderr may also be paths."""
        files = {k: open(v, "wb") for k, v in how.items() if isinstance(v, os.PathLike)}
        p = subprocess.Popen([*map(str, args)], env={**os.environ, **(env or {})}, **{
            "stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, **how, **files})
        for f in files.values():
            f.close()
        self.all.append(p)
        return p

    def tracer(self, name, *args, **how):
        t = Tracer(self.folder, name, *args, **how)
        self.all.append(t.p)
        return t

    def caller(self, name="caller", env=None):
        if not self.program:
            # Built once in a suite
            self.program = os.environ["TMP"] + "/caller"
            if not os.path.exists(self.program):
                compiled(self.program, TESTS + "/caller.c")
        c = Caller(self.program, name, env=env)
        self.all.append(c.p)
        return c

    def end(self):
        for p in reversed(self.all):
            if p.poll() is None:
                p.kill()
            if p.stdin:
                try:
                    p.stdin.close()
                except BrokenPipeError:
                    pass
            p.wait()


def kilobytes(*args, **how):
    """The exit status and the peak memory of a program."""
    said = subprocess.check_output([sys.executable, TESTS + "/helpers/kilobytes.py", *map(str, args)], **{"stdin": subprocess.DEVNULL, **how})
    return map(int, said.split())
