# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""GPT-2 (124M, random weights) generating tokens one by one: a transformer's inference loop.

usage: gpt2.py [--tokens N] [--rounds N] [--profile none|cuda|all|stack|ranges] [--wait FILE] [--out FILE] [--serve]

Prints one JSON object: milliseconds per token of each round, the profiled region in CLOCK_MONOTONIC nanoseconds, the counts of
torch.profiler in it, and torch's memory peak.
--wait FILE: after the warm-up, writes FILE and waits until it is gone (to attach in the middle).
--serve: after the warm-up, serves rounds as serve.py describes, and prints their milliseconds per token.
--profile ($GPT2_PROFILE): rounds are under torch.profiler, stack: with_stack and with_modules; ranges: each module is a range of NVTX.
"""
import argparse
import collections
import json
import os
import sys
import time

import torch
from serve import serve
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM


def model_of(name):
    """Random weights: GPT-2, or a model with the structure of Llama and a quarter of the heads for keys and values. Also returns 32 tokens."""
    torch.manual_seed(0)
    if name == "gpt2":
        model = GPT2LMHeadModel(GPT2Config())
    else:
        model = LlamaForCausalLM(LlamaConfig(hidden_size=1024, intermediate_size=2816, num_hidden_layers=8, num_attention_heads=16, num_key_value_heads=4,
                                             vocab_size=32000))
    return model.to("cuda").eval(), torch.randint(0, 32000, (1, 32), device="cuda")


def generate(model, ids, tokens):
    """Greedy decoding with a KV cache; returns seconds."""
    past = None
    step = ids
    start = time.perf_counter()
    with torch.no_grad():
        for _ in range(tokens):
            out = model(step, past_key_values=past, use_cache=True)
            past = out.past_key_values
            step = out.logits[:, -1:].argmax(-1)
            step.item()  # a server looks at each token: this is the synchronisation per token
    return time.perf_counter() - start


def profiler(mode):
    acts = [torch.profiler.ProfilerActivity.CUDA]
    if mode != "cuda":
        acts.append(torch.profiler.ProfilerActivity.CPU)
    return torch.profiler.profile(activities=acts, with_stack=mode == "stack", with_modules=mode == "stack")


def profiled(model, ids, tokens, mode):
    """One round under torch.profiler; returns seconds and its counts by event name."""
    with profiler(mode) as prof:
        seconds = generate(model, ids, tokens)
        torch.cuda.synchronize()
    counts = collections.Counter()
    for ev in prof.events():
        name = ev.name
        if ev.device_type == torch.autograd.DeviceType.CUDA:
            name = "gpu:memop" if name.startswith(("Memcpy", "Memset")) else "gpu:kernel"
        elif not name.startswith("cu"):
            continue
        counts[name] += 1
    return seconds, dict(counts)


def name_ranges(model):
    """A hook must return None, because another value would replace the module's input or output."""
    def pop(*_):
        torch.cuda.nvtx.range_pop()

    for name, module in model.named_modules():
        def push(*_, name=name):
            torch.cuda.nvtx.range_push(name)
        module.register_forward_pre_hook(push)
        module.register_forward_hook(pop)


def a_round(model, ids, args):
    """Returns milliseconds per token of one served round."""
    if args.profile in ("none", "ranges"):
        seconds = generate(model, ids, args.tokens)
    else:
        with profiler(args.profile):
            seconds = generate(model, ids, args.tokens)
    return round(seconds / args.tokens * 1e3, 4)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--tokens", type=int, default=50)
    ap.add_argument("--rounds", type=int, default=3)
    ap.add_argument("--profile", choices=["none", "cuda", "all", "stack", "ranges"], default=os.environ.get("GPT2_PROFILE", "none"))
    ap.add_argument("--wait")
    ap.add_argument("--out")
    ap.add_argument("--serve", action="store_true")
    args = ap.parse_args()

    model, ids = model_of("gpt2")
    if args.profile == "ranges":
        name_ranges(model)
    generate(model, ids, 5)
    if args.wait:
        open(args.wait, "w").close()
        while os.path.exists(args.wait):
            time.sleep(0.05)
    if args.serve:
        serve(lambda: a_round(model, ids, args), args.tokens, times_itself=True)
        return 0
    result = {"ms_per_token": []}
    begin = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    for _ in range(args.rounds):
        if args.profile in ("none", "ranges"):
            seconds = generate(model, ids, args.tokens)
        else:
            seconds, result["profiler"] = profiled(model, ids, args.tokens, args.profile)
        result["ms_per_token"].append(round(seconds / args.tokens * 1e3, 4))
        torch.cuda.synchronize()
        result.setdefault("region_ns", []).append(
            [begin, time.clock_gettime_ns(time.CLOCK_MONOTONIC)])
        begin = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    result["max_memory_reserved"] = torch.cuda.max_memory_reserved()
    text = json.dumps(result)
    if args.out:
        with open(args.out, "w", encoding="utf-8") as f:
            f.write(text + "\n")
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
