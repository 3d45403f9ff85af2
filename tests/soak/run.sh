#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# tests/soak/run.sh [MINUTES]: the daemon while processes come and go, levels change and its configuration is read
# again; 20 minutes by default. Prints a line every ten seconds, and at the end whether its memory and its descriptors
# stayed flat, everything was counted and it still answers. Exit status 1 when not.
set -u
cd "$(dirname "$0")/../.." || exit 1
minutes=${1:-20}
O=$(realpath "${O:-build}")
[ "$(id -u)" = 0 ] || { echo 'soak: needs root' >&2; exit 1; }

tmp=$(mktemp -d)
daemon=
children=()
clean_up()
{
	[ ${#children[@]} -gt 0 ] && kill "${children[@]}" 2>/dev/null
	[ -n "$daemon" ] && kill -TERM "$daemon" 2>/dev/null
	wait
	rm -rf "$tmp"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

mkdir "$tmp/lib"
cp "$O/fake/libcuda.so.1" "$tmp/lib/"
for name in worker brief; do cp "$O/fake/sample" "$tmp/$name"; done
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
config() { printf 'level: off\nrules:\n  - match: {command: "%s/*"}\n    level: %s\nsample: {trace: 1s, every: 7s, cooldown: 5s}\n' "$tmp" "$1"; }
config sampled >"$tmp/c.yaml"
"$O/cudatrace" daemon --config "$tmp/c.yaml" --libcuda "$tmp/lib/libcuda.so.1" --set files.directory="$tmp/files" \
	--set files.total_size=64M --set files.rotate_size=4M --set recorder.memory=8M --set ctl.socket="$tmp/ctl.sock" \
	--set metrics.listen=127.0.0.1:"$port" 2>"$tmp/log" &
daemon=$!
metrics() { curl -sf "http://127.0.0.1:$port/metrics"; }
ctl() { "$O/cudatrace" ctl --set ctl.socket="$tmp/ctl.sock" "$@" >/dev/null 2>&1; }
for _ in $(seq 100); do metrics >/dev/null && break; sleep 0.1; done

export LD_LIBRARY_PATH=$tmp/lib
# Some that last for seconds, and a stream of short ones, whose calls are known.
(trap 'kill $p 2>/dev/null; exit' TERM; while :; do "$tmp/worker" --tokens 1000000 --layers 2 --quiet >/dev/null & p=$!; sleep $((RANDOM % 8 + 2)); kill $p; wait $p 2>/dev/null; done) &
children+=($!)
(n=0; trap 'exit' TERM; while :; do "$tmp/brief" --tokens 1 --layers 1 --quiet >/dev/null && n=$((n + 1)); echo $n >"$tmp/n.new"; mv "$tmp/n.new" "$tmp/n"; sleep 0.05; done) &
children+=($!)

value() { sed -n "s/^cudatrace_$1 //p" "$tmp/metrics"; }
levels=(trace metrics sampled off)
end=$((SECONDS + minutes * 60)) turn=0
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
	printf '%5d s  rss %6d KiB  fds %3d  libraries %2d  processes %6d  bursts %4d  reloads %3d  cpu %.1f s\n' $SECONDS \
		$(($(value self_resident_bytes) / 1024)) "$(value self_open_fds)" "$(grep -c attached "$tmp/log")" "$(cat "$tmp/n")" \
		"$(value bursts_total)" "$(value config_reloads_total)" "$(value self_cpu_seconds_total)"
	echo "$SECONDS $(value self_resident_bytes) $(value self_open_fds)" >>"$tmp/curve"
done

kill "${children[@]}"
wait "${children[@]}" 2>/dev/null
children=()
sleep 2
metrics >"$tmp/metrics"
python3 - "$tmp/curve" "$tmp/metrics" "$(cat "$tmp/n")" <<'END'
import re, statistics, sys
curve = [list(map(int, l.split())) for l in open(sys.argv[1])]
text, n = open(sys.argv[2]).read(), int(sys.argv[3])
def total(name, *labels):
    return sum(float(l.split()[-1]) for l in text.splitlines() if re.match(rf"cudatrace_{name}[{{ ]", l) and all(x in l for x in labels))
bad = []
# The recorder and the compressors' memory fill up first: the second quarter against the last.
q = max(1, len(curve) // 4)
rss = [statistics.median(r[1] for r in part) for part in (curve[q:2 * q] or curve[:1], curve[-q:])]
fds = [statistics.median(r[2] for r in part) for part in (curve[q:2 * q] or curve[:1], curve[-q:])]
if rss[1] - rss[0] > max(2 << 20, rss[0] * 0.05):
    bad.append(f"memory grows: {rss[0]:.0f}, then {rss[1]:.0f} bytes")
if fds[1] - fds[0] > 4:
    bad.append(f"descriptors grow: {fds[0]:.0f}, then {fds[1]:.0f}")
drops = total("dropped_total")
# The last one may have been ended in its middle.
inits = total("calls_total", 'command="brief"', 'function="cuInit"')
if not n <= inits + drops or inits > n + 1:
    bad.append(f"{n} short processes, {inits:.0f} calls of cuInit, {drops:.0f} dropped")
if total("target_processes", 'command="brief"') or total("memory_bytes", 'command="brief"'):
    bad.append("ended processes are still there")
print("\n".join("soak: " + b for b in bad) or f"soak: flat: {rss[0] / 1048576:.1f} and {rss[1] / 1048576:.1f} MiB, {fds[0]:.0f} and {fds[1]:.0f} descriptors; "
      f"{n} short processes, {inits:.0f} counted; {drops:.0f} records dropped")
sys.exit(bool(bad))
END
