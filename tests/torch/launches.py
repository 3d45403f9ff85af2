# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Steps of training on the CPU, in which some operators, of the forward and of the backward pass, launch a kernel each: by the mock driver
for libcuda.

usage: launches.py LIBCUDA STEPS"""
import ctypes
import sys
import time

import torch
from torch.utils._python_dispatch import TorchDispatchMode

cu, p = ctypes.CDLL(sys.argv[1]), ctypes.c_void_p
PTX = b".version 6.0\n.target sm_60\n.address_size 64\n.visible .entry k(.param .u64 a)\n{\n\tret;\n}\n"


def call(name, *args):
    assert getattr(cu, name)(*args) == 0, name


ctx, module, kernel, number = p(), p(), p(), ctypes.c_uint64()
call("cuInit", 0)
call("cuDevicePrimaryCtxRetain", ctypes.byref(ctx), 0)
call("cuCtxSetCurrent", ctx)
call("cuModuleLoadData", ctypes.byref(module), PTX)
call("cuModuleGetFunction", ctypes.byref(kernel), module, b"k")
params = (p * 1)(ctypes.addressof(number))


class Launching(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if any(s in str(func) for s in ("mm", "gelu", "layer_norm")):
            call("cuLaunchKernel", kernel, 1, 1, 1, 1, 1, 1, 0, None, params, None)
        return func(*args, **(kwargs or {}))


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = torch.nn.LayerNorm(16), torch.nn.Linear(16, 32), torch.nn.Linear(32, 16)

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


def main():
    net = torch.nn.Sequential(Block(), Block(), Block())
    with Launching():
        for _ in range(int(sys.argv[2])):
            net(torch.randn(4, 16, requires_grad=True)).sum().backward()
            call("cuStreamSynchronize", None)
    time.sleep(0.5)  # its code's names are read


main()
