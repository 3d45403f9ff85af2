# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Traces programs in-process and by uprobes: both must record the same calls. Also measures the cost of each.

usage: inject.py CUDATRACE OUT_FOLDER [PROGRAM...]    PROGRAM: loop (of calls that do nothing), gpt2 (the cost, too), parts (of it), triton_add, cupy_mm, ... of this folder
"""
import collections
import json
import os
import shlex
import shutil
import statistics
import subprocess
import sys

from turns import in_turn, traced

HERE = os.path.dirname(os.path.abspath(__file__))
# The second has the library, which records nothing because no program calls that function.
WAYS = ["", "--probe=inject -e cuProfilerStart", "--probe=inject", "--probe=inject --all", "--probe=inject --all --count=all", "--probe=uprobe"]


def calls(path):
    """Returns the number of calls by symbol, and the end line."""
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
    """All of them must have the same calls."""
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
    """Measures a call that does nothing, ten times in turn."""
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


def gpt2(tracer, out):
    processes = in_turn(traced(tracer, [os.path.join(HERE, "gpt2.py"), "--tokens", "3"]), out, WAYS, 75, copies=3)
    both = [p for p in processes[:len(WAYS) - 1] if p.way in ("--probe=inject", "--probe=uprobe")]
    compare("gpt2", {p.way: calls(p.path) for p in both})
    for p in processes:
        _, end = calls(p.path)
        print(f"    {p.way:34} {account(end)}; it says {end['cost_ms']:.1f} ms", flush=True)
        os.remove(p.path)


def parts(tracer, out):
    """Measures the cost without any recorded call. A minute and a half."""
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", os.path.join(out, "nothing.so"), "-x", "c", "-"], input=b"int InitializeInjection(void) { return 1; }", check=True)
    library = os.path.join(os.path.dirname(os.path.abspath(tracer)), "libcudatrace-inject.so")
    before = {"injection": ["env", f"CUDA_INJECTION64_PATH={out}/nothing.so"],
              "preloaded, no tracer": ["env", f"LD_PRELOAD={library}", "CUDATRACE_SOCKET=/nobody/listens"]}
    argv_of = traced(tracer, [os.path.join(HERE, "gpt2.py"), "--tokens", "3"])
    ways = ["", *before, "--probe=inject -e cuProfilerStart", "--probe=inject", "--probe=inject --count=all"]
    for p in in_turn(lambda way, path: [*before.get(way, []), *argv_of("" if way in before else way, path)], out, ways, 80, name="parts"):
        shutil.rmtree(p.folder)


def main():
    tracer, out, *names = sys.argv[1:]
    for name in names or ["loop", "gpt2", "triton_add", "cupy_mm", "jax_mlp", "torch_mlp", "graph_replay"]:
        if name == "parts":
            parts(tracer, out)
        elif name == "loop":
            loop(tracer, out)
        elif name == "gpt2":
            gpt2(tracer, out)
        else:
            run_program(tracer, out, name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
