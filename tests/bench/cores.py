#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Calls of many threads and processes at the same time, back to back: do they wait for each other?

tests/bench/cores.py FOLDER CUDATRACE... measures these programs in turn, on a machine with nothing installed but
Python; FOLDER holds the programs cores and libcuda.so.1, as `make bench` builds them in build/bench/cores.

TRACER_CPUS=4 limits the tracer to that many processors, and the traced programs to the others. OPTIONS are the tracer's.
CALLS=3000000 is the number of calls of each thread or process: only calls that exceed all buffers show the rate of writing.
COUNTS=8,12: numbers of threads or processes.
"""
import json
import os
import shlex
import subprocess
import sys
import tempfile

CALLS = int(os.environ.get("CALLS", "300000"))
WAYS = {"recorded": [], "counted": ["--count=all"]}
TRACER_CPUS = int(os.environ.get("TRACER_CPUS", "0"))


def only_on(cpus):
    """Runs before exec; all processes started from there inherit it."""
    return ["taskset", "-c", ",".join(map(str, cpus))]


def counts(cpus):
    """Two processors are left for the tracer and the machine."""
    if os.environ.get("COUNTS"):
        return [int(n) for n in os.environ["COUNTS"].split(",")]
    return [n for n in (1, 2, 4, 8, 12, 16, 28, 56, 112) if n <= max(2, cpus - (TRACER_CPUS or 2))]


def end_line(path):
    with open(path, "rb") as f:
        f.seek(max(0, os.path.getsize(path) - 65536))
        return json.loads(f.read().splitlines()[-1])


def run(folder, tracer, way, kind, cnt, calls=CALLS):
    """One run; ns a call on average and of the slowest, and the share of records that were dropped."""
    lib = os.path.join(folder, "libcuda.so.1")
    argv = [os.path.join(folder, "cores"), lib, kind, str(cnt), str(calls)]
    with tempfile.TemporaryDirectory() as tmp:
        trace = os.path.join(tmp, "t.jsonl")
        if tracer:
            traced = [tracer, "-q", "-e", "cuLaunchKernel", *WAYS[way], *shlex.split(os.environ.get("OPTIONS", "")), "--jsonl", trace, "--"]
            if TRACER_CPUS:
                cpus = sorted(os.sched_getaffinity(0))
                traced = only_on(cpus[:TRACER_CPUS]) + traced + only_on(cpus[TRACER_CPUS:])
            argv = traced + argv
        r = subprocess.run(argv, capture_output=True, text=True, check=False)
        if r.returncode:
            raise OSError(f"{' '.join(argv)}: {r.stderr.strip()}")
        mean, slowest, seconds = (float(x) for x in r.stdout.split())
        result = {"ns": mean, "slowest_ns": slowest, "calls_per_s": round(cnt * calls / seconds)}
        if tracer:
            end = end_line(trace)
            made, drops = cnt * calls, end["drops"]["calls"]
            result["dropped"] = drops / made
            missing = made - end["calls"] - drops if way == "recorded" else 0
            result["wrong"] = abs(made - end["entries"]) + abs(missing)
            result["written_per_s"] = round((made - drops) / seconds)
            result["said_ns"] = end["cost_ms"] * 1e6 / end["entries"]
    return result


def measure(folder, tracers, say=print):
    """Time of a call, and the tracer's part of it: processors may be slower when all are busy, untraced too."""
    rows = []
    for way in WAYS:
        for kind in ("threads", "processes"):
            for tracer in tracers:
                say(f"{way}, {kind}: {tracer}")
                one = None
                for cnt in counts(os.cpu_count()):
                    bare, r = (min((run(folder, t, way, kind, cnt) for _ in range(2)), key=lambda r: r["ns"]) for t in (None, tracer))
                    r["untraced_ns"] = bare["ns"]
                    one = one or r
                    rows.append({"way": way, "kind": kind, "tracer": tracer, "count": cnt, **r})
                    say(f"  {cnt:4} at once: {r['ns']:8.0f} ns a call, {r['ns'] / one['ns']:5.2f} of one's; untraced {bare['ns']:.1f}, {bare['ns'] / one['untraced_ns']:5.2f}; "
                        f"slowest {r['slowest_ns']:.0f}; said {r['said_ns']:.0f}; "
                        f"{r['calls_per_s']:,} calls/s, {100 * r['dropped']:.1f} % dropped, {r['written_per_s']:,} not dropped/s")
    return rows


def main():
    folder, *tracers = sys.argv[1:]
    print(f"{os.cpu_count()} processors")
    rows = measure(folder, tracers)
    if os.environ.get("OUT"):
        with open(os.path.join(os.environ["OUT"], "cores.json"), "w") as f:
            json.dump(rows, f, indent=1)


if __name__ == "__main__":
    main()
