# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The program that numba_kernels.py traces: launches kernels of Numba N times. usage: numba_work.py [N]"""
import json
import sys

import numba
import numpy as np
from numba import cuda

TIMES = {"add": 20, "scale": 10, "reduce_sum": 5}


@cuda.jit
def add(a, b, c):
    i = cuda.grid(1)
    if i < c.size:
        c[i] = a[i] + b[i]


@cuda.jit
def scale(a, by):
    i = cuda.grid(1)
    if i < a.size:
        a[i] *= by


@cuda.reduce
def reduce_sum(a, b):
    return a + b


def step(n):
    a, b, c = (cuda.to_device(np.ones(n, dtype=np.float32)) for _ in range(3))
    for _ in range(TIMES["add"]):
        add[n // 256, 256](a, b, c)
    for _ in range(TIMES["scale"]):
        scale[n // 256, 256](c, np.float32(0.5))
    return sum(float(reduce_sum(a)) for _ in range(TIMES["reduce_sum"]))


def main():
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 1 << 16
    got = step(n)
    cuda.synchronize()
    print(json.dumps({"numba": numba.__version__, "numpy": np.__version__, "times": TIMES, "sum": got, "wanted": n * TIMES["reduce_sum"]}), flush=True)


if __name__ == "__main__":
    main()
