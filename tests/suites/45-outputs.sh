#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# What a trace of the sample program leaves, and what is left when something goes wrong meanwhile: signals, closed
# pipes, full disks.
# takes: 80
set -u
. tests/lib.sh
needs_tracing outputs
unset SUDO_UID SUDO_GID
export LD_LIBRARY_PATH=$FAKE

# What is traced by default, but for cuFakeLocked.
DEFAULT='all,!query,!cu[FP]*[LI]*[de]'
SAMPLE=("$FAKE/sample" --tokens 3 --layers 2)
# Makes some thousand calls a second until it is stopped.
ENDLESS=(env FAKE_DELAY_US=cuStreamSynchronize:10000 "$FAKE/sample" --tokens 1000000 --layers 2 --quiet)

is() { [ "$1" = "$2" ] || { echo "$1, not $2"; return 1; }; }
# ct ARG...: leaves $rc, $TMP/out, $TMP/err
ct()
{
	timeout -k 5 30 "$CUDATRACE" "$@" >"$TMP/out" 2>"$TMP/err" </dev/null
	rc=$?
}
silent() { [ ! -s "$TMP/err" ] || { echo "says: $(cat "$TMP/err")"; return 1; }; }
# chrome FILE [EXPRESSION]: over t, all its events
chrome()
{
	python3 - "$@" <<'END'
import json, sys
t = json.load(open(sys.argv[1]))
assert isinstance(t, list) and all(isinstance(e, dict) for e in t)
assert t[0]["name"] == "trace begins" and t[-1]["name"] == "trace ends", "ends"
end = t[-1]["args"]
calls = [e for e in t if e["ph"] == "X"]
if len(sys.argv) > 2 and not eval(sys.argv[2]):
    sys.exit(f"not so: {sys.argv[2]}: {end}")
END
}
# whole NAME REASON: both files of a trace that something ended
whole()
{
	check "$1: JSONL" holds "$TMP/a.jsonl" "end['reason'] == '$2' and accounts()"
	check "$1: JSONL: schema" schema "$TMP/a.jsonl"
	check "$1: Chrome" chrome "$TMP/a.json" "end['reason'] == '$2'"
}
schema() { tests/golden/schema_check.py "$@"; }

files()
{
	local f
	ct -e "$ALL" --jsonl "$TMP/a.jsonl" --chrome "$TMP/a.json" --jsonl "$TMP/b.jsonl" --chrome "$TMP/b.json" \
		--perfetto "$TMP/a.pftrace" --perfetto "$TMP/b.pftrace" -- "${SAMPLE[@]}" --counts
	check 'files: status' is $rc 0
	check 'files: nothing said' silent
	check 'files: JSONL' holds "$TMP/a.jsonl" 'calls and end["reason"] == "command exited" and accounts()'
	check 'files: JSONL: schema' schema "$TMP/a.jsonl"
	check 'files: JSONL: every line' holds "$TMP/a.jsonl" 'all({"ts", "type", "op", "name", "pid", "tid", "comm"} <= set(e) for e in ev[1:-1]) and all({"symbol", "id", "args", "duration_us", "result"} <= set(c) for c in calls)'
	check 'files: JSONL: header' holds "$TMP/a.jsonl" 'head["command"][1:] == ["--tokens", "3", "--layers", "2", "--counts"] and head["libraries"][0]["build_id"] and head["left_out"] and head["traced"] and head["clock_base_ns"] and head["wall_time"][-1] == "Z"'
	check 'files: JSONL: the counts that the program prints' holds "$TMP/a.jsonl" \
		'{k: int(v) for k, v in (l.split() for l in open(f) if l.startswith("cu"))} == collections.Counter(c["symbol"] for c in calls if "parent" not in c)' f="$TMP/out"
	check 'files: JSONL: the trace lasts as long as the program' holds "$TMP/a.jsonl" \
		'0 <= end["wall_ms"] - max(e["ts"] for e in proc) < 60 and end["ts"] == end["wall_ms"]'
	check 'files: Chrome' chrome "$TMP/a.json" 'len(calls) == end["calls"] and end["not_written"] == 0'
	check 'files: the same calls in both' is "$(jq -r 'select(.symbol) | .id' "$TMP/a.jsonl" | wc -l)" "$(grep -c '"ph":"X"' "$TMP/a.json")"
	check 'files: several of one kind are equal' eval 'cmp "$TMP/a.jsonl" "$TMP/b.jsonl" && cmp "$TMP/a.json" "$TMP/b.json" && cmp "$TMP/a.pftrace" "$TMP/b.pftrace"'
	for f in a.jsonl a.json; do check "files: $f: for its owner alone" is "$(stat -c %a "$TMP/$f")" 600; done
	echo old >"$TMP/a.jsonl"
	ct -q -e init --jsonl "$TMP/a.jsonl" -- "${SAMPLE[@]}"
	check 'files: an old one is replaced' holds "$TMP/a.jsonl" 'accounts()'
	for f in 'what? & "why" $x' $'new\nline' ' -dash'; do
		ct -q -e init --jsonl "$TMP/$f" -- "${SAMPLE[@]}"
		check "files: called $(printf %q "$f")" holds "$TMP/$f" 'accounts()'
	done
}

