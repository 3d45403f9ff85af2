# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A small network captured once as a CUDA graph and replayed, one synchronisation per step.

usage: graph_replay.py [--steps N] [--layers N]

Prints one JSON object: steps, the kernels of one replay as counted by torch.profiler, and torch's
memory peak.
"""
import argparse
import json

import torch


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=50)
    ap.add_argument("--layers", type=int, default=6)
    args = ap.parse_args()

    torch.manual_seed(0)
    layers = []
    for _ in range(args.layers):
        layers += [torch.nn.Linear(1024, 1024), torch.nn.ReLU()]
    model = torch.nn.Sequential(*layers).cuda().eval()
    static_in = torch.randn(16, 1024, device="cuda")
    side = torch.cuda.Stream()
    with torch.no_grad():
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                model(static_in)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            static_out = model(static_in)
    for _ in range(args.steps):
        static_in.copy_(torch.randn(16, 1024).pin_memory(), non_blocking=True)
        graph.replay()
        static_out.sum().item()
    torch.cuda.synchronize()
    result = {"steps": args.steps, "max_memory_reserved": torch.cuda.max_memory_reserved()}
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as prof:
        graph.replay()
        torch.cuda.synchronize()
    result["kernels_in_graph"] = sum(
        ev.device_type == torch.autograd.DeviceType.CUDA and not ev.name.startswith(("Memcpy", "Memset"))
        for ev in prof.events())
    print(json.dumps(result))


if __name__ == "__main__":
    main()
