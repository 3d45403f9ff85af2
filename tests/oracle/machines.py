# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Traces of several machines, made from one trace of several ranks: each machine's lines get a clock of its own, which is known."""
import datetime
import json
import random
import re

NS = 10**9


class Clock:
    """Shows the true time plus an offset (ns), a drift (ppm) and steps, each a true time since the start (ns) and a size (ns, forward).
    base: the clock at the start; wall: how far the wall clock is ahead (ns)."""

    def __init__(self, wall=0, drift=0.0, steps=(), base=10**15, boot=None, host=None):
        self.wall, self.drift, self.steps, self.base, self.boot, self.host = wall, drift, steps, base, boot, host

    def __call__(self, ns):
        """From ns since the start to ns since the start on this clock."""
        return ns + round(ns * self.drift / 1e6) + sum(size for at, size in self.steps if ns >= at)


def nanoseconds(ts):
    """Exact: a time in ms has six decimals."""
    whole, _, part = str(ts).partition(".")
    return int(whole) * 10**6 + int((part + "000000")[:6])


def wall_ns(text):
    """The ns since 1970 of an RFC 3339 time with nanoseconds."""
    seconds, _, fraction = text.rstrip("Z").partition(".")
    return int(datetime.datetime.fromisoformat(seconds + "+00:00").timestamp()) * NS + int((fraction + "0" * 9)[:9])


