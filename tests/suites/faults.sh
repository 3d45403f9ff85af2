#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Failures: the tracer killed, targets that end in odd ways, outputs that cannot be written. The target must continue with right
# results. No process may stay stopped, nothing of ours may remain, and losses must be counted.
#
# FAULTS_KILLS=N   how many tracers are killed (10; make check-all: 100; make faults: 200)
# takes: 110
# longer
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

# A process of the command is stopped until its libcuda is attached, and its tracer is killed.
stopped_child()
{
	local how label kid hold guards=()
	for how in child grandchild; do
		label="tracer killed while a $how is stopped"
		local -a cmd=("$CASES/dlopen_late" "$TMP/k/libcuda.so.1" -)
		mkdir -p "$TMP/k"
		cp "$FAKE/libcuda.so.1" "$TMP/k/"
		[ $how = grandchild ] && cmd=(sh -c '"$@"; true' sh sh -c '"$@"; true' sh "${cmd[@]}")
		rm -f "$TMP/hold" "$TMP/left.out"
		mkfifo "$TMP/hold"
		"$CUDATRACE" -q --jsonl "$TMP/left.jsonl" -- "${cmd[@]}" <"$TMP/hold" >"$TMP/left.out" &
		tracer=$!
		exec {hold}>"$TMP/hold"
		until_ok 10 grep -qs ready "$TMP/left.out"
		kid=$(descendant $tracer dlopen_late)
		guards+=($(pgrep -x cudatrace-guard -P $tracer))
		kill -STOP $tracer
		echo >&"$hold"
		exec {hold}>&-
		check "$label: it waits" until_ok 5 is_stopped "$kid"
		kill -9 $tracer
		ended $tracer 2>/dev/null
		check "$label: it goes on" until_ok 5 is_gone "$kid"
		check "$label: it did all it had to" is "$(grep -c symbol "$TMP/left.out")" 5
		kill -9 "$kid" 2>/dev/null
	done
	check 'tracer killed: its guard ends' until_ok 5 guards_are_gone "${guards[@]}"
}
guards_are_gone() { local p; [ $# = 2 ] || { echo "$# guards"; return 1; }; for p; do is_gone "$p" || return 1; done; }

# reader FIFO FILE: reads one line, and the rest when $TMP/go exists
reader()
{
	rm -f "$TMP/go" "$2"
	python3 tests/helpers/slow_reader.py "$1" "$2" "$TMP/go" &
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

	# The reader continues while the trace does.
	reader "$TMP/fifo" "$TMP/slow.jsonl"
	LD_LIBRARY_PATH=$FAKE FAKE_NO_SEM=1 "$CUDATRACE" -q -e cuMemFree_v2 --jsonl "$TMP/fifo" -- sh -c '"$@"; sleep 1; touch "$0"; sleep 1.5; "$@"' \
		"$TMP/go" "$CASES/many" cuMemFree_v2 200000 1 >/dev/null 2>"$TMP/err"
	check 'a reader that goes on: status' is $? 1
	ended $reader
	check 'a reader that goes on: the trace says when and how much' holds "$TMP/slow.jsonl" \
		'(lost := [e for e in ev if e["type"] == "tracer" and e["op"] == "lost" and e["name"] != "ring"]) and sum(e["events"] for e in lost) == end["lines_lost"] and lost[-1]["ts"] < calls[-1]["ts"]'

	# The trace's end must not wait for the reader; the tracer waits until it is stopped.
	caller stuck && [ "$(ask stuck open "$TMP/driver.bin")$(ask stuck init)" = 10 ] || { fail 'a stuck output, -p' 'the target does not run'; return; }
	reader "$TMP/fifo" "$TMP/slow.jsonl"
	"$CUDATRACE" -q -e "$ALL" --libcuda "$TMP/driver.bin" --duration 0.7 --jsonl "$TMP/fifo" -p "$stuck" 2>"$TMP/err" &
	tracer=$!
	until_ok 10 test -s "$TMP/slow.jsonl"
	check 'a stuck output, --duration: the target runs on' is "$(ask stuck alloc 3000)" 3000
	check 'a stuck output, --duration: probes come off' until_ok 5 is_clean "$stuck" "$TMP/driver.bin"
	check 'a stuck output, --duration: the tracer waits' kill -0 $tracer
	begin=${EPOCHREALTIME/./}
	kill -TERM $tracer
	ended $tracer
	check 'a stuck output, --duration: a signal ends it' test $? = 1 -a $((${EPOCHREALTIME/./} - begin)) -lt 1500000
	check 'a stuck output, --duration: says what is missing' grep -q 'lines were not written: its reader does not read' "$TMP/err"
	touch "$TMP/go"
	ended $reader

	reader "$TMP/fifo" "$TMP/slow.jsonl"
	"$CUDATRACE" -q -e "$ALL" --libcuda "$TMP/driver.bin" --jsonl "$TMP/fifo" -p "$stuck" 2>"$TMP/err" &
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

	# A FIFO without a reader
	"$CUDATRACE" -q -e launch --libcuda "$TMP/driver.bin" --jsonl "$TMP/fifo" -p "$stuck" 2>"$TMP/err" &
	tracer=$!
	until_ok 5 grep -q '^SigBlk:.*[1-9a-f]' /proc/$tracer/status
	sleep 0.5
	kill -TERM $tracer
	ended $tracer
	check 'a FIFO without a reader: a signal ends it' is "$? $(grep -c 'no process opened it for reading' "$TMP/err")" '1 1'
	check 'a FIFO without a reader: no probe stays' until_ok 5 is_clean "$stuck" "$TMP/driver.bin"
	quit stuck
}
ready() { caller "$1" && [ "$(ask "$1" open "$2/libcuda.so.1")$(ask "$1" init)" = 10 ]; }
is_clean() { [ "$(probed "$1" "$2")" = none ]; }

# A target of tests/faults, made when first needed: make_target load.c
make_target()
{
	local name=${1%.*}
	[ -x "$TMP/$name" ] && return
	case $1 in
	*.cc) ${CXX:-g++} -O1 -o "$TMP/$name" "tests/faults/$1" -ldl ;;
	*) ${CC:-gcc} -O1 -w -o "$TMP/$name" "tests/faults/$1" -ldl -lpthread ;;
	esac
}

