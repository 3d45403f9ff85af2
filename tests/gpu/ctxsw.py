#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""ctxsw.py CUDATRACE OUT [SECONDS]: compares the log of context switches with the work of the processes.

Two processes multiply matrices on one GPU, and record the end of each batch; the first sleeps once. Meanwhile cudatrace reads
the log: as root, as nobody, as root and killed, as root again. Each share in the log is compared with the process's share of
the batches in that time, the sleep with the longest time that the process was not on the GPU, and the rate of
batches with the log with the rate without.
"""
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

NOBODY = 65534
PAUSE = 0.4
BATCH = 40


def work(folder, number):
    import torch
    x, y = (torch.randn(4096, 4096, device="cuda", dtype=torch.float16) for _ in range(2))
    z = torch.empty_like(x)

    def batch():
        for _ in range(BATCH):
            torch.mm(x, y, out=z)
        torch.cuda.synchronize()
    for _ in range(3):
        batch()
    open(f"{folder}/ready.{number}", "w", encoding="ascii").close()
    wait_for(f"{folder}/go")
    done, pause = [], None
    while not os.path.exists(folder + "/stop"):
        if number == 0 and not pause and os.path.exists(folder + "/pause"):
            begin = time.monotonic()
            time.sleep(PAUSE)
            pause = begin, time.monotonic()
        batch()
        done.append(time.monotonic())
    with open(f"{folder}/done.{number}", "w", encoding="ascii") as f:
        json.dump({"pid": os.getpid(), "gpu": torch.cuda.get_device_name(), "done": done, "pause": pause}, f)


def wait_for(path, seconds=120):
    end = time.monotonic() + seconds
    while not os.path.exists(path):
        if time.monotonic() > end:
            sys.exit(f"no {path}")
        time.sleep(0.01)


def trace(cudatrace, path, seconds, user=0, kill=None):
    """Returns times of begin and end, and the output."""
    begin = time.monotonic()
    p = subprocess.Popen([cudatrace, "-q", "--probe=inject", "--gpu-ctxsw", "--summary", "--jsonl", path, "--", "sleep", str(seconds)],
                         stderr=subprocess.PIPE, text=True, user=user, group=user, extra_groups=[], cwd="/")
    if kill:
        time.sleep(kill)
        p.send_signal(signal.SIGKILL)
    said = p.communicate()[1]
    print(f"--- {os.path.basename(path)}: status {p.returncode}\n{said[-2500:]}")
    return begin, time.monotonic()


def read(path):
    """Returns the header, slices as (begin, end, event) in seconds of CLOCK_MONOTONIC, and the end line."""
    with open(path, encoding="utf-8") as f:
        lines = [json.loads(line) for line in f if line.endswith("}\n")]
    base = lines[0]["clock_base_ns"] / 1e9
    slices = []
    for e in lines:
        if e["type"] == "ctxsw":
            begin = base + e["ts"] / 1e3
            slices.append((begin, begin + e.get("duration_us", e.get("elapsed_us")) / 1e6, e))
    return lines[0], slices, lines[-1] if lines[-1]["type"] == "end" else None


def batches(worker, begin, end):
    return sum(begin <= t < end for t in worker["done"])


def check(path, workers, as_root):
    """Compares one trace with the records of the processes; returns False if they differ."""
    head, slices, end = read(path)
    name = os.path.basename(path)
    if head.get("gpu_ctxsw") != "on" or not slices:
        print(f"{name}: NO LOG: {head.get('gpu_ctxsw')}, {len(slices)} slices")
        return False
    first, last = slices[0][0], slices[-1][1]
    span = last - first
    gaps = [b[0] - a[1] for a, b in zip(slices, slices[1:]) if not b[2].get("lost_before")]
    overlaps = sum(g < -1e-6 for g in gaps)
    print(f"{name}: {len(slices)} slices in {span:.3f} s; mean {statistics.mean(e - b for b, e, _ in slices) * 1e3:.3f} ms, between two "
          f"{statistics.mean(gaps) * 1e6:.1f} us ({100 * sum(gaps) / span:.2f} % of the time); {overlaps} overlap; missing "
          f"{sum(e.get('missed', 0) for _, _, e in slices)}, drops {end and end['drops']['ctxsw']}; pids {sorted({e['pid'] for _, _, e in slices})}, "
          f"names {sorted({e['comm'] for _, _, e in slices})}, contexts {len({e['context'] for _, _, e in slices})}")
    ok = overlaps == 0
    total = sum(batches(w, first, last) for w in workers)
    shown = 0
    for i, w in enumerate(workers):
        mine = [(b, e) for b, e, x in slices if x["pid"] == w["pid"]]
        resident = sum(e - b for b, e in mine)
        shown += resident
        if not mine:
            continue
        of_log = resident / sum(e - b for b, e, x in slices if x["pid"] in [v["pid"] for v in workers])
        of_work = batches(w, first, last) / total
        print(f"  process {i} ({w['pid']}): {100 * resident / span:.1f} % of the time; of the two's {100 * of_log:.1f} %, of their batches {100 * of_work:.1f} %")
        ok &= abs(of_log - of_work) < 0.05
        if w["pause"] and first < w["pause"][0] and w["pause"][1] < last:
            away = max((b[0] - a[1], a[1]) for a, b in zip(mine, mine[1:]))
            print(f"  process {i} slept {w['pause'][1] - w['pause'][0]:.6f} s from {w['pause'][0] - first:.6f}; in the log it was away for {away[0]:.6f} s from {away[1] - first:.6f}")
            ok &= abs(away[0] - (w["pause"][1] - w["pause"][0])) < 0.05
    ok &= bool(shown) == as_root
    return ok


def main(cudatrace, out, seconds=4.0):
    os.makedirs(out, exist_ok=True)
    folder = tempfile.mkdtemp()
    os.chmod(folder, 0o777)
    # In a folder that the user nobody may read.
    binary = shutil.copy(cudatrace, folder + "/cudatrace")
    os.chmod(binary, 0o755)
    procs = [subprocess.Popen([sys.executable, os.path.abspath(__file__), "--worker", folder, str(i)]) for i in range(2)]
    for i in range(2):
        wait_for(f"{folder}/ready.{i}")
    open(folder + "/go", "w", encoding="ascii").close()
    time.sleep(1)
    quiet = time.monotonic(), time.monotonic() + seconds
    time.sleep(seconds)
    subprocess.Popen(["sh", "-c", f"sleep {seconds / 2}; touch {folder}/pause"])
    names = ["root", "nobody", "killed", "again"]
    times = {"root": trace(binary, folder + "/root.jsonl", seconds)}
    times["nobody"] = trace(binary, folder + "/nobody.jsonl", seconds, NOBODY)
    times["killed"] = trace(binary, folder + "/killed.jsonl", seconds, kill=seconds / 2)
    times["again"] = trace(binary, folder + "/again.jsonl", seconds / 2)
    open(folder + "/stop", "w", encoding="ascii").close()
    status = [p.wait() for p in procs]
    workers = []
    for i in range(2):
        with open(f"{folder}/done.{i}", encoding="ascii") as f:
            workers.append(json.load(f))
    print(f"{workers[0]['gpu']}: processes {[w['pid'] for w in workers]}, status {status}")
    rate = sum(batches(w, *quiet) for w in workers) / (quiet[1] - quiet[0])
    print(f"batches a second: {rate:.2f} without the log" + "".join(
        f", {sum(batches(w, *times[n]) for w in workers) / (times[n][1] - times[n][0]):.2f} {n}" for n in ("nobody", "again")))
    ok = not any(status)
    for name in names:
        shutil.copy(f"{folder}/{name}.jsonl", out)
        if name != "killed":
            ok &= check(f"{folder}/{name}.jsonl", workers, name != "nobody")
    print("context switches:", "as they did" if ok else "NOT as they did")
    shutil.rmtree(folder)
    return 0 if ok else 1


if sys.argv[1] == "--worker":
    work(sys.argv[2], int(sys.argv[3]))
else:
    sys.exit(main(sys.argv[1], sys.argv[2], *map(float, sys.argv[3:])))
