#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Pairs of programs, before and after a real change, for the predictions of `report --what-if`.

    pairs.py CUDATRACE OUT [NAME...]     all pairs (late and bucket need two GPUs): OUT/pairs.json and a table on stdout
    pairs.py run NAME before|after       one program; prints the median of its steps in us

Each program is run untraced RUNS (3) times before and RUNS times after the change, in turns. The program before the change is traced once, and the
step after the change, without a tracer, is predicted from that trace alone."""
import json
import os
import statistics
import subprocess
import sys
import time

STEPS, WARMUP = 40, 8
RUNS = int(os.environ.get("RUNS", "3"))


def steps(work, sync=True):
    """Times work(i); the median in us. Without sync only the end of all steps waits: their mean."""
    import torch
    times = []
    for i in range(WARMUP):
        work(i)
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for i in range(STEPS):
        start = time.perf_counter()
        work(i)
        if sync:
            torch.cuda.synchronize()
            times.append(time.perf_counter() - start)
    torch.cuda.synchronize()
    return 1e6 * (statistics.median(times) if sync else (time.perf_counter() - begin) / STEPS)


def gpt2():
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel
    torch.manual_seed(0)
    return GPT2LMHeadModel(GPT2Config()).to("cuda", torch.float16).eval()


def mlp(width, depth):
    import torch
    torch.manual_seed(0)
    return torch.nn.Sequential(*[m for _ in range(depth) for m in (torch.nn.Linear(width, width), torch.nn.ReLU())]).to("cuda")


def graph(after):
    """GPT-2 over a static input: eager, then as a CUDA graph."""
    import torch
    model, ids = gpt2(), torch.randint(0, 50000, (1, 32), device="cuda")
    with torch.no_grad():
        if not after:
            return steps(lambda i: model(ids, use_cache=False).logits)
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            for _ in range(3):
                model(ids, use_cache=False)
        side.synchronize()
        captured = torch.cuda.CUDAGraph()
        with torch.cuda.graph(captured):
            model(ids, use_cache=False)
        return steps(lambda i: captured.replay())


def attention(after):
    """Decoding with a growing cache: attention of cuDNN, then of another backend."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    model, state = gpt2(), {"step": torch.randint(0, 50000, (1, 32), device="cuda"), "past": None}

    def token(_):
        out = model(state["step"], past_key_values=state["past"], use_cache=True)
        state["past"], state["step"] = out.past_key_values, out.logits[:, -1:].argmax(-1)
    with torch.no_grad(), sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION if after else SDPBackend.CUDNN_ATTENTION):
        return steps(token)


def item(after):
    """An MLP with .item() after each of ten small parts of a step, then without."""
    import torch
    model, x = mlp(2048, 4), torch.randn(256, 2048, device="cuda")

    def step(_):
        for _ in range(10):
            y = model(x).sum()
            if not after:
                y.item()
    with torch.no_grad():
        return steps(step)


def pinned(after):
    """A batch of 64 MiB copied from pageable, then from pinned memory."""
    import torch
    model, data = mlp(4096, 4), torch.randn(4096, 4096)
    data = data.pin_memory() if after else data
    with torch.no_grad():
        return steps(lambda i: model(data.to("cuda", non_blocking=True)))


def overlap(after):
    """A batch of pinned memory copied before the computation, then beside that of the step before."""
    import torch
    model, data = mlp(4096, 6), torch.randn(8192, 4096).pin_memory()
    side, held = torch.cuda.Stream(), {}

    def plain(_):
        model(data.to("cuda", non_blocking=True))

    def fetch():
        with torch.cuda.stream(side):
            held["next"] = data.to("cuda", non_blocking=True)

    def beside(_):
        torch.cuda.current_stream().wait_stream(side)
        batch = held["next"]
        fetch()
        model(batch)
    with torch.no_grad():
        fetch()
        return steps(beside if after else plain)


