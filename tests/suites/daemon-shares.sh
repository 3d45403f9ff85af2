#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Tables that all programs share: when one user fills them, another user's program must still be counted exactly, with its errors.
# Entries must be released.
# takes: 40
# own processes
# shellcheck disable=SC2154 # caller sets NAME and NAME_to
set -u
. tests/lib.sh
needs_tracing daemon
command -v curl >/dev/null || { skip daemon 'needs curl'; exit 0; }
. tests/daemon.sh

# A libcuda whose functions return requested values, and programs of user nobody that call them.
liar=$TMP/liar
mkdir "$liar"
nm -D --defined-only "$FAKE/libcuda.so.1" | awk '$3 ~ /^cu[A-Z]/ { sub(/@.*/, "", $3); print $3 }' | grep -v '^cuFake' | sort -u >"$TMP/names"
awk '{ print "int " $1 "(int code) { return code; }" }' "$TMP/names" >"$TMP/liar.c"
${CC:-gcc} -O1 -w -shared -fPIC -Wl,-soname,libcuda.so.1 -o "$liar/libcuda.so.1" "$TMP/liar.c" && ${CC:-gcc} -O1 -w -o "$TMP/crowd" tests/faults/crowd.c -ldl ||
	{ fail 'daemon shares' 'the crowd does not build'; exit; }
chmod 755 "$TMP" "$liar"

# crowd NAME PROCESSES CODES: leaves its pid in $NAME; end_crowd NAME ends it
crowd()
{
	local to
	rm -f "$TMP/$1".{to,out} # one of the same name was done before
	mkfifo "$TMP/$1.to"
	setpriv --reuid=65534 --regid=65534 --clear-groups "$TMP/crowd" "$liar/libcuda.so.1" "$TMP/names" "$2" "$3" <"$TMP/$1.to" >"$TMP/$1.out" &
	printf -v "$1" %d $!
	exec {to}>"$TMP/$1.to" # it stays while this is open
	until_ok 20 grep -q 'done' "$TMP/$1.out"
}
end_crowd() { kill "${!1}"; ended "${!1}" 2>/dev/null; }

shares()
{
	local functions before
	functions=$(wc -l <"$TMP/names")
	rules metrics >"$TMP/shares.yaml"
	sed -i '2a\  - match: {command: "*/w-*"}\n    level: sampled' "$TMP/shares.yaml"
	start shares --set metrics.memory=false --set metrics.max_counts=16384 --set sample.trace=100ms --set sample.cooldown=0 --set sample.every=0 || return
	worker early || return
	crowd many 40 1
	check "a crowd of 40 processes with $functions functions each" grep -q 'done' "$TMP/many.out"
	crowd errors 1 130
	check 'a program with 130 results of each function' grep -q 'done' "$TMP/errors.out"
	check 'the crowd: what found no room is counted' until_shows shows 'total("dropped_total", what="counts") > 1000 and total("dropped_total", what="errors") > 1000'
	worker late || return
	for who in early late; do
		ask $who alloc 10 >/dev/null
		check "beside them, $who: its calls are counted, all of them" until_shows shows 'total("calls_total", command=who, function="cuMemAlloc_v2") == 10 == total("calls_total", command=who, function="cuMemFree_v2")' who=w-$who
		before=$(ctl status | jq ".processes[] | select(.pid == ${!who}) | .bursts")
		ask $who fail 3 >/dev/null
		check "beside them, $who: its errors begin a burst" until_ok 10 eval '[ "$(ctl status | jq ".processes[] | select(.pid == ${!who}) | .bursts")" -gt "$before" ]'
		check "beside them, $who: its errors are counted, all of them" until_shows shows 'total("errors_total", command=who) == 3' who=w-$who
	done
	check 'results that are no CUresult are one' until_shows shows '"other" in by("errors_total", "error", command="crowd") and not [e for e in by("errors_total", "error") if e.isdigit()]'
	end_crowd many
	end_crowd errors
	check 'the crowd is gone' until_ok 10 shows 'total("target_processes", command="crowd") == 0'

	# All of its entries must be available again.
	before=$(shows 'print(int(total("dropped_total", what="counts"))) or True')
	crowd again 10 1
	check 'afterwards: another crowd finds room' until_shows shows 'total("dropped_total", what="counts") == int(before) and total("calls_total", command="crowd", function="cuMemcpy") >= 10' before="$before"
	end_crowd again
	quit early
	quit late
	finish
}
shares

