# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A small network in PyTorch, for the driver requests of a program's start and of its steps."""
import torch

model = torch.nn.Sequential(torch.nn.Linear(1024, 4096), torch.nn.ReLU(), torch.nn.Linear(4096, 1024)).cuda()
x = torch.rand(64, 1024, device="cuda")
with torch.no_grad():
    for _ in range(20):
        y = model(x)
    torch.cuda.synchronize()
print("mlp: ok", tuple(y.shape))