def wall_time(text, more_ns):
    """Such a time, moved."""
    ns = wall_ns(text) + more_ns
    return datetime.datetime.fromtimestamp(ns // NS, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S") + f".{ns % NS:09d}Z"


TS = re.compile(r'^\{"ts":(-?[0-9.]+)')


def shifted(lines, clock, keep=lambda pid: True):
    """The lines of some processes, as text, with times of that clock; header and end with them."""
    out = []
    for line in lines:
        pid = re.search(r'"pid":(\d+)', line[:300])
        if '"type":"header"' in line[:60]:
            head = json.loads(line)
            head["clock_base_ns"] = clock.base
            head["wall_time"] = wall_time(head["wall_time"], clock.wall)
            head["boot_id"] = clock.boot or f"boot-{clock.base}"
            head["host"] = clock.host or f"node{clock.base % 97}"
            out.append(json.dumps(head, separators=(",", ":")) + "\n")
        elif not pid or keep(int(pid[1])):
            at = TS.match(line)
            ns = clock(nanoseconds(at[1]))
            line = f'{{"ts":{ns // 10**6}.{ns % 10**6:06d}' + line[at.end():]
            out.append(line)
    return out


def overlap(a, b):
    """An independent computation from two files of ranks with GPU times: for each collective of both, how far the clock of b may be ahead
    of that of a: between these limits, at this time of b (ns)."""
    def spans(lines):
        launch, call, seen = {}, {}, {}
        for line in lines:
            if '"kernel":"nccl' not in line and '"type":"collective"' not in line:
                continue
            e = json.loads(line)
            if e["type"] == "kernel":
                launch[e["id"]] = e.get("parent")
            elif e["type"] == "collective" and e.get("op") == "all_reduce" and e.get("seq"):
                call[e["id"]] = (e["communicator"], e["seq"])
            elif e["type"] == "gpu":
                which = call.get(launch.get(e.get("call_id")))
                if which:
                    begin = nanoseconds(e["ts"])
                    seen.setdefault(which, []).append((begin, begin + round(e["duration_us"] * 1000)))
        return {k: (max(x[0] for x in v), min(x[1] for x in v)) for k, v in seen.items()}
    a, b = spans(a), spans(b)
    return [(b[k][0], b[k][0] - a[k][1], b[k][1] - a[k][0]) for k in sorted(a.keys() & b.keys())]


class Fleet:
    """A job of many ranks on machines with clocks of their own: each step each rank runs a kernel and an all-reduce over all ranks.
    slow: (machine, factor of its kernels); late: (rank, every nth step, ns). It knows when each collective began and ended."""

    def __init__(self, ranks=16, machines=4, steps=300, slow=None, late=None, seed=1, clocks=None, gpu=True, step_ns=4_000_000, filler=0):
        rng = self.rng = random.Random(seed)
        self.per, self.steps, self.gpu, self.filler = ranks // machines, steps, gpu, filler
        self.clocks = clocks or [Clock(base=10**15 + i * 7 * 10**12, wall=rng.randint(-50_000_000, 50_000_000), drift=rng.uniform(-50, 50), host=f"node{i}")
                                 for i in range(machines)]
        self.lines = [[] for _ in range(ranks)]
        now = 50_000_000
        ids = [r * 10**9 for r in range(ranks)]
        for n in range(1, steps + 1):
            work = [int(step_ns / 2 * (slow[1] if slow and r // self.per == slow[0] else 1) * rng.uniform(0.97, 1.03)) for r in range(ranks)]
            extra = [late[2] if late and r == late[0] and n % late[1] == 0 else 0 for r in range(ranks)]
            enter = [now + extra[r] + work[r] + rng.randint(0, 20_000) for r in range(ranks)]
            last = max(enter)
            for r in range(ranks):
                leave = last + 9_000 + int(rng.expovariate(1 / 4000))
                self.rank_step(r, n, ids, now + extra[r], work[r], enter[r], leave)
            now = last + 60_000
        self.end = now + 1_000_000

    def put(self, rank, end, line):
        self.lines[rank].append((end, line))

    def rank_step(self, r, n, ids, begin, work, enter, leave):
        who = {"pid": 1000 + r, "tid": 1000 + r, "comm": "python"}

        def clock(ns):
            ns = self.clocks[r // self.per](ns)
            return f"{ns // 10**6}.{ns % 10**6:06d}"

        def call(at, kind, op, name, duration, more):
            ids[r] += 1
            self.put(r, at + duration, f'{{"ts":{clock(at)},"type":"{kind}","op":"{op}","name":"{name}","symbol":"{name}","pid":{who["pid"]},"tid":{who["tid"]},'
                     f'"comm":"python","id":{ids[r]},"duration_us":{duration / 1e3:.3f},"result":0{more}}}\n')
            return ids[r]

        def execution(at, duration, kernel, launch):
            self.put(r, at + duration + 600_000, f'{{"ts":{clock(at)},"type":"gpu","op":"kernel","name":"kernel","pid":{who["pid"]},"tid":{who["tid"]},'
                     f'"comm":"python","duration_us":{duration / 1e3:.3f},"device":{r % self.per},"context":1,"gpu_stream":7,"kernel":"{kernel}",'
                     f'"correlation":{launch},"call_id":{launch},"call":"cuLaunchKernel"}}\n')

        first = call(begin, "kernel", "launch", "cuLaunchKernel", 5_000, ',"stream":"0x100","kernel":"gemm","grid":[8,1,1],"block":[128,1,1],"args":{}')
        for i in range(self.filler):
            call(begin + 6_000 + i * 200, "memory", "free", "cuMemFreeAsync", 100, ',"stream":"0x100","args":{"dptr":"0x7f00deadbeef","hStream":"0x100"}')
        outer = ids[r] + 2
        inner = call(begin + work - 400_000 + 2_000, "kernel", "launch", "cuLaunchKernelEx", 4_000, f',"parent":{outer},"depth":1,"api_depth":0,"stream":"0x100",'
                     '"kernel":"ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)","grid":[8,1,1],"block":[128,1,1],"args":{}')
        assert outer == call(begin + work - 400_000, "collective", "all_reduce", "ncclAllReduce", 10_000,
                             f',"api":"nccl","stream":"0x100","count":1024,"datatype":"float32","bytes":4096,"communicator":"0xabc","rank":{r},"nranks":{len(self.lines)},'
                             f'"seq":{n},"args":{{}}')
        call(enter + 1_000, "sync", "sync", "cuStreamSynchronize", leave + 2_000 - enter, ',"stream":"0x100","args":{"hStream":"0x100"}')
        if self.gpu:
            execution(begin + 8_000, work - 8_000, "gemm", first)
            execution(enter, leave - enter, "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", inner)

    def write(self, folder):
        """One file per rank. Returns their paths."""
        paths = []
        for r, lines in enumerate(self.lines):
            c = self.clocks[r // self.per]
            head = {"ts": 0, "type": "header", "name": "cudatrace", "schema": 2, "version": "0", "command": ["sim"], "host": c.host, "kernel": "6.1", "machine": "x86_64",
                    "mechanism": "uprobe.session", **({"gpu_time": "graphs"} if self.gpu else {}), "degraded": [], "clock": "CLOCK_MONOTONIC", "clock_base_ns": c.base,
                    "wall_time": wall_time("2026-01-01T00:00:00.000000000Z", c.wall), "boot_id": c.boot or f"boot-{c.base}"}
            lines.sort(key=lambda x: x[0])
            types = {}
            for _, line in lines:
                kind = re.search('"type":"([a-z]+)"', line)[1]
                types[kind] = types.get(kind, 0) + 1
            calls = sum('"id":' in x for _, x in lines)
            end = {"ts": c(self.end) / 1e6, "type": "end", "name": "cudatrace", "reason": "command exited", "events": types, "calls": calls, "entries": calls,
                   "drops": {"calls": 0}, "bad_records": 0, "unfinished": 0, "abandoned": 0, "filtered": 0, "wall_ms": c(self.end) / 1e6}
            if self.gpu:
                end.update({"gpu_launches_timed": calls, "gpu_records": calls, "gpu_clock_error_ns": 500, "gpu_clock_steps": 0})
            paths.append(f"{folder}/{c.host}.{r}.jsonl")
            with open(paths[-1], "w", encoding="utf-8") as f:
                f.write(json.dumps(head, separators=(",", ":")) + "\n")
                f.writelines(line for _, line in lines)
                f.write(json.dumps(end, separators=(",", ":")) + "\n")
        return paths
