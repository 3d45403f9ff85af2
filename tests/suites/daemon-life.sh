#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The daemon's configuration and life: signals, broken files, other users, endless processes, a folder that disappears; and the flight
# recorder.
# takes: 90
# own processes
set -u
. tests/lib.sh
. tests/daemon.sh

# The shipped example must equal the defaults.
config()
{
	check 'config: dist/daemon.yaml has the defaults' is "$("$CUDATRACE" daemon --check-config --config dist/daemon.yaml 2>&1)" \
		"$("$CUDATRACE" daemon --check-config --config /dev/null 2>&1)"
	check 'config: each key is in dist/daemon.yaml' eval '"$CUDATRACE" daemon --check-config --config /dev/null |
		while IFS=":." read -r key _; do grep -q "^$key:" dist/daemon.yaml || echo "$key"; done | (! grep .)'
	printf 'level: metrics\nfiles:\n  rotate_sise: 1M\n' >"$TMP/bad.yaml"
	check 'config: a wrong key: where, and what is meant' fails_with 'bad.yaml:3: files.rotate_sise: there is no such key; did you mean files.rotate_size?' \
		"$CUDATRACE" daemon --check-config --config "$TMP/bad.yaml"
	check 'config: a daemon that does not start: a line for each' is "$("$CUDATRACE" daemon --set files.total_size=1M --set trace.buffer_size=3M 2>&1 |
		sed -n 's/^cudatrace: .*\(files.rotate_size\|trace.buffer_size\).*[^?]$/\1/p' | xargs)" 'files.rotate_size trace.buffer_size'
	check 'config: a dump that would never fit' fails_with 'do not fit into files.total_size (32M): lower recorder.memory' \
		"$CUDATRACE" daemon --check-config --set files.total_size=32M --set files.rotate_size=4M
	check 'config: what a terminal would obey is not shown' eval '! "$CUDATRACE" daemon --check-config --set "$(printf "level=\302\233\342\200\256x")" 2>&1 | grep -q -e "$(printf "\302\233")" -e "$(printf "\342\200\256")"'
	check 'config: a wrong function' fails_with 'trace.functions: ' "$CUDATRACE" daemon --check-config --set trace.functions=nosuch
	check 'config: --set without =' fails_with 'not KEY=VALUE' "$CUDATRACE" daemon --set level
	check 'ctl: nothing to do' fails_with 'give status, level' "$CUDATRACE" ctl
	check 'ctl: no daemon' fails_with 'no cudatrace daemon listens' "$CUDATRACE" ctl status --set ctl.socket="$TMP/none.sock"
}
config
needs_tracing daemon
command -v curl >/dev/null || { skip daemon 'needs curl'; exit 0; }

