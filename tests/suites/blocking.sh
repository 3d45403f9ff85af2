#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# A user's program maps files of its own FUSE server, which responds to no other process (tests/faults/hang.c). It must not block the
# tracer or the daemon, which must still trace others, respond, and end on request.
# takes: 40
# own processes
# A tracer of another suite could inspect all processes just when the lock is taken (docs/SECURITY.md, "What is left"),
# and then every fork() would wait.
# no tracers
set -u
. tests/lib.sh
needs_tracing blocking
. tests/daemon.sh

[ -c /dev/fuse ] || { skip blocking 'no /dev/fuse'; exit; }
chmod 755 "$TMP"
mkdir "$TMP/mnt" "$TMP/hlib" "$TMP/ctl"
{ ${CC:-gcc} -std=gnu11 -D_GNU_SOURCE= -include stdbool.h -O1 -w -o "$TMP/hang" tests/faults/hang.c -ldl -lpthread &&
	${CC:-gcc} -shared -fPIC -O1 -w -fno-omit-frame-pointer -Wl,-soname,libcuda.so.1 -o "$TMP/hlib/libcuda.so.1" tests/faults/hang_lib.c; } ||
	{ fail blocking 'the programs do not build'; exit; }
mount -t fusectl none "$TMP/ctl" 2>/dev/null
minors=()
# Whatever happens, processes that wait for a server must continue.
abort()
{
	local m
	for m in "${minors[@]}"; do [ ! -e "$TMP/ctl/$m/abort" ] || echo 1 >"$TMP/ctl/$m/abort"; done
	minors=()
}
trap 'abort; umount "$TMP/ctl" 2>/dev/null' EXIT

said() { grep -q "^$1" "$TMP/hang.out"; }
# hang WHAT: $target is its pid
hang()
{
	rm -f "$TMP/hang.out" # the last one's is not to be taken for its
	coproc hang { exec "$TMP/hang" "$1" "$TMP/mnt" "$TMP/hlib/libcuda.so.1" >"$TMP/hang.out" 2>>"$TMP/hang.err"; }
	# shellcheck disable=SC2154
	go=${hang[1]} shell=$hang_PID
	until_ok 60 said ready || { fail "$1" "the program does not start: $(tail -1 "$TMP/hang.err")"; return 1; }
	read -r _ minor target <"$TMP/hang.out"
	minors+=("$minor")
}
go() { echo >&"$go"; }
unhang() { exec {go}>&-; abort; wait "$shell" 2>/dev/null || :; }
# Attaching waits briefly for the kernel's own locks. The attaching process may not wait long either, because every fork() of the
# machine would wait behind it.
never_d()
{
	local i p waits=0 all
	all="$1 $(cat "/proc/$1/task/$1/children")"
	for i in {1..30}; do
		# Waiting in fifteen checks in a row is an error. When fifteen can no longer be reached, it does not wait.
		[ $((waits + 31 - i)) -ge 15 ] || return 0
		waits=$((waits + 1))
		for p in $all; do ! grep -q '^State:.D' "/proc/$p/status" || break; done
		grep -q '^State:.D' "/proc/$p/status" || waits=0
		sleep 0.05
	done
	[ $waits -lt 15 ] || { echo "waits for it: $(head -3 "/proc/$p/stack" 2>/dev/null)"; return 1; }
}
# ends PID NAME: must end within 2 seconds of SIGTERM
ends()
{
	kill -TERM "$1" 2>/dev/null
	check "$2: ends when told to" until_ok 2 is_gone "$1"
	is_gone "$1" || { abort; kill -KILL "$1"; }
	wait "$1" 2>/dev/null
}

