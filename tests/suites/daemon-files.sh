#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The daemon's files: rotation and its limits, the command that takes them away, SIGHUP meanwhile, a full disk.
# takes: 60
# own processes
set -u
. tests/lib.sh
needs_tracing daemon
command -v curl >/dev/null || { skip daemon 'needs curl'; exit 0; }
. tests/daemon.sh

# watch SECONDS FOLDER: checks the folder as often as possible, until the time is over and enough was seen, at most a minute. Prints the
# largest total of bytes, the number of finished files, and how many of them were incomplete when they appeared.
watch()
{
	python3 tests/helpers/watch_files.py "$1" "$2"
}

# Rotating files with each compression: written and removed bytes must add up.
rotation()
{
	local how most seen bad busy writers
	for how in zstd gzip none; do
		# Without and with format threads.
		writers=2
		[ "$how" = gzip ] && writers=0
		rules trace >"$TMP/rot-$how.yaml"
		start "rot-$how" --set files.rotate_size=64K --set files.total_size=1M --set files.compress=$how --set files.format_threads=$writers --set trace.buffer_size=32M --set recorder.seconds=0s || return
		worker "rot$how" || return
		: >"$TMP/more"
		(while [ -e "$TMP/more" ]; do ask "rot$how" alloc 3000 >/dev/null; done) &
		busy=$!
		read -r most seen bad < <(watch 2 "$files")
		rm "$TMP/more"
		wait $busy
		check "rotation: $how: never more than files.total_size" test "$most" -gt 400000 -a "$most" -le 1048576
		check "rotation: $how: many files, each whole when it appears" is "$((seen > 8)) $bad" '1 0'
		check "rotation: $how: every call is a line or was said to be dropped" until_shows shows \
			'total("file_lines_total") + total("file_lines_dropped_total") >= total("calls_total", command=who) - 40
			and total("file_lines_dropped_total") == 0 and total("files_removed_total") > 0 and 0 < total("file_bytes") <= 1 << 20' who="w-rot$how"
		quit "rot$how"
		finish
		"$CUDATRACE" report --format=json -o "$TMP/report.json" "$files"/trace-* 2>"$TMP/report.err"
		check "rotation: $how: the report takes all files for one trace" is "$(grep -c 'begins\|missing\|goes back' "$TMP/report.err") $(jq .overview.complete "$TMP/report.json")" '0 true'
	done
	check 'rotation: the end of each file counts its lines' eval \
		'for f in "$files"/trace-*; do jq -se "(.[-1].events | add) == length - 2 and .[-1].calls == (map(select(.symbol)) | length)" "$f" || exit 1; done'
	check 'rotation: the report reads the newest one' eval '"$CUDATRACE" report --full "$(ls "$files"/trace-* | tail -1)" | grep -q cuMemAlloc'
}

# Rotation by age, with SIGHUP all the time: no call may be lost.
reloads()
{
	local i
	rules trace >"$TMP/age.yaml"
	start age --set files.rotate_age=1s --set trace.buffer_size=32M || return
	worker aged || return
	for i in $(seq 20); do
		kill -HUP $daemon
		ask aged alloc 500 >/dev/null
		sleep 0.1
		[ "$i" = 7 ] && { echo 'levle: off' >"$TMP/age.yaml"; }
		[ "$i" = 8 ] && until_ok 5 shows 'total("config_reload_failures_total") >= 1'
		[ "$i" = 8 ] && rules trace >"$TMP/age.yaml"
	done
	sleep 1.5
	check 'age: no file is open when nothing comes' until_ok 5 eval '! compgen -G "$files/*.part"'
	# Signals that arrive while one is pending are merged.
	check 'SIGHUP: read again and again, a broken file too' until_shows shows '0 < total("config_reload_failures_total") <= 3
		and total("config_reloads_total") + total("config_reload_failures_total") <= 20 and total("config_reloads_total") > 2'
	check 'SIGHUP: says line, what and how' grep -q 'age.yaml:1: levle: there is no such key; did you mean level?' "$log"
	check 'SIGHUP: no call was lost, none is there twice' until_shows shows \
		'(lambda sym, ids: sym["cuMemAlloc_v2"] == sym["cuMemFree_v2"] == 10000 and len(ids) == len(set(ids)))(collections.Counter(e["symbol"] for e in calls), [e["id"] for e in calls])
		and total("calls_total", command="w-aged", function="cuMemAlloc_v2") == 10000'
	quit aged
	finish
}