def batched(after):
    """A hundred copies of 4 KiB, then one of 400 KiB."""
    import torch
    model, small = mlp(1024, 2), [torch.randn(1024).pin_memory() for _ in range(100)]
    whole, to = torch.randn(100, 1024).pin_memory(), torch.empty(100, 1024, device="cuda")

    def step(_):
        if after:
            to.copy_(whole, non_blocking=True)
        else:
            for i, x in enumerate(small):
                to[i].copy_(x, non_blocking=True)
        model(to)
    with torch.no_grad():
        return steps(step)


def pool(after):
    """Memory of the driver allocated and freed in each step, then kept by PyTorch's cache."""
    import torch
    model, x = mlp(2048, 4), torch.randn(1024, 2048, device="cuda")

    def step(_):
        model(x)
        if not after:
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
    with torch.no_grad():
        return steps(step)


def loader(after):
    """Batches made in the main thread, then by four workers."""
    import torch

    class Data(torch.utils.data.Dataset):
        def __len__(self):
            return (STEPS + WARMUP) * 32

        def __getitem__(self, i):
            x = torch.full((512,), float(i))
            for _ in range(30):
                x = torch.sin(x)
            return x
    model = mlp(512, 4)
    batches = iter(torch.utils.data.DataLoader(Data(), batch_size=32, num_workers=4 if after else 0, prefetch_factor=8 if after else None))
    if after:
        time.sleep(2)
    with torch.no_grad():
        return steps(lambda i: model(next(batches).to("cuda")))


def elementwise(x):
    for _ in range(12):
        x = x * 1.01 + 0.5
    return x


def fused(after):
    """24 operations on single elements between two matrix products: a kernel each, then one kernel of torch.compile()."""
    import torch
    model, x = mlp(2048, 2), torch.randn(2048, 2048, device="cuda")
    part = torch.compile(elementwise) if after else elementwise
    with torch.no_grad():
        return steps(lambda i: model(part(model(x))))


def block(after):
    """The blocks of an MLP, each in an NVTX range: eager, then as CUDA graphs. The first and last layers stay eager."""
    import torch
    first, middle, last, x = mlp(512, 4), mlp(512, 12), mlp(512, 4), torch.randn(64, 512, device="cuda")
    with torch.no_grad():
        if after:
            held = first(x).clone()
            side = torch.cuda.Stream()
            with torch.cuda.stream(side):
                middle(held)
            side.synchronize()
            captured = torch.cuda.CUDAGraph()
            with torch.cuda.graph(captured):
                out = middle(held)

        def step(_):
            y = first(x)
            if after:
                held.copy_(y)
                captured.replay()
                y = out
            else:
                torch.cuda.nvtx.range_push("block")
                y = middle(y)
                torch.cuda.nvtx.range_pop()
            last(y)
        return steps(step)


def ranks(step):
    """Steps of two ranks, each on a GPU, started by torchrun."""
    import torch
    import torch.distributed as dist
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl", device_id=torch.device("cuda", int(os.environ["LOCAL_RANK"])))
    with torch.no_grad():
        us = steps(step)
    if dist.get_rank():
        time.sleep(0.5)
        us = None
    dist.destroy_process_group()
    return us


def late(after):
    """Two ranks with an all-reduce in each step; the second works 2 ms longer on the host, then not."""
    import torch
    import torch.distributed as dist
    made = []

    def step(_):
        if not made:
            made.extend((mlp(2048, 4), torch.randn(1024, 2048, device="cuda")))
        if not after and dist.get_rank():
            time.sleep(0.002)
        dist.all_reduce(made[0](made[1]))
    return ranks(step)


def bucket(after):
    """Two ranks with 48 all-reduces of 16 KiB in each step, then one of 768 KiB."""
    import torch
    import torch.distributed as dist
    made = []

    def step(_):
        if not made:
            made.extend((mlp(2048, 4), torch.randn(1024, 2048, device="cuda"), torch.randn(48, 4096, device="cuda")))
        made[0](made[1])
        for part in [made[2]] if after else made[2]:
            dist.all_reduce(part)
        made[0](made[1])
    return ranks(step)


