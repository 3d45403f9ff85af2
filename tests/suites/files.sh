#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Security: obstacles that other users may place in the way of our files.
# takes: 20
# own processes
set -u
. tests/lib.sh
needs_tracing 'no way in'

dir=$(mktemp -d /tmp/cudatrace-sec-XXXXXX)
trap 'rm -rf "$dir"' EXIT
chmod 1777 "$dir"
nobody=65534

# say_no PATTERN FILE...: must be refused with this message, and the file unchanged
say_no()
{
	local pattern=$1 out=$2 rc
	"$CUDATRACE" -q -e init --jsonl "$out" -- true 2>"$TMP/err"
	rc=$?
	[ $rc -eq 1 ] && grep -q "$pattern" "$TMP/err" || { echo "exit $rc: $(cat "$TMP/err")"; return 1; }
}
writes()
{
	"$CUDATRACE" -q -e init --jsonl "$1" -- true 2>"$TMP/err" || { cat "$TMP/err"; return 1; }
}
is_header() { head -n 1 "$1" | grep -q '"type":"header"' || { head -c 200 "$1"; return 1; }; }
same() { [ "$1" = "$2" ] || { echo "$1, not $2"; return 1; }; }
as_nobody() { setpriv --reuid=$nobody --regid=$nobody --clear-groups "$@"; }

echo precious >"$dir/victim"
as_nobody ln -s "$dir/victim" "$dir/link"
check 'a link of another user: refused' say_no 'symbolic link in its path belongs to another user' "$dir/link"
as_nobody ln -s "$dir" "$dir/folder"
check 'a folder behind a link of another user: refused' say_no 'symbolic link in its path' "$dir/folder/victim"
as_nobody ln -s /proc/self/cwd "$dir/magic"
check 'a magic link of another user: refused' say_no 'symbolic link in its path' "$dir/magic/x"
check 'what they pointed at is untouched' same "$(cat "$dir/victim")" precious
as_nobody sh -c 'echo theirs >"$1"' sh "$dir/theirs"
check 'a file of another user: refused' say_no 'belongs to another user' "$dir/theirs"
check 'and not emptied' same "$(cat "$dir/theirs")" theirs
as_nobody mkfifo "$dir/fifo"
# It has no reader: opening it would wait forever.
check 'a FIFO of another user: refused' timeout 20 bash -c "$(declare -f say_no); say_no 'belongs to another user' \"\$1\"" say_no "$dir/fifo"
mkfifo "$dir/own-fifo"
cat "$dir/own-fifo" >"$TMP/from-fifo" &
check 'a FIFO of ours' writes "$dir/own-fifo"
wait $!
check 'a FIFO of ours: is written' is_header "$TMP/from-fifo"

ln -s "$dir/own" "$dir/ours"
check 'a link of ours is followed' writes "$dir/ours"
check 'to its target' is_header "$dir/own"
check 'mode 0600' same "$(stat -c %a "$dir/own")" 600
check 'our own file is emptied and written' writes "$dir/own"
python3 tests/helpers/lease.py "$dir/own" >"$TMP/lease" &
until_ok 5 grep -q held "$TMP/lease"
check 'a file with a lease on it: waits for the holder' writes "$dir/own"
check 'who was asked for it' wait $!
ln -s ../../../../../../../"$dir/own2" "$dir/dots"
check 'a link with dots' writes "$dir/dots"
check 'leads where it says' is_header "$dir/own2"
check '/dev/null' writes /dev/null
check '/dev/stdout' is_header <("$CUDATRACE" -q -e init --jsonl /dev/stdout -- true)
"$CUDATRACE" -q -e init --jsonl >(cat >"$TMP/piped") -- true
until_ok 5 test -s "$TMP/piped"
check 'process substitution' is_header "$TMP/piped"
ln -s loop2 "$dir/loop1"
ln -s loop1 "$dir/loop2"
check 'links in a circle' say_no 'Too many levels of symbolic links' "$dir/loop1"
check 'a folder' say_no 'it is a directory' "$dir/"

# Swapped while it is opened: the victim must keep its content.
( for _ in $(seq 20000); do as_nobody ln -sfn "$dir/victim" "$dir/swap"; as_nobody rm -f "$dir/swap"; done ) 2>/dev/null &
swapper=$! made=0 refused=0 n=0
# Repeated until both cases occurred: the link, and no file.
while [ $((n += 1)) -le 12 ] || { [ $((made * refused)) = 0 ] && [ $n -le 60 ]; }; do
	if "$CUDATRACE" -q -e init --jsonl "$dir/swap" -- true 2>/dev/null; then made=$((made + 1)); else refused=$((refused + 1)); fi
	rm -f "$dir/swap"
done
kill $swapper
wait $swapper 2>/dev/null
check "a path that is swapped meanwhile: $refused of $((made + refused)) times it was the link" test $((made * refused)) -gt 0
check 'a path that is swapped meanwhile: the victim is untouched' same "$(cat "$dir/victim")" precious

# Like a link by another user where fs.protected_hardlinks is 0.
ln "$dir/victim" "$dir/hard"
check 'a hard link: refused' say_no 'it has other names (hard links)' "$dir/hard"
check 'a hard link: the file is untouched' same "$(cat "$dir/victim")" precious
rm "$dir/hard"

mkdir -m 700 "$dir/root-only"
SUDO_UID=$nobody SUDO_GID=$nobody "$CUDATRACE" -q -e init --jsonl "$dir/root-only/x" -- true 2>"$TMP/err"
check 'sudo: no file where its caller may not write' same "$? $(ls "$dir/root-only" | wc -l)" '1 0'
(
	cd "$dir" || exit
	as_nobody mkdir traces
	"$CUDATRACE" -e init -- true 2>"$TMP/err"
)
check 'traces/ of another user: refused' grep -q 'traces: it belongs to another user' "$TMP/err"
