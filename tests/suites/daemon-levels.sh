#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The daemon's levels: by rules of every kind, by hand, while processes make calls, and when a process becomes another program.
# takes: 40
# own processes
# shellcheck disable=SC2154 # caller sets NAME and NAME_to
set -u
. tests/lib.sh
needs_tracing daemon
command -v curl >/dev/null || { skip daemon 'needs curl'; exit 0; }
. tests/daemon.sh

form()
{
	if command -v promtool >/dev/null; then
		check 'metrics: promtool finds nothing' eval 'get "$url/metrics" | promtool check metrics'
	else
		skip 'metrics: promtool' 'promtool (package prometheus) is not installed'
	fi
	check 'metrics: of the daemon itself' shows 'total("self_resident_bytes") > 1e6 and total("self_open_fds") > 5 and total("self_cpu_seconds_total") > 0 and total("self_cost_seconds_total") > 0
		and total("build_info") == 1 and total("dropped_total") == 0'
}

# Functions outside trace.detail must not be probed.
detail()
{
	start detail --set trace.detail=low --set trace.functions='cuDriverGetVersion,!cuMemFree' || return
	worker low || { fail 'trace.detail' 'does not run'; return; }
	ask low alloc 3 >/dev/null
	ask low version 4 >/dev/null
	check 'trace.detail: its functions, and what trace.functions adds and takes' until_shows shows \
		'{f: n for f, n in by("calls_total", "function", command="w-low").items()} == {"cuInit": 1, "cuDevicePrimaryCtxRetain": 1, "cuMemAlloc_v2": 3, "cuDriverGetVersion": 4}'
	finish
}

# The level of each rule, and a new level while the process makes calls.
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

	# Two threads make calls while the level changes a hundred times: each call must be recorded once.
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
	check 'ctl: a process that is none' fails_with 'does not use CUDA' ctl level 1 trace
	check 'ctl: a burst of a number that is no process' fails_with 'a time needs its unit, as in burst 10s' ctl burst 1
	check 'ctl: a wrong verb' fails_with 'there is no command dance' ctl dance
	# Every new process is compared with each pattern, so a repeated pattern must use no more memory.
	check 'ctl: patterns are kept up to a bound' python3 tests/helpers/ctl_patterns_again.py "$sock"
	ctl reload >/dev/null
	check 'ctl: a reload makes room for patterns' is "$(ctl level none-256 off | jq .processes)" 0
	ctl reload >/dev/null

	# A burst must be a file that the report can read.
	ask plain fail 3 >/dev/null
	rm -rf "$TMP/burst.files"
	: >"$TMP/wait"
	(while [ -e "$TMP/wait" ]; do ask plain alloc 50 >/dev/null; sleep 0.01; done) &
	local busy=$!
	check 'burst: begins' is "$(ctl burst "$plain" 0.5s | jq .processes)" 1
	check 'burst: a file that is finished' until_ok 10 compgen -G "$files/trace-*.jsonl.zst"
	rm "$TMP/wait"
	wait $busy
	check 'burst: the report reads it' eval '"$CUDATRACE" report --full "$(ls "$files"/trace-*.zst | tail -1)" | grep -q "cuMemAlloc"'
	check 'burst: counted' shows 'total("bursts_total") >= 1 and total("processes", level="metrics") == 1'
	form
	for who in silent noted plain; do quit $who; done
	finish
}

# The daemon is stopped during their first calls; the levels that it reads later must also apply to those calls.
first_calls()
{
	local who
	{ rules metrics; printf '  - match: {user: nobody}\n    level: off\n'; } >"$TMP/first.yaml"
	sed -i "2a\\  - match: {command: \"*f-off\"}\\n    level: off\\n  - match: {command: \"*f-trace\"}\\n    level: trace" "$TMP/first.yaml"
	start first --set metrics.memory=false || return
	kill -STOP $daemon
	for who in off trace metrics; do
		cp "$TMP/caller" "$TMP/f-$who"
		CALLER=$TMP/f-$who caller $who
		ask $who open "$lib/libcuda.so.1" >/dev/null
		ask $who init >/dev/null
		ask $who alloc 10 >/dev/null
	done
	kill -CONT $daemon
	for who in off trace metrics; do check "first calls, then $who: it is known" until_ok 10 knows "${!who}"; done
	check 'first calls: all are counted' shows '[total("calls_total", command="f-" + w, function="cuMemAlloc_v2") for w in ("off", "trace", "metrics")] == [10] * 3'
	for who in off trace metrics; do
		ask $who alloc 5 >/dev/null
		quit $who
	done
	finish
	check 'first calls: lines are of the one that is traced' shows_now \
		'collections.Counter(e["comm"] for e in calls if e["symbol"] == "cuMemAlloc_v2") == {"f-trace": 15} and {e["comm"] for e in calls} == {"f-trace"}'
}

