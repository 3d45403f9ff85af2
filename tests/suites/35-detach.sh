#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The end of a trace, orderly or not: nothing of ours stays in the target, what had not returned is shown as such,
# what was lost is counted.
# takes: 40
set -u
. tests/lib.sh
needs_tracing detach
unset LD_LIBRARY_PATH

is() { [ "$1" = "$2" ] || { echo "$1, not $2"; return 1; }; }

# ready NAME FAKE: a target with a context
ready() { ready_with "$1" "$2/libcuda.so.1"; }
ready_with() { caller "$1" && [ "$(ask "$1" open "$2")$(ask "$1" init)" = 10 ]; }

# How a trace ends: by Ctrl-C, by SIGKILL. The other way of attaching at the same time is the kernel's business.
bytes()
{
	local mech=$1 fake=$2 place=$3 how=$4
	# A file of its own, by another name: nobody else who traces the whole machine at this moment looks for it.
	local lib=$TMP/$fake.bin label="$fake, $mech, $how"
	cp "$O/$fake/libcuda.so.1" "$lib"
	has_mechanism "$mech" || { skip "bytes: $label" "kernel $(uname -r) has none"; return; }
	ready_with bytes "$lib" || { fail "bytes: $label" 'the target does not run'; return; }
	check "bytes: $label: as in the file before" is "$(probed "$bytes" "$lib")" none
	tracer bytes --mechanism="$mech" -e "$ALL" --libcuda "$lib" -p "$bytes" || { fail "bytes: $label" 'see above'; return; }
	ask bytes alloc 10 >"$TMP/answer"
	check "bytes: $label: probes at +$place" is "$(probed "$bytes" "$lib")" \
		"$(jq -r 'select(.type == "header").libraries[0].functions' "$TMP/bytes.jsonl") at $place"
	if [ "$how" = SIGKILL ]; then
		kill -9 $tracer
		ended $tracer 2>/dev/null
		# The kernel takes them off when the last descriptor is gone, a moment after the process.
		until_ok 10 is_clean "$bytes" "$lib"
	else
		stop $tracer
		check "bytes: $label: status" is $? 0
		check "bytes: $label: trace" holds "$TMP/bytes.jsonl" 'sym == {"cuMemAlloc_v2": 10, "cuMemFree_v2": 10} and accounts()'
	fi
	check "bytes: $label: as in the file afterwards" is "$(probed "$bytes" "$lib")" none
	check "bytes: $label: the target runs on" is "$(cat "$TMP/answer") $(ask bytes alloc 1000) $(ask bytes threads 3 100)" '10 1000 300'
	quit bytes
	check "bytes: $label: the target ends well" is $? 0
}
is_clean() { [ "$(probed "$1" "$2")" = none ]; }

# Killed, the tracer leaves whole lines, but the last one perhaps.
killed_tracer()
{
	ready prey "$FAKE" || { fail 'a killed tracer' 'the target does not run'; return; }
	tracer killed -e "$ALL" -p "$prey" || { fail 'a killed tracer' 'see above'; return; }
	ask prey alloc 3000 >/dev/null
	sleep 0.7
	ask prey alloc 10 >/dev/null
	kill -9 $tracer
	ended $tracer 2>/dev/null
	quit prey
	check 'a killed tracer: its lines are whole' python3 -c '
import json, sys
text = open(sys.argv[1]).read()
lines = text.split("\n")
events = [json.loads(l) for l in lines[:-1]]
assert events[0]["type"] == "header" and all(e["type"] != "end" for e in events), "ends"
assert len(events) > 3000, f"only {len(events)} lines after half a second"' "$TMP/killed.jsonl"

	# A command stands still until its libcuda is attached. Without its tracer it goes on.
	mkdir -p "$TMP/k"
	cp "$FAKE/libcuda.so.1" "$TMP/k/"
	mkfifo "$TMP/hold"
	"$CUDATRACE" -q --jsonl "$TMP/left.jsonl" -- "$CASES/dlopen_late" "$TMP/k/libcuda.so.1" - <"$TMP/hold" >"$TMP/left.out" &
	tracer=$!
	exec {hold}>"$TMP/hold"
	until_ok 10 grep -q ready "$TMP/left.out"
	kill -STOP $tracer
	echo >&"$hold"
	exec {hold}>&-
	left=$(pgrep -x -P $tracer dlopen_late)
	check 'a killed tracer: its command waited for it' until_ok 5 grep -q '^State:.T' "/proc/$left/status"
	kill -9 $tracer
	ended $tracer 2>/dev/null
	check 'a killed tracer: its command goes on' until_ok 5 is_gone "$left"
	check 'a killed tracer: its command did all it had to' is "$(grep -c symbol "$TMP/left.out")" 5
}

