# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The report's map on a real GPU: is each launch of GPT-2 under the layer that torch.profiler has it under, and do the map's sums add up to
those of the trace?

usage: map.py CUDATRACE OUT_FOLDER [PART...]    PART: layers, decode; both if none is named. Keeps traces and reports there
"""
import collections
import json
import os
import re
import subprocess
import sys

from python import Frames

HERE = os.path.dirname(os.path.abspath(__file__))
WHAT = "launch,graph,transfer,sync,cublas"
MODULES = "GPT2Block", "GPT2Attention", "GPT2MLP", "LayerNorm", "Conv1D"


def lines(path):
    with open(path, encoding="utf-8") as f:
        for line in f:
            yield json.loads(line)


def traced(tracer, path, program, *options):
    ran = subprocess.run([tracer, "-q", *options, "-e", WHAT, "--jsonl", path, "--", sys.executable, *program], stdout=subprocess.PIPE, text=True, check=True)
    return ran.stdout


def reports(tracer, trace):
    """Written beside the trace: the map as text, JSON, the page, folded stacks. The JSON."""
    base = trace[:-len(".jsonl")]
    for form, end, more in (("ascii", ".map.txt", ["--map", "--top", "16"]), ("json", ".report.json", []), ("html", ".html", []), ("flamegraph", ".folded", ["--map=gpu"])):
        subprocess.run([tracer, "-q", "report", f"--format={form}", *more, "-o", base + end, trace], check=True)
    with open(base + ".report.json", encoding="utf-8") as f:
        return json.load(f)


def same(what, got, want):
    print(f"  {'ok' if got == want else 'NOT OK'} {what}: {got if got == want else f'{got}, wanted {want}'}", flush=True)


def sums(report, trace):
    """What the map counts is what the trace has."""
    nodes, calls, launches, host, gpu = report["map"]["nodes"], 0, 0, 0, collections.Counter()
    under = collections.Counter()
    stacks = {}
    for e in lines(trace):
        if e["type"] == "stack":
            stacks[e["id"]] = {f.get("function") for f in e.get("python", [])}
        if "symbol" in e:
            calls += 1
            launch = e["type"] == "kernel" and e["op"] == "launch" and not e.get("error") and not e.get("capturing")
            launches += launch
            host += 0 if e.get("depth") else round(e.get("duration_us", 0) * 1000)
            under.update(stacks.get(e.get("stack"), ()) if launch else ())
        elif e["type"] == "gpu":
            gpu.update(n=1, ns=round(e["duration_us"] * 1000), known="call_id" in e)
    root, functions = nodes[0], {f["name"]: f["total"]["launches"] for f in report["map"]["functions"]}
    same("calls", root["calls"], calls)
    same("launches", root["launches"], launches)
    same("time in calls", root["host_ns"], host)
    same("executions with a call", root.get("gpu_executions", 0), gpu["known"])
    inside = {k: v for k, v in functions.items() if k in under}
    same(f"launches under each of {len(inside)} functions, together", sum(inside.values()), sum(under[k] for k in inside))
    if any(under[k] != v for k, v in inside.items()):
        print("  NOT OK", {k: (v, under[k]) for k, v in inside.items() if under[k] != v})
    busy = sum(d["busy_ns"] for d in report["gpu"]["devices"]) if report.get("gpu") else 0
    print(f"  GPU busy {root.get('gpu_busy_ns', 0) / 1e6:.3f} ms, the report's own {busy / 1e6:.3f} ms; {gpu['n'] - gpu['known']} executions have no call")
    print("  not told:", {k: report["map"][k] for k in ("cut_frames", "unnamed_frames", "early", "unknown_executions", "left_out")})


def in_region(trace, region, tid, path):
    """What one thread did in this time, as a trace."""
    base, ids, out = 0, set(), []
    for e in lines(trace):
        base = e.get("clock_base_ns", base)
        if "symbol" in e:
            if e["tid"] != tid or not region[0] <= base + e["ts"] * 1e6 <= region[1]:
                continue
            ids.add(e["id"])
        elif e["type"] == "gpu" and e.get("call_id") not in ids:
            continue
        out.append(e)
    with open(path, "w", encoding="utf-8") as f:
        f.writelines(json.dumps(e, separators=(",", ":")) + "\n" for e in out)


def layers(tracer, out):
    trace, chrome, cut = (os.path.join(out, "map_layers" + s) for s in (".jsonl", ".torch.json", "_region.jsonl"))
    said = json.loads(traced(tracer, trace, [os.path.join(HERE, "python.py"), "--program", chrome], "--python").splitlines()[-1])
    in_region(trace, said["region_ns"], said["tid"], cut)
    report = reports(tracer, cut)
    want = {m: collections.Counter() for m in MODULES}
    for names in Frames(chrome).enclosing():
        modules = [n[len("nn.Module: "):] for n in names if n.startswith("nn.Module: ")]
        block = next((m for m in modules if m.startswith("GPT2Block_")), None)
        for m in MODULES:
            if any(re.sub(r"_\d+$", "", x) == m for x in modules):
                want[m][block] += 1
    got = {m: collections.Counter() for m in MODULES}
    nodes = report["map"]["nodes"]
    below = collections.Counter()
    for n in nodes[1:]:
        below[n["parent"]] += n["launches"]
    for i, n in enumerate(nodes):
        up, block, around = i, None, set()
        while up:
            name = nodes[up].get("name") or ""
            if name == "GPT2Block.forward":
                block = f"GPT2Block_{nodes[up].get('number', '?')}"
            around.add(name[:-len(".forward")] if name.endswith(".forward") else None)
            up = nodes[up]["parent"]
        own = n["launches"] - below[i]
        for m in around & set(MODULES) if own else ():
            got[m][block] += own
    print(f"layers: torch {said['torch']}, Python {said['python']}: {nodes[0]['launches']} launches in the region", flush=True)
    for m in MODULES:
        right = sum(min(got[m][k], v) for k, v in want[m].items())
        print(f"  {m}: {right} of {sum(want[m].values())} launches under the right layer; layers {len(want[m])}", "" if got[m] == want[m] else f"NOT OK {got[m]} wanted {want[m]}", flush=True)
    sums(report, cut)


def decode(tracer, out):
    for name, options in (("map_gpt2", ["--python", "--gpu-time"]), ("map_gpt2_launch", ["--python=launch", "--gpu-time"]), ("map_plain", ["--gpu-time"])):
        trace = os.path.join(out, name + ".jsonl")
        traced(tracer, trace, [os.path.join(HERE, "gpt2.py"), "--tokens", "50", "--rounds", "2"], *options)
        report = reports(tracer, trace)
        nodes = report["map"]["nodes"]
        print(f"decode {' '.join(options)}: {len(nodes)} nodes, {os.path.getsize(trace)} bytes of trace, {os.path.getsize(trace[:-6] + '.report.json')} of JSON", flush=True)
        sums(report, trace)
        for n in nodes:
            if n.get("name") == "GPT2Block.forward" and "per_iteration" in n and n["launches"] > 100:
                each = n["per_iteration"]
                print(f"  {n['name']} #{n.get('number')}: {each['launches']:.1f} launches, {each['wall_ns'] / 1e3:.0f} us host, {each['host_ns'] / 1e3:.0f} us in calls, "
                      f"{each.get('gpu_ns', 0) / 1e3:.0f} us GPU, bound by {n.get('bound')} (idle {n.get('gpu_idle_share', 0):.0%}), {n['passes']} passes", flush=True)
        with open(trace[:-6] + ".map.txt", encoding="utf-8") as f:
            print("".join(f.readlines()[:45]), flush=True)


def main():
    tracer, out, *parts = sys.argv[1:]
    os.makedirs(out, exist_ok=True)
    for part in parts or ["layers", "decode"]:
        globals()[part](os.path.abspath(tracer), out)


if __name__ == "__main__":
    main()
