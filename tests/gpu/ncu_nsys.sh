#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# ncu_nsys.sh PROGRAM [ARGUMENT]...: runs NVIDIA's profilers as a command of cudatrace, by each producer, and from a shell script.
# Prints for each the exit status without and with the trace, and the number of recorded calls. For a
# machine with a GPU; it names a missing profiler. CUDATRACE: the program.
set -u
ct=${CUDATRACE:-build/cudatrace}
tmp=$(mktemp -d) && trap 'rm -rf "$tmp"' EXIT

show() { # NAME STATUS-UNTRACED STATUS-TRACED
	echo "$1: untraced $2, traced $3, $(grep -c '"symbol":"cu' "$tmp/t.jsonl") calls"
	grep -h '^cudatrace:' "$tmp/err" | head -3
	[ "$2" = "$3" ] || tail -5 "$tmp/err" "$tmp/out"
}

for profiler in "ncu --launch-count 1" "nsys profile --force-overwrite true -o $tmp/nsys"; do
	name=${profiler%% *}
	command -v "$name" >"$tmp/where" || { echo "$name: not installed"; continue; }
	# shellcheck disable=SC2086
	$profiler "$@" >"$tmp/out" 2>"$tmp/err"
	untraced=$?
	for probe in inject uprobe; do
		: >"$tmp/t.jsonl"
		# shellcheck disable=SC2086
		$ct --probe=$probe --no-summary --jsonl "$tmp/t.jsonl" -- $profiler "$@" >"$tmp/out" 2>"$tmp/err"
		show "$name, --probe=$probe" $untraced $?
		: >"$tmp/t.jsonl"
		$ct --probe=$probe --no-summary --jsonl "$tmp/t.jsonl" -- sh -c "$profiler \"\$@\"" sh "$@" >"$tmp/out" 2>"$tmp/err"
		show "$name in a shell, --probe=$probe" $untraced $?
	done
done
