# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Measures the cost of tracing for a program whose times vary from start to start and from second to second.

Processes that are traced in different ways run side by side, in sets of one for each way. One works at a time, for a short time, in another
order each turn; the untraced one of its set works right before and right after it. All of a set share a processor. The result is the median
of these ratios, with a 95 % interval by bootstrap over sets, and over turns in each.

usage: turns.py FACTOR... [--seconds N]    validates this with programs that work FACTOR times as much as the first
"""
import argparse
import collections
import contextlib
import functools
import json
import math
import os
import random
import shlex
import shutil
import statistics
import subprocess
import sys
import time

AGAIN = "untraced, again"


def interval(sets, of, times=1000):
    """Returns the 95 % interval of of(turns): sets, and turns of each, are drawn anew."""
    drawn = sorted(of([turn for s in random.choices(sets, k=len(sets)) for turn in random.choices(s, k=len(s))]) for _ in range(times))
    return drawn[times * 25 // 1000], drawn[times * 975 // 1000 - 1]


def verdict(low, high, most, least=0.0):
    return "so it is" if least <= low and high <= most else "not so" if low > most or high < least else "not shown"


@functools.lru_cache
def libcuda():
    """Returns the file that a program loads; None: it was not found."""
    folders = os.environ.get("LD_LIBRARY_PATH", "").split(":")
    known = subprocess.run([shutil.which("ldconfig") or "/sbin/ldconfig", "-p"], stdout=subprocess.PIPE, text=True, check=False).stdout
    folders += [os.path.dirname(line.split()[-1]) for line in known.splitlines() if line.strip().startswith("libcuda.so.1 ") and "x86-64" in line]
    return next((os.path.realpath(f + "/libcuda.so.1") for f in folders if f and os.path.exists(f + "/libcuda.so.1")), None)


def rounds(proc, n):
    """Returns means of the milliseconds of a round, and of its thread's CPU time. An uncounted round comes first, to warm the caches."""
    proc.stdin.write(f"{n + 1} cpu\n")
    proc.stdin.flush()
    return [statistics.mean(t) for t in zip(*json.loads(proc.stdout.readline())[1:])]


class Process:
    """A program with --serve (serve.py), and its own libcuda, because uprobes in a shared file would slow down the others."""

    def __init__(self, folder, way, argv, core):
        self.way, self.path, self.folder = way, folder + "/trace.jsonl", folder
        os.makedirs(folder, exist_ok=True)
        env = {**os.environ, "SERVE_CORE": str(core), "PYTHONHASHSEED": "0"}
        if libcuda():
            shutil.copy(libcuda(), folder + "/libcuda.so.1")
            env["LD_LIBRARY_PATH"] = ":".join(filter(None, [os.path.abspath(folder), os.environ.get("LD_LIBRARY_PATH")]))
        self.proc = subprocess.Popen(argv(way, self.path), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)

    def rounds(self, n):
        return rounds(self.proc, n)

    def end(self):
        """Called when stdin was closed."""
        self.proc.wait()
        if os.path.exists(self.folder + "/libcuda.so.1"):
            os.remove(self.folder + "/libcuda.so.1")


def take_turns(sets, seconds, rounds):
    """Returns for each way and set, for each turn: [time, CPU time] of the untraced one before it, of it, and of the untraced one after it."""
    took = collections.defaultdict(lambda: [[] for _ in sets])
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for number, (untraced, *others) in random.sample(list(enumerate(sets)), len(sets)):
            before = untraced.rounds(rounds)
            for p in random.sample(others, len(others)):
                own, after = p.rounds(rounds), untraced.rounds(rounds)
                took[p.way][number].append([before, own, after])
                before = after
    return took


def ratios(turns, of=0):
    """Relative to the untraced one before and to the one after, and not to their mean, whose median is higher if times have outliers to one side."""
    return [own[of] / bare[of] for before, own, after in turns for bare in (before, after)]


