# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""--gpu-time on a real GPU: every execution must be recorded with its call, and times must equal torch.profiler's. Also measures its cost.

usage: gpu_time.py CUDATRACE OUT_FOLDER [PART[:PROGRAM]...]    PART: programs, sums, cost, beside, all of them if none is named; floor
"""
import collections
import json
import os
import shlex
import shutil
import statistics
import subprocess
import sys

from turns import in_turn, traced as argv_of

HERE = os.path.dirname(os.path.abspath(__file__))
KERNEL_TIMES = os.path.join(HERE, "kernel_times.py")
ENDS = ("gpu_launches_timed", "gpu_launches_untimed", "gpu_no_call", "gpu_records", "gpu_dropped", "gpu_untimed",
        "gpu_lost", "gpu_discarded", "gpu_clock_error_ns", "gpu_clock_steps")


def lines(path):
    with open(path, encoding="utf-8") as f:
        for line in f:
            yield json.loads(line)


def trace(tracer, out, options, argv):
    """Runs it; returns the path of its trace and its output."""
    path = os.path.join(out, "gpu_time.jsonl")
    ran = subprocess.run([tracer, "-q", *shlex.split(options), "--jsonl", path, "--", sys.executable, *argv],
                         stdout=subprocess.PIPE, text=True, check=False)
    if ran.returncode:
        print(f"{options} {argv}: ended with {ran.returncode}", flush=True)
    return path, ran.stdout


def programs(tracer, out, *only):
    """Each execution must have its call, and the call's line its time."""
    for name in only or ("gpt2", "triton_add", "cupy_mm", "jax_mlp", "torch_mlp", "graph_replay"):
        argv = [os.path.join(HERE, name + ".py")] + (["--tokens", "20", "--rounds", "1"] if name == "gpt2" else [])
        for options in ("--gpu-time --probe=inject", "--gpu-time --probe=uprobe", "--gpu-time=nodes --probe=inject"):
            path, _ = trace(tracer, out, options, argv)
            ops, calls, timed, said, end = collections.Counter(), set(), set(), [], {}
            for ev in lines(path):
                if ev["type"] == "gpu":
                    ops[ev["op"]] += 1
                    calls.add(ev.get("call_id"))
                elif "gpu_us" in ev:
                    timed.add(ev["id"])
                elif ev["type"] == "tracer":
                    said.append(ev["why"])
                elif ev["type"] == "end":
                    end = ev
            print(f"{name:13} {options:32} {dict(ops)}, of {len(calls)} calls, {len(calls & timed)} of which have their times, {len(timed - calls)} other lines, too; {[end.get(k) for k in ENDS]} {said[:1]}", flush=True)


def in_region(path, region):
    of = collections.defaultdict(lambda: [0, 0.0])
    base = None
    for ev in lines(path):
        if base is None:
            base = ev["clock_base_ns"]
        if ev["type"] == "gpu" and region[0] <= base + ev["ts"] * 1e6 <= region[1]:
            name = ev["kernel"] if ev["op"] == "kernel" else "copy" if ev["op"] == "copy" else ev["op"]
            of[name][0] += 1
            of[name][1] += ev["duration_us"]
    return of


def profiled(what):
    """Returns {kernel: [executions, microseconds]} from torch.profiler."""
    ran = subprocess.run([sys.executable, KERNEL_TIMES, what, "--profile"], stdout=subprocess.PIPE, text=True, check=True)
    of = collections.defaultdict(lambda: [0, 0.0])
    for name, (cnt, us) in json.loads(ran.stdout.splitlines()[-1])["gpu"].items():
        name = "copy" if name.startswith("Memcpy") else "memset" if name.startswith("Memset") else name
        of[name][0] += cnt
        of[name][1] += us
    return of


def traced(tracer, out, what):
    path, text = trace(tracer, out, "--gpu-time=nodes --probe=inject", [KERNEL_TIMES, what])
    return in_region(path, json.loads(text.splitlines()[-1])["region_ns"])


