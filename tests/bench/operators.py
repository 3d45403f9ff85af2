#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Measures the time that --torch adds to small operators of PyTorch: tests/bench/operators.py CUDATRACE... (root; $TORCH_PYTHON: a Python that has PyTorch).

A round is three operators in place on a tensor of eight numbers, on the CPU; or four that make tensors; or a training step of a
layer. Untraced and with each of the programs in turn. Prints medians of the turns: the thread's CPU time per round; the same in
quieter batches (their lower quartile: others share the caches and the core); and the trace's cost (cost_ms of its end line)
as a multiple of the total time added. OPTIONS are the tracer's (--torch)."""
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile

ROUNDS = int(os.environ.get("ROUNDS", "5"))
KINDS = {"in place": 27000, "results": 20000, "training": 2000}
PYTHON = os.environ.get("TORCH_PYTHON", sys.executable)
PROGRAM = """
import sys, time, torch
torch.set_num_threads(1)
kind, cnt = sys.argv[1], int(sys.argv[2])
x, net = torch.zeros(8), torch.nn.Linear(8, 8)
def in_place():
    x.add_(1); x.mul_(0.5); x.neg_()
def results():
    y = x + 1; y = y * 2; y = y - x; y.sum()
def training():
    net(x).sum().backward()
    net.zero_grad()
do = {"in place": in_place, "results": results, "training": training}[kind]
for i in range(100):
    do()
took = []
for batch in range(100):
    begin = time.thread_time_ns()
    for i in range(cnt // 100):
        do()
    took.append(time.thread_time_ns() - begin)
print(sum(took), sorted(took)[25] * 100)
"""


def one(tmp, kind, tracer):
    """ns of all rounds, ns of quiet ones, and the end line."""
    trace = f"{tmp}/trace.jsonl"
    before = [tracer, "-q", "--no-wait", "--buffer-size", "256M", *shlex.split(os.environ.get("OPTIONS", "--torch")), "--jsonl", trace, "--"] if tracer else []
    # The reader runs on another processor: its time is not the operators'.
    ran = subprocess.run(["taskset", "-c", "1", *before, "taskset", "-c", "0", PYTHON, "-c", PROGRAM, kind, str(KINDS[kind])],
                         check=True, stdout=subprocess.PIPE, text=True)
    took = [int(x) for x in ran.stdout.split()[-2:]]
    if not tracer:
        return took
    with open(trace, "rb") as f:
        f.seek(max(0, os.path.getsize(trace) - 65536))
        end = json.loads(f.read().splitlines()[-1])
    return *took, end


def main():
    tracers = [None, *sys.argv[1:]]
    with tempfile.TemporaryDirectory() as tmp:
        for kind, cnt in KINDS.items():
            if not kind.startswith(os.environ.get("KIND", "")):
                continue
            rounds = [[one(tmp, kind, t) for t in tracers] for _ in range(ROUNDS)]
            bare = statistics.median(r[0][1] for r in rounds)
            print(f"{kind}: {bare / cnt / 1000:.2f} us a round untraced", flush=True)
            for i, t in enumerate(tracers[1:], 1):
                ns = statistics.median(r[i][1] for r in rounds)
                says = statistics.median(r[i][2]["cost_ms"] * 1e6 / (r[i][0] - r[0][0]) for r in rounds)
                end = rounds[-1][i][2]
                print(f"  {t}: {ns / cnt / 1000:.2f} us ({(ns - bare) / cnt / 1000:+.2f}); says {says:.2f} of it; "
                      f"{end['torch_operators'] / cnt:.1f} operators a round, {end['entries'] / cnt:.1f} entries; drops {sum(v for v in end['drops'].values() if isinstance(v, int))}", flush=True)


main()
