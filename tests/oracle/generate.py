# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Random traces with a known truth: processes, threads, devices, streams, products, ranks, graphs, unfinished calls.

usage: generate.py SEED    prints a trace

trace(seed) simulates a small machine. Each thread makes calls one after another; each stream executes in order; a wait returns when
what it waits for has ended. It returns the lines, in the order of their ends, as the tracer writes them.
"""
import collections
import json
import random
import sys

BASE = 1_000_000  # the first call, ns after the start of the trace
GEMM = {"m": 512, "n": 512, "k": 512, "batch": 1}
FLOPS = 2 * 512 ** 3


def ms(ns):
    return round(ns / 1e6, 6)


def us(ns):
    return round(ns / 1e3, 3)


class Machine:
    def __init__(self, rng):
        self.rng, self.lines, self.ids, self.correlation = rng, [], 0, 0
        self.grain = rng.choice([1, 5000])  # coarse: many calls begin and end at the same moments
        self.free = collections.Counter()  # by process, device and stream: when its last work ends

    def pick(self, low, high):
        return -(-self.rng.randrange(low, high) // self.grain) * self.grain

    def put(self, end, line):
        self.lines.append((end, len(self.lines), line))

    def call(self, t, begin, end, kind, op, name, **more):
        self.ids += 1
        line = {"ts": ms(begin), "type": kind, "op": op, "name": name, "symbol": name, "pid": t.pid, "tid": t.tid, "comm": "sim", "id": self.ids}
        self.put(end, {**line, "duration_us": us(end - begin), "result": 0, **more})
        return self.ids

    def execute(self, t, stream, submitted, took, op, call_id, **more):
        """Returns the end of the execution on the GPU."""
        key = t.pid, t.device, stream
        begin = max(self.free[key], submitted + self.pick(500, 4000))
        end = self.free[key] = begin + took
        self.correlation += 1
        self.put(end + 10_000_000_000, {
            "ts": ms(begin), "type": "gpu", "op": op, "name": op, "pid": t.pid, "tid": t.tid, "comm": "sim", "duration_us": us(took), "device": t.device,
            "context": t.device + 1, "gpu_stream": int(stream, 16) + 7, "correlation": self.correlation, "call_id": call_id, **more})
        return end


class Thread:
    """One loop: copies, launches, products, a wait."""

    def __init__(self, machine, pid, tid, device, stream, steps):
        self.m, self.pid, self.tid, self.device, self.stream, self.steps = machine, pid, tid, device, stream, steps
        rng = machine.rng
        self.now = BASE + machine.pick(0, 2_000_000)
        self.launches, self.kernel_ns = rng.randrange(1, 12), machine.pick(2_000, 200_000)
        self.copy = rng.choice([0, 4096, 3 << 20])
        self.products = rng.random() < 0.5
        self.pause = rng.choice([0, 10_000, 1_000_000])
        self.whole = rng.random() < 0.4  # waits for its context, and thus for other threads' streams of that context

    def begin(self):
        """The device's primary context."""
        for name, args in (("cuDevicePrimaryCtxRetain", {"pctx": hex(0xc000 + self.device), "dev": self.device}),
                           ("cuCtxSetCurrent", {"ctx": hex(0xc000 + self.device)})):
            begin, end = self.took(1000, 3000)
            self.m.call(self, begin, end, "context", "retain" if "dev" in args else "set", name, args=args)

    def took(self, low, high):
        begin = self.now + self.m.pick(100, 2000)
        self.now = begin + self.m.pick(low, high)
        return begin, self.now

    def launch(self, kernel, took, parent=None):
        begin, end = self.took(2000, 9000)
        more = {"parent": parent} if parent else {}
        i = self.m.call(self, begin, end, "kernel", "launch", "cuLaunchKernel", stream=self.stream, kernel=kernel, grid=[64, 1, 1], block=[128, 1, 1],
                        shared_mem=0, args={"hStream": self.stream}, **more)
        self.m.execute(self, self.stream, end, took, "kernel", i, kernel=kernel)

    def product(self):
        """A cuBLAS call whose operations run in two kernels."""
        begin = self.now + self.m.grain
        self.m.ids += 1
        i, self.now = self.m.ids, begin + self.m.grain
        self.launch("split", self.kernel_ns, i)
        self.launch("reduce", self.kernel_ns // 4, i)
        self.now += self.m.grain
        self.m.put(self.now, {
            "ts": ms(begin), "type": "blas", "op": "gemm", "name": "cublasGemmEx", "symbol": "cublasGemmEx", "api": "cublas", "pid": self.pid, "tid": self.tid,
            "comm": "sim", "id": i, "duration_us": us(self.now - begin), "result": 0, "stream": self.stream, **GEMM, "a_type": "CUDA_R_16BF",
            "b_type": "CUDA_R_16BF", "c_type": "CUDA_R_16BF", "compute_type": "CUBLAS_COMPUTE_32F", "flops": FLOPS, "args": {}})

    def transfer(self, direction):
        begin, end = self.took(3000, 20_000)
        name = f"cuMemcpy{direction}Async"
        host = "srcHost" if direction == "HtoD" else "dstHost"
        i = self.m.call(self, begin, end, "transfer", "copy", name, size=self.copy, ptr="0x7f0000000000", stream=self.stream, direction=direction,
                        args={host: "0x55550000", "ByteCount": self.copy, "hStream": self.stream})
        self.m.execute(self, self.stream, end, self.m.grain + self.copy // 25, "copy", i, size=self.copy, direction=direction)

    def wait(self):
        begin = self.now + self.m.pick(100, 3000)
        if self.whole:
            mine = [end for (pid, device, _), end in self.m.free.items() if (pid, device) == (self.pid, self.device)]
            self.now = max(begin, *mine) + 5000
            self.m.call(self, begin, self.now, "sync", "sync", "cuCtxSynchronize", args={})
            return
        self.now = max(begin + 5000, self.m.free[self.pid, self.device, self.stream] + 5000)
        self.m.call(self, begin, self.now, "sync", "sync", "cuStreamSynchronize", stream=self.stream, args={"hStream": self.stream})

    def run(self):
        """Pauses after each step, so that other threads can continue."""
        self.begin()
        yield
        for _ in range(self.steps):
            if self.copy:
                self.transfer("HtoD")
            for i in range(self.launches):
                if self.products and i % 3 == 0:
                    self.product()
                else:
                    self.launch(f"kernel{i % 3}", self.kernel_ns)
            if self.copy:
                self.transfer("DtoH")
            yield
            self.wait()
            self.now += self.pause


def trace(seed):
    rng = random.Random(seed)
    m, threads = Machine(rng), []
    processes, devices = rng.randrange(1, 4), rng.randrange(1, 3)
    for p in range(processes):
        pid = 1000 * (p + 1)
        m.put(BASE // 2, {"ts": ms(BASE // 2), "type": "process", "op": "exec", "name": "exec", "pid": pid, "tid": pid, "comm": "sim"})
        for device in range(devices):
            m.put(BASE, {"ts": ms(BASE), "type": "gpu_device", "op": "device", "name": "device", "pid": pid, "tid": pid, "comm": "", "device": device,
                         "uuid": f"GPU-{device:08x}-0000-0000-0000-000000000000", "pci": f"0000:0{device}:00.0", "model": "NVIDIA H100 80GB HBM3", "capability": 90,
                         "multiprocessors": 132, "clock_khz": 1980000})
        for i in range(rng.randrange(1, 4)):
            threads.append(Thread(m, pid, pid + i, rng.randrange(devices), hex(0x100 * (i + 1)), rng.randrange(5, 40)))
    running = [(t, t.run()) for t in threads]
    while running:
        # The thread that is furthest behind continues: a wait needs what others have submitted by then.
        at = min(range(len(running)), key=lambda i: running[i][0].now)
        if next(running[at][1], running) is running:
            del running[at]
    end = max(t.now for t in threads) + 1_000_000
    if rng.random() < 0.3:
        t = rng.choice(threads)
        m.ids += 1
        m.put(end, {"ts": ms(t.now + 100), "type": "sync", "op": "sync", "name": "cuCtxSynchronize", "symbol": "cuCtxSynchronize", "pid": t.pid, "tid": t.tid,
                    "comm": "sim", "id": m.ids, "unfinished": True, "elapsed_us": us(end - t.now - 100), "args": {}})
    return in_order(m, end, seed)


def in_order(m, end, seed):
    """The lines of a machine between header and end."""
    lines = [line for _, _, line in sorted(m.lines, key=lambda x: x[:2])]
    kinds = collections.Counter(x["type"] for x in lines)
    calls = [x for x in lines if "id" in x]
    unfinished = sum(1 for x in calls if x.get("unfinished"))
    head = {"ts": 0, "type": "header", "name": "cudatrace", "schema": 2, "version": "0", "command": ["sim", str(seed)], "host": "sim", "kernel": "6.1", "machine": "x86_64",
            "mechanism": "uprobe.session", "gpu_time": "graphs", "degraded": [], "clock": "CLOCK_MONOTONIC", "clock_base_ns": 1000000000,
            "wall_time": "2026-01-01T00:00:00.000000000Z"}
    tail = {"ts": ms(end), "type": "end", "name": "cudatrace", "reason": "command exited", "events": dict(kinds), "calls": len(calls), "entries": len(calls),
            "drops": {"calls": 0}, "bad_records": 0, "unfinished": unfinished, "abandoned": 0, "filtered": 0, "wall_ms": ms(end)}
    return [head, *lines, tail]


def main():
    for line in trace(int(sys.argv[1])):
        print(json.dumps(line))


if __name__ == "__main__":
    main()
