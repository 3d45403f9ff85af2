#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The files of libcuda: attached before a process has loaded them, and overwritten in place while they are probed.
# takes: 40
# timeout: 240
set -u
. tests/lib.sh
needs_tracing libraries
. tests/daemon.sh

# Not named libcuda.so.1, which tracers of the whole machine would also inspect.
LIB=$TMP/w/driver.bin
mkdir -p "$TMP/w"
# one_caller PATH: a program that loads the file, makes some calls and ends
one_caller()
{
	local rc
	caller one && [ "$(ask one open "$1")$(ask one init)$(ask one alloc 2)" = 102 ]
	rc=$?
	quit one && return $rc
}
# grown FILE PATTERN N: N lines of the file must match
grown() { [ "$(grep -c "$2" "$1")" = "$3" ]; }
attached_anew() { until_ok 20 grown "$TMP/$1.jsonl" '"op":"attached".*its contents have changed' "$2"; }

# late N COMMAND...: N programs that wait for $TMP/go, then load a libcuda and call it at once; {} in COMMAND is each one's number.
# $late: their pids; $TMP/late.N: the calls that they report.
late()
{
	local i n=$1 c
	shift
	late=()
	rm -f "$TMP/go"
	mkfifo "$TMP/go"
	for ((i = 0; i < n; i++)); do
		c=("${@//\{\}/$i}")
		"${c[@]}" <"$TMP/go" >"$TMP/late.$i" &
		late+=($!)
	done
	# Opened for reading and writing, so that no opener waits for the other end.
	exec {go}<>"$TMP/go"
	for ((i = 0; i < n; i++)); do
		until_ok 10 grep -q ready "$TMP/late.$i" || return 1
	done
}
go() { printf '%*s' ${#late[@]} '' >&"$go"; exec {go}>&-; ended "${late[@]}"; }
# all_seen TRACE: every call that the programs report must be there
all_seen()
{
	holds "$1" '(lambda own: own and {p: dict(c) for p, c in own.items()} == {p: dict(collections.Counter(c["symbol"] for c in calls if c["pid"] == p)) for p in own})((lambda own: [own.setdefault(e["pid"], collections.Counter()).update([e["symbol"]]) for n in range(int(cnt)) for e in map(json.loads, open(f"{out}.{n}").read().split("ready\n", 1)[1].splitlines()) if "symbol" in e] and own)({})) and accounts()' \
		cnt=${#late[@]} out="$TMP/late"
}

# Before a process has loaded them, files in the dynamic linker's paths must be attached.
beforehand()
{
	local i pids
	for ((i = 0; i < 20; i++)); do
		mkdir -p "$TMP/n/$i"
		cp "$FAKE/libcuda.so.1" "$TMP/n/$i/"
	done
	late 20 env LD_LIBRARY_PATH="$TMP/n/{}" "$CASES/dlopen_late" libcuda.so.1 - || { fail 'attached beforehand' 'no targets'; return; }
	pids=$(IFS=,; echo "${late[*]}")
	tracer path -e "$ALL" -p "$pids" || fail 'attached beforehand, LD_LIBRARY_PATH' 'no tracer'
	go
	ended $tracer
	check 'attached beforehand, LD_LIBRARY_PATH: every call of twenty' all_seen "$TMP/path.jsonl"

	# A root of its own, as far as needed here.
	echo "$TMP/n/0" >"$TMP/ld.so.conf"
	if ! ldconfig -C "$TMP/ld.so.cache" -f "$TMP/ld.so.conf" 2>/dev/null || ! unshare -m true 2>/dev/null; then
		skip 'attached beforehand, ld.so.cache' 'needs ldconfig and unshare'
	else
		for ((i = 0; i < 20; i++)); do
			echo "$TMP/n/$i" >"$TMP/n/$i.conf"
			ldconfig -C "$TMP/n/$i.cache" -f "$TMP/n/$i.conf" 2>/dev/null
		done
		# shellcheck disable=SC2016 # the inner shell's
		late 20 unshare -m sh -c 'mount --bind "$0" /etc/ld.so.cache && exec "$@"' "$TMP/n/{}.cache" "$CASES/dlopen_late" libcuda.so.1 - ||
			fail 'attached beforehand, ld.so.cache' 'no targets'
		pids=$(IFS=,; echo "${late[*]}")
		tracer cache -e "$ALL" -p "$pids" || fail 'attached beforehand, ld.so.cache' 'no tracer'
		go
		ended $tracer
		check 'attached beforehand, ld.so.cache: every call of twenty' all_seen "$TMP/cache.jsonl"
	fi

	late 20 "$CASES/dlopen_late" "$TMP/n/{}/libcuda.so.1" - || fail 'stopped on load' 'no targets'
	pids=$(IFS=,; echo "${late[*]}")
	tracer stop -e "$ALL" --stop-on-load -p "$pids" || fail 'stopped on load' 'no tracer'
	go
	check 'stopped on load: the programs end well' is $? 0
	ended $tracer
	check 'stopped on load: every call of twenty' all_seen "$TMP/stop.jsonl"

	# The tracer ends while one is stopped.
	late 1 "$CASES/dlopen_late" "$TMP/n/1/libcuda.so.1" - || fail 'stopped on load, tracer killed' 'no target'
	tracer dead --stop-on-load -p "${late[0]}"
	kill -STOP $tracer
	printf x >&"$go"
	check 'stopped on load, tracer killed: it waits' until_ok 5 grep -q '^State:.T' "/proc/${late[0]}/status"
	kill -9 $tracer
	check 'stopped on load, tracer killed: it goes on' until_ok 5 is_gone "${late[0]}"
	exec {go}>&-
}

# write_by HOW FROM TO
write_by()
{
	case $1 in
	cp) cp "$2" "$3" ;;
	# The rest of the old file stays: truncate(1) would be a second writer, which does not wait.
	dd) dd if="$2" of="$3" bs=1M conv=notrunc 2>/dev/null ;;
	mmap) python3 tests/helpers/write_mapped.py "$2" "$3" ;;
	esac
}