# Events in the daemon's life.
life()
{
	local first out
	rules metrics >"$TMP/life.yaml"
	# The notifications to systemd.
	python3 tests/helpers/notified.py "$TMP/notify" >"$TMP/notified" &
	local listener=$!
	until_ok 5 test -S "$TMP/notify"
	NOTIFY_SOCKET=$TMP/notify start life || return
	check 'notify: READY=1' until_ok 3 grep -q READY=1 "$TMP/notified"
	check 'notify: WATCHDOG=1' until_ok 3 grep -q WATCHDOG=1 "$TMP/notified"

	first=$daemon
	check 'a second daemon is refused' fails_with 'another cudatrace daemon listens' \
		timeout 20 "$CUDATRACE" daemon --set ctl.socket="$sock" --set metrics.listen=
	check 'a port that is taken' fails_with 'cannot listen on' \
		timeout 20 "$CUDATRACE" daemon --set ctl.socket="$TMP/other.sock" --set metrics.listen="${url#http://}"
	check 'a group that is not there' fails_with 'there is no group nosuch' \
		timeout 20 "$CUDATRACE" daemon --set ctl.socket="$TMP/other.sock" --set ctl.group=nosuch --set metrics.listen=
	check 'the first one is there still' shows 'total("self_resident_bytes") > 0'

	# Other users are refused by the socket's mode, and, if the mode is wider, by their user id.
	check 'ctl: the socket is root'\''s' is "$(stat -c '%U %a' "$sock")" 'root 600'
	chmod 755 "$TMP"
	check 'ctl: another user does not get in' fails_with 'only root and members of ctl.group may use' \
		setpriv --reuid=65534 --regid=65534 --clear-groups "$CUDATRACE" ctl status --set ctl.socket="$sock"
	chmod 666 "$sock"
	check 'ctl: another user is refused' fails_with 'only root and members of ctl.group' \
		setpriv --reuid=65534 --regid=65534 --clear-groups "$CUDATRACE" ctl status --set ctl.socket="$sock"

	# Reload: a broken file must change nothing.
	echo 'levle: trace' >"$TMP/life.yaml"
	kill -HUP $first
	check 'reload: a broken file is counted' until_ok 3 shows 'total("config_reload_failures_total") == 1 and total("config_reloads_total") == 0'
	check 'reload: and told' grep -q "life.yaml:1: levle: there is no such key; did you mean level?" "$log"
	check 'reload: by ctl too' fails_with 'there is no such key' ctl reload
	check 'reload: the old one holds' is "$(ctl status | jq -r .level)" off
	{ rules trace; printf 'ctl: {group: nogroup}\n'; } >"$TMP/life.yaml"
	kill -HUP $first
	check 'reload: a good one' until_ok 3 shows 'total("config_reloads_total") == 1'
	{ rules trace; printf 'ctl: {group: nogroup}\ntrace: {inject_folder: /tmp/elsewhere, gpu_pending_size: 9M}\notlp: {slow_call: 7ms}\n'; } >"$TMP/life.yaml"
	ctl reload >/dev/null
	{ rules trace; printf 'ctl: {group: nogroup}\n'; } >"$TMP/life.yaml"
	ctl reload >/dev/null
	check 'reload: what takes a restart is told, there and back' is "$(grep -o '[^ ]* has changed: .*' "$log" | sort | uniq -c | tr -s ' \n' ' ,')" \
		' 2 trace.gpu_pending_size has changed: restart the daemon to apply it, 2 trace.inject_folder has changed: restart the daemon to apply it,'
	check 'reload: the socket is the group'\''s' is "$(stat -c '%G %a' "$sock")" 'nogroup 660'
	check 'ctl: a member of the group' setpriv --reuid=65534 --regid=65534 --clear-groups "$CUDATRACE" ctl status --set ctl.socket="$sock"
	check 'ctl: who is no root names no folder' fails_with 'only root may choose a directory' \
		setpriv --reuid=65534 --regid=65534 --clear-groups "$CUDATRACE" ctl dump "$TMP/x.zst" --set ctl.socket="$sock"
	check 'notify: RELOADING=1' grep -q RELOADING=1 "$TMP/notified"

	out=${EPOCHREALTIME/./}
	finish $first
	check 'TERM: status' is $? 0
	out=$((${EPOCHREALTIME/./} - out))
	check 'TERM: the socket is gone' test ! -e "$sock"
	check 'notify: STOPPING=1' grep -q STOPPING=1 "$TMP/notified"
	kill $listener
	ended $listener 2>/dev/null

	# After a kill, the old socket must not prevent a start.
	rules metrics >"$TMP/life.yaml"
	start life || return
	kill -9 $daemon
	ended $daemon 2>/dev/null
	check 'killed: its socket is left' test -S "$sock"
	start life && pass 'killed: the next one takes its place'
	# The machine may be busy: the better of two tries counts.
	[ $out -lt 1000000 ] || { out=${EPOCHREALTIME/./}; finish; out=$((${EPOCHREALTIME/./} - out)); }
	check 'TERM: in under a second' test $out -lt 1000000
	is_gone $daemon || finish
}

