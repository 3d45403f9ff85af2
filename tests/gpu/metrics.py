#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Checks --gpu-metrics on a GPU with known work: metrics.py CUDATRACE OUT [HZ ...]

As a child (--work SECONDS) it multiplies matrices, copies memory, launches small kernels, and rests, each for that time, and prints what it did. For
each rate: the metrics of each phase beside what the phase did, the shift of the samples against the kernels' times (--gpu-time) at which both agree
best, and the processor time of cudatrace-pm. Then the time of a multiplication with and without sampling."""
import json
import os
import subprocess
import sys
import threading
import time

PHASES = ("gemm", "copy", "small", "rest")


def work(seconds):
    import torch
    a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.float16) for _ in range(2))
    big, other = (torch.empty(1 << 30, device="cuda", dtype=torch.uint8) for _ in range(2))
    small = torch.zeros(1024, device="cuda")
    does = {"gemm": lambda: torch.mm(a, b), "copy": lambda: other.copy_(big), "small": lambda: small.add_(1), "rest": lambda: time.sleep(0.01)}
    for phase in PHASES:
        does[phase]()
    torch.cuda.synchronize()
    for phase in PHASES:
        time.sleep(0.2)
        begin, cnt = time.monotonic(), 0
        while time.monotonic() - begin < seconds:
            for _ in range(20 if phase != "rest" else 1):
                does[phase]()
                cnt += 1
            torch.cuda.synchronize()
        print(json.dumps({"phase": phase, "begin": begin, "end": time.monotonic(), "cnt": cnt}), flush=True)


def helper_cpu(tracer, out):
    """Processor time of cudatrace-pm in seconds, until it ends."""
    ticks = os.sysconf("SC_CLK_TCK")
    while tracer.poll() is None:
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as f:
                    name, rest = f.read().split("(", 1)[1].rsplit(")", 1)
                fields = rest.split()
                if name == "cudatrace-pm" and int(fields[1]) == tracer.pid:
                    out[:] = [(int(fields[11]) + int(fields[12])) / ticks]
            except (OSError, IndexError):
                pass
        time.sleep(0.05)


def traced(ct, path, *options):
    p = subprocess.Popen([ct, "-q", "--probe=inject", "-e", "launch", "--gpu-time", "--jsonl", path, *options, "--", sys.executable, os.path.abspath(__file__), "--work", "2"],
                         stdout=subprocess.PIPE, text=True)
    cpu = []
    reader = threading.Thread(target=helper_cpu, args=(p, cpu))
    begin = time.monotonic()
    reader.start()
    said = [json.loads(line) for line in p.communicate()[0].splitlines()]
    reader.join()
    with open(path, encoding="utf-8") as f:
        ev = [json.loads(line) for line in f]
    return {x["phase"]: x for x in said}, ev, (cpu or [0])[0], time.monotonic() - begin


def busy(executions, samples, shift):
    """The share of each sample, moved by shift ms, in which the GPU executed something. Both are ordered."""
    out, first = [], 0
    for s in samples:
        begin, end = s["ts"] + shift, s["ts"] + shift + s["duration_us"] / 1e3
        while first < len(executions) and executions[first][1] <= begin:
            first += 1
        i, ran = first, 0.0
        while i < len(executions) and executions[i][0] < end:
            ran += min(end, executions[i][1]) - max(begin, executions[i][0])
            i += 1
        out.append(ran / (end - begin))
    return out


def union(ev):
    out = []
    for begin, end in sorted((e["ts"], e["ts"] + e["duration_us"] / 1e3) for e in ev if e["type"] == "gpu"):
        if out and begin <= out[-1][1]:
            out[-1][1] = max(out[-1][1], end)
        else:
            out.append([begin, end])
    return out


def agreement(executions, samples):
    """(mean difference of the busy share and gr_active, in points; the shift) at the best shift, and without one."""
    steps = [0.0, *(sign * x * 10 ** e for e in (-2, -1, 0, 1) for x in (1, 2, 5) for sign in (1, -1))]
    found = []
    for shift in steps:
        shares = busy(executions, samples, shift)
        found.append((sum(abs(100 * b - s["gr_active"]) for b, s in zip(shares, samples)) / len(samples), shift))
    return min(found), found[0]


def main(ct, out, rates):
    for hz in rates:
        path = os.path.join(out, f"metrics-{hz}.jsonl")
        phases, ev, cpu, wall = traced(ct, path, f"--gpu-metrics={hz}")
        base, end = ev[0]["clock_base_ns"] / 1e9, ev[-1]
        lines = [e for e in ev if e["type"] == "gpu_metrics"]
        samples = sorted((e for e in lines if e["op"] == "sample" and e["gpu"] == 0), key=lambda e: e["ts"])
        print(f"\n{hz} Hz: {len(samples)} samples of GPU 0, lost {end['drops']['gpu_metrics']}; cudatrace-pm {cpu:.2f} s of {wall:.2f} s "
              f"({100 * cpu / wall:.1f} %)")
        for e in lines:
            if e["op"] != "sample":
                print("  ", {k: v for k, v in e.items() if k in ("op", "gpu", "model", "interval_us", "why")})
        if not samples:
            continue
        span = samples[-1]["ts"] + samples[-1]["duration_us"] / 1e3 - samples[0]["ts"]
        gaps = sum(b["ts"] - a["ts"] > 1.5 * a["duration_us"] / 1e3 for a, b in zip(samples, samples[1:]))
        print(f"   span {span / 1e3:.3f} s, expected {span * hz / 1e3:.0f} samples, {gaps} gaps; cost_us mean {sum(s['cost_us'] for s in samples) / len(samples):.1f}")
        for phase, x in phases.items():
            of = [s for s in samples if x["begin"] - base < s["ts"] / 1e3 and (s["ts"] + s["duration_us"] / 1e3) / 1e3 < x["end"] - base]
            took = x["end"] - x["begin"]
            did = {"gemm": f"{2 * 8192**3 * x['cnt'] / took / 1e12:.0f} TFLOP/s", "copy": f"{x['cnt'] * 2**30 / took / 1e9:.0f} GB/s each way"}
            print(f"  {phase:6} {x['cnt'] / took:8.0f} a second, {did.get(phase, '')}")
            if not of:
                continue
            keys = [k for k in of[0] if k not in ("ts", "type", "op", "name", "pid", "tid", "comm", "gpu", "uuid", "duration_us", "cost_us")]
            print("        ", "  ".join(f"{k} {sum(s.get(k, 0) for s in of) / len(of):.4g}" for k in keys))
        executions = union(ev)
        inside = [s for s in samples if executions and executions[0][0] < s["ts"] < executions[-1][1]]
        if inside:
            best, none = agreement(executions, inside)
            print(f"   busy share and gr_active differ by {none[0]:.2f} points; by {best[0]:.2f} with the samples moved by {best[1]} ms")
    print()
    for options in ([], ["--gpu-metrics=1000"], [], ["--gpu-metrics=10000"], ["--gpu-metrics=100"]):
        phases, *_ = traced(ct, os.path.join(out, "cost.jsonl"), *options)
        x = phases["gemm"], phases["small"]
        print(f"{' '.join(options) or 'off':22} gemm {(x[0]['end'] - x[0]['begin']) / x[0]['cnt'] * 1e3:.3f} ms, small kernel {(x[1]['end'] - x[1]['begin']) / x[1]['cnt'] * 1e6:.2f} us")


if sys.argv[1] == "--work":
    work(float(sys.argv[2]))
else:
    main(sys.argv[1], sys.argv[2], [int(x) for x in sys.argv[3:]] or [100, 1000, 10000])
