# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Kernels of Triton with one planted problem each, or none, and of PyTorch as users have them. diagnose.py lists the problems.

usage: proof_triton.py triton|torch SECONDS    runs each for that long; 0: once
"""
import sys
import time

import triton
import triton.language as tl


@triton.jit
def pick_channel(x, out, channels, rounds, BLOCK: tl.constexpr):
    """Each lane reads another sector: one of 24 channels, which are neighbors in memory."""
    at = tl.program_id(0).to(tl.int64) * BLOCK * rounds + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for i in range(rounds):
        total += tl.load(x + (at + i * BLOCK) * channels)
    tl.store(out + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), total)


@triton.jit
def count_all(x, counter, rounds, BLOCK: tl.constexpr):
    """Each element is counted in the same number."""
    at = tl.program_id(0) * BLOCK * rounds + tl.arange(0, BLOCK)
    for i in range(rounds):
        v = tl.load(x + at + i * BLOCK)
        tl.atomic_add(counter + tl.zeros((BLOCK,), tl.int32), (v > 0).to(tl.int32), sem="relaxed")


@triton.jit
def wide_rows(x, y, z, out, rounds, BLOCK: tl.constexpr):
    """Three arrays of 128 values per thread, which do not fit into its registers."""
    at = tl.arange(0, BLOCK)
    a, b, c = tl.load(x + at), tl.load(y + at), tl.load(z + at)
    for _ in range(rounds):
        a = a * b + c
        b = b * c + a
        c = c * a + b
    tl.store(out + tl.program_id(0) * BLOCK + at, a + b + c)


@triton.jit
def softmax_rows(x, out, columns, BLOCK: tl.constexpr):
    """A program per row; there are few rows."""
    at, base = tl.arange(0, BLOCK), tl.program_id(0).to(tl.int64) * columns
    top = tl.full((BLOCK,), -1e30, tl.float32)
    for i in range(0, columns, BLOCK):
        top = tl.maximum(top, tl.load(x + base + i + at))
    most, total = tl.max(top, 0), tl.zeros((BLOCK,), tl.float32)
    for i in range(0, columns, BLOCK):
        total += tl.exp(tl.load(x + base + i + at) - most)
    scale = 1 / tl.sum(total, 0)
    for i in range(0, columns, BLOCK):
        tl.store(out + base + i + at, tl.exp(tl.load(x + base + i + at) - most) * scale)


@triton.jit
def uneven_waves(x, out, rounds, BLOCK: tl.constexpr):
    """Long programs of 1,024 threads, a few more than the GPU holds at once."""
    v = tl.load(x + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))
    for _ in range(rounds):
        v = tl.sqrt(v * v + 1.0)
    tl.store(out + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), v)


@triton.jit
def thin_sum(x, out, count, BLOCK: tl.constexpr):
    """One warp per multiprocessor, with one load in flight."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for _ in range(count):
        v = tl.load(x + at)
        total += v
        # The next address depends on the value.
        at += tl.num_programs(0) * BLOCK + (v > 1e30).to(tl.int32)
    tl.store(out + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), total)


@triton.jit
def horner(x, out, rounds, BLOCK: tl.constexpr):
    """A polynomial of high degree for each element."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at)
    y = v
    for i in range(rounds):
        y = y * v + 0.25
        y = y * v - 0.5
        y = y * v + 0.125
        y = y * v - 0.75
    tl.store(out + at, y)


@triton.jit
def copy_blocks(x, out, BLOCK: tl.constexpr):
    """Healthy: bandwidth of memory."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at))


