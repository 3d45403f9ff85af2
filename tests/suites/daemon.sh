#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The daemon's counts must equal the stand-in driver's own, by each mechanism. Also tests the events that begin a burst.
# takes: 50
set -u
. tests/lib.sh
needs_tracing daemon
command -v curl >/dev/null || { skip daemon 'needs curl'; exit 0; }
. tests/daemon.sh

# Calls, launches, bytes, memory and errors of a program must be the same at each level.
exact()
{
	local mech=$1 set=$ALL
	has_mechanism "$mech" || { skip "daemon: $mech" "kernel $(uname -r) has none"; return; }
	# Removing a function's perf event takes 0.1 s.
	[ "$mech" = perf ] && set='cuMemAlloc,cuMemFree,cuLaunchKernel,cuMemcpyHtoD'
	rules metrics >"$TMP/exact-$mech.yaml"
	sed -i "2a\\  - match: {command: \"$TMP/full*\"}\\n    level: trace" "$TMP/exact-$mech.yaml"
	start "exact-$mech" --mechanism="$mech" --set trace.functions="$set" --set trace.buffer_size=32M || return
	rm -f "$TMP"/counts.*
	FAKE_CUDA_COUNTS=$TMP/counts.cnt sample cnt
	FAKE_CUDA_COUNTS=$TMP/counts.full sample full
	sleep 0.3
	for who in cnt full; do
		check "$mech: $who: calls by function are the driver's own" shows \
			'(lambda got, own: got and got == {k: n for k, n in own.items() if k in got} and (few or not own.keys() - got.keys()))(
			by("calls_total", "function", command=who), own(f"{tmp}/counts.{who}"))' who=$who tmp="$TMP" few="${mech#[sm]*}"
		check "$mech: $who: the allocation that failed, by code" shows \
			'by("errors_total", "error", command=who) == {"CUDA_ERROR_OUT_OF_MEMORY": 1}' who=$who
		check "$mech: $who: it has ended and holds nothing" shows \
			'total("memory_bytes", command=who) == 0 == total("target_processes", command=who) < total("memory_peak_bytes", command=who, kind="device")' who=$who
	done
	check "$mech: memory's peak is the same at both levels" shows \
		'by("memory_peak_bytes", "kind", command="cnt") == by("memory_peak_bytes", "kind", command="full")'
	check "$mech: launches: counted, those of a capture with them" shows \
		'total("launches_total", command="cnt") == total("launches_total", command="full") + total("graph_nodes_captured_total", command="full") > 0'
	check "$mech: histograms hold every call" shows \
		'all(total("call_duration_seconds_count", command=c) == total("calls_total", command=c) for c in ("cnt", "full"))'
	finish
	check "$mech: lines are the calls of the traced one" lines_are "$TMP/counts.full"
	check "$mech: bytes by direction" shows_last \
		'(lambda b: b(True) == by("transfer_bytes_total", "direction", command="full") and b(False) == by("transfer_bytes_total", "direction", command="cnt") and b(True))(
		lambda two_d: +sum((collections.Counter({e.get("direction", "unknown"): e["size"]}) for e in calls
			if e["type"] == "transfer" and e["op"] == "copy" and not e.get("error") and (two_d or "2D" not in e["name"])), collections.Counter()))'
}
# The first calls may come before the level is known: they are then counted only.
lines_are()
{
	mkdir -p "$TMP/last"
	cp "$TMP/metrics" "$TMP/last/metrics"
	url=file://$TMP/last shows '(lambda seen, own: len(seen) > 3 and not seen - own and sum((own - seen).values()) < 20
		and [e["symbol"] for e in calls if e["comm"] != "full"] == [])(
		collections.Counter(e["symbol"] for e in calls), collections.Counter({k: n for k, n in own(path).items() if k in by("calls_total", "function")}))' path="$1"
}

# At level metrics, such events must begin a burst, but not more often than the cooldown allows.
sampled()
{
	rules sampled >"$TMP/sampled.yaml"
	start sampled --set sample.trace=0.3s --set sample.every=0s --set sample.cooldown=6s --set sample.on.memory_above=1M || return
	worker victim || return
	ask victim alloc 5 >/dev/null
	check 'sampled: no burst without a cause' shows 'total("bursts_total") == 0 and total("calls_total", command="w-victim") > 0'
	ask victim fail 2 >/dev/null
	check 'sampled: an error is seen in a second' until_ok 3 shows 'total("bursts_total") == 1'
	ask victim fail 2 >/dev/null
	sleep 1.3
	check 'sampled: the next one is not yet due' shows 'total("bursts_total") == 1 and total("errors_total", command="w-victim") == 4'
	sample big --tokens 1
	check 'sampled: memory above the limit' until_ok 3 shows 'total("bursts_total") == 2'
	sleep 6
	if echo '<4>NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.' 2>/dev/null >/dev/kmsg; then
		check 'sampled: an Xid' until_ok 3 shows 'total("xids_total", xid="79", gpu="0000:3b:00.0") >= 1 and total("bursts_total") >= 3'
	else
		skip 'sampled: an Xid' '/dev/kmsg cannot be written'
	fi
	quit victim
	finish
}

for mech in session multi perf; do exact $mech; done
sampled
