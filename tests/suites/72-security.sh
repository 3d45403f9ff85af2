#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# No way in: what others may lay in the way of our files, what a running tracer can still do, what it
# can do without root, what its records hold.
set -u
. tests/lib.sh
needs_tracing 'no way in'
export LD_LIBRARY_PATH=$FAKE
ENDLESS=(env FAKE_DELAY_US=cuStreamSynchronize:10000 "$FAKE/sample" --tokens 1000000 --layers 2 --quiet)

dir=$(mktemp -d /tmp/cudatrace-sec-XXXXXX)
trap 'rm -rf "$dir"' EXIT
chmod 1777 "$dir"
nobody=65534

# say_no PATTERN FILE...: refused with this message, and the file is as it was
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

outputs()
{
	echo precious >"$dir/victim"
	as_nobody ln -s "$dir/victim" "$dir/link"
	check 'a link of another user: refused' say_no 'symbolic link on the way belongs to another user' "$dir/link"
	as_nobody ln -s "$dir" "$dir/folder"
	check 'a folder behind a link of another user: refused' say_no 'symbolic link on the way' "$dir/folder/victim"
	as_nobody ln -s /proc/self/cwd "$dir/magic"
	check 'a magic link of another user: refused' say_no 'symbolic link on the way' "$dir/magic/x"
	check 'what they pointed at is untouched' same "$(cat "$dir/victim")" precious
	as_nobody sh -c 'echo theirs >"$1"' sh "$dir/theirs"
	check 'a file of another user: refused' say_no 'belongs to another user' "$dir/theirs"
	check 'and not emptied' same "$(cat "$dir/theirs")" theirs
	as_nobody mkfifo "$dir/fifo"
	cat "$dir/fifo" >/dev/null &
	check 'a FIFO of another user: refused' say_no 'belongs to another user' "$dir/fifo"
	kill $! 2>/dev/null
	wait $! 2>/dev/null

	ln -s "$dir/own" "$dir/ours"
	check 'a link of ours is followed' writes "$dir/ours"
	check 'to its target' is_header "$dir/own"
	check 'mode 0600' same "$(stat -c %a "$dir/own")" 600
	check 'our own file is emptied and written' writes "$dir/own"
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
	check 'a folder' say_no 'it is a folder' "$dir/"

	# Swapped while it is opened: whatever happens, the victim keeps its content.
	( for _ in $(seq 2000); do as_nobody ln -sfn "$dir/victim" "$dir/swap"; as_nobody rm -f "$dir/swap"; done ) 2>/dev/null &
	local swapper=$!
	for _ in $(seq 12); do "$CUDATRACE" -q -e init --jsonl "$dir/swap" -- true 2>/dev/null; rm -f "$dir/swap"; done
	kill $swapper
	wait $swapper 2>/dev/null
	check 'a path that is swapped meanwhile' same "$(cat "$dir/victim")" precious

	mkdir -m 700 "$dir/root-only"
	SUDO_UID=$nobody SUDO_GID=$nobody "$CUDATRACE" -q -e init --jsonl "$dir/root-only/x" -- true 2>"$TMP/err"
	check 'sudo: no file where its caller may not write' same "$? $(ls "$dir/root-only" | wc -l)" '1 0'
	(
		cd "$dir" || exit
		as_nobody mkdir traces
		"$CUDATRACE" -e init -- true 2>"$TMP/err"
	)
	check 'traces/ of another user: refused' grep -q 'traces: it belongs to another user' "$TMP/err"
}

# field NAME: of the tracer's status
field() { awk -v f="$1:" '$1 == f { print $2 }' "/proc/$tracer/status"; }
sandbox()
{
	rm -f "$TMP/a.jsonl"
	"$CUDATRACE" -q -e launch --jsonl "$TMP/a.jsonl" "$@" -- "${ENDLESS[@]}" >/dev/null 2>"$TMP/err" &
	tracer=$!
	until_ok 10 grep -aq cuLaunchKernel "$TMP/a.jsonl"
	command=$(pgrep -P $tracer sample | head -n 1)
}
# A shell without job control has started it with SIGINT ignored.
end_sandbox() { kill -TERM $tracer; wait $tracer 2>/dev/null; pkill -KILL -P $tracer 2>/dev/null; kill -KILL $command 2>/dev/null; }

# bits of CAP_KILL 5, DAC_READ_SEARCH 2, SYS_PTRACE 19, PERFMON 38, BPF 39, CHECKPOINT_RESTORE 40
few=000001c000080024
sandboxed()
{
	sandbox
	check 'sandbox: capabilities' same "$(field CapEff) $(field CapPrm) $(field CapBnd) $(field CapAmb)" "$few $few $few 0000000000000000"
	check 'sandbox: no_new_privs, seccomp' same "$(field NoNewPrivs) $(field Seccomp)" '1 2'
	check 'sandbox: the command has none of it' same "$(awk '/^(NoNewPrivs|Seccomp):/ { print $2 }' "/proc/$command/status" | xargs)" '0 0'
	end_sandbox
	sandbox --mechanism perf
	check 'sandbox: probes of single perf events keep CAP_SYS_ADMIN' same "$(field CapEff)" 000001c000280024
	end_sandbox
	sandbox --no-sandbox
	check '--no-sandbox' same "$(field NoNewPrivs) $(field Seccomp)" '0 0'
	end_sandbox
}

