#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Calls that are counted, or recorded at their entry only, against the stand-in driver's own counts, by each mechanism. Also levels that
# change while calls are made.
# takes: 61
set -u
. tests/lib.sh
needs_tracing levels
unset LD_LIBRARY_PATH

is() { [ "$1" = "$2" ] || { echo "$1, not $2"; return 1; }; }
ready() { caller "$1" && [ "$(ask "$1" open "$FAKE/libcuda.so.1")$(ask "$1" init)" = 10 ]; }

# The driver's own counts must equal the trace's lines plus its counted calls.
# truth TRACE COUNTS
truth()
{
	holds "$1" 'not (lambda seen, own: {k: (seen.get(k), own.get(k)) for k in seen.keys() | own.keys() if seen.get(k) != own.get(k)})(
		dict(sym + collections.Counter({k: c["calls"] + c.get("unfinished", 0) + c.get("abandoned", 0) for k, c in end.get("counted", {}).items()})),
		{l.split()[0]: int(l.split()[1]) for l in open(counts)}) and accounts()' counts="$2"
}

# traced NAME MECHANISM OPTION... -- COMMAND...: a trace of a command, and the driver's counts
traced()
{
	local name=$1 mech=$2
	shift 2
	rm -f "$TMP/$name.counts"
	LD_LIBRARY_PATH=$FAKE FAKE_CUDA_COUNTS=$TMP/$name.counts "$CUDATRACE" -q --mechanism="$mech" \
		--jsonl "$TMP/$name.jsonl" "$@" >"$TMP/$name.out" 2>"$TMP/$name.err"
}

# Few functions by perf events, because closing one takes 0.1 s.
few='cuMemAlloc,cuMemFree,cuCtxGetDevice,cuLaunchKernel,cuDeviceGet'

mechanism()
{
	local mech=$1 set=all,'!other' queries=query
	has_mechanism "$mech" || { skip "levels: $mech" "kernel $(uname -r) has none"; return; }
	[ "$mech" = perf ] && set=$few queries=cuDeviceGet,cuCtxGetDevice

	# Queries must be counted with durations and errors.
	traced count "$mech" -e "$set" --count $queries -- "$CASES/queries"
	check "$mech: --count query: status" is $? 0
	check "$mech: --count query: five calls of cuCtxGetDevice" holds "$TMP/count.jsonl" \
		'(end["counted"]["cuCtxGetDevice"]["calls"] == 5 and end["counted"]["cuCtxGetDevice"]["errors"] == 0 and sym["cuCtxGetDevice"] == 0
		and 0 < end["counted"]["cuCtxGetDevice"]["max_us"] <= end["counted"]["cuCtxGetDevice"]["total_us"] and accounts())'
	check "$mech: --count query: one of two calls of cuDeviceGet failed" holds "$TMP/count.jsonl" \
		'(end["counted"]["cuDeviceGet"]["calls"], end["counted"]["cuDeviceGet"]["errors"]) == (2, 1)'
	[ "$mech" = perf ] || check "$mech: --count query: the driver's own counts" truth "$TMP/count.jsonl" "$TMP/count.counts"

	# Two threads, 40,000 calls: no count is lost between them.
	traced many "$mech" -e "$few" --count cuLaunchKernel -- "$CASES/many" cuLaunchKernel 20000 2
	check "$mech: two threads: all are counted" holds "$TMP/many.jsonl" \
		'(end["counted"]["cuLaunchKernel"]["calls"] == int([l.split()[1] for l in open(counts) if l.startswith("cuLaunchKernel ")][0]) >= 40000
		and sym["cuLaunchKernel"] == 0 and accounts())' counts="$TMP/many.counts"
	traced entries "$mech" -e "$few" --count cuLaunchKernel --entry-only cuLaunchKernel -- "$CASES/many" cuLaunchKernel 20000 2
	check "$mech: two threads: all entries are counted" holds "$TMP/entries.jsonl" \
		'(lambda c, own: c["calls"] == c["entry_only"] == own >= 40000 and "total_us" not in c and end["orphans"] == 0 and accounts())(
		end["counted"]["cuLaunchKernel"], int([l.split()[1] for l in open(counts) if l.startswith("cuLaunchKernel ")][0]))' \
		counts="$TMP/entries.counts"

	# Entries alone must have records, too.
	traced noret "$mech" -e "$few" --entry-only launch -- "$CASES/launch"
	check "$mech: --entry-only launch: launches without end or result" holds "$TMP/noret.jsonl" \
		'(lambda l: l and all(c["entry_only"] and "duration_us" not in c and "result" not in c and "grid" in c for c in l))(
		[c for c in calls if c["symbol"] == "cuLaunchKernel"]) and end["orphans"] == 0 and accounts()'
	check "$mech: --entry-only launch: others have both" holds "$TMP/noret.jsonl" \
		'all("result" in c and "entry_only" not in c for c in calls if c["symbol"] != "cuLaunchKernel")'

	# Counted calls that never return, and records made inside counted calls.
	traced jump "$mech" -e 'cu*Callback,cuMemAlloc_v2' --count 'cu*Callback' -- "$CASES/longjmp"
	check "$mech: longjmp: three counted calls are abandoned" holds "$TMP/jump.jsonl" \
		'end["abandoned"] == 3 == sum(c.get("abandoned", 0) for c in end["counted"].values()) and accounts()'
	traced nested "$mech" -e 'cu*Callback,cuMemAlloc,cuMemFree' --count 'cu*Callback' -- "$CASES/nested"
	check "$mech: a record in a counted call has no parent" holds "$TMP/nested.jsonl" \
		'end["counted"] and all(("parent" in c) == ("depth" in c) for c in calls) and all("parent" not in c or c["parent"] in {x["id"] for x in calls} for c in calls) and accounts()'
}