to_stdout()
{
	local kind filter
	for kind in jsonl chrome; do
		filter='select(.type == "end").calls'
		[ $kind = chrome ] && filter='map(select(.ph == "X")) | length'
		"$CUDATRACE" -q -e "$DEFAULT" --$kind - --jsonl "$TMP/a.jsonl" -- sh -c '"$@" >/dev/null' sh "${SAMPLE[@]}" 2>"$TMP/err" | jq -c "$filter" >"$TMP/out"
		check "stdout: --$kind - | jq" holds "$TMP/a.jsonl" 'len(calls) == int(n) > 100 and accounts()' n="$(cat "$TMP/out")"
		check "stdout: --$kind -: nothing said" silent
	done
	"$CUDATRACE" -q -e "$DEFAULT" --jsonl - -- true >>"$TMP/out" 2>"$TMP/err"
	check 'stdout: appended to a file' is "$(head -1 "$TMP/out" | wc -w) $(sed 1d "$TMP/out" | jq -r .type | xargs)" '1 header process process end'
}

by_default()
{
	local file
	mkdir "$TMP/cwd"
	(
		cd "$TMP/cwd" || exit
		ct -e "$DEFAULT" -- "${SAMPLE[@]}"
		ct -e "$DEFAULT" -- "${SAMPLE[@]}"
	)
	file=$(cd "$TMP/cwd" && echo traces/trace_*.jsonl | tr ' ' '\n' | tail -1)
	check 'no output given: name' grep -Eqx 'traces/trace_20[0-9]{6}_[0-9]{6}(_[0-9]+)?\.jsonl' <<<"$file"
	check 'no output given: says so' grep -Eq '^cudatrace: writing traces/trace_20[0-9]{6}_[0-9]{6}(_[0-9]+)?\.jsonl$' "$TMP/err"
	check 'no output given: the trace' holds "$TMP/cwd/$file" 'len(calls) > 100 and accounts()'
	check 'no output given: twice in a second' is "$(find "$TMP/cwd/traces" -type f | wc -l)" 2
}

# As docs/SCHEMA.md and the README have them.
jq_lines()
{
	local f=$TMP/a.jsonl
	ct -q -e "$DEFAULT" --jsonl "$f" -- "${SAMPLE[@]}"
	check 'jq: how many of what' is "$(jq -r '.type' "$f" | sort | uniq -c | awk '$2 ~ /header|end/ { print $1, $2 }' | xargs)" '1 end 1 header'
	check 'jq: memory' is "$(jq 'select(.type=="memory")' "$f" | jq -r .type | sort -u)" memory
	check 'jq: allocations' jq -se 'length > 8 and all(.[]; (.ts | type == "number") and (.size | type == "number") and .size > 0)' \
		<(jq 'select(.type=="memory" and .op=="alloc") | {ts, size}' "$f")
	check 'jq: launches' jq -se 'length > 10 and all(.[]; (.grid | length == 3) and (.block | length == 3) and
		(.shared_mem | type == "number") and (.stream | startswith("0x")) and (.kernel | length > 3))' \
		<(jq 'select(.type=="kernel" and .op=="launch")' "$f")
	check 'jq: kernel names' is "$(jq -r 'select(.type=="kernel" and .op=="launch").kernel' "$f" | sort -u | head -1)" 'gelu(float const*, float*, int)'
	check 'jq: when' jq -se 'length > 10 and all(.[]; type == "number")' <(jq 'select(.name=="cuLaunchKernel") | .ts' "$f")
	check 'jq: durations' jq -se 'length > 100 and all(.[]; .duration_us > 0 and (.name | startswith("cu")))' \
		<(jq 'select(.duration_us) | {name, duration_us}' "$f")
	check 'jq: what failed' is "$(jq -c 'select(.error) | [.name, .error]' "$f")" '["cuMemAlloc","CUDA_ERROR_OUT_OF_MEMORY"]'
	check 'jq: transfers' is "$(jq -r 'select(.direction).direction' "$f" | sort -u | xargs)" 'DtoD DtoH HtoD'
	# Every line of the page's own block, as it is written there.
	(
		mkdir "$TMP/jq" && cp "$f" "$TMP/jq/trace.jsonl"
		sed -n '/^## With jq/,$p' docs/SCHEMA.md | sed -n '/^```sh/,/^```$/p' | sed '1d;$d' | grep -v '^#' >"$TMP/jq/lines"
		cd "$TMP/jq" || exit
		while IFS= read -r line; do
			# Python ignores SIGPIPE, and so do those that it starts: sort would complain of head.
			check "jq: ${line:0:70}" is "$(env --default-signal=PIPE bash -c "$line" 2>&1 >/dev/null)" ''
		done <lines
	)
}

