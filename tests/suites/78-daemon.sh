#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The daemon: what it counts against the stand-in driver's own counts, by level, and who gets which level.
# timeout: 240
set -u
# shellcheck disable=SC2154 # caller sets NAME and NAME_to
. tests/lib.sh
needs_tracing daemon
command -v curl >/dev/null || { skip daemon 'needs curl'; exit 0; }
. tests/daemon.sh

# Calls, launches, bytes, memory and errors of a program, by level: the same numbers.
exact()
{
	local mech=$1 set=$ALL
	has_mechanism "$mech" || { skip "daemon: $mech" "kernel $(uname -r) has none"; return; }
	# By perf events to take a function off takes 0.1 s.
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
# Its first calls may come before its level is known: they are counted then.
lines_are()
{
	mkdir -p "$TMP/last"
	cp "$TMP/metrics" "$TMP/last/metrics"
	url=file://$TMP/last shows '(lambda seen, own: len(seen) > 3 and not seen - own and sum((own - seen).values()) < 20
		and [e["symbol"] for e in calls if e["comm"] != "full"] == [])(
		collections.Counter(e["symbol"] for e in calls), collections.Counter({k: n for k, n in own(path).items() if k in by("calls_total", "function")}))' path="$1"
}

form()
{
	if command -v promtool >/dev/null; then
		check 'metrics: promtool finds nothing' eval 'get "$url/metrics" | promtool check metrics'
	else
		skip 'metrics: promtool' 'promtool (package prometheus) is not installed'
	fi
	check 'metrics: of the daemon itself' shows 'total("self_resident_bytes") > 1e6 and total("self_open_fds") > 5 and total("self_cpu_seconds_total") > 0
		and total("build_info") == 1 and total("dropped_total") == 0'
}

# Each rule's level; a new one while the process calls.
levels()
{
	{ rules metrics; printf '  - match: {user: nobody}\n    level: trace\n'; } >"$TMP/levels.yaml"
	sed -i "2a\\  - match: {command: \"*w-silent\"}\\n    level: off\\n  - match: {command: \"*w-noted*\", user: root}\\n    level: trace\\n  - match: {command: \"*w-noted*\"}\\n    level: off" "$TMP/levels.yaml"
	start levels --set metrics.memory=false --set trace.buffer_size=64M || return
	for who in silent noted plain; do worker $who || { fail "rules: $who" 'does not run'; return; }; done
	for who in silent noted plain; do
		check "rules: $who" is "$(ctl status | jq -c "[.processes[] | select(.comm == \"w-$who\") | .level, .traced]")" \
			"$(case $who in silent) echo '["off",false]' ;; noted) echo '["trace",true]' ;; plain) echo '["metrics",false]' ;; esac)"
		ask $who alloc 10 >/dev/null
	done
	check 'rules: counts' shows '[total("calls_total", command="w-" + w, function="cuMemAlloc_v2") for w in ("silent", "noted", "plain")] == [0, 10, 10]'

	# Two threads call on while the level changes a hundred times: each call is seen once.
	ask plain threads 2 150000 >"$TMP/threads" &
	asked=$!
	for _ in $(seq 25); do
		for level in trace metrics sampled trace; do ctl level "$plain" $level >/dev/null; sleep 0.01; done
	done
	wait $asked
	check 'levels that change: all calls went well' is "$(cat "$TMP/threads")" 300000
	check 'levels that change: nothing lost, nothing twice' shows \
		'total("calls_total", command="w-plain", function="cuMemAlloc_v2") + total("calls_total", command="w-plain", function="cuMemFree_v2")
		+ total("dropped_total") == 600020 and total("dropped_total") < 100000'
	check 'levels: back to the rule' is "$(ctl level "$plain" default | jq -c .)" '{"processes":1,"level":"metrics"}'
	check 'levels: a pattern' is "$(ctl level '*/w-silent' metrics | jq .processes)" 1
	ask silent alloc 7 >/dev/null
	check 'levels: a pattern: it counts now' shows 'total("calls_total", command="w-silent", function="cuMemAlloc_v2") == 7'
	ctl reload >/dev/null
	check 'levels: forgotten by a reload' is "$(ctl status | jq -r '.processes[] | select(.comm == "w-silent").level')" off
	check 'ctl: a wrong level' fails_with 'LEVEL is one of' ctl level "$plain" loud
	check 'ctl: a process that is none' fails_with 'uses no CUDA' ctl level 1 trace
	check 'ctl: a wrong verb' fails_with 'there is no dance' ctl dance

	# A burst is a file that the report reads.
	ask plain fail 3 >/dev/null
	rm -rf "$TMP/burst.files"
	: >"$TMP/wait"
	(while [ -e "$TMP/wait" ]; do ask plain alloc 50 >/dev/null; sleep 0.01; done) &
	local busy=$!
	check 'burst: begins' is "$(ctl burst "$plain" 0.5s | jq .processes)" 1
	sleep 1.2
	rm "$TMP/wait"
	wait $busy
	check 'burst: a file that is finished' compgen -G "$files/trace-*.jsonl.zst"
	check 'burst: the report reads it' eval '"$CUDATRACE" report "$(ls "$files"/trace-*.zst | tail -1)" | grep -q "cuMemAlloc"'
	check 'burst: counted' shows 'total("bursts_total") >= 1 and total("processes", level="metrics") == 1'
	form
	for who in silent noted plain; do quit $who; done
	finish
}

