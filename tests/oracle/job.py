# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A simulated job: four ranks, tensor-parallel pairs times data-parallel pairs. All have the same steps, which end with a wait for all
ranks. Known: the number and times of steps, which rank is late, how often and by how much."""
import collections

import simulate

CALL, STEP, KERNEL = 4_000, 880_000, "void step_kernel<8>(float*)"
FIRST = 10_000_000


class Job:
    """late: (rank, every, ns): it sleeps before its first collective of each every-th step. logs: (rank, every): it copies and waits once
    more at the end of these steps. ranked: the environment has the global ranks; base: that of the first process."""

    def __init__(self, steps=200, late=None, logs=None, ranked=True, base=0):
        self.trace, self.steps, self.ends, self.seq = simulate.Trace(), steps, [], collections.Counter()
        self.late, self.logs, self.base = late, logs, base
        for rank in range(4):
            w, now = self.worker(rank), 1_000_000 + rank * 1000
            for name in ["exec"] + ["rank"] * ranked:
                more = {"global_rank": base + rank} if name == "rank" else {}
                self.trace.put(now, ts=now / 1e6, type="job" if more else "process", op=name, name=name, pid=w["pid"], tid=w["tid"], comm="sim", **more)
            self.trace.call(w, now, CALL, "init", "init", "cuInit", args={"Flags": 0})
            self.trace.call(w, now + 2 * CALL, CALL, "context", "retain", "cuDevicePrimaryCtxRetain", args={"pctx": "0x5000", "dev": 0})
            self.trace.call(w, now + 4 * CALL, CALL, "context", "set", "cuCtxSetCurrent", args={"ctx": "0x5000"})
        begin = FIRST
        for i in range(steps):
            begin = self.step(i, begin)

    def worker(self, rank):
        return {"pid": 700 + rank, "tid": 700 + rank, "device": 0}

    def launch(self, w, now, kernel, **more):
        return self.trace.call(w, now, CALL, "kernel", "launch", "cuLaunchKernel", stream="0x100", kernel=kernel, grid=[8, 1, 1], block=[128, 1, 1], shared_mem=0,
                               args={"hStream": "0x100"}, **more)

    def reduce(self, rank, now, axis):
        """The pair of ranks rank and rank ^ 1, or rank and rank ^ 2."""
        w, t = self.worker(rank), self.trace
        comm, place = (0x10 + rank // 2, rank % 2) if axis == "tp" else (0x20 + rank % 2, rank // 2)
        self.seq[comm, rank] += 1
        t.ids += 1
        outer = t.ids
        self.launch(w, now + 1000, "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", parent=outer, depth=1, api_depth=0)
        end = now + CALL + 3000
        t.put(end, ts=now / 1e6, type="collective", op="all_reduce", name="ncclAllReduce", symbol="ncclAllReduce", api="nccl", pid=w["pid"], tid=w["tid"],
              comm="sim", id=outer, duration_us=(end - now) / 1e3, result=0, stream="0x100", count=1 << 20, datatype="float32", redop="sum", bytes=4 << 20,
              communicator=hex(comm), rank=place, nranks=2, seq=self.seq[comm, rank], args={})
        return end + 1000

    def step(self, i, begin):
        is_late = self.late and i % self.late[1] == self.late[1] - 1
        end = begin + STEP + (self.late[2] if is_late else 0)
        after = []
        for rank in range(4):
            w, now = self.worker(rank), begin + 5_000 * rank + (self.late[2] if is_late and rank == self.late[0] else 0)
            for _ in range(3):
                self.launch(w, now, KERNEL)
                now = self.reduce(rank, now + CALL + 20_000, "tp")
            now = self.reduce(rank, now + 20_000, "dp")
            self.launch(w, now, KERNEL)
            now += CALL + 1000
            self.trace.call(w, now, end - now, "sync", "sync", "cuCtxSynchronize")
            now = end
            if self.logs and rank == self.logs[0] and i % self.logs[1] == self.logs[1] - 1:
                for _ in range(6):
                    self.launch(w, now + 1000, "void loss_kernel(float*)")
                    now += CALL + 1000
                self.trace.call(w, now + 1000, 20_000, "sync", "sync", "cuCtxSynchronize")
                now += 21_000
            after.append(now)
        self.ends.append(end)
        return max(after) + 10_000

    def lines(self):
        lines = [x for _, _, x in sorted(self.trace.lines, key=lambda x: x[:2])]
        calls = sum(1 for x in lines if "id" in x)
        end = (self.ends[-1] + 1_000_000) / 1e6
        head = {"ts": 0, "type": "header", "name": "cudatrace", "schema": 2, "version": "0", "command": ["sim"], "host": "sim", "kernel": "6.1", "machine": "x86_64",
                "mechanism": "uprobe.session", "degraded": [], "clock": "CLOCK_MONOTONIC", "clock_base_ns": 10**9, "wall_time": "2026-01-01T00:00:00.000000000Z"}
        return [head, *lines, {"ts": end, "type": "end", "name": "cudatrace", "reason": "command exited", "events": collections.Counter(x["type"] for x in lines),
                               "calls": calls, "entries": calls, "drops": {"calls": 0}, "bad_records": 0, "unfinished": 0, "abandoned": 0, "filtered": 0,
                               "wall_ms": end}]