selections()
{
	local set expr what
	while IFS='|' read -r what set expr; do
		ct -q -e "$set" --jsonl "$TMP/a.jsonl" -- "${SAMPLE[@]}"
		check "-e $what" holds "$TMP/a.jsonl" "$expr and accounts()"
	done <<-'END'
	launch|launch|calls and {c["type"] for c in calls} == {"kernel"} and head["traced"] == "launch"
	launch,transfer,sync|launch,transfer,sync|{c["type"] for c in calls} == {"kernel", "transfer", "sync"}
	name|cuMemAlloc|set(sym) == {"cuMemAlloc_v2"}
	glob|cuMemcpy*,cuStreamC*|calls and all(s.startswith(("cuMemcpy", "cuStreamC")) for s in sym) and "cuStreamCreate" in sym
	class but one|memory,!cuMemGetInfo,!cuMemAlloc|{c["type"] for c in calls} == {"memory"} and "cuMemAlloc_v2" not in sym and "cuMemFree_v2" in sym
	all but classes|!event,query,!cu[FP]*[LI]*[de]|calls and not {c["type"] for c in calls} & {"event"} and "cuCtxGetDevice" not in sym
	later items win|memory,!cuMem*,cuMemFree_v2|set(sym) == {"cuMemFree_v2"}
	query|query|{c["op"] for c in calls} == {"query"} and sym["cuCtxGetDevice"] > 10
	none|none|not calls
	END
	ct -q -e launch -e '!cuLaunchKernelEx' -e init --jsonl "$TMP/a.jsonl" -- "${SAMPLE[@]}"
	check '-e more than once: the last counts' holds "$TMP/a.jsonl" '{c["type"] for c in calls} == {"init"}'
	ct --summary -e '!query,!event,!cu[FP]*[LI]*[de]' --jsonl "$TMP/a.jsonl" -- "${SAMPLE[@]}"
	check '-e: what is left out is in header and end' holds "$TMP/a.jsonl" \
		'"event" in head["left_out"] and "query" in head["left_out"] and "event" not in head["traced"] and end["left_out"] == head["left_out"]'
	check '-e: what is left out is in the summary' grep -Eq '^Left out: .*event' "$TMP/err"
	ct -q --jsonl "$TMP/a.jsonl" -- "${SAMPLE[@]}"
	check 'no -e: no queries' holds "$TMP/a.jsonl" 'calls and not [c for c in calls if c["op"] == "query"] and re.match(r"query \(\d+ functions\)", head["left_out"])'
	check 'no -e: a function that cannot be probed is said' grep -Eq '^cudatrace: warning: .* cuFakeLocked' "$TMP/err"
	ct -q --all --jsonl "$TMP/a.jsonl" -- "${SAMPLE[@]}"
	check '--all' holds "$TMP/a.jsonl" 'sym["cuCtxGetDevice"] > 10 and head["left_out"] in ("", "nothing", "none")'
}

