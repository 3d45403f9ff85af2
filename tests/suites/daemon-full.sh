#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Everything full at once: programs of several users fill each table of a daemon with default settings. Clients request /metrics and do
# not read. Members of ctl.group do the same with the control socket, or send endless lines. A collector never ends its responses. The
# daemon must stay below its unit's limit, in a memory cgroup of that size if possible, and report each full table. Labels of maximal
# length and the rings of many processors are not filled here: only the sum in tests/unit/test_daemon_memory.c has them.
# takes: 150
# own processes
# long
set -u
. tests/lib.sh
needs_tracing daemon-full
command -v curl >/dev/null || { skip daemon-full 'needs curl'; exit 0; }
. tests/daemon.sh

LIMIT_KB=$((544 << 10))
below() { [ "$1" -lt "$2" ] || { echo "$1, not below $2"; return 1; }; }
status_kb() { awk -v f="$1:" '$1 == f { print $2 }' "/proc/$daemon/status"; }

# A cgroup (version 2 or 1) like the unit's, so that the kernel's memory for the daemon counts, too.
cgroup=
if grep -qw memory /sys/fs/cgroup/cgroup.subtree_control 2>/dev/null; then
	cgroup=/sys/fs/cgroup/cudatrace-full-$$ limit=memory.max events=memory.events peak=memory.peak
elif [ -e /sys/fs/cgroup/memory/memory.limit_in_bytes ]; then
	cgroup=/sys/fs/cgroup/memory/cudatrace-full-$$ limit=memory.limit_in_bytes events=memory.oom_control peak=memory.max_usage_in_bytes
fi
home=$(dirname "${cgroup:-/}")/cgroup.procs
mkdir "$cgroup" 2>/dev/null && echo ${LIMIT_KB}K >"$cgroup/$limit" || { rmdir "$cgroup" 2>/dev/null; cgroup=; }
# in_cgroup COMMAND...: in this shell, whose children stay in the cgroup
in_cgroup()
{
	local rc
	[ -z "$cgroup" ] || echo $$ >"$cgroup/cgroup.procs"
	"$@"
	rc=$?
	[ -z "$cgroup" ] || echo $$ >"$home"
	return $rc
}

hostile=$TMP/hostile
mkdir -p "$hostile/many"
nm -D --defined-only "$FAKE/libcuda.so.1" | awk '$3 ~ /^cu[A-Z]/ { sub(/@.*/, "", $3); print $3 }' | grep -v '^cuFake\|Get\|Query' | sort -u | head -60 >"$TMP/names"
awk '{ print "int " $1 "(int code) { return code; }" }' "$TMP/names" >"$TMP/crowd.c"
for i in $(seq 1500); do echo "int cuMany$i(void) { return 0; }"; done >"$hostile/many.h"
mkdir "$hostile/crowd"
${CC:-gcc} -shared -fPIC -O1 -w -Wl,-soname,libcuda.so.1 -o "$hostile/libcuda.so.1" tests/liar.c &&
	${CC:-gcc} -shared -fPIC -O1 -w -Wl,-soname,libcuda.so.1 -DMORE="\"$hostile/many.h\"" -o "$hostile/many/libcuda.so.1" tests/liar.c &&
	${CC:-gcc} -shared -fPIC -O1 -w -Wl,-soname,libcuda.so.1 -o "$hostile/crowd/libcuda.so.1" "$TMP/crowd.c" &&
	${CC:-gcc} -O1 -w -o "$hostile/flood" tests/flood.c -ldl -lpthread &&
	${CC:-gcc} -O1 -w -o "$TMP/crowd" tests/faults/crowd.c -ldl || { fail daemon-full 'the programs do not build'; exit; }
for i in $(seq 160); do
	mkdir "$hostile/copy.$i"
	cp "$hostile/libcuda.so.1" "$hostile/copy.$i/"
done
mkdir "$hostile/many.names"
for i in $(seq 140); do ln "$TMP/crowd" "$hostile/many.names/crowd$i"; done
chmod -R a+rX "$TMP"
chmod 711 "$TMP"

