# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Exhausts a GPU's memory by fragmentation: of each segment of PyTorch's allocator a part is used, and no free part is large enough."""
import torch


def fill(blocks, size):
    free, _ = torch.cuda.mem_get_info()
    while torch.cuda.memory_reserved() < free - (2 << 30):
        blocks.append(torch.empty(size, dtype=torch.uint8, device="cuda"))


def request():
    return torch.empty(20 << 30, dtype=torch.uint8, device="cuda")


blocks = []
fill(blocks, 8 << 20)
del blocks[::2]
torch.cuda.synchronize()
print(f"reserved {torch.cuda.memory_reserved() >> 20} MiB, allocated {torch.cuda.memory_allocated() >> 20} MiB", flush=True)
try:
    request()
except torch.OutOfMemoryError as e:
    print(e)
