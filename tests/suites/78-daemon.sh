#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The daemon: what it counts against the stand-in driver's own counts, levels, bursts, files, the flight recorder, and
# what is done to it: signals, broken configurations, other users, a folder that goes away.
# timeout: 420
set -u
. tests/lib.sh

is() { [ "$1" = "$2" ] || { echo "$1, not $2"; return 1; }; }
has() { [[ $1 == *"$2"* ]] || { printf '%s\n' "no: $2" "$1"; return 1; }; }
fails_with() { local want=$1 out; shift; out=$("$@" 2>&1) && { echo "passes: $out"; return 1; }; has "$out" "$want"; }

# The shipped example is the defaults.
config()
{
	check 'config: dist/daemon.yaml has the defaults' is "$("$CUDATRACE" daemon --check-config --config dist/daemon.yaml 2>&1)" \
		"$("$CUDATRACE" daemon --check-config --config /dev/null 2>&1)"
	check 'config: each key is in dist/daemon.yaml' eval '"$CUDATRACE" daemon --check-config --config /dev/null |
		while IFS=":." read -r key _; do grep -q "^$key:" dist/daemon.yaml || echo "$key"; done | (! grep .)'
	printf 'level: metrics\nfiles:\n  rotate_sise: 1M\n' >"$TMP/bad.yaml"
	check 'config: a wrong key: where, and what is meant' fails_with 'bad.yaml:3: files.rotate_sise: there is no such key; did you mean files.rotate_size?' \
		"$CUDATRACE" daemon --check-config --config "$TMP/bad.yaml"
	check 'config: a wrong function' fails_with 'trace.functions: ' "$CUDATRACE" daemon --check-config --set trace.functions=nosuch
	check 'config: --set without =' fails_with 'not KEY=VALUE' "$CUDATRACE" daemon --set level
	check 'ctl: nothing to do' fails_with 'Give status, level' "$CUDATRACE" ctl
	check 'ctl: no daemon' fails_with 'no cudatrace daemon listens' "$CUDATRACE" ctl status --set ctl.socket="$TMP/none.sock"
}
config
needs_tracing daemon

# A library and a program of their own: the machine may be full of others.
lib=$TMP/lib
mkdir "$lib"
cp "$FAKE/libcuda.so.1" "$FAKE/sample" "$lib/"
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
sock=$TMP/ctl.sock files=$TMP/files
ctl() { timeout 10 "$CUDATRACE" ctl --set ctl.socket="$sock" "$@" </dev/null; }
metrics() { python3 -c 'import sys, urllib.request; sys.stdout.write(urllib.request.urlopen(sys.argv[1], timeout=10).read().decode())' "http://127.0.0.1:$port/${1:-metrics}"; }
# value METRIC LABELS...: the sum of the samples that have these
value() { metrics | awk -v name="cudatrace_$1{" -v a="${2-}" -v b="${3-}" 'index($0, name) == 1 && index($0, a) && index($0, b) { n += $NF } END { print n + 0 }'; }
same() { [ "$1" = "$2" ] || { echo "$1, not $2"; return 1; }; }
start()
{
	printf 'level: off\nrules:\n  - match: {command: "%s/*"}\n    level: %s\n' "$TMP" "$1" >"$TMP/c.yaml"
	"$CUDATRACE" daemon --config "$TMP/c.yaml" --libcuda "$lib/libcuda.so.1" --set files.directory="$files" --set ctl.socket="$sock" \
		--set metrics.listen=127.0.0.1:"$port" >"$TMP/log" 2>&1 </dev/null &
	daemon=$!
	until_ok 20 metrics healthz && return 0
	fail "daemon starts at level $1" "$(tail -3 "$TMP/log")"
	kill -9 $daemon
	exit
}
stop()
{
	kill -TERM $daemon
	check "$1" until_ok 2 sh -c "! kill -0 $daemon"
	wait $daemon
}
# Leaves the number of launches that it says it made in $launches.
run_sample() { launches=$(LD_LIBRARY_PATH=$lib "$lib/sample" --tokens 5 --layers 2 </dev/null | grep -oE '[0-9]+ kernel launches' | cut -d' ' -f1); }

for level in metrics trace; do
	start $level
	pass "daemon starts at level $level"
	run_sample
	sleep 1.5
	check "$level: every launch is counted" same "$(value calls_total 'class="launch"' 'command="sample"')" "$launches"
	# Of counted calls it is not known which went into a graph.
	check "$level: launches and nodes" same "$(($(value launches_total 'command="sample"') + $(value graph_nodes_captured_total 'command="sample"')))" "$launches"
	check "$level: what it allocated is given back when it ends" same "$(value memory_bytes 'command="sample"' 'kind="device"')" 0
	check "$level: its peak stays" sh -c '[ "$1" -gt 0 ]' sh "$(value memory_peak_bytes 'command="sample"' 'kind="device"')"
	if command -v promtool >/dev/null; then
		metrics >"$TMP/metrics"
		check "$level: promtool takes the metrics" promtool check metrics <"$TMP/metrics"
	else
		skip "$level: promtool takes the metrics" 'promtool is not installed'
	fi
	check "$level: ctl status" same "$(ctl status | jq -r .level)" off
	"$CUDATRACE" daemon --config "$TMP/c.yaml" --set ctl.socket="$sock" --set metrics.listen= >"$TMP/out" 2>&1 </dev/null
	check "$level: a second daemon is refused" same "$? $(grep -c . "$TMP/out")" '1 1'
	check "$level: another user is refused" sh -c '! setpriv --reuid=65534 --regid=65534 --clear-groups "$@" 2>/dev/null' sh "$CUDATRACE" ctl --set ctl.socket="$sock" status
	echo 'levle: off' >"$TMP/c.yaml"
	kill -HUP $daemon
	sleep 0.5
	check "$level: a broken configuration changes nothing" grep -q 'did you mean level' "$TMP/log"
	check "$level: and is counted" same "$(metrics | awk '$1 == "cudatrace_config_reload_failures_total" { print $2 }')" 1
	stop "$level: ends within two seconds"
done
check 'trace: the files can be reported' sh -c '"$1" report --format=json "$2"/*.zst 2>/dev/null | jq -e ".overview.launches > 0" >/dev/null' sh "$CUDATRACE" "$files"
