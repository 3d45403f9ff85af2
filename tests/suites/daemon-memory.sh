#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Another user's processes fill all of the daemon's tables, at once and repeatedly. Its memory must stay far below its unit's limit, and
# shrink when they have gone. Calls of others must be counted, or counted as lost.
# takes: 40
# long
# own processes
set -u
. tests/lib.sh
needs_tracing daemon-memory
command -v curl >/dev/null || { skip daemon-memory 'needs curl'; exit 0; }
. tests/daemon.sh

below() { [ "$1" -lt "$2" ] || { echo "$1, not below $2"; return 1; }; }
status_kb() { awk -v f="$1:" '$1 == f { print $2 }' "/proc/$daemon/status"; }

hostile=$TMP/hostile
mkdir -p "$hostile/many"
${CC:-gcc} -shared -fPIC -O1 -w -Wl,-soname,libcuda.so.1 -o "$hostile/libcuda.so.1" tests/liar.c &&
	${CC:-gcc} -O1 -w -o "$hostile/flood" tests/flood.c -ldl -lpthread || { fail daemon-memory 'tests/flood.c does not build'; exit; }
for i in $(seq 1500); do echo "int cuMany$i(void) { return 0; }"; done >"$hostile/many.h"
${CC:-gcc} -shared -fPIC -O1 -w -Wl,-soname,libcuda.so.1 -DMORE="\"$hostile/many.h\"" -o "$hostile/many/libcuda.so.1" tests/liar.c
for i in $(seq 60); do
	mkdir "$hostile/copy.$i"
	cp "$hostile/libcuda.so.1" "$hostile/copy.$i/"
done
chmod -R a+rX "$TMP"

# flood NAME WHAT N LIBRARY...: runs as nobody; returns when it is ready. $NAME_to, $NAME_from: its pipes
flood()
{
	local name=$1 to from line
	shift
	mkfifo "$TMP/$name.to" "$TMP/$name.from"
	setpriv --reuid=65534 --regid=65534 --clear-groups "$hostile/flood" "$@" <"$TMP/$name.to" >"$TMP/$name.from" 2>>"$TMP/flood.err" &
	floods+=($!)
	exec {to}>"$TMP/$name.to" {from}<"$TMP/$name.from"
	rm "$TMP/$name.to" "$TMP/$name.from"
	tos+=("$to") froms+=("$from")
	read -r -t 30 line <&"$from"
	[ "$line" = ready ] || echo "# flood $name: ${line:-nothing}"
}
# go starts the floods; done_all waits for all of them.
go() { local i; for i in "${tos[@]}"; do echo >&"$i"; done; }
done_all() { local i line; for i in "${froms[@]}"; do read -r -t 120 line <&"$i"; [ "$line" = "done" ] || { echo "no answer: $line"; return 1; }; done; }
leave()
{
	local i
	for i in "${tos[@]}"; do echo >&"$i"; exec {i}>&-; done
	for i in "${froms[@]}"; do exec {i}<&-; done
	ended "${floods[@]}"
	floods=() tos=() froms=()
}
floods=() tos=() froms=()

printf 'level: off\nrules:\n  - match: {command: "%s/*"}\n    level: trace\n  - match: {command: "%s/*"}\n    level: metrics\n' \
	"$hostile" "$TMP" >"$TMP/memory.yaml"
start memory --set files.total_size=1M --set files.rotate_size=256K --set recorder.seconds=0 || exit
worker beside

