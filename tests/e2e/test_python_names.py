# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# takes: 60
"""--python: a program that ends at once must lose no function names, and no function may get the name of another. That includes a code
object allocated where another was freed, and a thread that uses several interpreters."""
import os
import os
import shutil
import signal
import subprocess
import sys

import pytest
from helpers.jsonl import Trace
from helpers.run import CUDATRACE, TESTS, needs_mechanism, needs_tracing
from test_python import ENV, HERE, LIB, ONE

SHORT, INSIDE = TESTS + "/stack/python_short.py", TESTS + "/stack/python_inside.py"
COUNT, FIRST = 500, 1000


def trace_of(tmp_path, python, program, *args, options=()):
    """The trace, and the command's status and output."""
    needs_tracing()
    if not python:
        pytest.skip("this version is not here")
    trace = tmp_path / "t.jsonl"
    # The large buffer avoids losses on a busy machine: this test is about names.
    ran = subprocess.run([CUDATRACE, "-q", "--python", "--buffer", "64M", "-e", "cuMemAlloc", *options, "--jsonl", str(trace), "--", python, program, LIB, *args],
                         env=ENV, stdout=subprocess.PIPE, text=True, timeout=120, check=False)
    return Trace(trace), ran


def frames(trace):
    """The frames of each call by its size, innermost first."""
    stacks = {(e["pid"], e["id"]): e.get("python", []) for e in trace.ev if e["type"] == "stack"}
    return {e["args"]["bytesize"]: [(f.get("function"), f.get("file"), f.get("line")) for f in stacks.get((e["pid"], e.get("stack")), [])]
            for e in trace.ev if e.get("symbol") == "cuMemAlloc_v2"}


def all_named(trace, of=COUNT):
    got = frames(trace)
    assert len(got) == of and trace.end["python_unread"] == 0 and trace.end["python_broken"] == 0, trace.end
    wrong = {n: f[:2] for n, f in got.items() if f[1] != (f"f{n}", f"gen{n}.py", 2 + n % 7) or f[0][0] != "call" or f[-1][0] != "<module>"}
    assert not wrong, (len(wrong), list(wrong.items())[:3])


@pytest.mark.parametrize("end", ["exit", "kill"])
@pytest.mark.parametrize("python", HERE)
def test_ends_at_once(tmp_path, python, end):
    """500 functions must have their names, although the process ends just after the last call."""
    trace, ran = trace_of(tmp_path, python, SHORT, "many", end)
    assert ran.returncode == (128 + signal.SIGKILL if end == "kill" else 0)
    all_named(trace)


@pytest.mark.parametrize("part", ["by_exec", "by_replace", "by_marshal"])
@pytest.mark.parametrize("python", HERE)
def test_freed(tmp_path, python, part):
    """Code objects allocated where others were freed must have their own names."""
    all_named(trace_of(tmp_path, python, SHORT, part)[0])


def test_child(tmp_path):
    """A forked child that ends at once must have names, too."""
    all_named(trace_of(tmp_path, ONE, SHORT, "fork", "kill")[0])


@pytest.mark.parametrize("mech", ["multi", "perf"])
def test_mechanism(tmp_path, mech):
    """Each mechanism must notice that code is freed."""
    needs_mechanism(mech)
    all_named(trace_of(tmp_path, ONE, SHORT, "by_replace", options=[f"--mechanism={mech}"])[0])


@pytest.mark.parametrize("python", HERE)
def test_interpreters(tmp_path, python):
    """With several interpreters in a thread, the frames must be those of the calling interpreter."""
    trace, ran = trace_of(tmp_path, python, INSIDE)
    assert ran.returncode == 0
    if "none" in ran.stdout:
        pytest.skip("ctypes or interpreters cannot be used here: " + ran.stdout)
    want = {1000: "main", 1001: "in_second", 1002: "in_third", 1003: "in_older", 1004: "main"}
    assert {n: [f[0] for f in got] for n, got in frames(trace).items()} == {n: [f, "<module>"] for n, f in want.items()}


def test_file_is_written(tmp_path):
    """To write to a Python's file, a program must get it without the probe. The traced program continues, and has no frames rather than
    wrong ones."""
    needs_tracing()
    if not ONE:
        pytest.skip("no Python of 3.11 to 3.13 is here")
    maps = subprocess.run([ONE, "-c", "print(open('/proc/self/maps').read())"], stdout=subprocess.PIPE, text=True, check=True).stdout
    shared = [line.split(None, 5)[5] for line in maps.splitlines() if "/libpython3." in line]
    if not shared:
        pytest.skip("it has no shared library, and a program that runs cannot be written to")
    lib = tmp_path / os.path.basename(shared[0])
    shutil.copy(shared[0], lib)
    trace = tmp_path / "t.jsonl"
    code = f"""import ctypes, sys
lib = ctypes.CDLL({LIB!r})
lib.cuInit(0)
def step():
    lib.cuMemAlloc_v2(ctypes.byref(ctypes.c_void_p()), 4096)
for _ in sys.stdin:
    step()
    print("did", flush=True)
"""
    env = {**ENV, "LD_LIBRARY_PATH": f"{tmp_path}:{ENV['LD_LIBRARY_PATH']}"}
    with subprocess.Popen([CUDATRACE, "--python", "-e", "cuMemAlloc", "--jsonl", str(trace), "--", ONE, "-c", code], env=env, text=True,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as traced:
        def step():
            traced.stdin.write("\n")
            traced.stdin.flush()
            assert traced.stdout.readline() == "did\n"
        step()
        # Opening for writing waits for the lease.
        with open(lib, "r+b"):
            step()
        traced.stdin.close()
        err = traced.stderr.read()
        assert traced.wait(60) == 0
    t = Trace(trace)
    assert "a file of CPython is being written" in err and t.end["python_calls"] == 1 and t.end["python_early"] == 1, (err, t.end)


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