hostile=$TMP/hostile
mkdir "$hostile"
${CC:-gcc} -shared -fPIC -O1 -w -Wl,-soname,libcuda.so.1 -o "$hostile/libcuda.so.1" tests/liar.c &&
	${CC:-gcc} -O1 -w -o "$hostile/alive" tests/flood.c -ldl -lpthread || fail 'flood' 'tests/flood.c does not build'
chmod 755 "$hostile"
lost() { shows "print(int(total('dropped_total', what='$1'))) or True"; }

# alive NAME THREADS: starts in this shell a program of user nobody with so many threads that have made a call each (after -d: an
# ioctl). end_alive NAME ends it
alive()
{
	local what=alive file=
	[ "$1" = -d ] && { what=driver file=$hostile/nvidiactl; shift; }
	local to from line
	mkfifo "$TMP/$1.to" "$TMP/$1.from"
	setpriv --reuid=65534 --regid=65534 --clear-groups "$hostile/alive" $what "$2" "$hostile/libcuda.so.1" $file <"$TMP/$1.to" >"$TMP/$1.from" 2>"$TMP/$1.err" &
	printf -v "$1" %d $!
	exec {to}>"$TMP/$1.to" {from}<"$TMP/$1.from"
	printf -v "$1_to" %d $to
	rm "$TMP/$1.to" "$TMP/$1.from"
	read -r -t 30 line <&"$from" && echo >&"$to" && read -r -t 60 line <&"$from"
	[ "$line" = "done" ] || fail "$1: $2 threads" "${line:-nothing}; $(cat "$TMP/$1.err")"
}
end_alive() { local to=${1}_to; echo >&"${!to}"; ended "${!1}"; }
flooded='total("calls_total", command="alive", function="cuCtxSynchronize")'
so_far() { shows "print(int($1)) or True"; }
has_lib() { ctl status | jq -e "any(.libraries[]; .path == \"$1\")"; }
# Calls before the daemon has attached their library are not recorded, so one program of each kind runs first.
warm_up() { alive warm 1; until_ok 10 has_lib "$hostile/libcuda.so.1"; end_alive warm; }

# A process may have a quarter of the threads, a user half of the free entries: 4096 here.
threads()
{
	local before was who
	rules metrics >"$TMP/threads.yaml"
	start threads --set metrics.memory=false --set metrics.max_tasks=4096 || return
	worker early || return
	warm_up
	was=$(so_far "$flooded")
	before=$(lost threads_share)
	alive one 1500
	check 'threads: a process has its share of them, and calls of the others are counted' until_shows shows \
		"1000 < $flooded - $was <= 1024 and $flooded - $was + total('dropped_total', what='threads_share') - $before == 1501"
	alive two 1500
	alive three 1500
	alive four 1500
	check 'threads: a user has his share of them' until_shows shows \
		"1900 < $flooded - $was <= 2048 and $flooded - $was + total('dropped_total', what='threads_share') - $before == 6004"
	worker late || return
	for who in early late; do
		ask $who alloc 10 >/dev/null
		ask $who threads 50 1 >/dev/null
		check "beside them, $who: its calls are counted, all of them" until_shows shows 'total("calls_total", command=who, function="cuMemAlloc_v2") == 10 + 50 == total("calls_total", command=who, function="cuMemFree_v2")' who=w-$who
	done
	check 'threads: no call is lost without its cause' shows 'total("dropped_total", what="threads") == 0'
	for who in one two three four; do end_alive $who; done
	before=$(lost threads_share)
	was=$(so_far "$flooded")
	alive five 1000
	check 'threads: what ended has given its rows back' until_shows shows "$flooded - $was == 1001 and total('dropped_total', what='threads_share') == $before"
	end_alive five
	quit early
	quit late
	finish
}
threads