unfinished()
{
	ready asleep || { fail 'a counted call that lasts' 'the target does not run'; return; }
	tracer asleep -e all,'!cu[FP]*[LI]*[de]' --count 'cu[EF]*S*' --duration 0.7 -p "$asleep" || { fail 'a counted call that lasts' 'see above'; return; }
	ask asleep sleep 4000000 >/dev/null
	ended $tracer
	check 'a counted call that lasts: unfinished' holds "$TMP/asleep.jsonl" \
		'end["counted"] == {"cuFakeSleep": {"calls": 0, "unfinished": 1}} and end["unfinished"] == 1 and accounts()'
	quit asleep
}

# Processes that come and go: counts of ended processes must stay in the sum.
children()
{
	ready parent || { fail 'counts of children' 'the target does not run'; return; }
	tracer parent --count cuMemAlloc,cuMemFree -p "$parent" || { fail 'counts of children' 'see above'; return; }
	for _ in 1 2 3 4 5; do ask parent child 50 >/dev/null; done
	ask parent alloc 7 >/dev/null
	quit parent
	ended $tracer
	check 'counts of children: all together' holds "$TMP/parent.jsonl" \
		'[end["counted"][s]["calls"] for s in ("cuMemAlloc_v2", "cuMemFree_v2")] == [257, 257] and accounts()'
}

# The overhead of a flood must stay low, and every change of level must be reported.
budget()
{
	LD_LIBRARY_PATH=$FAKE FAKE_NO_SEM=1 "$CASES/many" cuCtxGetDevice 1000000000 1 >/dev/null 2>&1 &
	target=$!
	sleep 0.2
	begin=$SECONDS
	tracer budget --all --max-overhead 5 -p $target --chrome "$TMP/budget.json" || { fail '--max-overhead' 'see above'; kill $target; return; }
	until_ok 10 grep -q '"to":"count"' "$TMP/budget.jsonl"
	# Longer than it was traced.
	sleep $((2 * (SECONDS - begin) + 2))
	stop $tracer
	check '--max-overhead: the flood was counted' holds "$TMP/budget.jsonl" \
		'((lambda l: l and l[0]["from"] == "trace" and l[0]["to"] == "count" and all(e["op"] == "level" and e["why"] for e in l)
		and l[0]["name"] == "cuCtxGetDevice")([e for e in ev if e["type"] == "tracer"]) and end["counted"]["cuCtxGetDevice"]["calls"] > 1000 and accounts(drops=True))'
	check '--max-overhead: the changes are in the Chrome trace' grep -q '"cat":"tracer".*"from":"trace","to":"count"' "$TMP/budget.json"
	check '--max-overhead: fewer lines than calls' holds "$TMP/budget.jsonl" 'end["calls"] + end["drops"]["calls"] < end["entries"] / 2'
	kill $target
	ended $target 2>/dev/null

	# The target is quiet again, so its calls must be recorded again.
	ready calm || { fail '--max-overhead: quiet' 'the target does not run'; return; }
	tracer calm -e cuDriverGetVersion --max-overhead 1 -p "$calm" || { fail '--max-overhead: quiet' 'see above'; return; }
	ask calm version 300000 >/dev/null
	until_ok 5 grep -q '"to":"count"' "$TMP/calm.jsonl"
	until_ok 8 grep -q '"to":"trace"' "$TMP/calm.jsonl"
	ask calm version 5 >/dev/null
	quit calm
	ended $tracer
	check '--max-overhead: back when quiet' holds "$TMP/calm.jsonl" \
		'((lambda l: l[0]["to"] == "count" and l[-1]["to"] == "trace")([e for e in ev if e["type"] == "tracer"])
		and [e["type"] for e in ev[-8:-2]] == ["tracer"] + ["init"] * 5 and accounts(drops=True))'
	check '--max-overhead: exact all the time' holds "$TMP/calm.jsonl" \
		'len(calls) + end["drops"]["calls"] + end.get("counted", {}).get("cuDriverGetVersion", {"calls": 0})["calls"] == 300005 == end["entries"]'
}