all=() tos=()
# as USER COMMAND...: in the background, its stdin open until release
as()
{
	local uid=$1 to
	shift
	mkfifo "$TMP/to"
	setpriv --reuid="$uid" --regid="$uid" --clear-groups "$@" <"$TMP/to" >>"$TMP/floods.out" 2>>"$TMP/floods.err" &
	all+=($!)
	exec {to}>"$TMP/to"
	rm "$TMP/to"
	tos+=("$to")
}
# Each prints its number of steps, and waits for a line before it begins.
flood() { as "$1" "$hostile/flood" "${@:2}"; floods=$((floods + 1)); }
crowd() { as "$1" "$hostile/many.names/crowd$2" "$hostile/crowd/libcuda.so.1" "$TMP/names" 20 4; crowds=$((crowds + 1)); }
said() { [ "$(grep -c "^$1" "$TMP/floods.out")" -ge "$2" ]; }
: >"$TMP/floods.out"
floods=0 crowds=0

printf 'level: off\nrules:\n  - match: {command: "%s/*"}\n    level: metrics\n  - match: {command: "%s/*"}\n    level: trace\n  - match: {command: "%s/*"}\n    level: metrics\n' \
	"$hostile/many.names" "$hostile" "$TMP" >"$TMP/full.yaml"
collector_port=$(port)
python3 tests/hostile.py answer-drip "$collector_port" 300 >"$TMP/collector.out" 2>&1 &
collector=$!
in_cgroup start full --set files.total_size=64M --set files.rotate_size=8M --set otlp.endpoint=http://127.0.0.1:"$collector_port" \
	--set ctl.group=nogroup --set otlp.interval=2s --set otlp.slow_call=0.001us --set otlp.iterations=cuCtxSynchronize || exit
# The expressions below use only the metrics: otherwise the files would be read each time.
files=$TMP/none
check 'the defaults do not allow more than the unit' is "$(grep -c 'may take up to' "$log")" 0
worker beside || fail 'the worker beside them starts' "$(tail -3 "$log")"
# Its series must exist before the tables are full.
ask beside alloc 10 >/dev/null
check 'beside them: before' until_shows shows 'total("calls_total", function="cuMemAlloc_v2", command="w-beside") == 10'

clients=()
for what in readers pipeline connections header; do
	python3 tests/hostile.py $what "${url##*:}" 400 >"$TMP/client.$what" 2>&1 &
	clients+=($!)
done
for what in readers line connections drip; do
	python3 tests/hostile.py ctl-$what "$sock" 400 >"$TMP/client.ctl-$what" 2>&1 &
	clients+=($!)
done
# All at the same time would only fill the ring. The entries of one group stay while the next group starts.
group()
{
	until_ok 20 said ready $floods || fail "$1: starts" "$(tail -3 "$TMP/floods.err")"
	until_ok 10 eval 'ctl status | jq -e "any(.libraries[]; .path == \"$hostile/libcuda.so.1\")"'
	for to in "${tos[@]}"; do echo >&"$to"; done
	until_ok 20 said 'done' $((floods + crowds)) || fail "$1: is done" "$(tail -3 "$TMP/floods.err")"
	old+=("${tos[@]}")
	tos=()
	echo "# $1: $SECONDS s, $(status_kb VmHWM) kB"
}
full() { shows "total('table_full_total', table='$1') > 0 and total('table_used', table='$1') > 0"; }
# fill GROUP TABLE FLOOD...: a flood larger than one process's share of the table. It is repeated if that was not enough, because on a
# busy machine the rings lose half of the data of several floods.
fill()
{
	local name=$1 table=$2 again
	shift 2
	group "$name"
	for again in 1 2 3; do
		! until_ok 1 full "$table" || break
		flood "$@"
		group "$name, again ($again)"
	done
}
old=()
# Processes use the same table as threads, and so end before those start.
for uid in 65531 65532 65533 65534; do flood $uid processes 2300 "$hostile/libcuda.so.1"; done
group 'processes'
check 'processes: most of the table is in use' until_shows shows 'total("table_used", table="processes") > 5000'
shows 'print("#", dict(by("dropped_total", "what")), dict(by("table_full_total", "table"))) or True'
check 'processes: further ones were refused, and it said so' until_shows shows 'sum(total("dropped_total", what=w) for w in ("threads", "threads_share", "processes")) > 0'
kill "${all[@]}"
ended "${all[@]}" 2>/dev/null
all=()
check 'processes: are given back' until_ok 20 shows 'total("table_used", table="processes") < 500'
for n in 25000 14000 9000; do flood 65531 names $n "$hostile/libcuda.so.1"; done
fill 'names' kernel_names 65531 names 25000 "$hostile/libcuda.so.1"
for n in 130000 75000 75000; do flood 65532 handles $n "$hostile/libcuda.so.1"; done
fill 'handles' kernel_handles 65532 handles 130000 "$hostile/libcuda.so.1"
for n in 145000 75000 45000; do flood 65533 ranges $n "$hostile/libcuda.so.1"; done
fill 'ranges' memory_ranges 65533 ranges 145000 "$hostile/libcuda.so.1"
for i in $(seq 16); do flood $((65531 + i % 4)) captures 4700 "$hostile/libcuda.so.1"; done
fill 'captures' captures 65531 captures 4700 "$hostile/libcuda.so.1"
for uid in 65531 65532 65533; do flood $uid alive 2100 "$hostile/libcuda.so.1"; done
group 'threads'
for i in $(seq 140); do crowd $((65533 + i % 2)) "$i"; done
until_ok 30 said 'done' $((floods + crowds)) || fail 'crowd: is done' "$(tail -3 "$TMP/floods.err")"
old+=("${tos[@]}")
tos=()
for uid in 65531 65532 65533 65534; do
	# shellcheck disable=SC2046 # words
	flood $uid libraries 0 "$hostile/many/libcuda.so.1" $(seq -f "$hostile/copy.%g/libcuda.so.1" $(((uid - 65531) * 40 + 1)) $(((uid - 65530) * 40)))
