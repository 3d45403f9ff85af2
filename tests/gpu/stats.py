#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Compares --gpu-stats with nvidia-smi on a GPU with a known load: stats.py CUDATRACE OUT [SECONDS]

As a child (--load BUSY SECONDS) it multiplies matrices for that part of each 30 ms, and sleeps for the rest."""
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import time

from busy import busy_for

# Much shorter than the sampling period of NVML's utilisation (a sixth of a second to one): with 0.2 s it was 20 % for a load of 50 %, as in
# nvidia-smi.
SLOT = 0.03
# nvidia-smi's column, and our name; maximum difference of means (share of the larger, and absolute).
COLUMNS = [("utilization.gpu", "util", 0.25, 12), ("memory.used", "memory_used", 0.05, 64), ("clocks.sm", "sm_clock_mhz", 0.15, 50),
           ("clocks.mem", "memory_clock_mhz", 0.15, 50), ("power.draw", "power_w", 0.15, 20), ("temperature.gpu", "temperature_c", 0.1, 3)]


def load(busy, seconds):
    ran, took = busy_for(busy, seconds, SLOT, 8192)
    print(f"load: wanted {busy:.2f}, busy {ran / took:.3f} of {took:.1f} s", flush=True)


def smi(done):
    """Returns means of nvidia-smi's columns, sampled twice a second."""
    names = ",".join(c[0] for c in COLUMNS)
    rows = []
    program = shutil.which("nvidia-smi", path=os.environ["PATH"] + ":/usr/local/nvidia/bin:/opt/bin")
    if not program:
        print("there is no nvidia-smi: nothing to compare with")
    while not done():
        if not program:
            time.sleep(0.1)
            continue
        out = subprocess.run([program, f"--query-gpu={names}", "--format=csv,noheader,nounits", "-i", "0"], capture_output=True,
                             text=True, check=True).stdout
        try:
            rows.append((time.monotonic_ns(), [float(x) for x in out.strip().split(",")]))
        except ValueError:
            print("nvidia-smi:", out.strip())
        time.sleep(0.5)
    return rows


def lines_of(path):
    with open(path, encoding="utf-8") as f:
        ev = [json.loads(line) for line in f]
    return ev[0], [e for e in ev if e["type"] == "gpu_stats"], [e for e in ev if e["type"] == "gpu"]


def busy_share(executions, first_ms, last_ms):
    """Returns the percentage of time in which the GPU executed something, by --gpu-time."""
    at, ran = first_ms, 0.0
    for begin, end in sorted((e["ts"], e["ts"] + e["duration_us"] / 1e3) for e in executions):
        begin, end = max(begin, at), min(end, last_ms)
        if end > begin:
            ran += end - begin
            at = end
    return 100 * ran / (last_ms - first_ms)


def mean(values):
    return statistics.fmean(values) if values else None


def show(v):
    return "-" if v is None else f"{v:.4g}"


def idle(ct, path, active, util, said):
    """Prints the report's idle share, the idle share by NVML, and that of the program's own clock. graphics_active is counted, utilisation
    is sampled."""
    gpu = json.loads(subprocess.run([ct, "-q", "report", "--format=json", path], stdout=subprocess.PIPE, check=True).stdout)["gpu"]
    device = max(gpu["devices"], key=lambda d: d["busy_ns"], default={"idle_ns": 0, "span_ns": 0})
    own = re.search(r"busy ([\d.]+) of", said)
    if not device["span_ns"] or not own:
        print("idle share: NOT plausible: the report has no GPU times" if own else "idle share: the program has not said what it did")
        return False
    report, own = 100 * device["idle_ns"] / device["span_ns"], 100 * (1 - float(own[1]))
    theirs = active if active is not None else util
    good = abs(report - own) <= 10 and (theirs is None or abs(report - 100 + theirs) <= 12)
    print(f"idle share: the report has {report:.1f} %, the program's own clock {own:.1f} %; NVML's graphics_active is {show(active)} %, its utilisation {show(util)} %: "
          f"{'plausible' if good else 'NOT plausible'}", flush=True)
    return good