# What happens at level metrics begins a burst; not more often than cooldown says.
sampled()
{
	rules sampled >"$TMP/sampled.yaml"
	start sampled --set sample.trace=0.3s --set sample.every=0s --set sample.cooldown=3s --set sample.on.memory_above=1M || return
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
	sleep 3
	if echo '<4>NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.' 2>/dev/null >/dev/kmsg; then
		check 'sampled: an Xid' until_ok 3 shows 'total("xids_total", xid="79") >= 1 and total("bursts_total") >= 3'
	else
		skip 'sampled: an Xid' '/dev/kmsg cannot be written'
	fi
	quit victim
	finish
}

# Rules of every kind, each with its level; the names of pods are looked up as on a node.
by_rule()
{
	local cg=$TMP/cgroup id uid=0a1b2c3d-0011-2233-4455-66778899aabb who level where
	id=$(printf 'ab%.0s' {1..32})
	mkdir "$cg"
	mount -t cgroup2 none "$cg" 2>/dev/null && mkdir -p "$cg/docker/$id" "$cg/kubepods/burstable/pod$uid/$id" "$cg/odd name/of.no-known+shape" 2>/dev/null ||
		{ skip 'rules: cgroups' 'no cgroup can be made here'; return; }
	mkdir -p "$TMP/root/var/log/pods/llm_trainer-0_$uid"
	chmod 755 "$TMP"
	cat >"$TMP/kinds.yaml" <<-END
		level: off
		rules:
		  - match: {command: "$TMP/*", namespace: llm, pod: "trainer-*"}
		    level: trace
		  - match: {command: "$TMP/*", container: "abab*"}
		    level: metrics
		  - match: {command: "$TMP/*", cgroup: "/odd name/*"}
		    level: trace
		  - match: {command: "$TMP/*", user: nobody}
		    level: sampled
		  - match: {command: "$TMP/k-command"}
		    level: metrics
	END
	CUDATRACE_HOST_ROOT=$TMP/root start kinds || return
	while read -r who level where; do
		touch "$TMP/counts.k-$who"
		chmod 666 "$TMP/counts.k-$who"
		cp "$FAKE/sample" "$TMP/k-$who"
		(
			[ "$where" = / ] || echo $BASHPID >"$cg$where/cgroup.procs"
			export FAKE_CUDA_COUNTS=$TMP/counts.k-$who LD_LIBRARY_PATH=$lib
			[ "$who" = user ] && exec setpriv --reuid=65534 --regid=65534 --clear-groups "$TMP/k-$who" --quiet --tokens 2
			exec "$TMP/k-$who" --quiet --tokens 2
		) >/dev/null
	done <<-END
		pod trace /kubepods/burstable/pod$uid/$id
		container metrics /docker/$id
		cgroup trace /odd name/of.no-known+shape
		user sampled /
		command metrics /
		none off /
	END
	# Lines are written out every second.
	sleep 1.2
	for who in pod:trace container:metrics cgroup:trace user:sampled command:metrics none:off; do
		check "rules: by $who: calls and lines are the driver's own" all_of "${who#*:}" "k-${who%:*}"
	done
	check 'rules: labels of metrics' shows \
		'by("calls_total", "namespace", command="k-pod").keys() == {"llm"} and by("calls_total", "pod", command="k-pod").keys() == {"trainer-0"}
		and by("calls_total", "container", command="k-container").keys() == {id} and by("calls_total", "container", command="k-cgroup").keys() == {""}' id="$id"
	finish
	check 'rules: labels of lines' shows_now '[(e["namespace"], e["pod"], e["container"]) for e in calls if e["comm"] == "k-pod"][0] == ("llm", "trainer-0", id)
		and not any("container" in e or "pod" in e for e in calls if e["comm"] == "k-cgroup")' id="$id"
	until_ok 5 empty "$cg/docker" "$cg/kubepods" "$cg/odd name"
	umount "$cg"
}

