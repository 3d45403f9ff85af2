#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The process that makes and closes links (cudatrace-links) may hang, be killed, or take a minute: the tracer must not wait for it, and
# nothing may stay behind. Suite blocking tests a real memory lock.
# takes: 40
# timeout: 300
set -u
. tests/lib.sh
needs_tracing links
unset LD_LIBRARY_PATH

is() { [ "$1" = "$2" ] || { echo "$1, not $2"; return 1; }; }
# A private library, which other tracers of the stand-in do not record.
lib=$TMP/lib/libcuda.so.1
mkdir "${lib%/*}"
cp "$FAKE/libcuda.so.1" "$lib"
# Another tracer may trace the whole machine: $before counts its probes.
ready()
{
	caller "$1" && [ "$(ask "$1" open "$lib")$(ask "$1" init)" = 10 ] || return
	sleep 0.5
	before=$(probed "${!1}" "$lib")
}
is_clean() { local now; now=$(probed "$1" "$lib"); [ "$now" = none ] || [ "$now" = "$before" ]; }
# links_of TRACER: the pid of its process
links_of()
{
	local p
	for p in $(cat "/proc/$1/task/$1/children"); do
		[ "$(cat "/proc/$p/comm")" != cudatrace-links ] || { echo "$p"; return; }
	done
	return 1
}
seconds_since() { echo $(((${EPOCHREALTIME/./} - $1) / 1000000)); }
# within SECONDS SINCE
within() { local s; s=$(seconds_since "$2"); [ "$s" -le "$1" ] || { echo "after $s s"; return 1; }; }

# It is stopped, as if it waited in the kernel.
hangs()
{
	local links start other=$TMP/other/libcuda.so.1
	mkdir "${other%/*}"
	cp "$FAKE/libcuda.so.1" "$other"
	ready prey || { fail hangs 'the target does not run'; return; }
	caller late || { fail hangs 'the target does not run'; return; }
	tracer hangs -e "$ALL" -p "$prey" -p "$late" || { fail hangs 'see above'; return; }
	links=$(links_of $tracer) || { fail hangs 'there is no cudatrace-links'; return; }
	ask prey alloc 10 >/dev/null
	kill -STOP "$links"
	ask late open "$other" >/dev/null
	check 'hangs: said, once' until_ok 10 grep -q "$other: cannot attach [0-9]* probes" "$TMP/hangs.err"
	ask prey alloc 5 >/dev/null
	start=${EPOCHREALTIME/./}
	stop $tracer
	check 'hangs: status' is $? 0
	check 'hangs: ends all the same' within 8 "$start"
	check 'hangs: the trace is whole' holds "$TMP/hangs.jsonl" 'sym == {"cuMemAlloc_v2": 15, "cuMemFree_v2": 15} and accounts()'
	# Its probes are still attached.
	check 'hangs: the target runs on, seen by nobody' is "$(ask prey alloc 100)" 100
	tracer after -e "$ALL" -p "$prey" || { fail 'hangs: another tracer' 'see above'; return; }
	ask prey alloc 7 >/dev/null
	stop $tracer
	check 'hangs: another tracer sees all' holds "$TMP/after.jsonl" 'sym == {"cuMemAlloc_v2": 7, "cuMemFree_v2": 7} and accounts()'
	kill -CONT "$links"
	check 'hangs: when it goes on, it ends' until_ok 60 is_gone "$links"
	check 'hangs: code as in the file' until_ok 10 is_clean "$prey"
	quit prey
	quit late
}

# This must end the tracer, but do no harm.
killed()
{
	local links
	ready prey || { fail killed 'the target does not run'; return; }
	tracer killed -e "$ALL" -p "$prey" || { fail killed 'see above'; return; }
	ask prey alloc 10 >/dev/null
	kill -9 "$(links_of $tracer)"
	ended $tracer
	check 'killed: said' grep -q 'cudatrace-links has ended' "$TMP/killed.err"
	check 'killed: the trace is whole' holds "$TMP/killed.jsonl" 'end["reason"] == "probes gone" and sym["cuMemAlloc_v2"] == 10 and accounts()'
	check 'killed: code as in the file' until_ok 10 is_clean "$prey"
	quit prey
}

# It must end with the tracer, even while it is busy.
orphan()
{
	local links
	ready prey || { fail orphan 'the target does not run'; return; }
	tracer orphan -e "$ALL" -p "$prey" || { fail orphan 'see above'; return; }
	links=$(links_of $tracer)
	kill -STOP "$links"
	kill -9 $tracer
	ended $tracer 2>/dev/null
	kill -CONT "$links"
	check 'the tracer is killed: it ends, too' until_ok 60 is_gone "$links"
	check 'the tracer is killed: code as in the file' until_ok 10 is_clean "$prey"
	quit prey
}

# Each perf event takes 0.1 s to close.
prompt()
{
	local start links
	ready prey || { fail prompt 'the target does not run'; return; }
	tracer prompt --mechanism=perf -e 'cuMem*' -p "$prey" || { fail prompt 'see above'; return; }
	links=$(links_of $tracer)
	ask prey alloc 10 >/dev/null
	start=${EPOCHREALTIME/./}
	stop $tracer
	check 'perf: the prompt is back soon' within 4 "$start"
	check 'perf: while the probes come off' test -e "/proc/$links"
	check 'perf: the trace is whole' holds "$TMP/prompt.jsonl" 'sym == {"cuMemAlloc_v2": 10, "cuMemFree_v2": 10} and accounts()'
	check 'perf: nobody waits for the end of its output' is "$(ls -l "/proc/$links/fd" | grep -c "$TMP/prompt")" 0
	start=${EPOCHREALTIME/./}
	tracer again --mechanism=perf -e 'cuMem*' -p "$prey" || { fail 'perf: another tracer' 'see above'; return; }
	ask prey alloc 20 >/dev/null
	stop $tracer
	check 'perf: another tracer meanwhile sees all' holds "$TMP/again.jsonl" 'sym == {"cuMemAlloc_v2": 20, "cuMemFree_v2": 20} and accounts()'
	check 'perf: nothing stays' until_ok 60 is_clean "$prey"
	check 'perf: nobody stays' until_ok 60 is_gone "$links"
	quit prey
}

# The processes wait for each other (event_mutex): seconds, on a busy machine.
slow()
{
	local links other=$TMP/slow/libcuda.so.1
	mkdir "${other%/*}"
	cp "$FAKE/libcuda.so.1" "$other"
	caller late || { fail slow 'the target does not run'; return; }
	tracer slow --mechanism=perf -e cuMemAlloc_v2 -p "$late" || { fail slow 'see above'; return; }
	links=$(links_of $tracer)
	kill -STOP "$links"
	(sleep 4; kill -CONT "$links") &
	ask late open "$other" >/dev/null
	sleep 6
	ask late init >/dev/null
	ask late alloc 10 >/dev/null
	stop $tracer
	check 'perf: four seconds without a sign are waited for' is "$(grep -c 'cannot attach [0-9]* probes' "$TMP/slow.err")" 0
	check 'perf: and then all is seen' holds "$TMP/slow.jsonl" 'sym == {"cuMemAlloc_v2": 10} and accounts()'
	quit late
}

hangs
killed
orphan
slow
prompt
