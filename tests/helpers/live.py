# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Programs that run beside a test: tracers, and targets that do what they are told."""
import os
import signal
import subprocess
import sys

from .jsonl import Trace
from .run import CC, CUDATRACE, TESTS, until


def state(pid):
    """As in /proc: R, S, T, Z ...; X when it is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as f:
            return f.read().rpartition(")")[2].split()[0]
    except OSError:
        return "X"


def is_gone(pid):
    return state(pid) in "XZ"


def pending(pid):
    """Signals that the process has not taken, as bits"""
    with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as f:
        return sum(int(line.split()[1], 16) for line in f if line.startswith(("SigPnd:", "ShdPnd:")))


def compiled(out, *args):
    """The program of these sources and options; no warnings, for they are no part of ours."""
    subprocess.run([*CC, "-O1", "-w", "-D_GNU_SOURCE", "-o", str(out), *map(str, args), "-ldl", "-lpthread"], check=True)
    return str(out)


class Caller:
    """tests/caller.c, which does what it is told."""

    def __init__(self, program, name="caller", env=None):
        self.p = subprocess.Popen([name], executable=program, env={**os.environ, **(env or {})}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid = self.p.pid

    def ready(self, lib):
        """With a context of this library."""
        assert self.tell(f"open {lib}") == 1 and self.tell("init") == 0
        return self

    def tell(self, what):
        self.p.stdin.write(what + "\n")
        self.p.stdin.flush()
        return int(self.p.stdout.readline())

    def end(self):
        """Its status"""
        if not self.p.stdin.closed:
            try:
                self.p.stdin.close()
            except BrokenPipeError:
                pass
        return self.p.wait(120)


class Tracer:
    """cudatrace that has attached and written its header."""

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
        """All of it, when it has ended."""
        return Trace(self.path)

    def ended(self):
        """Its status as a shell has it"""
        rc = self.p.wait(120)
        return rc if rc >= 0 else 128 - rc

    def stop(self, sig=signal.SIGINT):
        self.p.send_signal(sig)
        return self.ended()


class Running:
    """What a test starts; what still runs at its end is killed."""

    def __init__(self, folder):
        self.folder, self.all, self.program = str(folder), [], None

    def start(self, *args, env=None, **how):
        p = subprocess.Popen([*map(str, args)], env={**os.environ, **(env or {})}, **{
            "stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, **how})
        self.all.append(p)
        return p

    def tracer(self, name, *args, **how):
        t = Tracer(self.folder, name, *args, **how)
        self.all.append(t.p)
        return t

    def caller(self, name="caller", env=None):
        if not self.program:
            # Once in a suite
            self.program = os.environ["TMP"] + "/caller"
            if not os.path.exists(self.program):
                compiled(self.program, TESTS + "/caller.c")
        c = Caller(self.program, name, env)
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
    """The exit status of a program, and the most memory that it took."""
    said = subprocess.check_output([sys.executable, TESTS + "/helpers/kilobytes.py", *map(str, args)], **{"stdin": subprocess.DEVNULL, **how})
    return map(int, said.split())
