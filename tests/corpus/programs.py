# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Programs for the corpus of real traces. Each writes its own log of what it did, for comparison with the trace.

usage: programs.py NAME LOG [STEPS]

NAMEs are the functions below. LOG gets JSON: {"pid", "steps": [[begin_ns, end_ns], ...], ...}, times by CLOCK_MONOTONIC.
Multi-GPU programs (ranks_*) run under torchrun; LOG is then LOG.RANK.
"""
import json
import os
import sys
import time

import torch

now = time.monotonic_ns


def timed(log, steps, work):
    """Runs work(i) steps times; each step ends with a synchronization."""
    torch.cuda.synchronize()
    for i in range(steps):
        begin = now()
        work(i)
        torch.cuda.synchronize()
        log["steps"].append([begin, now()])


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    return GPT2LMHeadModel(GPT2Config()).to("cuda", torch.float16).eval(), torch.randint(0, 50000, (1, 32), device="cuda")


@torch.no_grad()
def gpt2_eager(log, steps):
    """Greedy decoding with a growing KV cache; .item() in each step, as servers look at each token."""
    model, step = gpt2()
    past = None
    for _ in range(4):
        out = model(step, past_key_values=past, use_cache=True)
        past, step = out.past_key_values, out.logits[:, -1:].argmax(-1)
    state = {"past": past, "step": step}

    def token(_):
        out = model(state["step"], past_key_values=state["past"], use_cache=True)
        state["past"], state["step"] = out.past_key_values, out.logits[:, -1:].argmax(-1)
        state["step"].item()
    timed(log, steps, token)


@torch.no_grad()
def gpt2_graph(log, steps):
    """The forward pass of one token over a static input, captured once and replayed."""
    model, ids = gpt2()
    static = ids[:, :1].clone()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            model(static, use_cache=False)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        logits = model(static, use_cache=False).logits
        static.copy_(logits[:, -1:].argmax(-1))

    def token(_):
        graph.replay()
        static.item()
    timed(log, steps, token)


def train(log, steps):
    """GPT-2 blocks, AdamW, a batch from pageable memory in each step, loss.item()."""
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(n_layer=4)).to("cuda")
    adam = torch.optim.AdamW(model.parameters(), lr=1e-4)
    data = torch.randint(0, 50000, (steps, 4, 256))

    def step(i):
        batch = data[i].to("cuda")
        adam.zero_grad()
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(batch, labels=batch).loss
        loss.backward()
        adam.step()
        log.setdefault("losses", []).append(loss.item())
    timed(log, steps, step)


@torch.no_grad()
def convolutions(log, steps):
    """Residual blocks as a diffusion model's U-Net has them: convolutions, group norms, SiLU, attention at one level."""
    torch.manual_seed(0)
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.body = nn.Sequential(nn.GroupNorm(32, width), nn.SiLU(), nn.Conv2d(width, width, 3, padding=1),
                                      nn.GroupNorm(32, width), nn.SiLU(), nn.Conv2d(width, width, 3, padding=1))

        def forward(self, x):
            return x + self.body(x)

    down = nn.Sequential(nn.Conv2d(4, 320, 3, padding=1), Block(320), nn.Conv2d(320, 640, 3, 2, 1), Block(640))
    up = nn.Sequential(Block(640), nn.Upsample(scale_factor=2), nn.Conv2d(640, 320, 3, padding=1), Block(320), nn.Conv2d(320, 4, 3, padding=1))
    down, up = down.to("cuda", torch.float16), up.to("cuda", torch.float16)
    heads = 10
    x = torch.randn(2, 4, 64, 64, device="cuda", dtype=torch.float16)

    def denoise(_):
        h = down(x)
        n, c, height, width = h.shape
        q = h.view(n, heads, c // heads, height * width).transpose(2, 3)
        h = torch.nn.functional.scaled_dot_product_attention(q, q, q).transpose(2, 3).reshape(h.shape) + h
        x.add_(up(h), alpha=-0.01)
    timed(log, steps, denoise)


@torch.no_grad()
def graph_loop(log, steps):
    """As llama.cpp decodes: a step is one launch of one graph that keeps the GPU busy, then a small copy to the host."""
    torch.manual_seed(0)
    layers = torch.nn.Sequential(*[torch.nn.Linear(4096, 4096, bias=False) for _ in range(16)]).to("cuda", torch.float16)
    x, host = torch.randn(1, 4096, device="cuda", dtype=torch.float16), torch.empty(1, 4096, dtype=torch.float16, pin_memory=True)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        layers(x)
    side.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = layers(x)

    def step(_):
        graph.replay()
        host.copy_(y, non_blocking=True)
        torch.cuda.current_stream().synchronize()
    timed(log, steps, step)


@torch.no_grad()
def copies_beside(log, steps):
    """Pinned copies on a stream of their own beside products; then (second half) on the same stream, so exposed."""
    a = torch.randn(4096, 4096, device="cuda", dtype=torch.float16)
    host = torch.randn(16, 1024, 1024).pin_memory()
    device = torch.empty(16, 1024, 1024, device="cuda")
    side = torch.cuda.Stream()
    log["overlapped_steps"] = steps // 2

    def step(i):
        with torch.cuda.stream(side if i < steps // 2 else torch.cuda.current_stream()):
            device.copy_(host, non_blocking=True)
        for _ in range(8):
            a @ a
    timed(log, steps, step)


def out_of_memory(log, steps):
    """Blocks of 4 GiB from one place until there is no room; the program goes on."""
    held = []

    def grow():
        held.append(torch.empty(4 << 30, dtype=torch.uint8, device="cuda"))
    try:
        for _ in range(64):
            grow()
    except torch.OutOfMemoryError as error:
        log["error"] = str(error)
    log["held"] = len(held)
    timed(log, 3, lambda _: held[0][:1024].add_(1))


def device_assert(log, steps):
    """An index out of range in an embedding: PyTorch's usual device-side assertion."""
    table = torch.nn.Embedding(100, 64).cuda()
    timed(log, 3, lambda _: table(torch.arange(50, device="cuda")))
    try:
        table(torch.tensor([100000], device="cuda"))
        torch.cuda.synchronize()
    except Exception as error:  # the type differs between versions of PyTorch
        log["error"] = str(error).splitlines()[0]


def ranks(log, steps, late_every=10, late_ms=5):
    """Tensor-parallel pairs times data-parallel pairs (with two ranks: one pair, data-parallel); the last rank sleeps
    late_ms in each late_every-th step before its first collective."""
    import torch.distributed as dist

    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    pairs = {name: [dist.new_group(x) for x in groups] for name, groups in
             (("tp", [[0, 1], [2, 3]] if world == 4 else [[0, 1]]), ("dp", [[0, 2], [1, 3]] if world == 4 else [[0, 1]]))}
    tp = pairs["tp"][rank // 2]
    dp = pairs["dp"][rank % 2 if world == 4 else 0]
    x = torch.randn(1024, 1024, device=device, dtype=torch.bfloat16)
    w = torch.randn(1024, 1024, device=device, dtype=torch.bfloat16) / 32
    grad = torch.randn(1 << 20, device=device, dtype=torch.bfloat16)
    log.update(rank=rank, world=world, late=[])

    def step(i):
        if rank == world - 1 and i % late_every == late_every - 1:
            time.sleep(late_ms / 1e3)
            log["late"].append(i)
        for _ in range(3):
            dist.all_reduce(x.copy_(x @ w), group=tp)
        dist.all_reduce(grad, group=dp)
        x.div_(x.norm() + 1)
    for _ in range(5):
        step(0)
    torch.cuda.synchronize()
    dist.barrier()
    timed(log, steps, step)
    dist.destroy_process_group()


def main():
    name, path, steps = sys.argv[1], sys.argv[2], int((sys.argv[3:] or ["20"])[0])
    log = {"pid": os.getpid(), "program": name, "torch": torch.__version__, "gpu": torch.cuda.get_device_name(0), "steps": []}
    globals()[name](log, steps)
    if "RANK" in os.environ:
        path += "." + os.environ["RANK"]
    with open(path, "w", encoding="utf-8") as f:
        json.dump(log, f)


if __name__ == "__main__":
    main()
