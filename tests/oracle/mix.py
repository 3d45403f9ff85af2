# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A program of random calls, with threads, processes, errors and captures, on which outputs are compared.

usage: mix.py LIBCUDA SEED [LIBNCCL]

The same seed makes the same calls of each function, independent of the timing of threads.
"""
import ctypes
import os
import random
import subprocess
import sys
import threading

PTX = b".version 6.0\n.target sm_60\n.address_size 64\n" + b"".join(
    b".visible .entry %s(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n)\n{\n\tret;\n}\n" % n for n in (b"_Z4stepv", b"_Z5otheri", b"plain"))
U64, P = ctypes.c_uint64, ctypes.c_void_p
# A wait for the context fails, and ends other threads' captures.
CAPTURES = threading.Lock()


def made(call, *args):
    x = P()
    status = call(ctypes.byref(x), *args)
    assert status == 0, (call, status)
    return x


class Worker(threading.Thread):
    def __init__(self, cu, nccl, ctx, module, seed, steps):
        super().__init__()
        self.cu, self.nccl, self.ctx, self.rng, self.steps = cu, nccl, ctx, random.Random(seed), steps
        self.functions = []
        for name in (b"_Z4stepv", b"_Z5otheri", b"plain"):
            self.functions.append(made(self.cu.cuModuleGetFunction, module, name))
        self.blocks = []

    def run(self):
        cu, rng = self.cu, self.rng
        cu.cuCtxSetCurrent(self.ctx)
        self.stream, self.event = made(cu.cuStreamCreate, 1), made(cu.cuEventCreate, 0)
        self.device, self.buffer = self.take(1 << 16), ctypes.create_string_buffer(1 << 16)
        self.host = made(cu.cuMemAllocHost_v2, U64(1 << 16))
        self.comms = None
        if self.nccl:
            self.comms = (P * 2)()
            assert self.nccl.ncclCommInitAll(self.comms, 2, None) == 0
        ways = [self.copy, self.launch, self.allocate, self.free, self.wait, self.fail, self.capture, self.collective]
        for _ in range(self.steps):
            rng.choices(ways, [5, 6, 4, 3, 3, 2, 1, 2])[0]()
        cu.cuStreamSynchronize(self.stream)
        if rng.random() < 0.5:
            while self.blocks:
                self.free()
        cu.cuStreamDestroy_v2(self.stream)

    def take(self, size):
        return made(self.cu.cuMemAlloc_v2, U64(size))

    def copy(self):
        cu, size = self.cu, self.rng.randrange(1, 1 << 16)
        n, to = U64(size), self.rng.randrange(9)
        if to == 0:
            cu.cuMemcpyHtoD_v2(self.device, self.buffer, n)
        elif to == 1:
            cu.cuMemcpyDtoH_v2(self.buffer, self.device, n)
        elif to == 2:
            cu.cuMemcpyHtoDAsync_v2(self.device, self.host, n, self.stream)
        elif to == 3:
            cu.cuMemcpyDtoHAsync_v2(self.host, self.device, n, self.stream)
        elif to == 4:
            cu.cuMemcpyDtoD_v2(self.device, self.device, n)
        elif to == 5:
            cu.cuMemcpyDtoDAsync_v2(self.device, self.device, n, self.stream)
        elif to == 6:
            cu.cuMemcpy(self.device, self.host, n)
        elif to == 7:
            cu.cuMemsetD32_v2(self.device, 7, U64(size // 4))
        else:
            cu.cuMemsetD8Async(self.device, 1, n, self.stream)

    def launch(self, stream=None):
        rng = self.rng
        grid = [rng.randrange(1, 9) for _ in range(3)]
        self.cu.cuLaunchKernel(rng.choice(self.functions), *grid, 32, rng.randrange(1, 3), 1, 0, stream or rng.choice([self.stream, P(0)]),
                               (P * 4)(*[ctypes.addressof(self.buffer)] * 4), None)

    def allocate(self):
        cu, size = self.cu, U64(self.rng.randrange(1, 1 << 20))
        way = self.rng.randrange(4)
        if way == 0:
            self.blocks.append((cu.cuMemFree_v2, self.take(size.value)))
        elif way == 1:
            self.blocks.append((cu.cuMemFreeHost, made(cu.cuMemAllocHost_v2, size)))
        elif way == 2:
            self.blocks.append((cu.cuMemFree_v2, made(cu.cuMemAllocManaged, size, 1)))
        else:
            self.blocks.append((lambda p: cu.cuMemFreeAsync(p, self.stream), made(cu.cuMemAllocAsync, size, self.stream)))

    def free(self):
        if self.blocks:
            free, p = self.blocks.pop(self.rng.randrange(len(self.blocks)))
            assert free(p) == 0

    def wait(self):
        cu, way = self.cu, self.rng.randrange(4)
        if way == 0:
            cu.cuStreamSynchronize(self.stream)
        elif way == 1:
            cu.cuEventRecord(self.event, self.stream)
            cu.cuEventSynchronize(self.event)
        elif way == 2:
            with CAPTURES:
                cu.cuCtxSynchronize()
        else:
            cu.cuStreamWaitEvent(self.stream, self.event, 0)

    def fail(self):
        """Makes errors of every kind of call that an output counts."""
        cu, bad = self.cu, P(0xdead0)
        way = self.rng.randrange(7)
        if way == 0:
            cu.cuMemAlloc_v2(ctypes.byref(P()), U64(1 << 50))
        elif way == 1:
            cu.cuMemFree_v2(bad)
        elif way == 2:
            cu.cuMemcpyHtoD_v2(bad, self.buffer, U64(100))
        elif way == 3:
            cu.cuMemcpyDtoHAsync_v2(self.host, bad, U64(100), self.stream)
        elif way == 4:
            cu.cuLaunchKernel(self.functions[0], 0, 1, 1, 32, 1, 1, 0, self.stream, None, None)
        elif way == 5:
            cu.cuStreamSynchronize(bad)
        else:
            cu.cuGraphLaunch(P(0), self.stream)

    def capture(self):
        """A copy, an allocation and launches that become nodes; then replays of the graph."""
        cu, graph, run, p = self.cu, P(), P(), P()
        with CAPTURES:
            assert cu.cuStreamBeginCapture_v2(self.stream, 2) == 0
            for _ in range(self.rng.randrange(1, 4)):
                self.launch(self.stream)
            cu.cuMemcpyDtoDAsync_v2(self.device, self.device, U64(512), self.stream)
            if self.rng.random() < 0.5 and cu.cuMemAllocAsync(ctypes.byref(p), U64(4096), self.stream) == 0:
                cu.cuMemFreeAsync(p, self.stream)
            assert cu.cuStreamEndCapture(self.stream, ctypes.byref(graph)) == 0
        assert cu.cuGraphInstantiateWithFlags(ctypes.byref(run), graph, U64(0)) == 0
        for _ in range(self.rng.randrange(4)):
            cu.cuGraphLaunch(run, self.stream)
        cu.cuGraphExecDestroy(run)
        cu.cuGraphDestroy(graph)

    def collective(self):
        if not self.comms:
            return
        n, way, size = self.nccl, self.rng.randrange(4), U64(self.rng.randrange(1, 1 << 12))
        if way == 3:
            n.ncclAllReduce(self.device, self.device, size, 99, 0, P(self.comms[0]), self.stream)
            return
        n.ncclGroupStart()
        for c in self.comms:
            if way == 0:
                n.ncclAllReduce(self.device, self.device, size, 7, 0, P(c), self.stream)
            elif way == 1:
                n.ncclBcast(self.device, size, 7, 0, P(c), self.stream)
            else:
                n.ncclReduceScatter(self.device, self.device, size, 7, 0, P(c), self.stream)
        n.ncclGroupEnd()


def main():
    library, seed, nccl, *child = *sys.argv[1:3], (sys.argv[3:4] or [""])[0], *sys.argv[4:]
    rng = random.Random(f"{seed} {child}")
    cu = ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)
    assert cu.cuInit(0) == 0
    ctx = made(cu.cuDevicePrimaryCtxRetain, 0)
    cu.cuCtxSetCurrent(ctx)
    module = made(cu.cuModuleLoadData, PTX)
    children = [] if child else [subprocess.Popen([sys.executable, *sys.argv[:3], nccl, str(i)]) for i in range(rng.randrange(1, 3))]
    workers = [Worker(cu, ctypes.CDLL(nccl) if nccl else None, ctx, module, rng.random(), rng.randrange(20, 80)) for _ in range(rng.randrange(1, 4))]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    for c in children:
        assert c.wait() == 0
    # Skips the interpreter's own cleanup of the library.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
