#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The machine fails during a trace: a quota, a file system that breaks or must be remounted. The target must not notice, written data
# must stay valid, and losses must be reported.
set -u
. tests/lib.sh
needs_tracing 'faults of the system'
export LD_LIBRARY_PATH=$FAKE

is() { [ "$1" = "$2" ] || { echo "$1, not $2"; return 1; }; }
SAMPLE=("$FAKE/sample" --tokens 60 --quiet)
mnt=$TMP/mnt
mkdir -p "$mnt"
trap 'mountpoint -q "$mnt" && umount -l "$mnt"' EXIT

# disk MKFS...: a file system in a file, at $mnt
disk()
{
	rm -f "$TMP/disk"
	truncate -s 128M "$TMP/disk" && "$@" "$TMP/disk" >"$TMP/mkfs.out" 2>&1 && mount -o loop "$TMP/disk" "$mnt" 2>>"$TMP/mkfs.out"
}

# said NAME WHY: checks a trace whose JSONL is or was in $mnt, and whose Chrome form is elsewhere
said()
{
	check "$1: status" is "$rc" 1
	check "$1: said once, with the file" is "$(grep -c "a.jsonl: $2" "$TMP/err") $(wc -l <"$TMP/err")" '1 1'
	check "$1: the program ran to its end, the other output is whole" jq -e 'map(select(.ph == "X")) | length > 2000' "$TMP/a.json"
}

quota()
{
	if ! command -v btrfs >/dev/null || ! disk mkfs.btrfs -q || ! btrfs quota enable "$mnt" 2>"$TMP/mkfs.out"; then
		skip 'quota' "no btrfs here: $(tail -1 "$TMP/mkfs.out")"
		return
	fi
	btrfs -q subvolume create "$mnt/s" >/dev/null && btrfs qgroup limit 600K "$mnt/s"
	"$CUDATRACE" -q -e "$ALL" --jsonl "$mnt/s/a.jsonl" --chrome "$TMP/a.json" -- "${SAMPLE[@]}" >/dev/null 2>"$TMP/err"
	rc=$?
	said quota 'Disk quota exceeded'
	# At its quota btrfs neither shortens a file nor overwrites part of one: there is no space for an end.
	sed '$d' "$mnt/s/a.jsonl" >"$TMP/q.jsonl"
	check 'quota: what is written is whole, but for the last line' holds "$TMP/q.jsonl" 'head["type"] == "header" and len(calls) > 100'
	umount "$mnt"
}

# The program continues when $TMP/go exists.
broken_disk()
{
	disk mkfs.ext4 -q -F || { skip 'a file system that breaks' "$(tail -1 "$TMP/mkfs.out")"; return; }
	# shellcheck disable=SC2016 # the inner shell's
	"$CUDATRACE" -q -e "$ALL" --jsonl "$mnt/a.jsonl" --chrome "$TMP/a.json" -- \
		sh -c '"$@" && until [ -e "$0" ]; do sleep 0.02; done; "$@"' "$TMP/go" "${SAMPLE[@]}" >/dev/null 2>"$TMP/err" &
	tracer=$!
	until_ok 10 sh -c "[ \$(stat -c %s '$mnt/a.jsonl') -gt 100000 ]"
	check 'remounted read-only under a trace: the kernel refuses, for the file is written' sh -c "! mount -o remount,ro '$mnt' 2>/dev/null"
	if python3 tests/helpers/ext4_shutdown.py "$mnt" 2>"$TMP/ioctl.err"; then
		touch "$TMP/go"
		ended $tracer
		rc=$?
		said 'a file system that breaks' 'Input/output error'
	else
		skip 'a file system that breaks' "$(tail -1 "$TMP/ioctl.err")"
		touch "$TMP/go"
		ended $tracer
	fi
	umount "$mnt"
}

quota
broken_disk