killed_target()
{
	local ends
	ready victim "$FAKE" || { fail 'a killed target' 'the target does not run'; return; }
	tracer victim -e "$ALL" -p "$victim" || { fail 'a killed target' 'see above'; return; }
	ask victim alloc 20 >/dev/null
	ask victim sleep 20000000 >/dev/null
	kill -9 "$victim"
	ended "$victim" 2>/dev/null
	ended $tracer
	check 'a killed target: status' is $? 0
	check 'a killed target: trace' holds "$TMP/victim.jsonl" 'end["reason"] == "traced processes exited" and sym["cuMemAlloc_v2"] == 20 and accounts()'
	check 'a killed target: exit event' holds "$TMP/victim.jsonl" \
		'[(p["op"], p["signal"], "exit_code" in p) for p in proc] == [("exit", 9, False)]'
	check 'a killed target: the call that it was in' holds "$TMP/victim.jsonl" \
		'[(c["symbol"], c["args"]["arg0"]) for c in calls if c.get("unfinished")] == [("cuFakeSleep", hex(20000000))]'

	# As a command: the signal is passed on.
	LD_LIBRARY_PATH=$FAKE "$CUDATRACE" -q -e "$ALL" --jsonl "$TMP/kill.jsonl" -- "$CASES/exit_in_call" kill >"$TMP/kill.out"
	check 'a command that is killed: status' is $? 137
	check 'a command that is killed: trace' tests/cases/expect.py "$TMP/kill.jsonl" "$TMP/kill.out"
	check 'a command that is killed: accounts' holds "$TMP/kill.jsonl" 'end["unfinished"] == 1 and end["reason"] == "command exited" and accounts()'
	LD_LIBRARY_PATH=$FAKE "$CUDATRACE" -q -e "$ALL" --jsonl "$TMP/exit.jsonl" -- "$CASES/exit_in_call" >"$TMP/exit.out"
	check 'a command that exits in a call: status' is $? 0
	check 'a command that exits in a call: trace' tests/cases/expect.py "$TMP/exit.jsonl" "$TMP/exit.out"
	check 'a command that exits in a call: accounts' holds "$TMP/exit.jsonl" 'end["unfinished"] == 1 and accounts()'
}

# The trace ends, the call does not.
blocked()
{
	local lib=$TMP/asleep.bin
	cp "$FAKE/libcuda.so.1" "$lib"
	ready_with asleep "$lib" || { fail 'a call that lasts' 'the target does not run'; return; }
	tracer asleep -e "$ALL" --duration 1 --libcuda "$lib" -p "$asleep" || { fail 'a call that lasts' 'see above'; return; }
	ask asleep sleep 2500000 >/dev/null
	ask asleep alloc 5 >/dev/null
	ended $tracer
	check 'a call that lasts: status' is $? 0
	check 'a call that lasts: unfinished' holds "$TMP/asleep.jsonl" \
		'[c["symbol"] for c in calls if c.get("unfinished")] == ["cuFakeSleep"] and end["unfinished"] == 1 and end["reason"] == "duration" and sym["cuMemFree_v2"] == 5 and accounts()'
	# It returns through the kernel's trampoline, long after the probes have gone.
	check 'a call that lasts: returns well afterwards' is "$(ask asleep join)" 0
	check 'a call that lasts: code as in the file' is "$(probed "$asleep" "$lib")" none

	# A second trace sees it neither begin nor end.
	ask asleep sleep 800000 >/dev/null
	tracer again -e "$ALL" --libcuda "$lib" -p "$asleep" || { fail 'a call under way' 'see above'; return; }
	ask asleep join >/dev/null
	ask asleep alloc 1 >/dev/null
	quit asleep
	ended $tracer
	check 'a call under way: no event' holds "$TMP/again.jsonl" 'sym == {"cuMemAlloc_v2": 1, "cuMemFree_v2": 1} and accounts()'
}

# Probes come off one after another while the target goes on calling: at most the call that each thread is in when
# the last one goes is unfinished, and nothing looks abandoned.
busy()
{
	local mech set
	for mech in session multi perf; do
		has_mechanism $mech || { skip "a busy target: $mech" "kernel $(uname -r) has none"; continue; }
		set=$ALL
		[ $mech = perf ] && set=cuMemAlloc_v2,cuMemFree_v2
		LD_LIBRARY_PATH=$FAKE FAKE_NO_SEM=1 "$CASES/many" cuMemFree_v2 1000000000 2 20000 >/dev/null &
		target=$!
		sleep 0.2
		tracer busy --mechanism=$mech -e "$set" --duration 0.5 -p $target || { fail "a busy target: $mech" 'see above'; kill $target; return; }
		ended $tracer
		check "a busy target: $mech: status" is $? 0
		check "a busy target: $mech: nothing abandoned" holds "$TMP/busy.jsonl" \
			'len(calls) > 1000 and end["abandoned"] == 0 and end["unfinished"] <= 2 and accounts(drops=True)'
		kill $target
		ended $target 2>/dev/null
	done
}

