#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Two versions of cudatrace side by side: cost of a call, attaching, writing and a report in the second against the first.

tests/bench/versions.py FOLDER OLD NEW [ROUNDS] takes turns, on a quiet machine with nothing installed but Python and, for
attaching, a libcuda.so.1; FOLDER holds the programs cores and libcuda.so.1, as `make bench` builds them in
build/bench/cores. Prints the median of each version, and the median over the rounds of NEW / OLD in the same round.
"""
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

CALLS = 400000
FEW = 1000  # measures starting and ending, which are subtracted from the tracer's time
WAYS = {"recorded call, ns": [], "counted call, ns": ["--count=all"], "entry-only call, ns": ["--entry-only=all"]}
LOADS = "import ctypes; ctypes.CDLL('libcuda.so.1')"


def children_s():
    use = resource.getrusage(resource.RUSAGE_CHILDREN)
    return use.ru_utime + use.ru_stime


def call(tracer, options, cores, trace, calls=CALLS):
    """Nanoseconds per call, and processor time of the tracer alone: the program's, from its shell, is subtracted."""
    program = f"{cores}/cores {cores}/libcuda.so.1 threads 1 {calls}; times"
    before = children_s()
    r = subprocess.run([tracer, "-q", "-e", "cuLaunchKernel", *options, "--jsonl", trace, "--", "sh", "-c", program],
                       capture_output=True, text=True, check=True)
    numbers, *times = r.stdout.splitlines()
    program_s = sum(60 * int(m) + float(s) for line in times for m, s in (word.rstrip("s").split("m") for word in line.split()))
    return float(numbers.split()[0]), children_s() - before - program_s


def wall_s(argv):
    before = time.monotonic()
    subprocess.run(argv, capture_output=True, check=True)
    return time.monotonic() - before


def one_round(tracer, cores, trace):
    found = {}
    for way, options in WAYS.items():
        few_s = 0 if options else call(tracer, options, cores, trace, FEW)[1]
        found[way], cpu_s = call(tracer, options, cores, trace)
        if not options:
            found["tracer's processor time a recorded call, ns"] = (cpu_s - few_s) * 1e9 / (CALLS - FEW)
            found["report of these, s"] = wall_s([tracer, "report", "--format=json", trace])
    found["attach to all of a libcuda, start to end, s"] = wall_s([tracer, "-q", "--all", "--jsonl", trace, "--", sys.executable, "-c", LOADS])
    return found


def main():
    cores, *tracers = sys.argv[1:4]
    rounds = int(sys.argv[4]) if len(sys.argv) > 4 else 11
    turns = {tracer: [] for tracer in tracers}
    with tempfile.TemporaryDirectory() as tmp:
        for i in range(rounds):
            for tracer in tracers if i % 2 else tracers[::-1]:
                turns[tracer].append(one_round(tracer, cores, os.path.join(tmp, "t.jsonl")))
    old, new = (turns[tracer] for tracer in tracers)
    print(f"{os.cpu_count()} processors, {rounds} rounds")
    for what in old[0]:
        values = [statistics.median(r[what] for r in turn) for turn in (old, new)]
        ratios = sorted(n[what] / o[what] for o, n in zip(old, new))
        quarter = len(ratios) // 4
        print(f"{what:48} {values[0]:10.4g} {values[1]:10.4g}  x {statistics.median(ratios):.3f} ({ratios[quarter]:.3f} to {ratios[-1 - quarter]:.3f})")


if __name__ == "__main__":
    main()
