#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The unit tests: each program of tests/unit/ under ASan and UBSan; in make check-all as built for use. Each cmocka test counts as one.
# takes: 90
# longer
# traces nothing
set -u

# halt_on_error: a UBSan report is a failure. Leaks are failures, too, if ptrace allows LSan to inspect.
export ASAN_OPTIONS=detect_leaks=1:abort_on_error=0:exitcode=99 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
export CMOCKA_MESSAGE_OUTPUT=TAP

# cmocka's TAP: "ok 1 - name", "not ok 2 - name", "not ok 3 # SKIP name", "# not ok - group".
translate()
{
	awk -v prog="$1" '
		match($0, /^(not )?ok [0-9]+ # SKIP /)	{ print "skip " prog ": " substr($0, RLENGTH + 1) " # it says so"; next }
		match($0, /^ok [0-9]+ - /)		{ print "ok " prog ": " substr($0, RLENGTH + 1); n++; next }
		match($0, /^not ok [0-9]+ - /)		{ print "not ok " prog ": " substr($0, RLENGTH + 1); bad++; next }
		/^1\.\.[0-9]+$/				{ plan += substr($0, 4); next }
		# A line printed by a test must not count as a verdict.
		/^(ok|not ok|skip) /			{ print "  " $0; next }
		/^# (ok|not ok) - /			{ next }
		{ print }'
}

run()
{
	local prog=$1 label=$2 log=$TMP/log rc
	timeout -k 5 180 "$prog" >"$log" 2>&1
	rc=$?
	translate "$label" <"$log"
	# Failed tests have a status of their own: only a failure without a verdict is reported here.
	if [ $rc -ne 0 ] && { [ $rc -ge 99 ] || ! grep -aq '^not ok [0-9]* - ' "$log"; }; then
		echo "not ok $label: runs to its end # exit status $rc"
	fi
}

shopt -s nullglob
any=0
if [ "$LONG" = 1 ]; then d=$O how=; else d=$O/san how=' (asan, ubsan)'; fi
for src in tests/unit/test_*.c; do
	name=$(basename "$src" .c)
	any=1
	if [ -x "$d/unit/$name" ]; then
		run "$d/unit/$name" "$name$how"
	else
		echo "not ok $name$how # not built: make check-unit"
	fi
done
[ $any = 1 ] || echo 'skip unit # no tests/unit/test_*.c'
