# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""loading.py MODE STEPS: a small network trained by PyTorch. MODE slow: its DataLoader has no workers and needs 6.4 ms per batch; prefetch: eight
workers; quiet: nothing is slow; thread: a second thread computes in Python. Prints the time per step. docs/measured/step.md has results."""
import sys
import threading
import time

import torch
from torch.utils.data import DataLoader, Dataset

MODE, STEPS, BATCH = sys.argv[1], int(sys.argv[2]), 64
over = False


def busy(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


class Data(Dataset):
    def __len__(self):
        return STEPS * BATCH

    def __getitem__(self, i):
        busy(1e-4 if MODE in ("slow", "prefetch") else 0)
        return torch.zeros(256)


def other():
    while not over:
        busy(0.02)


def train(batches):
    for x in batches:
        y = model(x.cuda(non_blocking=True)).square().mean()
        opt.zero_grad()
        y.backward()
        opt.step()
        y.item()


model = torch.nn.Sequential(*[torch.nn.Linear(2048 if i else 256, 2048) for i in range(6)]).cuda()
opt = torch.optim.SGD(model.parameters(), lr=1e-3)
if MODE == "thread":
    threading.Thread(target=other, daemon=True).start()
workers = 8 if MODE == "prefetch" else 0
loader = DataLoader(Data(), batch_size=BATCH, num_workers=workers, persistent_workers=workers > 0)
began = time.perf_counter()
train(loader)
print(MODE, "ms per step:", (time.perf_counter() - began) / STEPS * 1e3)
over = True
