#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Processors go offline and return while programs on them are traced: every call of every thread must be there. Tests the best
# mechanism; the others are tested in make check-all.
# alone
# longer
set -u
. tests/lib.sh
needs_tracing 'processors'
export LD_LIBRARY_PATH=$FAKE

is() { [ "$1" = "$2" ] || { echo "$1, not $2"; return 1; }; }
cpus=()
trap 'for c in "${cpus[@]}"; do echo 1 >"$c"; done' EXIT

processors()
{
	local mech best='' c n=0 out
	for c in /sys/devices/system/cpu/cpu*/online; do
		[ "$(cat "$c")" = 1 ] && cpus+=("$c")
	done
	if [ ${#cpus[@]} = 0 ] || ! echo 0 2>/dev/null >"${cpus[-1]}"; then
		cpus=()
		skip 'processors go and come back' 'they cannot be taken offline here'
		return
	fi
	echo 1 >"${cpus[-1]}"
	cpus=("${cpus[-1]}")
	for mech in session multi perf; do
		has_mechanism $mech || continue
		best=${best:-$mech}
		[ "$LONG" = "$([ $mech = "$best" ]; echo $?)" ] || continue
		rm -f "$TMP/tids"
		FAKE_NO_SEM=1 FAKE_TID_COUNTS=$TMP/tids "$CUDATRACE" -q -e cuMemFree_v2 --mechanism=$mech --buffer-size 64M \
			--jsonl "$TMP/cpu.jsonl" -- "$CASES/many" cuMemFree_v2 20000 4 50000 >"$TMP/out" 2>"$TMP/err" &
		tracer=$!
		n=0
		while kill -0 $tracer 2>/dev/null; do
			echo 0 >"${cpus[0]}"
			sleep 0.1
			echo 1 >"${cpus[0]}"
			sleep 0.1
			n=$((n + 1))
		done
		ended $tracer
		check "processors go and come back, $mech: status" is "$? $(cat "$TMP/err")" '0 '
		out=$(tests/cases/per_thread.py "$TMP/cpu.jsonl" "$TMP/tids" 2>&1)
		check "processors go and come back, $mech: every call of every thread" is "$out" '4 threads, 80000 calls, 0 dropped'
		check "processors go and come back, $mech: the sums" holds "$TMP/cpu.jsonl" 'accounts()'
		echo "# $n times"
	done
	check 'processors go and come back: all are there' is "$(cat "${cpus[0]}")" 1
}

processors