details()
{
	local low
	low=$("$CUDATRACE" list --detail=low --json | jq -c '[.[].symbol]')
	ct -q --detail=low --jsonl "$TMP/a.jsonl" -- "${SAMPLE[@]}" --counts
	check '--detail=low: all of what it has, and nothing else' holds "$TMP/a.jsonl" \
		'{k: int(v) for k, v in (l.split() for l in open(f) if l.startswith("cu")) if k in json.loads(low)} == collections.Counter(c["symbol"] for c in calls if "parent" not in c) and len(sym) > 15 and accounts()' f="$TMP/out" low="$low"
	check '--detail=low: no state' holds "$TMP/a.jsonl" 'not {c["op"] for c in calls} & {"query", "set", "record", "wait"} and "event (" in head["left_out"]'
	check '--detail=low: kernels have names' holds "$TMP/a.jsonl" 'sym["cuLaunchKernel"] > 10 and all(c["kernel"] for c in calls if c["symbol"].startswith("cuLaunchKernel"))'
	check '--detail=low: the report reads it' "$CUDATRACE" report "$TMP/a.jsonl"
	ct -q --detail=low -e cuEventRecord,cuCtxGetDevice --jsonl "$TMP/a.jsonl" -- "${SAMPLE[@]}"
	check '--detail=low -e: those too' holds "$TMP/a.jsonl" 'sym["cuEventRecord"] and sym["cuCtxGetDevice"] and sym["cuLaunchKernel"] and not sym["cuCtxSetCurrent"]'
	ct -q --detail=high --jsonl "$TMP/a.jsonl" -- "${SAMPLE[@]}"
	check '--detail=high' holds "$TMP/a.jsonl" 'sym["cuDeviceGetAttribute"] and sym["cuEventRecord"] and not sym["cuCtxGetDevice"] and accounts()'
	ct -q --detail=normal --jsonl "$TMP/a.jsonl" -- "${SAMPLE[@]}"
	ct -q --jsonl "$TMP/b.jsonl" -- "${SAMPLE[@]}"
	check '--detail=normal is the default' is "$(jq -r .symbol "$TMP/a.jsonl" | sort | md5sum)" "$(jq -r .symbol "$TMP/b.jsonl" | sort | md5sum)"
	ct -q --all -e '!launch,cuCtxGetCurrent' --jsonl "$TMP/a.jsonl" -- "${SAMPLE[@]}"
	check '--all -e: less those' holds "$TMP/a.jsonl" 'sym["cuMemAlloc_v2"] and sym["cuCtxGetDevice"] and not sym["cuLaunchKernel"] and not sym["cuCtxGetCurrent"]'
	# Events, streams, waits of streams: none costs much alone.
	ct -q --summary --jsonl "$TMP/a.jsonl" -- "${SAMPLE[@]}" --tokens 300
	check 'what --detail=low would save' holds "$TMP/a.jsonl" 'max(end["costs"].values()) < end["cost_ms"] and 0.05 < end["low_saves_ms"] / end["cost_ms"] < 0.9'
}

limits()
{
	local n start took
	for n in 1 2 10 137; do
		ct -q -e "$DEFAULT" --max-events $n --jsonl "$TMP/a.jsonl" --chrome "$TMP/a.json" -- "${SAMPLE[@]}"
		check "--max-events $n" holds "$TMP/a.jsonl" "len(ev) == $n + 2 and sum(end['events'].values()) == $n and end['reason'] == 'max-events'"
		check "--max-events $n: Chrome" chrome "$TMP/a.json" "end['events'] == $n and len(calls) == end['calls']"
	done
	ct -e "$DEFAULT" --max-events 3 --jsonl "$TMP/a.jsonl" -- sh -c '"$@"; sleep 0.3; exit 6' sh "${SAMPLE[@]}"
	check "--max-events: the command's status" is $rc 6
	check '--max-events: says that the command goes on' grep -q 'the trace has ended; waiting for sh' "$TMP/err"

	start=${EPOCHREALTIME/./}
	ct -q -e "$DEFAULT" --duration 0.4 --jsonl "$TMP/a.jsonl" --chrome "$TMP/a.json" -- sh -c 'sleep 1.2; "$@"; exit 6' sh "${SAMPLE[@]}"
	took=$(((${EPOCHREALTIME/./} - start) / 1000))
	check "--duration with a command: waits for it ($took ms)" test $took -ge 1200 -a $rc = 6
	check '--duration: the trace' holds "$TMP/a.jsonl" 'end["reason"] == "duration" and 399 < end["wall_ms"] < 700 and not calls'
	check '--duration: Chrome' chrome "$TMP/a.json" 'end["reason"] == "duration"'
	"${ENDLESS[@]}" >/dev/null &
	n=$!
	start=${EPOCHREALTIME/./}
	ct -q -e "$DEFAULT" --duration 300ms --jsonl "$TMP/a.jsonl" -p $n
	took=$(((${EPOCHREALTIME/./} - start) / 1000))
	check "--duration -p: ends by itself ($took ms)" test $took -lt 3000 -a $rc = 0
	check '--duration -p' holds "$TMP/a.jsonl" 'end["reason"] == "duration" and calls and accounts()'
	check '--duration -p: the target runs on' kill $n
	wait $n 2>/dev/null

	ct -q -e "$DEFAULT" --min-duration 300 --jsonl "$TMP/a.jsonl" -- "${SAMPLE[@]}"
	check '--min-duration' holds "$TMP/a.jsonl" 'calls and min(c["duration_us"] for c in calls) >= 300 and end["filtered"] > 100 and accounts()'
}

