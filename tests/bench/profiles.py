#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""profiles.py CUDATRACE FAKE PAIRS: processor time of a Python program with 60 frames, under daemons with and without profiles, in
turns. FAKE: the folder with the mock driver. Prints the median ratio with its interval of 95 %, by uprobes and in-process."""
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

PROGRAM = """
import ctypes, time
cuda = ctypes.CDLL("libcuda.so.1")
context = ctypes.c_void_p()
cuda.cuInit(0)
cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0)
def deep(n):
    if n:
        return deep(n - 1)
    # The daemon has set its level by then.
    end = time.monotonic() + 0.5
    while time.monotonic() < end:
        cuda.cuCtxSynchronize()
    begin = time.process_time()
    for _ in range(20000):
        cuda.cuCtxSynchronize()
        sum(range(500))
    print(time.process_time() - begin)
deep(60)
"""


def daemon(cudatrace, folder, fake, *settings):
    folder.mkdir()
    os.symlink(sys.executable, folder / "python")
    (folder / "d.yaml").write_text(f'level: off\nrules:\n  - match: {{command: "{folder}/*"}}\n    level: metrics\n')
    args = [x for s in (f"files.directory={folder}/files", f"ctl.socket={folder}/sock", *settings) for x in ("--set", s)]
    return subprocess.Popen([cudatrace, "daemon", "--config", folder / "d.yaml", "--libcuda", fake + "/libcuda.so.1", *args], stderr=subprocess.DEVNULL)


def seconds(folder, env):
    return float(subprocess.run([folder / "python", "-c", PROGRAM], env={**os.environ, **env}, check=True, capture_output=True, text=True).stdout)


def main():
    cudatrace, fake, pairs = sys.argv[1], sys.argv[2], int(sys.argv[3])
    for way in "uprobes", "in-process":
        with tempfile.TemporaryDirectory() as tmp:
            folders, daemons, envs = [], [], []
            for name in "with", "without":
                folder = pathlib.Path(tmp) / name
                inject = [f"trace.inject={'true' if way == 'in-process' else 'false'}", f"trace.inject_folder={folder}/inject"]
                folders.append(folder)
                daemons.append(daemon(cudatrace, folder, fake, *inject, *(["profiles.interval=1m"] if name == "with" else [])))
                library = {"CUDA_INJECTION64_PATH": f"{folder}/inject/libcudatrace-inject.so"} if way == "in-process" else {}
                envs.append({"LD_LIBRARY_PATH": fake, **library})
            time.sleep(5)
            runs = []
            for i in range(pairs):
                took = {k: seconds(folders[k], envs[k]) for k in ((0, 1) if i % 2 else (1, 0))}
                runs.append((took[0], took[1]))
            for d in daemons:
                d.terminate()
                d.wait()
            ratios, far = sorted(a / b for a, b in runs), 0.98 * pairs ** 0.5
            low, high = ratios[max(0, int(pairs / 2 - far))], ratios[min(pairs - 1, int(pairs / 2 + far))]
            print(f"{way}: {statistics.median(ratios):.3f} ({low:.3f} to {high:.3f}) times, {pairs} pairs, "
                  f"{1e6 * statistics.median(b for _, b in runs) / 20000:.1f} us per call without", flush=True)


main()
