#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Runs the test suites, several at a time, and sums up.
#
#   tests/run.sh [-l] [OPTION...] [NAME...]   all suites, or those of these names: bash suites of tests/suites
#                                     ("unit"), modules of tests/e2e without test_ ("outputs"), or a glob of them
#                                     ("daemon-*"); -l only lists them
#   --long                            what make check leaves out because it takes long
#   --jobs N                          so many at a time (CHECK_JOBS; twice the processors and two)
#   --again                           suites that fail, four at most, are run once more, one at a time: that counts, and what
#                                     failed before is said at the end (make check and check-all)
#   --until EPOCH                     suites that would not have ended then are skipped, and named (CHECK_UNTIL)
#
# Other options are pytest's: -k EXPRESSION (names of suites, and of tests in modules), -x, -v.
#
# A bash suite is an executable that prints, one a line:
#
#   ok NAME
#   not ok NAME # why
#   skip NAME # why          cannot be run here
#
# What else it prints is kept in $O/check/ and not counted. It runs in the top folder, with stdin closed, and with
#
#   O=DIR            build folder, absolute        CUDATRACE=$O/cudatrace
#   TMP=DIR          an empty folder of its own, removed after it
#   LONG=0|1         1: what takes long and nothing else (see "longer")
#
# for 600 seconds at most. Comments in its head say otherwise, and with what it may run (tests/runner/collect.py):
# "timeout: SECONDS", "takes: SECONDS", "cpus: N", "own processes", "alone", "no tracers",
# "traces nothing", "uses: NAME", "long", "longer". What it leaves is ended,
# unmounted and removed; what it leaves running is a failure.
set -u
cd "$(dirname "$0")/.." || exit 1
export LC_ALL=C.UTF-8 PYTHONPYCACHEPREFIX=${O:-$PWD/build}/check/pycache

python=$(tools/install-deps.sh python) || { echo 'tests/run.sh: pytest is not installed; run: make deps' >&2; exit 2; }
args=()
list=0 value=0 where=(tests/suites tests/e2e)
for a; do
	case $value$a in
	0-l) list=1 ;;
	1*) args+=("$a") value=0; continue ;;
	0-k | 0-m | 0--jobs | 0--until | 0--junitxml | 0-p | 0--maxfail | 0--tb) args+=("$a"); value=1 ;;
	0-*) args+=("$a") ;;
	0*/*) args+=("$a") where=() ;;
	*) args+=("--suite=$a") ;;
	esac
done
[ $list = 0 ] || args+=(--list)
exec "$python" -m pytest -c tests/pytest.ini --rootdir=tests "${args[@]}" "${where[@]}"
