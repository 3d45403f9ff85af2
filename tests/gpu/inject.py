# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Traced by a library in the process, and by uprobes: the same calls? And what each costs.

usage: inject.py CUDATRACE OUT_FOLDER [PROGRAM...]    PROGRAM: loop (of calls that do nothing), gpt2 (the cost, too), triton_add, cupy_mm, ... of this folder

The cost: three processes for each way of tracing and three that are not traced make tokens, a few at a time, one
process after the other, in another order each turn. What a process takes differs from start to start by some percent
(where its memory lies), so that one process for each way shows nothing of less.
"""
import collections
import json
import os
import random
import shlex
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
# Short turns, and many: how fast the machine is changes from second to second.
TOKENS, ROUNDS, TURNS, PROCESSES = 10, 2, 60, 3
# The second has the library in it, which records nothing: no program calls that function.
WAYS = ["", "--probe=inject -e cuProfilerStart", "--probe=inject", "--probe=inject --all", "--probe=inject --all --count=all", "--probe=uprobe"]


def calls(path):
    """How often each function was called, by its symbol; and the end line."""
    cnt, end = collections.Counter(), {}
    with open(path, encoding="utf-8") as f:
        for line in f:
            if '"type":"end"' in line:
                end = json.loads(line)
            elif '"id":' in line:
                ev = json.loads(line)
                if "result" in ev or ev.get("unfinished"):
                    cnt[ev["name"]] += 1
    return cnt, end


def account(end):
    return f"{end['calls']} calls, {end['entries']} entries, dropped {sum(end['drops'].values())}, unfinished {end.get('unfinished')}, bad {end.get('bad_records', 0)}"


def compare(name, traces):
    """The same calls in all of them?"""
    ways = sorted(traces)
    first = traces[ways[0]][0]
    for way in ways:
        cnt, end = traces[way]
        differ = {k: (first[k], cnt[k]) for k in first.keys() | cnt.keys() if first[k] != cnt[k]}
        print(f"{name:14} {way:24} {account(end)}; " + ("the same calls" if not differ else f"not those of {ways[0]}: {differ}"), flush=True)


def run_program(tracer, out, name):
    traces = {}
    for way in ("--probe=inject --all", "--probe=uprobe --all"):
        path = os.path.join(out, "inject.jsonl")
        ran = subprocess.run([tracer, "-q", *shlex.split(way), "--jsonl", path, "--", sys.executable, os.path.join(HERE, name + ".py")],
                             stdout=subprocess.DEVNULL, check=False)
        if ran.returncode:
            print(f"{name} {way}: ended with {ran.returncode}", flush=True)
        traces[way] = calls(path)
        os.remove(path)
    compare(name, traces)


def loop(tracer, out):
    """What a call takes that does nothing, ten times in turn."""
    program, ways = os.path.join(out, "call_loop"), ["", "--probe=inject", "--probe=inject --count=all", "--probe=uprobe", "--probe=uprobe --count=all"]
    subprocess.run(["gcc", "-O1", "-o", program, os.path.join(HERE, "call_loop.c"), "-ldl"], check=True)
    took = collections.defaultdict(list)
    for _ in range(10):
        for way in ways:
            trace = [tracer, "-q", "--all", *shlex.split(way), "--jsonl", "/dev/null", "--"] if way else []
            calls = "20000" if "uprobe" in way else "100000"
            took[way].append(float(subprocess.run([*trace, program, calls], stdout=subprocess.PIPE, check=True).stdout))
    for way in ways:
        cost = statistics.median(took[way]) - statistics.median(took[""])
        print(f"a call that does nothing: {way or 'untraced':28} {statistics.median(took[way]):7.1f} ns; tracing takes {cost:7.1f}", flush=True)


class Server:
    def __init__(self, tracer, out, i, way):
        self.way, self.path = way, os.path.join(out, f"inject{i}.jsonl")
        trace = [tracer, "-q", *shlex.split(way), "--jsonl", self.path, "--"] if way else []
        self.proc = subprocess.Popen([*trace, sys.executable, os.path.join(HERE, "gpt2.py"), "--tokens", str(TOKENS), "--serve"],
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def rounds(self):
        self.proc.stdin.write(f"{ROUNDS}\n")
        self.proc.stdin.flush()
        return statistics.median(json.loads(self.proc.stdout.readline()))


def gpt2(tracer, out):
    servers = [Server(tracer, out, i, way) for i, way in enumerate(WAYS * PROCESSES)]
    for s in servers:
        assert s.proc.stdout.readline() == "ready\n", s.way
    for s in servers:
        s.rounds()
    turns = []
    for _ in range(TURNS):
        took = collections.defaultdict(list)
        for s in random.sample(servers, len(servers)):
            took[s.way].append(s.rounds())
        turns.append(took)
    for s in servers:
        s.proc.stdin.close()
        s.proc.wait()
    for way in WAYS:
        ratios = sorted(statistics.mean(t[way]) / statistics.mean(t[""]) for t in turns)
        print(f"{way or 'untraced':34} {statistics.median(statistics.mean(t[way]) for t in turns):.3f} ms a token, {statistics.median(ratios):.3f} of untraced "
              f"({ratios[len(ratios) // 4]:.3f} to {ratios[-len(ratios) // 4]:.3f})", flush=True)
    both = [s for s in servers[:len(WAYS)] if s.way in ("--probe=inject", "--probe=uprobe")]
    compare("gpt2", {s.way: calls(s.path) for s in both})
    for s in servers:
        if s.way:
            _, end = calls(s.path)
            print(f"    {s.way:34} {account(end)}; it says {end['cost_ms']:.1f} ms", flush=True)
            os.remove(s.path)


def main():
    tracer, out, *names = sys.argv[1:]
    for name in names or ["loop", "gpt2", "triton_add", "cupy_mm", "jax_mlp", "torch_mlp", "graph_replay"]:
        if name == "loop":
            loop(tracer, out)
        elif name == "gpt2":
            gpt2(tracer, out)
        else:
            run_program(tracer, out, name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
