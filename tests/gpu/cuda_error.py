# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Works for a few seconds, allocates more memory than the GPU has, continues, and reads an invalid address.

usage: cuda_error.py SECONDS
"""
import sys
import time

import torch
import triton
import triton.language as tl


@triton.jit
def stray(out, address):
    tl.store(out, tl.load(address.to(tl.int64).to(tl.pointer_type(tl.float32))))


def work(seconds):
    a = torch.rand(64, 64, device="cuda")
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        a = (a @ a).softmax(-1)
        a.sum().item()


work(float(sys.argv[1]))
try:
    torch.empty(1 << 45, dtype=torch.uint8, device="cuda")
except torch.cuda.OutOfMemoryError as e:
    print(type(e).__name__)
work(2)
try:
    stray[(1,)](torch.empty(1, device="cuda"), 0x10000)
    torch.cuda.synchronize()
except RuntimeError as e:
    print(str(e).splitlines()[0])
time.sleep(1)