words()
{
	ct -q -e "$DEFAULT" --jsonl "$TMP/a.jsonl" -- "${SAMPLE[@]}" --quiet
	check '-q: silent' is "$(cat "$TMP/err"; wc -l <"$TMP/out")" 1
	ct -e "$DEFAULT" --jsonl "$TMP/a.jsonl" -- "${SAMPLE[@]}"
	check 'no summary where stderr is no terminal' silent
	ct -e "$DEFAULT" --summary --jsonl "$TMP/a.jsonl" -- "${SAMPLE[@]}"
	check '--summary' holds "$TMP/a.jsonl" 're.search(r"^Summary: ([\d,]+) CUDA calls", open(f).read(), re.M).group(1).replace(",", "") == str(end["calls"])' f="$TMP/err"
	check '--summary: cost of tracing' grep -Eq '^Cost of tracing: [0-9]+ calls' "$TMP/err"
	check '--summary: 80 columns' python3 -c 'import sys; sys.exit("".join(l for l in open(sys.argv[1]) if len(l) > 81) or 0)' "$TMP/err"
	ct -q -e "$DEFAULT" --json --jsonl "$TMP/a.jsonl" -- "${SAMPLE[@]}"
	check '--json: one JSON object' jq -se 'length == 1 and .[0].type == "summary"' "$TMP/err"
	check '--json: its sums' holds "$TMP/a.jsonl" \
		'(s := json.load(open(f))) and s["calls"] == end["calls"] and sum(x["calls"] for x in s["functions"]) == end["calls"] and s["errors"][0]["error"] == "CUDA_ERROR_OUT_OF_MEMORY" and s["launches"]["total"] + s["launches"]["captured"] == len([c for c in calls if c["op"] == "launch" and c["type"] == "kernel"])' f="$TMP/err"
	if command -v script >/dev/null; then
		script -qec "'$CUDATRACE' -e '$DEFAULT' --jsonl '$TMP/a.jsonl' -- '$FAKE/sample' --quiet" /dev/null >"$TMP/out" </dev/null
		check 'a summary on a terminal' grep -aq 'Summary: .* CUDA calls' "$TMP/out"
		script -qec "'$CUDATRACE' -e '$DEFAULT' --no-summary --jsonl '$TMP/a.jsonl' -- '$FAKE/sample' --quiet" /dev/null >"$TMP/out" </dev/null
		check '--no-summary on a terminal' is "$(grep -ac 'Summary: ' "$TMP/out")" 0
	else
		skip 'a summary on a terminal' 'needs script(1)'
	fi
	ct -e "$DEFAULT" --jsonl "$TMP/a.jsonl" -- true
	check 'a command without CUDA: said' is "$(cat "$TMP/err")" 'cudatrace: true made no CUDA driver call that is traced'
}

users()
{
	local who='id -u; id -g; id -G'
	chmod 711 "$TMP"
	ct -q -e launch --user nobody --jsonl "$TMP/a.jsonl" -- sh -c "$who; echo \$HOME \$USER"
	check '--user NAME' is "$(xargs <"$TMP/out")" "$(xargs < <(runuser -u nobody -- sh -c "$who")) $(getent passwd nobody | cut -d: -f6) nobody"
	check '--user NAME: the trace is ours' is "$(stat -c %u "$TMP/a.jsonl")" 0
	ct -q -e launch --user 12345 --jsonl "$TMP/a.jsonl" -- sh -c "$who"
	check '--user NUMBER' is "$(xargs <"$TMP/out")" '12345 12345 12345'
	# $TMP itself may lie below folders that are root's alone.
	local home
	home=$(mktemp -d /tmp/cudatrace-sudo-XXXXXX)
	chown 65534:65534 "$home"
	(
		cd "$home" || exit
		SUDO_UID=65534 SUDO_GID=65534 ct -e launch --chrome c.json -- sh -c "$who"
		SUDO_UID=65534 SUDO_GID=65534 ct -e launch -- true
	)
	SUDO_UID=65534 SUDO_GID=65534 ct -q -e launch --jsonl "$home/a.jsonl" -- sh -c "$who"
	check 'sudo: the command runs as its caller' is "$(xargs <"$TMP/out" | cut -d' ' -f1,2)" '65534 65534'
	check 'sudo: the traces belong to the caller' is "$(stat -c %u:%g "$home/a.jsonl" "$home/c.json" "$home"/traces/*.jsonl "$home/traces" | sort | uniq -c | xargs)" '4 65534:65534'
	SUDO_UID=65534 SUDO_GID=65534 ct -q -e launch --user root --jsonl "$home/b.jsonl" -- id -u
	check 'sudo: --user root; the trace is the caller'"'"'s' is "$(cat "$TMP/out") $(stat -c %u "$home/b.jsonl")" '0 65534'
	rm -rf "$home" "$TMP/a.jsonl"
	SUDO_UID=nobody SUDO_GID=x ct -q -e launch --jsonl "$TMP/a.jsonl" -- id -u
	check 'sudo: nonsense in its variables' is "$rc $(cat "$TMP/out")" '0 0'

	ct -q -e init --jsonl "$TMP/a.jsonl" -- sh -c '"$@"; "$@"' sh "${SAMPLE[@]}"
	check 'children are followed' holds "$TMP/a.jsonl" 'sym["cuInit"] == 2 and [p["op"] for p in proc].count("fork") == 2 and accounts()'
	ct -q -e init --no-follow --jsonl "$TMP/a.jsonl" -- sh -c '"$@"; "$@"; exec "$@"' sh "${SAMPLE[@]}"
	check '--no-follow' holds "$TMP/a.jsonl" 'sym["cuInit"] == 1 and len({c["pid"] for c in calls}) == 1 and accounts()'
}

