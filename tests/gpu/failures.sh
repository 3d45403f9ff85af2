#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# What the report concludes about planted failures, on a machine with a GPU and nvcc, as root:
#   tests/gpu/failures.sh CUDATRACE FOLDER
# Prints a table: case, how it was traced, the first kernel of the verdict, whether it is called certain, the memory at the address, and
# the program's own message.
set -u
ct=$(realpath "$1") out=$2
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$out"
nvcc -arch=native -lineinfo -o "$out/failures" "$here/failures.cu" || exit 1
for how in "--probe=uprobe --kernel" --probe=uprobe --probe=inject; do
	for which in use_after_free past_end_4_bytes past_end_1_gib null_pointer misaligned stack_overflow traps asserts endless host_flag never_recorded none; do
		trace=$out/$which-${how//[^a-z]/}.jsonl
		timeout -s KILL 30 "$ct" -q $how --stack --duration 4 --jsonl "$trace" -- timeout -s KILL 6 "$out/failures" $which >"$trace.said" 2>&1
		"$ct" report --json "$trace" 2>/dev/null | python3 -c '
import json, sys
report = json.load(sys.stdin)
rows = report.get("failure") or []
first = rows[0] if rows else {}
suspects = first.get("suspects") or [{}]
name = (suspects[0].get("kernel") or suspects[0].get("call") or "-").split("(")[0]
memory = first.get("memory") or {}
with open(sys.argv[3], encoding="utf-8", errors="replace") as f:
    said = [line.split(": ")[1].split(";")[0] for line in f if line.startswith(sys.argv[1] + ": ")]
print("| `%s` | %s | %s | %s | %s | %s | %s |" % (sys.argv[1], sys.argv[2], first.get("kind", ""), name, first.get("certain", ""), memory.get("state", ""), *(said or ["(killed)"])))
' "$which" "$how" "$trace.said"
	done
done