libs() { ctl status | jq ".libraries | length"; }
is_own_libs() { is "$(ctl status | jq "[.libraries[] | select(.path | startswith(\"$TMP/lib.\"))] | length")" "$1"; }
names() { grep -c ^cudatrace_target_processes "$1"; }
value_of() { sed -n "s/^cudatrace_$1 //p" "$2"; }
grown_less()
{
	local a b
	a=$(value_of "$1" "$TMP/metrics.30") b=$(value_of "$1" "$TMP/metrics")
	[ $((b - a)) -lt "$2" ] || { echo "$a, then $b"; return 1; }
}

# Processes that come and go must leave nothing behind.
flat()
{
	local libs=0
	start flat || return
	cp "$FAKE/sample" "$TMP/brief"
	for i in $(seq 100); do
		sample brief --tokens 1 --layers 1
		[ "$i" = 30 ] && { sleep 1.2; shows True; libs=$(libs); cp "$TMP/metrics" "$TMP/metrics.30"; }
	done
	sleep 1.2
	check 'a hundred processes: all are counted, none is left' shows \
		'total("calls_total", command="brief", function="cuGraphLaunch") % 100 == 0 < total("calls_total", command="brief", function="cuLaunchKernel")
		and total("target_processes", command="brief") == 0 == total("memory_bytes", command="brief") == total("dropped_total")'
	# A connection of a scrape may be about to close, and other programs' libraries may have been added meanwhile.
	check 'a hundred processes: descriptors' grown_less self_open_fds $((3 + 2 * ($(libs) - libs)))
	check 'a hundred processes: memory' grown_less self_resident_bytes $((1500000 + 131072 * ($(names "$TMP/metrics") - $(names "$TMP/metrics.30"))))

	# Each of four has its own library, as in containers; they are found when the configuration is read.
	for i in 1 2 3 4; do
		mkdir "$TMP/lib.$i"
		cp "$FAKE/libcuda.so.1" "$TMP/lib.$i/"
		worker holder "$TMP/lib.$i"
		until_ok 5 is_own_libs "$i"
		[ "$i" = 4 ] || quit holder
	done
	check 'four libraries: all are attached' is_own_libs 4
	rm -r "$TMP"/lib.[0-9]*
	ctl reload >/dev/null
	ctl reload >/dev/null
	check 'four libraries: of those that are gone only the one in use is left' is_own_libs 1
	ask holder alloc 5 >/dev/null
	check 'four libraries: that one is counted still' shows 'total("calls_total", command="w-holder", function="cuMemAlloc_v2") == 5'
	quit holder
	ctl reload >/dev/null
	ctl reload >/dev/null
	check 'four libraries: none is left' is_own_libs 0
	finish
}

# The dump must have the error and the calls before it.
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
	check 'recorder: the report reads it' eval '"$CUDATRACE" report --full "$TMP/dump.jsonl" | grep -q "cuMemAlloc"'
	check 'recorder: its end line counts its lines' \
		jq -se '(.[-1].events | add) == length - 2 and .[-1].calls == (map(select(.symbol)) | length)' "$TMP/dump.jsonl"
	check 'recorder: the report calls it complete' is "$("$CUDATRACE" report -q --format=json -o - "$TMP/dump.jsonl" | jq -c '[.complete, .lost]')" '[true,[]]'
	check 'recorder: the report begins with the first line' jq -se --argjson wall \
		"$("$CUDATRACE" report -q --format=json -o - "$TMP/dump.jsonl" | jq .overview.wall_ns)" \
		'(.[1].ts * 1e6) as $first | ([.[0].begin_ns, $first] | min) as $begin
		 | $begin > 0 and ($wall - (.[-1].ts * 1e6 - $begin) | fabs) < 2000' "$TMP/dump.jsonl"
	check 'recorder: the cost of tracing is not 0' jq -se '.[-1].cost_share > 0' "$TMP/dump.jsonl"
	ask flyer fail 5 >/dev/null
	sleep 0.5
	check 'recorder: not again within cooldown' is "$(compgen -G "$files/dump-*" | wc -l)" 1
	check 'recorder: when it is asked for' has "$(ctl dump mine.zst | jq -r .file)" "$files/dump-2"
	check 'recorder: with the name, and one that counts' compgen -G "$files/dump-2*Z-0*-mine.jsonl.zst"
	check 'recorder: where root says' is "$(ctl dump "$TMP/here.zst" | jq -r .file)" "$TMP/here.zst"
	check 'recorder: a file that is there is not written over' fails_with 'File exists' ctl dump "$TMP/here.zst"

	# The folder disappears while lines are written.
	rm -rf "$files"
	mv "$TMP/rec.files" "$TMP/gone" 2>/dev/null
	ask flyer alloc 100 >/dev/null
	ctl dump >/dev/null 2>&1
	check 'folder gone: made again, and written to' until_ok 8 written_again
	check 'folder gone: it runs on' shows 'total("calls_total", command="w-flyer", function="cuMemAlloc_v2") % 100 == 0'
	quit flyer
	finish
	check 'folder gone: it ends well' is $? 0
}

# Each try makes new calls: those written to the removed file are lost with it.
written_again() { sleep 0.5; ask flyer alloc 100 >/dev/null; compgen -G "$files/trace-*"; }

# Members of the group must not get more disk than allowed, nor arguments of other users' programs.
member() { setpriv --reuid=65534 --regid=65534 --clear-groups "$CUDATRACE" ctl --set ctl.socket="$sock" "$@"; }
members()
{
	local i pid secret=--password=geheim
	chmod 711 "$TMP"
	rules trace >"$TMP/mem.yaml"
	start mem --set ctl.group=nogroup --set files.total_size=2M --set files.rotate_size=128K --set recorder.memory=1500K \
		--set recorder.on.error=false || return
	worker writer || return
	for i in {1..6}; do ask writer alloc 4000 >/dev/null; done
	for i in {1..12}; do member dump "x$i" >/dev/null; done
	check 'members: dumps were written' compgen -G "$files/dump-2*-x12.jsonl.zst"
	check 'members: dumps by name stay within files.total_size' test "$(du -sb "$files" | cut -f1)" -le $((2 << 20))
	check 'members: a name that is no name' fails_with 'letters, digits' member dump "$(printf 'x\302\233')"

	# The program's name has a terminal command, and its argument is a secret.
	cp "$TMP/caller" "$TMP/se$(printf '\302\233')31m"
	mkfifo "$TMP/secret.in"
	"$TMP/se$(printf '\302\233')31m" $secret <"$TMP/secret.in" >/dev/null 2>&1 &
	pid=$!
	exec 9>"$TMP/secret.in"
	printf 'open %s\ninit\n' "$lib/libcuda.so.1" >&9
	check 'members: the process is there' until_ok 10 eval "ctl status | jq -e 'any(.processes[]; .pid == $pid)'"
	check 'members: root sees its arguments' has "$(ctl status)" geheim
	check 'members: they do not' eval "! member status | grep -q -e geheim -e password"
	check 'members: but its name' eval "member status | jq -e 'any(.processes[]; .pid == $pid and (.command | endswith(\"31m\")))'"
	check 'members: nor by guessing' is "$(member level '*geheim*' trace | jq .processes)" 0
	check 'members: root may' is "$(ctl level '*geheim*' trace | jq .processes)" 1
	check 'ctl: U+009B is escaped' eval '! ctl status | grep -q "$(printf "\302\233")" && ctl status | grep -q "u009b31m"'
	echo 'exit 0' >&9
	exec 9>&-
	ended $pid
	quit writer
	finish
}

# Causes of a dump besides an error.
causes()
{
	rules trace >"$TMP/why.yaml"
	start why --set recorder.on.error=false --set recorder.on.sync_above=200ms --set recorder.on.memory_above=100M --set sample.cooldown=1s || return
	cp "$FAKE/sample" "$TMP/slow"
	sample slow --tokens 1 --layers 1
	sleep 0.5
	check 'recorder: nothing happened, no dump' eval '! compgen -G "$files/dump-*"'
	FAKE_KERNEL_US=300000 sample slow --tokens 1 --layers 1
	check 'recorder: a long synchronization' until_ok 3 dumped_for sync_above
	# Each long one is a cause: the last dump may have only the last moment.
	sleep 2
	cp "$FAKE/sample" "$TMP/large"
	sample large --tokens 1
	check 'recorder: memory above' until_ok 8 dumped_for memory_above
	finish
}
dumped_for() { local f; for f in "$files"/dump-*; do zstd -dcq "$f" | tail -1 | jq -e ".reason == \"dump: $1\"" && return 0; done; return 1; }

life
flat
recorder
causes
members
