# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Compares the launches that cudatrace recorded in a region with the counts of torch.profiler there.

usage: compare.py TRACE.jsonl OUT_OF_GPT2.json
"""
import collections
import json
import sys


def main():
    with open(sys.argv[2], encoding="utf-8") as f:
        result = json.load(f)
    begin, end = result["region_ns"][-1]
    counts, base = collections.Counter(), None
    with open(sys.argv[1], encoding="utf-8") as f:
        for line in f:
            ev = json.loads(line)
            if ev["type"] == "header":
                base = ev["clock_base_ns"]
                continue
            ns = base + ev["ts"] * 1e6
            if begin <= ns <= end and ev["type"] in ("kernel", "transfer", "graph"):
                counts[ev["type"] + ":" + ev["name"]] += 1
    print("cudatrace     ", dict(sorted(counts.items())))
    print("torch.profiler", dict(sorted(result["profiler"].items())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
