#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Runs the test suites in parallel, and prints a summary.
#
#   tests/run.sh [-l] [OPTION...] [NAME...]   all suites, or those with these names: modules of tests/e2e without
#                                     test_ ("outputs"), or a glob ("daemon_*"); -l only lists them
#   --long                            the slow tests, which make check does not run
#   --jobs N                          number of suites in parallel (CHECK_JOBS; default: twice the processors, and without
#                                     --long two more)
#   --again                           at most eight failed suites run again, one at a time: the second result counts, and the
#                                     first failure is reported at the end (make check and check-all)
#   --until EPOCH                     skips suites that would end later, and names them (CHECK_UNTIL)
#
# Other options are pytest's: -k EXPRESSION (names of suites and of tests), -x, -v.
#
# The output of a suite is kept in $O/check/. It runs in the top folder, with stdin closed, and with
#
#   O=DIR            build folder, absolute        CUDATRACE=$O/cudatrace
#   TMP=DIR          an empty folder of its own, removed afterwards
#   LONG=0|1         1: only the slow tests
#
# for at most 600 seconds. Comments in its head change this, and its needs (tests/runner/collect.py):
# "timeout: SECONDS", "takes: SECONDS", "cpus: N", "own processes", "alone", "no tracers",
# "traces nothing", "uses: NAME", "long". Afterwards its processes are ended, and
# its mounts and files removed; processes left running are a failure.
set -u
cd "$(dirname "$0")/.." || exit 1
export LC_ALL=C.UTF-8 PYTHONPYCACHEPREFIX=${O:-$PWD/build}/check/pycache

python=$(tools/install-deps.sh python) || { echo 'tests/run.sh: pytest is not installed; run: make deps' >&2; exit 2; }
args=()
list=0 value=0 where=(tests/e2e)
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
