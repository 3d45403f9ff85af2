# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""--torch with PyTorch on a GPU: operators and backward nodes must be those of torch.profiler for the same program, each launch must be
under the operator of the profiler's correlation, and allocations must be those of torch.cuda.memory_stats().

usage: operators.py CUDATRACE OUT_FOLDER [PROGRAM...]    PROGRAM: decode, train, cost; all if none is named
       operators.py --run PROGRAM FILE                   the traced program; FILE: data of PyTorch itself; none: only times
"""
import collections
import json
import os
import subprocess
import sys
import time

NODE = "autograd::engine::evaluate_function: "
# No profiler shows these; the last is cudatrace's name for operators without a name in libtorch_cpu.
UNSEEN = {"aten::size", "aten::is_leaf", "aten::output_nr", "aten::_version", "aten::is_complex", "custom operator"}
MARK = "aten::special_erfcx"
STEPS = {"decode": 20, "train": 5}


def programs():
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel
    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config()).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    state = {}

    def decode():
        with torch.no_grad():
            ids = state.get("ids", torch.randint(0, 50257, (1, 8), device="cuda"))
            out = model(ids, past_key_values=state.get("past"), use_cache=True)
            state.update(past=out.past_key_values, ids=out.logits[:, -1:].argmax(-1))
            state["ids"].item()

    def train():
        ids = torch.randint(0, 50257, (4, 128), device="cuda")
        optimizer.zero_grad()
        model(ids, labels=ids).loss.backward()
        optimizer.step()
    return torch, {"decode": decode, "train": train}


def run(program, path):
    torch, known = programs()
    step = known[program]
    for _ in range(3):
        step()
    torch.cuda.synchronize()
    if not path:
        times = []
        for _ in range(STEPS[program] * 2):
            begin = time.perf_counter()
            step()
            torch.cuda.synchronize()
            times.append(time.perf_counter() - begin)
        print(json.dumps({"step_ms": round(sorted(times)[len(times) // 2] * 1e3, 3)}), flush=True)
        return
    activity = torch.profiler.ProfilerActivity
    with torch.profiler.profile(activities=[activity.CPU, activity.CUDA]) as p:
        torch.special.erfcx(torch.zeros(1))
        before = torch.cuda.memory_stats()
        torch.cuda.reset_peak_memory_stats()
        for _ in range(STEPS[program]):
            step()
        torch.cuda.synchronize()
        after = torch.cuda.memory_stats()
        torch.special.erfcx(torch.zeros(1))
    said = {name: after[name] - before[name] for name in ("allocation.all.allocated", "allocation.all.freed")}
    said["peak"] = after["allocated_bytes.all.peak"]
    events = [e for e in p.profiler.kineto_results.events() if e.device_type() == torch.autograd.DeviceType.CPU]
    marks = sorted(e.start_ns() for e in events if e.name() == MARK)
    events = [e for e in events if marks[0] <= e.start_ns() <= marks[-1]]
    said["operators"] = collections.Counter(e.name().removeprefix(NODE) for e in events if e.name().startswith(("aten::", NODE)))
    by_id = {e.correlation_id(): e.name() for e in events if e.name().startswith(("aten::", NODE))}
    launches = [e for e in events if "LaunchKernel" in e.name()]
    said["launches"] = collections.Counter(by_id.get(e.linked_correlation_id(), "none").removeprefix(NODE) for e in launches)
    with open(path, "w", encoding="utf-8") as f:
        json.dump(said, f)


def check(what, ok, *detail):
    print(("ok   " if ok else "FAIL ") + what, *detail, flush=True)
    return ok


def differences(a, b):
    return dict((collections.Counter(a) - collections.Counter(b)).most_common(8))


def compare(tracer, out, program):
    trace, theirs = (os.path.join(out, f"operators-{program}.{end}") for end in ("jsonl", "json"))
    argv = [tracer, "-q", "--torch", "--jsonl", trace, "--", sys.executable, os.path.abspath(__file__), "--run", program, theirs]
    if not check(f"{program}: runs", not subprocess.run(argv, check=False).returncode, argv):
        return False
    with open(theirs, encoding="utf-8") as f:
        theirs = json.load(f)
    with open(trace, encoding="utf-8") as f:
        lines = [json.loads(line) for line in f]
    end = lines[-1]
    ops = [e for e in lines if e["type"] == "operator"]
    marks = sorted(e["ts"] for e in ops if e["name"] == MARK)
    inside = [e for e in lines[1:-1] if marks[0] <= e["ts"] <= marks[-1]]
    ours = [e for e in inside if e["type"] == "operator" and e["name"] not in UNSEEN]
    ok = check(f"{program}: nothing is lost", not any(end["drops"].values()), end["drops"])
    # While a guard disables observers, PyTorch calls aten::empty, which the profiler does not show.
    names = collections.Counter(e["name"] for e in ours)
    guarded = collections.Counter(e["name"] for e in ours if "parent" not in e and e["name"].startswith("aten::empty"))
    more = names - collections.Counter(theirs["operators"])
    ok &= check(f"{program}: operators and nodes by name are the profiler's", not more - guarded and not collections.Counter(theirs["operators"]) - names,
                f"{names.total()} here, {sum(theirs['operators'].values())} there; more here {differences(names, theirs['operators'])}, "
                f"more there {differences(theirs['operators'], names)}")
    launches = collections.Counter(e.get("operator", "none") for e in inside
                                   if e["type"] == "kernel" and e["op"] == "launch" and "api" not in e and not e.get("api_depth", e.get("depth", 0)))
    common = (launches & collections.Counter(theirs["launches"])).total()
    total = sum(theirs["launches"].values())
    ok &= check(f"{program}: launches under the operator that the profiler says", common >= 0.99 * total and abs(launches.total() - total) <= 0.01 * total,
                f"{launches.total()} here, {total} there, {common} under the same; more here {differences(launches, theirs['launches'])}, "
                f"more there {differences(theirs['launches'], launches)}")
    memory = [e for e in inside if e["type"] == "allocator" and e["device"].startswith("cuda")]
    cnt = collections.Counter(e["op"] for e in memory)
    ok &= check(f"{program}: allocations are those of memory_stats()", cnt["alloc"] == theirs["allocation.all.allocated"] and cnt["free"] == theirs["allocation.all.freed"],
                dict(cnt), {k: v for k, v in theirs.items() if k.startswith("allocation")})
    peak = max((e["allocated"] for e in memory), default=0)
    ok &= check(f"{program}: most that was allocated is PyTorch's peak", peak == theirs["peak"], peak, theirs["peak"])
    if program == "train":
        made = {e["seq"]: e["name"] for e in ops if e["op"] == "forward" and "seq" in e}
        nodes = [e for e in ours if e["op"] == "backward" and "seq" in e]
        joined = sum(e["seq"] in made for e in nodes)
        ok &= check("train: nodes have the number of a forward operator", joined >= 0.99 * len(nodes), f"{joined} of {len(nodes)}")
        pairs = {(e["name"], made.get(e["seq"])) for e in nodes if e["name"] in ("AddmmBackward0", "GeluBackward0", "TanhBackward0", "NativeLayerNormBackward0")}
        known = {"AddmmBackward0": "aten::addmm", "GeluBackward0": "aten::gelu", "TanhBackward0": "aten::tanh", "NativeLayerNormBackward0": "aten::native_layer_norm"}
        ok &= check("train: that operator is the node's", all(known[name] == made_by for name, made_by in pairs), pairs)
    return ok


def cost(tracer, out):
    for program in STEPS:
        for name, before in (("untraced", []), ("cudatrace", [tracer, "-q", "--jsonl", out + "/cost.jsonl", "--"]),
                             ("--torch", [tracer, "-q", "--torch", "--jsonl", out + "/cost.jsonl", "--"])):
            ran = subprocess.run([*before, sys.executable, os.path.abspath(__file__), "--run", program], stdout=subprocess.PIPE, text=True, check=False)
            print(f"{program}, {name}:", ran.stdout.strip().splitlines()[-1:] or "FAIL", flush=True)
    return True


def main():
    if sys.argv[1] == "--run":
        run(sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else None)
        return 0
    tracer, out = sys.argv[1:3]
    ok = True
    for program in sys.argv[3:] or ["decode", "train", "cost"]:
        ok &= cost(tracer, out) if program == "cost" else compare(tracer, out, program)
    return 0 if ok else 1


sys.exit(main())
