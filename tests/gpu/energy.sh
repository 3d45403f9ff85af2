#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# usage: energy.sh CUDATRACE OUT
# Energy of GPT-2, and of two processes that share a GPU: the parts of the report must add up to NVML's counter, which nvidia-smi's
# power samples check roughly. Prints the sections.
set -eu
tracer=$1 out=$2
here=$(dirname "$0")
mkdir -p "$out"

stats() { # name, report options...
	local name=$1
	shift
	"$tracer" report --format=json --section=energy "$@" "$out/$name.jsonl" >"$out/$name.json"
	"$tracer" report --section=energy "$@" "$out/$name.jsonl"
}

nvidia-smi --query-gpu=timestamp,power.draw --format=csv,noheader,nounits -lms 100 >"$out/smi.csv" &
smi=$!
trap 'kill $smi 2>/dev/null' EXIT
"$tracer" -q --gpu-stats=100 --gpu-time --jsonl "$out/gpt2.jsonl" -- bash -c "
	python3 $here/gpt2.py --tokens 100 --rounds 10; sleep 2" >"$out/gpt2.txt" 2>&1 || tail -3 "$out/gpt2.txt"
stats gpt2 --price-per-kwh 0.25 --price-per-gpu-hour 2.5
# Two processes with time slices; the second begins later and works half as long.
"$tracer" -q --gpu-stats=100 --gpu-time --gpu-ctxsw --jsonl "$out/two.jsonl" -- bash -c "
	cd $here; python3 -c 'import busy; busy.busy_for(1, 8, 0.1, 4096)' &
	sleep 4; python3 -c 'import busy; busy.busy_for(1, 4, 0.1, 4096)'; wait; sleep 2" >"$out/two.txt" 2>&1 || tail -3 "$out/two.txt"
stats two
kill $smi
python3 - "$out" <<'EOF'
import csv, json, sys
out = sys.argv[1]
for name in ("gpt2", "two"):
    e = json.load(open(f"{out}/{name}.json"))["energy"]
    for g in e["gpus"]:
        parts = g["idle_joules"] + g["other_joules"] + sum(p["joules"] for p in e["processes"] if p["gpu"] == g["gpu"])
        print(name, "counter", g["joules"], "parts", round(parts, 3), "difference %.4f %%" % (100 * (parts / g["joules"] - 1)))
watts = [float(r[1]) for r in csv.reader(open(f"{out}/smi.csv")) if len(r) > 1]
print("nvidia-smi: mean %.1f W of %d samples" % (sum(watts) / len(watts), len(watts)))
EOF
