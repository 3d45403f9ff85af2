# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""CuPy: elementwise kernels, a reduction and a matrix product."""
import cupy as cp

a = cp.random.rand(1024, 1024, dtype=cp.float32)
b = cp.random.rand(1024, 1024, dtype=cp.float32)
for _ in range(10):
    c = cp.tanh(a @ b) + a
s = float(c.sum())
assert s == s
print("cupy: ok")
