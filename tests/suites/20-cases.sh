#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The cases of tests/cases, traced on the stand-in driver: the trace must hold what the program says it did, every
# call that the stand-in counted, and the same with each way of attaching and both forms of entry points.
# timeout: 600
# takes: 120
set -u
. tests/lib.sh
needs_tracing cases

# Cases that stand still until somebody attaches are in 25-finding; many has no expectations.
NOT_HERE=' inflight late_names many '
# Its counts are lost with the program that exec replaces.
NO_COUNTS=' exec '

# What a case needs besides its name.
case_args()
{
	case $1 in
	dlopen_late) echo "$2/libcuda.so.1 50" ;;
	esac
}

# trace_case DIR FAKE MECHANISM CASE SET: leaves trace.jsonl, expected, counts, err and status in DIR
trace_case()
{
	local dir=$1 fake=$2 mech=$3 name=$4 set=$5
	mkdir -p "$dir"
	# shellcheck disable=SC2046 # several arguments
	env LD_LIBRARY_PATH="$fake" FAKE_CUDA_COUNTS="$dir/counts" \
		timeout -k 5 60 "$CUDATRACE" -q --mechanism="$mech" -e "$set" --jsonl "$dir/trace.jsonl" \
		-- "$CASES/$name" $(case_args "$name" "$fake") >"$dir/expected" 2>"$dir/err"
	echo $? >"$dir/status"
}

# Compares what trace_case left. Further arguments are for expect.py.
judge()
{
	local dir=$1 name=$2 label=$3
	shift 3
	local status out
	status=$(cat "$dir/status")
	case $status in
	0) ;;
	77) skip "$label" "$(tail -1 "$dir/err")"; return ;;
	*) fail "$label" "exit status $status: $(tail -3 "$dir/err")"; return ;;
	esac
	if [ -s "$dir/err" ]; then
		fail "$label" "warnings: $(cat "$dir/err")"
		return
	fi
	if ! out=$(tests/cases/expect.py "$@" "$dir/trace.jsonl" "$dir/expected" 2>&1); then
		fail "$label" "not as the case says"$'\n'"$out"
		return
	fi
	if ! out=$(holds "$dir/trace.jsonl" 'accounts()' 2>&1); then
		fail "$label" "$out"
		return
	fi
	pass "$label"
}

# The stand-in's own counts, symbol by symbol.
judge_counts()
{
	local dir=$1 name=$2 label=$3
	shift 3
	[[ $NO_COUNTS == *" $name "* ]] && return
	[ "$(cat "$dir/status")" = 0 ] || return
	check "$label" tests/cases/expect.py --counts "$dir/counts" "$@" "$dir/trace.jsonl"
}

# A trace without what differs from run to run: times, ids, addresses. Those are numbered as they first appear, but
# not where threads take them from each other.
normal()
{
	python3 - "$1" <<'END'
import collections, json, re, sys
threads = collections.OrderedDict()
calls = [e for e in map(json.loads, open(sys.argv[1], encoding="utf-8")) if "symbol" in e]
calls.sort(key=lambda e: (e["ts"], e["id"]))
names = {}
for e in calls:
    threads.setdefault((e["pid"], e["tid"]), []).append(e)
def clean(value, seen):
    if isinstance(value, dict):
        return {k: clean(v, seen) for k, v in value.items() if k != "pMilliseconds"}
    if isinstance(value, list):
        return [clean(v, seen) for v in value]
    if isinstance(value, str) and re.fullmatch("0x[0-9a-f]{5,}", value):
        return seen.setdefault(value, f"address {len(seen)}") if len(threads) == 1 else "address"
    return value
texts = []
for events in threads.values():
    seen, text = {}, []
    place = {e["id"]: i for i, e in enumerate(events)}
    for e in events:
        if "parent" in e:
            e["parent"] = place.get(e["parent"])
        # Whether work is still pending depends on the speed of the machine.
        if e.get("op") == "query" and e.get("result") in (0, 600):
            e.pop("result")
        # The address may be another thread's again before the free has returned.
        if len(threads) > 1 and e.get("op") == "free":
            e.pop("size", None)
        for k in ("ts", "id", "pid", "tid", "duration_us", "elapsed_us", "bandwidth_gbps"):
            e.pop(k, None)
        text.append(json.dumps(clean(e, seen), sort_keys=True))
    texts.append("\n".join(text))
# Threads are started and end in any order.
print("\n--\n".join(sorted(texts)))
END
}

# Never more at once than the machine is good for; most of a trace's time the kernel waits for its own locks.
at_once() { while [ "$(jobs -rp | wc -l)" -ge 4 ]; do wait -n; done; }

names=()
for bin in "$CASES"/*; do
	name=${bin##*/}
	[ -x "$bin" ] && [[ $name != *.* && $NOT_HERE != *" $name "* ]] && names+=("$name")