# A program behind another (fork and exec), one that becomes another, and one that gets the number of one that ended.
others()
{
	local i same
	start others --set metrics.memory=false || return
	cp "$FAKE/sample" "$TMP/behind"
	FAKE_CUDA_COUNTS=$TMP/counts.behind LD_LIBRARY_PATH=$lib timeout 30 "$TMP/behind" --quiet --tokens 1 >/dev/null
	for i in 1 2 3; do FAKE_CUDA_COUNTS=$TMP/counts.behind LD_LIBRARY_PATH=$lib timeout 30 sh -c "\"$TMP/behind\" --quiet --tokens $i --layers 8" >/dev/null; done
	check "timeout PROGRAM: calls are the driver's own" until_shows all_of metrics behind

	cp "$FAKE/sample" "$TMP/becomes"
	LD_LIBRARY_PATH=$lib FAKE_CUDA_COUNTS=$TMP/counts.becomes worker was
	ask was alloc 20 >/dev/null
	(echo "exec $TMP/becomes" >&"$was_to")
	ended "$was"
	check 'exec: the first program'\''s calls stay its own' until_shows shows \
		'total("calls_total", command="w-was", function="cuMemAlloc_v2") == 20 == total("calls_total", command="w-was", function="cuMemFree_v2")
		and total("launches_total", command="w-was") == 0'
	check 'exec: the second one'\''s too' until_shows all_of metrics becomes

	# Numbers are given out in turn: the next one is ours if nobody else takes it.
	cp "$FAKE/sample" "$TMP/second"
	for i in 1 2 3 4 5 6; do
		worker first || break
		ask first alloc 10 >/dev/null
		quit first
		echo $((first - 1)) >/proc/sys/kernel/ns_last_pid
		FAKE_CUDA_COUNTS=$TMP/counts.second LD_LIBRARY_PATH=$lib "$TMP/second" --quiet >/dev/null &
		[ $! = "$first" ] && same=$((${same-0} + 1))
		wait $!
	done
	check 'the same number again' test "${same-0}" -gt 0
	check 'the same number again: each its own calls' until_shows shows \
		'total("calls_total", command="w-first", function="cuMemAlloc_v2") == 60 == total("calls_total", command="w-first", function="cuMemFree_v2")'
	check 'the same number again: the next one its own too' until_shows all_of metrics second
	finish
}
# Removes cgroups: one whose process has just ended may be busy for a moment.
empty() { local d; for d; do [ ! -d "$d" ] || find "$d" -depth -type d -exec rmdir {} + || return 1; done; }
until_shows() { until_ok 5 "$@" || "$@"; }

for mech in session multi perf; do exact $mech; done
levels
sampled
by_rule
others
