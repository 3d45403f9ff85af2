#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Runs the test suites and sums up.
#
#   tests/run.sh [-l] [PATTERN...]    all of tests/suites/NN-name.sh, or those whose name ("unit"), number
#                                     and name ("10-unit") or part of it as a glob ("2?-*") is given
#
# A suite is an executable that prints, one a line:
#
#   ok NAME
#   not ok NAME # why
#   skip NAME # why          cannot be run here
#
# What else it prints is shown and not counted. It runs in the top folder, with stdin closed, and with
#
#   O=DIR            build folder, absolute        CUDATRACE=$O/cudatrace
#   TMP=DIR          an empty folder of its own, removed after it
#
# for 600 seconds at most, or as a line "# timeout: SECONDS" in it says. Those with the line "# beside the others" run,
# one after the other, while the rest does. By number: 0x static checks, 1x unit
# tests, 2x and up traces of the stand-in driver and what needs root, 8x other kernels, 9x real hardware.
set -u
export LC_ALL=C.UTF-8

cd "$(dirname "$0")/.." || exit 1
O=$(realpath -m "${O:-build}")
export O CUDATRACE=$O/cudatrace
# A system call that the sandbox does not know ends the tracer: a test sees it then.
export CUDATRACE_SANDBOX=kill
logs=$O/check
mkdir -p "$logs" || exit 1

# Terminals get colours; the verdict itself is never changed.
if [ -t 1 ]; then red=$'\e[31m' bold=$'\e[1m' off=$'\e[0m'; else red= bold= off=; fi

wants()
{
	local name=$1 p
	shift
	[ $# -eq 0 ] && return 0
	for p; do
		# shellcheck disable=SC2053 # globs are meant
		[[ $name == $p || ${name#*-} == $p ]] && return 0
	done
	return 1
}

list=0
[ "${1-}" = -l ] && { list=1; shift; }

passed=0 failed=0 skipped=0
failures=()
child='' lane='' pid_file=''
# An interrupted run must not leave a suite tracing in the background. timeout(1) passes it on.
trap 'kill -TERM $child $lane ${lane:+$(cat "$logs/beside.pid")} 2>/dev/null; exit 130' INT TERM HUP

fail() { failed=$((failed + 1)); failures+=("$1"); }

# begin SUITE: runs it in the background; sets child, log, TMP and start.
begin()
{
	local limit
	limit=$(sed -n 's/^[#/ ]*timeout: \([0-9][0-9]*\)$/\1/p' "$1" | head -1)
	log=$logs/$(name_of "$1").log
	TMP=$(mktemp -d) || exit 1
	export TMP
	start=$SECONDS
	# To a file which tail follows, not through a pipe: a process that a suite leaves behind would
	# hold a pipe open for ever. timeout(1) ends the suite's whole process group.
	: >"$log"
	timeout -k 15 "${limit:-600}" "$1" >"$log" 2>&1 </dev/null &
	child=$!
	[ -z "$pid_file" ] || echo $child >"$pid_file"
}

# finish NAME: waits for the suite that begin() began, shows what it prints, and adds it up.
finish()
{
	local name=$1 rc ok skip bad why=

	printf '%s# %s%s\n' "$bold" "$name" "$off"
	tail -s 0.1 -n +1 --pid=$child -f "$log" 2>/dev/null
	wait $child
	rc=$?
	child=
	rm -rf "$TMP"

	# grep -a: a test's output may hold any bytes.
	ok=$(grep -ac '^ok ' "$log")
	skip=$(grep -ac '^skip ' "$log")
	while IFS= read -r line; do fail "$name: ${line#not ok }"; done < <(grep -a '^not ok ' "$log")
	bad=$(grep -ac '^not ok ' "$log")
	passed=$((passed + ok)) skipped=$((skipped + skip))

	if [ $rc -eq 124 ] || [ $rc -eq 137 ]; then
		why='not finished in its time'
	elif [ $rc -ne 0 ] && [ "$bad" -eq 0 ]; then
		why="exit status $rc"
	elif [ $((ok + bad + skip)) -eq 0 ]; then
		why='printed no result'
	fi
	if [ -n "$why" ]; then
		echo "not ok $name # $why"
		fail "$name: $why"
		bad=$((bad + 1))
	fi
	printf '# %s: %d passed, %d failed, %d skipped in %d s\n' "$name" "$ok" "$bad" "$skip" $((SECONDS - start))
}

name_of() { local name=${1##*/}; echo "${name%.*}"; }

wanted=()
for suite in tests/suites/[0-9][0-9]-*; do
	[ -x "$suite" ] && wants "$(name_of "$suite")" "$@" && wanted+=("$suite")
done
run=${#wanted[@]}
if [ $list = 1 ]; then
	for suite in "${wanted[@]}"; do name_of "$suite"; done
	exit 0
fi

run_all()
{
	local suite
	for suite; do
		begin "$suite"
		finish "$(name_of "$suite")"
	done
}

# Those that do not look at the machine, nor does what they do show on it, run while the others do.
beside=() others=()
for suite in "${wanted[@]}"; do
	if grep -q '^# beside the others$' "$suite"; then beside+=("$suite"); else others+=("$suite"); fi
done
if [ ${#beside[@]} -gt 0 ]; then
	(
		trap 'exit 130' TERM
		pid_file=$logs/beside.pid
		run_all "${beside[@]}"
		declare -p passed failed skipped failures >"$logs/beside.sums"
	) >"$logs/beside.log" 2>&1 </dev/null &
	lane=$!
fi
run_all "${others[@]}"
if [ -n "$lane" ]; then
	tail -s 0.1 -n +1 --pid=$lane -f "$logs/beside.log" 2>/dev/null
	wait $lane
	lane=
	sums=("$passed" "$failed" "$skipped" "${failures[@]}")
	. "$logs/beside.sums" || exit 1
	passed=$((passed + sums[0])) failed=$((failed + sums[1])) skipped=$((skipped + sums[2]))
	failures=("${sums[@]:3}" "${failures[@]}")
fi

if [ $run -eq 0 ]; then
	echo "tests/run.sh: no suite matches: $*" >&2
	exit 2
fi
if [ $failed -gt 0 ]; then
	printf '\n%sfailed:%s\n' "$red" "$off"
	printf '  %s\n' "${failures[@]}"
fi
printf '%d passed, %d failed, %d skipped\n' $passed $failed $skipped
[ $failed -eq 0 ]
