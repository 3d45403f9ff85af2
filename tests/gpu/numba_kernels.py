# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Numba's kernels by name, and the Python functions that launch them.

usage: [NUMBA_WHEELS=FOLDER] numba_kernels.py CUDATRACE OUT_FOLDER

Numba refuses a newer NumPy. FOLDER has wheels that precede the installed packages: an older NumPy (17 MB) for the installed Numba,

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

HERE = os.path.dirname(os.path.abspath(__file__))


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
    ran = subprocess.run([tracer, "-q", "--gpu-time", "--python=launch", "--jsonl", trace, "--", sys.executable, os.path.join(HERE, "numba_work.py")],
                         capture_output=True, text=True, check=False, env=env)
    said = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
    if not verdict("numba runs", not ran.returncode and said and said[0]["sum"] == said[0]["wanted"], (said or [ran.stderr[-600:]])[-1]):
        return 1
    times = said[0]["times"]
    with open(trace, encoding="utf-8") as f:
        lines = [json.loads(line) for line in f]
    stacks = {e["id"]: [x.get("function") for x in e.get("python", [])] for e in lines if e["type"] == "stack"}
    launches = [e for e in lines if e["type"] == "kernel" and e["op"] == "launch" and not e.get("error") and not e.get("depth")]
    names = collections.Counter(e.get("kernel", "no name") for e in launches)
    ok = verdict("launches have names", launches and "no name" not in names, dict(names))
    for kernel in ("add", "scale"):
        got = sum(n for name, n in names.items() if f"::{kernel}" in name or f"{kernel}[" in name)
        ok &= verdict(kernel, got == times[kernel], f"{got} launches, {times[kernel]} made")
    own = [e for e in launches if any(f and f.endswith("step") for f in stacks.get(e.get("stack"), []))]
    ok &= verdict("launches below the function that makes them", launches and len(own) == len(launches), f"{len(own)} of {len(launches)}")
    gpu = [e for e in lines if e["type"] == "gpu" and e["op"] == "kernel"]
    ok &= verdict("executions have names", gpu and all(e.get("kernel") for e in gpu), f"{sum(bool(e.get('kernel')) for e in gpu)} of {len(gpu)}; such as {sorted({e.get('kernel') for e in gpu})[:3]}")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