# The command gets each file until it accepts it; files that it has not accepted stay.
on_rotate()
{
	local copies=$TMP/copies
	mkdir "$copies"
	rules trace >"$TMP/cmd.yaml"
	start cmd --set files.rotate_age=1s --set files.on_rotate="echo \"\$1\" >>$TMP/tried; test -e $TMP/go && cp \"\$1\" $copies/" || return
	worker sent || return
	ask sent alloc 100 >/dev/null
	check 'on_rotate: is run' until_ok 8 test -s "$TMP/tried"
	check 'on_rotate: fails and is run again, for the same file' until_ok 8 eval '[ "$(wc -l <"$TMP/tried")" -gt 1 ] && [ "$(sort -u "$TMP/tried" | wc -l)" = 1 ]'
	check 'on_rotate: the file waits' compgen -G "$files/pending/trace-*.zst"
	check 'on_rotate: nothing is done without it' eval '! compgen -G "$files/trace-*.zst"'
	touch "$TMP/go"
	check 'on_rotate: takes it' until_ok 12 eval 'compgen -G "$files/trace-*.zst" && ! compgen -G "$files/pending/*"'
	check 'on_rotate: got it whole' eval 'for f in "$files"/trace-*.zst; do cmp "$f" "$copies/${f##*/}" || exit 1; done'
	# The calls traced meanwhile may be a file of their own, which counts when the command's end is known.
	check 'on_rotate: counted' until_ok 5 eval 'shows "total(\"files_handled_total\") == int(n) >= 1 <= total(\"files_take_failures_total\") and total(\"files_removed_total\") == 0" \
		n="$(ls "$copies" | wc -l)"'
	quit sent
	finish
}

# A disk that is full, and later has space again.
full()
{
	mkdir "$TMP/full.files"
	mount -t tmpfs -o size=300k none "$TMP/full.files" 2>/dev/null || { skip 'full disk' 'no tmpfs can be mounted'; return; }
	rules trace >"$TMP/full.yaml"
	start full --set files.compress=none --set files.format_threads=2 --set trace.buffer_size=32M --set sample.cooldown=1s --set recorder.on.error=true || { umount "$TMP/full.files"; return; }
	worker filler || { umount "$TMP/full.files"; return; }
	ask filler alloc 3000 >/dev/null
	check 'full disk: writing stops, and says so' until_ok 5 eval 'grep -q "No space left on device" "$log" && ctl status | jq -e ".files.error"'
	ask filler alloc 1000 >/dev/null
	ask filler fail 1 >/dev/null
	check 'full disk: the daemon goes on; what is not written is counted' until_shows shows \
		'total("calls_total", command="w-filler", function="cuMemAlloc_v2") == 4000 and total("file_lines_dropped_total") > 2000
		and total("file_lines_total") + total("file_lines_dropped_total") >= total("calls_total", command="w-filler") - 40'
	check 'full disk: status says what is missing' eval \
		'ctl status | jq -e "(.complete | not) and (.lost[] | select(.id == \"lines\") | .count > 2000 and .why == \"No space left on device\")"'
	check 'full disk: no half dump is left' eval '! compgen -G "$files/dump-*" || zstd -tq "$files"/dump-*'
	rm -f "$files"/*
	sleep 10
	ask filler alloc 10 >/dev/null
	check 'full disk: written to again' until_ok 3 eval 'grep -q "lines are written again" "$log" && compgen -G "$files/trace-*.part"'
	quit filler
	finish
	check 'full disk: ends well' is $? 0
	check 'full disk: the next file says what was not written before it' eval \
		'"$CUDATRACE" report --format=json "$files"/trace-* | jq -e "(.complete | not) and (.lost[] | select(.id == \"lines\") | .count > 2000)"'
	umount "$TMP/full.files"
}

rotation
reloads
on_rotate
full
