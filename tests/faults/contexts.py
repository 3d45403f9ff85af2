# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""contexts.py LIBCUDA: contexts that are destroyed while they have memory."""
import ctypes, sys
cu = ctypes.CDLL(sys.argv[1])
ctx, p = ctypes.c_void_p(), ctypes.c_uint64()
assert not cu.cuInit(0) and not cu.cuCtxCreate_v2(ctypes.byref(ctx), 0, 0)
assert not cu.cuMemAlloc_v2(ctypes.byref(p), ctypes.c_size_t(1 << 20))
assert not cu.cuCtxDestroy_v2(ctx)
assert not cu.cuDevicePrimaryCtxRetain(ctypes.byref(ctx), 0) and not cu.cuCtxSetCurrent(ctx)
assert not cu.cuMemAlloc_v2(ctypes.byref(p), ctypes.c_size_t(4096))
assert not cu.cuDevicePrimaryCtxRelease_v2(0)
