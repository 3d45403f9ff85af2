#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# cudatrace report: folded stacks, flame graph, timeline; cudatrace diff. All against sums that a few lines of
# Python make of the traces.
set -u
. tests/lib.sh

tokens=tests/golden/h200-gpt2-tokens.jsonl triton=tests/golden/h200-triton.jsonl

sums()
{
	python3 - "$@" <<'PY'
import collections, json, sys, xml.etree.ElementTree as xml
trace, folded, svg, report = sys.argv[1:5]
wrong, total, by_class, by_fn = [], 0, collections.Counter(), collections.Counter()
for line in open(trace, encoding="utf-8"):
    e = json.loads(line)
    if "symbol" in e and not e.get("depth") and "duration_us" in e:
        ns = round(e["duration_us"] * 1000)
        total += ns
        by_class["launch" if e["type"] == "kernel" else e["type"]] += ns
        by_fn[e["name"]] += ns
got, got_fn = 0, collections.Counter()
for line in open(folded, encoding="utf-8"):
    stack, ns = line.rsplit(" ", 1)
    frames = stack.split(";")
    if not 4 <= len(frames) <= 5 or not frames[0].startswith("process "):
        wrong.append(f"no stack: {line!r}")
    got += int(ns)
    got_fn[frames[3]] += int(ns)
if got != total:
    wrong.append(f"folded: {got} ns, not {total}")
if got_fn != by_fn:
    wrong.append(f"folded by function: {got_fn}, not {by_fn}")
root = xml.parse(svg).getroot()
titles = [t.text for t in root.iter("{http://www.w3.org/2000/svg}title")]
if not any(t.startswith("cu") for t in titles) or not titles[0].startswith("all\n"):
    wrong.append(f"flame graph: {titles[:3]}")
line = json.load(open(report))["timeline"]
for name, shares in line["classes"].items():
    ns = sum(shares) * line["step_ns"]
    if abs(ns - by_class[name]) > by_class[name] / 1000 + 1000:
        wrong.append(f"timeline of {name}: {ns} ns, not {by_class[name]}")
if set(line["classes"]) != {c for c, ns in by_class.items() if ns}:
    wrong.append(f"timeline: {set(line['classes'])}")
sys.exit("; ".join(wrong) or 0)
PY
}

changes()
{
	python3 - "$@" <<'PY'
import collections, json, sys
wrong, sides = [], []
for path in sys.argv[1:3]:
    fns, kernels = collections.Counter(), collections.Counter()
    for line in open(path, encoding="utf-8"):
        e = json.loads(line)
        if "symbol" not in e:
            continue
        fns[e["name"]] += 1
        if e["type"] == "kernel" and e.get("op") == "launch" and "error" not in e and not e.get("capturing") and "kernel" in e:
            kernels[e["kernel"]] += 1
    sides.append({"functions": fns, "kernels": kernels})
diff = json.load(open(sys.argv[3]))
for what in ("functions", "kernels"):
    for i, key in enumerate(("count_before", "count_after")):
        got = {t["name"]: t[key] for t in diff[what] if t[key]}
        if got != dict(sides[i][what]):
            wrong.append(f"{what}, {key}: {got}, not {dict(sides[i][what])}")
    for t in diff[what]:
        if t["count_before"] != t["count_after"] and not t["changed"]:
            wrong.append(f"{t['name']} changed")
changed = sum(t["changed"] for k in ("all", "functions", "kernels") for t in diff[k])
if changed != diff["changed"]:
    wrong.append(f"{changed} marks, not {diff['changed']}")
sys.exit("; ".join(wrong)[:2000] or 0)
PY
}
status() { local want=$1; shift; "$@" >"$TMP/out" 2>"$TMP/err"; local rc=$?; [ $rc = "$want" ] || { echo "exit status $rc, not $want: $(head -3 "$TMP/err")"; return 1; }; }

for f in "$tokens" "$triton"; do
	name=$(basename "$f" .jsonl)
	"$CUDATRACE" report --format=flamegraph -o "$TMP/f.folded" "$f" 2>"$TMP/err"
	"$CUDATRACE" report --format=svg -o "$TMP/f.svg" "$f" 2>>"$TMP/err"
	"$CUDATRACE" report --format=json -o "$TMP/f.json" "$f" 2>>"$TMP/err"
	check "$name: folded stacks, flame graph and timeline add up" sums "$f" "$TMP/f.folded" "$TMP/f.svg" "$TMP/f.json"
done
"$CUDATRACE" report --format=flamegraph -o "$TMP/named.svg" "$tokens" 2>"$TMP/err"
"$CUDATRACE" report --format=svg -o "$TMP/f.svg" "$tokens" 2>>"$TMP/err"
check 'flame graph: a file that ends in .svg is one' cmp "$TMP/named.svg" "$TMP/f.svg"
"$CUDATRACE" report "$tokens" >"$TMP/text"
check 'timeline: text' grep -qE '^  launch +\|.*[.:=+*#@-]' "$TMP/text"

# What a name may hold: it must not become markup.
sed 's/"kernel":"[^"]*"/"kernel":"<script>alert(1)<\/script>;\&\\"\\u0001"/' "$tokens" >"$TMP/evil.jsonl"
"$CUDATRACE" report --format=svg -o "$TMP/evil.svg" "$TMP/evil.jsonl" 2>/dev/null
check 'flame graph: hostile names are text' python3 -c 'import sys, xml.etree.ElementTree as x
r = x.parse(sys.argv[1]).getroot()
sys.exit(sum(1 for _ in r.iter("{http://www.w3.org/2000/svg}script")) != 1)' "$TMP/evil.svg"
check 'folded: a semicolon in a name makes no frame' python3 -c 'import sys
sys.exit(any(len(l.rsplit(" ", 1)[0].split(";")) > 5 for l in sys.stdin))' < <("$CUDATRACE" report --format=flamegraph "$TMP/evil.jsonl")

check 'diff: the same trace' status 0 "$CUDATRACE" diff "$tokens" "$tokens"
check 'diff: says so' grep -q 'Nothing changed' "$TMP/out"
check 'diff: two traces' status 1 "$CUDATRACE" diff "$tokens" "$triton"
check 'diff: names what is gone and new' sh -c 'grep -q "gone: " "$1" && grep -q "new: " "$1"' sh "$TMP/out"
"$CUDATRACE" diff --json "$tokens" "$triton" >"$TMP/diff.json"
check 'diff: counts' changes "$tokens" "$triton" "$TMP/diff.json"
check 'diff: no such file' status 2 "$CUDATRACE" diff "$tokens" "$TMP/none"
check 'diff: one trace' status 2 "$CUDATRACE" diff "$tokens"
