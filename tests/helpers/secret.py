# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""secret.py FILE: makes calls with a secret string and a secret number, creates FILE, and waits for the end of its stdin."""
import ctypes, sys
cu = ctypes.CDLL("libcuda.so.1")
out = ctypes.c_void_p()
cu.cuInit(0)
for n in range(60, 8, -1):
    cu.cuModuleGetFunction(ctypes.byref(out), None, ("s3cr3t" + "x" * n).encode())
    cu.cuDeviceGetCount(ctypes.byref(out))  # 4 bytes
cu.cuStreamSynchronize(ctypes.c_void_p(0x5EC4E75EC4E75EC4))
open(sys.argv[1], "w").close()
sys.stdin.read()