# Other programs may run, and have entries of their own.
theirs() { ctl status | jq "[.libraries[] | select(.path | startswith(\"$hostile\"))] | length"; }
given_back() { shows 'all(total("table_used", table=t) < 2000 for t in ("kernel_handles", "memory_ranges", "captures", "threads"))
	and total("table_used", table="kernel_names") < 1000000'; }
# Fills each table in turn, with more than one share.
round()
{
	flood names names 20000 "$hostile/libcuda.so.1"
	flood handles handles 75000 "$hostile/libcuda.so.1"
	flood ranges ranges 145000 "$hostile/libcuda.so.1"
	flood captures captures 6000 "$hostile/libcuda.so.1"
	flood threads threads 2000 "$hostile/libcuda.so.1"
	until_ok 10 eval '[ "$(theirs)" -ge 1 ]'
	go
	# Other programs meanwhile.
	FAKE_CUDA_COUNTS=$TMP/counts.victim.$1 sample "victim.$1" --tokens 3 --layers 4
	ask beside alloc 100 >/dev/null
	done_all || fail "round $1: the floods" "$(tail -2 "$TMP/flood.err")"
}
# Several rounds only in make check-all
rounds=$((LONG ? 3 : 1))
for ((n = 1; n <= rounds; n++)); do
	round $n
	[ $n = 1 ] && for t in kernel_names kernel_handles memory_ranges captures; do
		check "flood: $t: is bounded, and counted" until_shows shows 'total("table_full_total", table=t) > 0 and 0 < total("table_used", table=t)' t=$t
	done
	check "round $n: threads that have ended are not kept" until_shows shows 'total("table_used", table="threads") < 1500'
	leave
	check "round $n: another program's calls are the driver's own, or said to be lost" until_shows all_of crowded victim.$n
	check "round $n: all is given back" eval 'until_ok 15 given_back || shows "print(by(\"table_used\", \"table\"))"'
	rss[n]=$(status_kb RssAnon)
done
check 'memory: the most that it was (kB)' below "$(status_kb VmHWM)" 200000
[ $rounds = 1 ] || check 'memory: does not grow from round to round (kB)' below $((rss[rounds] - rss[1])) 6000
check 'memory: is given back (kB)' below "${rss[rounds]}" 60000
check 'memory: the log says it once' is "$(grep -c 'too many kernel names' "$log")" 1
check "beside: live memory is right" shows 'total("memory_bytes", command="w-beside") == 0 and total("calls_total", command="w-beside", function="cuMemAlloc_v2") == 100 * int(n)' n=$rounds
echo "# after each round ${rss[*]} kB; the most $(status_kb VmHWM) kB"

[ "$LONG" = 0 ] || { quit beside; finish; exit; }

# Library files: a user has a share of the files, and a file has a share of the ids.
flood libs libraries 0 "$hostile/many/libcuda.so.1" "$hostile"/copy.*/libcuda.so.1
go
done_all || fail 'libraries: the flood' "$(tail -2 "$TMP/flood.err")"
# Another daemon on the machine maps its attached files as root: those count for root, not for this share.
# Depends on when the daemon has time for the user.
theirs_are() { is "$(ctl status | jq '[.libraries[] | select(.uid == 65534)] | length')" "$1"; }
check 'libraries: a user has a share, all of it' until_ok 10 theirs_are 32
check 'libraries: the rest is counted' until_shows shows 'total("table_full_total", table="libraries") > 0'
check 'libraries: a file has a share of functions' shows '0 < total("table_used", table="functions") and total("table_full_total", table="functions") > 1000'
check 'libraries: what a file exports too much is said' grep -q '1244 exported functions without rows in the tables are not traced' "$log"
check 'libraries: and no more' theirs_are 32
# Library names for which no file is found.
mkdir -m 777 "$TMP/keys"
flood keys keys 300 "$hostile/libcuda.so.1" "$TMP/keys"
echo >&"${tos[1]}"
read -r -t 60 line <&"${froms[1]}"
check 'keys of libraries: a user has a share' until_shows shows '32 <= total("table_used", table="library_keys") < 64 and total("table_full_total", table="library_keys") > 0'
# Another user's new library must be attached, with functions that the table lacks.
mkdir "$TMP/lib.new"
cp "$FAKE/libcuda.so.1" "$TMP/lib.new/"
worker newcomer "$TMP/lib.new"
until_ok 5 eval 'ctl status | jq -e "any(.libraries[]; .path == \"$TMP/lib.new/libcuda.so.1\")"'
ask newcomer alloc 7 >/dev/null
check 'libraries: those of another user are traced' until_shows shows 'total("calls_total", command="w-newcomer", function="cuMemAlloc_v2") == 7'
quit newcomer
leave
gone() { ctl reload >/dev/null; [ "$(theirs)" -lt 17 ]; }
check 'libraries: of many those that nobody uses go, on the disk or not' until_ok 30 gone
quit beside
finish
