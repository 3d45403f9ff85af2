#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Writes the trace that layers.py would have, without tracing: with known times, and the expected values of each layer.

usage: make_trace.py TRACE [OPTION...]     writes it, and prints its expected values as JSON
    python=0    no frames       gpu=0    no times of a GPU       ranges=1    an NVTX range for each token, in one for all
    torch=1     operators of PyTorch; a line comes when the next one begins
    backward=1  operators, and in another thread a backward pass after each token: of each operator a node with as many launches
"""
import collections
import json
import sys

import layers

PID = 4711
GPU_US = {"gemm_kernel": 30, "embedding": 5}


class Maker:
    def __init__(self, out, python=1, gpu=1, ranges=0, torch=0, backward=0):
        self.out, self.python, self.gpu, self.ranges, self.torch, self.backward = out, python, gpu, ranges, torch or backward, backward
        self.operators, self.open, self.tape, self.numbers = [], [], [], 0
        self.now, self.id, self.stacks = 1_000_000, 0, {}
        self.calls = self.launches = 0
        self.lines = collections.Counter()
        self.gpu_free, self.executed, self.ran = 0, [], []
        self.layers = collections.defaultdict(collections.Counter)
        self.line(0, type="header", name="cudatrace", schema=2, version="0", command=["python3", "layers.py"], clock="CLOCK_MONOTONIC", clock_base_ns=10**12, wall_time="2026-11-21T07:07:06.732225269Z")

    def line(self, ns, **fields):
        self.lines[fields["type"]] += fields["type"] != "header"
        print(json.dumps({"ts": ns / 1e6, **fields}, separators=(",", ":")), file=self.out)

    def event(self, ns, kind, op, name, tid=PID, comm="python3", **fields):
        self.line(ns, type=kind, op=op, name=name, pid=PID, tid=tid, comm=comm, **fields)

    def next_id(self):
        self.id += 1
        return self.id

    def stack(self):
        found, layer = layers.frames() if self.python else ([], None)
        key = tuple(found)
        if found and key not in self.stacks:
            self.stacks[key] = len(self.stacks) + 1
            self.event(self.now, "stack", "stack", "stack", id=self.stacks[key], frames=[],
                       python=[{"function": f, "file": p, "line": n} for f, p, n in found])
        return ({"stack": self.stacks[key]} if found else {}), layer

    def call(self, name, us, kind, op, id=None, start=None, **fields):
        start = self.now if start is None else start
        self.event(start, kind, op, name, symbol=name, id=id or self.next_id(), duration_us=us, result=0, args={}, **fields)
        self.calls += 1

    def kernel(self, name, us, layer, **fields):
        id = self.next_id()
        self.call("cuLaunchKernel", us, "kernel", "launch", id=id, stream="0x0", kernel=name, grid=[1, 1, 1], block=[32, 1, 1], shared_mem=0, **fields if "tid" in fields else {**self.in_range(), **fields})
        begin, took = max(self.now + 3000, self.gpu_free), GPU_US.get(name, 2) * 1000
        self.gpu_free = begin + took
        self.ran.append((begin, took))
        self.executed.append((id, name, begin, took, self.now, fields.get("stack")))
        self.now += us * 1000
        self.launches += 1
        if layer is not None:
            self.layers[layer].update(launches=1, gpu_ns=took)
        return us

    def in_range(self):
        return {**({"range_id": self.range_id, "range": self.range_text} if self.ranges else {}),
                **({"operator_id": self.open[-1][0], "operator": self.open[-1][1]} if self.open else {})}

    def begin_operators(self, *names):
        """Nested operators. Earlier ones have ended then, and have their lines, the inner ones first."""
        self.end_operators()
        for name in names if self.torch else ():
            self.open.append((self.next_id(), name))
            self.operators.insert(0, {"id": self.open[-1][0], "name": name, **({"parent": self.open[-2][0]} if len(self.open) > 1 else {}), "at": self.now})

    def end_operators(self):
        for o in self.operators:
            self.event(o.pop("at"), "operator", "forward", o.pop("name"), duration_us=10.0, min_duration_us=5.0, **o)
        self.operators, self.open = [], []

    def forward(self, layer, *kernels):
        """The operator that began last has a number, and a node for the backward pass."""
        if self.backward:
            self.operators[0]["seq"] = self.numbers
            self.tape.append((self.numbers, self.open[-1][1], layer, kernels))
            self.numbers += 1

    def go_back(self):
        self.begin_operators("aten::ones_like")
        self.end_operators()
        thread = {"tid": PID + 1, "comm": "pt_autograd_0"}
        for number, name, layer, kernels in reversed(self.tape):
            node, op, at = self.next_id(), self.next_id(), self.now
            for k in kernels:
                self.now += 2000
                self.kernel(k, 4, layer, operator_id=op, operator="aten::of_" + name[6:], **thread)
                self.layers[layer].update(host_ns=4000, backward=1)
            for id, what, called, more in ((op, "forward", "aten::of_" + name[6:], {"parent": node}), (node, "backward", name[6:].title() + "Backward0", {"seq": number})):
                self.event(at, "operator", what, called, duration_us=(self.now - at) / 1000, min_duration_us=1.0, id=id, **more, **thread)
        self.tape.clear()

    # the interface that layers.py uses

    def launch(self, name):
        self.now += 10_000
        self.begin_operators("aten::" + name)
        stack, layer = self.stack()
        self.forward(layer, name)
        self.kernel(name, 5, layer, **stack)
        self.layers[layer]["host_ns"] += 5000

    def gemm(self, name):
        """A call of cuBLAS with two launches in it; its line follows theirs."""
        self.now += 10_000
        self.begin_operators("aten::linear", "aten::addmm")
        stack, layer = self.stack()
        self.forward(layer, name, name)
        start, id = self.now, self.next_id()
        for _ in range(2):
            self.now += 2000
            self.kernel(name, 4, layer, parent=id, depth=1, api_depth=0, **stack)
        self.now += 1000
        self.call("cublasSgemm", (self.now - start) / 1000, "blas", "gemm", id=id, start=start, api="cublas", **self.in_range(), **stack)
        self.layers[layer]["host_ns"] += self.now - start

    def wait(self):
        if self.backward:
            self.go_back()
        self.now += 3000
        self.open = []  # it has ended, and that is not known yet
        stack, _ = self.stack()
        end = max(self.now + 1000, self.gpu_free + 1000)
        self.call("cuStreamSynchronize", (end - self.now) / 1000, "sync", "sync", stream="0x0", **self.in_range(), **stack)
        self.layers[None]["host_ns"] += end - self.now
        self.now = end
        for id, name, begin, took, called, _ in self.executed if self.gpu else []:
            self.event(begin, "gpu", "kernel", "kernel", duration_us=took / 1000, device=0, context=1, gpu_stream=7, kernel=name, correlation=id, call_id=id, call="cuLaunchKernel",
                       **({"range_id": self.range_id} if self.ranges else {}), queue_us=(begin - called) / 1000)
        self.executed.clear()
        if self.ranges:
            self.end_range()
            self.begin_range()

    def begin_range(self):
        self.range_id, self.range_text, self.range_at = self.next_id(), "token", self.now

    def end_range(self):
        self.event(self.range_at, "range", "push", "push", duration_us=(self.now - self.range_at) / 1000, id=self.range_id, parent=self.outer, level=1, text="token")

    def init(self):
        self.call("cuInit", 100, "init", "init")
        self.now += 200_000
        self.call("cuDevicePrimaryCtxRetain", 100, "context", "retain")
        self.now += 200_000
        if self.ranges:
            self.outer = self.next_id()
            self.begin_range()

    def end(self):
        self.end_operators()
        if self.ranges:
            self.event(500_000, "range", "push", "push", duration_us=self.now / 1000 - 500, id=self.outer, level=0, text="everything")
        self.line(self.now, type="end", name="cudatrace", reason="command exited", events={k: n for k, n in self.lines.items() if n}, calls=self.calls, drops={}, bad_records=0)


def busy(ran):
    """Returns the time from the first to the last, and the covered time, of (start, duration)."""
    total, until = 0, 0
    for begin, took in sorted(ran):
        total += max(0, begin + took - max(begin, until))
        until = max(until, begin + took)
    return until - min(b for b, _ in ran), total


def make(path, layer_cnt=12, tokens=20, **options):
    with open(path, "w", encoding="utf-8") as f:
        m = Maker(f, **options)
        m.init()
        layers.run(m, layer_cnt, tokens)
        m.end()
    span, work = busy(m.ran)
    return {"calls": m.calls, "launches": m.launches, "gpu_ns": sum(t for _, t in m.ran), "gpu_span_ns": span, "gpu_busy_ns": work,
            "tokens": tokens, "layers": {str(k): dict(v) for k, v in m.layers.items()}}


if __name__ == "__main__":
    json.dump(make(sys.argv[1], **{k: int(v) for k, v in (a.split("=") for a in sys.argv[2:])}), sys.stdout)
