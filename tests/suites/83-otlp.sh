#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# What the daemon sends to an OpenTelemetry collector: the form of it against the published JSON mapping, its numbers against
# the stand-in driver's own; and what it does while the collector is away, busy, or refuses.
# timeout: 180
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
# Not of those that outgoing connections get.
read -r port listen < <(python3 -c '
import random, socket
def free():
    while True:
        s, n = socket.socket(), random.randrange(20000, 32000)
        try:
            s.bind(("127.0.0.1", n))
            return s
        except OSError:
            pass
a, b = free(), free()
print(a.getsockname()[1], b.getsockname()[1])')
collector=
collector() { python3 tests/otlp/receiver.py "$port" "$TMP/mode" "$TMP/$1.got" & collector=$!; }
metric() { python3 -c 'import sys, urllib.request; sys.stdout.write(urllib.request.urlopen(sys.argv[1], timeout=10).read().decode())' "http://127.0.0.1:$listen/${1:-metrics}"; }
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
start all trace --set otlp.slow_call=1us --set otlp.headers_file="$TMP/headers" --set otlp.queue=100000
run_sample
sleep 1
metric >"$TMP/all.metrics"
end 'ends soon, with the last spans and metrics'
kill $collector
check 'form: fields, numbers, ids, times' got all 'problems()'
if /usr/bin/python3 -c 'import google.protobuf.json_format, opentelemetry.proto.collector.trace.v1.trace_service_pb2' 2>/dev/null; then
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
grep -oP '^# TYPE \Kcudatrace_\w+' "$TMP/all.metrics" | grep -vE '_info$' | sort >"$TMP/names"
check 'metrics: those of /metrics, and no others' got all "sorted((set(open('$TMP/names').read().split()) ^ set(prometheus_names())) - {'cudatrace_ioctls_total', 'cudatrace_ioctl_seconds_total', 'cudatrace_xids_total', 'cudatrace_errors_total', 'cudatrace_transfer_bytes_total'})"
check 'spans: one for each launch that took longer' got all "0 < sum(s['name'].startswith('cuLaunch') for s in spans) <= $launches"
check 'spans: ids are all different' got all "len({s['spanId'] for s in spans}) == len(spans) > 100"
check 'spans: only those that took longer, and failed ones' got all "[s for s in spans if int(s['endTimeUnixNano']) - int(s['startTimeUnixNano']) <= 1000 and s['status'].get('code') != 2]"
