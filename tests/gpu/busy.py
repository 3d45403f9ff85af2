# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A GPU that is kept busy for a share of the time."""
import time


def busy_for(share, seconds, slot, size, products=1):
    """Multiplies matrices of that size for a share of each slot, with that many products before each wait. Returns the time of the products
    and the total time."""
    import torch
    a = torch.randn(size, size, device="cuda", dtype=torch.bfloat16)
    torch.mm(a, a)
    torch.cuda.synchronize()
    begin, ran = time.monotonic(), 0.0
    while time.monotonic() - begin < seconds:
        start = time.monotonic()
        while time.monotonic() - start < share * slot:
            for _ in range(products):
                torch.mm(a, a)
            torch.cuda.synchronize()
        ran += time.monotonic() - start
        time.sleep(max(0.0, start + slot - time.monotonic()))
    return ran, time.monotonic() - begin
