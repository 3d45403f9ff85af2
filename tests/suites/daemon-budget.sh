#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Processes of other users that take long to inspect (tests/stall.c, tests/helpers/slow_elf.py). The daemon limits its time for each
# user: it must still respond, dump, reload and end. Every call of others must be counted, and a library that another user loads
# meanwhile must be traced.
# takes: 70
# cpus: 2
# own processes
set -u
. tests/lib.sh
needs_tracing daemon-budget
command -v curl >/dev/null || { skip daemon-budget 'needs curl'; exit 0; }
. tests/daemon.sh

stall=$TMP/stall
${CC:-gcc} -O1 -w -o "$stall" tests/stall.c -ldl -lpthread || { fail daemon-budget 'tests/stall.c does not build'; exit; }
for i in sections:libnccl.so.2 names:libcuda.so.1 symbols:libcuda.so.1 chain:libcuda.so.1 torch:libtorch_cpu.so; do
	mkdir "$TMP/${i%:*}"
	python3 tests/helpers/slow_elf.py "${i%:*}" "$TMP/${i%:*}/${i#*:}" || { fail "${i%:*}" 'the library is not made'; exit; }
done
chmod 711 "$TMP"
chmod -R a+rX "$lib" "$stall" "$TMP"/{sections,names,symbols,chain,torch}
rules trace >"$TMP/budget.yaml"
start budget --set recorder.seconds=60s || exit
worker victim || { fail 'the victim starts' "$(tail -3 "$log")"; exit; }
made=0 late=0

# stalls N WHAT [LIBRARY]: attacks as N users for some seconds; returns when the attacks have begun. $attackers: their pids
stalls()
{
	local n=$1 what=$2 i
	attackers=()
	for i in $(seq "$n"); do
		mkdir -p "$TMP/x$i"
		rm -rf "$TMP/x$i/"*
		chown $((65535 - i)) "$TMP/x$i"
		setpriv --reuid $((65535 - i)) --regid 65534 --clear-groups "$stall" "$what" "$TMP/x$i" 6 "${3-}" >"$TMP/x$i.out" 2>>"$TMP/stall.err" &
		attackers+=($!)
	done
	# With forks, that is at the end.
	[ "$what" = forks ] || until_ok 10 eval '[ -s "$TMP/x1.out" ]'
}
# A health check allows one second; a busy machine may exceed it once.
prompt() { curl -sf --noproxy '*' -m 1 -o /dev/null "$url/healthz"; }
answers()
{
	local i slow=0
	for i in $(seq 8); do
		prompt || slow=$((slow + 1))
		sleep 0.1
	done
	[ $slow -le 1 ] || { echo "$slow of 8 were late or refused"; return 1; }
}
# On an idle machine it is 0.1 s; before there were limits it was 3 to 40 s.
turns_are_short() { shows 'total("loop_turn_max_seconds") < 2 or print("a turn took", total("loop_turn_max_seconds"))'; }
counted() { shows 'total("calls_total", command="w-victim", function="cuMemAlloc_v2") == int(made) and total("dropped_total") == 0' made=$made; }
# A library that is new to the daemon must be traced.
newcomer()
{
	local dir=$TMP/new$late
	mkdir "$dir"
	cp "$FAKE/libcuda.so.1" "$dir/"
	worker "late$late" "$dir" && until_ok 10 newcomer_is_seen
	quit "late$late"
}
newcomer_is_seen() { ask "late$late" alloc 1 >/dev/null; shows 'total("calls_total", command=who, function="cuMemAlloc_v2") > 0' who="w-late$late"; }

# under NAME N WHAT [LIBRARY]
under()
{
	local name=$1
	shift
	stalls "$@"
	if grep -q none "$TMP/x1.out"; then
		skip "$name" 'user namespaces are not allowed'
		wait "${attackers[@]}"
		return
	fi
	check "$name: the daemon answers" answers
	made=$((made + $(ask victim alloc 1000)))
	check "$name: it dumps" timeout 5 "$CUDATRACE" ctl --set ctl.socket="$sock" dump
	kill -HUP "$daemon"
	check "$name: another user's library is traced" newcomer
	late=$((late + 1))
	check "$name: turns of its loop are short" turns_are_short
	check "$name: every call of others is counted" until_shows counted
	kill -9 "${attackers[@]}" 2>/dev/null
	wait "${attackers[@]}" 2>/dev/null
}
under 'many descriptors' 1 fds
under 'descriptors of removed files' 1 deleted
under 'many mounts' 1 mounts
under 'many files' 1 files
under 'many threads' 1 threads
under 'children that map files' 1 forks
under 'many lines' 1 lines "$lib/libcuda.so.1"
under 'sections that are one' 1 elf "$TMP/sections/libnccl.so.2"
under 'names without an end' 1 elf "$TMP/names/libcuda.so.1"
under 'many symbols' 1 elf "$TMP/symbols/libcuda.so.1"
under 'a long chain' 1 elf "$TMP/chain/libcuda.so.1"
under 'six users at once' 6 files
check 'what was refused is counted' shows 'total("work_refused_total", kind="libraries") > 0'
stalls 2 fds
quit victim
kill -TERM "$daemon"
check 'it ends when told to' until_ok 5 is_gone "$daemon"
ended "$daemon"
check 'what was refused is told' shows_now 'any(e["type"] == "library" and e["op"] == "failed" for e in lines)'
kill -9 "${attackers[@]}" 2>/dev/null

# traced NAME OPTIONS LIBRARY: --duration must end the trace, whatever the command maps
traced() { timeout 20 "$CUDATRACE" -q --jsonl /dev/null --duration 1 $2 -- "$stall" elf "$TMP" 3 "$3" >/dev/null 2>&1; [ $? -lt 124 ]; }
check 'a trace, sections that are one: it ends in time' traced sections '-e all' "$TMP/sections/libnccl.so.2"
check 'a trace, names without an end: it ends in time' traced names '' "$TMP/names/libcuda.so.1"
check 'a trace, a terabyte of jumps: it ends in time' traced torch --torch "$TMP/torch/libtorch_cpu.so"