def tell(way, sets, unit, most):
    turns = sum(sets, [])
    low, high = interval(sets, lambda t: statistics.median(ratios(t)))
    cpu = interval(sets, lambda t: statistics.median(ratios(t, 1)))
    logs = sorted(map(math.log, ratios(turns)))
    middle = logs[len(logs) // 10:len(logs) - len(logs) // 10]
    least = statistics.median(min(own[0] for _, own, _ in s) / min(bare[0] for bare, _, _ in s) for s in sets)
    print(f"{way:34} {statistics.median(own[0] for _, own, _ in turns):8.3f} {unit}, {statistics.median(ratios(turns)):.3f} of untraced, "
          f"95 %: {low:.3f} to {high:.3f}; CPU time {statistics.median(ratios(turns, 1)):.3f}, {cpu[0]:.3f} to {cpu[1]:.3f}; "
          f"mean without the outer tenths {math.exp(statistics.mean(middle)):.3f}, of the least {least:.3f}; {len(turns)} turns"
          + (f"; at most {most}: {verdict(low, high, most)}" if most else ""), flush=True)


def in_turn(argv, out, ways, seconds, rounds=1, copies=4, name="", unit="ms a token", goals=None):
    """argv(way, path of its trace): the command of each of ways; "", the first, is untraced, and so is one more, whose result should be 1.
    goals: maximum of a way. Returns the traced processes, set by set, which have ended: traces are at path, in the caller's folder."""
    began, ways, cores = time.monotonic(), [*ways, AGAIN], sorted(os.sched_getaffinity(0))
    with contextlib.ExitStack() as stack:
        sets = []
        for i in range(copies):
            started = {}
            # The first process has another memory layout.
            for way in random.sample(ways, len(ways)):
                started[way] = Process(f"{out}/turns.{i}.{ways.index(way)}", way, lambda w, path: argv("" if w == AGAIN else w, path), cores[(1 + i) % len(cores)])
                stack.callback(started[way].proc.kill)
            sets.append([started[way] for way in ways])
        processes = [p for s in sets for p in s]
        for p in processes:
            assert p.proc.stdout.readline() == "ready\n", p.way
        for p in processes:
            p.rounds(rounds)
        ready = time.monotonic()
        took = take_turns(sets, seconds, rounds)
        for p in processes:
            p.proc.stdin.close()
        for p in processes:
            p.end()
        stack.pop_all()
    print(f"{name}: {len(processes)} processes ready after {ready - began:.0f} s, {time.monotonic() - began:.0f} s in all"
          + ("" if libcuda() else "; no libcuda was found: all have the same, if any"), flush=True)
    for way in ways[1:]:
        tell(way, took[way], unit, (goals or {}).get(way))
    return [p for p in processes if p.way not in ("", AGAIN)]


def traced(tracer, program):
    """argv of in_turn() for that Python program, where a way is options of cudatrace."""
    def argv(way, path):
        return [*([tracer, "-q", *shlex.split(way), "--jsonl", path, "--"] if way else []), sys.executable, *program, "--serve"]
    return argv


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("factors", nargs="*")
    ap.add_argument("--seconds", type=float, default=60)
    ap.add_argument("--copies", type=int, default=16)
    ap.add_argument("--work", type=float)
    args = ap.parse_args()
    if args.work:
        from serve import serve
        text = json.dumps({str(i): [i, str(i) * 3, {"a": i / 7}] for i in range(20)})
        steps = round(200 * args.work)

        def work():
            for _ in range(steps):
                json.loads(text)
        serve(work)
        return
    out = f"/tmp/turns.{os.getpid()}"
    in_turn(lambda way, _: [sys.executable, os.path.abspath(__file__), "--work", way or "1"], out, ["", *args.factors], args.seconds, rounds=2, copies=args.copies, unit="ms")
    shutil.rmtree(out)


if __name__ == "__main__":
    main()
