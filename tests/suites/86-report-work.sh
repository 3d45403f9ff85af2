#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The report's kernels, graphs, streams and findings: of a trace from an H200, and of programs that say what the report
# must say of them.
set -u
. tests/lib.sh

report() { "$CUDATRACE" report --format=json "$1"; }

golden=tests/golden/h200-gpt2-tokens.jsonl
# The kernels' numbers again, from the lines of the trace.
numbers()
{
	python3 - "$1" "$2" <<'END'
import collections, json, math, sys
report = json.load(open(sys.argv[2], encoding='utf-8'))
rows = collections.defaultdict(lambda: collections.Counter())
for line in open(sys.argv[1], encoding='utf-8'):
    e = json.loads(line)
    if e.get('type') != 'kernel' or e.get('op') != 'launch' or e['result'] or e.get('capturing'):
        continue
    row, ns = rows[e.get('kernel')], round(e['duration_us'] * 1000)
    row['count'] += 1
    row['total_ns'] += ns
    row['max_ns'] = max(row['max_ns'], ns)
    row['blocks'] += math.prod(e['grid'])
    row['threads'] += math.prod(e['grid']) * math.prod(e['block'])
got = {k['name']: k for k in report['kernels']['list']}
assert rows and got.keys() == rows.keys(), (got.keys(), rows.keys())
for name, row in rows.items():
    wrong = {k: (got[name][k], v) for k, v in row.items() if got[name][k] != v}
    assert not wrong, (name, wrong)
for key in ('total_ns', 'blocks', 'threads'):
    assert report['kernels'][key] == sum(r[key] for r in rows.values()), key
assert report['kernels']['launches'] == sum(r['count'] for r in rows.values())
bound = [f for f in report['findings'] if f['id'] == 'launch-bound']
assert len(bound) == 1, report['findings']
END
}
report $golden >"$TMP/golden.json" 2>"$TMP/err" || fail 'golden: a report' "$(head -1 "$TMP/err")"
check 'golden: kernels and findings of h200-gpt2-tokens' numbers $golden "$TMP/golden.json"

include=$(compgen -G '/usr/local/cuda*/include/cuda_occupancy.h' /usr/include/cuda_occupancy.h | head -1)
if [ -n "$include" ]; then
	${CXX:-g++} -w -fpermissive -Isrc "-I${include%/*}" -o "$TMP/occupancy" tests/occupancy.cc "$O/libct.a" 2>"$TMP/err" &&
		check "occupancy: as NVIDIA's calculator has it" "$TMP/occupancy" || fail "occupancy: as NVIDIA's calculator has it" "$(head -3 "$TMP/err")"
else
	skip "occupancy: as NVIDIA's calculator has it" 'cuda_occupancy.h is not here'
fi

needs_tracing 'graphs and streams of programs'
reports_of_cases work
