#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The Chrome trace in a real viewer: that of chrome://tracing, in headless Chromium. What its model holds is
# compared with what was put in. Pictures are left in $O/check/.
# takes: 40
set -u

maker=$TMP/make_trace
trace=$TMP/trace.json

if ! ${CC:-gcc} -std=gnu11 -O1 -D_GNU_SOURCE= -Isrc -Iinclude -Itests tests/chrome/make_trace.c \
	"$O/libct.a" -lz -lseccomp -l:libstdc++.a -lpthread -ldl -lm -o "$maker"; then
	echo 'not ok chrome # tests/chrome/make_trace.c does not compile'
	exit
fi

# load NAME TRACE [PICTURE]: what the viewer found, in $TMP/found.json
load()
{
	local name=$1 rc
	shift
	tests/chrome/load.py "$@" >"$TMP/found.json" 2>"$TMP/err"
	rc=$?
	[ $rc = 0 ] && return 0
	if [ $rc = 77 ]; then
		echo "skip $name # $(tail -n 1 "$TMP/err")"
	else
		cat "$TMP/err"
		echo "not ok $name # $(cut -c 1-300 "$TMP/found.json")"
	fi
	return 1
}

# has NAME PYTHON: an expression over f (found) and w (wanted)
has()
{
	if python3 -c '
import json, sys
f, w = (json.load(open(p)) for p in sys.argv[1:3])
sys.exit(0 if eval(sys.argv[3]) else 1)' "$TMP/found.json" "$TMP/wanted.json" "$2"; then
		echo "ok $1"
	else
		echo "# found $(cut -c 1-2000 "$TMP/found.json")"
		echo "# wanted $(cat "$TMP/wanted.json")"
		echo "not ok $1 # not so: $2"
	fi
}

"$maker" "$trace" >"$TMP/wanted.json" || { echo 'not ok chrome # make_trace failed'; exit; }

load 'chrome: loads' "$trace" "$O/check/chrome.png" || exit 0
echo "# viewer: $(python3 -c '
import json, sys
f = json.load(open(sys.argv[1]))
print(f["viewer"], "in Chromium", f["browser"])' "$TMP/found.json")"
has 'chrome: loads' 'not f["warnings"]'
for what in slices arrows counters processes threads global_instants process_instants; do
	has "chrome: $what" "f['$what'] == w['$what']"
done
has 'chrome: calls nest' 'f["nested"] == w["nested"]'
has 'chrome: every arrow has two ends' 'all(a and b for a, b in f["arrow_pairs"])'
has 'chrome: colours are of its palette' 'f["bad_colours"] == []'
has 'chrome: names' '"python3 (pid 4711)" in f["names"] and "python3" in f["names"]'

# As a killed tracer leaves it: whole lines, no end. Dozens of lines from the end and half-way.
for cut in 5 150; do
	head -n -$cut "$trace" >"$TMP/cut.json"
	if load "chrome: without its last $cut lines" "$TMP/cut.json"; then
		n=$(grep -c '"ph":"X"' "$TMP/cut.json")
		has "chrome: without its last $cut lines" "f['slices'] == $n"
	fi
done