# An ordinary user with the few capabilities that docs/SECURITY.md names, by way of the file.
privileges()
{
	if ! command -v setcap >/dev/null; then
		skip 'file capabilities' 'setcap is not installed'
		return
	fi
	local bin=$dir/cudatrace n
	# The build folder may not be anybody's to read.
	install -m 755 "$CUDATRACE" "$bin"
	install -m 755 "$O/fake/libcuda.so.1" "$O/fake/sample" "$dir/"
	if ! setcap cap_bpf,cap_perfmon,cap_sys_ptrace,cap_dac_read_search,cap_checkpoint_restore+ep "$bin" 2>"$TMP/err"; then
		skip 'file capabilities' "$(cat "$TMP/err")"
		return
	fi
	mkdir -m 777 "$dir/user"
	# The dynamic linker takes LD_* away from programs with capabilities.
	as_nobody env CUDATRACE_SANDBOX=kill "$bin" -q --jsonl "$dir/user/a.jsonl" -- env LD_LIBRARY_PATH="$dir" "$dir/sample" >"$TMP/out" 2>"$TMP/err"
	check 'few capabilities: traces' same "$? $(tail -n 1 "$dir/user/a.jsonl" | jq -c '[.type, .drops.calls, .unfinished]')" '0 ["end",0,0]'
	n=$(grep -oE '[0-9]+ kernel launches' "$TMP/out" | cut -d' ' -f1)
	check 'few capabilities: every launch' same "$(grep -c '"op":"launch","name":"cuLaunchKernel' "$dir/user/a.jsonl")" "$n"
	check 'few capabilities: the file is the user'"'"'s' same "$(stat -c %u:%a "$dir/user/a.jsonl")" $nobody:600
	setcap -r "$bin"
	as_nobody "$bin" -q -e init --jsonl "$dir/user/b.jsonl" -- true 2>"$TMP/err"
	check 'no capabilities: says what is missing' same "$? $(grep -c 'privilege CAP_BPF, privilege CAP_PERFMON' "$TMP/err")" '1 1'
}

# What a program must not tell: every string that it has, every address.
secrecy()
{
	ct --all --jsonl "$TMP/a.jsonl" --chrome "$TMP/a.json" -- "$CASES/modules"
	check 'secrecy: without it names are there' grep -q '"kernel":"' "$TMP/a.jsonl"
	n=$(grep -c '"symbol"' "$TMP/a.jsonl")
	ct --all --no-strings --jsonl "$TMP/b.jsonl" --chrome "$TMP/b.json" -- "$CASES/modules"
	check '--no-strings: as many calls' same "$(grep -c '"symbol"' "$TMP/b.jsonl")" "$n"
	check '--no-strings: no names of kernels, no files' same "$(tail -n +2 "$TMP/b.jsonl" | grep -cE '"kernel(_mangled)?":"[^0]|"(name|fname)":"[a-z_/]*(add|mul|\.cubin|\.ptx)')" 0
	check '--no-strings: numbers are there' grep -q '"size":[1-9]' <("$CUDATRACE" -q --no-strings --jsonl - -- "$FAKE/sample" --tokens 1 --layers 1 --quiet)
	check '--no-strings: the header says so' grep -q '"hidden":"strings"' <(head -n 1 "$TMP/b.jsonl")
	ct --all --no-args --jsonl "$TMP/b.jsonl" -- "$CASES/modules"
	check '--no-args: as many calls' same "$(grep -c '"symbol"' "$TMP/b.jsonl")" "$n"
	check '--no-args: no arguments and no meaning' same "$(grep '"symbol"' "$TMP/b.jsonl" | grep -vcE '"result":[0-9]+(,"error":"[A-Z_]+")?,"args":\{\}\}$')" 0
	check '--no-args: the header says so' grep -q '"hidden":"arguments"' <(head -n 1 "$TMP/b.jsonl")
	check '--no-args: the schema holds' tests/golden/schema_check.py "$TMP/b.jsonl"
}

ct() { "$CUDATRACE" -q "$@" >"$TMP/out" 2>"$TMP/err" || cat "$TMP/err"; }

hardened()
{
	local h
	h=$(readelf -hldW "$CUDATRACE")
	check 'hardening: PIE' grep -q 'DYN (' <<<"$h"
	check 'hardening: BIND_NOW and RELRO' same "$(grep -cE 'BIND_NOW|GNU_RELRO' <<<"$h")" 2
	check 'hardening: no executable stack' grep -qE 'GNU_STACK.*RW ' <<<"$h"
	check 'hardening: stack protector' grep -q __stack_chk_fail <(nm -D "$CUDATRACE")
	check 'hardening: fortified functions' grep -qE '__(mem|str|snprintf|vsnprintf|read)[a-z]*_chk' <(nm -D "$CUDATRACE")
}

messages()
{
	"$CUDATRACE" --jsonl $'/nowhere/\e[2J\a\n' -- true 2>"$TMP/err"
	check 'messages hold no control characters' same "$(tr -d '[:print:]\n' <"$TMP/err" | wc -c) $(grep -c '?' "$TMP/err")" '0 1'
}

outputs
sandboxed
privileges
secrecy
hardened
messages
