# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""python_lock.py LIBCUDA MODE: 40 steps of calls from three functions. MODE compute: another thread computes in Python meanwhile; sleep: it sleeps,
and each step sleeps 5 ms at one place. work() releases Python's lock, as most functions of PyTorch do. Any CPython from 3.8 on."""
import ctypes
import sys
import threading
import time

lib, mode = ctypes.CDLL(sys.argv[1]), sys.argv[2]
context, module, kernel, stream, ptr = (ctypes.c_void_p() for _ in range(5))
batch = ctypes.create_string_buffer(4096)
over = False


def metrics():
    n = 0
    while not over:
        if mode == "sleep":
            time.sleep(0.001)
        n += 1


def work():
    ctypes.CDLL(None).usleep(200)


def forward():
    for _ in range(2):
        work()
        lib.cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, stream, None, None)


def backward():
    work()
    lib.cuMemsetD8Async(ptr, 0, ctypes.c_size_t(4096), stream)
    lib.cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, stream, None, None)


def main():
    lib.cuInit(0)
    lib.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
    lib.cuCtxSetCurrent(context)
    lib.cuStreamCreate(ctypes.byref(stream), 1)
    lib.cuMemAlloc_v2(ctypes.byref(ptr), ctypes.c_size_t(4096))
    lib.cuModuleLoadData(ctypes.byref(module), b"x" * 64)
    lib.cuModuleGetFunction(ctypes.byref(kernel), module, b"kernel")
    threading.Thread(target=metrics, daemon=True).start()
    for _ in range(40):
        work()
        lib.cuMemcpyHtoDAsync_v2(ptr, batch, ctypes.c_size_t(4096), stream)
        forward()
        if mode == "sleep":
            time.sleep(0.005)
        backward()
        lib.cuStreamSynchronize(stream)


main()
over = True