@triton.jit
def product(a, b, c, n, k, PRECISION: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows, cols = tl.program_id(0) * M + tl.arange(0, M), tl.program_id(1) * N + tl.arange(0, N)
    part = tl.arange(0, K)
    at, bt = a + rows[:, None] * k + part[None, :], b + part[:, None] * n + cols[None, :]
    total = tl.zeros((M, N), tl.float32)
    for _ in range(0, k, K):
        total = tl.dot(tl.load(at), tl.load(bt), total, input_precision=PRECISION)
        at += K
        bt += K * n
    tl.store(c + rows[:, None] * n + cols[None, :], total.to(c.dtype.element_ty))


@triton.jit
def matmul_ieee(a, b, c, n, k):
    """A matrix product of FP32 multiply-adds."""
    product(a, b, c, n, k, "ieee", 64, 64, 16)


@triton.jit
def matmul_half(a, b, c, n, k):
    """Healthy: FP16 on tensor cores."""
    product(a, b, c, n, k, "tf32", 128, 128, 64)


def of_triton(torch):
    x, out = torch.rand(1 << 28, device="cuda"), torch.empty(1 << 28, device="cuda")
    counts = torch.zeros(1, dtype=torch.int32, device="cuda")
    a, b, c = (torch.rand(4096, 4096, device="cuda") for _ in range(3))
    h, g, f = (torch.rand(8192, 8192, device="cuda", dtype=torch.float16) for _ in range(3))
    grid = (64, 64)
    return {
        "pick_channel": lambda: pick_channel[(680,)](x, out, 24, 64, BLOCK=256, num_warps=8),
        "count_all": lambda: count_all[(1024,)](x, counts, 8, BLOCK=1024),
        "wide_rows": lambda: wide_rows[(264,)](x, a, b, out, 200, BLOCK=16384, num_warps=4),
        "softmax_rows": lambda: softmax_rows[(40,)](x, out, 1 << 21, BLOCK=8192, num_warps=8),
        "uneven_waves": lambda: uneven_waves[(300,)](x, out, 20000, BLOCK=1024, num_warps=32),
        "thin_sum": lambda: thin_sum[(132,)](x, out, 15000, BLOCK=32, num_warps=1),
        "horner": lambda: horner[(1 << 18,)](x, out, 300, BLOCK=1024),
        "copy_blocks": lambda: copy_blocks[(1 << 16,)](x, out, BLOCK=4096, num_warps=8),
        "matmul_ieee": lambda: matmul_ieee[grid](a, b, c, 4096, 4096, num_warps=4),
        "matmul_half": lambda: matmul_half[grid](h, g, f, 8192, 8192, num_warps=8, num_stages=3),
    }


def of_torch(torch):
    f = torch.nn.functional
    torch.backends.cuda.matmul.allow_tf32 = False
    h, g = (torch.rand(8192, 8192, device="cuda", dtype=torch.float16) for _ in range(2))
    a, b = (torch.rand(4096, 4096, device="cuda") for _ in range(2))
    q, k, v = (torch.rand(4, 16, 4096, 128, device="cuda", dtype=torch.float16) for _ in range(3))
    rows = torch.rand(65536, 4096, device="cuda", dtype=torch.float16)
    weight, bias = (torch.rand(4096, device="cuda", dtype=torch.float16) for _ in range(2))
    table, index = torch.rand(50257, 4096, device="cuda"), torch.randint(50257, (65536,), device="cuda")

    def attention():
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.FLASH_ATTENTION):
            f.scaled_dot_product_attention(q, k, v)
    return {"gemm_fp16": lambda: h @ g, "gemm_fp32": lambda: a @ b, "attention": attention, "layer_norm": lambda: f.layer_norm(rows, (4096,), weight, bias),
            "softmax": lambda: torch.softmax(rows, -1), "embedding": lambda: f.embedding(index, table), "sum": lambda: table.sum()}


def main(which, seconds):
    import torch
    with torch.no_grad():
        for name, run in (of_triton if which == "triton" else of_torch)(torch).items():
            try:
                run()
                torch.cuda.synchronize()
                start, launches = time.monotonic(), 0
                while time.monotonic() - start < seconds:
                    for _ in range(3):
                        run()
                    torch.cuda.synchronize()
                    launches += 3
                print(f"{name}: {launches} launches, {(time.monotonic() - start) / max(launches, 1) * 1e3:.3f} ms each", flush=True)
            except Exception as e:  # pylint: disable=broad-exception-caught
                print(f"{name}: failed: {str(e)[:300]}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
