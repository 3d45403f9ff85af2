#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The report's memory and transfers: of traces from an H200, against numbers worked out by another program and by hand;
# and of programs that say what the report must say of them.
set -u
. tests/lib.sh

report() { "$CUDATRACE" report --format=json "$1"; }

# says REPORT EXPRESSION: a Python expression over m (memory) and t (transfers)
says()
{
	python3 - "$@" <<'END'
import json, sys
report = json.load(open(sys.argv[1], encoding="utf-8"))
m, t = report["memory"], report["transfers"]
kind = {k["kind"]: k for k in m["kinds"]}
if not eval(f"({sys.argv[2]})"):
    sys.exit("not so: " + sys.argv[2] + "\n" + json.dumps({k: v for k, v in m.items() if k != "over_time"})[:1500])
END
}

for f in tests/golden/*.jsonl; do
	name=$(basename "$f" .jsonl)
	if ! report "$f" >"$TMP/$name.json" 2>"$TMP/err"; then
		fail "golden: $name" "no report: $(head -1 "$TMP/err")"
		continue
	fi
	check "golden: numbers of $name" tests/golden/memory_numbers.py "$f" "$TMP/$name.json"
done
check 'golden: the schema of h200-gpt2-memory' tests/golden/schema_check.py tests/golden/h200-gpt2-memory.jsonl

# By hand, with jq, from the lines of the trace.
check 'golden: GPT-2 by hand' says "$TMP/h200-gpt2-memory.json" 'kind["device"]["allocs"] == 29 and
	m["peak_bytes"] == 664929280 and m["peak_ts"] == 11461.313655 and m["leak_count"] == 30 and
	m["leaks"][0]["ptr"] == "0x7fbed4000000" and m["leaks"][0]["size"] == 155189248 and
	[d["device"] for d in m["devices"]] == [0] and kind["device"]["frees"] == 0 and
	[(d["direction"], d["count"], d["bytes"], d["pageable"], d["pinned"]) for d in t["directions"]] ==
	[("HtoD", 148, 497759232, 148, 0), ("DtoH", 55, 440, 0, 55)] and t["memset"]["count"] == 72 and
	t["largest"][0]["size"] == 154389504'
check 'golden: Triton by hand' says "$TMP/h200-triton.json" 'kind["device"]["allocs"] == 4 and
	m["peak_bytes"] == 46137344 and m["leak_bytes"] == 46137345 and kind["host"]["peak_bytes"] == 1 and
	[(d["direction"], d["bytes"], d["pinned"]) for d in t["directions"]] == [("DtoH", 1, 1)] and
	t["memset"]["bytes"] == 4 and m["bad_frees"] == [] and m["fragmentation"]["holes"] == 2'

needs_tracing 'memory of programs'
reports_of_cases mem