# Probes must be removed before the first byte is written, and attached to the new contents before they are called.
overwritten()
{
	local mech how new n set
	for mech in session multi perf; do
		has_mechanism $mech || continue
		# Removing perf events takes 0.1 s for each function.
		set=$ALL
		[ $mech = perf ] && set=cuMemAlloc_v2,cuMemFree_v2,cuInit
		cp "$FAKE/libcuda.so.1" "$LIB"
		caller idle && tracer over --mechanism=$mech -e "$set" --libcuda "$LIB" -p "$idle" || { fail "overwritten, $mech" 'no tracer'; return; }
		n=0
		for how in cp dd mmap; do
			new=$FAKE535/libcuda.so.1
			[ $how = dd ] && new=$FAKE/libcuda.so.1
			write_by $how "$new" "$LIB"
			check "overwritten by $how, $mech: a program that loads it at once runs" one_caller "$LIB"
			check "overwritten by $how, $mech: it has the new contents" cmp -n "$(stat -c %s "$new")" "$new" "$LIB"
			check "overwritten by $how, $mech: the tracer attaches anew" attached_anew over $((++n))
			check "overwritten by $how, $mech: a program that loads it then runs" one_caller "$LIB"
		done
		check "overwritten, $mech: the target runs" is "$(ask idle open "$LIB")$(ask idle init)$(ask idle alloc 5)" 105
		quit idle
		ended $tracer
		check "overwritten, $mech: the calls of the new contents are in the trace" holds "$TMP/over.jsonl" \
			'sym["cuMemAlloc_v2"] == 5 and {c.get("lib", 1) for c in calls} == {[e["lib"] for e in lib if e["op"] == "attached"][-1]} and [e["op"] for e in lib if not e["pid"]] == ["detached", "attached"] * 3 and accounts()'
		check "overwritten, $mech: schema" python3 tests/golden/schema_check.py "$TMP/over.jsonl"
	done
}

# A command's process overwrites a file that it loads next: it waits for the tracer, and is stopped for it.
overwritten_by_command()
{
	local LIB=$TMP/w/libcuda.so.1
	cp "$FAKE/libcuda.so.1" "$LIB"
	# shellcheck disable=SC2016 # the inner shell's
	timeout 60 "$CUDATRACE" -q -e "$ALL" --libcuda "$LIB" --jsonl "$TMP/own.jsonl" -- \
		sh -c 'for i in 1 2 3; do cp "$0" "$1" && "$2" "$1" 0 || exit 1; cp "$3" "$1" && "$2" "$1" 0 || exit 1; done' \
		"$FAKE535/libcuda.so.1" "$LIB" "$CASES/dlopen_late" "$FAKE/libcuda.so.1" >"$TMP/own.out" 2>"$TMP/own.err"
	check 'overwritten by the command: its status' is "$?" 0
	check 'overwritten by the command: what it calls is in the trace, or is said to be missed' holds "$TMP/own.jsonl" \
		'len({c["pid"] for c in calls} | {e["pid"] for e in lib if e["op"] == "failed"}) == 6 and len({c["pid"] for c in calls}) >= 1 and accounts()'
}

# Open for writing when the trace begins.
held()
{
	local writer
	cp "$FAKE/libcuda.so.1" "$LIB"
	sleep 100 >>"$LIB" &
	writer=$!
	caller idle && tracer held -e "$ALL" --libcuda "$LIB" -p "$idle" || { fail 'open for writing' 'no tracer'; return; }
	check 'open for writing: said' grep -q 'w/driver.bin is open for writing: it is traced as soon as the writer closes it' "$TMP/held.err"
	check 'open for writing: a program that loads it runs' is "$(ask idle open "$LIB")$(ask idle init)$(ask idle alloc 5)" 105
	check 'open for writing: no probe' is "$(probed "$idle" "$LIB")" none
	kill $writer
	ended $writer
	check 'open for writing: attached when it is closed' attached_anew held 1
	ask idle alloc 7 >/dev/null
	quit idle
	ended $tracer
	check 'open for writing: calls from then on' holds "$TMP/held.jsonl" 'sym == {"cuMemAlloc_v2": 7, "cuMemFree_v2": 7} and accounts()'
}

