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

# reader FIFO FILE: takes one line, the rest when $TMP/go is there
reader()
{
	rm -f "$TMP/go" "$2"
	python3 - "$1" "$2" "$TMP/go" <<'END' &
import os, sys, time
with open(sys.argv[1], "rb", buffering=0) as f, open(sys.argv[2], "wb") as out:
    line = b""
    while not line.endswith(b"\n"):
        line += f.read(1)
    out.write(line)
    out.flush()
    while not os.path.exists(sys.argv[3]):
        time.sleep(0.02)
    while part := f.read(1 << 16):
        out.write(part)
END
	reader=$!
}
has_end() { tail -n 1 "$1" | grep -q '"type":"end"'; }

stuck_output()
{
	local begin took peak
	mkfifo "$TMP/fifo"
	reader "$TMP/fifo" "$TMP/slow.jsonl"
	begin=${EPOCHREALTIME/./}
	LD_LIBRARY_PATH=$FAKE FAKE_NO_SEM=1 FAKE_CUDA_COUNTS=$TMP/stuck.counts "$CUDATRACE" -q -e cuMemFree_v2 --buffer-size 64M --jsonl "$TMP/whole.jsonl" \
		--jsonl "$TMP/fifo" -- sh -c '"$@"; sleep 0.3; exit 5' sh "$CASES/many" cuMemFree_v2 75000 2 >/dev/null 2>"$TMP/err" &
	tracer=$!
	check 'a reader that stops: the other output is whole meanwhile' until_ok 15 has_end "$TMP/whole.jsonl"
	took=$(((${EPOCHREALTIME/./} - begin) / 1000))
	peak=$(sed -n 's/^VmHWM:[[:space:]]*\([0-9]*\) kB/\1/p' /proc/$tracer/status)
	check "a reader that stops: the command and the trace end ($took ms)" test $took -lt 12000
	check "a reader that stops: memory ($peak KiB)" test "$peak" -lt 250000
	check 'a reader that stops: the other output' holds "$TMP/whole.jsonl" \
		'len(calls) + end["drops"]["calls"] == int(open(counts).read().split()[1]) == 150000 and end["reason"] == "command exited" and "write_error" not in end' counts="$TMP/stuck.counts"
	touch "$TMP/go"
	ended $tracer
	check 'a reader that stops: status is that of the command' is $? 5
	ended $reader
	check 'a reader that stops: what it got when it went on' holds "$TMP/slow.jsonl" \
		'len(ev) > 10000 and end["lines_lost"] == sum(end["events"].values()) - (len(ev) - 2) > 0 and end["write_error"] == "the reader was too slow"'
	check 'a reader that stops: schema' python3 tests/golden/schema_check.py "$TMP/slow.jsonl"

	# It goes on while the trace does.
	reader "$TMP/fifo" "$TMP/slow.jsonl"
	LD_LIBRARY_PATH=$FAKE FAKE_NO_SEM=1 "$CUDATRACE" -q -e cuMemFree_v2 --jsonl "$TMP/fifo" -- sh -c '"$@"; touch "$0"; sleep 1.5; "$@"' \
		"$TMP/go" "$CASES/many" cuMemFree_v2 200000 1 >/dev/null 2>"$TMP/err"
	check 'a reader that goes on: status' is $? 1
	ended $reader
	check 'a reader that goes on: the trace says when and how much' holds "$TMP/slow.jsonl" \
		'(lost := [e for e in ev if e["type"] == "tracer" and e["op"] == "lost" and e["name"] != "ring"]) and sum(e["events"] for e in lost) == end["lines_lost"] and lost[-1]["ts"] < calls[-1]["ts"]'

	# The trace's end does not wait for the reader; the tracer does until it is told not to.
	ready stuck "$FAKE" || { fail 'a stuck output, -p' 'the target does not run'; return; }
	reader "$TMP/fifo" "$TMP/slow.jsonl"
	"$CUDATRACE" -q -e "$ALL" --duration 0.7 --jsonl "$TMP/fifo" -p "$stuck" 2>"$TMP/err" &
	tracer=$!
	until_ok 10 test -s "$TMP/slow.jsonl"
	check 'a stuck output, --duration: the target runs on' is "$(ask stuck alloc 3000)" 3000
	check 'a stuck output, --duration: probes come off' until_ok 5 is_clean "$stuck" "$FAKE/libcuda.so.1"
	check 'a stuck output, --duration: the tracer waits' kill -0 $tracer
	begin=${EPOCHREALTIME/./}
	kill -INT $tracer
	ended $tracer
	check 'a stuck output, --duration: a signal ends it' test $? = 1 -a $((${EPOCHREALTIME/./} - begin)) -lt 1500000
	check 'a stuck output, --duration: says what is missing' grep -q 'lines are not written: its reader does not take them' "$TMP/err"
	touch "$TMP/go"
	ended $reader

	reader "$TMP/fifo" "$TMP/slow.jsonl"
	"$CUDATRACE" -q -e "$ALL" --jsonl "$TMP/fifo" -p "$stuck" 2>"$TMP/err" &
	tracer=$!
	until_ok 10 test -s "$TMP/slow.jsonl"
	ask stuck alloc 3000 >/dev/null
	begin=${EPOCHREALTIME/./}
	kill -TERM $tracer
	ended $tracer
	took=$(((${EPOCHREALTIME/./} - begin) / 1000))
	check "a stuck output, SIGTERM: ends after two seconds ($took ms)" test $took -lt 4500
	touch "$TMP/go"
	ended $reader

	# A FIFO that nobody opens
	"$CUDATRACE" -q -e launch --jsonl "$TMP/fifo" -p "$stuck" 2>"$TMP/err" &
	tracer=$!
	until_ok 5 grep -q '^SigBlk:.*[1-9a-f]' /proc/$tracer/status
	sleep 0.5
	kill -INT $tracer
	ended $tracer
	check 'a FIFO without a reader: a signal ends it' is "$? $(grep -c 'nobody came to read it' "$TMP/err")" '1 1'
	check 'a FIFO without a reader: no probe stays' until_ok 5 is_clean "$stuck" "$FAKE/libcuda.so.1"
	quit stuck
}
ready() { caller "$1" && [ "$(ask "$1" open "$2/libcuda.so.1")$(ask "$1" init)" = 10 ]; }
is_clean() { [ "$(probed "$1" "$2")" = none ]; }

stopped_child
stuck_output
