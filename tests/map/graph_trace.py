# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A trace of layers.py as a captured graph that is replayed, with the GPU time of each layer as the maker counted it."""
import collections

import layers
import make_trace

GRAPH, EXEC, STREAM = "0x6000", "0x8000", "0x10"


class GraphMaker(make_trace.Maker):
    def __init__(self, out, number=lambda i: 2 << 32 | i, rename=None, burst=None):
        """number: CUPTI's number of node i. rename: another name of the kernel of one node. burst: only so many replays have times of
        nodes; the others have one time each."""
        super().__init__(out)
        self.number, self.rename, self.burst = number, rename or {}, burst
        self.capturing, self.nodes, self.replays = False, [], []
        self.graph_ns, self.whole_ns, self.functions = collections.Counter(), 0, collections.Counter()

    def kernel(self, name, us, layer, **fields):
        if not self.capturing:
            return super().kernel(name, us, layer, **fields)
        self.call("cuLaunchKernel", us, "kernel", "launch", stream=STREAM, capturing=True, kernel=name, grid=[1, 1, 1], block=[32, 1, 1], shared_mem=0, **fields)
        names = [f[0] for f in layers.frames()[0]]
        self.nodes.append((name, layer, names))
        self.now += us * 1000
        return us

    def graph_call(self, op, name, us=20, **fields):
        self.now += 5_000
        self.call(name, us, "graph", op, **{"stream": STREAM, **fields})
        self.now += us * 1000

    def begin_capture(self):
        self.graph_call("capture_begin", "cuStreamBeginCapture")
        self.capturing = True

    def end_capture(self):
        self.capturing = False
        for op, name, args in (("capture_end", "cuStreamEndCapture", {"hStream": STREAM, "phGraph": GRAPH}),
                               ("instantiate", "cuGraphInstantiateWithFlags", {"phGraphExec": EXEC, "hGraph": GRAPH, "flags": 0})):
            start, id = self.now + 5_000, self.next_id()
            self.event(start, "graph", op, name, symbol=name, id=id, duration_us=20, result=0, stream=STREAM, args=args)
            self.calls += 1
            self.now += 25_000

    def replay(self):
        stack, _ = self.stack()
        self.now += 5_000
        id, end = self.next_id(), self.now + 20_000
        self.event(self.now, "graph", "launch", "cuGraphLaunch", symbol="cuGraphLaunch", id=id, duration_us=20, result=0, stream="0x0", **stack,
                   args={"hGraphExec": EXEC, "hStream": "0x0"})
        self.calls += 1
        self.now = end
        begin = max(end + 3_000, self.gpu_free)
        first, has_nodes = begin, self.burst is None or len(self.replays) < self.burst
        for i, (name, layer, names) in enumerate(self.nodes):
            took = make_trace.GPU_US.get(name, 2) * 1000 + i
            if has_nodes:
                self.executed.append((id, i, self.rename.get(i, name), begin, took))
                self.graph_ns[layer] += took
                self.functions.update(dict.fromkeys(set(names), took))
            begin += took
        if not has_nodes:
            self.executed.append((id, None, None, first, begin - first))
            self.whole_ns += begin - first
        self.replays.append(id)
        self.gpu_free = begin

    def wait(self):
        runs, self.executed = self.executed, []
        super().wait()
        for id, i, name, begin, took in runs:
            what = {"kernel": name, "graph_node": self.number(i)} if name else {}
            op = "kernel" if name else "graph"
            self.event(begin, "gpu", op, op, duration_us=took / 1000, device=0, context=1, gpu_stream=7, correlation=id, call_id=id, call="cuGraphLaunch", **what)


def replay(maker):
    maker.replay()


def generate(model, maker, replays):
    maker.begin_capture()
    model()
    maker.end_capture()
    for _ in range(replays):
        replay(maker)
        maker.wait()


def make(path, layer_cnt=12, replays=20, **options):
    with open(path, "w", encoding="utf-8") as f:
        m = layers.gpu = GraphMaker(f, **options)
        m.init()
        generate(layers.Model(layer_cnt), m, replays)
        m.end()
    return m
