#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Measures the time of the BPF programs of two or more versions of cudatrace per call, by the kernel's own count.

O=build tests/bench/programs.py VERSION... [INSTANCES] (root) attaches all versions at once, each to its own program and copy
of the mock driver, and makes calls in turns. It does so INSTANCES times, since the place of a thread's state in the
caches is random. build/bench/load must be there, as `make bench` builds it. MECHANISMS and WAYS choose. Prints
the median of each version in ns a call, and the median over the turns of its ratio to the first in the same turn. The
kernel's count (kernel.bpf_stats_enabled) includes the time of reading its clock. With WHOLE=1 it is not used: then the
program's time per call is compared, with all work of the kernel around it.
"""
import glob
import os
import statistics
import sys
import tempfile
import time

import rig

TURNS = 15
CALLS = 2000
BATCHES = 20  # their median is the time of a call
WARM_CALLS = 50  # load.c
WAYS = {"recorded": [], "counted": ["--count=all"], "entry-only": ["--entry-only=all"]}
NO_POINTEE = ["cuLaunchKernel", "cuStreamSynchronize"]
FUNCTIONS = {"recorded": rig.FUNCTIONS, "counted": NO_POINTEE, "entry-only": NO_POINTEE}
MECHANISMS = "session multi perf"
KPROBE = "2"  # BPF_PROG_TYPE_KPROBE
WHOLE = os.environ.get("WHOLE") == "1"
STATS = "/proc/sys/kernel/bpf_stats_enabled"


def run_ns(pid):
    """Run times of a process's programs for probes."""
    sum_ns = 0
    for path in glob.glob(f"/proc/{pid}/fdinfo/*"):
        try:
            with open(path) as f:
                info = dict(line.split(":", 1) for line in f if ":" in line)
        except FileNotFoundError:  # closed meanwhile
            continue
        if info.get("prog_type", "").strip() == KPROBE:
            sum_ns += int(info["run_time_ns"])
    return sum_ns


class Version:
    def __init__(self, path, mechanism, way, tmp):
        os.makedirs(tmp)
        self.load = rig.Load(rig.copy_library(rig.FAKE, tmp, "lib"))
        rig.CUDATRACE = path
        self.tracer = rig.cudatrace(self.load, tmp, mechanism, FUNCTIONS[way], os.path.join(tmp, "t.jsonl"), *WAYS[way])

    def turn(self, function):
        before = 0 if WHOLE else run_ns(self.tracer.pid)
        ns = self.load.ask("time", function, BATCHES, CALLS // BATCHES)[1]
        if not WHOLE:
            ns = (run_ns(self.tracer.pid) - before) / (CALLS + WARM_CALLS)
        time.sleep(0.002)  # for the reader
        return ns

    def close(self):
        self.tracer.stop()
        self.load.close()


def instance(paths, mechanism, way, ns):
    """Adds the turns of each version to ns[function][version]."""
    versions = []
    with tempfile.TemporaryDirectory(dir=rig.OUT) as tmp:
        try:
            for i, path in enumerate(paths):
                versions.append(Version(path, mechanism, way, os.path.join(tmp, str(i))))
            for r in range(TURNS):
                for function in FUNCTIONS[way]:
                    for i in range(len(paths)):
                        k = (i + r) % len(paths)
                        ns[function][k].append(versions[k].turn(function))
        finally:
            for v in versions:
                v.close()


def compare(paths, mechanism, way, instances):
    ns = {f: [[] for _ in paths] for f in FUNCTIONS[way]}
    for i in range(instances):
        k = i % len(paths)
        order = paths[k:] + paths[:k]
        these = {f: [[] for _ in paths] for f in ns}
        instance(order, mechanism, way, these)
        for f in ns:
            for n, path in enumerate(order):
                ns[f][paths.index(path)] += these[f][n]
    for f in ns:
        first, *others = ns[f]
        words = [f"{statistics.median(first):6.1f}"]
        for more in others:
            ratio = statistics.median(b / a for a, b in zip(first, more))
            words.append(f"{statistics.median(more):6.1f} x {ratio:.3f}")
        print(f"{mechanism:8} {way:11} {f:20} {'  '.join(words)}", flush=True)


def asked(name, default):
    return os.environ.get(name, default).split()


def main():
    paths = sys.argv[1:]
    instances = int(paths.pop()) if paths[-1].isdigit() else 6
    with open(STATS) as f:
        was = f.read()
    with open(STATS, "w") as f:
        f.write("0" if WHOLE else "1")
    try:
        for mechanism in asked("MECHANISMS", MECHANISMS):
            for way in asked("WAYS", " ".join(WAYS)):
                try:
                    compare(paths, mechanism, way, instances)
                except rig.CannotRun as why:
                    print(f"{mechanism:8} {way:11} {why}", flush=True)
    finally:
        with open(STATS, "w") as f:
            f.write(was)


if __name__ == "__main__":
    main()
