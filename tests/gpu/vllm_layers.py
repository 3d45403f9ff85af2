# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""vLLM on a real GPU: the GPU time of replayed CUDA graphs under the layers that have it in an eager run of the same model, without torch.compile.

usage: vllm_layers.py CUDATRACE OUT_FOLDER [MODE...]    MODE: full (a decoding step is one graph), pieces (attention is outside the graphs); both if none is named
       vllm_layers.py --serve MODE MODEL_FOLDER         the traced program; MODE also: eager, compiled (vLLM's default)

The eager run names the module of each kernel by NVTX ranges in hooks; the other runs have none. A node of a graph is compared with the kernel at its
place in an eager step. Its own label is from the JSONL alone: functions and operators of the captured call, and a count of layers. The
report's label is from its map. A trace that exists is not recorded again. vllm_wheels.py packs vLLM for a machine without a network.
"""
import collections
import difflib
import json
import os
import subprocess
import sys

from vllm_serving import LAYERS, make_model

BATCH = (8, 8, 8, 8, 4, 4, 2, 1)  # sequences still running when each of the prompts ends
SIZES = [1, 2, 4, 8]
GRAPHS = {"full": "FULL_DECODE_ONLY", "pieces": "PIECEWISE"}
OPTIONS = ["--all-layers", "--gpu-time=nodes", "--python"]
TOP, LAYER = "LlamaModel.forward", "LlamaDecoderLayer.forward"
WRAPPERS = {"_call_impl", "_wrapped_call_impl", "inner", "decorate_context", "wrapper", "_fn"}


def name_ranges(model):
    import torch
    for name, module in model.named_modules():
        def push(*_, name=name or "model"):
            torch.cuda.nvtx.range_push(name)

        def pop(*_):
            torch.cuda.nvtx.range_pop()
        module.register_forward_pre_hook(push)
        module.register_forward_hook(pop)


def serve(mode, folder):
    os.environ.update(VLLM_ENABLE_V1_MULTIPROCESSING="0", VLLM_NO_USAGE_STATS="1", DO_NOT_TRACK="1", HF_HUB_OFFLINE="1", VLLM_USE_FLASHINFER_SAMPLER="0",
                      VLLM_USE_BREAKABLE_CUDAGRAPH=str(int(mode == "pieces")), VLLM_CACHE_ROOT=f"{folder}.{mode}.cache")
    from vllm import LLM, SamplingParams
    options = {"enforce_eager": True} if mode == "eager" else {"compilation_config": {"cudagraph_capture_sizes": SIZES}}
    if mode in GRAPHS:
        options["compilation_config"].update(mode=0, cudagraph_mode=GRAPHS[mode])
    llm = LLM(model=folder, load_format="dummy", dtype="bfloat16", max_model_len=2048, gpu_memory_utilization=0.2, kv_cache_memory_bytes=2 << 30, max_num_seqs=8,
              max_num_batched_tokens=512, enable_prefix_caching=False, **options)
    if mode == "eager":
        llm.apply_model(name_ranges)
    prompts = [{"prompt_token_ids": list(range(10 + i, 74 + i))} for i in range(len(BATCH))]
    params = [SamplingParams(temperature=0, max_tokens=16 * (9 - n), ignore_eos=True, detokenize=False) for n in BATCH]
    made = llm.generate(prompts, params, use_tqdm=False)
    print(mode, "tokens:", [len(x.outputs[0].token_ids) for x in made], flush=True)


def lines(path):
    with open(path, encoding="utf-8") as f:
        for line in f:
            yield json.loads(line)


def inside_model(functions):
    """Returns functions inside the model's forward, outermost first, without wrappers; None: outside of it."""
    if TOP not in functions:
        return None
    return tuple(f for f in functions[functions.index(TOP) + 1:] if f.rsplit(".", 1)[-1] not in WRAPPERS)


class Trace:
    """Calls and executions of a trace. A call's label: functions in the model, operators."""

    def __init__(self, path):
        self.functions, self.operators, self.ranges, self.calls, self.runs = {}, {}, {}, {}, []
        for e in lines(path):
            if e["type"] == "stack":
                self.functions[e["id"]] = [f.get("function", "?") for f in reversed(e.get("python", []))]
            elif e["type"] == "operator":
                self.operators[e["id"]] = e
            elif e["type"] == "range":
                self.ranges[e["id"]] = e
            elif e["type"] == "gpu" and "call_id" in e:
                self.runs.append(e)
            elif e["type"] in ("kernel", "transfer", "graph") and "symbol" in e and not e.get("error"):
                self.calls[e["id"]] = e
        self.calls = dict(sorted(self.calls.items(), key=lambda x: x[1]["ts"]))
        self.runs.sort(key=lambda e: e["ts"])

    def functions_of(self, call):
        return self.functions.get(call.get("stack"), [])

    def label(self, call):
        names, at = [], self.operators.get(call.get("operator_id"))
        while at:
            names.append(at["name"])
            at = self.operators.get(at.get("parent"))
        return inside_model(self.functions_of(call)), tuple(reversed(names))

    def module(self, call):
        """Returns the call's module by the ranges without numbers, its layer, and the pass through the model. A module may belong to all layers."""
        names, at, outermost = [], self.ranges.get(call.get("range_id")), None
        while at:
            names.append(at.get("text", "?").split("."))
            at, outermost = self.ranges.get(at.get("parent")), at["id"]
        number = next((int(n[n.index("layers") + 1]) for n in reversed(names) if "layers" in n), None)
        return ".".join(w for w in names[0] if not w.isdigit()) if names else None, number, outermost


def name_of(run):
    return run.get("kernel", run["op"])


def eager_steps(t):
    """Returns the labels of each pass through the model, by the names of its kernels."""
    passes, steps = collections.defaultdict(list), {}
    for run in t.runs:
        call = t.calls.get(run["call_id"])
        if call and "range_id" in call:
            module, number, outermost = t.module(call)
            passes[outermost].append((call["ts"], number, module, call, run))
    for of in passes.values():
        of.sort(key=lambda x: x[0])
        labels = []
        for _, number, module, call, _ in of:
            labels.append((number, *t.label(call), module))
        steps.setdefault(tuple(name_of(run) for *_, run in of), labels)
    return steps


def captures(t):
    """Returns for each executable graph, by the id of a launch, its captured calls."""
    open_, graphs, execs, launches = {}, {}, {}, {}
    for c in t.calls.values():
        args = c["args"]
        if c["op"] == "capture_begin":
            open_[c["tid"]] = []
        elif c.get("capturing") and c["tid"] in open_:
            open_[c["tid"]].append(c)
        elif c["op"] == "capture_end":
            graphs[args["phGraph"]] = open_.pop(c["tid"], [])
        elif c["op"] == "instantiate":
            execs[args["phGraphExec"]] = graphs.get(args["hGraph"], [])
        elif c["type"] == "graph" and c["op"] == "launch":
            launches[c["id"]] = execs.get(args["hGraphExec"], [])
    return launches


def replayed_steps(t):
    """Returns steps of replays: for each execution its name, its time (0 if it is no node) and the captured call."""
    launches, by_launch, steps, open_ = captures(t), collections.defaultdict(list), [], []
    for run in t.runs:
        if "graph_node" in run:
            by_launch[run["call_id"]].append(run)
    captured = {}
    for launch, runs in by_launch.items():
        runs.sort(key=lambda r: r["graph_node"])
        calls = [c for c in launches.get(launch, []) if c["op"] in ("launch", "copy", "memset")]
        same = len(calls) == len(runs) and all(r["op"] != "kernel" or r["kernel"] == c.get("kernel") for r, c in zip(runs, calls))
        captured.update((id(r), c) for r, c in zip(runs, calls if same else [None] * len(runs)))
    for run in t.runs:
        if "graph_node" in run:
            open_.append((name_of(run), round(run["duration_us"] * 1000), captured.get(id(run))))
        elif run["op"] == "kernel":
            # A kernel that is no node and not of attention ends a step.
            if any(f.startswith("unified_") for f in t.functions_of(t.calls.get(run["call_id"], {}))):
                open_.append((name_of(run), 0, None))
            elif open_:
                steps.append(open_)
                open_ = []
    return [s for s in [*steps, open_] if any(ns for _, ns, _ in s)]


def own_labels(t, step):
    """Counts layers: all have the same number of captured calls."""
    labels = [t.label(call) if call else (None, ()) for _, _, call in step]
    total, seen, out = sum(LAYER in (chain or ()) for chain, _ in labels), 0, []
    for chain, operators in labels:
        number = None
        if LAYER in (chain or ()):
            number = seen * LAYERS // total
            seen += 1
        out.append((number, chain, operators))
    return out


def places(names, steps, cache):
    """Returns for each name of a replayed step its label in the eager step that is most like it; None: it has no such kernel. Other kernels at
    a place (attention splits its work in graphs) have the label of the eager ones there, if these are of one layer."""
    if names not in cache:
        best = max(steps, key=lambda s: (s == names, difflib.SequenceMatcher(None, s, names, autojunk=False).ratio()))
        out = [None] * len(names)
        for what, a, a_end, b, b_end in difflib.SequenceMatcher(None, best, names, autojunk=False).get_opcodes():
            there = steps[best][a:a_end]
            if what == "equal":
                out[b:b_end] = there
            elif len({x[:2] for x in there}) == 1:
                out[b:b_end] = there[:1] * (b_end - b)
        cache[names] = out
    return cache[names]


def report_labels(tracer, trace, below):
    """Returns GPU time by label in the report's map, of nodes below a call of this name; any if None."""
    path = trace.replace(".jsonl", ".report.json")
    subprocess.run([tracer, "-q", "report", "--format=json", "-o", path, trace], check=True)
    with open(path, encoding="utf-8") as f:
        report = json.load(f)
    nodes, found = report["map"]["nodes"], collections.Counter()
    own = [n.get("gpu_ns", 0) for n in nodes]
    for n in nodes[1:]:
        own[n["parent"]] -= n.get("gpu_ns", 0)
    for i, ns in enumerate(own):
        up, functions, operators, number, is_below = i, [], [], None, below is None
        while up and ns:
            n = nodes[up]
            if n["kind"] == "python":
                functions.insert(0, n["name"])
                number = n.get("number") if n["name"] == LAYER and number is None else number
            elif n["kind"] == "operator":
                operators.insert(0, n["name"])
            is_below |= n.get("name") == below
            up = n["parent"]
        if ns and is_below:
            found[number, inside_model(functions), tuple(operators)] += ns
    return found, report


def share(truth, found, parts=3):
    """parts: 2: without operators."""
    sides = []
    for side in truth, found:
        sides.append(collections.Counter())
        for k, ns in side.items():
            sides[-1][k and k[:parts]] += ns
    total = sum(truth.values())
    return sum(min(ns, sides[1][k]) for k, ns in sides[0].items() if k) / total if total else 0


def compare(tracer, out, mode, steps):
    trace = f"{out}/layers.{mode}.jsonl"
    t = Trace(trace)
    truth, right, cache, modules = collections.Counter(), collections.Counter(), {}, collections.defaultdict(collections.Counter)
    replayed = replayed_steps(t)
    for step in replayed:
        wanted = places(tuple(name for name, *_ in step), steps, cache)
        for want, own, (name, ns, _) in zip(wanted, own_labels(t, step), step):
            truth[want[:3] if want else None] += ns
            ok = {f"{parts}": ns if want and own[:parts] == want[:parts] else 0 for parts in (2, 3)}
            right.update(ok, all=ns)
            modules[want[3] if want else f"not in an eager step: {name[:60]}"].update(ok, all=ns)
    found, report = report_labels(tracer, trace, "cuGraphLaunch")
    graphs = {k: report["graphs"].get(k, 0) for k in ("captures", "launches", "joined_executions", "refused_executions", "earlier_executions")}
    print(f"{mode}: {len(replayed)} steps, {len(cache)} sequences of kernels, {sum(k in steps for k in cache)} of them as in the eager run; {graphs}")
    print(f"  replayed GPU time: {right['all'] / 1e6:.3f} ms by the JSONL, {sum(found.values()) / 1e6:.3f} ms by the map")
    for parts, what in (2, "layer"), (3, "layer and operators"):
        print(f"  under the eager run's {what}: {right[str(parts)] / right['all']:.2%} by the JSONL, {share(truth, found, parts):.2%} by the map", flush=True)
    for name, c in sorted(modules.items(), key=lambda x: -x[1]["all"]):
        print(f"    {c['all'] / 1e6:9.3f} ms  {share_of(c, '2')}  {share_of(c, '3')}  {name}")
    for k, ns in (truth - found).most_common(6):
        print(f"    not in the map: {ns / 1e6:.3f} ms of {k}")
    for k, ns in (found - truth).most_common(6):
        print(f"    only in the map: {ns / 1e6:.3f} ms of {k}", flush=True)


def share_of(c, key):
    return f"{c[key] / c['all'] if c['all'] else 1:7.2%}"


def record(tracer, out, mode):
    trace = f"{out}/layers.{mode}.jsonl"
    if os.path.exists(trace):
        return
    with open(f"{out}/layers.{mode}.log", "w", encoding="utf-8") as log:
        ran = subprocess.run([tracer, "-q", "--no-summary", *OPTIONS, "--jsonl", trace, "--", sys.executable, os.path.abspath(__file__), "--serve", mode, f"{out}/model"],
                             stdout=log, stderr=log, check=False)
    with open(trace, "rb") as f:
        f.seek(max(0, os.path.getsize(trace) - 20000))
        end = json.loads(f.read().splitlines()[-1])
    print(f"{mode}: status {ran.returncode}, {os.path.getsize(trace)} bytes, dropped {sum(end['drops'].values())}", flush=True)


def eager_map(tracer, out, t):
    """The eager run's map, made from its trace without the ranges, beside these."""
    path, truth = f"{out}/layers.eager-map.jsonl", collections.Counter()
    with open(path, "w", encoding="utf-8") as f:
        for e in lines(f"{out}/layers.eager.jsonl"):
            if e["type"] != "range":
                e.pop("range_id", None)
                e.pop("range", None)
                f.write(json.dumps(e, separators=(",", ":")) + "\n")
    for run in t.runs:
        call = t.calls.get(run["call_id"])
        module, number, _ = t.module(call) if call else (None, None, None)
        if module and t.label(call)[0]:
            truth[(number, *t.label(call))] += round(run["duration_us"] * 1000)
    found, _ = report_labels(tracer, path, None)
    print(f"eager: {share(truth, found, 2):.2%}, with operators {share(truth, found):.2%} of {sum(truth.values()) / 1e6:.3f} ms of GPU time in modules is under the right layer of the map", flush=True)
    for k, ns in (truth - found).most_common(4):
        print(f"    not in the map: {ns / 1e6:.3f} ms of {k}")


def main():
    if sys.argv[1] == "--serve":
        return serve(*sys.argv[2:])
    tracer, out, *modes = sys.argv[1:]
    tracer, out, modes = os.path.abspath(tracer), os.path.abspath(out), modes or list(GRAPHS)
    if not os.path.exists(f"{out}/model"):
        make_model(f"{out}/model")
    for mode in ["eager", *modes]:
        record(tracer, out, mode)
    t = Trace(f"{out}/layers.eager.jsonl")
    steps = eager_steps(t)
    print(f"eager: {len(steps)} different passes through the model, of {sorted(collections.Counter(map(len, steps)).items())} kernels")
    eager_map(tracer, out, t)
    for mode in modes:
        compare(tracer, out, mode, steps)
    return 0


if __name__ == "__main__":
    sys.exit(main())
