# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Numba's kernels by name, and the Python functions that launch them.

usage: [NUMBA_WHEELS=FOLDER] numba_kernels.py CUDATRACE OUT_FOLDER
       numba_kernels.py --run                                       what is traced

Numba refuses a NumPy that is newer than it. FOLDER has wheels that go before what is installed: an older NumPy (17 MB) for the Numba that is
there,

    pip download --no-deps --only-binary=:all: --python-version 3.12 --platform manylinux_2_28_x86_64 --platform manylinux2014_x86_64 -d FOLDER numpy==2.2.6

or, with `numba llvmlite numba-cuda` in place of numpy==2.2.6 (0.68.1, 0.50.0, 0.30.4: 65 MB), a Numba that takes NumPy 2.5.
"""
import collections
import glob
import json
import os
import subprocess
import sys
import zipfile

TIMES = {"add": 20, "scale": 10, "reduce_sum": 5}


def run():
    import numba
    import numpy as np
    from numba import cuda

    @cuda.jit
    def add(a, b, c):
        i = cuda.grid(1)
        if i < c.size:
            c[i] = a[i] + b[i]

    @cuda.jit
    def scale(a, by):
        i = cuda.grid(1)
        if i < a.size:
            a[i] *= by

    @cuda.reduce
    def reduce_sum(a, b):
        return a + b

    n = 1 << 16
    a, b, c = (cuda.to_device(np.ones(n, dtype=np.float32)) for _ in range(3))

    def step():
        for _ in range(TIMES["add"]):
            add[n // 256, 256](a, b, c)
        for _ in range(TIMES["scale"]):
            scale[n // 256, 256](c, np.float32(0.5))
        return sum(float(reduce_sum(a)) for _ in range(TIMES["reduce_sum"]))

    got = step()
    cuda.synchronize()
    print(json.dumps({"numba": numba.__version__, "numpy": np.__version__, "sum": got, "wanted": n * TIMES["reduce_sum"]}), flush=True)


def verdict(what, ok, said):
    print(f"  {'ok' if ok else 'NOT OK'} {what}: {said}", flush=True)
    return ok


def main(tracer, out):
    os.makedirs(out, exist_ok=True)
    trace, env = os.path.join(out, "numba.jsonl"), dict(os.environ)
    if wheels := env.get("NUMBA_WHEELS"):
        folder = os.path.join(out, "numba-wheels")
        for wheel in glob.glob(os.path.join(wheels, "*.whl")):
            with zipfile.ZipFile(wheel) as z:
                z.extractall(folder)
        env["PYTHONPATH"] = os.pathsep.join(filter(None, [os.path.abspath(folder), env.get("PYTHONPATH")]))
    ran = subprocess.run([tracer, "-q", "--gpu-time", "--python=launch", "--jsonl", trace, "--", sys.executable, os.path.abspath(__file__), "--run"],
                         capture_output=True, text=True, check=False, env=env)
    said = [line for line in ran.stdout.splitlines() if line.startswith("{")]
    if not verdict("numba runs", not ran.returncode and said, (said or [ran.stderr[-600:]])[-1]):
        return 1
    with open(trace, encoding="utf-8") as f:
        lines = [json.loads(line) for line in f]
    stacks = {e["id"]: [x.get("function") for x in e.get("python", [])] for e in lines if e["type"] == "stack"}
    launches = [e for e in lines if e["type"] == "kernel" and e["op"] == "launch" and not e.get("error") and not e.get("depth")]
    names = collections.Counter(e.get("kernel", "no name") for e in launches)
    ok = verdict("launches have names", launches and "no name" not in names, dict(names))
    for kernel in ("add", "scale"):
        got = sum(n for name, n in names.items() if f"::{kernel}" in name or f"{kernel}[" in name)
        ok &= verdict(kernel, got == TIMES[kernel], f"{got} launches, {TIMES[kernel]} made")
    own = [e for e in launches if any(f and f.endswith("step") for f in stacks.get(e.get("stack"), []))]
    ok &= verdict("launches below the function that makes them", launches and len(own) == len(launches), f"{len(own)} of {len(launches)}")
    gpu = [e for e in lines if e["type"] == "gpu" and e["op"] == "kernel"]
    ok &= verdict("executions have names", gpu and all(e.get("kernel") for e in gpu), f"{sum(bool(e.get('kernel')) for e in gpu)} of {len(gpu)}; such as {sorted({e.get('kernel') for e in gpu})[:3]}")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(run() if sys.argv[1] == "--run" else main(*sys.argv[1:3]))
