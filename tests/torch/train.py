# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Two steps of training on the CPU under torch.profiler, between two operators that come nowhere else. Writes what the profiler has of
operators and nodes: names, and the names of those that they were called in."""
import collections
import json
import sys

import torch
from torch.profiler import ProfilerActivity, profile

torch.manual_seed(0)


class Block(torch.nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.attention = torch.nn.MultiheadAttention(width, 4, batch_first=True)
        self.norm = torch.nn.LayerNorm(width)
        self.mlp = torch.nn.Sequential(torch.nn.Linear(width, 4 * width), torch.nn.GELU(), torch.nn.Linear(4 * width, width))

    def forward(self, x):
        y = self.norm(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.norm(x))


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = torch.nn.Embedding(50, 32)
        self.blocks = torch.nn.ModuleList([Block() for _ in range(3)])
        self.out = torch.nn.Linear(32, 50)
        self.conv = torch.nn.Conv1d(50, 8, 3, padding=1)
        self.norm = torch.nn.BatchNorm1d(8)

    def forward(self, x):
        h = self.tokens(x)
        for block in self.blocks:
            h = block(h)
        return self.norm(self.conv(self.out(h).transpose(1, 2))).flatten(1)


def main():
    net = Net()
    optimizer = torch.optim.AdamW(net.parameters())

    def step():
        y = net(torch.randint(0, 50, (4, 16)))
        try:
            torch.zeros(2, 3) @ torch.zeros(2, 3)
        except RuntimeError:
            pass
        loss = y.softmax(-1).log().mean() + y.std() + torch.linalg.norm(y) + torch.sort(y)[0].sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        torch.einsum("ij,jk->ik", torch.randn(8, 8), torch.randn(8, 8)).svd()

    step()
    with profile(activities=[ProfilerActivity.CPU]) as p:
        torch.special.erfcx(torch.zeros(1))
        step()
        step()
        torch.special.erfcx(torch.zeros(1))

    threads = collections.defaultdict(list)
    for e in p.profiler.kineto_results.events():
        if e.device_type() == torch.autograd.DeviceType.CPU:
            threads[e.start_thread_id()].append(e)
    node, found = "autograd::engine::evaluate_function: ", []
    for events in threads.values():
        events.sort(key=lambda e: (e.start_ns(), -e.duration_ns()))
        stack = []
        for e in events:
            name = e.name()
            while stack and stack[-1][1] <= e.start_ns():
                stack.pop()
            if not name.startswith(("aten::", node)):
                continue
            name = name.removeprefix(node)
            found.append((e.start_ns(), name, stack[-1][0] if stack else None))
            stack.append((name, e.start_ns() + e.duration_ns()))
    first, last = sorted(at for at, name, _ in found if name == "aten::special_erfcx")
    with open(sys.argv[1], "w", encoding="utf-8") as f:
        json.dump([(name, parent) for at, name, parent in found if first <= at <= last], f)


main()
