# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Compares the nesting of calls in-process and by uprobes: counts the calls of a program on two GPUs in both traces, each with its enclosing calls.

usage: nested.py CUDATRACE OUT_FOLDER        (ends with 1 if the producers differ, or a depth is not the number of parents)
"""
import collections
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def trace(tracer, probe, out):
    """Returns (count of each chain of calls, innermost first; number of wrong depths; number of lost calls)."""
    subprocess.run([tracer, "-q", "--no-summary", f"--probe={probe}", "--all", "--jsonl", out + ".jsonl", "--",
                    sys.executable, os.path.join(HERE, "nccl.py"), "--rounds", "1", "--out", out], check=True)
    calls, end = {}, {}
    with open(out + ".jsonl", encoding="utf-8") as f:
        for event in map(json.loads, f):
            if "symbol" in event:
                calls[event["id"]] = event
            elif event.get("type") == "end":
                end = event

    def chain(call):
        names = [call["symbol"]]
        while "parent" in call:
            call = calls[call["parent"]]
            names.append(call["symbol"])
        return tuple(names)

    chains = {i: chain(call) for i, call in calls.items()}
    wrong = sum(call.get("depth", 0) != len(chains[i]) - 1 for i, call in calls.items())
    return collections.Counter(chains.values()), wrong, end["drops"]["calls"]


tracer, out = os.path.realpath(sys.argv[1]), sys.argv[2]
seen, bad = {}, False
for probe in ("inject", "uprobe"):
    chains, wrong, lost = trace(tracer, probe, os.path.join(out, "nested." + probe))
    # Outermost calls differ, because a thread polls a varying number of times.
    seen[probe] = {c: n for c, n in chains.items() if len(c) > 1}
    print(f"{probe}: {sum(chains.values())} calls, {lost} lost, {sum(seen[probe].values())} in other calls, in {len(seen[probe])} ways; depth wrong in {wrong}", flush=True)
    bad |= wrong > 0 or lost > 0
for c in sorted(seen["inject"].keys() | seen["uprobe"].keys()):
    counts = [seen[probe].get(c, 0) for probe in ("inject", "uprobe")]
    if counts[0] != counts[1]:
        print(f"{' in '.join(c)}: {counts[0]} by inject, {counts[1]} by uprobe")
        bad = True
sys.exit(bad)
