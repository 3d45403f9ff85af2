#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# --no-args, --no-strings and trace.redact: a program whose strings, sizes, handles and addresses are marks (tests/hide/marks.h) is
# traced into every output. Marks must be in unredacted outputs, and not in the others.
# takes: 60
# longer
set -u
. tests/lib.sh
needs_tracing hide
for need in curl jq zstd; do
	command -v $need >/dev/null || { skip hide "needs $need"; exit 0; }
done
. tests/daemon.sh

cc() { ${CC:-gcc} -O1 -w -D_GNU_SOURCE "$@" || { fail "builds: ${!#}" 'see above'; exit 1; }; }
# Replaces the stand-in driver: the daemon attaches to it at its start.
cc -shared -fPIC -Wl,-soname,libcuda.so.1 -o "$lib/libcuda.so.1" tests/hide/libcuda.c
cc -o "$TMP/marked" tests/hide/marked.c -ldl
mkdir "$TMP/HIDEMARK_library"
cc -shared -fPIC -fno-omit-frame-pointer -o "$TMP/HIDEMARK_library/x.so" tests/hide/library.c
cc -o "$TMP/server" tests/nvfuse/server.c

# Stand-in devices, if no driver is loaded and FUSE exists.
NV='' server=''
[ -e /sys/module/nvidia ] || {
	mkdir "$TMP/nv"
	"$TMP/server" "$TMP/nv" >"$TMP/server.out" 2>"$TMP/server.err" &
	server=$!
	until_ok 5 grep -q ready "$TMP/server.out" && NV=$TMP/nv
}
trap 'kill $server 2>/dev/null; wait $server 2>/dev/null' EXIT
trap 'exit 130' INT TERM HUP
KERNEL=()
if [ -n "$NV" ]; then KERNEL=(--kernel); else skip 'system calls' 'no stand-in device'; fi
export CUDATRACE_TEST_NV_BY_NAME=1

find_marks() { tests/hide/find.py "$@"; }
# none texts|all|never FILE...
none() { local out; out=$(find_marks "$@") || return 1; [ -z "$out" ] || { echo "$out"; return 1; }; }
# every FILE...: all marks must be there, except those of system calls and code that this machine lacks
every()
{
	local have want
	have=$(find_marks all "$@" | cut -d: -f1 | sort -u) || return 1
	want=$(sed -nE 's/^(TEXT|NUMBER)\((\w+),.*/\2/p' tests/hide/marks.h)
	[ -n "$NV" ] || want=$(grep -vE '^(RM_|UVM_|MAP_SIZE|DESCRIPTOR|VERSION_TEXT)' <<<"$want")
	[ "$(uname -m)" = x86_64 ] || want=$(grep -v '^PERF_NAME' <<<"$want")
	[ -z "${not-}" ] || want=$(grep -vE "$not" <<<"$want")
	! grep -vxFf <(echo "$have") <<<"$want"
}
some() { local f; for f; do [ -n "$(find_marks all "$f")" ] || { echo "none in ${f##*/}"; return 1; }; done; }

# begin NAME: starts marked, which waits; its pid in $pid
pid='' to=''
begin()
{
	rm -f "$TMP/$1.to"
	mkfifo "$TMP/$1.to"
	MARKED_LIBRARY=$TMP/HIDEMARK_library/x.so SECRET=HIDEMARK_environment "$TMP/marked" "$lib/libcuda.so.1" ${NV:+"$NV"} \
		<"$TMP/$1.to" >"$TMP/$1.out" 2>"$TMP/$1.target.err" &
	pid=$!
	exec {to}>"$TMP/$1.to"
	until_ok 10 grep -q waiting "$TMP/$1.out"
}
# go NAME: runs all of its calls; returns when it is in the last one
go()
{
	echo >&"$to"
	exec {to}>&-
	until_ok 20 grep -q stuck "$TMP/$1.out"
}
leave() { kill -USR1 "$pid"; ended "$pid"; }

