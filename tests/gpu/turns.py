# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What tracing costs a program whose times change from start to start and from second to second: processes that are traced
in different ways live side by side and work in turn, a little at a time and in another order each turn."""
import collections
import json
import os
import random
import shlex
import statistics
import subprocess
import sys


class Process:
    """A program with --serve: it says "ready", and for each number that it is given the times of so many rounds."""

    def __init__(self, tracer, path, way, program):
        self.way, self.path = way, path
        traced = [tracer, "-q", *shlex.split(way), "--jsonl", path, "--"] if way else []
        self.proc = subprocess.Popen([*traced, sys.executable, *program, "--serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def rounds(self, n):
        self.proc.stdin.write(f"{n}\n")
        self.proc.stdin.flush()
        return statistics.median(json.loads(self.proc.stdout.readline()))

    def end(self):
        self.proc.stdin.close()
        self.proc.wait()


def in_turn(tracer, out, ways, program, turns, rounds=1, copies=2, name="", unit="ms a token"):
    """Prints for each way the median time, and the median and the middle half of its ratios to ways[0], which is not traced.
    The processes, which have ended: their traces lie at path."""
    processes = [Process(tracer, os.path.join(out, f"turns{i}.jsonl"), way, program) for i, way in enumerate(ways * copies)]
    for p in processes:
        assert p.proc.stdout.readline() == "ready\n", p.way
    for p in processes:
        p.rounds(rounds)
    times = []
    for _ in range(turns):
        took = collections.defaultdict(list)
        for p in random.sample(processes, len(processes)):
            took[p.way].append(p.rounds(rounds))
        times.append({way: statistics.mean(t) for way, t in took.items()})
    for p in processes:
        p.end()
    for way in ways:
        ratios = sorted(t[way] / t[ways[0]] for t in times)
        print(f"{name:6} {way or 'untraced':34} {statistics.median(t[way] for t in times):8.3f} {unit}, {statistics.median(ratios):.3f} of untraced "
              f"({ratios[len(ratios) // 4]:.3f} to {ratios[-len(ratios) // 4]:.3f})", flush=True)
    return processes
