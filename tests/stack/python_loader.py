# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""python_loader.py LIBCUDA MS: 60 steps. Each loads a batch for MS milliseconds in Python, in code that names a file of PyTorch's DataLoader, copies
it and launches. Prints how long all batches took, in ns. Any CPython from 3.8 on."""
import ctypes
import sys
import time

lib, each_ns = ctypes.CDLL(sys.argv[1]), int(sys.argv[2]) * 1_000_000
context, module, kernel, stream, event, ptr = (ctypes.c_void_p() for _ in range(6))
batch = ctypes.create_string_buffer(4096)
took = []

LOADER = """
class DataLoader:
    def __iter__(self):
        return self
    def __next__(self):
        return self._next_data()
    def _next_data(self):
        begin = time.perf_counter_ns()
        while time.perf_counter_ns() - begin < each_ns:
            pass
        took.append(time.perf_counter_ns() - begin)
        lib.cuEventQuery(event)
        return batch
"""
exec(compile(LOADER, "/lib/torch/utils/data/dataloader.py", "exec"), globals())


def main():
    lib.cuInit(0)
    lib.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
    lib.cuCtxSetCurrent(context)
    lib.cuStreamCreate(ctypes.byref(stream), 1)
    lib.cuEventCreate(ctypes.byref(event), 0)
    lib.cuMemAlloc_v2(ctypes.byref(ptr), ctypes.c_size_t(4096))
    lib.cuModuleLoadData(ctypes.byref(module), b"x" * 64)
    lib.cuModuleGetFunction(ctypes.byref(kernel), module, b"kernel")
    for data in DataLoader():  # noqa: F821
        lib.cuMemcpyHtoDAsync_v2(ptr, data, ctypes.c_size_t(4096), stream)
        for _ in range(5):
            lib.cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, stream, None, None)
        lib.cuStreamSynchronize(stream)
        if len(took) == 60:
            break
    print(sum(took))


main()