# traced NAME OPTION...: traces it by its pid until it is in its last call
traced()
{
	local name=$1
	shift
	begin "$name" || return
	tracer "$name" --all --stack "${KERNEL[@]}" "$@" -p "$pid" || { leave; return 1; }
	go "$name"
	stop "$tracer"
	leave
	tail -1 "$TMP/$name.jsonl" | grep -q '"type":"end"' || { echo "$name: $(tail -1 "$TMP/$name.jsonl")"; return 1; }
}
call_cnt() { tail -1 "$TMP/$1.jsonl" | jq -c '[.calls, .unfinished, .abandoned]'; }
# all_outputs NAME OPTION...: all outputs of a trace, and all forms of its report; names in $outputs
outputs=()
all_outputs()
{
	local n=$TMP/$1
	check "$1: traced" traced "$1" -vv --sched --summary --jsonl "$n.jsonl.gz" --jsonl "$n.jsonl.zst" --chrome "$n.chrome.json" --perfetto "$n.pftrace" \
		--report "$n.page.html" \
		--report "$n.live.json" --report "$n.live.txt" "${@:2}"
	check "$1: reported" "$CUDATRACE" -q report --format=all -o "$n.all" "$n.jsonl"
	"$CUDATRACE" -q diff "$n.jsonl" "$n.jsonl" >"$n.diff.txt" 2>&1
	outputs=("$n.jsonl" "$n.jsonl.gz" "$n.jsonl.zst" "$n.chrome.json" "$n.pftrace" "$n.page.html" "$n.live.json" "$n.live.txt" "$n.err" "$n.all".* "$n.diff.txt")
}

outputs()
{
	all_outputs shown
	check 'nothing redacted: every mark is in the trace' every "$TMP/shown.jsonl"
	check 'nothing redacted: what is never read is in no output' none never "${outputs[@]}"
	unset 'outputs[-1]' # two traces that are the same have no difference
	check 'nothing redacted: some are in each output' some "${outputs[@]}"
	shown=$(call_cnt shown)

	all_outputs strings --no-strings
	check '--no-strings: no string in any output' none texts "${outputs[@]}"
	check '--no-strings: numbers are there' some "$TMP/strings.jsonl"
	check '--no-strings: as many calls' is "$(call_cnt strings)" "$shown"

	all_outputs arguments --no-args
	check '--no-args: no mark in any output' none all "${outputs[@]}"
	check '--no-args: as many calls' is "$(call_cnt arguments)" "$shown"
	check '--no-args: with the one that does not return, and the one that was left' is "$shown" '[98,1,1]'
	check '--no-args: the schema holds' tests/golden/schema_check.py "$TMP/arguments.jsonl"
	check '--no-args: stacks have places' holds "$TMP/arguments.jsonl" \
		'[f for e in ev if e["type"] == "stack" for f in e["frames"] if f.get("module") == "[file]" and len(f["build_id"]) == 40]'
	check '--no-args: the report does not say that there was nothing' is "$(jq -c '[.overview.redacted, .memory, .transfers, .kernels, .iterations, .findings]' "$TMP/arguments.all.report.json")" \
		'["arguments",null,null,null,null,null]'
	check '--no-args: nor does its text' is "$(grep -hcE '^Hidden: arguments|^(Memory|Transfers|Kernels|Streams|Iterations|Stages|GPU idle|Findings)|\b0 B\b' "$TMP/arguments.live.txt" "$TMP/arguments.all.report.txt" | xargs)" '1 1'
	check '--no-args: nor the summary' is "$(grep -cE '^Hidden +arguments|^Launched|^Memory|asked for|bandwidth|\b0 B\b' "$TMP/arguments.err")" 1
	[ -z "$NV" ] || check '--no-args: system calls have names, times and the call' holds "$TMP/arguments.jsonl" \
		'sorted(e["name"] for e in ev if "device" in e and "symbol" not in e) == sorted(["NV_ESC_CHECK_VERSION_STR", "NV_ESC_RM_CONTROL", "NV_ESC_IOCTL_XFER_CMD",
			"UVM_FREE", "UVM_MAP_EXTERNAL_ALLOCATION", "mmap", "close"])'
}

