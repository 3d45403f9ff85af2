# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Makes the driver calls of gpt2.py and cuda_error.py to the mock driver, to try the step `daemon` without a GPU.

usage: mock.py gpt2 [--tokens N] [--rounds N] [--serve] | error SECONDS
"""
import argparse
import ctypes
import sys
import time

from serve import serve

# Before the library is loaded, so that the daemon has this name.
with open("/proc/self/comm", "w", encoding="ascii") as f:
    f.write("mock")
cuda = ctypes.CDLL("libcuda.so.1")
LAUNCHES = 20
ptr = ctypes.c_uint64()


def call(name, *args, fails=False):
    result = getattr(cuda, name)(*[ctypes.c_uint64(a) if isinstance(a, int) else a for a in args])
    if (result != 0) != fails:
        sys.exit(f"{name}: {result}")


def set_up():
    ctx, buf = ctypes.c_uint64(), (ctypes.c_char * (1 << 20))()
    call("cuInit", 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(ctx), 0)
    call("cuCtxSetCurrent", ctx)
    call("cuMemAlloc_v2", ctypes.byref(ptr), 1 << 24)
    call("cuMemcpyHtoD_v2", ptr, buf, len(buf))
    fn = ctypes.c_uint64()
    mod, ptx = ctypes.c_uint64(), b".version 6.0\n.target sm_60\n.address_size 64\n.visible .entry k()\n{\n\tret;\n}\n"
    call("cuModuleLoadData", ctypes.byref(mod), ptx)
    call("cuModuleGetFunction", ctypes.byref(fn), mod, b"k")
    return fn


def token(fn):
    out = ctypes.c_uint64()
    for _ in range(LAUNCHES):
        call("cuLaunchKernel", fn, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0)
    call("cuMemcpyDtoH_v2", ctypes.byref(out), ptr, 8)
    call("cuStreamSynchronize", 0)


def round_of(fn, tokens):
    extra = ctypes.c_uint64()
    call("cuMemAlloc_v2", ctypes.byref(extra), 1 << 20)
    begin = time.perf_counter()
    for _ in range(tokens):
        token(fn)
    ms = (time.perf_counter() - begin) / tokens * 1e3
    call("cuMemFree_v2", extra)
    return round(ms, 4)


def error(fn, seconds):
    for more in (seconds, 2):
        end = time.monotonic() + more
        while time.monotonic() < end:
            token(fn)
            time.sleep(0.001)
        if more == seconds:
            call("cuMemAlloc_v2", ctypes.byref(ptr), 1 << 50, fails=True)
    call("cuMemFree_v2", 0x10000, fails=True)
    time.sleep(1)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("what", choices=["gpt2", "error"])
    ap.add_argument("seconds", type=float, nargs="?", default=8)
    ap.add_argument("--tokens", type=int, default=50)
    ap.add_argument("--rounds", type=int, default=3)
    ap.add_argument("--serve", action="store_true")
    args = ap.parse_args()
    fn = set_up()
    if args.what == "error":
        error(fn, args.seconds)
    elif args.serve:
        serve(lambda: round_of(fn, args.tokens), args.tokens)
    else:
        print([round_of(fn, args.tokens) for _ in range(args.rounds)])


main()