done
[ ${#names[@]} -gt 0 ] || { fail cases 'none is built: make check-build'; exit; }

run_all()
{
	local mech=$1 fake name
	if ! has_mechanism "$mech"; then
		skip "cases: $mech" "kernel $(uname -r) has none"
		return
	fi
	for fake in fake fake535; do
		for name in "${names[@]}"; do
			at_once
			trace_case "$TMP/$mech-$fake-$name" "$O/$fake" "$mech" "$name" "$ALL" &
		done
	done
	wait
	for fake in fake fake535; do
		for name in "${names[@]}"; do
			judge "$TMP/$mech-$fake-$name" "$name" "cases: $name, $fake, $mech"
			judge_counts "$TMP/$mech-$fake-$name" "$name" "counts: $name, $fake, $mech"
		done
	done
	for name in "${names[@]}"; do
		[ "$(cat "$TMP/$mech-"{fake,fake535}"-$name/status" | sort -u)" = 0 ] || continue
		normal "$TMP/$mech-fake-$name/trace.jsonl" >"$TMP/at0"
		normal "$TMP/$mech-fake535-$name/trace.jsonl" >"$TMP/at10"
		check "same at +10 as at +0: $name, $mech" diff "$TMP/at0" "$TMP/at10"
	done
}
run_all session
run_all multi

# Did the second really sit at +10? Its first instruction is then as in the file. 35-detach looks at the bytes.
f=$TMP/session-fake-nested/trace.jsonl g=$TMP/session-fake535-nested/trace.jsonl
[ -e "$f" ] && check 'header: mechanism session' holds "$f" 'head["mechanism"] == "uprobe.session"'
[ -e "$g" ] && check 'header: library path and build id' holds "$g" \
	'[l["path"] for l in head["libraries"]] == [path] and len(head["libraries"][0]["build_id"]) == 40' \
	path="$FAKE535/libcuda.so.1"
f=$TMP/multi-fake-nested/trace.jsonl
[ -e "$f" ] && check 'header: mechanism multi' holds "$f" 'head["mechanism"] == "uprobe.multi"'

# One perf event each for entry and return: on kernel 6.18 each takes 0.1 s to go, so only few functions, and all
# at once what can be. other: what the table does not know.
perf_case()
{
	local name=$1 set=$2 fake
	for fake in fake fake535; do
		at_once
		trace_case "$TMP/perf-$fake-$name" "$O/$fake" perf "$name" "$set" &
	done
}
perf_sets()
{
	echo 'longjmp cu*Callback,cuMemAlloc_v2'
	echo 'threads cuMemAlloc_v2,cuMemFree_v2,cuMemsetD8_v2'
	echo 'fork cuInit,cuMemAlloc_v2,cuMemFree_v2'
	echo 'launch cuLaunchKernel,cuModuleGetFunction'
	echo 'dlopen_late cuInit,cuMemAlloc_v2'
}
# What of the expectations is about a function that was traced.
only_traced()
{
	python3 -c '
import json, sys
have = {e["symbol"] for e in map(json.loads, open(sys.argv[1])) if "symbol" in e}
for line in open(sys.argv[2]):
    if line.startswith("{") and json.loads(line)["symbol"] in have:
        print(line, end="")' "$1/trace.jsonl" "$1/expected" >"$1/traced" && mv "$1/traced" "$1/expected"
}
if has_mechanism perf; then
	while read -r name set; do perf_case "$name" "$set"; done < <(perf_sets)
	wait
	while read -r name set; do
		for fake in fake fake535; do
			dir=$TMP/perf-$fake-$name
			only_traced "$dir"
			judge "$dir" "$name" "cases: $name, $fake, perf"
			judge_counts "$dir" "$name" "counts: $name, $fake, perf" --present
			check "perf is used: $name, $fake" holds "$dir/trace.jsonl" 'calls and head["mechanism"] == "uprobe"'
		done
	done < <(perf_sets)
else
	skip 'cases: perf' "kernel $(uname -r) has no BPF cookies for uprobes"
fi

# An entry point that the kernel refuses is named, and nothing else is missed for it.
trace_case "$TMP/locked" "$FAKE" auto undocumented all
check 'refused: named on stderr' grep -q 'cannot probe the first instruction of cuFakeLocked in .*its calls are not traced' "$TMP/locked/err"
check 'refused: no other' test "$(wc -l <"$TMP/locked/err")" = 1
check 'refused: the others are traced' tests/cases/expect.py --counts "$TMP/locked/counts" "$TMP/locked/trace.jsonl" "$TMP/locked/expected"
check 'refused: accounts' holds "$TMP/locked/trace.jsonl" 'accounts()'