# The daemon's use: tests/levels.c attaches for all processes and changes levels while calls are made.
daemon()
{
	local lib=$TMP/daemon/libcuda.so.1
	mkdir -p "${lib%/*}"
	cp "$FAKE/libcuda.so.1" "$lib"
	read -ra libs < <(pkg-config --libs libbpf libelf zlib libseccomp)
	${CC:-gcc} -std=gnu11 -D_GNU_SOURCE= -O1 -Isrc -Iinclude -I"$O" -o "$TMP/levels" tests/levels.c "$O/libct.a" "${libs[@]}" -l:libstdc++.a -lm ||
		{ fail 'levels that change' 'tests/levels.c does not build'; return; }
	mkfifo "$TMP/d.to" "$TMP/d.from"
	"$TMP/levels" "$lib" <"$TMP/d.to" >"$TMP/d.from" &
	daemon=$!
	exec {daemon_to}>"$TMP/d.to" {daemon_from}<"$TMP/d.from"
	read -r -t 20 answer <&"$daemon_from"
	check 'levels that change: attached' is "$answer" ready
	for target in one two; do
		caller $target
		[ "$(ask $target open "$lib")$(ask $target init)" = 10 ] || { fail 'levels that change' 'the target does not run'; return; }
	done

	alloc() { ask "$1" alloc "$2" >/dev/null; }
	saw() { check "levels that change: $1" is "$(ask daemon "$2" "$3" cuMemAlloc_v2)" "records $4 calls $5 errors $6 entered $7 wrong 0"; }
	alloc one 3
	saw 'all is recorded at first' read "$one" 3 0 0 0
	ask daemon default metrics >/dev/null
	alloc one 5
	alloc two 7
	saw 'metrics: one process' read "$one" 0 5 0 0
	saw 'metrics: the other' read "$two" 0 7 0 0
	ask daemon proc "$two" trace >/dev/null
	alloc one 1
	alloc two 2
	saw 'one process is traced, the other is not' read "$one" 0 6 0 0
	alloc two 2
	saw 'and the other way round' read "$two" 2 7 0 0
	ask daemon proc "$one" off >/dev/null
	alloc one 10
	saw 'off' read "$one" 0 6 0 0
	ask daemon proc "$one" default >/dev/null
	ask daemon default trace >/dev/null
	alloc one 4
	saw 'back' read "$one" 4 6 0 0
	ask daemon fn cuMemAlloc_v2 entries 1 >/dev/null
	alloc one 9
	saw 'a function: entries' read "$one" 0 6 0 9
	ask daemon fn cuMemAlloc_v2 off 1 >/dev/null
	alloc one 9
	saw 'a function: off' read "$one" 0 6 0 9
	ask daemon fn cuMemAlloc_v2 count 1 >/dev/null
	ask one threads 4 5000 >/dev/null
	saw 'a function: counted in four threads' read "$one" 0 20006 0 9
	saw 'taken' take "$one" 0 20006 0 9
	saw 'and forgotten' read "$one" 0 0 0 0
	ask one turns 3 1000 >/dev/null
	# The last thread that is left in the shared row meets no other thread there.
	check 'a function: threads that meet count in rows of their own' own_rows $(ask daemon rows "$one" cuMemAlloc_v2)
	saw 'of all threads together' take "$one" 0 3000 0 0
	check 'a function: and these are taken too' is "$(ask daemon rows "$one" cuMemAlloc_v2)" 'rows 0'
	ask daemon fn cuMemAlloc_v2 sample 10 >/dev/null
	alloc one 2000
	check 'levels that change: a sample, about a tenth; with the rest it is all' sampled $(ask daemon read "$one" cuMemAlloc_v2)
	for target in one two; do quit $target; done
	exec {daemon_to}>&-
	kill $daemon 2>/dev/null
	ended $daemon 2>/dev/null
}
# rows N
own_rows() { [ "$2" -ge 3 ] && [ "$2" -le 4 ] || { echo "$*"; return 1; }; }
# records N calls M ...
sampled() { [ $(($2 + $4)) = 2000 ] && [ "$2" -gt 120 ] && [ "$2" -lt 290 ] || { echo "$*"; return 1; }; }

for mech in session multi perf; do
	mechanism $mech
done
# Every output must match docs/SCHEMA.md.
schema() { for t in "$TMP"/*.jsonl; do tests/golden/schema_check.py "$t" || return 1; done; }

unfinished
children
daemon
budget
check 'all traces: schema' schema
for bad in --count=nosuch --entry-only=nosuch --count= --max-overhead=0 --max-overhead=101 --max-overhead=x; do
	"$CUDATRACE" $bad --duration 0.1 >/dev/null 2>"$TMP/bad.err"
	check "$bad: refused" is "$?" 2
done
