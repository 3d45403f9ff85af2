#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The cost of --stalls: programs untraced, with calls alone, and with samples, in turns. As root, with nvcc or a compiled OUT/stalls.

    stalls_cost.py CUDATRACE OUT [TURNS [PROGRAM...]]    PROGRAM: launches, gemmlike, graph, gpt2; all if none is named

Prints the median of the ratios to the untraced run of the same turn, and a 95 % interval by bootstrap over turns."""
import json
import os
import random
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
WAYS = {"calls": ["--probe=inject"], "stalls": ["--probe=inject", "--stalls"], "gpu-time": ["--probe=inject", "--gpu-time"]}


def measure(command, tracer):
    """The time that the program prints as its last word, or the median of its ms_per_token."""
    out = subprocess.run([*tracer, *command], capture_output=True, text=True, check=True, timeout=120).stdout.strip().splitlines()[-1]
    return statistics.median(json.loads(out)["ms_per_token"]) if out.startswith("{") else float(out.split()[-1])


def interval(values):
    some = sorted(statistics.median(random.choices(values, k=len(values))) for _ in range(2000))
    return some[50], some[1949]


def main():
    cudatrace, out, turns = os.path.realpath(sys.argv[1]), sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 6
    os.makedirs(out, exist_ok=True)
    if not os.path.exists(f"{out}/stalls"):
        subprocess.run(["nvcc", "-O3", "-arch=native", "-lineinfo", "-o", f"{out}/stalls", f"{HERE}/stalls.cu", "-lcuda"], check=True)
    random.seed(1)
    for name in sys.argv[4:] or ("launches", "gemmlike", "graph", "gpt2"):
        command = [sys.executable, f"{HERE}/gpt2.py", "--tokens", "40", "--rounds", "4"] if name == "gpt2" else [f"{out}/stalls", name, "0.8"]
        ratios = {way: [] for way in WAYS}
        for turn in range(turns):
            ways = [("untraced", []), *((way, [cudatrace, "-q", *options, "--jsonl", f"{out}/cost.jsonl", "--"]) for way, options in WAYS.items())]
            random.shuffle(ways)
            times = {way: measure(command, tracer) for way, tracer in ways}
            for way in WAYS:
                ratios[way].append(times[way] / times["untraced"])
        for way, values in ratios.items():
            low, high = interval(values)
            print(f"{name:10} {way:9} {statistics.median(values):.3f} ({low:.3f} to {high:.3f}), {turns} turns", flush=True)


if __name__ == "__main__":
    main()
