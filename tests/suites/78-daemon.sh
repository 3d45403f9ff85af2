#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The daemon: what it counts against the stand-in driver's own counts, levels, bursts, files, the flight recorder, and
# what is done to it: signals, broken configurations, other users, a folder that goes away.
# timeout: 420
set -u
. tests/lib.sh

is() { [ "$1" = "$2" ] || { echo "$1, not $2"; return 1; }; }
has() { [[ $1 == *"$2"* ]] || { printf '%s\n' "no: $2" "$1"; return 1; }; }
fails_with() { local want=$1 out; shift; out=$("$@" 2>&1) && { echo "passes: $out"; return 1; }; has "$out" "$want"; }

# The shipped example is the defaults.
config()
{
	check 'config: dist/daemon.yaml has the defaults' is "$("$CUDATRACE" daemon --check-config --config dist/daemon.yaml 2>&1)" \
		"$("$CUDATRACE" daemon --check-config --config /dev/null 2>&1)"
	check 'config: each key is in dist/daemon.yaml' eval '"$CUDATRACE" daemon --check-config --config /dev/null |
		while IFS=":." read -r key _; do grep -q "^$key:" dist/daemon.yaml || echo "$key"; done | (! grep .)'
	printf 'level: metrics\nfiles:\n  rotate_sise: 1M\n' >"$TMP/bad.yaml"
	check 'config: a wrong key: where, and what is meant' fails_with 'bad.yaml:3: files.rotate_sise: there is no such key; did you mean files.rotate_size?' \
		"$CUDATRACE" daemon --check-config --config "$TMP/bad.yaml"
	check 'config: a wrong function' fails_with 'trace.functions: ' "$CUDATRACE" daemon --check-config --set trace.functions=nosuch
	check 'config: --set without =' fails_with 'not KEY=VALUE' "$CUDATRACE" daemon --set level
	check 'ctl: nothing to do' fails_with 'Give status, level' "$CUDATRACE" ctl
	check 'ctl: no daemon' fails_with 'no cudatrace daemon listens' "$CUDATRACE" ctl status --set ctl.socket="$TMP/none.sock"
}
config
needs_tracing daemon
command -v curl >/dev/null || { skip daemon 'needs curl'; exit 0; }
unset LD_LIBRARY_PATH

# A library and programs of their own: the machine may be full of others.
lib=$TMP/lib
mkdir "$lib"
cp "$FAKE/libcuda.so.1" "$lib/"
sample() { local name=$1; shift; [ -e "$TMP/$name" ] || cp "$FAKE/sample" "$TMP/$name"; LD_LIBRARY_PATH=$lib "$TMP/$name" "$@" >/dev/null; }
${CC:-gcc} -O1 -w -o "$TMP/caller" tests/caller.c -ldl -lpthread
# worker NAME: a caller (tests/lib.sh) with that name, ready to call
worker()
{
	cp "$TMP/caller" "$TMP/w-$1"
	CALLER=$TMP/w-$1 caller "$1" && [ "$(ask "$1" open "$lib/libcuda.so.1")$(ask "$1" init)" = 10 ]
}
port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

# start NAME OPTION...: a daemon that leaves everything but our programs alone. $daemon is its pid, $url where its
# metrics are, $files its folder.
start()
{
	name=$1 files=$TMP/$1.files sock=$TMP/$1.sock log=$TMP/$1.log url=http://127.0.0.1:$(port)
	[ -e "$TMP/$1.yaml" ] || rules metrics >"$TMP/$1.yaml"
	shift
	"$CUDATRACE" daemon --config "$TMP/$name.yaml" --libcuda "$lib/libcuda.so.1" --set files.directory="$files" --set ctl.socket="$sock" \
		--set metrics.listen="${url#http://}" "$@" >"$log" 2>&1 &
	daemon=$!
	until_ok 20 curl -sf "$url/healthz" && return 0
	fail "daemon $name starts" "$(tail -3 "$log")"
	kill -9 $daemon
	return 1
}
rules() { printf 'level: off\nrules:\n  - match: {command: "%s/*"}\n    level: %s\n%s\n' "$TMP" "$1" "${2-}"; }
ctl() { "$CUDATRACE" ctl --set ctl.socket="$sock" "$@"; }
finish() { kill -TERM "${1:-$daemon}"; ended "${1:-$daemon}"; }

