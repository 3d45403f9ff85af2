#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Are the report's numbers of memory and transfers those of the trace?

    memory_numbers.py TRACE REPORT

Works them out again from the lines of TRACE, in the simplest way, and says where REPORT (the output of
cudatrace report --format=json) differs. Only for traces of one way: cuMemAlloc and cuMemHostAlloc with their frees, and
copies whose direction is in the line. Exit status 0: the same, 1: not.
"""
import json
import sys

KINDS = {'alloc': 'device', 'alloc_host': 'host', 'create': 'vmm'}
FREES = {'free', 'free_host', 'release'}


def ns_of(ms):
    return round(ms * 1e6)


def spent(e):
    return round(e['duration_us'] * 1000)


def below(size):
    limit = 1
    while limit <= size:
        limit *= 2
    return limit


def memory(calls):
    live, kinds, sizes = {}, {}, {}
    done = [e for e in calls if e['type'] == 'memory' and e['result'] == 0]
    for e in done:
        if e['op'] in KINDS:
            kind = KINDS[e['op']]
            k = kinds.setdefault(kind, dict(kind=kind, allocs=0, frees=0, alloc_bytes=0, live_bytes=0,
                                            peak_bytes=0, peak_ts=None, alloc_ns=0, free_ns=0))
            live[e['ptr']] = (kind, e)
            k['allocs'] += 1
            k['alloc_bytes'] += e['size']
            k['alloc_ns'] += spent(e)
            now = sum(x['size'] for which, x in live.values() if which == kind)
            if now > k['peak_bytes']:
                k['peak_bytes'], k['peak_ts'] = now, round(e['ts'] + e['duration_us'] / 1000, 6)
            row = sizes.setdefault(below(e['size']), dict(below=below(e['size']), count=0, bytes=0))
            row['count'] += 1
            row['bytes'] += e['size']
        elif e['op'] in FREES and e['ptr'] in live:
            kind, _ = live.pop(e['ptr'])
            kinds[kind]['frees'] += 1
            kinds[kind]['free_ns'] += spent(e)
    for kind, e in live.values():
        kinds[kind]['live_bytes'] += e['size']
    leaks = sorted(((-e['size'], e['ts'], e['ptr'], e['id'], e['name'], e['pid']) for _, e in live.values()))
    return kinds, sizes, leaks


def transfers(calls):
    rows, pinned, memset = {}, {}, dict(count=0, bytes=0, total_ns=0)
    for e in calls:
        if e['result']:
            continue
        if e['op'] == 'alloc_host':
            pinned[int(e['ptr'], 16)] = e['size']
        elif e['op'] == 'free_host':
            pinned.pop(int(e['ptr'], 16), None)
        elif e['op'] == 'memset':
            memset['count'] += 1
            memset['bytes'] += e['size']
            memset['total_ns'] += spent(e)
        elif e['op'] == 'copy':
            row = rows.setdefault(e['direction'], dict(direction=e['direction'], count=0, bytes=0, total_ns=0, small=0,
                                                       pinned=0, pageable=0, managed=0, unknown=0))
            row['count'] += 1
            row['bytes'] += e['size']
            row['total_ns'] += spent(e)
            row['small'] += e['size'] < 65536
            host = {'HtoD': 'srcHost', 'DtoH': 'dstHost'}.get(e['direction'])
            if host:
                at = int(e['args'].get(host, '0'), 16)  # a trace may be cut to what a test needs
                where = 'pinned' if any(b <= at < b + n for b, n in pinned.items()) else 'pageable'
                where = where if at else 'unknown'
                row[where] += 1
    return rows, memset


def main():
    with open(sys.argv[1], encoding='utf-8') as f:
        trace = [json.loads(line) for line in f]
    with open(sys.argv[2], encoding='utf-8') as f:
        report = json.load(f)
    calls = sorted((e for e in trace if 'symbol' in e), key=lambda e: ns_of(e['ts']) + spent(e))
    wrong = []

    def same(what, got, want):
        if got != want:
            wrong.append(f'{what}: {got!r}, not {want!r}')

    def rows_same(what, got, want, key):
        by = {row[key]: row for row in got}
        same(f'{what}: which', sorted(by), sorted(want))
        for name, row in want.items():
            for member, value in row.items():
                same(f'{what} {name}: {member}', by.get(name, {}).get(member), value)

    mem, tr = report['memory'], report['transfers']
    kinds, sizes, leaks = memory(calls)
    rows_same('kinds', [k for k in mem['kinds'] if k['kind'] in KINDS.values()], kinds, 'kind')
    rows_same('sizes', mem['sizes'], sizes, 'below')
    same('leaks', [(-l['size'], l['ts'], l['ptr'], l['id'], l['call'], l['pid']) for l in mem['leaks']], leaks)
    same('leak_count', mem['leak_count'], len(leaks))
    same('leak_bytes', mem['leak_bytes'], -sum(l[0] for l in leaks))
    rows, memset = transfers(calls)
    rows_same('directions', tr['directions'], rows, 'direction')
    for member, value in memset.items():
        same(f'memset {member}', tr['memset'][member], value)
    same('pageable', tr['pageable']['count'], sum(r['pageable'] for r in rows.values()))
    # Every step's most is at most the peak, and one step has it.
    for kind, k in kinds.items():
        same(f'over_time {kind}', max(mem['over_time']['kinds'][kind]), k['peak_bytes'])
    print('\n'.join(wrong[:20]))
    return 1 if wrong else 0


if __name__ == '__main__':
    sys.exit(main())