# Without a lease: CAP_LEASE is needed for another user's file.
no_lease()
{
	command -v setpriv >/dev/null || { skip 'without leases' 'needs setpriv'; return; }
	printf '#!/bin/sh\nexec setpriv --bounding-set -lease --inh-caps -lease %s "$@"\n' "$CUDATRACE" >"$TMP/no_lease"
	chmod +x "$TMP/no_lease"
	cp "$FAKE/libcuda.so.1" "$LIB"
	chown 65534 "$LIB"
	chmod 755 "$LIB"
	caller idle && CUDATRACE=$TMP/no_lease tracer late -e "$ALL" --libcuda "$LIB" -p "$idle" || { fail 'without leases' 'no tracer'; return; }
	cp "$FAKE535/libcuda.so.1" "$LIB"
	check 'without leases: a write is noticed' attached_anew late 1
	check 'without leases: a program that loads it runs' one_caller "$LIB"
	ask idle open "$LIB" >/dev/null
	ask idle alloc 3 >/dev/null
	quit idle
	ended $tracer
	check 'without leases: the calls of the new contents' holds "$TMP/late.jsonl" 'sym["cuMemAlloc_v2"] == 3 and accounts()'

	chmod 775 "$LIB"
	"$TMP/no_lease" -q --jsonl "$TMP/open.jsonl" --libcuda "$LIB" -- "$CASES/dlopen_late" "$LIB" 0 >/dev/null 2>"$TMP/open.err"
	check 'without leases: a file that its group may write to is refused' is "$? $(grep -c 'chmod go-w, or add --force' "$TMP/open.err")" '1 1'
	"$TMP/no_lease" -q --force --jsonl "$TMP/open.jsonl" --libcuda "$LIB" -- "$CASES/dlopen_late" "$LIB" 0 >/dev/null 2>"$TMP/open.err"
	check 'without leases: --force' holds "$TMP/open.jsonl" 'len(calls) >= 5 and accounts()'
	"$CUDATRACE" -q --jsonl "$TMP/open.jsonl" --libcuda "$LIB" -- "$CASES/dlopen_late" "$LIB" 0 >/dev/null 2>"$TMP/open.err"
	check 'with leases: such a file is traced' holds "$TMP/open.jsonl" 'len(calls) >= 5 and accounts()'
}

# A user who may write to the file must not keep the tracer busy, nor must the user's programs wait long.
again_and_again()
{
	local ticks
	cp "$FAKE/libcuda.so.1" "$LIB"
	caller idle && tracer often -e "$ALL" --libcuda "$LIB" -p "$idle" || { fail 'written all the time' 'no tracer'; return; }
	python3 tests/helpers/open_often.py "$LIB"
	ticks=$(awk '{print $14 + $15}' /proc/$tracer/stat)
	check "opened for writing for 3 s: the tracer's time ($ticks ticks)" test "$ticks" -lt 150
	check 'opened for writing for 3 s: attached a few times' holds <(cat "$TMP/often.jsonl" && echo '{"type":"end"}') \
		'3 <= sum(e["op"] == "attached" for e in lib) <= 8'
	quit idle
	ended $tracer
}

daemon_overwritten()
{
	rules trace >"$TMP/over.yaml"
	start over || return
	worker one || fail 'daemon, overwritten' 'the target does not run'
	ask one alloc 3 >/dev/null
	quit one
	cp "$FAKE535/libcuda.so.1" "$lib/libcuda.so.1"
	check 'daemon, overwritten: a program that loads it at once runs' one_caller "$lib/libcuda.so.1"
	worker two || fail 'daemon, overwritten' 'the target does not run any more'
	ask two alloc 4 >/dev/null
	two_pid=$two
	quit two
	finish
	check 'daemon, overwritten: said, and the calls of the new contents' python3 tests/helpers/overwritten_files.py "$files" "$two_pid"
}

# The tracer's reader does not respond, as with a dead mount of a process.
silent()
{
	local maker reader
	mkdir "$TMP/silent"
	cp "$FAKE/libcuda.so.1" "$TMP/silent/"
	caller quiet && tracer silent -e "$ALL" -p "$quiet" && until_ok 5 eval 'maker=$(pgrep -P $tracer -x cudatrace-read) && reader=$(pgrep -P $maker)' ||
		{ fail 'a library that cannot be read' 'no tracer'; return; }
	kill -STOP "$maker" "$reader"
	ask quiet open "$TMP/silent/libcuda.so.1" >/dev/null
	check 'a library that cannot be read: the trace says that it is missing' until_ok 20 grep -q '"op":"failed".*did not respond' "$TMP/silent.jsonl"
	quit quiet
	kill -KILL "$maker" "$reader"
	ended $tracer
}

beforehand
silent
overwritten
overwritten_by_command
held
no_lease
again_and_again
daemon_overwritten
