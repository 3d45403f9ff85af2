# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Work for a GPU whose times are compared: WHAT is gpt2, graph, compile, overlap or copies.

usage: kernel_times.py WHAT [--profile] [--rounds N] [--serve]

Warms up, then works N rounds. Prints one JSON object: the region in CLOCK_MONOTONIC nanoseconds, milliseconds of each
round, and with --profile the data of torch.profiler: [count, microseconds] of each kernel, copy and memset.
--serve: after the warm-up, serves rounds as serve.py describes.
"""
import argparse
import collections
import json
import time

import torch
from serve import serve


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(GPT2Config()).cuda().eval()
    ids = torch.randint(0, 50257, (1, 32), device="cuda")

    def work():
        past, step = None, ids
        with torch.no_grad():
            for _ in range(20):
                out = model(step, past_key_values=past, use_cache=True)
                past, step = out.past_key_values, out.logits[:, -1:].argmax(-1)
                step.item()

    return work


def mlp():
    torch.manual_seed(1)
    return torch.nn.Sequential(*[m for _ in range(12) for m in (torch.nn.Linear(1024, 1024), torch.nn.GELU())]).cuda().eval()


def graph():
    model, x = mlp(), torch.randn(64, 1024, device="cuda")
    side = torch.cuda.Stream()
    with torch.no_grad(), torch.cuda.stream(side):
        for _ in range(3):
            model(x)
        side.synchronize()
        g = torch.cuda.CUDAGraph()
        with torch.cuda.graph(g, stream=side):
            model(x)

    def work():
        for _ in range(200):
            g.replay()
        torch.cuda.synchronize()

    return work


def compile():
    model, x = torch.compile(mlp(), mode="reduce-overhead"), torch.randn(64, 1024, device="cuda")

    def work():
        with torch.no_grad():
            for _ in range(100):
                model(x)
        torch.cuda.synchronize()

    return work


def overlap():
    """A stream computes while another copies."""
    a, b = (torch.randn(4096, 4096, device="cuda") for _ in range(2))
    host = torch.empty(64 << 20, dtype=torch.uint8, pin_memory=True)
    dev = torch.empty(64 << 20, dtype=torch.uint8, device="cuda")
    one, two = torch.cuda.Stream(), torch.cuda.Stream()

    def work():
        for _ in range(20):
            with torch.cuda.stream(one):
                a @ b
            with torch.cuda.stream(two):
                dev.copy_(host, non_blocking=True)
        torch.cuda.synchronize()

    return work


def copies():
    host = torch.empty(64 << 20, dtype=torch.uint8, pin_memory=True)
    dev = torch.empty(64 << 20, dtype=torch.uint8, device="cuda")

    def work():
        for _ in range(20):
            dev.copy_(host, non_blocking=True)
            dev.add_(1)
            host.copy_(dev, non_blocking=True)
        torch.cuda.synchronize()

    return work


def timed(work, rounds):
    took = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        took.append((time.perf_counter() - start) * 1000)
    return took


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("what", choices=["gpt2", "graph", "compile", "overlap", "copies"])
    ap.add_argument("--rounds", type=int, default=5)
    ap.add_argument("--profile", action="store_true")
    ap.add_argument("--serve", action="store_true")
    args = ap.parse_args()
    work = globals()[args.what]()
    for _ in range(3):
        work()
    torch.cuda.synchronize()
    if args.serve:
        serve(work)
        return
    out = {}
    if args.profile:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as prof:
            out["ms"] = timed(work, args.rounds)
            torch.cuda.synchronize()
        of = collections.defaultdict(lambda: [0, 0.0])
        for ev in prof.events():
            if ev.device_type == torch.autograd.DeviceType.CUDA:
                of[ev.name][0] += 1
                of[ev.name][1] += ev.time_range.elapsed_us()
        out["gpu"] = of
    else:
        out["region_ns"] = [time.clock_gettime_ns(time.CLOCK_MONOTONIC)]
        out["ms"] = timed(work, args.rounds)
        torch.cuda.synchronize()
        out["region_ns"].append(time.clock_gettime_ns(time.CLOCK_MONOTONIC))
    print(json.dumps(out))


if __name__ == "__main__":
    main()
