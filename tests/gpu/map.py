# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The report's map on a real GPU. Each launch of GPT-2, and of a model with the structure of Llama, must be under the same layer as in
torch.profiler. Launches of a backward pass must be under their forward operators, the operations of each layer must be those of its
matrices, and the map's sums must equal those of the trace.

usage: map.py CUDATRACE OUT_FOLDER [PART...]    PART: gpt2, llama, train, flops, cudnn, decode; all if none is named. Keeps traces and reports there
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
# The block comes first.
MODULES = {"gpt2": ("GPT2Block", "GPT2Attention", "GPT2MLP", "LayerNorm", "Conv1D"),
           "llama": ("LlamaDecoderLayer", "LlamaAttention", "LlamaMLP", "LlamaRMSNorm", "Linear")}
ENOUGH = 0.95


def lines(path):
    with open(path, encoding="utf-8") as f:
        for line in f:
            yield json.loads(line)


def traced(tracer, path, program, *options):
    ran = subprocess.run([tracer, "-q", *options, "-e", WHAT, "--jsonl", path, "--", sys.executable, *program], stdout=subprocess.PIPE, text=True, check=True)
    return ran.stdout


def reports(tracer, trace):
    """Writes the map beside the trace as text, JSON, HTML and folded stacks. Returns the JSON."""
    base = trace[:-len(".jsonl")]
    for form, end, more in (("ascii", ".map.txt", ["--map", "--top", "16"]), ("json", ".report.json", []), ("html", ".html", []), ("flamegraph", ".folded", ["--map=gpu"])):
        subprocess.run([tracer, "-q", "report", f"--format={form}", *more, "-o", base + end, trace], check=True)
    with open(base + ".report.json", encoding="utf-8") as f:
        return json.load(f)


def verdict(what, ok, said):
    print(f"  {'ok' if ok else 'NOT OK'} {what}: {said}", flush=True)


def same(what, got, want):
    print(f"  {'ok' if got == want else 'NOT OK'} {what}: {got if got == want else f'{got}, wanted {want}'}", flush=True)


def sums(report, trace):
    """The counts of the map must be those of the trace."""
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
    print("  not told:", {k: report["map"][k] for k in ("cut_frames", "unnamed_frames", "early", "unknown_executions", "rejected")})


def in_region(trace, region, tid, path):
    """Returns the lines of one thread in this time, as a trace."""
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


def layers(tracer, out, model):
    kinds = MODULES[model]
    trace, chrome, cut = (os.path.join(out, f"map_{model}" + s) for s in (".jsonl", ".torch.json", "_region.jsonl"))
    said = json.loads(traced(tracer, trace, [os.path.join(HERE, "python.py"), "--program", chrome, model], "--python").splitlines()[-1])
    in_region(trace, said["region_ns"], said["tid"], cut)
    report = reports(tracer, cut)
    want = {m: collections.Counter() for m in kinds}
    for names in Frames(chrome).enclosing():
        modules = [n[len("nn.Module: "):] for n in names if n.startswith("nn.Module: ")]
        block = next((m for m in modules if m.startswith(kinds[0] + "_")), None)
        for m in kinds:
            if any(re.sub(r"_\d+$", "", x) == m for x in modules):
                want[m][block] += 1
    got = {m: collections.Counter() for m in kinds}
    nodes = report["map"]["nodes"]
    below = collections.Counter()
    for n in nodes[1:]:
        below[n["parent"]] += n["launches"]
    for i, n in enumerate(nodes):
        up, block, around = i, None, set()
        while up:
            name = nodes[up].get("name") or ""
            if name == kinds[0] + ".forward":
                block = f"{kinds[0]}_{nodes[up].get('number', '?')}"
            around.add(name[:-len(".forward")] if name.endswith(".forward") else None)
            up = nodes[up]["parent"]
        own = n["launches"] - below[i]
        for m in around & set(kinds) if own else ():
            got[m][block] += own
    print(f"{model}: torch {said['torch']}, Python {said['python']}: {nodes[0]['launches']} launches in the region", flush=True)
    for m in kinds:
        right, all_of = sum(min(got[m][k], v) for k, v in want[m].items()), sum(want[m].values())
        verdict(m, all_of and right >= ENOUGH * all_of, f"{right} of {all_of} launches under the right layer; layers {len(want[m])}"
                + ("" if got[m] == want[m] else f"; {got[m]} wanted {want[m]}"))
    sums(report, cut)


def gpt2(tracer, out):
    layers(tracer, out, "gpt2")


def llama(tracer, out):
    layers(tracer, out, "llama")