# shows EXPRESSION [NAME=VALUE...]: a Python expression over the metrics as they are now
#   total(family, label=value...)   the sum of the samples that have these labels
#   by(family, label, ...)          the same by the values of one label
#   lines                           events of the daemon's files, as far as they are on the disk
#   own(file)                       calls by function that the stand-in driver counted
shows()
{
	curl -sf "$url/metrics" >"$TMP/metrics" || { echo 'no metrics'; return 1; }
	python3 - "$TMP/metrics" "$files" "$@" <<'END'
import collections, glob, json, re, subprocess, sys
samples = []
for line in open(sys.argv[1]):
    m = re.match(r'cudatrace_(\w+)(?:\{(.*)\})? (\S+)$', line)
    if m:
        samples.append((m[1], dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', m[2] or "")), float(m[3])))
def by(family, label, **want):
    out = collections.Counter()
    for name, labels, value in samples:
        if name == family and all(labels.get(k) == v for k, v in want.items()):
            out[labels.get(label, "")] += value
    return +out
def total(family, **want):
    return sum(by(family, "", **want).values())
def read(pattern):
    for path in sorted(glob.glob(sys.argv[2] + "/" + pattern)):
        text = subprocess.run(["zstd", "-dcq", path], capture_output=True).stdout
        yield from (json.loads(l) for l in text.decode().splitlines() if l.endswith("}"))
def own(path):
    return collections.Counter({l.split()[0]: int(l.split()[1]) for l in open(path)})
lines = list(read("trace-*"))
calls = [e for e in lines if "symbol" in e]
for arg in sys.argv[4:]:
    name, _, value = arg.partition("=")
    globals()[name] = value
try:
    result = eval(f"({sys.argv[3]})")
except Exception as e:
    sys.exit(f"{sys.argv[3]}: {type(e).__name__}: {e}")
if not result:
    sys.exit(f"not so: {sys.argv[3]}\n" + "\n".join(f"{s}" for s in samples if "command" in s[1] and s[2])[:3000])
END
}

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
# The metrics of before the end, the files as they are now.
shows_last() { url=file://$TMP/last shows "$@"; }
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
		check 'metrics: promtool finds nothing' eval 'curl -sf "$url/metrics" | promtool check metrics'
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

# The error, and what came before it.
recorder()
{
	rules trace >"$TMP/rec.yaml"
	start rec --set recorder.on.error=true --set sample.cooldown=1h || return
	worker flyer || return
	ask flyer alloc 100 >/dev/null
	ask flyer fail 1 >/dev/null
	check 'recorder: an error makes a dump' until_ok 3 compgen -G "$files/dump-*.jsonl.zst"
	zstd -dcq "$files"/dump-*.jsonl.zst >"$TMP/dump.jsonl"
	check 'recorder: the failed call is in it, after what came before' holds "$TMP/dump.jsonl" \
		'(sym["cuMemAlloc_v2"] == 100 and [c["symbol"] for c in calls if c.get("error")] == ["cuMemFree_v2"] and calls[-1].get("error") and sym["cuInit"] == 1
		and end["reason"] == "dump: error")'
	check 'recorder: the report reads it' eval '"$CUDATRACE" report "$TMP/dump.jsonl" | grep -q "cuMemAlloc"'
	ask flyer fail 5 >/dev/null
	sleep 0.5
	check 'recorder: not again within cooldown' is "$(compgen -G "$files/dump-*" | wc -l)" 1
	check 'recorder: when it is asked for' is "$(ctl dump mine.zst | jq -r .file)" "$files/mine.zst"
	check 'recorder: a file that is there is not written over' fails_with 'File exists' ctl dump mine.zst
	check 'recorder: where root says' is "$(ctl dump "$TMP/here.zst" | jq -r .file)" "$TMP/here.zst"

	# The folder goes away while lines are written.
	rm -rf "$files"
	mv "$TMP/rec.files" "$TMP/gone" 2>/dev/null
	ask flyer alloc 100 >/dev/null
	ctl dump >/dev/null 2>&1
	check 'folder gone: it runs on' shows 'total("calls_total", command="w-flyer", function="cuMemAlloc_v2") == 200'
	quit flyer
	finish
	check 'folder gone: it ends well' is $? 0
}

labels()
{
	local cg=$TMP/cgroup id
	id=$(printf 'ab%.0s' {1..32})
	mkdir "$cg"
	mount -t cgroup2 none "$cg" 2>/dev/null && mkdir -p "$cg/docker/$id" 2>/dev/null || { skip labels 'no cgroup can be made here'; return; }
	rules trace >"$TMP/lab.yaml"
	sed -i "2a\\  - match: {container: \"abab*\", command: \"*/boxed\"}\\n    level: trace\\n  - match: {command: \"*/boxed\"}\\n    level: off" "$TMP/lab.yaml"
	start lab || return
	cp "$FAKE/sample" "$TMP/boxed"
	sample boxed --tokens 1
	(echo $BASHPID >"$cg/docker/$id/cgroup.procs" && sample boxed --tokens 1)
	sleep 0.3
	check 'labels: metrics of the container' shows 'total("calls_total", command="boxed", container=id) > 50 and total("launches_total", command="boxed", container="") == 0' id="$id"
	finish
	check 'labels: in every line' shows_now 'calls and all(e.get("container") == id for e in calls)' id="$id"
	rmdir "$cg/docker/$id" "$cg/docker"
	umount "$cg"
}
shows_now() { mkdir -p "$TMP/last"; : >"$TMP/last/metrics"; url=file://$TMP/last shows "$@"; }

# What is done to it.
life()
{
	local pid first out
	rules metrics >"$TMP/life.yaml"
	# What systemd would be told.
	python3 -c 'import socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); s.bind(sys.argv[1])
while 1: print(s.recv(4096).decode(), flush=True)' "$TMP/notify" >"$TMP/notified" &
	local listener=$!
	until_ok 5 test -S "$TMP/notify"
	NOTIFY_SOCKET=$TMP/notify start life || return
	check 'notify: READY=1' until_ok 3 grep -q READY=1 "$TMP/notified"
	check 'notify: WATCHDOG=1' until_ok 3 grep -q WATCHDOG=1 "$TMP/notified"

	first=$daemon
	check 'a second daemon is refused' fails_with 'another cudatrace daemon runs' \
		timeout 20 "$CUDATRACE" daemon --set ctl.socket="$sock" --set metrics.listen=
	check 'a port that is taken' fails_with 'cannot listen on' \
		timeout 20 "$CUDATRACE" daemon --set ctl.socket="$TMP/other.sock" --set metrics.listen="${url#http://}"
	check 'a group that is not there' fails_with 'there is no group nosuch' \
		timeout 20 "$CUDATRACE" daemon --set ctl.socket="$TMP/other.sock" --set ctl.group=nosuch --set metrics.listen=
	check 'the first one is there still' shows 'total("self_resident_bytes") > 0'

	# Another user: by the socket's mode, and should that be wider, by who he is.
	check 'ctl: the socket is root'\''s' is "$(stat -c '%U %a' "$sock")" 'root 600'
	chmod 755 "$TMP"
	check 'ctl: another user does not get in' fails_with 'is for root and members' \
		setpriv --reuid=65534 --regid=65534 --clear-groups "$CUDATRACE" ctl status --set ctl.socket="$sock"
	chmod 666 "$sock"
	check 'ctl: another user is refused' fails_with 'only root and members of ctl.group' \
		setpriv --reuid=65534 --regid=65534 --clear-groups "$CUDATRACE" ctl status --set ctl.socket="$sock"

	# Read again: a broken file changes nothing.
	echo 'levle: trace' >"$TMP/life.yaml"
	kill -HUP $first
	check 'reload: a broken file is counted' until_ok 3 shows 'total("config_reload_failures_total") == 1 and total("config_reloads_total") == 0'
	check 'reload: and told' grep -q "life.yaml:1: levle: there is no such key; did you mean level?" "$log"
	check 'reload: by ctl too' fails_with 'there is no such key' ctl reload
	check 'reload: the old one holds' is "$(ctl status | jq -r .level)" off
	{ rules trace; printf 'ctl: {group: nogroup}\n'; } >"$TMP/life.yaml"
	kill -HUP $first
	check 'reload: a good one' until_ok 3 shows 'total("config_reloads_total") == 1'
	check 'reload: the socket is the group'\''s' is "$(stat -c '%G %a' "$sock")" 'nogroup 660'
	check 'ctl: a member of the group' setpriv --reuid=65534 --regid=65534 --clear-groups "$CUDATRACE" ctl status --set ctl.socket="$sock"
	check 'ctl: who is no root names no folder' fails_with 'only root may name a folder' \
		setpriv --reuid=65534 --regid=65534 --clear-groups "$CUDATRACE" ctl dump "$TMP/x.zst" --set ctl.socket="$sock"
	check 'notify: RELOADING=1' grep -q RELOADING=1 "$TMP/notified"

	out=${EPOCHREALTIME/./}
	finish $first
	check 'TERM: status' is $? 0
	out=$((${EPOCHREALTIME/./} - out))
	check 'TERM: in under a second' test $out -lt 1000000
	check 'TERM: the socket is gone' test ! -e "$sock"
	check 'notify: STOPPING=1' grep -q STOPPING=1 "$TMP/notified"
	kill $listener
	ended $listener 2>/dev/null

	# Killed: its socket is in the way, and is not.
	rules metrics >"$TMP/life.yaml"
	start life || return
	kill -9 $daemon
	ended $daemon 2>/dev/null
	check 'killed: its socket is left' test -S "$sock"
	start life && pass 'killed: the next one takes its place'
	finish
}

libs() { ctl status | jq ".libraries | length"; }
value_of() { sed -n "s/^cudatrace_$1 //p" "$2"; }
grown_less()
{
	local a b
	a=$(value_of "$1" "$TMP/metrics.40") b=$(value_of "$1" "$TMP/metrics")
	[ $((b - a)) -lt "$2" ] || { echo "$a, then $b"; return 1; }
}

# Processes that come and go leave nothing behind.
flat()
{
	local libs=0
	start flat || return
	cp "$FAKE/sample" "$TMP/brief"
	for i in $(seq 200); do
		sample brief --tokens 1 --layers 1
		[ "$i" = 40 ] && { sleep 1.2; shows True; libs=$(libs); cp "$TMP/metrics" "$TMP/metrics.40"; }
	done
	sleep 1.2
	check 'two hundred processes: all are counted, none is left' shows \
		'total("calls_total", command="brief", function="cuGraphLaunch") % 200 == 0 < total("calls_total", command="brief", function="cuLaunchKernel")
		and total("target_processes", command="brief") == 0 == total("memory_bytes", command="brief") == total("dropped_total")'
	# A connection of a scrape may be about to close; and other people's libraries may have come meanwhile.
	check 'two hundred processes: descriptors' grown_less self_open_fds $((3 + 2 * ($(libs) - libs)))
	check 'two hundred processes: memory' grown_less self_resident_bytes 1500000
	finish
}

for mech in session multi perf; do exact $mech; done
levels
sampled
recorder
labels
life
flat
