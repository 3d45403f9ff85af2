# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""steps_python.py COUNT FUNCTION...: steps of a Python program on the mock driver, which call these functions. It writes the lines of tests/steps.c."""
import ctypes
import sys
import time

CUDA = ctypes.CDLL("libcuda.so.1")
BYTES = ctypes.c_size_t(1 << 16)


def made(function, *args):
    handle = ctypes.c_void_p()
    must(function(ctypes.byref(handle), *args))
    return handle


def must(result):
    assert result == 0, result


def load():
    time.sleep(0.005)


def copy():
    must(CUDA.cuMemcpyHtoDAsync_v2(device, pinned, BYTES, stream))


def launch(kernel):
    must(CUDA.cuLaunchKernel(kernel, 8, 1, 1, 128, 1, 1, 0, stream, None, None))


def embed():
    launch(kernels[1])


def model():
    time.sleep(0.0002)
    launch(kernels[0])


def item():
    must(CUDA.cuMemcpyDtoHAsync_v2(pinned, device, ctypes.c_size_t(4), stream))
    must(CUDA.cuStreamSynchronize(stream))


def step():
    row = [time.monotonic_ns()]
    for name in sys.argv[2:]:
        globals()[name]()
        row.append(time.monotonic_ns())
    return row


must(CUDA.cuInit(0))
must(CUDA.cuCtxSetCurrent(made(CUDA.cuDevicePrimaryCtxRetain, 0)))
module = made(CUDA.cuModuleLoadData, b"FAKE\0k\0small\0\0")
kernels = [made(CUDA.cuModuleGetFunction, module, name) for name in (b"k", b"small")]
stream, device, pinned = made(CUDA.cuStreamCreate, 1), made(CUDA.cuMemAlloc_v2, BYTES), made(CUDA.cuMemAllocHost_v2, BYTES)
for r in [step() for _ in range(int(sys.argv[1]))]:
    print(r[0], r[-1] - r[0], *(f"{name}={b - a}" for name, a, b in zip(sys.argv[2:], r, r[1:])))
