#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The daemon's data for an OpenTelemetry collector: its form against the published JSON mapping, its numbers against the stand-in
# driver's own. Also its behaviour while the collector is absent, busy, or refuses.
# takes: 60
# own processes
set -u
. tests/lib.sh

fails_with() { local want=$1 out; shift; out=$("$@" 2>&1) && { echo "passes: $out"; return 1; }; [[ $out == *"$want"* ]] || { echo "$out"; return 1; }; }
bad() { fails_with "$1" "$CUDATRACE" daemon --check-config "${@:2}"; }
check 'config: https' bad 'name a collector on this node' --set otlp.endpoint=https://collector:4318
check 'config: no address' bad 'write it as http://127.0.0.1:4318' --set otlp.endpoint=collector:4318
check 'config: a password in the address' bad 'otlp.headers_file' --set otlp.endpoint=http://me:secret@collector:4318
check 'config: a file of headers that is not there' bad 'cannot be read' --set otlp.headers_file="$TMP/none"
needs_tracing otlp

lib=$TMP/lib
mkdir "$lib"
cp "$FAKE/libcuda.so.1" "$lib/"
cp "$FAKE/sample" "$lib/sample83"
ports=$(two_ports)
port=${ports% *} listen=${ports#* }
collector=
collector() { python3 tests/otlp/receiver.py "$port" "$TMP/mode" "$TMP/$1.got" & collector=$!; }
metric() { python3 tests/helpers/fetch.py "http://127.0.0.1:$listen/${1:-metrics}"; }
value() { metric | awk -v name="cudatrace_$1" '$1 == name { print $2 }'; }
got() { python3 tests/otlp/otlp.py "$TMP/$1.got" "$2"; }
# start NAME LEVEL OPTION...
start()
{
	printf 'level: off\nrules:\n  - match: {command: "%s/*"}\n    level: %s\n' "$TMP" "$2" >"$TMP/c.yaml"
	"$CUDATRACE" daemon --config "$TMP/c.yaml" --libcuda "$lib/libcuda.so.1" --set files.directory="$TMP/files" --set ctl.socket="$TMP/ctl.sock" \
		--set recorder.seconds=0 --set metrics.listen=127.0.0.1:"$listen" --set otlp.endpoint=http://localhost:"$port"/ --set otlp.interval=1s "${@:3}" \
		>"$TMP/$1.log" 2>&1 </dev/null &
	daemon=$!
	until_ok 20 metric healthz && return 0
	fail "$1: the daemon starts" "$(tail -3 "$TMP/$1.log")"
	kill -9 $daemon $collector
	exit
}
end()
{
	kill -TERM $daemon
	check "$1" until_ok 3 is_gone $daemon
	wait $daemon
}
launches=0
run_sample() { launches=$((launches + $(LD_LIBRARY_PATH=$lib "$lib/sample83" --tokens 5 --layers 2 </dev/null | grep -oE '[0-9]+ kernel launches' | cut -d' ' -f1))); }

echo 200 >"$TMP/mode"
printf '# of the tenant\nAuthorization: Bearer s3cret\nX-Scope-OrgID: 7\n' >"$TMP/headers"
collector all
start all trace --set otlp.slow_call=0.001us --set otlp.headers_file="$TMP/headers" --set otlp.queue=100000
run_sample
sleep 1
metric >"$TMP/all.metrics"
end 'ends soon, with the last spans and metrics'
kill $collector
check 'form: fields, numbers, ids, times' got all 'problems()'
if /usr/bin/python3 tests/helpers/imports.py google.protobuf.json_format opentelemetry.proto.collector.trace.v1.trace_service_pb2 2>/dev/null; then
	check 'form: protobuf with the published descriptors takes it' /usr/bin/python3 tests/otlp/otlp.py "$TMP/all.got" 'parsed_by_protobuf()'
else
	skip 'form: protobuf with the published descriptors takes it' 'needs python3-opentelemetry-proto'
fi
check 'headers of the file are sent' got all 'all(r["headers"].get("Authorization") == "Bearer s3cret" and r["headers"].get("X-Scope-OrgID") == "7" for r in requests)'
check 'and are nowhere else' sh -c '! grep -q s3cret "$1"' sh "$TMP/all.log"
check 'metrics: every launch is counted' got all "total('cudatrace.calls', process_executable_name='sample83', **{'class': 'launch'}) == $launches"
check 'metrics: the process has ended, its memory is free, the peak stays' got all \
	"total('cudatrace.memory', process_executable_name='sample83') == 0 < total('cudatrace.memory_peak', process_executable_name='sample83')"
check 'metrics: sums never fall, and start at one time' got all "[] if (lambda p: all(a <= b for a, b in zip(p, p[1:])) and len({x['startTimeUnixNano'] for r in metrics for m, _, _ in points_of(r) if 'sum' in m for x in m['sum']['dataPoints']}) == 1)([sum(v for m, a, v in points_of(r) if m['name'] == 'cudatrace.calls') for r in metrics]) else ['they do']"
grep -oP '^# TYPE \Kcudatrace_\w+' "$TMP/all.metrics" | grep -vE '_info$|^cudatrace_(gpu|collectives?)_' | sort >"$TMP/names"
check 'metrics: those of /metrics, and no others' got all "sorted((set(open('$TMP/names').read().split()) ^ set(prometheus_names())) - {'cudatrace_ioctls_total', 'cudatrace_ioctl_seconds_total', 'cudatrace_xids_total', 'cudatrace_gpu_resident_seconds_total', 'cudatrace_gpu_context_switches_total', 'cudatrace_processes_inproc', 'cudatrace_errors_total', 'cudatrace_transfer_bytes_total'})"
check 'spans: one for each call, errors too' got all "sum(s['name'].startswith('cuLaunch') for s in spans) == $launches and len(spans) == total('cudatrace.calls', process_executable_name='sample83')"
check 'spans: ids are all different' got all "len({s['spanId'] for s in spans}) == len(spans) > 100"

# Counted calls must be in the last metrics, even if made just before the end.
collector counted
start counted metrics --set otlp.slow_call=0.001us --set otlp.interval=1h
before=$launches
run_sample
sleep 0.5
end 'counted: ends soon'
kill $collector
check 'counted: every launch' got counted "total('cudatrace.calls', process_executable_name='sample83', **{'class': 'launch'}) == $((launches - before))"

# The time between two calls of one function must be an iteration, with the calls as its children.
collector iter
start iter trace --set otlp.slow_call=0.001us --set otlp.iterations='cu*Synchronize' --set otlp.queue=100000
run_sample
sleep 1
end 'iterations: ends soon'
kill $collector
iterations="[s for s in spans if s['name'] == 'iteration']"
check 'iterations: form' got iter 'problems()'
check 'iterations: one less than calls of their function' got iter \
	"(lambda its, marks: len(its) == len(marks) - 1 >= 4 and [s['attrs']['cuda.iteration'] for s in its] == [str(i + 1) for i in range(len(its))])($iterations, [s for s in spans if s['name'].startswith('cu') and s['name'].endswith('Synchronize')])"
check 'iterations: one begins where the last ended' got iter "(lambda its: all(a['endTimeUnixNano'] == b['startTimeUnixNano'] for a, b in zip(its, its[1:])))($iterations)"
check 'iterations: their calls are in them, and as many' got iter \
	"(lambda call: all(sum(1 for c in call if c.get('parentSpanId') == i['spanId'] and c['traceId'] == i['traceId'] and int(i['startTimeUnixNano']) <= int(c['startTimeUnixNano']) <= int(c['endTimeUnixNano']) <= int(i['endTimeUnixNano'])) == int(i['attrs']['cuda.calls']) for i in $iterations))([s for s in spans if s['name'] != 'iteration'])"
# Captured launches must not count.
check 'iterations: launches' got iter "sum(int(i['attrs']['cuda.launches']) for i in $iterations) == total('cudatrace.launches') + total('cudatrace.graph_launches') > 0 < total('cudatrace.graph_nodes_captured')"

# The collector is absent: the queue is full, and the rest is counted; later the collector is there.
start away trace --set otlp.slow_call=0.001us --set otlp.queue=64 --set otlp.gzip=true
run_sample
until_ok 10 eval '[ "$(value otlp_queued)" = 64 ]'
check 'away: the queue is full, and no fuller' test "$(value otlp_queued)" = 64
until_ok 10 eval 'grep -q "does not accept spans" "$TMP/away.log" && grep -q "does not accept metrics" "$TMP/away.log"'
check 'away: it is in the log, once' test "$(grep -c 'does not accept spans: ' "$TMP/away.log") $(grep -c 'does not accept metrics: ' "$TMP/away.log")" = '1 1'
dropped=$(value otlp_dropped_total)
collector away
check 'away: then it takes them' until_ok 15 eval '[ "$(value otlp_queued)" = 0 ]'
check 'away: and metrics' until_ok 15 grep -q 'accepts metrics again' "$TMP/away.log"
end 'away: ends soon'
kill $collector
check 'away: form, packed' got away 'problems() == [] and all(r["headers"]["Content-Encoding"] == "gzip" for r in requests)'
check 'away: each span once, and what is missing was dropped' got away \
	"len({s['spanId'] for s in spans}) == len(spans) == 64 and len(spans) + $dropped == total('cudatrace.calls', process_executable_name='sample83')"
check 'away: what it says of itself' got away "total('cudatrace.otlp_dropped') == $dropped"
check 'away: the log has the number' grep -q '[1-9][0-9]* spans were dropped' "$TMP/away.log"

# The collector is busy, and returns for how long.
for answer in '429 Retry-After: 3' '503 Retry-After: 3' '502'; do
	code=${answer%% *}
	echo "$answer" >"$TMP/mode"
	collector "$code"
	start "$code" trace --set otlp.slow_call=0.001us
	run_sample
	until_ok 15 grep -q traces "$TMP/$code.got"
	echo 200 >"$TMP/mode"
	check "$code: it is asked again" until_ok 15 eval '[ "$(value otlp_queued)" = 0 ] && grep -q "accepts spans again" "$TMP/$code.log"'
	end "$code: ends soon"
	kill $collector
	check "$code: each span once, none is dropped" got "$code" "len({s['spanId'] for s in spans}) == len(spans) == total('cudatrace.calls', process_executable_name='sample83') and total('cudatrace.otlp_dropped') == 0"
	check "$code: the same ids again" got "$code" "traces[0]['raw'] == traces[1]['raw'] and [r['code'] for r in traces[:2]] == [$code, 200]"
	[ "$code" = 502 ] || check "$code: not before it wants to be" got "$code" "3 <= traces[1]['time'] - traces[0]['time'] < 6"
done

# The collector refuses: there must be no second try.
echo 400 >"$TMP/mode"
collector 400
start 400 trace --set otlp.slow_call=0.001us
run_sample
check '400: all are dropped' until_ok 15 eval '[ "$(value otlp_dropped_total)" -gt 100 ] && [ "$(value otlp_queued)" = 0 ]'
sleep 3
end '400: ends soon'
kill $collector
check '400: none was asked twice' got 400 "len({r['raw'] for r in traces}) == len(traces) >= 1"

# The collector accepts part of the data and reports that.
echo '200 {"partialSuccess":{"rejectedSpans":"7","errorMessage":"no"}}' >"$TMP/mode"
collector part
start part trace --set otlp.slow_call=0.001us --set otlp.interval=1h
run_sample
check 'part: what it rejected is counted' until_ok 15 eval '[ "$(value otlp_dropped_total)" -ge 7 ] && [ "$(value otlp_queued)" = 0 ]'
end 'part: ends soon'
kill $collector
check 'part: for each request' got part "total('cudatrace.otlp_dropped') % 7 == 0"

# The collector accepts the connection and never responds: nothing may wait for it.
echo hang >"$TMP/mode"
collector hang
start hang trace --set otlp.slow_call=0.001us --set otlp.queue=100
run_sample
until_ok 15 grep -q traces "$TMP/hang.got"
check 'hang: /metrics goes on' metric
end 'hang: ends soon'
kill $collector

# Levels that keep no calls must have no spans; the threshold must hold.
echo 200 >"$TMP/mode"
collector slow
start slow trace --set otlp.slow_call=1h
run_sample
sleep 1
end 'slow: ends soon'
kill $collector
check 'slow: only failed calls are spans' got slow "all(s['status']['code'] == 2 and s['status']['message'].startswith('CUDA_ERROR_') and s['attrs']['cuda.error'] == s['status']['message'] for s in spans)"
