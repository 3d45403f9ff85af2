#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# What a trace says that it cost the program, against what it did: CPU time of the program's threads with probes and
# without, in turns, in one process (tests/cost.c).
# takes: 90
set -u
. tests/lib.sh
needs_tracing cost

cc=${CC:-gcc}
"$cc" -O1 -fno-omit-frame-pointer -o "$TMP/cost" tests/cost.c -ldl -lpthread &&
	"$cc" -shared -nostdlib -o "$TMP/libcuda.so.1" tests/cost_lib.S && cp "$TMP/libcuda.so.1" "$TMP/plain.so" ||
	{ fail 'cost' 'tests/cost.c does not build'; exit 0; }

# run [OPTION...] -- ARGUMENT...: what the trace says, as a multiple of what it did cost; a line of $TMP/ratios
run()
{
	local options=()
	while [ "$1" != -- ]; do options+=("$1"); shift; done
	shift
	timeout 60 "$CUDATRACE" -q --buffer-size 64M -e cuCtxSetCurrent,cuCtxGetDevice "${options[@]}" --jsonl "$TMP/t.jsonl" -- \
		"$TMP/cost" "$TMP/libcuda.so.1" "$TMP/plain.so" "$@" >"$TMP/truth" 2>"$TMP/err" || { cat "$TMP/err"; return 1; }
	python3 - "$TMP/truth" "$TMP/t.jsonl" >>"$TMP/ratios" <<-'EOF'
		import collections, json, sys
		truth = open(sys.argv[1]).read().split()
		with open(sys.argv[2]) as f:
		    end = json.loads(collections.deque(f, 1)[0])
		assert end["entries"] == int(truth[1]), (end["entries"], truth)
		print(end["cost_ms"] * 1e6 / int(truth[3]), end["cost_ms"] * 1e6 / end["entries"])
	EOF
}

# near SHARE [OPTION...] -- ARGUMENT...: the median of three is that near to the truth, at the third try at the latest: others may
# have had the processors, but what is wrong by more is so each time.
near()
{
	for _ in 1 2 3; do median_is_near "$@" >"$TMP/near" && return; done
	cat "$TMP/near"
	return 1
}
median_is_near()
{
	local share=$1
	shift
	: >"$TMP/ratios"
	for _ in 1 2 3; do run "$@" || return 1; done
	python3 - "$share" "$TMP/ratios" <<-'EOF'
		import statistics, sys
		share, rows = float(sys.argv[1]), [[float(x) for x in l.split()] for l in open(sys.argv[2])]
		ratio = statistics.median(r[0] for r in rows)
		print(f"says {ratio:.2f} times what it cost:", rows)
		sys.exit(not 1 - share <= ratio <= 1 + share)
	EOF
}

# What a call costs is measured in a file that the tracer alone has: the kernel goes through all probes of a place of a file
# for each process, so in the executable others that start at that moment would be measured, too; and who runs it
# would have a breakpoint there, which valgrind takes for the program's (SIGTRAP).
measured()
{
	local mech
	for mech in session multi perf; do
		has_mechanism $mech || continue
		check "$mech: measuring is in the tracer alone" python3 - "$CUDATRACE" "$mech" "$TMP/libcuda.so.1" "$TMP/measured.jsonl" <<-'END'
			import os, subprocess, sys, time
			program, mech, lib, out = sys.argv[1:]
			names = [line.split() for line in subprocess.check_output(["nm", program], text=True).splitlines()]
			place = next(int(n[0], 16) for n in names if n[-1] == "cudatrace_stub")
			def byte(pid, name, offset):
			    "What the process has there of a file; None: it does not map it."
			    with open(f"/proc/{pid}/maps") as f:
			        base = next((int(line.split("-")[0], 16) for line in f if name in line), None)
			    if base is None:
			        return None
			    with open(f"/proc/{pid}/mem", "rb") as f:
			        f.seek(base + offset)
			        return f.read(1)
			with open(program, "rb") as f:
			    f.seek(place)
			    was = f.read(1)
			tracer = subprocess.Popen([program, "-q", f"--mechanism={mech}", "--libcuda", lib, "-e", "cuInit", "--jsonl", out, "--", "sleep", "2"])
			seen, elsewhere, other = 0, 0, None
			while tracer.poll() is None:
			    try:
			        if not other:
			            # cudatrace-read: the first of its children
			            other = int(open(f"/proc/{tracer.pid}/task/{tracer.pid}/children").read().split()[0])
			        seen += byte(tracer.pid, "/memfd:cudatrace-stubs", 0) not in (None, was)
			        elsewhere += any(byte(pid, os.path.realpath(program), place) not in (None, was) for pid in (tracer.pid, other))
			    except (OSError, IndexError):
			        continue
			    time.sleep(0.002)
			if not seen or elsewhere or tracer.returncode:
			    sys.exit(f"seen {seen} times here, {elsewhere} elsewhere, status {tracer.returncode}")
		END
	done
}
measured

plain='cuCtxSetCurrent 10 2000' stepped='cuCtxGetDevice 10 300'
# Of tests/cost.c: threads, frames, KB
for mech in session multi perf; do
	has_mechanism $mech || { skip "cost: $mech" "kernel $(uname -r) has none"; continue; }
	m=--mechanism=$mech
	# shellcheck disable=SC2086 # words
	{
		check "$mech: recorded" near 0.25 $m -- $plain 1 0 0
		check "$mech: single-stepped" near 0.25 $m -- $stepped 1 0 0
		# To take a perf event off takes 0.1 s.
		[ $mech != perf ] || continue
		check "$mech: counted" near 0.25 $m --count=all -- $plain 1 0 0
		check "$mech: entries" near 0.25 $m --no-return=all -- $plain 1 0 0
		check "$mech: counted entries" near 0.25 $m --no-return=all --count=all -- $plain 1 0 0
		check "$mech: stacks" near 0.25 $m --stack -- $plain 1 16 0
		check "$mech: threads" near 0.25 $m -- $plain 4 0 0
	}
done
# Caches that hold nothing of it: how much longer the kernel's part takes then is inferred, not measured, and what a call
# costs depends on who else uses the cache.
# shellcheck disable=SC2086
check 'cold caches' near 0.4 -- cuCtxSetCurrent 20 200 1 0 1024
