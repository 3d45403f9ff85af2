#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# What a report keeps has a bound, in all and by table, and it says what found no place: traces that are made to be a burden
# (tests/helpers/hostile_trace.py), read from a pipe, stay below what docs/REPORT.md says. A process that fills every table leaves
# room for one that comes after it (tests/helpers/first_process.py).
# takes: 90
set -u
. tests/lib.sh

report() { "$CUDATRACE" report "$@"; }
LIMIT_KB=1000000

# burden FORMAT ROUNDS NAME_LENGTH: the report of it is whole, and takes less than LIMIT_KB
burden()
{
	local kb
	kb=$(python3 tests/helpers/hostile_trace.py "$2" "$3" | python3 -c '
import resource, subprocess, sys
status = subprocess.run(sys.argv[1:], stderr=subprocess.DEVNULL).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(status)' "$CUDATRACE" report -q --format="$1" -o "$TMP/burden" -) || { echo "status $?"; return 1; }
	echo "# $1, $2 rounds, names of $3: $kb kB, $(stat -c %s "$TMP/burden") bytes" >>"$TMP/said"
	[ "$kb" -lt $LIMIT_KB ] || { echo "$kb kB"; return 1; }
}
# says EXPRESSION: of the JSON form, as r
says() { python3 -c 'import json, sys; r = json.load(open(sys.argv[1])); out = r.get("left_out", {}); sys.exit(0 if eval(sys.argv[2]) else str(out))' "$TMP/burden" "$1"; }

if [ "$LONG" = 1 ]; then
	: >"$TMP/said"
	check 'a burden, as JSON: less than 1 GB' burden json 150000 200
	check 'a burden: says of each table what found no place' says \
		'{"texts", "traces", "processes", "threads", "kernels", "streams", "events", "graphs", "captures", "devices", "driver_commands", "flame"} <= out.keys()'
	check 'a burden, as a page, with long names: less than 1 GB' burden html 30000 9000
	cat "$TMP/said"
	exit
fi
python3 tests/helpers/hostile_trace.py 20000 100 >"$TMP/a.jsonl"
check 'a burden, diff: its functions and kernels are compared' eval '"$CUDATRACE" diff --json "$TMP/a.jsonl" "$TMP/a.jsonl" >"$TMP/burden" 2>/dev/null; [ $? = 0 ] &&
	says "\"devices\" in out and r[\"changed\"] == 0"'

# What process 2 has in a report of its own it has behind process 1, too.
python3 tests/helpers/first_process.py 70000 >"$TMP/both.jsonl" && grep -v '"pid":1,' "$TMP/both.jsonl" >"$TMP/alone.jsonl"
behind()
{
	for i in alone both; do report -q --top 1000 "--format=$1" -o "$TMP/$i" "$TMP/$i.jsonl" 2>/dev/null || return 1; done
	python3 tests/helpers/first_process.py "$2" "$TMP/alone" "$TMP/both"
}
check 'behind a process that fills all: the rows of the report' behind json --same
cp "$TMP/both" "$TMP/burden"
check 'behind a process that fills all: what that lost is counted' says \
	'{"texts", "stacks", "functions", "threads", "segments", "kernels", "kernel_handles", "streams", "edges", "events", "graphs", "captures", "allocations", "pools", "devices", "waits", "calls", "driver_commands", "flame", "errors"} <= out.keys()'
check 'behind a process that fills all: lanes and events of the page' behind html --page
"$CUDATRACE" diff --json "$TMP/both.jsonl" "$TMP/alone.jsonl" >"$TMP/burden" 2>/dev/null
check 'behind a process that fills all: diff finds its kernels the same' \
	grep -q '"name":"small_first","changed":false,"count_before":50,"count_after":50' "$TMP/burden"
rm "$TMP"/*.jsonl

# A program that makes more pools than are kept of one: 4,096.
python3 - >"$TMP/pools.jsonl" <<'END'
print('{"ts":0,"type":"header","name":"cudatrace","schema":1}')
for i in range(1, 5001):
    print('{"ts":%d,"type":"memory","op":"create","name":"cuMemPoolCreate","symbol":"cuMemPoolCreate","pid":1,"tid":1,"comm":"x","id":%d,'
          '"duration_us":1,"result":0,"args":{"pool":"0x%x","poolProps":{"location":{"type":"CU_MEM_LOCATION_TYPE_DEVICE","id":0}}}}' % (i, i, i << 12))
print('{"ts":6000,"type":"end","name":"cudatrace","reason":"x"}')
END
report -q --format=json -o "$TMP/burden" "$TMP/pools.jsonl"
check 'pools of a process: those beyond 4,096 are counted' says 'out == {"pools": 904}'
check 'pools of a process: the text says so' eval 'report -q "$TMP/pools.jsonl" | grep -A2 "^Left out" | grep -q "memory pools: no place for one more, 904 times"'
sed -i 4000q "$TMP/pools.jsonl"
check 'fewer: nothing is left out' eval 'report -q --format=json -o "$TMP/burden" "$TMP/pools.jsonl" && says "not out" && ! report -q "$TMP/pools.jsonl" | grep -q "^Left out"'
