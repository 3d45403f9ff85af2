#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Each block of docs/QUERIES.md must give the same as the report, and as Python, for the recorded traces and a made one.
# takes: 60
# traces nothing
set -u
. tests/lib.sh

command -v jq >/dev/null || { skip 'queries' 'jq is not installed'; exit 0; }
page=docs/QUERIES.md
check 'queries: the page is whole' tests/queries/check.py $page

# finds EXPRESSION WHY: the page, changed in this way, must be found incomplete
finds()
{
	sed "$1" $page >"$TMP/page.md"
	! tests/queries/check.py "$TMP/page.md" >"$TMP/why" && grep -q "$2" "$TMP/why" && return
	echo "not found: $2"
	cat "$TMP/why"
	return 1
}
check 'queries: SQL that nothing is compared with is found' finds '$a ```sql more\nSELECT 1\n```' "sql block 'more': nothing to compare it with"
check 'queries: SQL without a name is found' finds '$a ```sql\nSELECT 1\n```' 'sql block .without a name'
check 'queries: a block that is not there is found' finds '/^```sql idle/,/^```$/d' "no sql block 'idle'"

tests/queries/made.py tests/golden/h200-triton.jsonl "$TMP/made.jsonl" || fail 'queries: a made trace' 'no trace'
traces=(tests/golden/*.jsonl "$TMP/made.jsonl")
for trace in "${traces[@]}"; do
	"$CUDATRACE" -q report --top 100000 --format=json -o "$TMP/$(basename "$trace").report" "$trace"
done
# ask LANGUAGE PAGE TRACE
ask() { tests/queries/check.py "$1" "$2" "$3" "$TMP/$(basename "$3").report" "$TMP"; }

# A change to each block, which must then differ for the made trace, where each block has results.
jq_wrong='/^```jq load/,/^```$/s/start < \$burst/start <= $burst/
/^```jq kernels/,/^```$/s/ and launch/ and .op == "launch"/
/^```jq iterations/,/^```$/s/if \$c | wait/if $c | sync/
/^```jq classes/,/^```$/s/if \$c | outermost/if true/
/^```jq stages/,/^```$/s/start > \$last/start >= $last/
/^```jq transfers/,/^```$/s/+= 1/+= 2/
/^```jq idle/,/^```$/s/top and //
/^```jq waits/,/^```$/s/select(wait)/select(sync)/
/^```jq callers/,/^```$/s/ < "/ > "/
/^```jq ioctls/,/^```$/s/ and .call//; /^```jq ioctls/,/^```$/s/\[\$e.call\]/[$e.call \/\/ "none"]/
/^```jq outside/,/^```$/s/ and (.call | not)//
/^```jq scheduler/,/^```$/s/\.count += 1/.count += 2/'
sql_wrong='/^```sql load/,/^```$/s/start < burst/start <= burst/
/^```sql kernels/,/^```$/s/ AND launch/ AND op = '\''launch'\''/
/^```sql iterations/,/^```$/s/FILTER (wait)/FILTER (sync)/
/^```sql classes/,/^```$/s/outermost/true/
/^```sql stages/,/^```$/s/start > last/start >= last/
/^```sql transfers/,/^```$/s/count(\*)/2/
/^```sql idle/,/^```$/s/top AND //
/^```sql waits/,/^```$/s/WHERE wait/WHERE sync/
/^```sql callers/,/^```$/s/ < / > /
/^```sql ioctls/,/^```$/s/ AND call IS NOT NULL//
/^```sql outside/,/^```$/s/ AND call IS NULL//
/^```sql scheduler/,/^```$/s/count(\*)/2/'

# each_wrong LANGUAGE CHANGES: every block, changed, must run and must differ
each_wrong()
{
	local missed
	sed "$2" $page >"$TMP/wrong.md"
	ask "$1" "$TMP/wrong.md" "$TMP/made.jsonl" >"$TMP/wrong.out"
	[ "$(grep -c '^not ok .*rows differ$' "$TMP/wrong.out")" = "$(grep "^\`\`\`$1 " $page | grep -vc common)" ] && return
	missed=$(grep -v '^    \|rows differ$' "$TMP/wrong.out")
	echo "not found to be wrong: $missed"
	return 1
}

for trace in "${traces[@]}"; do ask jq $page "$trace"; done
check 'queries: a wrong jq block is found, each' each_wrong jq "$jq_wrong"

# For one thread with one stream, the report must have the same idle time.
same_idle()
{
	local got wanted
	got=$(jq -c -n -L "$TMP" "include \"trace\"; $(awk '/^```jq idle/ { on = 1; next } /^```/ { on = 0 } on' $page)" "$1" | jq -s 'map(.ns) | add // 0')
	wanted=$(jq .idle.total_ns "$TMP/$(basename "$1").report")
	[ "$got" = "$wanted" ] || { echo "$got ns, in the report $wanted"; return 1; }
}
for trace in tests/golden/*.jsonl; do check "queries: idle as in the report: $(basename "$trace" .jsonl)" same_idle "$trace"; done

echo '{}' | tests/queries/duckdb.sh >/dev/null 2>"$TMP/why"
[ $? = 77 ] && { skip 'queries: DuckDB' "$(head -1 "$TMP/why")"; exit 0; }
for trace in "${traces[@]}"; do ask sql $page "$trace"; done
check 'queries: a wrong SQL block is found, each' each_wrong sql "$sql_wrong"