# start WORD...: a traced command, both outputs; returns when it makes calls
start()
{
	# A shell without job control starts it with SIGINT ignored.
	env --default-signal=INT "$CUDATRACE" -q -e "$DEFAULT" --jsonl "$TMP/a.jsonl" --chrome "$TMP/a.json" "$@" >/dev/null 2>"$TMP/err" &
	tracer=$!
	until_ok 10 grep -aq cuLaunchKernel "$TMP/a.jsonl"
}
signals()
{
	local sig n pid begin took
	while read -r sig n reason; do
		rm -f "$TMP"/a.json*
		start -- "${ENDLESS[@]}"
		kill -$sig $tracer
		ended $tracer
		check "SIG$sig: goes to the command too, whose status is passed on" is $? $n
		whole "SIG$sig" $reason
		check "SIG$sig: nothing said" silent
	done <<-'END'
	INT 130 interrupted
	TERM 143 terminated
	HUP 129 hangup
	END
	rm -f "$TMP"/a.json*
	"${ENDLESS[@]}" >/dev/null &
	pid=$!
	start -p $pid
	kill -INT $tracer
	ended $tracer
	check 'SIGINT, -p: status' is $? 0
	check 'SIGINT, -p: the target runs on' kill $pid
	wait $pid 2>/dev/null
	whole 'SIGINT, -p' interrupted

	# A command that does not care: two seconds for it to end, or a second signal.
	rm -f "$TMP"/a.json*
	start -- sh -c 'trap "" INT; "$@"; echo $$ >"$0.pid"; exec sleep 20' "$TMP/deaf" "${SAMPLE[@]}"
	until_ok 10 test -s "$TMP/deaf.pid"
	begin=${EPOCHREALTIME/./}
	kill -INT $tracer
	sleep 0.3
	check 'SIGINT, twice: goes on after the first' kill -INT $tracer
	ended $tracer
	n=$?
	took=$(((${EPOCHREALTIME/./} - begin) / 1000))
	check "SIGINT, twice: at once ($took ms)" test $took -lt 1900 -a $n = 0
	check 'SIGINT, twice: the command is left alone' kill -9 "$(cat "$TMP/deaf.pid")"
	check 'SIGINT, twice: JSONL' holds "$TMP/a.jsonl" 'end["reason"] == "interrupted"'
	check 'SIGINT, twice: Chrome' chrome "$TMP/a.json" 'end["reason"] == "interrupted"'
	rm -f "$TMP"/a.json* "$TMP/deaf.pid"
	start -- sh -c 'trap "" INT; "$@"; echo $$ >"$0.pid"; exec sleep 20' "$TMP/deaf" "${SAMPLE[@]}"
	until_ok 10 test -s "$TMP/deaf.pid"
	begin=${EPOCHREALTIME/./}
	kill -INT $tracer
	ended $tracer
	took=$(((${EPOCHREALTIME/./} - begin) / 1000))
	kill -9 "$(cat "$TMP/deaf.pid")"
	check "SIGINT, not heard: two seconds for the command ($took ms)" test $took -gt 1900 -a $took -lt 4000
	whole 'SIGINT, not heard' interrupted

	# Ctrl-C on a terminal: the command has it from there, once.
	python3 - "$TMP/ints" "$CUDATRACE" -q -e launch --jsonl "$TMP/a.jsonl" -- \
		sh -c 'trap "n=x\$n; echo \$n >>\"$0\"" INT; echo >"$0"; sleep 0.5; sleep 0.5; exit 5' "$TMP/ints" <<-'END'
	import os, pty, sys, time
	pid, fd = pty.fork()
	if not pid:
	    os.execv(sys.argv[2], sys.argv[2:])
	while not os.path.exists(sys.argv[1]):
	    time.sleep(0.02)
	time.sleep(0.1)
	os.write(fd, b"\x03")
	try:
	    while os.read(fd, 4096):
	        pass
	except OSError:
	    pass
	sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
	END
	check 'Ctrl-C: the command gets it once, and its status is passed on' is "$? $(xargs <"$TMP/ints")" '5 x'
	check 'Ctrl-C: the trace' holds "$TMP/a.jsonl" 'end["reason"] == "interrupted"'

	# A signal before the trace begins must not be lost.
	rm -f "$TMP/a.jsonl"
	"$CUDATRACE" -q --jsonl "$TMP/a.jsonl" -- sleep 20 2>"$TMP/err" &
	tracer=$!
	# Not the shell that is about to become it.
	until_ok 5 grep -qx cudatrace /proc/$tracer/comm
	until_ok 5 grep -q '^SigBlk:.*[1-9a-f]' /proc/$tracer/status
	kill -TERM $tracer
	ended $tracer
	check 'SIGTERM while attaching' is "$? $(jq -r 'select(.type == "end").reason' "$TMP/a.jsonl")" '143 terminated'
}

