# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Makes collectives of two GPUs through PyTorch and NCCL, one process per GPU, and checks that a trace has them. On a machine with one GPU
both processes use it: each sets another host (NCCL_HOSTID), so that they communicate through a socket. Times are meaningless then,
because the GPU runs one of them at a time.

usage: nccl.py [--rounds N] [--out FILE]    run them; FILE.RANK has the calls of rank RANK, FILE.log.PID the log of NCCL
               [--late RANK:MS] [--times N] before each of N all-reduces that rank sleeps; --rounds 0 omits the others
       nccl.py --small BATCHES --out FILE   small all-reduces alone: FILE.small has a line for each batch: time, microseconds per call
       nccl.py --check TRACE FILE           compare: exit status 1 where they differ
       nccl.py --check-plugin TRACE FILE    compare with the records of NCCL's profiler plugin (nccl_plugin.c), FILE.PID
       nccl.py --check-report REPORT FILE   compare `cudatrace report --format=json`: late ranks, bus bandwidth

Prints the time of small all-reduces: microseconds per call, the median of batches.
"""
import argparse
import collections
import glob
import json
import os
import re
import statistics
import sys
import time

WORLD = 2
# Older versions print numbers.
ALGORITHMS = ["TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT"]
PROTOCOLS = ["LL", "LL128", "SIMPLE"]


def small_ones(torch, dist, rank, batches, path):
    """Runs batches of 100 all-reduces of 1 KiB, each timed by the host's clock until the GPU has completed them."""
    small = torch.ones(256, device="cuda")
    with open(path if rank == 0 else os.devnull, "w", encoding="utf-8", buffering=1) as f:
        for _ in range(batches):
            start = time.perf_counter()
            for _ in range(100):
                dist.all_reduce(small)
            torch.cuda.synchronize()
            f.write(f"{time.time():.3f} {(time.perf_counter() - start) * 1e4:.2f}\n")


def rank_main(rank, rounds, out, late, times, batches):
    """Runs one process. done: its NCCL calls by name; made: its collectives in order."""
    if out and not batches:
        os.environ.update(NCCL_DEBUG="INFO", NCCL_DEBUG_SUBSYS="INIT,COLL,TUNING", NCCL_DEBUG_FILE=out + ".log.%p")
    import torch
    import torch.distributed as dist

    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29511")
    one_gpu = torch.cuda.device_count() < WORLD
    if one_gpu:
        os.environ.update(NCCL_HOSTID=f"rank{rank}", NCCL_SOCKET_IFNAME="lo", NCCL_IB_DISABLE="1")
    device = torch.device("cuda", 0 if one_gpu else rank)
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", rank=rank, world_size=WORLD, device_id=device)
    if batches:
        small_ones(torch, dist, rank, batches, out + ".small")
        return
    done, made, late_rank, late_ms = collections.Counter(), [], *late
    small = torch.ones(256, device="cuda")
    large = torch.ones(1 << 20, device="cuda", dtype=torch.bfloat16)
    parts = torch.empty(WORLD << 20, device="cuda", dtype=torch.bfloat16)
    for _ in range(rounds):
        dist.all_reduce(large)
        dist.all_gather_into_tensor(parts, large)
        dist.reduce_scatter_tensor(large, parts)
        dist.broadcast(small, 0)
        made += [["all_reduce", 1 << 20, "bfloat16", 2 << 20], ["all_gather", 1 << 20, "bfloat16", WORLD << 21],
                 ["reduce_scatter", 1 << 20, "bfloat16", WORLD << 21], ["broadcast", 256, "float32", 1024]]
        done.update(["ncclAllReduce", "ncclAllGather", "ncclReduceScatter", "ncclBroadcast"])
        # in one direction, in a group of PyTorch
        if rank == 0:
            dist.send(small, 1)
            done["ncclSend"] += 1
        else:
            dist.recv(small, 0)
            done["ncclRecv"] += 1
    if rounds:
        made += split(dist, small, done)
        made += train(torch, rank, device, done)
    for _ in range(times):
        torch.cuda.synchronize()
        if rank == late_rank:
            time.sleep(late_ms / 1e3)
        dist.all_reduce(large)
        made.append(["all_reduce", 1 << 20, "bfloat16", 2 << 20])
        done["ncclAllReduce"] += 1
    torch.cuda.synchronize()
    # Like nccl-tests: many of one size, by the GPU's clock.
    big = torch.ones((4 if one_gpu else 64) << 20, device="cuda")
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    dist.all_reduce(big)
    begin.record()
    for _ in range(20):
        dist.all_reduce(big)
    end.record()
    torch.cuda.synchronize()
    bus = 20 * big.nbytes / begin.elapsed_time(end) / 1e6 * 2 * (WORLD - 1) / WORLD
    made += [["all_reduce", big.numel(), "float32", big.nbytes]] * 21
    done["ncclAllReduce"] += 21
    batches = []
    batch = 10 if one_gpu else 100
    for _ in range((5 if one_gpu else 30) if rounds else 0):
        start = time.perf_counter()
        for _ in range(batch):
            dist.all_reduce(small)
        torch.cuda.synchronize()
        batches.append((time.perf_counter() - start) * 1e6 / batch)
        done["ncclAllReduce"] += batch
        made += [["all_reduce", 256, "float32", 1024]] * batch
    if rank == 0 and batches:
        print(f"small all-reduce: {statistics.median(batches):.2f} us", flush=True)
    if out:
        with open(f"{out}.{rank}", "w", encoding="utf-8") as f:
            json.dump({"pid": os.getpid(), "calls": done, "made": made, "nccl": torch.cuda.nccl.version(), "bus": bus, "late": late, "times": times}, f)
    dist.destroy_process_group()


