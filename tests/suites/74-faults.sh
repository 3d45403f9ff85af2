#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# What goes wrong: the tracer killed, targets that end in odd ways, outputs that do not take what they are given. The
# target runs on with right results, nobody stays stopped, nothing of ours stays behind, and what is lost is counted.
#
# FAULTS_KILLS=N   how many tracers are killed (200)
# timeout: 240
set -u
. tests/lib.sh
needs_tracing faults
unset LD_LIBRARY_PATH

is() { [ "$1" = "$2" ] || { echo "$1, not $2"; return 1; }; }
silent() { [ ! -s "$1" ] || { echo "says: $(cat "$1")"; return 1; }; }
is_stopped() { grep -q '^State:.T' "/proc/$1/status"; }
# descendant PID NAME: prints the process called NAME below PID
descendant()
{
	local p
	for p in $(pgrep -P "$1"); do
		[ "$(cat "/proc/$p/comm")" = "$2" ] && echo "$p"
		descendant "$p" "$2"
	done
}

# A process of the command that stands still until its libcuda is attached, when its tracer ends without a word to it.
stopped_child()
{
	local how label kid
	for how in child grandchild; do
		label="tracer killed while a $how is stopped"
		local -a cmd=("$CASES/dlopen_late" "$TMP/k/libcuda.so.1" 300)
		mkdir -p "$TMP/k"
		cp "$FAKE/libcuda.so.1" "$TMP/k/"
		[ $how = grandchild ] && cmd=(sh -c '"$@"; true' sh sh -c '"$@"; true' sh "${cmd[@]}")
		"$CUDATRACE" -q --jsonl "$TMP/left.jsonl" -- "${cmd[@]}" >"$TMP/left.out" &
		tracer=$!
		until_ok 10 grep -q ready "$TMP/left.out"
		kid=$(descendant $tracer dlopen_late)
		kill -STOP $tracer
		check "$label: it waits" until_ok 5 is_stopped "$kid"
		kill -9 $tracer
		ended $tracer 2>/dev/null
		check "$label: it goes on" until_ok 5 is_gone "$kid"
		check "$label: it did all it had to" is "$(grep -c symbol "$TMP/left.out")" 5
		kill -9 "$kid" 2>/dev/null
	done
	check 'tracer killed: its guard ends' until_ok 5 no_guard "$tracer"
}
no_guard() { ! pgrep -x cudatrace-guard -P 1 >/dev/null; }

stopped_child