closed_pipe()
{
	local words
	for words in '1 true' '7 exit 7'; do
		{ "$CUDATRACE" -q -e "$DEFAULT" --jsonl - --chrome "$TMP/a.json" -- sh -c "\"\$@\" >/dev/null; sleep 0.7; ${words#* }" sh "${SAMPLE[@]}" 2>"$TMP/err"; echo $? >"$TMP/status"; } | head -1 >"$TMP/out"
		check "closed pipe, ${words#* }: what was read" is "$(jq -r .type "$TMP/out")" header
		check "closed pipe, ${words#* }: the other output is whole" chrome "$TMP/a.json" 'len(calls) > 100 and end["not_written"] == 0 and end["reason"] == "command exited"'
		check "closed pipe, ${words#* }: one line" is "$(wc -l <"$TMP/err") $(grep -c '^cudatrace: cannot write standard output: Broken pipe: its reader is gone' "$TMP/err")" '1 1'
		[ "${words#* }" = true ] || check "closed pipe, ${words#* }: the command's status" is "$(cat "$TMP/status")" 7
		[ "${words#* }" = true ] && check "closed pipe, ${words#* }: status" is "$(cat "$TMP/status")" 1
	done
	# Nobody is left to write for.
	{ "$CUDATRACE" -e "$DEFAULT" --jsonl - -- sh -c '"$@" >/dev/null; sleep 4; exit 7' sh "${SAMPLE[@]}" 2>"$TMP/err"; echo $? >"$TMP/status"; } | head -1 >"$TMP/out"
	check "closed pipe, the only output: the command's status" is "$(cat "$TMP/status")" 7
	check 'closed pipe, the only output: says that the command goes on' grep -q 'the trace has ended; waiting for sh' "$TMP/err"
	"${ENDLESS[@]}" >/dev/null &
	tracer=$!
	{ timeout 20 "$CUDATRACE" -q -e "$DEFAULT" --jsonl - -p $tracer 2>"$TMP/err"; echo $? >"$TMP/status"; } | head -3 >"$TMP/out"
	check 'closed pipe, -p: ends' is "$(cat "$TMP/status") $(wc -l <"$TMP/out")" '1 3'
	check 'closed pipe, -p: the target runs on' kill $tracer
	wait $tracer 2>/dev/null
}

