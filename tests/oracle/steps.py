# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Simulated loops with a known critical path, for what tests/steps.c cannot know: the simulator records what each call and execution waited for, and what a step would take with
other costs, because it runs the program again with them.

A program is a function of (Machine, number of the step). Machine(host, gpu, free, no_wait, kernels, fuse, apart, graph, overhead) has the costs: factors of
host and GPU time, functions that take no time, functions that do not wait, factors of kernels, a name whose consecutive kernels are one, whether
only NCCL's kernels wait for NCCL's kernels, a range that is a CUDA graph, the overhead of a traced call. prepare: a factor of the time that
input() takes.
"""
import collections

import simulate

CALL, NAP = 4_000, 1_000      # a call, and the host's time before it, ns
START, GAP, BACK = 3_000, 800, 2_000  # from a launch's return to its start; between executions; from the end of the work to the wait's return
MAIN = 500
GRAPH_NS, NODE_GAP = 6_500, 300  # launch of a graph of four nodes, and the gap between them: docs/measured/step.md

Node = collections.namedtuple("Node", "begin end kind name before until work")  # work: the execution that a call was blocked by, until its end
Work = collections.namedtuple("Work", "begin end kind name before call submitted")


class Machine:
    def __init__(self, host=1, gpu=1, free=(), no_wait=(), kernels=(), fuse=None, apart=False, graph=None, overhead=0, prepare=1):
        self.host_factor, self.gpu_factor, self.free, self.no_wait, self.kernels = host, gpu, free, no_wait, dict(kernels)
        self.trace, self.tid, self.now, self.last = simulate.Trace(), MAIN, 1_000_000, None
        self.streams, self.blocking, self.events, self.all, self.pending, self.ends = {}, set(), {}, None, {}, []
        self.overhead = overhead
        self.fuse, self.apart, self.graph_range, self.fused, self.nodes, self.launched = fuse, apart, graph, False, None, None
        self.prepare, self.stacks, self.stack = prepare, {}, None
        self.waited = None  # the last wait's return, its node, and when all submitted work was done

    def w(self):
        return {"pid": MAIN, "tid": self.tid, "device": 0}

    def made(self):
        return {"stack": self.stack} if self.stack else {}

    def host(self, ns):
        """Time outside calls."""
        begin, self.now = self.now, self.now + round(ns * self.host_factor)
        if self.now > begin:
            self.last = Node(begin, self.now, "between", None, self.last, 0, None)

    def input(self, ns):
        """Time outside calls in which input is prepared."""
        self.host(ns * self.prepare)

    def at(self, *frames):
        """The next calls are made here: "train.py:15 main", innermost first."""
        if frames not in self.stacks:
            self.stacks[frames] = len(self.stacks) + 1
            python = [{"function": f.split()[1], "file": f.split()[0].split(":")[0], "line": int(f.split()[0].split(":")[1])} for f in frames]
            self.trace.put(self.now, ts=self.now / 1e6, type="stack", op="stack", name="stack", pid=MAIN, tid=MAIN, comm="sim", id=self.stacks[frames], frames=[],
                           python=python)
        self.stack = self.stacks[frames]

    def beside(self, tid, begin, ns, *frames):
        """A query of another thread, which nothing waits for."""
        stack = self.stack
        self.at(*frames)
        self.trace.call({**self.w(), "tid": tid}, begin, ns, "event", "query", "cuEventQuery", event="0x9", stack=self.stack, args={"hEvent": "0x9"})
        self.stack = stack

    def call(self, line_type, op, name, kind, ns=CALL, nap=NAP, blocked_by=None, **more):
        """blocked_by: it returns after this execution."""
        self.host(nap + self.overhead)
        begin, factor = self.now, 0 if name in self.free else self.host_factor
        took = 0 if name in self.no_wait else round(ns * factor)
        until = blocked_by.end if blocked_by and blocked_by.end > begin and name not in self.no_wait else 0
        self.now = until + round(BACK * factor) if until else begin + took
        number = self.trace.call(self.w(), begin, self.now - begin, line_type, op, name, **more, **self.made())
        self.launched = more.get("kernel")
        self.last = Node(begin, self.now, kind, name, self.last, until, blocked_by if until else None)
        return number

    def submit(self, number, call_end, op, kernel, ns, stream, submitted=None):
        """An execution on this stream; 0 is the legacy default stream."""
        before = [self.streams.get(stream), self.pending.pop(stream, None)]
        if stream == 0:
            before += [self.streams.get(s) for s in self.blocking]
        elif stream in self.blocking:
            before.append(self.streams.get(0))
        before = [x for x in before if x and not (self.apart and "nccl" in (x.name or "") and "nccl" not in (kernel or ""))]
        before = max(before, key=lambda x: x.end, default=None)
        start = call_end + START
        gap = NODE_GAP if self.nodes else 0 if self.fused else GAP
        if before and before.end + gap > start:
            start = before.end + gap
        late = not before or before.end < call_end
        factor = self.gpu_factor * next((f for name, f in self.kernels.items() if kernel and name in kernel), 1)
        end = start + round(ns * factor)
        more = {"kernel": kernel} if kernel else {"size": 4096, "direction": "HtoD"} if op == "copy" else {}
        self.trace.execute(self.w(), start, end - start, op, number, {0: 7}.get(stream, stream), **more)
        work = Work(start, end, "communication" if "nccl" in (kernel or "") else op, kernel, None if late else before, self.last, call_end)
        self.streams[stream] = work
        self.all = max([x for x in (self.all, work) if x], key=lambda x: x.end)
        return work

    def launch(self, kernel, ns, stream=0x100, call_ns=CALL, nap=NAP):
        self.fused = bool(self.fuse and self.launched and self.fuse in kernel and self.fuse in self.launched)
        if self.fused:
            call_ns = nap = 0
        if self.nodes is not None:
            call_ns, nap = 0 if self.nodes else GRAPH_NS, 0
            self.nodes += 1
        number = self.call("kernel", "launch", "cuLaunchKernel", "launch", call_ns, nap, stream=hex(stream), kernel=kernel, grid=[8, 1, 1], block=[128, 1, 1],
                           shared_mem=0, args={"hStream": hex(stream)})
        return self.submit(number, self.now, "kernel", kernel, ns, stream)

    def range(self, text, part):
        """What part does is in an NVTX range."""
        begin = self.now
        self.nodes = 0 if self.graph_range == text else None
        part()
        self.nodes = None
        self.trace.ids += 1
        self.trace.put(self.now, ts=begin / 1e6, type="range", op="push", name=text, text=text, pid=MAIN, tid=self.tid, comm="sim", id=self.trace.ids, level=0,
                       duration_us=(self.now - begin) / 1e3)

    def graph(self, ns, stream=0x100, call_ns=6000):
        number = self.call("graph", "launch", "cuGraphLaunch", "launch", call_ns, stream=hex(stream), args={"hGraphExec": "0x8000", "hStream": hex(stream)})
        return self.submit(number, self.now, "graph", None, ns, stream)

    def copy_async(self, ns, stream=0x200, size=1 << 20, ptr="0x7f0000100000", direction="HtoD"):
        number = self.call("transfer", "copy", f"cuMemcpy{direction}Async", "copy_call", size=size, ptr="0x55550000", stream=hex(stream), direction=direction,
                           args={"dstDevice": ptr, "srcHost": "0x55550000", "ByteCount": size, "hStream": hex(stream)})
        return self.submit(number, self.now, "copy", None, ns, stream)

    def copy(self, ns, prepare=5_000, size=4096, direction="DtoH"):
        """A copy that waits, on the legacy default stream. prepare: from the call to its start on an idle GPU."""
        self.host(NAP)
        begin, outer = self.now, self.last
        before = [self.streams.get(s) for s in (0, *self.blocking)]
        before = max([x for x in before if x], key=lambda x: x.end, default=None)
        name = f"cuMemcpy{direction}"
        start = begin + round(prepare * self.host_factor)
        late = not before or before.end < begin
        if before and before.end + GAP > start:
            start = before.end + GAP
        end = start + round(ns * self.gpu_factor)
        node = Node(begin, start, "copy_call", name, outer, 0, None)
        work = Work(start, end, "copy", None, None if late else before, node, start)
        self.now = end + round(BACK * self.host_factor)
        number = self.trace.call(self.w(), begin, self.now - begin, "transfer", "copy", name, size=size, ptr="0x66660000", direction=direction,
                                 args={"dstHost": "0x66660000", "srcDevice": "0x7f0000000000", "ByteCount": size} if direction == "DtoH" else
                                 {"dstDevice": "0x7f0000000000", "srcHost": "0x66660000", "ByteCount": size}, **self.made())
        self.trace.execute(self.w(), start, end - start, "copy", number, 7, size=size, direction=direction)
        self.last = Node(begin, self.now, "copy_call", name, outer, end, work)
        self.streams[0] = work
        self.all = max([x for x in (self.all, work) if x], key=lambda x: x.end)
        self.waited = self.now, self.last, max(self.now, self.all.end)

    def wait(self, what="ctx", ns=2_000):
        name, more, target = {"ctx": ("cuCtxSynchronize", {}, self.all)}.get(what) or (
            ("cuEventSynchronize", {"event": hex(what[1])}, self.events.get(what[1])) if isinstance(what, tuple) else
            ("cuStreamSynchronize", {"stream": hex(what)}, max([x for x in (self.streams.get(what), self.pending.get(what)) if x], key=lambda x: x.end, default=None)))
        args = {"hEvent": more["event"]} if "event" in more else {"hStream": more["stream"]} if "stream" in more else {}
        self.call("event" if "event" in more else "sync" if what == "ctx" else "stream", "sync", name, "wait_return", ns, blocked_by=target, **more, args=args)
        self.waited = self.now, self.last, max(self.now, self.all.end)

    def record(self, event, stream=0x100):
        self.call("event", "record", "cuEventRecord", "call", 1_000, stream=hex(stream), event=hex(event), args={"hEvent": hex(event), "hStream": hex(stream)})
        done = [self.streams.get(stream), self.pending.get(stream)]
        self.events[event] = max([x for x in done if x], key=lambda x: x.end, default=None)

    def wait_event(self, event, stream):
        self.call("stream", "wait", "cuStreamWaitEvent", "call", 1_000, stream=hex(stream), event=hex(event), args={"hStream": hex(stream), "hEvent": hex(event), "Flags": 0})
        both = [self.pending.get(stream), self.events.get(event)]
        self.pending[stream] = max([x for x in both if x], key=lambda x: x.end, default=None)

    def stream(self, handle, is_blocking=False):
        self.call("stream", "create", "cuStreamCreate", "call", stream=hex(handle),
                  args={"phStream": hex(handle), "Flags": "CU_STREAM_DEFAULT" if is_blocking else "CU_STREAM_NON_BLOCKING"})
        if is_blocking:
            self.blocking.add(handle)

    def plan(self, ns):
        self.call("dnn", "finalize", "cudnnBackendFinalize", "plan", ns, api="cudnn", args={"descriptor": "0x38bee400"})

    def run(self, program, steps, start=None):
        self.trace.put(self.now, ts=self.now / 1e6, type="process", op="exec", name="exec", pid=MAIN, tid=MAIN, comm="sim")
        self.trace.put(self.now, ts=self.now / 1e6, type="gpu_device", op="device", name="device", pid=MAIN, tid=MAIN, comm="", device=0,
                       uuid="GPU-00000000-0000-0000-0000-000000000000", pci="0000:00:00.0", model="NVIDIA H100 80GB HBM3", capability=90, multiprocessors=132,
                       clock_khz=1980000)
        self.call("init", "init", "cuInit", "call", args={"Flags": 0})
        self.call("context", "retain", "cuDevicePrimaryCtxRetain", "call", args={"pctx": "0x5000", "dev": 0})
        self.call("context", "set", "cuCtxSetCurrent", "call", args={"ctx": "0x5000"})
        # Memory of asynchronous copies.
        self.call("memory", "alloc_host", "cuMemAllocHost", "memory", size=1 << 20, ptr="0x55550000", args={"pp": "0x55550000", "bytesize": 1 << 20})
        for handle in (0x100, 0x200, 0x300):
            self.stream(handle)
        if start:
            start(self)
        for i in range(steps):
            program(self, i)
            self.ends.append(self.waited)
        return self

    def step_ns(self, i):
        """Until all that the host had submitted was done, too."""
        return self.ends[i][2] - self.ends[i - 1][2]

    def median_ns(self):
        """Of all steps but the first, whose begin depends on the calls before it."""
        return sorted(map(self.step_ns, range(1, len(self.ends))))[(len(self.ends) - 2) // 2]

    def lines(self):
        lines = [x for _, _, x in sorted(self.trace.lines, key=lambda x: x[:2])]
        events = collections.Counter(x["type"] for x in lines)
        calls = sum(1 for x in lines if "id" in x and x["type"] != "stack")
        end = (max(self.now, self.all.end if self.all else 0) + 10_000) / 1e6
        head = {"ts": 0, "type": "header", "name": "cudatrace", "schema": 2, "version": "0", "command": ["sim"], "host": "sim", "kernel": "6.1", "machine": "x86_64",
                "mechanism": "uprobe.session", "gpu_time": "graphs", "degraded": [], "clock": "CLOCK_MONOTONIC", "clock_base_ns": 10**9,
                "wall_time": "2026-01-01T00:00:00.000000000Z"}
        return [head, *lines, {"ts": end, "type": "end", "name": "cudatrace", "reason": "command exited", "events": events, "calls": calls, "entries": calls,
                               "drops": {"calls": 0}, "bad_records": 0, "unfinished": 0, "abandoned": 0, "filtered": 0, "wall_ms": end, "probe_cost_ns": self.overhead, "cost_ms": self.overhead * calls / 1e6}]

    def path(self, i):
        """The time of each (kind, name) on the critical path of step i, found backwards from the end of the last step."""
        low, high = self.ends[i - 1][0], self.ends[i][0]
        parts, node, t = collections.Counter(), self.ends[-1][1], self.ends[-1][0]

        def piece(begin, kind, name):
            nonlocal t
            parts[kind, name] += max(0, min(t, high) - max(begin, low))
            t = min(t, begin)
        while node and t > low:
            if isinstance(node, Work):
                piece(node.begin, node.kind, node.name)
                if node.before:
                    # Within a copy call that waits, the host has a share in the gap.
                    piece(node.before.end, *(("copy_call", node.call.name) if node.call.kind == "copy_call" and node.submitted == node.begin else ("gpu_gap", None)))
                    node = node.before
                else:
                    piece(node.submitted, "launch_latency", None)
                    node = node.call._replace(until=0)
            elif node.until:
                piece(node.until, "wait_return", node.name)
                node = node.work
            else:
                piece(node.begin, node.kind, node.name)
                node = node.before
        return +parts


# Loops with one planted problem each, and healthy ones: what the first part of the path must be, and the finding; None: there is none for it.

def launches(m, count, ns, stream=0x100):
    for k in range(count):
        m.launch(f"k{k % 3}", ns, stream)


def plans(m, i):
    m.plan(400_000)
    launches(m, 6, 20_000)
    m.wait(0x100)


def pageable(m, i):
    m.copy(150_000, prepare=400_000, size=1 << 20, direction="HtoD")
    launches(m, 6, 20_000, 0)
    m.wait(0)


def pinned(m, i):
    """The same from pinned memory: 1 MiB at 53 GB/s."""
    m.copy(19_784, prepare=START, size=1 << 20, direction="HtoD")
    launches(m, 6, 20_000, 0)
    m.wait(0)


def copies(m, i, cnt=60):
    """Many small copies to the device, then a computation."""
    for _ in range(cnt):
        m.copy_async(1_000, 0x100, 4096)
    launches(m, 6, 20_000)
    m.wait(0x100)


def one_copy(m, i):
    copies(m, i, 1)


def queried(m, i):
    queries(m)
    launches(m, 6, 20_000)
    m.wait(0x100)


def synchronous(m, i):
    m.at(DONE)
    for k in range(8):
        m.launch(f"k{k % 3}", 3_000)
        m.wait(0x100, ns=15_000)
    m.host(2_000)


def small(m, i):
    launches(m, 60, 1_000)
    m.wait(0x100)


def as_graph(m, i):
    """The same in one graph of 60 nodes: docs/measured/step.md."""
    m.graph(60 * 1_000 + 59 * NODE_GAP, call_ns=6_000 + 60 * 125)
    m.wait(0x100)


def late_thread(m, i):
    """Another thread launches the work, and the main thread waits for it."""
    main = m.tid
    m.tid = main + 1
    m.input(400_000)
    launches(m, 6, 10_000)
    m.tid = main
    launches(m, 6, 10_000)
    m.wait(0x100)


def bound(m, i):
    launches(m, 6, 40_000)
    m.launch("slow", 900_000)
    m.wait(0x100)


def not_overlapped(m, i):
    m.copy_async(500_000)
    m.record(0x1, 0x200)
    m.wait_event(0x1, 0x100)
    launches(m, 6, 30_000)
    m.wait(0x100)


def overlapped(m, i):
    m.copy_async(500_000)
    launches(m, 6, 30_000)
    m.wait(0x100)


def unneeded(m, i):
    """The main stream waits for a kernel of another stream."""
    m.launch("side", 600_000, 0x300)
    m.record(0x1, 0x300)
    m.wait_event(0x1, 0x100)
    launches(m, 6, 30_000)
    m.wait(0x100)


def host_between(m, i):
    launches(m, 6, 30_000)
    m.wait(0x100)
    m.input(800_000)


def healthy_kernels(m, i):
    launches(m, 20, 60_000)
    m.wait(0x100)


def healthy_graph(m, i):
    for _ in range(6):
        m.graph(300_000)
    m.wait(0x100)


def collectives(m, i):
    """Three buckets are sent on a second stream, and the main stream waits for each."""
    for k in range(3):
        m.launch(f"k{k}", 40_000)
        m.record(0x1)
        m.wait_event(0x1, 0x300)
        m.launch("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 80_000, 0x300)
        m.record(0x2, 0x300)
        m.wait_event(0x2, 0x100)
    m.launch("k3", 40_000)
    m.wait()


def only_collectives(m, i):
    """There is nothing to overlap them with."""
    m.launch("k", 2_000)
    for _ in range(3):
        m.launch("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 400_000)
    m.wait()


def small_collectives(m, i, cnt=8):
    """As PyTorch does it: a stream of NCCL's, events before and after each collective, and calls about contexts and functions in between."""
    m.launch("k", 10_000)
    for _ in range(cnt):
        begin = m.now
        for _ in range(4):
            m.call("context", "set", "cuCtxSetCurrent", "call", 200, 100, args={"ctx": "0x8100"})
        m.record(0x1)
        m.wait_event(0x1, 0x300)
        m.call("module", "lookup", "cuKernelGetFunction", "module", 900, args={"kernel": "0x8200"})
        m.launch("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 12_000, 0x300)
        m.trace.call(m.w(), begin, m.now - begin, "collective", "all_reduce", "ncclAllReduce", api="nccl", communicator="0xc0", rank=0, nranks=2,
                     count=1024, datatype="float32", redop="sum", bytes=4096)
        for _ in range(4):
            m.call("context", "set", "cuCtxSetCurrent", "call", 200, 100, args={"ctx": "0x8100"})
        m.record(0x2, 0x300)
        m.wait_event(0x2, 0x100)
    m.launch("k", 10_000)
    m.wait(0x100)


def one_bucket(m, i):
    small_collectives(m, i, 1)


def elementwise(m, i):
    m.launch("gemm", 1_500)
    for k in range(5):
        m.launch(f"elementwise{k}", 1_500)
    m.launch("gemm", 1_500)
    m.wait(0x100)


def in_ranges(m, i):
    launches(m, 4, 2_000)
    for _ in range(3):
        m.range("layer", lambda: launches(m, 4, 2_000))
    m.wait(0x100)


# Loops in which no calls, kernels or ranges can be joined or kept.

def at_start(m):
    """What is queried once needs no cache."""
    queries(m, 300)


def queries(m, cnt=60):
    for _ in range(cnt):
        m.call("memory", "query", "cuPointerGetAttribute", "memory", args={"data": "0x7ffc00001000", "attribute": 1, "ptr": "0x7f0000000000"})


def once(m, i):
    if i == 9:
        queries(m)
    launches(m, 6, 20_000)
    m.wait(0x100)


def polled(m, i):
    launches(m, 6, 20_000)
    for _ in range(60):
        m.call("event", "query", "cuEventQuery", "call", event="0x9", args={"hEvent": "0x9"})
    m.wait(0x100)


def two_streams(m, i):
    """Neither the kernels nor the copies that follow each other are on one stream."""
    for k in range(12):
        m.launch("elementwise", 1_500, (0x100, 0x300)[k % 2])
    for k in range(12):
        m.copy_async(1_000, (0x100, 0x300)[k % 2], 4096)
    m.wait()


def long_kernels(m, i):
    for _ in range(20):
        m.launch("elementwise", 55_000)
    m.wait(0x100)


def range_with_wait(m, i):
    def part():
        launches(m, 4, 2_000)
        m.wait(0x100)
        launches(m, 4, 2_000)
    launches(m, 4, 2_000)
    m.range("layer", part)
    m.wait(0x100)


def range_of_graph(m, i):
    """The layer consists of graphs already; the rest is launched by itself."""
    m.range("layer", lambda: [m.graph(3_000) for _ in range(3)])
    launches(m, 6, 2_000)
    m.wait(0x100)


def range_of_all(m, i):
    """All is in the range: it is the step."""
    m.range("layer", lambda: launches(m, 12, 2_000))
    m.wait(0x100)


# Loops that load data. Frames are those of calls: a trace has none of the time between them.
LOOP, DONE = "/app/train.py:15 main", "/app/train.py:20 main"
LOADER = ("/lib/torch/utils/data/_utils/pin_memory.py:98 pin_memory", "/lib/torch/utils/data/dataloader.py:790 _next_data",
          "/lib/torch/utils/data/dataloader.py:730 __next__", "/app/train.py:14 main")
PINS = ("/lib/torch/utils/data/_utils/pin_memory.py:41 do_one_step", "/lib/threading.py:1012 run")
OTHER = ("/app/metrics.py:30 Metrics.flush", "/lib/threading.py:1012 run")


def computed(m, ns=60_000):
    m.at(LOOP)
    m.copy_async(20_000, 0x100)
    launches(m, 10, ns)
    m.at(DONE)
    m.wait(0x100)


def loads(m, i):
    """A loader without workers: 5 ms in Python, then the batch is copied."""
    m.input(5_000_000)
    computed(m)


def loads_varied(m, i):
    """Not in each step, and not always as long."""
    m.input((4_000_000, 1_500_000, 0)[i % 3])
    computed(m, 400_000 if i % 5 == 0 else 60_000)


def waits_seldom(every):
    def loads_on(m, i):
        """Not each step ends with a wait."""
        m.input(5_000_000)
        m.at(LOOP)
        m.copy_async(20_000, 0x100)
        launches(m, 10, 60_000)
        if i % every == every - 1:
            m.wait(0x100)
        m.waited = m.now, m.last, max(m.now, m.all.end)
    return loads_on


def pins(m, i):
    """The library itself makes a call, before the batch is copied: to pinned memory."""
    m.input(3_000_000)
    m.at(*LOADER)
    m.call("event", "query", "cuEventQuery", "call", event="0x9", args={"hEvent": "0x9"})
    computed(m)


def stalls(m, i):
    """Workers do not keep up: each fourth batch is late."""
    m.input(12_000_000 if i % 4 == 3 else 60_000)
    computed(m)


def hidden(m, i):
    """The next batch is loaded while the GPU computes."""
    m.at(LOOP)
    m.copy_async(20_000, 0x100)
    launches(m, 10, 800_000)
    m.input(5_000_000)
    m.at(DONE)
    m.wait(0x100)


def handed_over(m, i):
    """Workers have prepared it: taking it over needs 100 us."""
    m.input(100_000)
    computed(m)


def slow_start(m, i):
    m.input(800_000_000 if i == 0 else 60_000)
    computed(m)


def thread_works(m, i):
    """The main thread makes no call while another one does."""
    begin = m.now
    m.input(4_000_000)
    for k in range(3):
        m.beside(MAIN + 7, begin + 500_000 + k * 1_000_000, 20_000, *OTHER)
    m.at(LOOP)
    launches(m, 10, 60_000)
    m.at(DONE)
    m.wait(0x100)


def pin_thread(m, i):
    """Batches come late, and a thread of the library pins each."""
    begin = m.now
    m.input(4_000_000)
    m.beside(MAIN + 7, begin + 3_900_000, 20_000, *PINS)
    computed(m)


def thread_always_works(m, i):
    """The same time without a call, but the other thread makes its calls at all times."""
    begin = m.now
    m.input(4_000_000)
    m.at(LOOP)
    launches(m, 10, 400_000)
    m.at(DONE)
    m.wait(0x100)
    for at in range(begin + 50_000, m.now, 400_000):
        m.beside(MAIN + 7, at, 20_000, *OTHER)


def thread_at_times(m, i):
    """It makes calls in each fourth of these times."""
    if i % 4 == 0:
        thread_works(m, i)
    else:
        m.input(4_000_000)
        m.at(LOOP)
        launches(m, 10, 60_000)
        m.at(DONE)
        m.wait(0x100)


def rare(m, i):
    """A slow batch in two of 24 steps."""
    m.input(9_000_000 if i in (8, 17) else 60_000)
    computed(m)


def thread_beside(m, i):
    """The other thread works while the GPU computes."""
    m.at(LOOP)
    launches(m, 10, 600_000)
    begin = m.now
    m.input(4_000_000)
    for k in range(3):
        m.beside(MAIN + 7, begin + 500_000 + k * 1_000_000, 20_000, *OTHER)
    m.at(DONE)
    m.wait(0x100)


def waits_for_lock(times):
    def locked(m, i):
        """Time without a call before each of three functions' calls."""
        for k, line in enumerate((15, 17, 19)):
            m.input(round(1e6 * times[(3 * i + k) % len(times)]))
            m.at(f"/app/model.py:{line} part{k}")
            launches(m, 3, 60_000)
        m.at(DONE)
        m.wait(0x100)
    return locked


def waits_and_loads(m, i):
    """The same after a batch, which a library loads for 23 ms."""
    m.input(23_000_000)
    m.at(*LOADER)
    m.call("event", "query", "cuEventQuery", "call", event="0x9", args={"hEvent": "0x9"})
    LOCKED(m, i)


def sleeps(m, i):
    """5 ms, but at one place."""
    m.input(5_100_000)
    m.at(LOOP)
    launches(m, 10, 60_000)
    m.at(DONE)
    m.wait(0x100)


# As measured with CPython 3.11: docs/measured/step.md; and times that have nothing to do with 5 ms.
LOCKED = waits_for_lock((5.1, 5.5, 0.02, 10.6, 5.2, 3.1, 15.9, 5.4))
LOCKED_LONGER = waits_for_lock((5.1, 48.7, 0.02, 10.6, 5.2, 3.1, 21.2, 5.4))
UNLOCKED = waits_for_lock((4.1, 6.5, 7.3, 3.2, 9.6, 12.8, 5.2))

# The finding, its place, what else it names, and how many of the steps have this time, as a share; then those without.
LOADING = [
    (loads, "data-loading", "cuMemcpyHtoDAsync in train.py:15 main, after train.py:20 main.", None, 1),
    (loads_varied, "data-loading", "cuMemcpyHtoDAsync in train.py:15 main, after train.py:20 main.", None, 2 / 3),
    (pins, "data-loading", "cuEventQuery in pin_memory.py:98 pin_memory, after train.py:20 main.", ": dataloader.py:730 __next__, called from train.py:14 main.", 1),
    (pin_thread, "data-loading", "cuMemcpyHtoDAsync in train.py:15 main, after train.py:20 main.", ": pin_memory.py:41 do_one_step.", 1),
    (stalls, "data-loading", "cuMemcpyHtoDAsync in train.py:15 main, after train.py:20 main.", None, 1 / 4),
    (thread_works, "other-thread", "cuLaunchKernel in train.py:15 main, after train.py:20 main.", f"Thread {MAIN + 7} makes", 1),
]
NOT_LOADING = [hidden, handed_over, slow_start, rare, thread_always_works, thread_at_times, thread_beside]

# The first part of the path (None: the simulator does not have NCCL's calls in it), the first finding, and the program without the problem: its costs, or another program.
PLANTED = [
    (plans, "plan", "cudnnBackendFinalize", "plans-in-loop", {"free": ["cudnnBackendFinalize"]}),
    (pageable, "copy_call", "cuMemcpyHtoD", "pageable-copies", pinned), (copies, "copy_call", "cuMemcpyHtoDAsync", "small-copies", one_copy),
    (synchronous, "launch", "cuLaunchKernel", "small-syncs", {"no_wait": ["cuStreamSynchronize"]}),
    (small, "launch", "cuLaunchKernel", "launch-bound", as_graph), (late_thread, "between", None, "idle-between", {"prepare": 0}),
    (bound, "kernel", "slow", None, None), (not_overlapped, "copy", None, "copies-alone", overlapped), (unneeded, "kernel", "side", None, None),
    (host_between, "between", None, "idle-between", {"prepare": 0}),
    (small_collectives, None, None, "small-collectives", one_bucket),
    (collectives, "communication", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "communication-alone", {"apart": True}),
    (queried, "memory", "cuPointerGetAttribute", "chatty-queries", {"free": ["cuPointerGetAttribute"]}),
]
HEALTHY = [(healthy_kernels, "kernel"), (healthy_graph, "graph")]

# Changes that a report proposes by itself, and the program with each: its costs, or another program; then loops for which it proposes none.
PROPOSED = [(copies, "batch:cuMemcpyHtoDAsync", one_copy), (elementwise, "fuse:elementwise", {"fuse": "elementwise"}),
            (queried, "cache:cuPointerGetAttribute", {"free": ["cuPointerGetAttribute"]}), (in_ranges, "graph:layer", {"graph": "layer"}),
            (small_collectives, "fuse:ncclDevKernel_AllReduce_Sum_f32_RING_LL", one_bucket)]
NOT_PROPOSED = [once, polled, two_streams, long_kernels, range_with_wait, range_of_graph, range_of_all]