def train(tracer, out):
    """Returns launches of backward nodes, by the node and its forward operator in the lines."""
    trace = os.path.join(out, "map_train.jsonl")
    subprocess.run([tracer, "-q", "--torch", "--python=launch,sync", "--gpu-time", "-e", WHAT, "--jsonl", trace, "--",
                    sys.executable, os.path.join(HERE, "operators.py"), "--run", "train"], check=True)
    ops, launches, has_calls = {}, [], set()
    for e in lines(trace):
        if e["type"] == "operator":
            ops[e["id"]] = e
        elif "symbol" in e and "operator_id" in e:
            has_calls.add(e["operator_id"])
            if e["type"] == "kernel" and e["op"] == "launch" and not e.get("error"):
                launches.append(e["operator_id"])
    for at in list(has_calls):
        while at in ops and (at := ops[at].get("parent")):
            has_calls.add(at)
    made = {e["seq"]: e for e in ops.values() if e["op"] == "forward" and "seq" in e}
    # The map has no operators without calls (view, split).
    want, plain = collections.Counter(), collections.Counter()
    for at in launches:
        node = None
        while at in ops:
            node = ops[at] if ops[at]["op"] == "backward" else node
            at = ops[at].get("parent")
        of = made.get(node.get("seq")) if node else None
        if of and of["id"] in has_calls:
            want[of["name"], node["name"]] += 1
        elif node:
            plain[node["name"]] += 1
    nodes = reports(tracer, trace)["map"]["nodes"]
    got = collections.Counter()
    for n in nodes:
        if n["kind"] == "backward" and nodes[n["parent"]]["kind"] == "operator":
            got[nodes[n["parent"]]["name"], n["name"]] += n["launches"]
    right = (got & want).total()
    print(f"train: {len(launches)} launches in operators, {want.total() + plain.total()} of them in backward nodes", flush=True)
    verdict("launches of backward nodes below their forward operators", want and right >= ENOUGH * want.total(),
            f"{right} of {want.total()}, elsewhere {dict((want - got).most_common(6))}; {plain.total()} of nodes whose operator made no call: {dict(plain.most_common(4))}")
    below = collections.Counter(n["name"] for n in nodes if n["kind"] == "python" and n["launches"])
    print("  functions that launch:", {k: sum(n["launches"] for n in nodes if n["name"] == k) for k in ("GPT2Block.forward", "Conv1D.forward", "GPT2Attention.forward") if below[k]})


CONVOLUTIONS = """
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
net = torch.nn.Conv2d(64, 128, 3, stride=2, padding=1, groups=2, bias=False).cuda().half()
x = torch.randn(8, 64, 56, 56, device="cuda", dtype=torch.half, requires_grad=True)
for _ in range(5):
    net(x).sum().backward()
torch.cuda.synchronize()
q, k, v = (torch.randn(2, 12, s, 64, device="cuda", dtype=torch.half) for s in (128, 256, 256))
with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
    for _ in range(5):
        torch.nn.functional.scaled_dot_product_attention(q, k, v)
torch.cuda.synchronize()
"""


def cudnn(tracer, out):
    """Work of cuDNN for PyTorch: a convolution, forward and backward, and attention."""
    trace = os.path.join(out, "map_cudnn.jsonl")
    subprocess.run([tracer, "-q", "--gpu-time", "-e", "launch,sync,cublas,cudnn", "--jsonl", trace, "--", sys.executable, "-c", CONVOLUTIONS], check=True)
    report = reports(tracer, trace)
    done = {}
    for x in report.get("gemms", {}).get("list", []):
        print("   ", {k: x.get(k) for k in ("name", "op", "m", "n", "k", "batch", "a_type", "compute_type", "count", "gpu_executions", "tflops", "peak_share")})
        at = done.setdefault(x["op"], [0, 0])
        at[0] += x["count"]
        at[1] += x["flops"]
    print(f"cudnn: executions that are not known: {report.get('gemms', {}).get('unknown_plans', 0)}; trace's calls of cuDNN:",
          dict(collections.Counter(e["name"] for e in lines(trace) if e.get("api") == "cudnn").most_common(6)))
    one = 2 * 8 * 28 * 28 * 128 * 32 * 9
    for op, flops in (("convolution_forward", one), ("convolution_backward_data", one), ("convolution_backward_filter", one),
                      ("attention_forward", 2 * 2 * 2 * 12 * 128 * 256 * 64)):
        got = done.get(op, [0, 0])
        verdict(op, got[0] == 5 and abs(got[1] - 5 * flops) <= 1e-4 * 5 * flops, f"{got}, wanted {[5, 5 * flops]}")


def flops(tracer, out):
    """Checks the operations of GPT-2's matrices, in total and of each layer: two for each weight and token."""
    trace = os.path.join(out, "map_flops.jsonl")
    said = json.loads(subprocess.run([tracer, "-q", "--python=launch,sync", "--gpu-time", "-e", "launch,sync,cublas,cudnn", "--jsonl", trace, "--", sys.executable,
                                      os.path.join(HERE, "gpt2.py"), "--tokens", "20", "--rounds", "1"], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()[-1])
    width, rows = 768, (32 + 4) + (32 + 19)
    block, head = 2 * rows * width * width * (3 + 1 + 4 + 4), 2 * rows * width * 50257
    report = reports(tracer, trace)
    nodes = report["map"]["nodes"]
    by_layer = collections.Counter()
    for n in nodes:
        if n.get("name") == "GPT2Block.forward":
            by_layer[n.get("number")] += n.get("flops", 0)
    print(f"flops: {said['ms_per_token']} ms a token, {rows} tokens through the model")
    got, want = nodes[0].get("flops", 0), 12 * block + head
    verdict("operations in all", abs(got - want) <= 0.01 * want, f"{got} by calls of cuBLAS, {want} by the weights: {got / want:.4f}")
    verdict("of each layer", len(by_layer) == 12 and all(abs(v - block) <= 0.01 * block for v in by_layer.values()), f"{len(by_layer)} layers, {min(by_layer.values(), default=0)} to {max(by_layer.values(), default=0)}, by the weights {block}")
    for x in report["gemms"]["list"][:8]:
        print("   ", {k: x.get(k) for k in ("name", "op", "m", "n", "k", "batch", "count", "gpu_executions", "tflops", "peak_share")})
    none = collections.Counter(e["name"] for e in lines(trace) if e.get("api") in ("cublas", "cudnn") and not e.get("api_depth", e.get("depth")) and "flops" not in e)
    print("  calls without operations:", dict(none.most_common(6)))


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
    for part in parts or ["gpt2", "llama", "train", "flops", "cudnn", "decode"]:
        try:
            globals()[part](os.path.abspath(tracer), out)
        except Exception as e:
            print(f"  NOT OK {part}: {type(e).__name__}: {e}", flush=True)


if __name__ == "__main__":
    main()