# An output that cannot take everything: what is in it is valid, and it says how much is not.
cut_short()
{
	local name=$1 why=$2
	check "$name: JSONL" holds "$TMP/a.jsonl" \
		'end["write_error"] == why and end["lines_lost"] == sum(end["events"].values()) - (len(ev) - 2) > 0 and end["reason"] in reasons.split(",") and len(ev) > 20' why="$why" reasons="${3-command exited}"
	check "$name: JSONL: schema" schema "$TMP/a.jsonl"
	check "$name: JSONL: the last line is whole" is "$(tail -c 2 "$TMP/a.jsonl")" '}'
	check "$name: Chrome" chrome "$TMP/a.json" 'end["not_written"] > 0 and end["calls"] > len(calls) > 20'
}
full()
{
	local status
	for status in 0 5; do
		# A file system of 64 KiB.
		unshare -m sh -c 'd=$1 set=$2 ct=$3 n=$4; shift 4
			mkdir -p "$d/small" && mount -t tmpfs -o size=64k none "$d/small" || exit 99
			"$ct" -q -e "$set" --jsonl "$d/small/a.jsonl" --chrome "$d/whole.json" -- sh -c "\"\$@\"; exit $n" sh "$@" >/dev/null 2>"$d/err"
			rc=$?
			mv "$d/small/a.jsonl" "$d/"
			"$ct" -q -e "$set" --chrome "$d/small/a.json" -- "$@" >/dev/null 2>"$d/err2"
			mv "$d/small/a.json" "$d/"
			exit $rc' sh "$TMP" "$DEFAULT" "$CUDATRACE" $status "${SAMPLE[@]}"
		rc=$?
		check "full disk, status $status of the command" is $rc $((status ? status : 1))
		cut_short "full disk ($status)" 'No space left on device'
		check "full disk ($status): said once" is "$(wc -l <"$TMP/err") $(grep -c 'small/a.jsonl: No space left on device: the trace up to here is kept' "$TMP/err")" '1 1'
		check "full disk ($status): the other output is whole" chrome "$TMP/whole.json" 'end["not_written"] == 0 and len(calls) == end["calls"]'
	done
	(
		ulimit -f 40
		"$CUDATRACE" -q -e "$DEFAULT" --jsonl "$TMP/a.jsonl" --chrome "$TMP/a.json" -- "${SAMPLE[@]}" >/dev/null 2>"$TMP/err"
	)
	check 'file size limit: status' is $? 1
	# Both outputs are at their ends: the trace may be over before the command is.
	cut_short 'file size limit' 'File too large' 'command exited,no output can be written'
	check 'file size limit: said once for each' is "$(wc -l <"$TMP/err") $(grep -c 'File too large: .*ulimit -f' "$TMP/err")" '2 2'
	(
		ulimit -f 40
		"$CUDATRACE" -q -e "$DEFAULT" --jsonl "$TMP/a.jsonl" -- bash -c 'ulimit -f; grep -E "^Sig(Ign|Blk)" /proc/self/status'
	) >"$TMP/out" 2>/dev/null
	# Whoever runs this may ignore signals: the command must see what it would see without us.
	(
		ulimit -f 40
		bash -c 'ulimit -f; grep -E "^Sig(Ign|Blk)" /proc/self/status'
	) >"$TMP/plain"
	check 'file size limit: the command has it too' cmp "$TMP/out" "$TMP/plain"
	# No room for even the header.
	unshare -m sh -c 'mkdir -p "$1/small" && mount -t tmpfs -o size=4k none "$1/small" && shift && dd if=/dev/zero of="$0" bs=4k count=2 2>/dev/null
		"$@"' "$TMP/small/fill" "$TMP" "$CUDATRACE" -q -e launch --jsonl "$TMP/small/a.jsonl" -- sh -c 'echo runs' >"$TMP/out" 2>"$TMP/err"
	check 'full disk from the start: the command is not run' is "$? $(cat "$TMP/out") $(grep -c 'free some space' "$TMP/err")" '1  1'
}

killed()
{
	local pid n
	rm -f "$TMP"/a.json*
	"${ENDLESS[@]}" >/dev/null &
	pid=$!
	start -p $pid
	sleep 0.8
	kill -9 $tracer
	ended $tracer 2>/dev/null
	kill $pid
	wait $pid 2>/dev/null
	n=$(wc -l <"$TMP/a.jsonl")
	check "SIGKILL: JSONL: all lines but the last are whole ($n)" is "$(head -n "$n" "$TMP/a.jsonl" | jq -c 1 | wc -l)" "$n"
	check 'SIGKILL: JSONL: schema' eval 'head -n "$n" "$TMP/a.jsonl" >"$TMP/cut.jsonl"; schema --cut "$TMP/cut.jsonl"'
	check 'SIGKILL: JSONL: up to half a second before' python3 -c '
import json, sys
l = [json.loads(s) for s in open(sys.argv[1])]
assert l[0]["type"] == "header" and l[-1]["ts"] > 200 and len(l) > 1000, (len(l), l[-1]["ts"])' "$TMP/cut.jsonl"
	check 'SIGKILL: Chrome: loads when cut after a line' python3 -c '
import json, sys
text = open(sys.argv[1]).read()
text = text[:text.rindex("\n")]
assert text.endswith(",")
t = json.loads(text[:-1] + "]")
assert len(t) > 1000' "$TMP/a.json"
}

files
to_stdout
by_default
jq_lines
selections
details
limits
words
users
signals
closed_pipe
full
killed