# The reported case: the trace ends in the middle of a copy that takes six seconds. begin_copy NAME OPTION...
begin_copy()
{
	local n=$TMP/copy-$1
	shift
	FAKE_DELAY_US=cuMemcpyHtoD_v2:6000000 LD_LIBRARY_PATH=$FAKE "$CUDATRACE" --all --duration 3 --summary --jsonl "$n.jsonl" --jsonl "$n.jsonl.gz" \
		--chrome "$n.chrome.json" --perfetto "$n.pftrace" --report "$n.html" --report "$n.txt" --report "$n.json" "$@" -- "$TMP/copy" >"$n.said" 2>"$n.err" &
	copies+=($!)
}
copies=()
begin_copies()
{
	cat >"$TMP/copy.c" <<-'END'
	#include <stdio.h>
	#include <stdlib.h>
	int cuInit(unsigned);
	int cuDevicePrimaryCtxRetain(void **, int);
	int cuCtxSetCurrent(void *);
	int cuMemAlloc_v2(unsigned long long *, size_t);
	int cuMemcpyHtoD_v2(unsigned long long, const void *, size_t);
	int main(void)
	{
		unsigned long long dst;
		size_t size = 123456789;
		void *src = calloc(1, size), *ctx;

		if (cuInit(0) || cuDevicePrimaryCtxRetain(&ctx, 0) || cuCtxSetCurrent(ctx) || cuMemAlloc_v2(&dst, size))
			return 1;
		printf("%llx %llu %lx %lu %zx %zu\n", dst, dst, (long)src, (long)src, size, size);
		fflush(stdout);
		return cuMemcpyHtoD_v2(dst, src, size) ? 2 : 0;
	}
	END
	cc -o "$TMP/copy" "$TMP/copy.c" "$FAKE/libcuda.so.1"
	begin_copy shown
	begin_copy redacted --no-args
}
# The program's marks and the arguments' names in these files
copied() { gzip -cdf "$TMP/copy-$1".{jsonl,jsonl.gz,chrome.json,pftrace,html,txt,json,err} | grep -aowFf <(tr ' ' '\n' <"$TMP/copy-$1.said"; printf '%s\n' dstDevice srcHost ByteCount) | sort -u; }
in_flight()
{
	local f
	ended "${copies[@]}"
	check 'a copy that lasts, --no-args: the program ends as ever' is $? 0
	check 'a copy that lasts, nothing redacted: its arguments are there' is "$(copied shown | grep -cxE 'dstDevice|srcHost|ByteCount|123456789')" 4
	check 'a copy that lasts, --no-args: dstDevice, srcHost, ByteCount are in no output' is "$(copied redacted)" ''
	check 'a copy that lasts, --no-args: the call is there, unfinished' holds "$TMP/copy-redacted.jsonl" \
		'[(c["args"], "size" in c) for c in calls if c["symbol"] == "cuMemcpyHtoD_v2" and c.get("unfinished")] == [({}, False)] and end["reason"] == "duration" and accounts()'
	for f in chrome.json pftrace; do
		check "a copy that lasts, --no-args: in $f too" grep -qa 'cuMemcpyHtoD' "$TMP/copy-redacted.$f"
	done
}

