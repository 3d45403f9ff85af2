# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""jit.py LIBCUDA [other]: makes code that calls cuMemAlloc, and writes its name ($JIT_NAME), as Python's -X perf does; in a file of
another user's. $JIT_FOLDER: where the file is, as /tmp leads there."""
import ctypes, mmap, os, sys, time
cuda = ctypes.CDLL(sys.argv[1])
alloc = ctypes.cast(cuda.cuMemAlloc_v2, ctypes.c_void_p).value
# push %rbp; mov %rsp,%rbp; mov $alloc,%rax; call *%rax; pop %rbp; ret
code = b"\x55\x48\x89\xe5\x48\xb8" + alloc.to_bytes(8, "little") + b"\xff\xd0\x5d\xc3"
mem = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
mem.write(code)
at = ctypes.addressof(ctypes.c_char.from_buffer(mem))
name = os.environ.get("JIT_FOLDER", "/tmp") + f"/perf-{os.getpid()}.map"
with open(name, "w") as f:
    f.write(f"{at:x} {len(code):x} {os.environ.get('JIT_NAME', 'py::train:model.py')}\n{at + 4096:x} 10 half")
if len(sys.argv) > 2:
    os.chown(name, 12345, -1)
ctx = ctypes.c_void_p()
cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(ctx), 0), cuda.cuCtxSetCurrent(ctx)
p = ctypes.c_uint64()
ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t)(at)(ctypes.addressof(p), 64)
time.sleep(0.3)
os.unlink(name)