# The library has another name, so that tracers of the whole machine ignore it.
kills()
{
	local lib=$TMP/driver.bin n=${FAULTS_KILLS:-$((LONG ? 100 : 10))} begin=$SECONDS out
	make_target load.c || { fail 'SIGKILL' 'no target'; return; }
	"$TMP/load" "$lib" 2 50 >"$TMP/load.out" &
	target=$!
	until_ok 5 grep -q ready "$TMP/load.out"
	if out=$(tests/faults/kills.py "$n" "$TMP" $target "$CUDATRACE" -q -e "$ALL" --libcuda "$lib" 2>&1); then
		pass "$n tracers killed: files are valid, nothing is left in the kernel"
		echo "# $out; $((SECONDS - begin)) s"
	else
		fail "$n tracers killed" "$out"
	fi
	check "$n tracers killed: code as in the file" until_ok 5 is_clean $target "$lib"
	kill $target
	ended $target
	check "$n tracers killed: every result of the target was right" is "$? $(grep -c ' bad 0$' "$TMP/load.out")" '0 1'
}

# life NAME COUNT STATUS WORD...: the trace must agree with the target's own counts.
life()
{
	local what="life: $1" said=$2 want=$3
	shift 3
	timeout -k 5 60 "$CUDATRACE" -q -e "$ALL" --buffer-size 64M --libcuda "$TMP/driver.bin" --jsonl "$TMP/life.jsonl" -- \
		"${UNSHARE[@]}" "$TMP/life" "$TMP/driver.bin" "$@" >"$TMP/life.out" 2>"$TMP/err"
	check "$what: status" is $? "$want"
	check "$what: what it did" is "$(cat "$TMP/life.out")" "$said"
	check "$what: every call, none inside another that was left" holds "$TMP/life.jsonl" \
		'sym["cuDriverGetVersion"] == int(n) and accounts() and not [c for c in calls if c["symbol"] == "cuDriverGetVersion" and "parent" in c]' n="$said"
	check "$what: calls that were left" holds "$TMP/life.jsonl" '[end["abandoned"], end["unfinished"]] == json.loads(want)' want="${LEFT:-[0, 0]}"
}
lives()
{
	local -a UNSHARE=()
	make_target life.c || { fail life 'no target'; return; }
	life '1,000 threads' 10000 0 threads 1000
	life 'dlclose and dlopen' 50 0 reload 50
	life vfork 20 0 vfork 20
	LEFT='[0, 5]' life 'cancelled threads' 5 0 cancel 5
	# More than CT_MAX_DEPTH: if a frame stayed, later calls would be lost.
	LEFT='[30, 0]' life 'siglongjmp' 30 0 jump 30
	LEFT='[0, 1]' life 'crash in a call' 1 139 crash
	LEFT='[0, 1]' life 'exec in a call' 1 0 exec
	if unshare -UrpfmC --mount-proc true 2>/dev/null; then
		UNSHARE=(unshare -UrpfmC --mount-proc)
		life 'PID, mount, user and cgroup namespace' 60 0 procs 20
	else
		skip 'life: namespaces' 'unshare is not allowed here'
	fi
}