done
group 'libraries'
for uid in 65531 65532 65533; do flood $uid short 1500 "$hostile/libcuda.so.1"; done
for uid in 65531 65532 65533; do flood $uid own-names 20000 "$hostile/libcuda.so.1"; done
for uid in 65531 65532 65533; do flood $uid processes 1000 "$hostile/libcuda.so.1"; done
group 'short processes, many, and threads with names of their own'
ask beside alloc 100 >/dev/null
for i in "${!clients[@]}"; do is_gone "${clients[i]}" && fail 'clients go on to the end' "number $i: $(tail -qn 1 "$TMP"/client.*)"; done
kill "${clients[@]}"
wait "${clients[@]}" 2>/dev/null

for table in kernel_names kernel_handles memory_ranges captures process_labels libraries functions iterations; do
	check "$table: was full, and said so" until_shows full $table
done
for what in counts errors threads_share; do
	check "$what: was full, and said so" until_shows shows "total('dropped_total', what='$what') > 0"
done
check 'series: were used up, and said so' until_shows shows 'total("series_rejected_total") > 0'
check 'spans: the queue was full, and said so' until_shows shows 'total("otlp_dropped_total") > 0 and total("otlp_queued") > 1000'
# A user may have at most as much as remains free, so the last part stays free. Losses in the rings, caused by other programs, also reduce the use.
check 'most of the tables is in use' until_shows shows 'total("table_used", table="kernel_handles") > 100000 and total("table_used", table="memory_ranges") > 100000
	and total("table_used", table="kernel_names") > 15e6 and total("table_used", table="captures") > 25000 and total("table_used", table="process_labels") > 700'
check 'beside them: calls are counted, all of them' until_shows shows 'total("calls_total", function="cuMemAlloc_v2", command="w-beside") == 110'
hwm=$(status_kb VmHWM)
check 'the most that it was (kB)' below "$hwm" "$LIMIT_KB"
shows 'print("#", {k: int(v) for k, v in by("table_used", "table").items()}) or True'
if [ -n "$cgroup" ]; then
	check 'the cgroup of 544 MB: nothing was killed' awk '$1 == "oom_kill" && $2 { exit 1 }' "$cgroup/$events"
	echo "# the cgroup's peak, with what can be taken back (files): $(($(cat "$cgroup/$peak" 2>/dev/null || echo 0) >> 10)) kB"
	awk '/^(rss|cache|anon|kernel|sock|slab|file) / { print "#", $1, int($2 / 1024), "kB" }' "$cgroup/memory.stat"
	[ ! -e "$cgroup/memory.kmem.usage_in_bytes" ] || echo "# kernel $(($(cat "$cgroup/memory.kmem.usage_in_bytes") >> 10)) kB"
else
	skip 'the cgroup of 544 MB' 'no memory cgroup can be made here'
fi
echo "# the most $hwm kB, now $(status_kb RssAnon) kB of its own"

kill "${all[@]}"
ended "${all[@]}" 2>/dev/null
for to in "${old[@]}"; do exec {to}>&-; done
# The entries must be removed when the processes have gone.
check 'all is given back' until_ok 20 shows 'all(total("table_used", table=t) < 2000 for t in ("kernel_handles", "memory_ranges", "captures", "process_labels"))
	and total("table_used", table="kernel_names") < 1000000'
quit beside
finish
check 'the daemon has lived through it' is $? 0
kill $collector
wait $collector 2>/dev/null
[ -z "$cgroup" ] || until_ok 5 rmdir "$cgroup"
:
