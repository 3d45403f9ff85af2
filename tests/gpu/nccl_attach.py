# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Attaches to two ranks of a running program: the trace must identify each collective and the late rank.

usage: nccl_attach.py CUDATRACE OUT_FOLDER      (two GPUs, or one that both use, as nccl.py describes)

Each rank numbers its collectives, from the communicator's first one on, and records the time of each. Before cudatrace attaches, some are
made in groups, and some while a graph is captured, which NCCL does not count.
"""
import bisect
import json
import os
import subprocess
import sys
import time

WORLD, SECONDS = 2, 8
LATE_RANK, LATE_MS, LATE_EACH = 1, 20, 10


def rank_main(rank, path):
    import torch
    import torch.distributed as dist

    one_gpu = torch.cuda.device_count() < WORLD
    if one_gpu:
        os.environ.update(NCCL_HOSTID=f"rank{rank}", NCCL_SOCKET_IFNAME="lo", NCCL_IB_DISABLE="1")
    device = torch.device("cuda", 0 if one_gpu else rank)
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", init_method="tcp://127.0.0.1:29513", rank=rank, world_size=WORLD, device_id=device)
    x, parts = torch.ones(1 << 16, device="cuda"), torch.empty(WORLD << 16, device="cuda")
    made = []

    def one(op, call, *args):
        made.append([time.clock_gettime_ns(time.CLOCK_MONOTONIC), op])
        call(*args)

    def two():
        with dist._coalescing_manager(device=device):
            one("all_reduce", dist.all_reduce, x)
            one("all_reduce", dist.all_reduce, x)

    one("all_reduce", dist.all_reduce, x)
    for _ in range(3):
        two()
    torch.cuda.synchronize()
    graph = None if one_gpu else torch.cuda.CUDAGraph()
    if graph:
        with torch.cuda.graph(graph):
            dist.all_reduce(x)
        graph.replay()
        torch.cuda.synchronize()
    with open(f"{path}.{rank}.ready", "w", encoding="utf-8"):
        pass
    until = torch.zeros(1, device="cuda")
    begin = time.monotonic()
    while True:
        for i in range(LATE_EACH):
            if i == 5:
                two()
            one("all_gather", dist.all_gather_into_tensor, parts, x)
            torch.cuda.synchronize()
        if rank == LATE_RANK:
            time.sleep(LATE_MS / 1e3)
        until.fill_(time.monotonic() - begin > SECONDS)
        one("all_reduce", dist.all_reduce, until)
        if until.item():
            break
    with open(f"{path}.{rank}", "w", encoding="utf-8") as f:
        json.dump({"pid": os.getpid(), "made": made}, f)
    if graph:
        graph.reset()  # a communicator in a graph does not end
    dist.destroy_process_group()


def check_rank(trace, base, said, rank):
    """Each call must have the program's number: that of the last record before the call began. PyTorch makes the calls of a group after
    both are recorded."""
    times = [t for t, _ in said["made"]]
    right = wrong = partial = 0
    for ev in trace:
        if ev["type"] != "collective" or ev["pid"] != said["pid"] or "seq" not in ev:
            continue
        if ev.get("seq_partial"):
            partial += 1
            continue
        number = bisect.bisect_right(times, base + ev["ts"] * 1e6)
        ok = ev["seq"] in (number, number - ("group" in ev)) and said["made"][number - 1][1] == ev["op"]
        right, wrong = right + ok, wrong + (not ok)
        if not ok and wrong < 4:
            print(f"  rank {rank}: seq {ev['seq']} ({ev['op']}), the program's {number} {said['made'][number - 1][1:]}")
    print(f"attached late, rank {rank}: of {right + wrong + partial} collectives {right} have the program's number, {wrong} another, {partial} none; "
          f"it made {len(times)} in all")


def main():
    tracer, out = sys.argv[1:3]
    path = os.path.join(out, "nccl_attach")
    ranks = [subprocess.Popen([sys.executable, __file__, "--rank", str(r), path]) for r in range(WORLD)]
    while not all(os.path.exists(f"{path}.{r}.ready") for r in range(WORLD)):
        if any(p.poll() for p in ranks):
            sys.exit("a rank ended")
        time.sleep(0.1)
    time.sleep(1)
    pids = [a for p in ranks for a in ("-p", str(p.pid))]
    subprocess.run([tracer, "-q", "--no-summary", "--duration", "3", "--jsonl", path + ".jsonl", *pids], check=True)
    for p in ranks:
        p.wait(60)
    with open(path + ".jsonl", encoding="utf-8") as f:
        trace = [json.loads(line) for line in f]
    for r in range(WORLD):
        with open(f"{path}.{r}", encoding="utf-8") as f:
            check_rank(trace, trace[0]["clock_base_ns"], json.load(f), r)
    ran = subprocess.run([tracer, "report", "-q", "--format=json", path + ".jsonl"], stdout=subprocess.PIPE, check=True)
    for c in json.loads(ran.stdout)["communication"]["communicators"]:
        print(f"  {c['communicator']}: partial {c['partial']}, joined {c['joined']}, late {c['late']}, different {c['different']}, incomplete {c['incomplete']}, "
              f"late by rank {[(k['rank'], k['late']) for k in c['ranks']]}")


if __name__ == "__main__":
    if sys.argv[1] == "--rank":
        rank_main(int(sys.argv[2]), sys.argv[3])
    else:
        main()
