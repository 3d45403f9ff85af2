#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# tests/soak/run.sh [SECONDS]: the daemon while processes come and go, levels change and its configuration is read
# again; 1200 seconds by default. Prints a line every ten seconds, and at the end whether its memory and its descriptors
# stayed flat, it counted what the mock driver counted, and it still answers. Exit status 1 when not. Other programs that use a libcuda meanwhile
# are seen too, and take memory for their names and descriptors for their libraries: that is allowed for.
set -u
cd "$(dirname "$0")/../.." || exit 1
seconds=${1:-1200}
O=$(realpath "${O:-build}")
[ "$(id -u)" = 0 ] || { echo 'soak: needs root' >&2; exit 1; }

tmp=$(mktemp -d)
daemon=
children=()
clean_up()
{
	touch "$tmp/stop"
	[ ${#children[@]} -gt 0 ] && kill "${children[@]}" 2>/dev/null
	[ -n "$daemon" ] && kill -TERM "$daemon" 2>/dev/null
	wait
	rm -rf "$tmp"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

mkdir "$tmp/lib"
cp "$O/fake/libcuda.so.1" "$tmp/lib/"
# Names that nobody else on the machine has.
brief=brief$$
for name in worker "$brief"; do cp "$O/fake/sample" "$tmp/$name"; done
port=$(python3 tests/helpers/ports.py 1)
config() { printf 'level: off\nrules:\n  - match: {command: "%s/*"}\n    level: %s\nsample: {trace: 1s, every: 7s, cooldown: 5s}\n' "$tmp" "$1"; }
config sampled >"$tmp/c.yaml"
"$O/cudatrace" daemon --config "$tmp/c.yaml" --libcuda "$tmp/lib/libcuda.so.1" --set files.directory="$tmp/files" \
	--set files.total_size=64M --set files.rotate_size=4M --set recorder.memory=8M --set trace.buffer_size=32M --set ctl.socket="$tmp/ctl.sock" \
	--set metrics.listen=127.0.0.1:"$port" 2>"$tmp/log" &
daemon=$!
metrics() { curl -sf "http://127.0.0.1:$port/metrics"; }
ctl_prints() { "$O/cudatrace" ctl --set ctl.socket="$tmp/ctl.sock" "$@"; }
ctl() { "$O/cudatrace" ctl --set ctl.socket="$tmp/ctl.sock" "$@" >/dev/null 2>&1; }
for _ in $(seq 100); do metrics >/dev/null && break; sleep 0.1; done

export LD_LIBRARY_PATH=$tmp/lib
# Some that last for seconds and are killed, and a stream of short ones, whose calls the driver writes down.
# The long ones have a library of their own each time, as containers have.
(trap 'kill $p 2>/dev/null; exit' TERM
 while :; do rm -rf "$tmp/own.lib"; mkdir "$tmp/own.lib"; cp "$O/fake/libcuda.so.1" "$tmp/own.lib/"
	LD_LIBRARY_PATH=$tmp/own.lib "$tmp/worker" --tokens 1000000 --layers 2 --quiet >/dev/null & p=$!; sleep $((RANDOM % 8 + 2)); kill $p; wait $p 2>/dev/null; done) &
children+=($!)
(n=0
 while [ ! -e "$tmp/stop" ]; do
	FAKE_CUDA_COUNTS=$tmp/own "$tmp/$brief" --tokens 1 --layers 1 --quiet >/dev/null && n=$((n + 1))
	echo $n >"$tmp/n.new"; mv "$tmp/n.new" "$tmp/n"; sleep 0.05
 done) &
stream=$!

value() { sed -n "s/^cudatrace_$1 //p" "$tmp/metrics"; }
levels=(trace metrics sampled off)
end=$((SECONDS + seconds)) turn=0
while [ $SECONDS -lt $end ]; do
	sleep 1
	turn=$((turn + 1))
	# Only the long ones: of the others each call is to be counted.
	ctl level "*/worker*" "${levels[RANDOM % 4]}"
	[ $((turn % 5)) = 0 ] && ctl burst 1s
	[ $((turn % 7)) = 0 ] && { config "$([ $((turn % 2)) = 0 ] && echo sampled || echo metrics)" >"$tmp/c.yaml"; kill -HUP $daemon; }
	[ $((turn % 11)) = 0 ] && { echo 'broken: [' >"$tmp/c.yaml"; kill -HUP $daemon; }
	[ $((turn % 13)) = 0 ] && { ctl dump; rm -f "$tmp"/files/dump-*; }
	metrics >"$tmp/metrics" || { echo 'soak: the daemon does not answer'; tail -5 "$tmp/log"; exit 1; }
	[ $((turn % 10)) = 0 ] || continue
	printf '%5d s  rss %6d KiB  fds %3d  processes %6d  bursts %4d  reloads %3d  cpu %.1f s\n' $SECONDS \
		$(($(value self_resident_bytes) / 1024)) "$(value self_open_fds)" "$(cat "$tmp/n")" \
		"$(value bursts_total)" "$(value config_reloads_total)" "$(value self_cpu_seconds_total)"
	echo "$SECONDS $(value self_resident_bytes) $(value self_open_fds) $(grep -c ^cudatrace_target_processes "$tmp/metrics")" \
		"$(ctl_prints status | jq '.libraries | length')" >>"$tmp/curve"
done

touch "$tmp/stop"
kill "${children[@]}"
wait "${children[@]}" "$stream" 2>/dev/null
children=()
sleep 2
metrics >"$tmp/metrics"
python3 tests/soak/judge.py "$tmp/curve" "$tmp/metrics" "$(cat "$tmp/n")" "$tmp/own" "$brief"
