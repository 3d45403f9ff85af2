#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Planted failures in PyTorch and Triton, and what the report concludes from the trace. As root; 90 seconds.

    torch_failures.py CUDATRACE OUT [WAY...]    WAY: uprobe, inject; both if none is named
    torch_failures.py run CASE                  one program

Prints for each case and way whether the verdict names the kernel and the line that launches it, then both the verdict and the last line of the
program's own message."""
import concurrent.futures
import json
import os
import re
import subprocess
import sys

HANGS = ("endless",)
TRITON = '''
import torch
import triton
import triton.language as tl


@triton.jit
def healthy(out, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(out + i, tl.load(out + i) + 1)


@triton.jit
def store_at(address, offset, N: tl.constexpr):
    p = address.to(tl.pointer_type(tl.float32), bitcast=True)
    tl.store(p + offset + tl.arange(0, N), tl.zeros((N,), tl.float32))


@triton.jit
def spin(flag):
    while tl.load(flag, volatile=True) == 0:
        pass


x = torch.zeros(1 << 20, device="cuda")
healthy[(1024,)](x, 1024)
torch.cuda.synchronize()
'''
# name: (program, part of the kernel's name). The line that is to be named ends with "# here".
CASES = {
    "embedding": ('''
import torch
e = torch.nn.Embedding(10, 64).cuda()
ids = torch.tensor([1, 2, 30], device="cuda")
torch.cuda.synchronize()
y = e(ids)  # here
print((y * 2).sum().item())
''', "index"),
    "gather": ('''
import torch
x, ids = torch.randn(64, 64, device="cuda"), torch.full((64, 1), 99, device="cuda")
torch.cuda.synchronize()
y = x.gather(1, ids)  # here
z = (y + 1).relu()
torch.cuda.synchronize()
''', "gather"),
    "past_end": (TRITON + '''
store_at[(1,)](x.data_ptr(), 1 << 30, 1024)  # here
healthy[(1024,)](x, 1024)
torch.cuda.synchronize()
''', "store_at"),
    "after_free": (TRITON + '''
y = torch.zeros(64 << 20, device="cuda")
store_at[(1,)](x.data_ptr(), 0, 1024)
at = y.data_ptr()
del y
torch.cuda.synchronize()
torch.cuda.empty_cache()
store_at[(1,)](at, 0, 1024)  # here
healthy[(1024,)](x, 1024)
torch.cuda.synchronize()
''', "store_at"),
    "null": (TRITON + '''
store_at[(1,)](x.data_ptr(), -(x.data_ptr() // 4), 1024)  # here
healthy[(1024,)](x, 1024)
torch.cuda.synchronize()
''', "store_at"),
    "endless": (TRITON + '''
flag = torch.zeros(1, dtype=torch.int32, device="cuda")
torch.cuda.synchronize()
spin[(1,)](flag)  # here
healthy[(1024,)](x, 1024)
torch.cuda.synchronize()
''', "spin"),
    "memory": ('''
import torch
held = []
while True:
    held.append(torch.empty(8 << 30, dtype=torch.uint8, device="cuda"))  # here
''', ""),
}


def trace(cudatrace, out, way, case):
    program, kernel = CASES[case]
    path, jsonl = f"{out}/{case}.py", f"{out}/{case}-{way}.jsonl"
    with open(path, "w", encoding="utf-8") as f:
        f.write(program)
    line = 1 + program[:program.index("# here")].count("\n")
    limit = ["timeout", "-s", "KILL", "25"] if case in HANGS else []
    ran = subprocess.run([cudatrace, "-q", f"--probe={way}", "--python", "--jsonl", jsonl, "--", *limit, sys.executable, path], capture_output=True, text=True,
                         timeout=120, check=False)
    report = json.loads(subprocess.run([cudatrace, "report", "--json", jsonl], capture_output=True, check=True).stdout)
    first = (report.get("failure") or [{}])[0]
    suspects = first.get("suspects") or [{}]
    says = first.get("verdict", "")
    name = suspects[0].get("kernel") or ""
    own = [t for t in re.findall(r"(?m)^\S*(?:Error|error)\b.*", ran.stderr) if t] or [f"(status {ran.returncode})"]
    return {"case": case, "way": way, "kernel": kernel in name if kernel else first.get("kind"), "line": f"{case}.py:{line}" in says,
            "first": name[:60], "certain": first.get("certain"), "verdict": says[:700], "own": own[-1][:200]}


def main():
    if sys.argv[1] == "run":
        exec(compile(CASES[sys.argv[2]][0], sys.argv[2], "exec"), {})
        return
    cudatrace, out = os.path.realpath(sys.argv[1]), sys.argv[2]
    os.makedirs(out, exist_ok=True)
    # The last one fills the GPU's memory.
    jobs = [(case, way) for case in CASES if case != "memory" for way in sys.argv[3:] or ("uprobe", "inject")]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        rows = list(pool.map(lambda job: trace(cudatrace, out, job[1], job[0]), jobs))
    rows += [trace(cudatrace, out, way, "memory") for way in sys.argv[3:] or ("uprobe", "inject")]
    for r in rows:
        print(f"| {r['case']} | {r['way']} | {r['kernel']} | {r['line']} | {r['certain']} | {r['first']} |\n    {r['verdict']}\n    {r['own']}", flush=True)


if __name__ == "__main__":
    main()