def one(ct, out, busy, seconds, period):
    path = f"{out}/stats_{int(busy * 100)}.jsonl"
    print(f"\n=== busy {busy:.2f} of the time for {seconds} s, a sample each {period} ms")
    p = subprocess.Popen([ct, "-q", f"--gpu-stats={period}", "--gpu-time", "--jsonl", path, "-e", "launch", "--", sys.executable, os.path.abspath(__file__),
                          "--load", str(busy), str(seconds)], stdout=subprocess.PIPE, text=True)
    rows = smi(lambda: p.poll() is not None)
    said = p.stdout.read()
    print(said, end="")
    if p.returncode:
        print("the trace failed:", p.returncode)
        return False
    head, lines, executions = lines_of(path)
    base = head["clock_base_ns"]
    for e in lines:
        if e["op"] in ("device", "missing"):
            print({k: v for k, v in e.items() if k not in ("ts", "type", "name", "pid", "tid", "comm")})
    samples = [e for e in lines if e["op"] == "sample" and e["gpu"] == 0 and "gpu_instance" not in e]
    # The middle of the program, because Python starts up before, and the driver's numbers lag by a second.
    with_load = [e for e in samples if e.get("memory_used", 0) > 500 << 20][4:-1]
    if len(with_load) < 5:
        print(f"only {len(with_load)} samples while it ran")
        return False
    first, last = (base + e["ts"] * 1e6 for e in (with_load[0], with_load[-1]))
    beside = [r for at, r in rows if first <= at <= last]
    ok = True
    print(f"{len(samples)} samples, {len(with_load)} under load; nvidia-smi asked {len(beside)} times meanwhile")
    print(f"{'value':>18} {'cudatrace':>12} {'nvidia-smi':>12}")
    for i, (column, name, share, most) in enumerate(COLUMNS):
        ours = mean([e[name] / (1 << 20 if name == "memory_used" else 1) for e in with_load if name in e])
        theirs = mean([r[i] for r in beside])
        good = theirs is None or ours is not None and abs(ours - theirs) <= max(share * max(ours, theirs), most)
        ok &= good
        print(f"{column:>18} {show(ours):>12} {show(theirs):>12}{'' if good else '   THEY DIFFER'}")
    for name in ("graphics_active", "sm_active", "sm_occupancy", "tensor_active", "dram_active", "fp32_active", "pcie_tx", "pcie_rx",
                 "nvlink_tx", "ecc_corrected", "ecc_uncorrected", "xids"):
        values = [e[name] for e in with_load if name in e]
        print(f"{name:>18} {show(mean(values)):>12}" + (f"   least {show(min(values))}, most {show(max(values))}" if values else ""))
    active = mean([e["graphics_active"] for e in with_load if "graphics_active" in e])
    ours = busy_share(executions, with_load[0]["ts"], with_load[-1]["ts"])
    print(f"{'by --gpu-time':>18} {show(ours):>12}   {len(executions)} executions")
    util = mean([e["util"] for e in with_load if "util" in e])
    theirs = active if active is not None else util
    if not executions or theirs is not None and abs(ours - theirs) > 12:
        print(f"executions fill {ours:.1f} % of the time, NVML says {theirs:.1f}")
        ok = False
    if active is not None and abs(active / 100 - busy) > 0.15:
        print(f"graphics_active {active:.1f} % is not the load of {busy:.0%}")
        ok = False
    ok &= idle(ct, path, active, util, said)
    print("throttle:", sorted({e.get("throttle", "none") for e in with_load}), "clock_reasons:",
          sorted({e.get("clock_reasons", "-") for e in with_load}))
    procs = {}
    for e in lines:
        if e["op"] == "process":
            procs.setdefault((e["pid"], e["comm"]), []).append(e)
    for (pid, comm), of in procs.items():
        print(f"process {pid} {comm}: {len(of)} samples, memory {show(mean([e['memory_used'] / 2**20 for e in of if 'memory_used' in e]))} MiB, "
              f"SM {show(mean([e['sm_util'] for e in of if 'sm_util' in e]))} %")
    costs = sorted(e["cost_us"] for e in samples)
    print(f"cost of a sample: median {costs[len(costs) // 2] / 1e3:.3f} ms, first {samples[0]['cost_us'] / 1e3:.3f} ms, most {costs[-1] / 1e3:.3f} ms")
    gaps = sorted(b["ts"] - a["ts"] for a, b in zip(samples, samples[1:]))
    print(f"between samples: median {gaps[len(gaps) // 2]:.1f} ms, most {gaps[-1]:.1f} ms")
    return ok


def main():
    if sys.argv[1] == "--load":
        load(float(sys.argv[2]), float(sys.argv[3]))
        return 0
    ct, out = os.path.abspath(sys.argv[1]), sys.argv[2]
    seconds = float(sys.argv[3]) if len(sys.argv) > 3 else 12
    os.makedirs(out, exist_ok=True)
    ok = [one(ct, out, busy, seconds, period) for busy, period in ((0.5, 200), (1.0, 200), (0.6, 1000))]
    subprocess.run([ct, "report", "--full", f"{out}/stats_50.jsonl", "-o", f"{out}/stats_50.txt"], check=False)
    with open(f"{out}/stats_50.txt", encoding="utf-8") as f:
        text = f.read()
    print(text[text.find("GPUs by NVML"):].split("\n\n\n")[0][:1500])
    print("\nstats:", "ok" if all(ok) else "NOT ok")
    return 0 if all(ok) else 1


sys.exit(main())