def split(dist, small, done):
    """Splits a communicator."""
    group = dist.new_group([0, 1])
    for _ in range(3):
        dist.all_reduce(small, group=group)
    done["ncclAllReduce"] += 3
    done["ncclCommSplit"] += 1
    return [["all_reduce", 256, "float32", 1024]] * 3


def train(torch, rank, device, done):
    """Data-parallel: the gradients, in two buckets in the first step and in one or two in the others."""
    layers = [torch.nn.Linear(1024, 1024, bias=False, device=device) for _ in range(2)]
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*layers), device_ids=[device.index], bucket_cap_mb=100)
    sgd = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(5):
        sgd.zero_grad()
        model(torch.full((8, 1024), float(rank + step), device=device)).sum().backward()
        sgd.step()
    done["ncclAllReduce"] += 5
    return []


def said_by_nccl(out, pid):
    """Returns (algorithm, protocol) of each collective from NCCL's tuning log, and its communicators' hashes."""
    ways, hashes = [], set()
    for path in glob.glob(f"{out}.log.{pid}*"):
        with open(path, encoding="utf-8", errors="replace") as f:
            for line in f:
                hashes.update(int(h, 16) for h in re.findall(r"commId 0x([0-9a-f]+)", line))
                m = re.search(r"(\w+): \d+ Bytes -> Algo (\w+) proto (\w+)", line)
                if m:
                    algorithm, protocol = m[2], m[3]
                    ways.append((ALGORITHMS[int(algorithm)] if algorithm.isdigit() else algorithm.upper(),
                                 PROTOCOLS[int(protocol)] if protocol.isdigit() else protocol.upper()))
    return ways, hashes


def check_rank(rank, said, calls, out):
    """Prints the differences; returns their number."""
    wrong = []
    made = [[e["op"], e["count"], e["datatype"], e["bytes"]] for e in calls if e.get("seq") and e["nranks"] == WORLD]
    # PyTorch makes further ones (barriers), so only the program's must be there, in its order.
    at = iter(made)
    missing = [m for m in said["made"] if m not in at]
    if missing:
        wrong.append(f"not in the trace, or not in this order: {missing[:3]}")
    if {e["rank"] for e in calls if "rank" in e} != {rank}:
        wrong.append("ranks " + str({e["rank"] for e in calls if "rank" in e}))
    for name, cnt in said["calls"].items():
        has = sum(e["name"] == name for e in calls)
        if has < cnt:
            wrong.append(f"{name}: {cnt} made, {has} in the trace")
    ways, hashes = said_by_nccl(out, said["pid"])
    seen = [(e["algorithm"], e["protocol"]) for e in calls if "algorithm" in e and e.get("seq")]
    print(f"rank {rank}: algorithm and protocol of {len(seen)} collectives; NCCL says {len(ways)}: {collections.Counter(ways).most_common(4)}")
    if ways and collections.Counter(seen) - collections.Counter(ways):
        wrong.append(f"algorithms: {collections.Counter(seen)}, by NCCL {collections.Counter(ways)}")
    # NCCL 2.28 does not log a communicator that was split from another.
    unnamed = {int(e["communicator"], 16) for e in calls if "communicator" in e} - hashes
    if hashes and len(unnamed) > sum(e["name"] == "ncclCommSplit" for e in calls):
        wrong.append("communicators that NCCL does not name")
    for line in wrong:
        print(f"rank {rank}: {line}")
    return len(wrong)


def check(trace, out):
    calls = collections.defaultdict(list)
    numbers = collections.defaultdict(list)
    end, differ = None, 0
    with open(trace, encoding="utf-8") as f:
        for line in f:
            ev = json.loads(line)
            if ev["type"] == "end":
                end = ev
            if ev.get("api") == "nccl":
                calls[ev["pid"]].append(ev)
                if "seq" in ev:
                    numbers[ev.get("communicator"), ev["seq"]].append((ev["op"], ev.get("bytes")))
    for rank in range(WORLD):
        with open(f"{out}.{rank}", encoding="utf-8") as f:
            said = json.load(f)
        print(f"rank {rank}, NCCL {said['nccl']}: {dict(collections.Counter(e['name'] for e in calls[said['pid']]))}")
        differ += check_rank(rank, said, calls[said["pid"]], out)
    alone = [k for k, v in numbers.items() if len(v) != WORLD or len(set(v)) != 1]
    print(f"{len(numbers)} collectives, {len(alone)} not the same in both ranks: {alone[:3]}")
    print("drops", {k: v for k, v in end["drops"].items() if v}, "unfinished", end["unfinished"])
    return 1 if differ or alone or None in {k[0] for k in numbers} or any(end["drops"].values()) else 0


