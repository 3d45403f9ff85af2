#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# What the daemon writes: the flight recorder, files that rotate, the command that takes them away; and when it cannot:
# a full disk, a folder that goes away.
# timeout: 240
set -u
. tests/lib.sh
needs_tracing daemon
command -v curl >/dev/null || { skip daemon 'needs curl'; exit 0; }
. tests/daemon.sh

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

recorder
