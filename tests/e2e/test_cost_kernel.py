# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# alone
# takes: 8
"""The overhead that a trace with --kernel reports must match the measured one: the tracepoints of all system calls slow each system
call of a program. Runs alone, because any tracer on the machine that uses them has this effect."""
import collections
import json
import os
import signal
import statistics
import subprocess
import sys

import pytest
from helpers.run import CUDATRACE, TESTS, cudatrace, needs_tracing, until

ROUNDS = 40
TRIES = 3


class Program:
    def __init__(self, folder, ioctls, others):
        self.child = subprocess.Popen([f"{folder}/cost_kernel", f"{folder}/libcuda.so.1", f"{folder}/nvidiactl", str(ioctls), str(others)],
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def round(self):
        self.child.stdin.write("\n")
        self.child.stdin.flush()
        return int(self.child.stdout.readline())

    def rounds(self):
        return [self.round() for _ in range(ROUNDS)]


@pytest.fixture(name="folder")
def build(tmp_path):
    needs_tracing()
    path = tmp_path
    cc = os.environ.get("CC", "gcc")
    subprocess.run([cc, "-O1", "-o", path / "cost_kernel", f"{TESTS}/cost_kernel.c", "-ldl"], check=True)
    subprocess.run([cc, "-shared", "-nostdlib", "-o", path / "libcuda.so.1", f"{TESTS}/cost_lib.S"], check=True)
    (path / "nvidiactl").touch()
    return path


def last(path):
    with open(path, encoding="utf-8") as f:
        return json.loads(collections.deque(f, 1)[0])


def says(folder, *args):
    """Reported overhead divided by measured overhead."""
    program = Program(folder, *args)
    try:
        program.rounds()
        bare = program.rounds()
        out = folder / "trace"
        out.unlink(missing_ok=True)
        tracer = subprocess.Popen([CUDATRACE, "-q", "--buffer-size", "64M", "--kernel", "--kernel-probe=tracepoint", "-p", str(program.child.pid), "--jsonl", out],
                                  env={**os.environ, "CUDATRACE_TEST_NV_BY_NAME": "1"})
        try:
            traced = []
            until(lambda: traced.append(program.round()) or out.exists() and '"symbol"' in out.read_text(errors="replace"))
            traced += program.rounds()
        finally:
            tracer.send_signal(signal.SIGINT)
            assert tracer.wait(60) == 0
        bare += program.rounds()
    finally:
        program.child.stdin.close()
        program.child.wait(60)
    return last(out)["cost_ms"] * 1e6 / (sum(traced) - len(traced) * statistics.median(bare))


@pytest.mark.parametrize("ioctls, others", [pytest.param(3000, 0, id="ioctls", marks=pytest.mark.long), pytest.param(0, 20000, id="others", marks=pytest.mark.long),
                                            pytest.param(500, 5000, id="both")])
def test_reported_overhead(folder, ioctls, others):
    """The median of three runs must be within a quarter. Other processes may disturb a try, but a real error shows in each."""
    for _ in range(TRIES):
        ratio = statistics.median(says(folder, ioctls, others) for _ in range(3))
        if 0.75 <= ratio <= 1.25:
            return
    pytest.fail(f"says {ratio:.2f} times what it cost")


def test_switches(folder):
    """With --sched, each switch to a thread that makes calls must be counted in the overhead."""
    code = "import ctypes, sys, time\nctypes.CDLL(sys.argv[1]).cuCtxSetCurrent(0)\nfor _ in range(10000): time.sleep(1e-9)"
    costs = []
    for options in ([], ["--sched"]):
        out = folder / "trace"
        ran = cudatrace("-q", "--jsonl", str(out), *options, "--", sys.executable, "-c", code, f"{folder}/libcuda.so.1")
        assert ran.status == 0, ran
        costs.append(last(out)["cost_ms"])
    assert costs[1] - costs[0] > 10000 * 30e-6, costs