# NCCL gathers and broadcasts bytes for any type.
SIZES = {"int8": 1, "uint8": 1, "int32": 4, "uint32": 4, "int64": 8, "uint64": 8, "float16": 2, "float32": 4, "float64": 8, "bfloat16": 2}


def plugin_reports(path):
    """Returns by (communicator, function) the bytes, algorithm and protocol of each collective that NCCL launched."""
    said = collections.defaultdict(list)
    with open(path, encoding="utf-8") as f:
        for line in f:
            comm, _, _, function, count, datatype, algorithm, protocol = line.split()
            said[int(comm, 16), function.lower()].append((int(count) * SIZES[datatype.removeprefix("nccl").lower()], algorithm, protocol))
    return said


def check_plugin(trace, out):
    """The trace must have each collective that NCCL launched, with its size. Algorithm and protocol must be NCCL's where the trace has them."""
    made, wrong, ways = collections.defaultdict(lambda: collections.defaultdict(list)), 0, collections.Counter()
    with open(trace, encoding="utf-8") as f:
        for line in f:
            ev = json.loads(line)
            if ev.get("seq") and ev["nranks"] > 1:
                made[ev["pid"]][int(ev["communicator"], 16), ev["op"].replace("_", "")].append(
                    (ev["count"] * SIZES[ev["datatype"]], ev.get("algorithm"), ev.get("protocol")))
    for pid, of in made.items():
        said = plugin_reports(f"{out}.{pid}")
        for key in of.keys() | said.keys():
            here, there = of.get(key, []), said.get(key, [])
            known = [c for c in here if c[1]]
            ways["known"] += len(known)
            ways["all"] += len(here)
            if collections.Counter(c[0] for c in here) != collections.Counter(c[0] for c in there) or collections.Counter(known) - collections.Counter(there):
                wrong += 1
                print(f"process {pid}, {key[1]} of {key[0]:#x}: {collections.Counter(here).most_common(4)}, by NCCL {collections.Counter(there).most_common(4)}")
    print(f"plugin: {len(made)} processes, {ways['all']} collectives, algorithm and protocol of {ways['known']}; differ: {wrong}")
    return 1 if wrong or len(made) != WORLD or ways["known"] < 0.9 * ways["all"] else 0


def check_report(report, out):
    """The delayed rank must be late by its delay. The bus bandwidth must be the measured one, within 5 %."""
    with open(report, encoding="utf-8") as f:
        comms = json.load(f)["communication"]["communicators"]
    with open(f"{out}.0", encoding="utf-8") as f:
        said = json.load(f)
    comm = max(comms, key=lambda c: c["joined"])
    rank, ms = said["late"]
    late = {r["rank"]: r for r in comm["ranks"]}
    op = next(o for o in comm["operations"] if o["op"] == "all_reduce")
    print(f"joined {comm['joined']}, late {comm['late']}, different {comm['different']}, incomplete {comm['incomplete']}")
    print("ranks", comm["ranks"])
    print(f"bus bandwidth {op.get('busbw_gbps')} GB/s of all, by the program {said['bus']:.1f} of large ones")
    wrong = comm["different"] or comm["incomplete"]
    if said["times"]:
        wrong |= late[rank]["late"] < said["times"] or late[rank]["late_ns"] < said["times"] * ms * 0.9e6
    elif "busbw_gbps" in op:
        wrong |= abs(op["busbw_gbps"] / said["bus"] - 1) > 0.05
    return 1 if wrong else 0


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--rounds", type=int, default=20)
    ap.add_argument("--out")
    ap.add_argument("--late", type=lambda s: [int(x) for x in s.split(":")], default=[-1, 0])
    ap.add_argument("--times", type=int, default=0)
    ap.add_argument("--small", type=int, default=0)
    ap.add_argument("--check", nargs=2)
    ap.add_argument("--check-plugin", nargs=2)
    ap.add_argument("--check-report", nargs=2)
    args = ap.parse_args()
    if args.check:
        return check(*args.check)
    if args.check_plugin:
        return check_plugin(*args.check_plugin)
    if args.check_report:
        return check_report(*args.check_report)
    import torch.multiprocessing as mp

    mp.spawn(rank_main, args=(args.rounds, args.out, args.late, args.times, args.small), nprocs=WORLD)
    return 0


if __name__ == "__main__":
    sys.exit(main())