def sums(tracer, out, *only):
    """Times of a run depend on the GPU's clocks, so this makes three runs of each, in turn, and prints the spread of each profiler."""
    for what in only or ("gpt2", "graph", "compile", "overlap", "copies"):
        runs = [(profiled(what), traced(tracer, out, what)) for _ in range(3)]
        theirs, ours = zip(*runs)

        def middle(of, name):
            return statistics.median(r[name][1] if name else sum(v[1] for v in r.values()) for r in of)

        def apart(of):
            total = sorted(sum(v[1] for v in r.values()) for r in of)
            return total[-1] / total[0]

        large = [k for k in theirs[0] if theirs[0][k][1] > 0.01 * sum(v[1] for v in theirs[0].values())]
        off = max((abs(middle(ours, k) / middle(theirs, k) - 1), k[:60]) for k in large)
        print(f"{what:8} executions {[sum(v[0] for v in r.values()) for r in ours]}, torch.profiler {[sum(v[0] for v in r.values()) for r in theirs]}; "
              f"microseconds {middle(ours, None):.0f}, {middle(theirs, None):.0f}: {middle(ours, None) / middle(theirs, None):.4f}; runs of ours differ by "
              f"{apart(ours):.3f}, of torch.profiler's by {apart(theirs):.3f}; the kernel that differs most, of those with over 1 %: {off}", flush=True)


def cost(tracer, out, *only):
    """Two and a half minutes for GPT-2, one and a half for the graph."""
    goals = {"--probe=inject": 1.01, "--probe=inject --all": 1.05, "--probe=inject --gpu-time": 1.15}
    gpu_time = ["--probe=inject --gpu-time", "--probe=uprobe --gpu-time"]
    processes = []
    if "gpt2" in (only or ("gpt2",)):
        processes += in_turn(argv_of(tracer, [os.path.join(HERE, "gpt2.py"), "--tokens", "3"]), out, ["", "--probe=inject", "--probe=inject --all", *gpu_time], 75,
                             name="gpt2", goals=goals)
    if "graph" in (only or ("graph",)):
        processes += in_turn(argv_of(tracer, [KERNEL_TIMES, "graph"]), out, ["", "--probe=inject", "--probe=inject --gpu-time=nodes", *gpu_time], 40, copies=3, name="graph",
                             unit="ms a round", goals=goals)
    for p in processes:
        shutil.rmtree(p.folder)


def floor(tracer, out):
    """Measures the share of CUPTI in the cost of --gpu-time. Three minutes."""
    folder, library = os.path.join(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "targets/x86_64-linux"), os.path.abspath(os.path.join(out, "cupti_alone.so"))
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", f"-I{folder}/include", "-o", library, os.path.join(HERE, "cupti_alone.c"), f"-L{folder}/lib", "-lcupti",
                    f"-Wl,-rpath,{folder}/lib"], check=True)
    alone = {f"cupti, {how}": ["env", f"CUDA_INJECTION64_PATH={library}", f"CUPTI_ALONE={how}"] for how in ("activities", "callbacks")}
    argv = argv_of(tracer, [os.path.join(HERE, "gpt2.py"), "--tokens", "3"])
    for p in in_turn(lambda way, path: [*alone.get(way, []), *argv("" if way in alone else way, path)], out,
                     ["", *alone, "--probe=inject", "--probe=inject --gpu-time"], 90, copies=6, name="floor", goals={"--probe=inject --gpu-time": 1.15}):
        shutil.rmtree(p.folder)


def beside(tracer, out):
    """Runs torch.profiler in a program with --gpu-time, and prints what each records."""
    path, text = trace(tracer, out, "--gpu-time --probe=inject", [KERNEL_TIMES, "gpt2", "--profile"])
    end = list(lines(path))[-1]
    print("torch.profiler beside it: it has", sum(v[0] for v in json.loads(text.splitlines()[-1])["gpu"].values()),
          "executions; we have", {k: end.get(k) for k in ENDS[:4]}, flush=True)


def main():
    tracer, out, *parts = sys.argv[1:]
    for part in parts or ["programs", "sums", "cost", "beside"]:
        name, *only = part.split(":")
        globals()[name](tracer, out, *only)


if __name__ == "__main__":
    main()
