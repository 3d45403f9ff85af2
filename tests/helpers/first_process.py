#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""first_process.py ROUNDS [NAME_LENGTH]: a saved trace in which process 1 has filled every table of a report before
process 2, a small program, makes its first call; on stdout. The events of the two are distinct: `grep -v '"pid":1,'` is process 2 alone.

first_process.py --same ALONE BOTH: the report BOTH must have the rows of the report ALONE (--format=json).
first_process.py --page ALONE BOTH: the same for pages: their report, lanes, names and details.
"""
import collections, json, sys

from page import Page
from hostile_trace import CALLS, END, HEADER, IOCTL, STACK, call

ERROR = ('{"ts":%d.%06d,"type":"memory","op":"free","name":"cuMemFree","symbol":"cuMemFree_v2","pid":%d,"tid":%d,"comm":"c%d","id":%d,'
         '"duration_us":1,"result":%d,"error":"CUDA_ERROR_%d","ptr":"0x%x","args":{"dptr":"0x%x"}}\n')
REFUSED = IOCTL.replace('NV_OK', 'NV_ERR_%d').replace('"name":"NV_%d"', '"name":"NV_REFUSED_%d"')
ALLOC = call('memory', 'alloc', 'cuMemAlloc', 'cuMemAlloc_v2', '"size":64,"ptr":"0x%x","args":{"dptr":"0x%x","bytesize":64}')
LAUNCH = call('kernel', 'launch', 'cuLaunchKernel', 'cuLaunchKernel',
              '"stream":"0x%x","kernel":"%s","grid":[%d,1,1],"block":[32,1,1],"shared_mem":0,"args":{"f":"0x%x"}', '%s')
SYNC = call('sync', 'sync', 'cuStreamSynchronize', 'cuStreamSynchronize', '"stream":"0x%x","stack":%d,"args":{"hStream":"0x%x"}', '%s')
NODE = call('graph', 'add', 'cuGraphAddKernelNode', 'cuGraphAddKernelNode_v2', '"args":{"phGraphNode":"0x%x","hGraph":"0x%x"}')
RECORD = call('event', 'record', 'cuEventRecord', 'cuEventRecord', '"stream":"0x%x","event":"0x%x","args":{}')
WAIT = call('stream', 'wait', 'cuStreamWaitEvent', 'cuStreamWaitEvent', '"stream":"0x%x","event":"0x%x","args":{}')
LOOKUP = call('module', 'lookup', 'cuModuleGetFunction', 'cuModuleGetFunction', '"kernel":"q%d","args":{"hfunc":"0x%x","hmod":"0x1"}')
QUERY = call('module', 'query', 'cuFuncGetAttribute', 'cuFuncGetAttribute', '"args":{"pi":32,"attrib":"CU_FUNC_ATTRIBUTE_NUM_REGS","hfunc":"0x%x"}')
CAPTURED = call('graph', 'capture_end', 'cuStreamEndCapture', 'cuStreamEndCapture',
                '"stream":"0x%x","args":{"hStream":"0x%x","phGraph":"0x%x"}')
GRAPH = call('graph', 'launch', 'cuGraphLaunch', 'cuGraphLaunch', '"stream":"0x%x","args":{"hGraphExec":"0x%x","hStream":"0x%x"}')
OWN = call('other', 'none', 'cuSmallOwn', 'cuSmallOwn', '"args":{}')


class Trace:
    def __init__(self):
        self.no, self.ms = 0, 0
        self.lines = []

    def put(self, form, pid, tid, *fields, us=1, comm=None):
        """A call; us is its duration, if the form has none."""
        self.no += 1
        self.ms += 1
        texts = ('%.1f' % us,) if ':%s,"result"' in form else ()
        self.lines.append(form % (self.ms // 1000, self.ms % 1000 * 1000, pid, tid, comm or pid, self.no, *texts, *fields))

    def line(self, form, *fields):
        self.ms += 1
        self.lines.append(form % (self.ms // 1000, self.ms % 1000 * 1000, *fields))

    def take(self):
        lines, self.lines = self.lines, []
        return ''.join(lines)


def flood(t, i):
    """Process 1: each round adds a thread, and one of everything else."""
    tid, x, frame = 10 + i, i << 12, 1 << 40 | i
    t.line(STACK, 1, tid, i, frame, x, i, i, i)
    for n, form in enumerate(CALLS):
        if n == 10:
            t.no += 1
            t.line(form, i, i, 1, tid, i, t.no)
        elif n == 0:
            t.put(form, 1, tid, comm=i)
        elif n == 1:
            t.put(form.replace('"dev":0', '"dev":%d'), 1, tid, x, x, i, comm=i)
        elif n == 4:
            t.put(form.replace('[1,1,1],"block"', '[%d,1,1],"block"').replace('"f":"0x1"', '"f":"0x%x"'), 1, tid, x, i, i, x, comm=i)
        elif n == 9:
            t.put(form.replace('"args"', '"stack":%d,"args"'), 1, tid, x, frame, x, comm=i)
        else:
            t.put(form, 1, tid, x, x if n != 3 else i % 8, comm=i)
    t.put(WAIT, 1, tid, x, x - (1 << 12), comm=i)
    t.put(NODE, 1, tid, x, x, comm=i)
    t.put(LOOKUP, 1, tid, i, x | 1, comm=i)
    t.put(QUERY, 1, tid, x | 2, comm=i)
    t.no += 1
    t.line(ERROR, 1, tid, i, t.no, i % 900 + 1, i % 900, x | 3, x | 3)
    t.line(IOCTL, i, 1, tid, i, i, i, t.no, i)
    t.line(REFUSED, i, 1, tid, i, i, i, i, t.no, i)


def small(t):
    """Process 2: two threads, two streams, three kernels, a graph, a leak, an error ..."""
    def p(form, *fields, us=1, tid=2):
        t.put(form, 2, tid, *fields, us=us, comm=0)

    a, b, frame = 0xa000, 0xb000, 1 << 50
    t.line(STACK, 2, 2, 0, frame, 1, 0, 0, 0)
    p(CALLS[0])
    p(CALLS[1], 0xc0, 0xc0)
    p(ALLOC, 0x7000, 0x7000)
    p(ALLOC, 0x8000, 0x8000)
    p(LOOKUP, 2, 0xf0)
    p(QUERY, 0xf0)
    p(OWN)
    p(CALLS[3], 0xd0, 0)
    p(CALLS[6], 0x60, 0)
    p(NODE, 0x61, 0x60)
    p(CALLS[7], 0x62, 0x60)
    p(CALLS[8], a, a)
    p(LAUNCH, a, 'small_captured', 1, 0xf1)
    p(CAPTURED, a, a, 0x63)
    p(CALLS[7], 0x64, 0x63)
    for i in range(50):
        tid = 2 + i % 2
        p(LAUNCH, a, 'small_first', 7, 0xf2, us=5, tid=tid)
        p(RECORD, a, 0xe0, tid=tid)
        p(WAIT, b, 0xe0, tid=tid)
        p(LAUNCH, b, 'small_second', 9, 0xf3, us=5, tid=tid)
        p(GRAPH, a, 0x62 + i % 3 // 2 * 2, a, tid=tid)
        p(SYNC, a, frame, a, us=950, tid=tid)
        p(SYNC, b, frame, b, us=950, tid=tid)
        t.ms += 20
        t.line(IOCTL, 0, 2, tid, 0, 0, 0, t.no, 0)
        t.line(REFUSED, 0, 2, tid, 0, 0, 0, 0, t.no, 0)
    t.no += 1
    t.line(ERROR, 2, 2, 0, t.no, 1, 1, 0x9999, 0x9999)
    t.line(ERROR, 2, 2, 0, t.no, 998, 998, 0x9999, 0x9999)


def write(rounds):
    t = Trace()
    sys.stdout.write(HEADER % (0, '"x"', 1))
    for i in range(1, rounds + 1):
        flood(t, i)
        sys.stdout.write(t.take())
    small(t)
    sys.stdout.write(t.take())
    sys.stdout.write(END % (t.ms // 1000 + 1, 1, ''))


def rows(r):
    """The rows of a report that belong to process 2, or that have one of its names."""
    def of(where, rows, *but):
        for row in rows:
            yield where + ' ' + json.dumps({k: v for k, v in row.items() if k not in but}, sort_keys=True)

    yield from of('process', r['overview']['processes'])
    yield from of('error', r['overview']['error_codes'])
    yield from of('function', [f for f in r['overview']['functions'] if f['name'] == 'cuSmallOwn'])
    yield from of('kernel', r['kernels']['list'])
    yield from of('stream', r['streams']['list'])
    yield from of('edge', r['streams']['edges'])
    yield from of('graph', r['graphs']['list'])
    yield from of('device', r['memory']['devices'])
    yield from of('bad free', r['memory']['bad_frees'])
    yield from of('idle', r['idle']['list'], 'in_iteration')
    yield from of('idle stream', r['idle']['streams'])
    yield from of('waiting thread', r['waits']['threads'])
    yield from of('waited for', [w for f in r['waits']['functions'] for w in f['for'] if 'kernel' in w])
    yield from of('caller', r['waits']['callers'])
    yield from of('command', r['driver']['commands'])
    yield from of('ioctls of', r['driver']['calls'])
    yield from of('pair', r['driver']['pairs'])
    yield from of('timeline', r['timeline']['rows'], 'busy')
    # the stage of a call depends on the other calls
    flame = collections.Counter()
    for s in r['stacks']:
        flame[tuple(s['stack'][:1] + s['stack'][2:])] += s['count']
    yield from (f'flame {frames} {count}' for frames, count in flame.items())


def page_rows(path):
    page = Page(path)
    yield from rows(page.report)
    meta, (_, _, what, detail, _) = page.meta, page.columns()
    first = 0
    for lane in meta['lanes']:
        name = f'{lane["pid"]}/{lane["tid"]} {lane["comm"]} {lane["driver"]}'
        if lane['pid'] == 2:
            yield f'lane {name}: {lane["events"]}'
            for i in range(first, first + lane['events']):
                yield f'event {name} {json.dumps(meta["whats"][what[i]])} {json.dumps(detail[i] and meta["details"][detail[i] - 1])}'
        first += lane['events']
    for row in meta['refused']:
        yield f'refused {json.dumps(row)}'
    for row in meta.get('callers', []):
        yield f'caller {json.dumps(row)}'


def lacks(alone, both):
    """Prints kinds of rows, with an example."""
    have, missing = set(both), {}
    kinds = set()
    for row in alone:
        kind = row.split(' {')[0].split(' ')[0]
        kinds.add(kind)
        if row not in have:
            missing.setdefault(kind, row)
    for row in missing.values():
        print(row[:300])
    print(f'# of {len(kinds)} kinds of rows {len(missing)} lack some', file=sys.stderr)
    return bool(missing) or not kinds


if __name__ == '__main__':
    if sys.argv[1] == '--same':
        sys.exit(lacks(*(list(rows(json.load(open(path)))) for path in sys.argv[2:])))
    if sys.argv[1] == '--page':
        sys.exit(lacks(*(list(page_rows(path)) for path in sys.argv[2:])))
    try:
        write(int(sys.argv[1]))
    except BrokenPipeError:
        pass