# with_daemon LEVEL WHAT
with_daemon()
{
	local label="daemon at $1, $2" before
	hang "$2" || return
	echo "level: $1" >"$TMP/$1-$2.yaml"
	start "$1-$2" || { unhang; return; }
	go
	[ "$2" = lib ] || check "$label: its calls are made" until_ok 10 said made
	check "$label: it does not wait" never_d $daemon
	check "$label: it answers" until_ok 2 get "$url/healthz"
	sample victim --tokens 2 --layers 1
	check "$label: another process is seen" until_ok 5 shows 'total("calls_total", command="victim") > 50'
	[ "$2" != handle ] || check "$label: and so is this one" until_ok 5 shows 'total("calls_total", command="hang") == 6'
	ends $daemon "$label"
	unhang
}

holds_lock() { local t; for t in "/proc/$target/task"/*; do ! grep -q '^State:.D' "$t/status" || return 0; done; return 1; }
# The process holds its memory lock, and its library is to be probed: this must wait until the lock is free.
with_daemon_held()
{
	local label='daemon, maps'
	hang maps || return
	check "$label: its lock is held" until_ok 10 holds_lock
	echo 'level: metrics' >"$TMP/held.yaml"
	start held --libcuda "$TMP/hlib/libcuda.so.1" || { unhang; return; }
	check "$label: said what is held, and by whom" grep -q "hlib/libcuda.so.1: cannot attach .* probes .* of process $target" "$log"
	check "$label: it does not wait" never_d $daemon
	check "$label: it answers" until_ok 2 get "$url/healthz"
	sample victim --tokens 2 --layers 1
	check "$label: another process, with another library, is seen" until_ok 5 shows 'total("calls_total", command="victim") > 50'
	abort
	check "$label: tried again, when it can be" until_ok 5 grep -q 'hlib/libcuda.so.1 is traced now' "$log"
	check "$label: said once" is "$(grep -c 'cannot attach [0-9]* probes' "$log")" 1
	ends $daemon "$label"
	unhang
}

# The same with probes already attached: the daemon must not wait for them at its end.
with_daemon_ending()
{
	local label='daemon, later' links
	hang later || return
	echo 'level: metrics' >"$TMP/ending.yaml"
	start ending --libcuda "$TMP/hlib/libcuda.so.1" || { unhang; return; }
	links=$(pgrep -P $daemon -x cudatrace-links)
	check "$label: the probes are there" grep -qvx none <<<"$(probed "$target" "$TMP/hlib/libcuda.so.1" || echo none)"
	go
	check "$label: its lock is held" until_ok 2 holds_lock
	sleep 1
	ends $daemon "$label"
	check "$label: said what stays, and until when" grep -q "the probes stay attached, .* until process $target releases .* cudatrace-links, process $links," "$log"
	check "$label: cudatrace-links does not wait in the kernel" never_d "$links"
	check "$label: nor does whoever makes a process" timeout 2 true
	abort
	check "$label: then they are taken off" until_ok 2 is_gone "$links"
	check "$label: code as in the file" is "$(probed "$target" "$TMP/hlib/libcuda.so.1")" none
	unhang
}

# with_pid WHAT OPTION...
with_pid()
{
	local what=$1 label="-p, $1" tracer
	shift
	hang "$what" || return
	"$CUDATRACE" -q -p "$target" --jsonl "$TMP/pid-$what.jsonl" "$@" >"$TMP/pid.log" 2>&1 &
	tracer=$!
	until_ok 60 test -s "$TMP/pid-$what.jsonl"
	go
	[ "$what" = lib ] || check "$label: its calls are made" until_ok 10 said made
	check "$label: it does not wait" never_d $tracer
	ends $tracer "$label"
	unhang
}

with_daemon metrics handle
with_daemon trace handle
with_daemon metrics args
with_daemon metrics lib
check 'lib: said what to do' grep -q 'another user serves (FUSE)' "$log"
with_pid handle
check '-p, handle: its calls are lines, without names' holds "$TMP/pid-handle.jsonl" \
	'sym["cuLaunchKernel"] == 2 and sym["cuModuleGetFunction"] == 2 and not any(e.get("kernel_source") for e in calls)'
with_pid perf --stack
check '-p, perf: its calls are lines' holds "$TMP/pid-perf.jsonl" 'sym["cuCtxSynchronize"] == 3'
with_pid lib
with_daemon_held
with_daemon_ending
