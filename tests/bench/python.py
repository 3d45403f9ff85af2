#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Measures the time that --python adds to a call: tests/bench/python.py [BUILD FOLDER [PYTHON]] (root).

A Python program calls cuCtxSynchronize from 3 to 100 frames deep, always from the same place and by turns from two. Traces with
and without --python take turns. Prints medians of the rounds: of the time from one call's start to the next, and of the trace's
cost of a call (probe_cost_ns of its end line)."""
import json
import os
import statistics
import subprocess
import sys
import tempfile

ROUNDS, CALLS = 7, 20000
build = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else 'build')
python = sys.argv[2] if len(sys.argv) > 2 else sys.executable
lib = f'{build}/fake/libcuda.so.1'
env = dict(os.environ, LD_LIBRARY_PATH=os.path.dirname(lib))
PROGRAM = """
import ctypes, sys
f = ctypes.CDLL(sys.argv[1]).cuCtxSynchronize
def down(n):
    if n > 2:
        return down(n - 1)
    for i in range(int(sys.argv[3]) // 2):
        f()
        f()
down(int(sys.argv[2]))
"""


def one(tmp, frames, options):
    """Nanoseconds from call to call, and of cost."""
    trace = f'{tmp}/trace.jsonl'
    # The reader runs on another processor: its time is not the call's.
    subprocess.run(['taskset', '-c', '1', f'{build}/cudatrace', '-q', '--buffer', '256M', '-e', 'cuCtxSynchronize', *options, '--jsonl', trace, '--',
                    'taskset', '-c', '0', python, '-c', PROGRAM, lib, str(frames), str(CALLS)], env=env, check=True, stderr=subprocess.DEVNULL)
    with open(trace, encoding='utf-8') as f:
        lines = [json.loads(line) for line in f]
    ts = sorted(e['ts'] for e in lines if 'symbol' in e)
    assert len(ts) == CALLS and lines[-1].get('python_calls', CALLS) == CALLS, lines[-1]
    return statistics.median((b - a) * 1e6 for a, b in zip(ts, ts[1:])), lines[-1]['probe_cost_ns']


with tempfile.TemporaryDirectory() as tmp:
    for frames in 3, 10, 35, 100:
        rounds = [(one(tmp, frames, []), one(tmp, frames, ['--python']), one(tmp, frames, ['--python', '--probe=inject'])) for _ in range(ROUNDS)]
        inside = [statistics.median(x) for x in ([r[2][0] for r in rounds], [r[2][0] / r[1][0] for r in rounds])]
        without, with_ = ([statistics.median(r[i][k] for r in rounds) for k in (0, 1)] for i in (0, 1))
        more = [statistics.median(r[1][k] - r[0][k] for r in rounds) for k in (0, 1)]
        print(f'{frames:3} frames: {without[0]:.0f} ns a call, with --python {with_[0]:.0f} ({more[0]:+.0f}); said to cost {without[1]:.0f} and {with_[1]:.0f} ({more[1]:+.0f}); '
              f'in-process {inside[0]:.0f} ns, {inside[1]:.2f} times as much as by uprobes', flush=True)
