#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Memory of a report, by the number of calls: report_memory.py CUDATRACE

Lines of a program that repeatedly launches nine kernels and waits go into `cudatrace report` through a pipe; it keeps the
same data as `--report` while tracing. Prints a table: calls, peak memory as JSON and as a page (MB)."""
import itertools, os, subprocess, sys

ROUND = 10


def lines(calls):
    for i in range(calls):
        common = f'"pid":454,"tid":454,"comm":"python3","id":{i + 1},"result":0'
        if i % ROUND < ROUND - 1:
            yield (f'{{"ts":{i * 0.01:.6f},"type":"kernel","op":"launch","name":"cuLaunchKernel","symbol":"cuLaunchKernel",{common},'
                   f'"duration_us":5.{i % 7},"stream":"0x0","kernel":"kernel_{i % ROUND}","grid":[{1 + i % 3},1,1],"block":[128,1,1],"args":{{}}}}\n')
        else:
            yield (f'{{"ts":{i * 0.01:.6f},"type":"sync","op":"sync","name":"cuStreamSynchronize","symbol":"cuStreamSynchronize",{common},'
                   f'"duration_us":8.0,"stream":"0x0","args":{{}}}}\n')


def peak_mb(cudatrace, form, calls):
    p = subprocess.Popen([cudatrace, "report", f"--format={form}", "-o", "/dev/null", "-"], stdin=subprocess.PIPE, text=True)
    source = lines(calls)
    while chunk := "".join(itertools.islice(source, 10000)):
        p.stdin.write(chunk)
    p.stdin.close()
    _, status, usage = os.wait4(p.pid, 0)
    p.returncode = status
    if status:
        sys.exit(f"{cudatrace} report: status {status}")
    return usage.ru_maxrss / 1024


print("| calls | JSON | page |\n|---|---|---|")
for calls in map(int, sys.argv[2:] or (1000, 100000, 1000000, 3000000, 6000000)):
    print(f"| {calls:,} | {peak_mb(sys.argv[1], 'json', calls):.1f} | {peak_mb(sys.argv[1], 'html', calls):.1f} |", flush=True)
