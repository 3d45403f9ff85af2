# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""ranks.py SECONDS: two processes, each a rank of one communicator of the mock libnccl. The second enters an all-reduce SECONDS late, so
the first waits as long; both are in Python functions whose names tests expect."""
import ctypes
import os
import sys
import time

seconds = float(sys.argv[1])


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_char * 128)]


class Trainer:
    def load_batch(self):
        time.sleep(seconds)

    def reduce_gradients(self):
        must(nccl.ncclAllReduce(ptr, ptr, ctypes.c_size_t(1024), 7, 0, comm, None))

    def step(self, late):
        if late:
            self.load_batch()
        self.reduce_gradients()


def must(result):
    assert not result, result


rank = 0 if os.fork() else 1
if rank == 0:
    os.environ["FAKE_NCCL_BLOCK_MS"] = str(int(seconds * 1000))
cuda, nccl = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL("libnccl.so.2")
ctx, ptr, comm = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
must(cuda.cuInit(0))
must(cuda.cuCtxCreate_v2(ctypes.byref(ctx), 0, 0))
must(cuda.cuMemAlloc_v2(ctypes.byref(ptr), ctypes.c_size_t(1 << 20)))
must(nccl.ncclCommInitRank(ctypes.byref(comm), 2, UniqueId(b"ranks"), rank))
Trainer().step(late=rank == 1)
if rank == 0:
    os.wait()
