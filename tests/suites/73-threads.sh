#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Nothing is lost in any thread: what the stand-in driver counted in each (FAKE_TID_COUNTS) is what the trace has of it,
# under every kind of load and every way in which a call can end.
# takes: 40
set -u
. tests/lib.sh
needs_tracing threads
unset LD_LIBRARY_PATH

gcc=${CC:-gcc}
$gcc -O1 -w -o "$TMP/life" tests/faults/life.c -ldl -lpthread || { fail 'threads' 'no target'; exit; }

# agrees NAME FLAG PROGRAM...: traces the program; FLAG for per_thread.py, or ''. More options: OPT.
agrees()
{
	local name=$1 flag=$2 out
	shift 2
	rm -f "$TMP/tids" "$TMP/t.jsonl"
	LD_LIBRARY_PATH=${LIB:-$FAKE} FAKE_TID_COUNTS=$TMP/tids timeout -k 5 60 "$CUDATRACE" -q -e "$ALL" --buffer-size 64M "${OPT[@]}" \
		--jsonl "$TMP/t.jsonl" -- "$@" >"$TMP/out" 2>"$TMP/err"
	# shellcheck disable=SC2086 # no flag is no argument
	if out=$(tests/cases/per_thread.py $flag "$TMP/t.jsonl" "$TMP/tids" 2>&1); then
		pass "$name"
		echo "# $out"
	else
		fail "$name" "$out"
	fi
	check "$name: the trace as a whole" holds "$TMP/t.jsonl" 'accounts(drops=flag in ("--drops", "--killed"))' flag="$flag"
}

# One thread frees an address, another has it before the first one's record comes.
reused_addresses()
{
	${CC:-gcc} -O1 -w -o "$TMP/caller" tests/caller.c -ldl -lpthread
	# shellcheck disable=SC2016 # the inner shell's
	env -u FAKE_NO_SEM LD_LIBRARY_PATH="$FAKE" "$CUDATRACE" -q -e memory,init --buffer-size 64M --jsonl "$TMP/reuse.jsonl" --chrome "$TMP/reuse.json" -- \
		sh -c 'for i in $(seq 20); do printf "open libcuda.so.1\ninit\nthreads 48 100\n" | "$0"; done' "$TMP/caller" >/dev/null
	check 'threads that reuse addresses: nothing is lost' holds "$TMP/reuse.jsonl" 'sym["cuMemFree_v2"] == 20 * 4800 and accounts()'
	check 'threads that reuse addresses: live memory of twenty programs, to the byte' python3 - "$TMP/reuse.json" <<'END'
import collections, json, sys
events = json.load(open(sys.argv[1]))
events = events.get("traceEvents", events) if isinstance(events, dict) else events
seen = collections.defaultdict(list)
for e in events:
    if e.get("ph") == "C" and e["name"] == "device memory":
        seen[e["pid"]].append(e["args"]["bytes"])
bad = {p: (v[-3:], max(v)) for p, v in seen.items() if v[-1] != 0 or max(v) > 48 * 4096}
sys.exit(f"{len(seen)} programs, not right: {bad}" if bad or len(seen) != 20 else 0)
END
}

OPT=()
for mech in session multi perf; do
	has_mechanism $mech || { skip "8 threads, $mech" 'not in this kernel'; continue; }
	OPT=(--mechanism=$mech)
	# Hundreds of single events take long to attach.
	[ $mech = perf ] && OPT+=(-e cuInit,cuDeviceGet,cuDevicePrimaryCtxRetain,cuCtxSetCurrent,cuMemAlloc,cuMemsetD8,cuMemFree)
	agrees "8 threads, $mech" '' "$CASES/threads"
