#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Measures the cost of the levels of --detail: tests/bench/detail.py [BUILD FOLDER] (root).

A token of tests/fake/sample.c, by the cost in the trace, and a small collective of the mock libnccl with PyTorch's calls
around one, by CPU time of its thread (tests/bench/collectives.c). All levels take turns. Prints medians of the rounds."""
import json
import os
import statistics
import subprocess
import sys
import tempfile

ROUNDS, TOKENS, COLLECTIVES = 7, 200, 20000
LEVELS = ['-e launch', '--detail=low', '', '--detail=high', '--detail=all']
build = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else 'build')
# Kernels that take no time: a wait for them would hide the cost of tracing.
env = dict(os.environ, LD_LIBRARY_PATH=f'{build}/fake', FAKE_KERNEL_US='0')


def traced(trace, level, command):
    out = subprocess.run([f'{build}/cudatrace', '-q', '--buffer-size', '64M', *level.split(), '--jsonl', trace, '--', *command],
                         env=env, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    with open(trace, encoding='utf-8') as f:
        end = json.loads(list(f)[-1])
    assert not any(end['drops'].values()), end['drops']
    return end, out


with tempfile.TemporaryDirectory() as tmp:
    subprocess.run(['gcc', '-O2', '-w', '-o', f'{tmp}/collectives', 'tests/bench/collectives.c', '-ldl'], check=True)
    loop = [f'{tmp}/collectives', str(COLLECTIVES)]
    sample = [f'{build}/fake/sample', '--quiet', '--tokens', str(TOKENS)]
    rows = {level: [] for level in LEVELS}
    bare = []
    for _ in range(ROUNDS):
        bare.append(float(subprocess.run(loop, env=env, check=True, stdout=subprocess.PIPE, text=True).stdout))
        for level in LEVELS:
            end, _ = traced(f'{tmp}/t.jsonl', level, sample)
            nccl, ns = traced(f'{tmp}/t.jsonl', level, loop)
            rows[level].append((end['entries'], end['cost_ms'] * 1000 / TOKENS, nccl['entries'], (float(ns) - bare[-1]) / 1000))
    of = {level: [statistics.median(r[i] for r in rows[level]) for i in range(4)] for level in LEVELS}
    most = of['--detail=all']
    print(f'a collective untraced: {statistics.median(bare) / 1000:.2f} us')
    for level, (calls, us, nccl_calls, nccl_us) in of.items():
        print(f'{level or "normal, the default":20} sample: {calls / most[0]:4.0%} of calls, {us:5.1f} us a token; collectives: '
              f'{nccl_calls / most[2]:4.0%} of calls, {nccl_us:5.2f} us each')