# A target that changes stacks during calls. Kernels without sessions would kill it in most cases: docs/RELIABILITY.md.
# elsewhere NAME MECHANISM CALLS RETURNS WHAT...: makes CALLS calls of cuDriverGetVersion, and RETURNS of their returns are recorded.
elsewhere()
{
	local what="other stacks: $1, $2" mech=$2 made=$3 returns=$4
	shift 4
	timeout -k 5 60 "$CUDATRACE" -q --mechanism="$mech" -e 'cu*Callback,cuDriverGetVersion' "${OPT[@]}" --libcuda "$TMP/driver.bin" \
		--jsonl "$TMP/else.jsonl" -- "$TMP/elsewhere" "$TMP/driver.bin" "$@" >"$TMP/else.out" 2>&1
	check "$what: it runs on" is "$? $(cat "$TMP/else.out")" "0 $made"
	[ ${#OPT[@]} = 0 ] || return
	check "$what: every call, none nested in one on another stack" holds "$TMP/else.jsonl" \
		'(sym["cuDriverGetVersion"] == int(made) and not [c for c in calls if c.get("entry_only") and "parent" in c] and end["orphans"] == 0 and accounts()
		and len([c for c in calls if "result" in c and c["symbol"] == "cuDriverGetVersion"]) == int(returns))' made="$made" returns="$returns"
}
other_stacks()
{
	local all=({up,down}-{mapped,small,local} above local) mech
	local -a OPT=()
	make_target elsewhere.c || { fail 'other stacks' 'no target'; return; }
	for mech in session multi; do
		has_mechanism $mech || { skip "other stacks: $mech" 'not in this kernel'; continue; }
		elsewhere 'handlers below' $mech 100 100 below
		"$CUDATRACE" -q --mechanism=$mech -e 'cu*Callback,cuDriverGetVersion' --libcuda "$TMP/driver.bin" --jsonl "$TMP/else.jsonl" -- \
			"$TMP/elsewhere" "$TMP/driver.bin" deep >"$TMP/else.out"
		check "deeper than can be told apart, $mech: it runs on" is "$? $(cat "$TMP/else.out")" '0 20'
		check "deeper than can be told apart, $mech: the rest is dropped, and no orphans" holds "$TMP/else.jsonl" \
			'end["drops"]["depth"] == 260 and end["calls"] == 160 and end["orphans"] == end["abandoned"] == 0'
	done
	# Only --entry-only avoids this effect of the kernel, so it must be reported, once.
	for mech in multi perf; do
		has_mechanism $mech || continue
		"$CUDATRACE" -q --mechanism=$mech -e 'cu*Callback,cuDriverGetVersion' --libcuda "$TMP/driver.bin" --jsonl "$TMP/else.jsonl" -- \
			sh -c '"$@"; "$@"; true' sh "$TMP/elsewhere" "$TMP/driver.bin" up-mapped >"$TMP/else.out" 2>"$TMP/else.err"
		check "other stacks: $mech ends the program: said once, with the way out" is \
			"$(grep -c 'ended by SIGILL, which .* use --entry-only' "$TMP/else.err") $(jq -s '[.[] | select(.op == "exit" and .signal == 4)] | length' "$TMP/else.jsonl")" '1 2'
		OPT=(--entry-only 'cu*Callback')
		elsewhere 'with --entry-only' $mech 272 0 "${all[@]}"
		OPT=()
	done
	has_mechanism session || return
	# Another file: the last tracer's cudatrace-links may still be removing perf's probes from this one.
	cp "$TMP/driver.bin" "$TMP/fresh.bin" && mv "$TMP/fresh.bin" "$TMP/driver.bin"
	elsewhere 'coroutines, handlers above' session 272 142 "${all[@]}"
	elsewhere 'far below, left from there' session 60 20 far left
	elsewhere 'a coroutine given up in a call' session 51 1 gone
	OPT=(--count 'cu*Callback,cuDriverGetVersion')
	elsewhere 'counted' session 272 0 "${all[@]}"
	check 'other stacks: counted, session: every call' holds "$TMP/else.jsonl" 'end["counted"]["cuDriverGetVersion"]["calls"] == 272 and accounts()'
}

# The kernel replaces the return address of a probed call, which the unwinder cannot see through (docs/RELIABILITY.md).
exceptions()
{
	make_target throw.cc || { skip 'C++ exceptions' 'needs g++'; return; }
	"$CUDATRACE" -q -e "$ALL" --entry-only "$ALL" --libcuda "$TMP/driver.bin" --jsonl "$TMP/throw.jsonl" -- "$TMP/throw" "$TMP/driver.bin" 20 >"$TMP/throw.out"
	check 'C++ exceptions, --entry-only: caught as ever' is "$? $(cat "$TMP/throw.out")" '0 20'
	check 'C++ exceptions, --entry-only: the calls' holds "$TMP/throw.jsonl" 'sym == {"cuFakeCallback": 20, "cuDriverGetVersion": 20} and accounts()'
}

short_lived()
{
	local n=$((LONG ? 10000 : 500)) took
	tracer sys -e cuDriverGetVersion --buffer-size 64M --libcuda "$TMP/driver.bin" || { fail 'short-lived processes' 'see above'; return; }
	took=${EPOCHREALTIME/./}
	"$TMP/life" "$TMP/driver.bin" procs $n >"$TMP/life.out"
	took=$(((${EPOCHREALTIME/./} - took) / 1000))
	stop $tracer
	check "$n processes, whole system: run on ($took ms)" test "$(cat "$TMP/life.out")" = $((3 * n)) -a $took -lt 60000
	check "$n processes, whole system: every call, dropped ones counted" holds "$TMP/sys.jsonl" \
		'(mine := [c for c in calls if c.get("comm", "life") == "life"]) and accounts(drops=True) and 3 * int(n) <= end["entries"] + end["drops"]["threads"] and (any(end["drops"].values()) or len(calls) >= 3 * int(n))' n=$n
	echo "# $(jq -c 'select(.type == "end") | {calls, drops}' "$TMP/sys.jsonl")"
}

# Endless changes of names, each with a record.
renames()
{
	make_target rename.c || { fail 'a thread with 100,000 names' 'no target'; return; }
	"$CUDATRACE" -q -e cuDriverGetVersion --libcuda "$TMP/driver.bin" --jsonl "$TMP/rename.jsonl" -- "$TMP/rename" "$TMP/driver.bin" 100000
	check 'a thread with 100,000 names: its calls, by the last one too' holds "$TMP/rename.jsonl" \
		'len(calls) == 2 and (calls[-1]["comm"] == "last" or end["drops"]["tasks"] > 0) and accounts(missed=["tasks"]) and len(ev) < 100'
}

# A process that reuses a traced process's id must count as another.
reused_pid()
{
	local pid new i
	[ -w /proc/sys/kernel/ns_last_pid ] || { skip 'PID reuse' 'needs a kernel with CHECKPOINT_RESTORE'; return; }
	rm -f "$TMP/first"
	"$CUDATRACE" -q -e "$ALL" --libcuda "$TMP/driver.bin" --jsonl "$TMP/reuse.jsonl" -- \
		sh -c '"$1" "$2" wait <"$0" & echo $! >"$0.pid"; wait; sleep 5' "$TMP/lines" "$TMP/life" "$TMP/driver.bin" >/dev/null &
	tracer=$!
	until_ok 10 test -s "$TMP/lines.pid"
	pid=$(cat "$TMP/lines.pid")
	until_ok 5 is_gone "$pid"
	for ((i = 0; i < 300; i++)); do
		echo $((pid - 1)) >/proc/sys/kernel/ns_last_pid
		"$TMP/life" "$TMP/driver.bin" wait <"$TMP/lines" >"$TMP/reuse.out" &
		new=$!
		[ $new = "$pid" ] && break
		wait $new
	done
	wait $new
	kill -TERM $tracer
	pkill -P $tracer
	ended $tracer
	if [ $new = "$pid" ]; then
		check 'PID reuse: only the first is traced' holds "$TMP/reuse.jsonl" 'len([c for c in calls if c["pid"] == int(pid)]) == 2 and accounts()' pid="$pid"
	else
		skip 'PID reuse' "$pid was never free"
	fi
}

own_pidns()
{
	unshare -pfm --mount-proc true 2>/dev/null || { skip 'cudatrace in a PID namespace' 'unshare is not allowed here'; return; }
	local in=(unshare -pfm --mount-proc) life=("$TMP/life" "$TMP/driver.bin" procs) inside
	# Process ids are those of the namespace, also for processes in a nested namespace.
	timeout -k 5 60 "${in[@]}" "$CUDATRACE" -q -e "$ALL" --kernel --sched --libcuda "$TMP/driver.bin" --jsonl "$TMP/ns.jsonl" -- \
		"${in[@]}" "${life[@]}" 20 >"$TMP/out" 2>"$TMP/err"
	check 'in a PID namespace: status of the command, what it did' is "$? $(cat "$TMP/out")" '0 60'
	check 'in a PID namespace: its calls, by the numbers there' holds "$TMP/ns.jsonl" \
		'len(calls) == 60 and len({c["pid"] for c in calls}) == 20 and {c["pid"] for c in calls} <= {p["pid"] for p in proc} and max(p["pid"] for p in proc) < 100 and accounts()'

	printf '#!/bin/sh\nexec %s %s "$@"\n' "${in[*]}" "$CUDATRACE" >"$TMP/in_ns"
	chmod +x "$TMP/in_ns"
	CUDATRACE=$TMP/in_ns tracer ns_all -e "$ALL" --libcuda "$TMP/driver.bin" || { fail 'in a PID namespace: all processes' 'see above'; return; }
	inside=$(pgrep -P $tracer)
	"${life[@]}" 7 >/dev/null
	nsenter -t "$inside" -p -m "${life[@]}" 5 >/dev/null
	kill -TERM "$inside"
	ended $tracer
	check 'in a PID namespace: all of its processes, none of outside' holds "$TMP/ns_all.jsonl" \
		'len(calls) == 15 and max(c["pid"] for c in calls) < 100 and accounts()'
}

# Another tracer is active, or the target is stopped.
others()
{
	local other
	ready busy "$FAKE" || { fail 'others at work' 'the target does not run'; return; }
	"$CUDATRACE" -q -e "$ALL" --mechanism=multi --jsonl "$TMP/second.jsonl" -p "$busy" &
	other=$!
	until_ok 10 test -s "$TMP/second.jsonl"
	tracer first -e "$ALL" -p "$busy" || fail 'two tracers' 'see above'
	ask busy alloc 500 >/dev/null
	stop $tracer
	ask busy alloc 100 >/dev/null
	stop $other
	check 'two tracers: the first' holds "$TMP/first.jsonl" 'sym == {"cuMemAlloc_v2": 500, "cuMemFree_v2": 500} and accounts()'
	check 'two tracers: the second' holds "$TMP/second.jsonl" 'sym == {"cuMemAlloc_v2": 600, "cuMemFree_v2": 600} and accounts()'

	if command -v bpftrace >/dev/null; then
		# BEGIN's output comes before the other probes are attached: each probe reports its first call, and counting restarts at the last one.
		# With only -p, bpftrace's programs run for each process in which another tracer has the probe.
		env --default-signal=INT bpftrace -p "$busy" -e "uprobe:$FAKE/libcuda.so.1:cuMemAlloc_v2 /pid == $busy/ { @in[@all] = count(); if (!@all) { printf(\"in\n\") } }
			uretprobe:$FAKE/libcuda.so.1:cuMemAlloc_v2 /pid == $busy/ { @out[@all] = count(); if (!@all) { printf(\"out\n\") } }
			uprobe:$FAKE/libcuda.so.1:cuDriverGetVersion /pid == $busy/ { @all = 1; printf(\"all\n\") }" >"$TMP/bt.out" 2>&1 &
		other=$!
		bt_sees() { ask busy "$2" 1 >/dev/null && grep -q "^$1$" "$TMP/bt.out"; }
		if until_ok 20 bt_sees in alloc && until_ok 20 bt_sees out alloc && until_ok 20 bt_sees all version; then
			tracer first -e "$ALL" -p "$busy"
			ask busy alloc 500 >/dev/null
			stop $tracer
			stop $other
			check 'bpftrace on the same functions: cudatrace' holds "$TMP/first.jsonl" 'sym == {"cuMemAlloc_v2": 500, "cuMemFree_v2": 500} and accounts()'
			check 'bpftrace on the same functions: bpftrace' is "$(grep -oE '^@(in|out)\[1\]: [0-9]+' "$TMP/bt.out" | sort | tr '\n' ' ')" '@in[1]: 500 @out[1]: 500 '
		else
			skip 'bpftrace on the same functions' "$(tail -1 "$TMP/bt.out")"
			kill $other
		fi
	else
		skip 'bpftrace on the same functions' 'needs bpftrace'
	fi

	if command -v strace >/dev/null; then
		strace -f -o /dev/null -p "$busy" 2>"$TMP/strace.err" &
		other=$!
		until_ok 5 grep -q attached "$TMP/strace.err"
		tracer first -e "$ALL" -p "$busy"
		check 'a ptraced target runs on' is "$(ask busy alloc 300)$(ask busy threads 3 50)" 300150
		stop $tracer
		kill $other
		ended $other
		check 'a ptraced target' holds "$TMP/first.jsonl" 'sym["cuMemAlloc_v2"] == 450 and accounts()'
	else
		skip 'a ptraced target' 'needs strace'
	fi

	kill -STOP "$busy"
	timeout 20 "$CUDATRACE" -q -e "$ALL" --duration 0.3 --jsonl "$TMP/first.jsonl" -p "$busy"
	check 'a stopped target: the trace begins and ends' is "$? $(grep -c '^State:.T' "/proc/$busy/status")" '0 1'
	kill -CONT "$busy"
	check 'a stopped target: runs on' is "$(ask busy alloc 10)" 10
	quit busy
}

# A file cut anywhere may lose only what follows the cut, and the cut line.
cuts()
{
	"$CUDATRACE" -q -e "$ALL" --libcuda "$TMP/driver.bin" --jsonl "$TMP/cut.jsonl" --chrome "$TMP/cut.json" -- "$TMP/life" "$TMP/driver.bin" threads 2 >/dev/null
	check 'cut at each byte' python3 tests/helpers/cut_anywhere.py "$TMP/cut.jsonl" "$TMP/cut.json"
}

rings()
{
	local size
	for size in 64K 1G; do
		LD_LIBRARY_PATH=$FAKE FAKE_NO_SEM=1 FAKE_CUDA_COUNTS=$TMP/$size.counts timeout 60 "$CUDATRACE" -q -e cuMemFree_v2 --buffer-size $size --jsonl "$TMP/ring.jsonl" -- \
			"$CASES/many" cuMemFree_v2 50000 2 >/dev/null 2>"$TMP/err"
		if [ $? != 0 ] && [ $size = 1G ]; then
			skip "a ring of $size" "$(head -1 "$TMP/err")"
			continue
		fi
		check "a ring of $size: written and dropped are what the driver counted" holds "$TMP/ring.jsonl" \
			'end["calls"] + end["drops"]["calls"] == int(open(counts).read().split()[1]) == 100000 and accounts(drops=True)' counts="$TMP/$size.counts"
		echo "# $(jq -c 'select(.type == "end") | {calls, drops: .drops.calls}' "$TMP/ring.jsonl")"
	done
	LD_LIBRARY_PATH=$FAKE FAKE_NO_SEM=1 "$CUDATRACE" -q -e cuMemFree_v2 --buffer-size 64K --jsonl "$TMP/ring.jsonl" -- \
		sh -c '"$@"; kill -STOP $PPID; "$@"; kill -CONT $PPID; sleep 1; "$@"' sh "$CASES/many" cuMemFree_v2 20000 1 >/dev/null
	check 'a tracer that stands still: says in the trace when and how much it lost' holds "$TMP/ring.jsonl" \
		'(lost := [e for e in ev if e.get("op") == "lost"]) and sum(e["events"] for e in lost) == sum(end["drops"].values()) > 10000 and lost[0]["ts"] < calls[-1]["ts"] and end["calls"] + end["drops"]["calls"] == 60000'
	check 'a tracer that stands still: schema' python3 tests/golden/schema_check.py "$TMP/ring.jsonl"
}

cp "$FAKE/libcuda.so.1" "$TMP/driver.bin"
printf '\n\n' >"$TMP/lines"
if [ "$LONG" = 1 ]; then
	# At scale
	make_target life.c
	short_lived
	kills
	exit
fi
stopped_child
stuck_output
lives
other_stacks
exceptions
short_lived
renames
reused_pid
own_pidns
others
cuts
rings
kills