jumped()
{
	local mech
	for mech in session multi perf; do
		has_mechanism $mech || { skip "longjmp: $mech" "kernel $(uname -r) has none"; continue; }
		local set=$ALL
		[ $mech = perf ] && set='cu*Callback,cuMemAlloc_v2'
		LD_LIBRARY_PATH=$FAKE "$CUDATRACE" -q -e "$set" --mechanism=$mech --jsonl "$TMP/jump.jsonl" -- "$CASES/longjmp" >"$TMP/jump.out" 2>"$TMP/jump.err"
		check "longjmp: $mech: status" is $? 0
		check "longjmp: $mech: abandoned calls" holds "$TMP/jump.jsonl" 'end["abandoned"] == 3 and end["unfinished"] == 0 and accounts()'
		check "longjmp: $mech: later calls are not inside" holds "$TMP/jump.jsonl" \
			'all("parent" not in c and "depth" not in c for c in calls if c["symbol"].startswith("cuMem"))'
	done
}

# A tracer that does not get to read loses events, and knows exactly how many.
overflow()
{
	ready flood "$FAKE" || { fail 'ring overflow' 'the target does not run'; return; }
	tracer flood -e "$ALL" --buffer-size 64K -p "$flood" || { fail 'ring overflow' 'see above'; return; }
	ask flood alloc 10 >/dev/null
	sleep 0.3
	kill -STOP $tracer
	check 'ring overflow: the target is not held up' is "$(ask flood alloc 5000)" 5000
	kill -CONT $tracer
	# It was woken when the ring filled up: not by its timer, which fires once a second.
	sleep 0.3
	ask flood alloc 10 >/dev/null
	quit flood
	ended $tracer
	check 'ring overflow: status' is $? 0
	check 'ring overflow: dropped and written are all' holds "$TMP/flood.jsonl" \
		'end["drops"]["calls"] > 5000 and end["calls"] + end["drops"]["calls"] == 10040 and accounts(drops=True)'
	check 'ring overflow: goes on afterwards' holds "$TMP/flood.jsonl" \
		'[c["symbol"] for c in calls[-20:]] == ["cuMemAlloc_v2", "cuMemFree_v2"] * 10'

	# The same without a hand on the tracer: whatever is lost is counted.
	LD_LIBRARY_PATH=$FAKE FAKE_NO_SEM=1 FAKE_CUDA_COUNTS=$TMP/many.counts "$CUDATRACE" -q -e all,'!other' --buffer-size 64K \
		--jsonl "$TMP/many.jsonl" -- "$CASES/many" cuLaunchKernel 100000 2 >"$TMP/many.out" 2>"$TMP/many.err"
	check 'a small ring: status' is $? 0
	check 'a small ring: dropped and written are all' holds "$TMP/many.jsonl" \
		'end["calls"] + end["drops"]["calls"] == sum(int(l.split()[1]) for l in open(counts)) and accounts(drops=True)' counts="$TMP/many.counts"
	echo "# $(jq -c 'select(.type == "end") | {calls, drops}' "$TMP/many.jsonl")"
}

# Ctrl-C while a command runs: the trace ends with the command, which got the signal too.
interrupted()
{
	local rc
	LD_LIBRARY_PATH=$FAKE "$CUDATRACE" -q -e "$ALL" --jsonl "$TMP/int.jsonl" -- "$CASES/dlopen_late" "$FAKE/libcuda.so.1" 30000 >"$TMP/int.out" &
	tracer=$!
	until_ok 10 test -s "$TMP/int.out"
	kill -TERM $tracer
	ended $tracer
	rc=$?
	check 'SIGTERM: passed on to the command' is $rc 143
	check 'SIGTERM: a whole trace' holds "$TMP/int.jsonl" 'end["reason"] == "terminated" and proc[-1]["signal"] == 15 and accounts()'
}

bytes session fake 0x0 Ctrl-C
bytes session fake535 0xa SIGKILL
bytes multi fake535 0xa Ctrl-C
bytes multi fake 0x0 SIGKILL
killed_tracer
killed_target
blocked
busy
jumped
overflow
interrupted
