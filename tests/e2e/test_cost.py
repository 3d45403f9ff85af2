# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# takes: 40
"""The overhead that a trace reports must match the measured one: CPU time of the program's threads with and without probes, in turns,
in one process (tests/cost.c)."""
import os
import shutil
import statistics
import subprocess
import time

import pytest
from helpers.jsonl import Trace
from helpers.live import compiled
from helpers.run import CC, CUDATRACE, MECHANISMS, TESTS, cudatrace, needs_mechanism, needs_tracing

# Arguments of tests/cost.c: function, rounds, calls; then threads, frames, KB
PLAIN, STEPPED = ["cuCtxSetCurrent", 10, 2000], ["cuCtxGetDevice", 10, 300]
KINDS = {
    "recorded": ([], [*PLAIN, 1, 0, 0]),
    "single-stepped": ([], [*STEPPED, 1, 0, 0]),
    "counted": (["--count=all"], [*PLAIN, 1, 0, 0]),
    "entries": (["--entry-only=all"], [*PLAIN, 1, 0, 0]),
    "counted entries": (["--entry-only=all", "--count=all"], [*PLAIN, 1, 0, 0]),
    "stacks": (["--stack"], [*PLAIN, 1, 16, 0]),
    "threads": ([], [*PLAIN, 4, 0, 0]),
}
# A request for callbacks outside an operator leaves no line.
NO_NEWS = ["_ZN2at27getStepCallbacksUnlessEmptyENS_11RecordScopeE", *PLAIN[1:], 1, 0, 0]


@pytest.fixture(scope="module")
def built():
    """The program, and beside it the probed library and the other one."""
    needs_tracing()
    folder = os.environ["TMP"]
    program = compiled(folder + "/cost", "-fno-omit-frame-pointer", TESTS + "/cost.c")
    subprocess.run([*CC, "-shared", "-nostdlib", "-o", folder + "/libcuda.so.1", TESTS + "/cost_lib.S"], check=True)
    shutil.copy(folder + "/libcuda.so.1", folder + "/plain.so")
    shutil.copy(folder + "/libcuda.so.1", folder + "/libtorch_cpu.so")
    return program


def ratio(program, path, options, args, library="libcuda.so.1"):
    """Reported overhead divided by measured overhead"""
    folder = os.path.dirname(program)
    ran = cudatrace("-q", "--buffer-size", "64M", "-e", "cuCtxSetCurrent,cuCtxGetDevice", *options, "--jsonl", path, "--",
                    program, f"{folder}/{library}", folder + "/plain.so", *args)
    assert ran.status == 0, ran
    truth, end = ran.out.split(), Trace(path).end
    assert end["entries"] == int(truth[1]) * (args is not NO_NEWS)
    return end["cost_ms"] * 1e6 / int(truth[3])


def near(share, *args):
    """The median of three runs must be within SHARE of the truth in one of three tries. Other processes may disturb a try, but a real error
    shows in each."""
    tries = []
    for _ in range(3):
        tries.append([ratio(*args) for _ in range(3)])
        if 1 - share <= statistics.median(tries[-1]) <= 1 + share:
            return
    raise AssertionError(f"says so many times what it cost: {tries}")


# All kinds with the best mechanism, one kind with the others; the rest in check-all. Closing a perf event takes 0.1 s.
@pytest.mark.parametrize("mech,kind", [pytest.param(m, k, marks=pytest.mark.long) if m != MECHANISMS[0] and k != "recorded" else (m, k)
                                       for m in MECHANISMS for k in KINDS if m != "perf" or k in ("recorded", "single-stepped")])
def test_cost(built, tmp_path, mech, kind):
    needs_mechanism(mech)
    options, args = KINDS[kind]
    near(0.25, built, tmp_path / "t.jsonl", [f"--mechanism={mech}", *options], args)


@pytest.mark.parametrize("mech", MECHANISMS)
def test_no_news(built, tmp_path, mech):
    """With --torch, overhead must include calls that leave no line."""
    needs_mechanism(mech)
    near(0.25, built, tmp_path / "t.jsonl", [f"--mechanism={mech}", "--torch"], NO_NEWS, "libtorch_cpu.so")


def test_cold_caches(built, tmp_path):
    """With cold caches, the kernel's extra time is inferred, not measured, and the cost of a call depends on other users of the cache."""
    near(0.4, built, tmp_path / "t.jsonl", [], ["cuCtxSetCurrent", 20, 200, 1, 0, 1024])


def byte(pid, name, offset):
    """The process's byte at this offset of a file, or None if the file is not mapped."""
    with open(f"/proc/{pid}/maps", encoding="utf-8") as f:
        base = next((int(line.split("-")[0], 16) for line in f if name in line), None)
    if base is None:
        return None
    with open(f"/proc/{pid}/mem", "rb") as f:
        f.seek(base + offset)
        return f.read(1)


@pytest.mark.parametrize("mech", MECHANISMS)
def test_measured_in_the_tracer_alone(running, built, tmp_path, mech):
    """The cost of a call must be measured in a file that only the tracer maps. In the executable, all probes of a place would slow other
    starting processes, and valgrind takes a breakpoint there for the program's (SIGTRAP)."""
    needs_mechanism(mech)
    names = [line.split() for line in subprocess.check_output(["nm", CUDATRACE], text=True).splitlines()]
    place = next(int(n[0], 16) for n in names if n[-1] == "cudatrace_stub")
    with open(CUDATRACE, "rb") as f:
        f.seek(place)
        was = f.read(1)
    go = tmp_path / "go"
    tracer = running.start(CUDATRACE, "-q", f"--mechanism={mech}", "--libcuda", os.path.dirname(built) + "/libcuda.so.1", "-e", "cuInit",
                           "--jsonl", tmp_path / "t.jsonl", "--", "sh", "-c", 'until [ -e "$0" ]; do sleep 0.02; done', go)
    seen, elsewhere, other = 0, 0, None
    end = time.monotonic() + 60
    while tracer.poll() is None:
        try:
            if not other:
                # cudatrace-read is the first child.
                with open(f"/proc/{tracer.pid}/task/{tracer.pid}/children", encoding="utf-8") as f:
                    other = int(f.read().split()[0])
            seen += byte(tracer.pid, "/memfd:cudatrace-stubs", 0) not in (None, was)
            elsewhere += any(byte(pid, os.path.realpath(CUDATRACE), place) not in (None, was) for pid in (tracer.pid, other))
        except (OSError, IndexError):
            continue
        # The measurement has lasted a while, or it never began.
        if seen > 20 or time.monotonic() > end:
            go.touch()
        time.sleep(0.002)
    assert seen and not elsewhere and tracer.returncode == 0
