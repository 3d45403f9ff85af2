#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The wall clock is set by hours and days while the daemon and the tracer run (tests/clock.c simulates this for them alone). Timeouts
# and durations must use another clock; displayed times must show the new one.
set -u
. tests/lib.sh
needs_tracing clock
. tests/daemon.sh

${CC:-gcc} -shared -fPIC -O1 -o "$TMP/clock.so" tests/clock.c -ldl || { echo 'not ok clock: build'; exit; }
set_clock() { python3 tests/helpers/put_number.py "$TMP/off" 0 q "$1"; }
: >"$TMP/off"
set_clock 0
export CLOCK_OFF=$TMP/off
echo '#!/bin/sh
LD_PRELOAD='"$TMP/clock.so"' exec '"$CUDATRACE"' "$@"' >"$TMP/cudatrace"
chmod +x "$TMP/cudatrace"
real=$CUDATRACE

back=-18000 forth=259200
ports=$(two_ports)
echo 200 >"$TMP/mode"
python3 tests/otlp/receiver.py "${ports% *}" "$TMP/mode" "$TMP/got" &
collector=$!
rules trace 'otlp: {interval: 1s}' >"$TMP/c.yaml"
CUDATRACE=$TMP/cudatrace
start c --set otlp.endpoint=http://127.0.0.1:"${ports% *}" --set otlp.slow_call=0.001us --set files.compress=none || { kill $collector; exit; }
CUDATRACE=$real
worker a || fail 'clock: a program'
sends() { grep -c '"/v1/metrics"' "$TMP/got"; }
sent() { [ "$(sends)" -ge "$1" ]; }
goes_on() { until_ok 5 sent $(($(sends) + 2)); }
files_are() { [ "$(find "$files" -name "trace-*.jsonl${2-}" | wc -l)" = "$1" ]; }
is_over() { ctl status | jq -e ".processes[] | select(.pid == $a and .traced == false)"; }
# shown OFF: the daemon's start time must agree with a clock that is off by OFF seconds
shown() { shows 'abs(total("self_start_time_seconds") - float(began) - int(off)) < 3' off="$1" began="$began"; }
began=$(date +%s)

ask a alloc 100 >/dev/null
check 'dump: before' has "$(ctl dump one | jq -r .file)" -one.jsonl.zst
check 'start: as the clock says' shown 0
set_clock $back
check 'set back: another file' until_ok 10 files_are 1
ask a alloc 100 >/dev/null
check 'set back: a dump' has "$(ctl dump two | jq -r .file)" -two.jsonl.zst
check 'set back: sends to the collector as before' goes_on
check 'set back: start as the clock says' shown $back
set_clock $forth
check 'set forth: another file' until_ok 10 files_are 2
ask a alloc 100 >/dev/null
check 'set forth: sends to the collector as before' goes_on
check 'set forth: start as the clock says' shown $forth
check 'set forth: no age is reached' files_are 3 '*'
check 'a burst: begins' is "$(ctl level "$a" sampled >/dev/null; ctl burst "$a" 1s | jq .processes)" 1
set_clock $back
check 'a burst: ends though the clock goes back' until_ok 5 is_over
check 'healthy' get "$url/healthz"
quit a
finish "$daemon"
kill $collector
wait $collector 2>/dev/null

# Names of files and dumps must increase with time. Each header must have the clock's time, so that each line's time is known.
check 'files: times and names' python3 tests/helpers/clock_files.py "$files" 0 $back $forth $back
check 'files: all calls, once' shows_now 'sum(c["symbol"] == "cuMemAlloc_v2" for l in [[json.loads(x) for p in glob.glob(files + "/trace-*") for x in open(p)]] for c in l if "symbol" in c) == 300' files="$files"
check 'collector: times are of the clock, and none ends before it begins' python3 tests/helpers/clock_collector.py "$TMP/got" 0 $back $forth

# The tracer's duration must not depend on the wall clock, and its header must have the clock's time at the start.
set_clock 0
LD_LIBRARY_PATH=$lib "$FAKE/sample" --tokens 1000000 >/dev/null 2>&1 &
busy=$!
"$TMP/cudatrace" -q --duration 3 -e sync --jsonl "$TMP/t.jsonl" -p $busy >"$TMP/out" 2>&1 &
tracer=$!
until_ok 20 test -s "$TMP/t.jsonl"
for by in $forth $back 0 $forth; do set_clock "$by"; sleep 0.3; done
ended $tracer
kill $busy
wait $busy 2>/dev/null
check 'tracer: lasts as long as it was told, and nothing goes back' holds "$TMP/t.jsonl" \
	'accounts() and end["reason"] == "duration" and 2900 < end["wall_ms"] < 20000 and all(0 <= c.get("duration_us", 0) < 2e7 for c in calls)'
check 'tracer: the header has the time of the start' holds "$TMP/t.jsonl" \
	'__import__("time").time() - 120 < __import__("datetime").datetime.fromisoformat(head["wall_time"][:26] + "+00:00").timestamp() < __import__("time").time()'
