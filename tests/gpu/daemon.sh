#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The step `daemon` of run.sh: tests/gpu/daemon.sh CUDATRACE OUT_FOLDER. Three minutes. Measures the cost of the daemon at each
# level, compares its metrics with a full trace of the same run, and checks the flight recorder after an error.
# Exit status 1 when numbers differ or a dump is wrong.
#   FAKE=build/fake    try it against the mock driver
set -u
ct=$(realpath "$1")
out=$2/daemon
here=$(cd "$(dirname "$0")" && pwd)
py() { python3 "$here/daemon_check.py" "$@"; }
rm -rf "$out"
mkdir -p "$out"
port=9475 tokens=50 libcuda=() daemon='' failed=0
gpt2=(python3 "$here/gpt2.py") error=(python3 "$here/cuda_error.py") names=(CUDA_ERROR_OUT_OF_MEMORY CUDA_ERROR_ILLEGAL_ADDRESS)
if [ -n "${FAKE:-}" ]; then
	# A copy, because other processes may use the library too.
	cp "$FAKE/libcuda.so.1" "$out/"
	libcuda=(--libcuda "$out/libcuda.so.1")
	export LD_LIBRARY_PATH=$out
	gpt2=(python3 "$here/mock.py" gpt2) error=(python3 "$here/mock.py" error)
	names=(CUDA_ERROR_OUT_OF_MEMORY CUDA_ERROR_INVALID_VALUE) tokens=1000
fi

# up LEVEL NAME [KEY=VALUE...]
up()
{
	local level=$1 name=$2 sets=() s
	shift 2
	for s; do sets+=(--set "$s"); done
	mkdir -p "$out/$name"
	echo "level: $level" >"$out/config.yaml"
	# Other processes may make calls meanwhile.
	[ -z "${FAKE:-}" ] || printf 'level: off\nrules:\n  - match: {command: "*mock.py*"}\n    level: %s\n' "$level" >"$out/config.yaml"
	"$ct" daemon --config "$out/config.yaml" "${libcuda[@]}" --set metrics.listen=127.0.0.1:$port --set ctl.socket="$out/ctl.sock" \
		--set files.directory="$out/$name" "${sets[@]}" >>"$out/daemon.log" 2>&1 </dev/null &
	daemon=$!
	py scrape $port /dev/null && return
	echo "the daemon does not start:"
	tail -n 5 "$out/daemon.log"
	exit 1
}
down()
{
	[ -z "$daemon" ] || { kill -TERM $daemon; wait $daemon; }
	daemon=
}
trap down EXIT

echo '--- milliseconds per token, one process, the daemon at each level in turn'
coproc gen { exec "${gpt2[@]}" --tokens 50 --serve 2>"$out/gpt2.err"; }
# gen is removed when it ends.
# shellcheck disable=SC2154
gen_pid=$gen_PID ask=${gen[1]} answer=${gen[0]}
read -r -t 120 line <&"$answer" && [ "$line" = ready ] || { echo 'gpt2.py does not start:'; tail -n 5 "$out/gpt2.err"; exit 1; }
# one HOW: a round, as a line of time.jsonl
one()
{
	local rounds=${ROUNDS:-30} how=$1 line
	case $how in
	untraced) ;;
	# A burst of 0.2 s every 2 s: a tenth of the time.
	sampled) up sampled time sample.trace=200ms sample.every=2s ;;
	*) up "$how" time ;;
	esac
	[ -z "$daemon" ] || { sleep 0.5; py scrape $port "$out/before"; }
	echo "$rounds" >&"$ask"
	read -r -t 120 line <&"$answer" || { echo "$how: gpt2.py does not answer"; exit 1; }
	[ -z "$daemon" ] || py scrape $port "$out/after"
	py row "$how" "$line" ${daemon:+"$out/before" "$out/after"} >>"$out/time.jsonl"
	down
	rm -rf "$out/time"
}
for _ in 1 2 3; do
	for how in untraced off metrics sampled trace; do one $how; done
done
exec {ask}>&- {answer}<&-
wait "$gen_pid"
py times "$out/time.jsonl"

# The daemon counts, and `cudatrace --` records the same process at the same time. At level trace, the daemon's file does, too.
for level in metrics sampled trace; do
	echo "--- metrics against a full trace of the same process: level $level"
	up $level "files-$level" sample.trace=200ms sample.every=1s files.compress=none files.rotate_size=2G
	"$ct" --jsonl "$out/$level.jsonl" --no-summary -q -- "${gpt2[@]}" --tokens $tokens --rounds 10 >"$out/$level.out" 2>&1
	py scrape $port "$out/$level.metrics"
	down
	py counts "$ct" "$out/$level.metrics" "$out/$level.jsonl" || failed=1
	[ $level != trace ] || {
		echo '--- the same against the file that the daemon wrote'
		py counts "$ct" "$out/trace.metrics" "$out/files-trace"/*.jsonl || failed=1
	}
	rm -rf "$out/files-$level"
done

echo '--- flight recorder of 5 s: what its dumps have of two errors'
up trace dumps recorder.seconds=5s sample.cooldown=1s
"${error[@]}" 8 2>"$out/error.err"
sleep 1.5
down
for f in "$out"/dumps/*; do [[ $f == */dump-* ]] || rm -f "$f"; done
py dumps 5 "$out/dumps" "${names[@]}" || failed=1
newest=("$out"/dumps/dump-*)
echo "--- cudatrace report of ${newest[0]##*/}"
"$ct" report "${newest[0]}" 2>&1 | head -n 12
# Keeps the metrics, the rows of the first table, the log and the dumps.
rm -f "$out"/{metrics,sampled,trace}.{jsonl,out} "$out"/{libcuda.so.1,before,after,config.yaml,ctl.sock.lock,gpt2.err,error.err}
[ $failed = 0 ] && echo 'daemon: all numbers agree' || echo 'daemon: NOT all is as it should be'
exit $failed
