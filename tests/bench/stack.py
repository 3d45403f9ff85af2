#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Measures the time that --stack adds to a call: tests/bench/stack.py [BUILD FOLDER] (root).

A program calls cuMemAlloc from 1 to 16 frames deeper than main's; the time from one call's start to the next includes
all that tracing adds. Traces with and without --stack take turns. Prints medians of the rounds, and the median of their
ratios."""
import json
import os
import statistics
import subprocess
import sys
import tempfile

ROUNDS, CALLS = 7, 5000
build = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else 'build')
lib = f'{build}/fake/libcuda.so.1'
env = dict(os.environ, LD_LIBRARY_PATH=os.path.dirname(lib))


def one(tmp, mechanism, frames, options):
    trace = f'{tmp}/trace.jsonl'
    # The reader runs on another processor: its time is not the call's.
    subprocess.run(['taskset', '-c', '1', f'{build}/cudatrace', '-q', '--buffer', '64M', '--mechanism', mechanism, '-e',
                    'cuMemAlloc', *options, '--jsonl', trace, '--', 'taskset', '-c', '0', f'{tmp}/stacks', lib, 'deep',
                    str(CALLS), str(frames)], env=env, check=True)
    with open(trace, encoding='utf-8') as f:
        ts = sorted(e['ts'] for e in map(json.loads, f) if 'symbol' in e)
    assert len(ts) == CALLS, len(ts)
    return statistics.median((b - a) * 1e6 for a, b in zip(ts, ts[1:]))


with tempfile.TemporaryDirectory() as tmp:
    subprocess.run(['gcc', '-O2', '-w', '-fno-omit-frame-pointer', '-o', f'{tmp}/stacks', 'tests/stack/stacks.c', '-ldl', '-lpthread'],
                   check=True)
    for frames in 1, 4, 16:
        for mechanism in 'session', 'multi', 'perf':
            rounds = [(one(tmp, mechanism, frames, []), one(tmp, mechanism, frames, ['--stack'])) for _ in range(ROUNDS)]
            without, with_ = (statistics.median(r[i] for r in rounds) for i in (0, 1))
            ratio = statistics.median(b / a for a, b in rounds)
            print(f'{frames:2} frames deeper, {mechanism}: {without:.0f} ns a call, with --stack {with_:.0f}: {ratio:.2f}')
