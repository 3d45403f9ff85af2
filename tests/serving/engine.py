# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A serving engine with continuous batching, as far as the driver and cuBLAS see it; the model computes nothing.

usage: engine.py LIBCUDA LIBCUBLAS [--graphs SIZE,...] [--head in] [--all-logits] [--async] [--waits] [--wait FILE] [--f32]

Prompts come in, each step decodes one token of every sequence, prompts that come in are prefilled together with it. A step of
decoding replays the graph of the next larger size, where there is one. Prints as JSON what it did: each step's phase, tokens,
sequences, whether it was a replay and of which size, launches; weights and their bytes; bytes of the cache; requests.
--head in: the product for the logits is in the graph. --all-logits: it is made for all tokens, not for the last ones.
--async: a step is launched before the one before it has been waited for. --f32: by cublasSgemm instead of cublasGemmEx.
--waits: each layer waits for the GPU, too. --wait FILE: after the graphs were captured, writes FILE and waits until it is gone.
"""
import argparse
import ctypes
import json
import os
import time

LAYERS, HIDDEN, VOCAB, BF16 = 4, 512, 5000, 14
SHAPES = [(3 * HIDDEN, HIDDEN), (HIDDEN, HIDDEN), (4 * HIDDEN, HIDDEN), (HIDDEN, 4 * HIDDEN)]
CACHE = 64 << 20
PTX = b".version 6.0\n.target sm_60\n.address_size 64\n" + b"".join(
    b".visible .entry %s(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n)\n{\n\tret;\n}\n" % n for n in (b"product", b"attention", b"argmax"))
# (step at which they come, length of each prompt, tokens that each makes)
REQUESTS = [(0, [5, 9, 16], [7, 30, 40]), (12, [300], [20]), (16, [12, 4], [9, 30]), (34, [700, 31], [12, 14])]

ap = argparse.ArgumentParser()
ap.add_argument("libcuda")
ap.add_argument("libcublas")
ap.add_argument("--graphs", default="")
ap.add_argument("--head", default="out")
ap.add_argument("--all-logits", action="store_true")
ap.add_argument("--async", dest="is_async", action="store_true")
ap.add_argument("--wait")
ap.add_argument("--waits", action="store_true")
ap.add_argument("--f32", action="store_true")
args = ap.parse_args()
SIZE = 4 if args.f32 else 2
cu, blas = ctypes.CDLL(args.libcuda, mode=ctypes.RTLD_GLOBAL), ctypes.CDLL(args.libcublas)
p, u64 = ctypes.c_void_p, ctypes.c_uint64


def call(name, *a):
    status = getattr(cu, name)(*a)
    assert status == 0, (name, status)


class Model:
    def __init__(self):
        ctx, module, self.stream = p(), p(), p()
        call("cuInit", 0)
        call("cuDevicePrimaryCtxRetain", ctypes.byref(ctx), 0)
        call("cuCtxSetCurrent", ctx)
        call("cuModuleLoadData", ctypes.byref(module), PTX)
        self.kernels = {}
        for name in (b"product", b"attention", b"argmax"):
            f = p()
            call("cuModuleGetFunction", ctypes.byref(f), module, name)
            self.kernels[name.decode()] = f
        call("cuStreamCreate", ctypes.byref(self.stream), 1)
        blas.serving_kernel(self.kernels["product"])
        blas.cublasSetStream_v2(p(1), self.stream)
        self.weights = [self.alloc(SIZE * m * k) for _ in range(LAYERS) for m, k in SHAPES]
        self.head = self.alloc(SIZE * VOCAB * HIDDEN)
        self.cache = self.alloc(CACHE)
        self.work = self.alloc(1 << 20)
        self.host = ctypes.create_string_buffer(4096)
        self.launched, self.captures = 0, False

    def alloc(self, size):
        ptr = u64()
        call("cuMemAlloc_v2", ctypes.byref(ptr), u64(size))
        return ptr.value

    def launch(self, kernel):
        x = u64(self.work)
        params = (p * 4)(*[ctypes.addressof(x)] * 4)
        call("cuLaunchKernel", self.kernels[kernel], 8, 1, 1, 128, 1, 1, 0, self.stream, params, None)
        self.launched += 1

    def product(self, weights, m, n, k):
        one, x = ctypes.c_float(1), p(self.work)
        if args.f32:
            status = blas.cublasSgemm_v2(p(1), 1, 0, m, n, k, ctypes.byref(one), p(weights), k, x, k, ctypes.byref(one), x, m)
        else:
            status = blas.cublasGemmEx(p(1), 1, 0, m, n, k, ctypes.byref(one), p(weights), BF16, k, x, BF16, k, ctypes.byref(one), x, BF16, m, 68, -1)
        assert status == 0
        self.launched += 1

    def layers(self, tokens):
        weights = iter(self.weights)
        for _ in range(LAYERS):
            for i, (m, k) in enumerate(SHAPES):
                self.product(next(weights), m, tokens, k)
                if not i:
                    self.launch("attention")
                    if args.waits and not self.captures:
                        call("cuStreamSynchronize", self.stream)

    def logits(self, rows):
        self.product(self.head, VOCAB, rows, HIDDEN)


class Engine:
    def __init__(self):
        self.model, self.running, self.steps, self.graphs, self.waiting, self.done = Model(), [], [], {}, [], 0
        self.outstanding = []
        for size in [int(s) for s in args.graphs.split(",") if s]:
            self.graphs[size] = self.capture(size)

    def capture(self, size):
        m, graph, exe = self.model, p(), p()
        call("cuStreamBeginCapture_v2", m.stream, 2)
        m.captures = True
        m.layers(size)
        if args.head == "in":
            m.logits(size)
        call("cuStreamEndCapture", m.stream, ctypes.byref(graph))
        m.captures = False
        call("cuGraphInstantiateWithFlags", ctypes.byref(exe), graph, u64(0))
        call("cuGraphDestroy", graph)
        return exe

    def schedule(self, now):
        """The scheduler: what comes into this step."""
        time.sleep(0.0005)
        while REQUESTS and REQUESTS[0][0] <= now:
            _, prompts, lengths = REQUESTS.pop(0)
            self.waiting += zip(prompts, lengths)
        come, self.waiting = self.waiting, []
        return come

    def forward(self, tokens, rows, prefill):
        m = self.model
        call("cuMemcpyHtoDAsync_v2", u64(m.work), m.host, u64(4 * min(tokens, 1000)), m.stream)
        size = min((s for s in self.graphs if s >= rows), default=None) if not prefill else None
        m.launched = 0
        if size:
            call("cuGraphLaunch", self.graphs[size], m.stream)
            m.launched += 1
        else:
            m.layers(tokens)
        if not size or args.head != "in":
            m.logits(tokens if args.all_logits else rows)
        m.launch("argmax")
        return size

    def detokenise(self):
        """What becomes of a token."""
        m = self.model
        call("cuMemcpyDtoHAsync_v2", m.host, u64(m.work), u64(4), m.stream)
        call("cuStreamSynchronize", m.stream)
        time.sleep(0.0002)

    def step(self, now):
        come = self.schedule(now)
        rows = len(self.running) + len(come)
        tokens = len(self.running) + sum(n for n, _ in come)
        if not rows:
            return False
        size = self.forward(tokens, rows, come)
        self.steps.append({"phase": "prefill" if come else "decode", "tokens": tokens, "batch": rows, "graph": size, "launches": self.model.launched})
        self.running = [left - 1 for left in self.running + [n for _, n in come]]
        self.done += sum(not left for left in self.running)
        self.running = [left for left in self.running if left]
        if not args.is_async or len(self.outstanding) == 1:
            self.detokenise()
        self.outstanding = [now] if args.is_async else []
        return bool(self.running or REQUESTS or self.waiting)

    def serve(self):
        now = 0
        while self.step(now):
            now += 1
        self.detokenise()


engine = Engine()
if args.wait:
    with open(args.wait, "w", encoding="utf-8"):
        pass
    while os.path.exists(args.wait):
        time.sleep(0.02)
engine.serve()
print(json.dumps({"steps": engine.steps, "weights": len(engine.model.weights) + 1, "requests": engine.done, "cache": CACHE,
                  "weight_bytes": SIZE * (LAYERS * sum(m * k for m, k in SHAPES) + VOCAB * HIDDEN)}))