# NVTX ranges of a library that a running program calls: nvtx is in trace.functions.
ranges()
{
	local nvtx=$TMP/nvtx
	mkdir "$nvtx"
	${CC:-gcc} -O1 -fPIC -shared -Wl,-soname,libnvToolsExt.so.1 -o "$nvtx/libnvToolsExt.so.1" tests/nvtx/exports.c
	cat >"$nvtx/steps.c" <<-'END'
		#include "client.h"
		int main(void)
		{
			void *lib = dlopen("libcuda.so.1", RTLD_NOW), *ctx;
			uint64_t p;

			((int (*)(unsigned))dlsym(lib, "cuInit"))(0);
			((int (*)(void **, int))dlsym(lib, "cuDevicePrimaryCtxRetain"))(&ctx, 0);
			((int (*)(void *))dlsym(lib, "cuCtxSetCurrent"))(ctx);
			nvtxMarkA("ready");
			puts("ready");
			fflush(stdout);
			for (int c; (c = getchar()) != EOF;) {
				nvtxRangePushA(c == 'a' ? "one" : "another");
				((int (*)(uint64_t *, size_t))dlsym(lib, "cuMemAlloc_v2"))(&p, 4096);
				nvtxRangePop();
			}
			return 0;
		}
	END
	${CC:-gcc} -O1 -w -Itests/nvtx -o "$TMP/w-nvtx" "$nvtx/steps.c" -ldl || { fail 'ranges' 'does not compile'; return; }
	rules trace >"$TMP/ranges.yaml"
	start ranges --set trace.functions=memory,nvtx || return
	mkfifo "$nvtx/to"
	LD_LIBRARY_PATH=$lib:$nvtx NVTX_EXPORTS=libnvToolsExt.so.1 "$TMP/w-nvtx" <"$nvtx/to" >"$nvtx/said" &
	local who=$! to
	exec {to}>"$nvtx/to"
	until_ok 10 test -s "$nvtx/said" && until_ok 10 knows $who
	# The library is attached to late.
	check 'ranges: its library is seen' until_ok 10 eval 'ctl status | jq -e "any(.libraries[]; .path | test(\"nvToolsExt\"))"'
	printf aab >&$to
	exec {to}>&-
	wait $who
	finish
	check 'ranges: each once, and its call in it' shows_now \
		'collections.Counter(e.get("range") for e in calls if e["symbol"] == "cuMemAlloc_v2") == {"one": 2, "another": 1}
		and [e["text"] for e in lines if e["type"] == "range"] == ["one", "one", "another"]'
	check 'ranges: there is no key for them' fails_with 'trace.nvtx: there is no such key' "$CUDATRACE" daemon --set trace.nvtx=true
}

# Rules of every kind, each with its level; pod names are resolved as on a node.
by_rule()
{
	local d made cg=$TMP/cgroup id uid=0a1b2c3d-0011-2233-4455-66778899aabb who level where
	# Another run at the same time has other names.
	id=abab$(printf '%060x' $$)
	made=("docker/$id" "kubepods/burstable/pod$uid/$id" "odd name/of.no-known+shape $$" "kubepods/besteffort/others-$$")
	mkdir "$cg"
	# For the case that we are killed: tests/runner/contain.py removes them.
	for d in "${made[@]}"; do echo "$(findmnt -n -o TARGET -t cgroup2 | head -1)/$d" >>"$TMP/cgroups.made"; done
	# Another process that removes empty cgroups may remove our parent.
	mount -t cgroup2 none "$cg" 2>/dev/null && mkdir "$cg/docker.$$" 2>/dev/null && rmdir "$cg/docker.$$" && until_ok 2 mkdir -p "${made[@]/#/$cg/}" ||
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
		cgroup trace /odd name/of.no-known+shape $$
		user sampled /
		command metrics /
		none off /
	END
	# Lines are written out every second.
	for who in pod:trace container:metrics cgroup:trace user:sampled command:metrics none:off; do
		check "rules: by $who: calls and lines are the driver's own" until_shows all_of "${who#*:}" "k-${who%:*}"
	done
	check 'rules: labels of metrics' shows \
		'by("calls_total", "namespace", command="k-pod").keys() == {"llm"} and by("calls_total", "pod", command="k-pod").keys() == {"trainer-0"}
		and by("calls_total", "container", command="k-container").keys() == {id} and by("calls_total", "container", command="k-cgroup").keys() == {""}' id="$id"
	finish
	check 'rules: labels of lines' shows_now '[(e["namespace"], e["pod"], e["container"]) for e in calls if e["comm"] == "k-pod"][0] == ("llm", "trainer-0", id)
		and not any("container" in e or "pod" in e for e in calls if e["comm"] == "k-cgroup")' id="$id"
	for d in "${made[@]:0:3}"; do remove_cgroup "$cg" "$d"; done
	check 'rules: cgroups of others stay, empty ones too' test -d "$cg/${made[3]}"
	remove_cgroup "$cg" "${made[3]}"
	umount "$cg"
}

# remove_cgroup ROOT PATH: just after its process's end it may be busy for a moment. Also removes empty parents.
remove_cgroup() { until_ok 5 rmdir "$1/$2"; (cd "$1" && rmdir -p "${2%/*}") 2>/dev/null; }

# A program started by another (fork and exec), one that becomes another, and one that gets a reused process id.
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

	# Process ids are assigned in turn: the next one is ours unless another process takes it.
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

# The daemon's reader does not respond while it reads the command line, as on a machine that is too busy.
unread()
{
	local reading
	start unread || return
	worker read && until_ok 5 eval 'reading=$(pgrep -P "$(pgrep -P $daemon -x cudatrace-read)")' || { fail unread 'nobody reads for the daemon'; return; }
	kill -STOP "$reading"
	worker unread
	check 'a command line that cannot be read: the process has a level all the same' has "$(cat "$log")" "cannot read cmdline of process $unread: left out"
	is_read() { [ "$(ctl status | jq -r ".processes[] | select(.pid == $unread) | .level")" = metrics ]; }
	check 'a command line that could not be read is read later' until_ok 10 is_read
	ask unread alloc 10 >/dev/null
	check 'a command line that could not be read: its calls are counted from then on' until_shows shows 'total("calls_total", command="w-unread", function="cuMemAlloc_v2") == 10'
	kill -KILL "$reading"
	quit read
	quit unread
	finish
}

detail
levels
unread
ranges
first_calls
by_rule
others
