#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Each jq block of docs/QUERIES.md says of the recorded traces, and of a made one with ioctls, what the report says.
set -u
. tests/lib.sh

command -v jq >/dev/null || { skip 'queries' 'jq is not installed'; exit 0; }

# Two ioctls in a CUDA call, one outside, and what one of them told the scheduler.
python3 - tests/golden/h200-triton.jsonl "$TMP/driver.jsonl" <<'END'
import json, sys
lines = open(sys.argv[1], encoding="utf-8").read().splitlines()
head, end = json.loads(lines[0]), json.loads(lines[-1])
head["kernel_probe"] = "kprobe.multi"
at = next(i for i, l in enumerate(lines) if json.loads(l)["name"] == "cuMemAlloc")
call = json.loads(lines[at])
new = []
def event(after, **more):
    new.append({"ts": call["ts"] + after, "pid": call["pid"], "tid": call["tid"], "comm": call["comm"], **more})
for after, name, own in ((0.001, "NV_ESC_RM_ALLOC", True), (0.002, "NVA06C_CTRL_CMD_SET_TIMESLICE", True), (0.003, "NV_ESC_RM_FREE", False)):
    inside = {"call_id": call["id"], "call": call["name"]} if own else {}
    event(after, type="kernel", op="ioctl", name=name, duration_us=1.5, device="nvidiactl", fd=8, result=0, status="NV_OK", **inside)
event(0.002, type="scheduler", op="timeslice", name="NVA06C_CTRL_CMD_SET_TIMESLICE", device="nvidiactl", meaning="m", status="NV_OK",
      call_id=call["id"], call=call["name"])
end["events"]["kernel"] += 3
end["events"]["scheduler"] = 1
open(sys.argv[2], "w", encoding="utf-8").write("\n".join([json.dumps(head), *lines[1:at], *map(json.dumps, new), *lines[at:-1], json.dumps(end)]) + "\n")
END

# block NAME: that block of the page
block() { awk -v start="\`\`\`jq $1" '$0 == start { on = 1; next } /^```/ { on = 0 } on' docs/QUERIES.md; }

# The same of the report, in the same form.
declare -A WANTED=(
	[classes]='[.overview.classes[] | {key: (if .class == "launch" then "kernel" else .class end), value: {calls: .count, ns: .total_ns}}] | from_entries'
	[kernels]='[.kernels.list[] | select(.count > 0) | {key: (.name // .function), value: .count}] | from_entries'
	[transfers]='[.transfers.directions[] | select(.direction != "unknown") | {key: .direction, value: {calls: .count, bytes}}] | from_entries'
	[waits]='[.waits.functions[] | {key: .name, value: {calls: .count, ns: .total_ns}}] | from_entries'
	[ioctls]='reduce .driver.pairs[] as $p ({}; .[$p.call][$p.name] += $p.count)'
	[outside]='.driver.outside'
	[scheduler]='[.driver.scheduler[] | {key: .name, value: {calls: .count, first_ts}}] | from_entries'
)

# same NAME TRACE REPORT
same()
{
	local got wanted
	got=$(jq -nS "$(block "$1")" "$2") || return
	wanted=$(jq -S "${WANTED[$1]}" "$3") || return
	[ "$got" = "$wanted" ] && return
	echo "jq and the report differ"
	diff <(echo "$got") <(echo "$wanted")
	return 1
}

names=$(sed -n 's/^```jq //p' docs/QUERIES.md)
check 'queries: each block has its check' test "$(sort <<<"$names")" = "$(printf '%s\n' "${!WANTED[@]}" | sort)"
for trace in tests/golden/*.jsonl "$TMP/driver.jsonl"; do
	"$CUDATRACE" -q report --top 100000 --format=json -o "$TMP/report.json" "$trace"
	for name in $names; do
		check "queries: $name: $(basename "$trace" .jsonl)" same "$name" "$trace" "$TMP/report.json"
	done
done
check 'queries: the made trace has ioctls' test "$(jq -n "$(block ioctls)" "$TMP/driver.jsonl" | jq '[.[][]] | add') $(jq -n "$(block outside)" "$TMP/driver.jsonl")" = '2 1'

# The SQL blocks, by the npm package of DuckDB, where node finds it (NODE_PATH).
if ! node -e 'require("@duckdb/node-api")' 2>/dev/null; then
	skip 'queries: DuckDB' 'the npm package @duckdb/node-api is not installed'
	exit 0
fi
sql() { awk -v start="\`\`\`sql $1" '$0 == start { on = 1; next } /^```/ { on = 0 } on' docs/QUERIES.md; }
# duck NAME TRACE: its rows as JSON
duck()
{
	local q
	q=$(sql "$1")
	node -e 'const { DuckDBInstance: D } = require("@duckdb/node-api");
(async () => {
	const c = await (await D.create()).connect();
	console.log(JSON.stringify((await c.runAndReadAll(process.argv[1])).getRowObjectsJson()));
})()' "${q//trace.jsonl/$2}"
}
same_sql()
{
	local got wanted
	got=$(duck "$1" "$2" | jq -S 'reduce .[] as $r ({}; if $r.name then .[$r.key][$r.name] = ($r.value | tonumber)
		else .[$r.key] = ($r.value | tonumber) end)') || return
	wanted=$(jq -S "${WANTED[$1]}" "$3") || return
	[ "$got" = "$wanted" ] && return
	echo "DuckDB and the report differ"
	diff <(echo "$got") <(echo "$wanted")
	return 1
}
for trace in tests/golden/*.jsonl "$TMP/driver.jsonl"; do
	"$CUDATRACE" -q report --top 100000 --format=json -o "$TMP/report.json" "$trace"
	for name in $(sed -n 's/^```sql //p' docs/QUERIES.md); do
		check "queries: DuckDB: $name: $(basename "$trace" .jsonl)" same_sql "$name" "$trace" "$TMP/report.json"
	done
done
