# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Two GPUs under torchrun: data-parallel training, whose all-reduces overlap the backward pass; then a tensor-parallel layer, whose
collectives overlap nothing; then a send and a receive.

usage: torchrun --nproc-per-node 2 ddp.py [--steps N] [--width N] [--layers N] [--out FILE]
FILE.RANK then has the number of collectives of the rank and its bytes, by operation.
       ddp.py --overlap TRACE   by the executions of TRACE (--gpu-time): for each process's device the nanoseconds with
                                a kernel of NCCL, with anything else, and with both
       ddp.py --check TRACE FILE   TRACE must have the collectives that the ranks recorded, the same in both. Status 1: it has not
"""
import argparse
import collections
import json
import os
import sys


def train(torch, dist, args, device, rank):
    width = args.width
    layers = [torch.nn.Linear(width, width, bias=False, device=device, dtype=torch.bfloat16) for _ in range(args.layers)]
    # Its hooks wait for the right GPU by themselves; buckets are of some layers each.
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*layers), device_ids=[device.index], bucket_cap_mb=64)
    sgd = torch.optim.SGD(model.parameters(), lr=1e-4)
    batch = torch.randn(width, width, device=device, dtype=torch.bfloat16)
    for _ in range(args.steps):
        sgd.zero_grad()
        model(batch).sum().backward()
        sgd.step()
        torch.cuda.synchronize()


def tensor_parallel(torch, dist, args, device, rank, made):
    """Each rank has half of the columns of one matrix and half of the rows of the next."""
    world, width = dist.get_world_size(), args.width
    first = torch.randn(width, width // world, device=device, dtype=torch.bfloat16)
    second = torch.randn(width // world, width, device=device, dtype=torch.bfloat16)
    x = torch.randn(width // world, width, device=device, dtype=torch.bfloat16)
    gathered = torch.empty(width, width, device=device, dtype=torch.bfloat16)
    for _ in range(args.steps):
        dist.all_gather_into_tensor(gathered, x)
        dist.reduce_scatter_tensor(x, (gathered @ first) @ second)
        x = x / x.norm()
        made["all_gather"] += 1
        made["reduce_scatter"] += 1
    for _ in range(args.steps):
        if rank == 0:
            dist.send(x, 1)
            made["send"] += 1
        else:
            dist.recv(x, 0)
            made["recv"] += 1
    torch.cuda.synchronize()


def run(args):
    import torch
    import torch.distributed as dist

    rank = int(os.environ["RANK"])
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    made = collections.Counter()
    train(torch, dist, args, device, rank)
    tensor_parallel(torch, dist, args, device, rank, made)
    if args.out:
        with open(f"{args.out}.{rank}", "w", encoding="utf-8") as f:
            json.dump({"pid": os.getpid(), "made": made, "steps": args.steps}, f)
    dist.destroy_process_group()


def covered(spans):
    """Returns the nanoseconds of the union."""
    total, end = 0, 0
    for a, b in sorted(spans):
        if b > end:
            total += b - max(a, end)
            end = b
    return total


def overlap(trace):
    """A simple computation that is independent of the report."""
    kernels = collections.defaultdict(lambda: ([], []))
    with open(trace, encoding="utf-8") as f:
        for line in f:
            ev = json.loads(line)
            if ev["type"] == "gpu":
                start = round(ev["ts"] * 1e6)
                span = (start, start + round(ev["duration_us"] * 1e3))
                kernels[ev["pid"], ev.get("device")][not ev.get("kernel", "").startswith("nccl")].append(span)
    for (pid, device), (comm, other) in sorted(kernels.items()):
        both = covered(comm) + covered(other) - covered(comm + other)
        print(json.dumps({"pid": pid, "device": device, "communicating_ns": covered(comm), "else_ns": covered(other), "both_ns": both}))
    return 0


def check(trace, out):
    """Further collectives of DDP are not checked, but must be the same in both ranks."""
    by_rank, numbers, wrong = collections.defaultdict(collections.Counter), collections.defaultdict(list), 0
    ways, end = collections.Counter(), None
    with open(trace, encoding="utf-8") as f:
        for line in f:
            ev = json.loads(line)
            end = ev if ev["type"] == "end" else end
            if ev.get("api") != "nccl":
                continue
            by_rank[ev["pid"]][ev["op"]] += 1
            if "seq" in ev:
                numbers[ev.get("communicator"), ev["seq"]].append((ev["op"], ev.get("bytes")))
                ways[ev.get("algorithm"), ev.get("protocol")] += 1
    for rank in range(2):
        with open(f"{out}.{rank}", encoding="utf-8") as f:
            said = json.load(f)
        has = by_rank[said["pid"]]
        missing = {op: (n, has[op]) for op, n in said["made"].items() if has[op] < n}
        wrong += len(missing) + (has["all_reduce"] < said["steps"])
        print(f"rank {rank}: {dict(has)}; made and not in the trace: {missing}")
    alone = [k for k, v in numbers.items() if len(v) != 2 or len(set(v)) != 1]
    print(f"{len(numbers)} collectives, {len(alone)} not the same in both ranks; {dict(ways)}; drops {({k: v for k, v in end['drops'].items() if v})}")
    return 1 if wrong or alone or not numbers or None in {k[0] for k in numbers} or any(end["drops"].values()) else 0


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=10)
    ap.add_argument("--width", type=int, default=8192)
    ap.add_argument("--layers", type=int, default=8)
    ap.add_argument("--out")
    ap.add_argument("--overlap")
    ap.add_argument("--check", nargs=2)
    args = ap.parse_args()
    if args.overlap:
        return overlap(args.overlap)
    if args.check:
        return check(*args.check)
    return run(args)


if __name__ == "__main__":
    sys.exit(main())