done
OPT=()
LIB=$FAKE535 agrees '8 threads, entry points of driver 535' '' "$CASES/threads"
agrees 'streams and events' '' "$CASES/streams_events"
agrees 'processes that fork' '' "$CASES/fork"
agrees 'processes that exec' '' "$CASES/exec"
agrees 'an exit in a call' '' "$CASES/exit_in_call"
agrees 'longjmp out of callbacks' '' "$CASES/longjmp"
agrees 'calls inside of calls' '' "$CASES/nested"
agrees 'threads of an inference' '' "$FAKE/sample" --threads 8 --tokens 20 --quiet

lib=$FAKE/libcuda.so.1
agrees '1,000 threads' '' "$TMP/life" "$lib" threads 1000
agrees '500 processes' '' "$TMP/life" "$lib" procs 500
agrees 'vfork' '' "$TMP/life" "$lib" vfork 20
agrees 'threads cancelled in a call' '' "$TMP/life" "$lib" cancel 10
agrees 'siglongjmp out of calls' --left "$TMP/life" "$lib" jump 30
agrees 'processes killed in a call' '' "$TMP/life" "$lib" kill 10
agrees 'a crash in a call' '' "$TMP/life" "$lib" crash
agrees 'an exec in a call' '' "$TMP/life" "$lib" exec

# The check can fail: one call less, and one that did not return.
sed '0,/"symbol":/{/"symbol":/d}' "$TMP/t.jsonl" >"$TMP/less.jsonl"
sed '0,/"result":0,/s///' "$TMP/t.jsonl" >"$TMP/left.jsonl"
for bad in less left; do
	tests/cases/per_thread.py "$TMP/$bad.jsonl" "$TMP/tids" >/dev/null 2>&1
	check "a trace that is wrong by one call ($bad) is found out" test $? = 1
done

# As fast as they can: with room for all, and without.
export FAKE_NO_SEM=1
OPT=(--buffer-size 256M)
agrees '4 threads at full speed' '' "$CASES/many" cuMemFree_v2 50000 4
OPT=(--buffer-size 64K)
agrees '4 threads at full speed, a small ring' --drops "$CASES/many" cuMemFree_v2 50000 4
check '4 threads at full speed, a small ring: calls were dropped' holds "$TMP/t.jsonl" 'end["drops"]["calls"] > 0'
# shellcheck disable=SC2016 # the inner shell's
OPT=(--buffer-size 256M)
agrees 'killed at full speed' --killed sh -c 'for i in 1 2 3 4; do timeout -s KILL 0.08 "$@"; done; :' sh "$CASES/many" cuMemFree_v2 100000000 2
# What lived in a context goes with it: destroyed, and a primary one released for the last time.
destroyed_contexts()
{
	cat >"$TMP/contexts.py" <<'END'
import ctypes, sys
cu = ctypes.CDLL(sys.argv[1])
ctx, p = ctypes.c_void_p(), ctypes.c_uint64()
assert not cu.cuInit(0) and not cu.cuCtxCreate_v2(ctypes.byref(ctx), 0, 0)
assert not cu.cuMemAlloc_v2(ctypes.byref(p), ctypes.c_size_t(1 << 20))
assert not cu.cuCtxDestroy_v2(ctx)
assert not cu.cuDevicePrimaryCtxRetain(ctypes.byref(ctx), 0) and not cu.cuCtxSetCurrent(ctx)
assert not cu.cuMemAlloc_v2(ctypes.byref(p), ctypes.c_size_t(4096))
assert not cu.cuDevicePrimaryCtxRelease_v2(0)
END
	"$CUDATRACE" -q -e init,context,memory --libcuda "$FAKE/libcuda.so.1" --jsonl "$TMP/contexts.jsonl" --summary --json -- \
		python3 "$TMP/contexts.py" "$FAKE/libcuda.so.1" 2>"$TMP/contexts.json"
	check 'memory of destroyed contexts: the summary' python3 -c '
import json, sys
device = json.load(open(sys.argv[1]))["memory"][0]
sys.exit((device["allocated"], device["peak"], device["at_end"]) != (1052672, 1048576, 0) and str(device))' "$TMP/contexts.json"
}
reused_addresses
unset FAKE_NO_SEM
destroyed_contexts
