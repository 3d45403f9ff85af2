# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""--python on a real GPU: each launch of GPT-2 and of a Llama in eager mode must be under the same module as in torch.profiler. Also
measures the cost.

usage: python.py CUDATRACE OUT_FOLDER [PART...]    PART: modules, cost; both if none is named
       python.py --program TRACE [MODEL]           the traced program for modules, under torch.profiler(with_stack, with_modules)
"""
import bisect
import collections
import json
import os
import re
import shlex
import statistics
import subprocess
import sys
import time

from turns import in_turn, traced

HERE = os.path.dirname(os.path.abspath(__file__))
ENDS = ("python_calls", "python_early", "python_cut", "python_broken", "python_unread", "drops", "probe_cost_ns", "cost_share")
LAUNCH = re.compile(r"cu(da)?Launch(Cooperative)?Kernel")
NOT_THEIRS = ("torch/profiler/", "torch/autograd/profiler")


def program(path, name="gpt2"):
    import torch
    sys.path.insert(0, HERE)
    from gpt2 import generate, model_of
    model, ids = model_of(name)
    generate(model, ids, 5)
    torch.cuda.synchronize()
    acts = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=acts, with_stack=True, with_modules=True) as prof:
        region = [time.clock_gettime_ns(time.CLOCK_MONOTONIC)]
        generate(model, ids, 5)
        torch.cuda.synchronize()
        region.append(time.clock_gettime_ns(time.CLOCK_MONOTONIC))
    prof.export_chrome_trace(path)
    print(json.dumps({"region_ns": region, "tid": os.getpid(), "python": sys.version.split()[0], "torch": torch.__version__}), flush=True)


class Frames:
    """Returns the data of torch.profiler: launches in their order, each with its enclosing items, outermost first."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as f:
            events = [e for e in json.load(f)["traceEvents"] if e.get("ph") == "X"]
        self.python = collections.defaultdict(list)
        for e in events:
            if e.get("cat") == "python_function":
                self.python[e["tid"]].append((e["ts"], e["ts"] + e["dur"], e["name"]))
        self.launches = sorted((e["ts"], e["tid"]) for e in events if e.get("cat") in ("cuda_runtime", "cuda_driver") and LAUNCH.match(e["name"]))
        for rows in self.python.values():
            rows.sort(key=lambda r: (r[0], -r[1]))
        self.starts = {tid: [r[0] for r in rows] for tid, rows in self.python.items()}

    def enclosing(self):
        """Returns for each launch the names of its enclosing items."""
        at, open_rows = collections.Counter(), collections.defaultdict(list)
        for ts, tid in self.launches:
            rows, stack = self.python[tid], open_rows[tid]
            end = bisect.bisect_right(self.starts.get(tid, []), ts)
            for row in rows[at[tid]:end]:
                while stack and stack[-1][1] <= row[0]:
                    stack.pop()
                stack.append(row)
            at[tid] = end
            while stack and stack[-1][1] < ts:
                stack.pop()
            yield [r[2] for r in stack]

    def around(self):
        """Returns for each launch the names of modules, and (file, function) of Python's functions."""
        stacks = []
        for names in self.enclosing():
            modules = [re.sub(r"_\d+$", "", n[len("nn.Module: "):]) for n in names if n.startswith("nn.Module: ")]
            # A module's event stands for the function that calls it.
            names = ["torch/nn/modules/module.py(0): _wrapped_call_impl" if n.startswith("nn.Module: ") else n for n in names]
            funcs = [re.match(r"(.*)\((\d+)\): (.*)", n) for n in names]
            stacks.append((modules, [(os.path.basename(m[1]), m[3]) for m in funcs if m and not m[1].startswith(("<built-in>", *NOT_THEIRS))]))
        return stacks


def ours(path, region, tid):
    """Returns the same data from our trace."""
    known, out, end, base = {}, [], {}, 0
    with open(path, encoding="utf-8") as f:
        for line in f:
            e = json.loads(line)
            if e["type"] == "header":
                base = e["clock_base_ns"]
            elif e["type"] == "stack":
                known[e["id"]] = e.get("python", [])
            elif e["type"] == "end":
                end = e
            elif LAUNCH.match(e["name"]) and not e.get("depth") and e["tid"] == tid and region[0] <= base + e["ts"] * 1e6 <= region[1]:
                out.append([f for f in reversed(known.get(e.get("stack"), []))])
    return out, end


def modules(tracer, out):
    path, chrome = os.path.join(out, "python.jsonl"), os.path.join(out, "python.torch.json")
    for options, model in (("--python=launch", "gpt2"), ("--python --stack=launch", "gpt2"), ("--python=launch", "llama")):
        ran = subprocess.run([tracer, "-q", *shlex.split(options), "--jsonl", path, "--", sys.executable, os.path.abspath(__file__), "--program", chrome, model],
                             stdout=subprocess.PIPE, text=True, check=True)
        said = json.loads(ran.stdout.splitlines()[-1])
        frames, end = ours(path, said["region_ns"], said["tid"])
        theirs = Frames(chrome).around()
        print(f"{model} {options}: Python {said['python']}, torch {said['torch']}: launches {len(frames)}, torch.profiler has {len(theirs)}; "
              f"{len(frames) - sum(not f for f in frames)} have frames, {statistics.mean(map(len, frames)) if frames else 0:.1f} of them each; "
              f"{ {k: end.get(k) for k in ENDS} }; trace of {os.path.getsize(path)} bytes", flush=True)
        chain, innermost, whole, wrong = 0, 0, 0, collections.Counter()
        for got, (mods, funcs) in zip(frames, theirs):
            # From 3.11 on the function's name contains the class; for an inherited function it is the base class.
            classes = [f["function"].rsplit(".", 1)[0].split(".")[-1] for f in got if f.get("function", "").endswith(".forward")]
            chain += classes == mods
            innermost += classes[-1:] == mods[-1:]
            whole += [(os.path.basename(f.get("file", "")), f.get("function", "").split(".")[-1]) for f in got][-len(funcs):] == funcs and bool(funcs)
            if classes != mods:
                wrong[f"{classes} for {mods}"] += 1
        n = min(len(frames), len(theirs)) or 1
        print(f"  {'ok' if innermost >= 0.95 * n else 'NOT OK'} under the right module {innermost / n:.2%}, in the right ones all the way {chain / n:.2%}, every function as torch.profiler has it {whole / n:.2%}; "
              f"where not: {wrong.most_common(3)}", flush=True)


def cost(tracer, out):
    ways = ["", "--probe=uprobe", "--probe=uprobe --python=launch", "--probe=uprobe --python"]
    for p in in_turn(traced(tracer, [os.path.join(HERE, "gpt2.py"), "--tokens", "3"]), out, ways, 60)[:len(ways) - 1]:
        with open(p.path, encoding="utf-8") as f:
            end = json.loads(collections.deque(f, 1)[0])
        print(f"    {p.way:34}", {k: end[k] for k in ENDS if k in end}, flush=True)


def main():
    if sys.argv[1] == "--program":
        return program(*sys.argv[2:])
    tracer, out, *parts = sys.argv[1:]
    os.makedirs(out, exist_ok=True)
    for part in parts or ["modules", "cost"]:
        globals()[part](os.path.abspath(tracer), out)


if __name__ == "__main__":
    main()
