#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The report's numbers for a recorded trace of GPT-2 (an H200; cut to 5 warm-up tokens and two rounds of 10, 18 launches each) must
# equal those that tests/golden/report_check.py computes. That script must find errors.
# traces nothing
set -u
. tests/lib.sh

golden=tests/golden/h200-gpt2-tokens.jsonl
checker=tests/golden/report_check.py

check 'report: the trace keeps to docs/SCHEMA.md' tests/golden/schema_check.py $golden

"$CUDATRACE" report --format=json $golden >"$TMP/report.json" 2>"$TMP/report.err"
rc=$?
# Until the verb exists.
if grep -q 'cannot run report' "$TMP/report.err"; then
	skip 'report: answers' "cudatrace has no report: $(head -1 "$TMP/report.err")"
	exit 0
fi
[ $rc -eq 0 ] && pass 'report: json' || fail 'report: json' "exit status $rc: $(head -3 "$TMP/report.err")"
check 'report: numbers' $checker $golden "$TMP/report.json"

# wrong NAME JQ: after this change of the report the checker must fail
wrong()
{
	jq "$2" "$TMP/report.json" >"$TMP/bad.json" || { fail "report: notices $1" 'the change itself failed'; return; }
	if $checker $golden "$TMP/bad.json" >/dev/null; then
		fail "report: notices $1" 'it finds nothing wrong'
	else
		pass "report: notices $1"
	fi
}
if command -v jq >/dev/null; then
	wrong 'an iteration too few' '.iterations.count -= 1'
	wrong 'another round' '.iterations.rounds[1].count = 9'
	wrong 'a launch too many' '.iterations.list[7].kernels += 1'
	wrong 'a nanosecond too few' '.iterations.list[7].time_ns -= 1'
	wrong 'time in no stage' '.stages.list[1].wall_ns -= 1'
	wrong 'a call in no stage' '.stages.list[1].calls -= 1'
	wrong 'a call too many in load' '.stages.load.calls += 1'
	wrong 'idle time' '.idle.total_ns += 1'
	wrong 'a percentile' '.overview.functions[3].p95_ns *= 1.1'
	wrong 'a wait' '.waits.count += 1'
else
	skip 'report: the checker' 'jq is not installed'
fi

# text_is NAME PATTERN: the text report must have such a line
"$CUDATRACE" report --full --width 80 $golden >"$TMP/report.txt" 2>&1
text_is()
{
	if grep -q -- "$2" "$TMP/report.txt"; then
		pass "report: text: $1"
	else
		fail "report: text: $1" "no line like: $2"
	fi
}
text_is 'iterations' '^Iterations: 25 in 3 rounds; 5 of warm-up'
text_is 'launches' '^ *18  *18  *18  *18  *18  *18  kernel launches$'
text_is 'stages' '^Stages: 10.6 s'
text_is 'answers' '18 kernel launches per iteration'
wide=$(LC_ALL=C awk '{ gsub(/[\200-\277]/, ""); if (length($0) > 80) print }' "$TMP/report.txt" | head -3)
[ -z "$wide" ] && pass 'report: text: 80 columns' || fail 'report: text: 80 columns' "$wide"