LIGHT = ["--probe=inject", "--gpu-time"]
PLANS = ["--gpu-time", "-e", "transfer,memory,module,launch,graph,stream,event,sync,cudnn"]
# name: (program, change, options of the trace)
PAIRS = {
    "graph": (graph, "graph", LIGHT),
    "attention": (attention, "plans", PLANS),
    "item": (item, "no-wait:cuStreamSynchronize", LIGHT),
    "pinned": (pinned, "pinned", LIGHT),
    "overlap": (overlap, "overlap-copies", LIGHT),
    "batched": (batched, "batch:cuMemcpyHtoDAsync", LIGHT),
    "pool": (pool, "drop:cuMemAlloc,drop:cuMemFree", LIGHT),
    "fused": (fused, "fuse:elementwise", LIGHT),
    "block": (block, "graph:block", [*LIGHT, "--nvtx"]),
    "late": (late, "on-time:1", LIGHT),
    "bucket": (bucket, "fuse:nccl", LIGHT),
    "loader": (loader, "before:cuMemcpyHtoDAsync=0", LIGHT),
}


def command(name, which):
    start = ["-m", "torch.distributed.run", "--nproc-per-node", "2"] if name in ("late", "bucket") else []
    return [sys.executable, *start, __file__, "run", name, which]


def untraced(name, which):
    ran = subprocess.run(command(name, which), capture_output=True, text=True, check=True)
    return float(ran.stdout.split()[-1])


def measure(cudatrace, out, name):
    _, change, options = PAIRS[name]
    before, after = [], []
    for _ in range(RUNS):
        before.append(untraced(name, "before"))
        after.append(untraced(name, "after"))
    trace = os.path.join(out, name + ".jsonl")
    subprocess.run([cudatrace, "-q", *options, "--jsonl", trace, "--", *command(name, "before")],
                   check=True, stdout=subprocess.DEVNULL)
    report = json.loads(subprocess.run([cudatrace, "report", "--format=json", "--what-if", "untraced," + change, trace], capture_output=True, check=True).stdout)
    step = report["step"]
    asked = [w for w in step["what_if"] if w["requested"]][-1]
    row = {"name": name, "change": change, "before_us": statistics.median(before), "after_us": statistics.median(after),
           "before_all": before, "after_all": after, "steps": step["steps"]}
    if step["steps"]:
        # An iteration that was found may be a part of the program's step.
        parts = max(1, round(row["before_us"] * 1e3 / step["list"][0]["wall_ns"]))
        row.update(traced_us=parts * step["list"][0]["wall_ns"] / 1e3, replay_us=parts * step["replay"]["step_ns"] / 1e3,
                   predicted_us=parts * asked["step_ns"] / 1e3, iterations_per_step=parts, parts=step["list"][0]["parts"], what_if=step["what_if"])
    return row


def main():
    if sys.argv[1] == "run":
        us = PAIRS[sys.argv[2]][0](sys.argv[3] == "after")
        if us is not None:
            print(f"{us:.1f}")
        return
    cudatrace, out = sys.argv[1:3]
    rows = []
    print(f"{'pair':10} {'before':>9} {'traced':>9} {'replay':>9} {'predicted':>9} {'after':>9} {'error':>7}  change")
    for name in sys.argv[3:] or PAIRS:
        try:
            row = measure(cudatrace, out, name)
        except (subprocess.CalledProcessError, ValueError, KeyError, IndexError) as e:
            print(f"{name:10} failed: {e} {getattr(e, 'stderr', '')}", flush=True)
            continue
        rows.append(row)
        if "predicted_us" not in row:
            print(f"{name:10} no steps were found", flush=True)
            continue
        error = row["predicted_us"] / row["after_us"] - 1
        print(f"{name:10} {row['before_us']:9.0f} {row['traced_us']:9.0f} {row['replay_us']:9.0f} {row['predicted_us']:9.0f} {row['after_us']:9.0f} "
              f"{100 * error:6.1f}%  {row['change']}", flush=True)
    with open(os.path.join(out, "pairs.json"), "w", encoding="utf-8") as f:
        json.dump(rows, f)


if __name__ == "__main__":
    main()
