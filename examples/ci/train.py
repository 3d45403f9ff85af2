# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A program with the calls of a training step. It uses the driver API, so that it runs on `cudatrace fake`, too."""
import ctypes
import os
import random
import time

STEPS, LAYERS, BATCH = 20, 3, 4096
PTX = b".version 8.0\n.target sm_80\n.address_size 64\n" + b"".join(
    b".visible .entry %s(.param .u64 x) { ret; }\n" % name for name in (b"forward", b"backward", b"update")) + b"\0"
cuda = ctypes.CDLL("libcuda.so.1")


def call(name, *args):
    """Calls the driver; stops at an error."""
    result = getattr(cuda, name)(*args)
    if result:
        raise SystemExit(f"{name}: error {result}")


def made(name, kind, *args):
    """What a call returns through its first argument."""
    value = kind()
    call(name, ctypes.byref(value), *args)
    return value


def launch(kernel, data):
    params = (ctypes.c_void_p * 1)(ctypes.addressof(data))
    call("cuLaunchKernel", kernel, 16, 1, 1, 256, 1, 1, 0, None, params, None)


def step(kernels, data, host):
    call("cuMemcpyHtoD_v2", data, host, ctypes.c_size_t(BATCH))
    for _ in range(LAYERS):
        launch(kernels["forward"], data)
    for _ in range(LAYERS):
        launch(kernels["backward"], data)
    launch(kernels["update"], data)
    call("cuMemcpyDtoH_v2", host, data, ctypes.c_size_t(4))  # the loss
    time.sleep(random.random() * float(os.environ.get("NOISE_MS", "1")) / 1000)


def main():
    call("cuInit", 0)
    context = made("cuDevicePrimaryCtxRetain", ctypes.c_void_p, made("cuDeviceGet", ctypes.c_int, 0))
    call("cuCtxSetCurrent", context)
    module = made("cuModuleLoadData", ctypes.c_void_p, PTX)
    kernels = {name: made("cuModuleGetFunction", ctypes.c_void_p, module, name.encode()) for name in ("forward", "backward", "update")}
    data = made("cuMemAlloc_v2", ctypes.c_uint64, ctypes.c_size_t(BATCH))
    host = ctypes.create_string_buffer(BATCH)
    for _ in range(STEPS):
        step(kernels, data, host)
    call("cuMemFree_v2", data)
    call("cuDevicePrimaryCtxRelease_v2", 0)


if __name__ == "__main__":
    main()