# Other ways to make records, and other producers.
variants()
{
	local mech opts
	for mech in session multi perf; do
		has_mechanism $mech || continue
		for opts in '' '--entry-only all' '--min-duration 1000 --count memory'; do
			# Other mechanisms than the best run with options only in make check-all.
			[ "$LONG" = "$([ $mech = session ] || [ -z "$opts" ]; echo $?)" ] || continue
			# shellcheck disable=SC2086 # words
			traced "v-$mech" --mechanism=$mech --no-args $opts >"$TMP/v.err" || cat "$TMP/v.err"
			check "--no-args --mechanism=$mech $opts: no mark" none all "$TMP/v-$mech.jsonl" "$TMP/v-$mech.err"
		done
		[ "$LONG" = 0 ] || continue
		traced "s-$mech" --mechanism=$mech --no-strings
		check "--no-strings --mechanism=$mech: no string" none texts "$TMP/s-$mech.jsonl" "$TMP/s-$mech.err"
	done
	[ "$LONG" = 0 ] || return
	traced "shown-entries" --entry-only all
	check 'nothing redacted, --entry-only all: marks are there' some "$TMP/shown-entries.jsonl"
}

# inside NAME OPTION...: a trace by the in-process library, which ends in the last call
inside()
{
	local name=$1
	shift
	mkfifo "$TMP/$name.to"
	MARKED_LIBRARY=$TMP/HIDEMARK_library/x.so SECRET=HIDEMARK_environment "$CUDATRACE" -vv --probe=inject --all --stack --summary --jsonl "$TMP/$name.jsonl" \
		--chrome "$TMP/$name.chrome.json" --perfetto "$TMP/$name.pftrace" --report "$TMP/$name.txt" "$@" -- "$TMP/marked" "$lib/libcuda.so.1" \
		<"$TMP/$name.to" >"$TMP/$name.out" 2>"$TMP/$name.err" &
	tracer=$!
	exec {to}>"$TMP/$name.to"
	until_ok 10 grep -q waiting "$TMP/$name.out" && go "$name"
	# Names of a perf map are available only while the process exists.
	[ $# -gt 0 ] || until_ok 10 grep -q HIDEMARK_perf "$TMP/$name.jsonl"
	pkill -USR1 -P "$tracer" -x marked
	ended "$tracer"
	inside=("$TMP/$name".{jsonl,chrome.json,pftrace,txt,err})
}
inside=()
in_the_process()
{
	local NV=''
	inside in
	check 'in the process: status' is $? 0
	check 'in the process, nothing redacted: every mark of calls is there' every "$TMP/in.jsonl"
	check 'in the process, nothing redacted: what is never read is in no output' none never "${inside[@]}"
	check 'in the process, nothing redacted: some are in each output' some "${inside[@]:0:4}"
	shown=$(call_cnt in)
	check 'in the process: the one that does not return, the one that was left' is "$shown" '[98,1,1]'
	inside in-strings --no-strings
	check 'in the process, --no-strings: no string in any output' none texts "${inside[@]}"
	check 'in the process, --no-strings: numbers are there, and as many calls' is "$(some "$TMP/in-strings.jsonl")$(call_cnt in-strings)" "$shown"
	for opts in '' '--entry-only all' '--min-duration 1000 --count memory'; do
		# shellcheck disable=SC2086 # words
		inside in-args --no-args $opts
		check "in the process, --no-args $opts: no mark in any output" none all "${inside[@]}"
		[ "$opts" ] || check 'in the process, --no-args: as many calls' is "$(call_cnt in-args)" "$shown"
		rm "$TMP/in-args"*
	done
}

# The tracer is killed.
killed()
{
	begin killed
	tracer killed --all --stack "${KERNEL[@]}" --no-args -p "$pid" || return
	go killed
	check '--no-args, the tracer is killed: it has written calls' until_ok 5 grep -q '"symbol":"cu' "$TMP/killed.jsonl"
	kill -9 "$tracer"
	wait "$tracer" 2>/dev/null
	leave
	check '--no-args, the tracer is killed: no mark' none all "$TMP/killed.jsonl" "$TMP/killed.err"
}

# daemon_outputs NAME HIDE: all outputs of the daemon
daemon_outputs()
{
	local name=$1 hide=$2 ports port collector
	rules trace >"$TMP/$name.yaml"
	ports=$(two_ports)
	port=${ports% *}
	echo 200 >"$TMP/mode"
	python3 tests/otlp/receiver.py "$port" "$TMP/mode" "$TMP/$name.got" &
	collector=$!
	start "$name" -vv --set trace.redact="$hide" --set trace.kernel=true --set trace.functions=all --set otlp.endpoint="http://127.0.0.1:$port" --set otlp.slow_call=0.001us \
		--set otlp.iterations=cuStreamSynchronize --set otlp.interval=1s || return
	begin "$name"
	until_ok 10 knows "$pid"
	go "$name"
	get "$url/metrics" >"$TMP/$name.metrics"
	until_ok 10 grep -q '"path": "/v1/traces"' "$TMP/$name.got"
	ctl status >"$TMP/$name.status"
	check "daemon, $hide: dump" ctl dump "$TMP/$name.dump.zst"
	finish
	check "daemon, $hide: ends" is $? 0
	leave
	kill $collector
	wait $collector 2>/dev/null
	outputs=("$TMP/$name".{metrics,got,status,dump.zst,log} "$files"/*)
}

daemon()
{
	daemon_outputs shown-d none
	check 'daemon, none: what is never read is in no output' none never "${outputs[@]}"
	check 'daemon, none: some marks in all but the log' some "$TMP"/shown-d.{metrics,got,status,dump.zst} "$files"/*
	not='^(LIBRARY_PATH|SYMBOL_NAME|PERF_NAME)' check 'daemon, none: every mark but those of stacks is in the file' every "$files"/*

	daemon_outputs strings-d strings
	check 'daemon, strings: no string in any output' none texts "${outputs[@]}"
	check 'daemon, strings: files and dumps say so' is "$(zstd -dcq "$files"/* "$TMP/strings-d.dump.zst" | jq -r 'select(.type == "header").redacted' | sort -u)" strings

	daemon_outputs arguments-d arguments
	check 'daemon, arguments: no mark in any output' none all "${outputs[@]}"
	check 'daemon, arguments: the call in flight is there' grep -q '"unfinished":true' <(zstd -dcq "$files"/*)
	check 'daemon, arguments: files and dumps say so' is "$(zstd -dcq "$files"/* "$TMP/arguments-d.dump.zst" | jq -r 'select(.type == "header").redacted' | sort -u)" arguments
	check 'daemon, arguments: no sums of what is redacted' is "$(grep -cE '^cudatrace_(transfer|memory)_' "$TMP/arguments-d.metrics")" 0
	check 'daemon, arguments: calls are counted' grep -q '^cudatrace_launches_total{.*command="marked"} 21$' "$TMP/arguments-d.metrics"
	check 'daemon, arguments: status says so' is "$(jq -r '.redacted, (.processes[0] | has("device_bytes"))' "$TMP/arguments-d.status" | xargs)" 'arguments false'
	check 'daemon, arguments: spans and metrics say so' python3 tests/helpers/hidden_attribute.py "$TMP/arguments-d.got"
}

# A change of trace.redact must take effect completely.
reload()
{
	rules trace >"$TMP/reload.yaml"
	start reload || return
	{ rules off; printf 'trace:\n  redact: arguments\n'; } >"$TMP/reload.yaml"
	check 'reload: trace.redact takes a restart' fails_with 'trace.redact has changed: restart the daemon to apply it' ctl reload
	check 'reload: and nothing is changed' is "$(ctl status | jq -r '.redacted, .reloads, .reload_failures' | xargs)" 'null 0 1'
	finish
	check 'configuration: a wrong word' fails_with "trace.redact: 'args' is not understood; write one of none, strings, arguments" \
		"$CUDATRACE" daemon --check-config --set trace.redact=args
	check 'configuration: a limit that needs sizes' fails_with 'memory_above needs sizes' \
		"$CUDATRACE" daemon --check-config --set trace.redact=arguments --set recorder.on.memory_above=1G
}

if [ "$LONG" = 1 ]; then
	variants
	exit 0
fi
begin_copies
outputs
in_flight
variants
in_the_process
killed
daemon
reload
