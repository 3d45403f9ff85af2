# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A kernel written in Triton: compiled when first called, then launched ten times."""
import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x, y, out, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    tl.store(out + offs, tl.load(x + offs, mask=mask) + tl.load(y + offs, mask=mask), mask=mask)


x = torch.rand(1 << 20, device="cuda")
y = torch.rand(1 << 20, device="cuda")
out = torch.empty_like(x)
for _ in range(10):
    add_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, out, x.numel(), BLOCK=1024)
torch.cuda.synchronize()
assert torch.allclose(out, x + y)
print("triton: ok, 10 launches of add_kernel")