# The same limits for threads in the driver.
in_driver()
{
	local before ioctls='total("ioctls_total", command="alive")'
	: >"$hostile/nvidiactl"
	chmod a+r "$hostile/nvidiactl"
	rules metrics >"$TMP/driver.yaml"
	CUDATRACE_TEST_NV_BY_NAME=1 start driver --set metrics.memory=false --set metrics.max_tasks=1024 --set trace.kernel=true || return
	warm_up
	before=$(lost driver_share)
	alive -d six 400
	check 'driver: a process has its share of the threads, and ioctls of the others are counted' until_shows shows \
		"200 < $ioctls <= 256 and $ioctls + total('dropped_total', what='driver_share') - $before == 400"
	alive -d seven 200
	check 'driver: another has room' until_shows shows "$ioctls >= 400"
	for who in six seven; do end_alive $who; done
	before=$(lost driver_share)
	alive -d eight 200
	check 'driver: what ended has given its rows back' until_shows shows "$ioctls >= 600 and total('dropped_total', what='driver_share') == $before"
	end_alive eight
	finish
}
if [ -e /sys/module/nvidia ]; then skip 'driver: shares' 'the NVIDIA driver is loaded'; else in_driver; fi

# A user may have half of the processes.
processes()
{
	local before was who one='total("calls_total", command="crowd", function="cuCtxSynchronize")'
	echo cuCtxSynchronize >"$TMP/names"
	rules metrics >"$TMP/processes.yaml"
	start processes --set metrics.memory=false --set metrics.max_tasks=1024 || return
	worker early || return
	crowd warm 0 1
	until_ok 10 has_lib "$liar/libcuda.so.1"
	end_crowd warm
	was=$(so_far "$one")
	before=$(lost processes)
	crowd many 700 1
	check 'a crowd of 700 processes' grep -q 'done' "$TMP/many.out"
	check 'processes: a user has his share of them, and calls of the others are counted' until_shows shows \
		"350 < total('target_processes', command='crowd') <= 512 and $one - $was + total('calls_total', command='(others)') + total('dropped_total', what='processes') - $before == 701"
	worker late || return
	for who in early late; do
		ask $who alloc 10 >/dev/null
		check "beside them, $who: its calls are counted, all of them" until_shows shows 'total("calls_total", command=who, function="cuMemAlloc_v2") == 10 == total("calls_total", command=who, function="cuMemFree_v2")' who=w-$who
	done
	end_crowd many
	check 'the crowd is gone' until_ok 10 shows 'total("target_processes", command="crowd") == 0'
	before=$(lost processes)
	crowd again 300 1
	check 'processes: what ended has given its rows back' until_shows shows "total('target_processes', command='crowd') == 301 and total('dropped_total', what='processes') == $before"
	end_crowd again
	quit early
	quit late
	finish
}
processes

# Patterns of cudatrace ctl level: sends N, prints how many were accepted and the response to the next one.
patterns()
{
	python3 "$TMP/ctl_patterns.py" "$sock" "$@"
}

ctl_patterns()
{
	rules metrics >"$TMP/patterns.yaml"
	# For users other than root, who may not read the tests' folder.
	cp tests/helpers/ctl_patterns.py "$TMP/"
	start patterns --set ctl.group="$(id -gn nobody)" || return
	check 'patterns: members of the group have half of them' is \
		"$(setpriv --reuid=65534 --regid="$(id -g nobody)" --clear-groups bash -c "$(declare -p sock TMP); $(declare -f patterns); patterns member 140")" '128 there are 128 patterns already'
	check 'patterns: root has the others' is "$(patterns root 140)" '128 there are 256 patterns already'
	check 'patterns: the same again is none more' is "$(patterns root 20)" '20 '
	check 'patterns: rules go on' is "$(worker late && ctl status | jq -r '.processes[] | select(.comm == "w-late") | .level')" metrics
	ctl reload >/dev/null
	check 'patterns: reading the configuration forgets them' is "$(patterns root 20)" '20 '
	finish
}
ctl_patterns
