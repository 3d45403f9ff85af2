#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Part of the step `nccl` of run.sh: tests/gpu/nccl_daemon.sh CUDATRACE OUT_FOLDER COMMAND... The daemon must name a rank that does not enter a
# collective, with ranks and stacks. DAEMON_ARGS: other than level=trace. COMMAND has two ranks, of which the second pauses for ten seconds.
# Exit status 1 on failure.
set -u
ct=$(realpath "$1")
out=$2/nccl_daemon
shift 2
rm -rf "$out"
mkdir -p "$out/files"
# shellcheck disable=SC2086
"$ct" daemon ${DAEMON_ARGS:---set level=trace} --set metrics.listen=127.0.0.1:9476 --set ctl.socket="$out/ctl.sock" --set files.directory="$out/files" \
	>"$out/log" 2>&1 </dev/null &
daemon=$!
for ((i = 0; i < 300; i++)); do
	"$ct" ctl --set ctl.socket="$out/ctl.sock" status >/dev/null 2>&1 && break
	kill -0 $daemon 2>/dev/null || { echo 'the daemon does not start:'; tail -n 5 "$out/log"; exit 1; }
	sleep 0.1
done
"$@" >"$out/program" 2>&1 </dev/null || { echo 'the program:'; tail -n 5 "$out/program"; }
kill -TERM $daemon
wait $daemon
failed=0
# said WHAT PATTERN
said()
{
	local line
	line=$(grep -m 1 -E "$2" "$out/log") || { line="NOT SAID"; failed=1; }
	echo "daemon: $1: ${line:0:400}"
}
said 'waits' 'collective [0-9]+ .* waits for [0-9.]+ s: begun by rank 0, not by rank 1'
said 'rank 1' 'rank 1 of 0x.*: thread [0-9]+ (waits|runs) in '
said 'rank 0' 'rank 0 of 0x.*: thread [0-9]+ (waits|runs) in '
said 'goes on' 'collective [0-9]+ of communicator 0x.* goes on'
exit $failed
