#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What suite 79 expects of the daemon's metrics and files.

containers.py metrics FILE NAMESPACE POD CONTAINER ALLOCATIONS FAILURES COUNTS
    The counts of a container's caller and sample; COUNTS is what the stand-in wrote of the latter, or is not there.
containers.py lines FILE TRACED
    JSON lines; TRACED has "PID NAME LEVEL ALLOCATIONS FAILURES NAMESPACE POD CONTAINER" for each caller, "-" for nothing.
"""
import collections
import json
import os
import re
import sys

SAMPLE = re.compile(r'(\w+)\{(.*)\} (\S+)$')
LABEL = re.compile(r'(\w+)="([^"]*)"')


def metrics(path, namespace, pod, container, allocs, fails, counts):
    wrong = []
    calls = collections.defaultdict(collections.Counter)
    errors = collections.Counter()
    for line in open(path, encoding='utf-8'):
        m = SAMPLE.match(line)
        if not m:
            continue
        labels = dict(LABEL.findall(m[2]))
        if 'command' not in labels or 'namespace' not in labels:
            continue
        if [labels['namespace'], labels['pod'], labels['container']] != [namespace, pod, container]:
            continue
        if m[1] == 'cudatrace_calls_total':
            calls[labels['command']][labels['function']] += int(m[3])
        elif m[1] == 'cudatrace_errors_total':
            errors[labels['command'], labels['function'], labels['error']] += int(m[3])

    def same(what, a, b):
        if a != b:
            wrong.append(f'{what}: {a}, not {b}')

    same('cuMemAlloc_v2', calls['ct-caller']['cuMemAlloc_v2'], int(allocs))
    same('cuMemFree_v2', calls['ct-caller']['cuMemFree_v2'], int(allocs) + int(fails))
    same('errors', errors['ct-caller', 'cuMemFree_v2', 'CUDA_ERROR_INVALID_VALUE'], int(fails))
    said = {}
    if os.path.exists(counts):
        said = {k: int(v) for k, v in re.findall(r'^(cu\w+) (\d+)$', open(counts, encoding='utf-8').read(), re.M)}
        if len(said) < 20:
            wrong.append(f'the stand-in said only {said}')
    same('functions of the sample', {k: v for k, v in calls['ct-sample'].items() if said.get(k) != v}, {})
    same('functions that were not seen', {k: v for k, v in said.items() if k not in calls['ct-sample']}, {})
    return wrong


def lines(path, traced):
    wrong = []
    want = {}
    for line in open(traced, encoding='utf-8'):
        pid, name, level, allocs, fails, *labels = line.split()
        want[int(pid)] = name, level, int(allocs), int(fails), [None if x == '-' else x for x in labels]
    calls = collections.Counter()
    commands = collections.Counter()
    of_pod = {tuple(w[4]) for w in want.values()}
    for line in open(path, encoding='utf-8'):
        e = json.loads(line)
        if 'pid' not in e or e['type'] == 'header':
            continue
        labels = [e.get('namespace'), e.get('pod'), e.get('container')]
        if e['pid'] in want and labels != want[e['pid']][4]:
            wrong.append(f'{want[e["pid"]][0]}: {line[:300]}')
        if tuple(labels) not in of_pod:
            wrong.append(f'whose? {line[:300]}')
        commands[e.get('comm'), tuple(labels)] += 1
        calls[e['pid'], e.get('symbol')] += 1
    for pid, (name, level, allocs, fails, labels) in want.items():
        got = calls[pid, 'cuMemAlloc_v2'], calls[pid, 'cuMemFree_v2']
        should = (allocs, allocs + fails) if level == 'trace' else (0, 0)
        if got != should:
            wrong.append(f'{name}: {got} lines of allocations and of frees, not {should}')
        if name != 'docker' and bool(commands['ct-sample', tuple(labels)]) != (level == 'trace'):
            wrong.append(f'{name}: {commands["ct-sample", tuple(labels)]} lines of the sample at level {level}')
    if not want:
        wrong.append('nothing to compare with')
    return wrong


WRONG = {'metrics': metrics, 'lines': lines}[sys.argv[1]](*sys.argv[2:])
if WRONG:
    sys.exit('\n'.join(WRONG[:20]))
