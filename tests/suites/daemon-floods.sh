#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Programs that cause kernel events as fast as they can: names, processes, threads, programs, libraries (tests/churn.c). The daemon must
# use little of the machine, lose nothing, and count all calls.
set -u
. tests/lib.sh
needs_tracing floods
. tests/daemon.sh

churn=$TMP/churn
${CC:-gcc} -O1 -w -o "$churn" tests/churn.c -ldl -lpthread || { fail floods 'tests/churn.c does not build'; exit; }
chmod 711 "$TMP"
chmod 755 "$lib" "$churn"
# Large enough that a daemon that waits for a processor loses nothing.
start floods --set trace.buffer_size=64M --set trace.functions=cuDriverGetVersion,cuMemAlloc_v2,cuMemFree_v2 --set recorder.seconds=0s || exit
worker victim || { fail 'the victim starts' "$(tail -3 "$log")"; exit; }
ticks=$(getconf CLK_TCK)
used() { awk '{ print $14 + $15 }' "/proc/$daemon/stat"; }
calls_are() { shows 'total("calls_total", command=who, function=what) == int(n)' who="$1" what="$2" n="$3"; }
# at_most USED SECONDS: at most half of a processor
at_most() { [ "$1" -le $(($2 * ticks / 2)) ] || { echo "the daemon took $1 of $(($2 * ticks)) ticks"; return 1; }; }
seconds=2 made=0

# flood WHAT CALLS: CALLS per turn, an expression of n
flood()
{
	local before n
	before=$(used)
	cp "$churn" "$TMP/w-$1"
	n=$(setpriv --reuid 65534 --regid 65534 --clear-groups "$TMP/w-$1" "$1" $seconds "$lib/libcuda.so.1") || { fail "$1: runs"; return; }
	made=$((made + $(ask victim alloc 50)))
	check "$1: what the daemon takes" at_most $(($(used) - before)) $seconds
	# Not for renames and execs: an ended program's calls then count under its last name.
	[ -z "${2-}" ] || check "$1: all calls are counted" until_ok 10 calls_are "w-$1" cuDriverGetVersion $(($2))
	check "$1: the others' too" until_ok 10 calls_are w-victim cuMemAlloc_v2 $made
	echo "# $1: $n in $seconds s; the daemon took $(($(used) - before)) of $((seconds * ticks)) ticks"
}
flood renames
flood forks 1
flood sessions 1
flood threads n+1
flood execs
flood loads n+1
check 'nothing was lost' shows 'by("dropped_total", "what") == {} or print("lost:", by("dropped_total", "what"))'
quit victim
finish "$daemon"
