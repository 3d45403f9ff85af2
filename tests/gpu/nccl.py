# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Collectives of two GPUs through PyTorch and NCCL, one process a GPU, and whether a trace has them.

usage: nccl.py [--rounds N] [--out FILE]    run them; FILE.RANK says what rank RANK did
       nccl.py --check TRACE FILE           compare: exit status 1 where they differ

Prints how long small all-reduces take: microseconds each, the median of batches.
"""
import argparse
import collections
import json
import os
import statistics
import sys
import time

WORLD = 2


def rank_main(rank, rounds, out):
    """What one process does; done: its NCCL calls by name."""
    import torch
    import torch.distributed as dist

    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29511")
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=WORLD, device_id=torch.device("cuda", rank))
    done = collections.Counter()
    small = torch.ones(256, device="cuda")
    large = torch.ones(1 << 20, device="cuda", dtype=torch.bfloat16)
    parts = torch.empty(WORLD << 20, device="cuda", dtype=torch.bfloat16)
    for _ in range(rounds):
        dist.all_reduce(large)
        dist.all_gather_into_tensor(parts, large)
        dist.reduce_scatter_tensor(large, parts)
        dist.broadcast(small, 0)
        done.update(["ncclAllReduce", "ncclAllGather", "ncclReduceScatter", "ncclBroadcast"])
        # one way, in a group of PyTorch's
        if rank == 0:
            dist.send(small, 1)
            done["ncclSend"] += 1
        else:
            dist.recv(small, 0)
            done["ncclRecv"] += 1
    torch.cuda.synchronize()
    batches = []
    for _ in range(30):
        start = time.perf_counter()
        for _ in range(100):
            dist.all_reduce(small)
        torch.cuda.synchronize()
        batches.append((time.perf_counter() - start) * 1e4)
        done["ncclAllReduce"] += 100
    if rank == 0:
        print(f"small all-reduce: {statistics.median(batches):.2f} us", flush=True)
    if out:
        with open(f"{out}.{rank}", "w", encoding="utf-8") as f:
            json.dump({"pid": os.getpid(), "calls": done, "nccl": torch.cuda.nccl.version()}, f)
    dist.destroy_process_group()


def check(trace, out):
    seen = collections.defaultdict(collections.Counter)
    kinds, end = collections.Counter(), None
    with open(trace, encoding="utf-8") as f:
        for line in f:
            ev = json.loads(line)
            if ev["type"] == "end":
                end = ev
            if ev.get("name", "").startswith("nccl"):
                seen[ev["pid"]][ev["name"]] += 1
                kinds[ev["type"]] += 1
    differ = 0
    for rank in range(WORLD):
        with open(f"{out}.{rank}", encoding="utf-8") as f:
            said = json.load(f)
        has = seen[said["pid"]]
        print(f"rank {rank}, NCCL {said['nccl']}: {dict(sorted(has.items()))}")
        for name, cnt in said["calls"].items():
            if has[name] != cnt:
                differ += 1
                print(f"rank {rank}: {name}: {cnt} made, {has[name]} in the trace")
    print("kinds", dict(kinds), "drops", {k: v for k, v in end["drops"].items() if v}, "unfinished", end["unfinished"])
    return 1 if differ or any(end["drops"].values()) else 0


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--rounds", type=int, default=20)
    ap.add_argument("--out")
    ap.add_argument("--check", nargs=2)
    args = ap.parse_args()
    if args.check:
        return check(*args.check)
    import torch.multiprocessing as mp

    mp.spawn(rank_main, args=(args.rounds, args.out), nprocs=WORLD)
    return 0


if __name__ == "__main__":
    sys.exit(main())
