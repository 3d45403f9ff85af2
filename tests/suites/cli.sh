#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The command line: an error is one line that also says what to do. Also tests exit statuses, list, check, help, man page and
# completion.
# takes: 60
set -u
. tests/lib.sh
unset LD_LIBRARY_PATH SUDO_UID SUDO_GID

is() { [ "$1" = "$2" ] || { echo "$1, not $2"; return 1; }; }
# ct ARG...: runs cudatrace after $AS; leaves $rc, $TMP/out, $TMP/err.
AS=()
ct()
{
	timeout -k 5 30 "${AS[@]}" "${CT:-$CUDATRACE}" "$@" >"$TMP/out" 2>"$TMP/err" </dev/null
	rc=$?
}
# bad NAME STATUS REGEX ARG...: must end with STATUS and one line on stderr that matches
bad()
{
	local name="bad input: $1" status=$2 regex=$3
	shift 3
	ct "$@"
	if [ $rc != "$status" ]; then
		fail "$name" "exit status $rc, not $status: $(head -3 "$TMP/err")"
	elif [ "$(wc -l <"$TMP/err")" != 1 ]; then
		fail "$name" "$(wc -l <"$TMP/err") lines on stderr, not one"$'\n'"$(cat "$TMP/err")"
	elif ! grep -Eq "^cudatrace: .*($regex)" "$TMP/err"; then
		fail "$name" "does not say /$regex/: $(cat "$TMP/err")"
	elif [ -s "$TMP/out" ]; then
		fail "$name" "writes to stdout: $(head -1 "$TMP/out")"
	else
		pass "$name"
	fi
}
# same_output NAME ARGS -- ARGS: both must print the same and succeed
same_output()
{
	local name=$1 one=()
	shift
	while [ "$1" != -- ]; do one+=("$1"); shift; done
	shift
	ct "${one[@]}"
	mv "$TMP/out" "$TMP/one"
	[ $rc = 0 ] && ct "$@"
	check "$name" eval '[ $rc = 0 ] && [ -s "$TMP/one" ] && cmp "$TMP/one" "$TMP/out"'
}
X=$TMP/x.jsonl
to_x=(-q -e launch --jsonl "$X")

usage()
{
	local o v
	for o in duration max-events min-duration pid buffer-size; do
		bad "--$o 0" 2 'above 0|use -a instead|smallest is 64K' --$o 0 -- true
		for v in -1 -99 x '' ' 1' +1 0x10 1e3 nan inf 1,,2 '1 2' 99999999999999999999999; do
			# -p accepts spaces.
			[[ $o = pid && $v = *' '* ]] && continue
			bad "--$o '$v'" 2 'give|write it as|leave .* out|the (highest|largest) is|take' --$o "$v" -- true
		done
	done
	bad '--max-events 1.5' 2 'write it as' --max-events 1.5 -- true
	bad '--duration 10 years' 2 'write it as|smaller' --duration 10y -- true
	bad '--pid above the highest' 2 'highest is' -p 4194305
	for v in 1000 32K 65535; do bad "--buffer-size $v: too small" 2 'smallest is 64K' --buffer-size $v -- true; done
	for v in 2G 1025M 18446744073709551616 18014398509481984K; do
		bad "--buffer-size $v: too large" 2 'largest is 1G' --buffer-size $v -- true
	done
	bad '--buffer-size 100000: no power of two' 2 'nearest are 64K and 128K' --buffer-size 100000 -- true
	bad '--buffer-size 3M: no power of two' 2 'nearest are 2M and 4M' --buffer-size 3M -- true
	bad '--buffer-size 16X' 2 'as in --buffer-size' --buffer-size 16X -- true
	bad '-p with a command' 2 'one or .*not both|not both' -p 1 -- true
	bad '-p with a command, no --' 2 'not both' -p 1 true
	bad 'two outputs on stdout' 2 'only one may be -' --jsonl - --chrome - -- true
	bad 'twice the same output on stdout' 2 'only one may be -' --jsonl - --jsonl - -- true
	bad 'two outputs to one file' 2 'its own file' --jsonl "$X" --chrome "$X" -- true
	bad 'an option for a file' 2 'looks like an option' --jsonl --chrome x -- true
	bad 'empty output' 2 'FILE is empty' --jsonl '' -- true
	bad 'option without its value' 2 'as in --jsonl FILE' --jsonl
	bad 'unknown option: suggestion' 2 'did you mean --jsonl\?' --jsnl x -- true
	bad 'unknown option: one dash' 2 'did you mean --jsonl\?' -jsonl x -- true
	bad 'unknown option: nothing near' 2 'cudatrace --help' --frobnicate -- true
	bad 'unknown letter' 2 'cudatrace --help' -Z
	bad 'ambiguous option' 2 'any of: .*--max-events|any of: .*--min-duration' --m 3
	bad 'value that is not taken' 2 "leave out '=yes'" --quiet=yes
	bad 'unknown mechanism' 2 'one of: auto session multi perf' --mechanism ptrace -- true
	bad 'unknown shell' 2 'one of: bash zsh fish' --completion=csh
	bad 'empty command' 2 'COMMAND is empty' -- ''
	bad 'no command behind --' 2 'COMMAND is missing' --
	bad 'list of a file' 2 'takes no arguments' list libcuda.so.1
	bad 'option of another verb' 2 'leave it out' list --duration 3
	bad 'option of list alone' 2 'belongs to cudatrace list' --names
}

selection()
{
	bad 'report --json and another form' 2 'leave one out' report --json --format=html x.jsonl
	bad '-e: a function misspelt' 2 'did you mean cuLaunchKernel\?' -e cuLaunchKernal -- true
	bad '-e: a class misspelt' 2 'did you mean memory\?' -e memry -- true
	bad '-e: misspelt behind others' 2 'did you mean transfer\?' -e 'launch,!trasnfer' -- true
	bad '-e: nothing near' 2 'cudatrace list' -e zzzzzzzz -- true
	bad '-e: glob without a match' 2 'cudatrace list' -e 'cuZZ*' -- true
	bad '-e: nothing' 2 'names nothing' -e '!' -- true
	bad '-e: empty' 2 'names nothing' -e '' -- true
	bad '--detail: no such level' 2 'one of: low normal high all' --detail=medium -- true
	bad 'list -e: suggestion' 2 'did you mean memory\?' list -e memry
	bad '-e: a function that no library has' 2 'unknown function or class "cuFakeUndocumentex"' -e cuFakeUndocumentex --libcuda "$FAKE/libcuda.so.1" "${to_x[@]}" -- true
}

# A function that the library has and the table lacks.
unknown()
{
	local -x LD_LIBRARY_PATH=$FAKE
	ct "${to_x[@]}" -e cuFakeUndocumented -- "$CASES/undocumented"
	check '-e: a function that only the library has' holds "$X" 'sym == {"cuFakeUndocumented": 11} and accounts()'
	ct "${to_x[@]}" -e 'cuFakeUnd*' --entry-only cuFakeUndocumented --libcuda "$FAKE/libcuda.so.1" -- "$CASES/undocumented"
	check '-e, --entry-only: a glob of such' holds "$X" \
		'sym == {"cuFakeUndocumented": 11} and head["entry_only"] == "other (1 function)" and accounts()'
	rm "$X"
}

libraries()
{
	head -c 4096 "$FAKE/libcuda.so.1" >"$TMP/short.so"
	bad '--libcuda: none' 1 'give the path of a libcuda' --libcuda "$TMP/none.so" "${to_x[@]}" -- true
	bad '--libcuda: a folder' 1 'libcuda.so.1' --libcuda "$TMP" "${to_x[@]}" -- true
	bad '--libcuda: no ELF file' 1 'not an ELF file' --libcuda tests/lib.sh "${to_x[@]}" -- true
	bad '--libcuda: truncated' 1 "short.so: .*" --libcuda "$TMP/short.so" "${to_x[@]}" -- true
	bad '--libcuda: another library' 1 'not a libcuda: it exports no function' \
		--libcuda "$(ldd "$(type -P bash)" | awk '/libc\.so/ { print $3 }')" "${to_x[@]}" -- true
	bad 'list --libcuda: none' 1 'give ' list --libcuda "$TMP/none.so"
	bad 'list --libcuda: no ELF file' 1 'give --libcuda a libcuda.so.1' list --libcuda tests/lib.sh
}

commands()
{
	bad 'a verb of others: record' 1 'tracing needs no subcommand: cudatrace -- COMMAND' "${to_x[@]}" record x
	bad 'a verb of others: attach' 1 'cudatrace -p PID' "${to_x[@]}" attach 1
	bad 'a command in quotes' 1 'leave the quotes out, or .*sh -c' "${to_x[@]}" -- 'no-such-program x.py'
	bad 'a variable before the command' 1 'cudatrace -- env NAME=VALUE' "${to_x[@]}" -- NAME=1 true
	bad 'a program called as the first verb' 1 'no such command in PATH' "${to_x[@]}" trace trace
	mkdir "$TMP/folder"
	echo 'exit 0' >"$TMP/script"
	printf '#!%s/none\n' "$TMP" >"$TMP/interpreter"
	printf '\177ELF and more' >"$TMP/elf"
	: >"$TMP/empty"
	cp "$TMP/script" "$TMP/plain"
	chmod +x "$TMP"/{interpreter,elf,empty,script}
	bad 'a command that does not exist' 1 'in PATH: give its path' "${to_x[@]}" -- no-such-command
	bad 'a command that does not exist, by path' 1 'no such file: check' "${to_x[@]}" -- "$TMP/none"
	bad 'a command below a file' 1 'no such file: check' "${to_x[@]}" -- "$TMP/plain/none"
	bad 'a command that is not executable' 1 'chmod \+x' "${to_x[@]}" -- "$TMP/plain"
	bad 'a folder as command' 1 'name a program in it' "${to_x[@]}" -- "$TMP/folder"
	[ -e "$X" ] && fail 'a command that cannot be run: no trace' "$(cat "$X")"
	bad 'a command with a bad #!' 1 'interpreter.*install' "${to_x[@]}" -- "$TMP/interpreter"
	check 'a command that fails to exec: whole trace' holds "$X" \
		'end["reason"] == "could not start" and not calls and not proc'
	bad 'a command for no machine' 1 'neither a program .* nor a script' "${to_x[@]}" -- "$TMP/elf"
	bad 'an empty file as command' 1 'neither a program .* nor a script' "${to_x[@]}" -- "$TMP/empty"
	bad 'a script without #!' 1 'a script with a #! line' "${to_x[@]}" -- "$TMP/script"
	bad 'unknown user' 1 'give its number' --user no-such-user "${to_x[@]}" -- true
	chmod 700 "$TMP/folder"
	printf '#!/bin/sh\n' >"$TMP/folder/run"
	chmod +x "$TMP/folder/run"
	bad 'a command that its user may not run' 1 'check that its user may' --user 65534 "${to_x[@]}" -- "$TMP/folder/run"
	AS=(env "PATH=/nowhere:$TMP")
	ct "${to_x[@]}" -- script
	AS=()
	check 'exit status: a script without #! in PATH' is $rc 1
	mkdir "$TMP/bin"
	printf '#!/bin/sh\nexit 5\n' >"$TMP/bin/empty"
	chmod +x "$TMP/bin/empty"
	# A folder with the command's name comes first.
	mkdir -p "$TMP/folder/empty"
	PATH=$TMP/folder:$TMP/bin:$PATH ct "${to_x[@]}" -- empty
	check 'the command is found behind a folder of its name' is $rc 5
}

processes()
{
	local pid
	sleep 60 &
	pid=$!
	bad 'a process without CUDA, --no-wait' 1 'leave out --no-wait' --no-wait "${to_x[@]}" -p $pid
	ct --no-summary --jsonl "$X" -e launch --duration 0.2 -p $pid
	check 'a process without CUDA: is waited for' is "$rc $(grep -c "^cudatrace: process $pid has not loaded libcuda yet: waiting" "$TMP/err") $(wc -l <"$TMP/err")" '0 1 1'
	check 'a process without CUDA: trace' holds "$X" "head['pids'] == [$pid] and end['reason'] == 'duration' and not calls"
	kill $pid
	wait $pid 2>/dev/null
	bad 'a process that does not exist' 1 'ps -e' "${to_x[@]}" -p $pid
	bad 'one of two processes does not exist' 1 "$pid.*ps -e" "${to_x[@]}" -p $$,$pid
	# In a private PID namespace, because other processes on this machine may have libcuda.
	if ! ldconfig -p 2>/dev/null | grep -q 'libcuda\.so\.1' && unshare -pfm --mount-proc true 2>/dev/null; then
		AS=(unshare -pfm --mount-proc)
		bad 'no libcuda on this machine, --no-wait' 1 'leave out --no-wait' --no-wait "${to_x[@]}" --duration 1
		AS=()
	else
		skip 'bad input: no libcuda on this machine, --no-wait' 'there is one'
	fi

	# The process ends between the check of its number and its inspection: while the BPF programs are loaded.
	for _ in 1 2 3 4 5; do
		sleep 60 &
		pid=$!
		"$CUDATRACE" "${to_x[@]}" -p $pid >"$TMP/out" 2>"$TMP/err" &
		tracer=$!
		until_ok 10 sh -c "ls -l /proc/$tracer/fd | grep -q bpf-map"
		kill -9 $pid
		wait $pid 2>/dev/null
		ended $tracer
		rc=$?
		# The process may also end later.
		[ $rc = 0 ] || break
	done
	check 'bad input: a process that ends while attaching: status' is $rc 1
	check 'bad input: a process that ends while attaching: one line' \
		is "$(cat "$TMP/err")" "cudatrace: process $pid ended while attaching: start it as a command instead: cudatrace -- COMMAND"
}

outputs()
{
	local f
	mkdir -p "$TMP/dir" "$TMP/ro"
	for f in jsonl chrome perfetto; do
		bad "--$f in a folder that does not exist" 1 'create the directory' -q -e launch --$f "$TMP/none/x" -- true
		bad "--$f below a file" 1 'create the directory|another file' -q -e launch --$f "$TMP/plain/x" -- true
		bad "--$f is a folder" 1 'name a file in it' -q -e launch --$f "$TMP/dir" -- true
		bad "--$f on a full device" 1 'free some space' -q -e launch --$f /dev/full -- sh -c 'echo runs'
		AS=(unshare -m sh -c 'mount -t tmpfs -o ro none "$1" && shift && exec "$@"' sh "$TMP/ro")
		bad "--$f on a read-only file system" 1 'file system is read-only' -q -e launch --$f "$TMP/ro/x" -- true
		AS=()
	done
	rm -f "$X"
	bad 'the second output cannot be written' 1 'name a file in it' "${to_x[@]}" --chrome "$TMP/dir" -- true
	check 'the second output cannot be written: the first is whole' holds "$X" 'end["reason"] == "could not start"'
	AS=(sh -c 'exec "$@" >&-' sh)
	bad 'stdout is closed' 1 'standard output is closed' -q -e launch --jsonl - -- true
	bad 'list: stdout is closed' 1 'cannot write to stdout' list
	AS=(sh -c 'exec "$@" >&- 2>&- <&-' sh)
	ct "${to_x[@]}" -- sh -c 'exit 6'
	check 'all standard descriptors are closed: traces' is $rc 6
	check 'all standard descriptors are closed: the trace' holds "$X" 'end["reason"] == "command exited" and accounts()'
	AS=()
	(
		cd "$TMP/dir" || exit
		echo >traces
		bad 'the folder traces is a file' 1 'choose|another file|create' -q -e launch -- true
	)
}

# As an unprivileged user, with a copy of the program, because user nobody may not read all folders.
not_root()
{
	chmod 755 "$TMP"
	cp "$CUDATRACE" "$TMP/ct"
	chmod 755 "$TMP/ct"
	command -v setpriv >/dev/null || { skip 'bad input: not root' 'needs setpriv'; return; }
	local CT=$TMP/ct user=(setpriv --reuid=65534 --regid=65534 --clear-groups)
	local AS=("${user[@]}")
	bad 'not root' 1 'privilege CAP_BPF, privilege CAP_PERFMON: .*: run it with sudo' --probe=uprobe -q --jsonl /dev/null -- true
	bad 'not root, --kernel' 1 'privilege CAP_BPF, privilege CAP_PERFMON: .*: run it with sudo' --probe=uprobe -q --kernel --jsonl /dev/null -- true
	bad 'not root, -p' 1 'privilege CAP_BPF, privilege CAP_PERFMON: .*: run it with sudo' -q --jsonl /dev/null -p $$
	bad 'not root, all' 1 'privilege CAP_BPF, privilege CAP_PERFMON: .*: run it with sudo' -q --jsonl /dev/null
	ct check
	check 'check: not root: status' is $rc 1
	check 'check: not root: says which' grep -q 'no  *privilege CAP_BPF' "$TMP/out"
	ct check --json
	check 'check --json: not root: no way of tracing' jq -e '.can_trace == false and .mechanism == null and .kernel_probe == null' "$TMP/out"
	check 'check --json: not root' jq -e '[.. | objects | select(.name? == "cap_bpf" and .state == "no" and (.fix | length > 0))] | length == 1' "$TMP/out"
	ct list
	check 'list: needs no root' is "$rc $(wc -c <"$TMP/err")" '0 0'
	AS=("${user[@]}" --inh-caps=+bpf --ambient-caps=+bpf)
	bad 'CAP_BPF alone' 1 'without: privilege CAP_PERFMON: .*: run it with sudo' --probe=uprobe -q --jsonl /dev/null -- true
	AS=("${user[@]}" --inh-caps=+perfmon --ambient-caps=+perfmon)
	bad 'CAP_PERFMON alone' 1 'without: privilege CAP_BPF: .*: run it with sudo' --probe=uprobe -q --jsonl /dev/null -- true
	has_mechanism multi || { skip 'CAP_BPF and CAP_PERFMON' 'this kernel wants more'; return; }
	# shellcheck disable=SC2054 # commas of setpriv's
	AS=("${user[@]}" --inh-caps=+bpf,+perfmon,+sys_ptrace --ambient-caps=+bpf,+perfmon,+sys_ptrace)
	mkdir -m 777 "$TMP/mine"
	ct -q -e launch --jsonl "$TMP/mine/x" -- sh -c 'exit 3'
	check 'CAP_BPF and CAP_PERFMON are enough' is "$rc $(cat "$TMP/err")" '3 '
	bad 'a user who may not become another' 1 'run cudatrace as root' -q -e launch --user 12345 --jsonl "$TMP/mine/x" -- true
}

# The mechanisms that auto selects here.
ways()
{
	local way
	ct check --json
	way=$(jq -r '[.capabilities[] | select(.state == "yes") | .name] as $has |
		if $has | index("kprobe_multi") then "kprobe.multi" elif $has | index("fentry") then "fentry"
		elif $has | index("kprobe") then "kprobe" else "tracepoint" end' "$TMP/out")
	# fentry needs the driver's own type information.
	[ "$way" = fentry ] && [ -e /sys/module/nvidia ] && [ ! -e /sys/kernel/btf/nvidia ] && way='kprobe\|tracepoint'
	check 'check --json: how --kernel sees the driver' is "$(jq -r .kernel_probe "$TMP/out" | grep -cx "$way")" 1
	ct check
	check 'check: how --kernel sees the driver' grep -q "; --kernel sees the driver by $way\.$" "$TMP/out"
}

# Simulates older kernels by bpf() and perf_event_open() with fewer features. $LACKS: attach types of links, -1 for perf events.
# $REFUSES: a program that cannot be loaded. $FAILS: attach types of links that exist and cannot be made; a probe of support uses a
# folder, not a file.
kernels()
{
	local multi=48 session=57
	cat >"$TMP/lacks.c" <<-'END'
	#define _GNU_SOURCE
	#include <dlfcn.h>
	#include <errno.h>
	#include <stdint.h>
	#include <stdio.h>
	#include <stdlib.h>
	#include <string.h>
	#include <sys/syscall.h>
	static int in(const char *s, long what)
	{
		char word[16];
		snprintf(word, sizeof(word), " %ld ", what);
		return s && strstr(s, word);
	}
	static int lacks(long what) { return in(getenv("LACKS"), what); }
	static int fails(uint32_t *link) { return in(getenv("FAILS"), link[2]) && strcmp(*(char **)(link + 4), "/"); }
	long syscall(long n, long a, long b, long c, long d, long e, long f)
	{
		static long (*real)(long, ...);
		if (!real)
			real = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
		if (n == SYS_bpf && a == 28 && fails((uint32_t *)b)) {
			errno = atoi(getenv("FAILS"));
			return -1;
		}
		if ((n == SYS_bpf && a == 28 && lacks(((uint32_t *)b)[2])) ||
		    (n == SYS_bpf && a == 5 && getenv("REFUSES") && !strncmp((char *)b + 48, getenv("REFUSES"), 15)) || (n == SYS_perf_event_open && lacks(-1))) {
			errno = n == SYS_bpf ? EINVAL : ENOENT;
			return -1;
		}
		return real(n, a, b, c, d, e, f);
	}
	END
	${CC:-gcc} -O1 -w -shared -fPIC -o "$TMP/lacks.so" "$TMP/lacks.c" -ldl || { fail 'kernels' 'no compiler'; return; }
	local AS=(env "LD_PRELOAD=$TMP/lacks.so" "LACKS= $session ")
	bad 'a mechanism that the kernel lacks: session' 1 'no uprobe.session: leave' --mechanism=session "${to_x[@]}" --libcuda "$FAKE/libcuda.so.1" -- true
	ct "${to_x[@]}" -- true
	check 'a kernel without session: the next best' holds "$X" 'head["mechanism"] == "uprobe.multi" and len(head["degraded"]) == 1'
	check 'a kernel without session: no complaint' is "$rc $(cat "$TMP/err")" '0 '
	# This kernel has session, but does not load our program.
	AS=(env "LD_PRELOAD=$TMP/lacks.so" REFUSES=ct_session)
	LD_LIBRARY_PATH=$FAKE ct "${to_x[@]}" -- "$FAKE/sample" --quiet
	check 'session cannot be loaded: the next best' holds "$X" 'head["mechanism"] == "uprobe.multi" and calls and accounts()'
	check 'session cannot be loaded: says so' is "$rc $(cat "$TMP/err")" \
		'0 cudatrace: warning: uprobe.session does not work here (Invalid argument): functions are probed by uprobe.multi'
	bad 'session cannot be loaded, and was asked for' 1 'uprobe.session does not work here: Invalid argument: leave the option out' --mechanism=session "${to_x[@]}" --libcuda "$FAKE/libcuda.so.1" -- true
	# This kernel loads the program, but does not attach it (12: ENOMEM, 22: EINVAL, which could also concern the instruction).
	local fails mech=multi why
	for fails in "12 $session " "22 $session " "12 $session $multi " "22 $session $multi "; do
		why='Cannot allocate memory'
		[ "${fails%% *}" = 12 ] || why='Operation not supported'
		[[ $fails = *$multi* ]] && mech=
		AS=(env "LD_PRELOAD=$TMP/lacks.so" "FAILS=$fails")
		LD_LIBRARY_PATH=$FAKE ct "${to_x[@]}" -- "$FAKE/sample" --quiet
		check "attaching fails ($fails): the next" holds "$X" "head['mechanism'] == 'uprobe${mech:+.$mech}' and calls and accounts() and head['probe_cost_ns'] > 0"
		check "attaching fails ($fails): says so once" is "$rc $(cat "$TMP/err")" \
			"0 cudatrace: warning: uprobe.session does not work here ($why): functions are probed by uprobe${mech:+.$mech}"
	done
	bad 'attaching fails, session was asked for' 1 'uprobe.session does not work here: Operation not supported: leave the option out' --mechanism=session "${to_x[@]}" -- true
	bad 'attaching fails, multi was asked for' 1 'uprobe.multi does not work here: Operation not supported: leave the option out' --mechanism=multi "${to_x[@]}" -- true
	AS=(env "LD_PRELOAD=$TMP/lacks.so" REFUSES=ct_nv_sys_enter CUDATRACE_TEST_NV_BY_NAME=1)
	LD_LIBRARY_PATH=$FAKE ct --kernel "${to_x[@]}" -- "$FAKE/sample" --quiet
	check 'no way of seeing the driver: CUDA calls are traced' holds "$X" 'calls and "kernel_probe" not in head and accounts()'
	check 'no way of seeing the driver: says so' is "$rc $(cat "$TMP/err")" \
		'0 cudatrace: warning: --kernel: cannot probe the driver here (Invalid argument): only CUDA calls are traced'
	bad 'no way of seeing the driver: that was asked for' 1 '--kernel-probe=tracepoint does not work here: Invalid argument' --kernel \
		--kernel-probe=tracepoint "${to_x[@]}" --libcuda "$FAKE/libcuda.so.1" -- true
	AS=(env "LD_PRELOAD=$TMP/lacks.so" "LACKS= $session $multi ")
	bad 'a mechanism that the kernel lacks: multi' 1 'no uprobe.multi: leave' --mechanism=multi "${to_x[@]}" --libcuda "$FAKE/libcuda.so.1" -- true
	LD_LIBRARY_PATH=$FAKE ct "${to_x[@]}" -- "$FAKE/sample" --quiet
	check 'a kernel without links: perf events' holds "$X" \
		'head["mechanism"] == "uprobe" and len(head["degraded"]) == 2 and calls and accounts()'
	ct check
	check 'a kernel without links: check says what is lost' grep -q 'no  *uprobe.multi' "$TMP/out"
	check 'a kernel without links: and what ends programs' eval 'tr -s " \n" " " <"$TMP/out" | grep -q "another, higher stack during a call (coroutines) is killed by SIGILL"'
	AS=(env "LD_PRELOAD=$TMP/lacks.so" "LACKS= -1 $session $multi ")
	bad 'a kernel without uprobes' 1 'without: uprobes: .*CONFIG_UPROBES' "${to_x[@]}" --libcuda "$FAKE/libcuda.so.1" -- true
	ct check
	check 'a kernel without uprobes: check' is "$rc $(grep -c 'Tracing by uprobes is not possible' "$TMP/out")" '1 1'
	AS=(unshare -m sh -c 'mount -t tmpfs none /sys/kernel/btf && exec "$@"' sh)
	bad 'a kernel without BTF' 1 'BTF.*CONFIG_DEBUG_INFO_BTF' "${to_x[@]}" -- true
	ct check
	# Others may serve a libcuda by FUSE at the same time.
	check 'a kernel without BTF: check' is "$rc $(grep -c 'no  *type information' "$TMP/out") $(grep -v FUSE "$TMP/err")" '1 1 '
}

# The kernel refuses a link as a whole; finding the refused functions took a second.
attaches_in_time()
{
	local ms
	for _ in 1 2 3 4 5; do
		ct -v --jsonl "$X" --libcuda "$1" -- true
		ms=$(sed -n 's/.* functions attached in \([0-9]*\)\..*/\1/p' "$TMP/err")
		[ "$ms" -lt 300 ] && return
	done
	echo "takes $ms ms"
	return 1
}
refusals()
{
	[ "$(uname -m)" = x86_64 ] || { skip 'instructions that the kernel refuses' 'of x86-64'; return; }
	{
		echo .text
		for name in cuInit cuMemAlloc_v2 $(seq -f cuMine%g 120); do
			printf '.globl %s\n.type %s,@function\n%s: push %%rbp\n pop %%rbp\n xor %%eax,%%eax\n ret\n.size %s,.-%s\n' $name $name $name $name $name
		done
		while read -r name insn; do
			printf '.globl %s\n.type %s,@function\n%s: %s\n xor %%eax,%%eax\n ret\n.size %s,.-%s\n' "$name" "$name" "$name" "$insn" "$name" "$name"
		done <<-'END'
		cuTraps hlt
		cuTakesVex vzeroupper
		cuPorts vpxor %xmm0,%xmm0,%xmm0
		cuLocked lock incl (%rsp)
		END
		echo '.section .note.GNU-stack,"",@progbits'
	} >"$TMP/refused.S"
	${CC:-gcc} -shared -nostdlib -Wl,-soname,libcuda.so.1 -o "$TMP/refused.so" "$TMP/refused.S" || { fail 'instructions that the kernel refuses' 'no library'; return; }
	check 'instructions that the kernel refuses: attached in time' attaches_in_time "$TMP/refused.so"
	# Newer kernels accept more of these instructions.
	check 'instructions that the kernel refuses: all others are attached' holds "$X" '123 <= head["libraries"][0]["functions"] <= 124'
	check 'instructions that the kernel refuses: which' eval '[ "$(grep -c "cannot probe the first instruction of cu\(Traps\|Locked\) " "$TMP/err")" = 2 ] && ! grep "cannot probe.*\(cuInit\|cuMine\|cuTakesVex\)" "$TMP/err"'
}

statuses()
{
	local words want
	ct "${to_x[@]}" -- true
	check 'exit status: 0' is "$rc $(cat "$TMP/err")" '0 '
	for words in '7 exit 7' '255 exit 255' '127 exit 127' '2 exit 2' '143 kill -TERM $$' '137 kill -KILL $$' '130 kill -INT $$'; do
		want=${words%% *}
		ct "${to_x[@]}" -- sh -c "${words#* }"
		check "exit status of the command: ${words#* }" is $rc "$want"
	done
	ct "${to_x[@]}" -p $$ --duration 0.1
	check 'exit status: -p' is $rc 0
	ct "${to_x[@]}" sh -c 'exit 4'
	check 'the -- may be left out' is $rc 4
	ct "${to_x[@]}" -- env FOO=bar sh -c 'echo "$FOO" $#; echo err >&2; exit 3' sh -e --jsonl -q
	check "the command's options are its own" is "$rc $(cat "$TMP/out" "$TMP/err")" '3 bar 3
err'
	ct "${to_x[@]}" -- sh -c 'grep -E "^(SigBlk|SigIgn)" /proc/self/status | tr -d "\t\n"; ls /proc/self/fd | wc -l'
	check 'the command inherits no signal mask and no descriptors' is "$(cat "$TMP/out")" \
		"$(timeout -k 5 30 sh -c 'grep -E "^(SigBlk|SigIgn)" /proc/self/status | tr -d "\t\n"; ls /proc/self/fd | wc -l' 2>/dev/null </dev/null | cat)"
	${CC:-gcc} -w -o "$TMP/ignores" tests/ignores.c
	check 'the command ignores the signals that it would without us' is \
		"$("$TMP/ignores" "$CUDATRACE" -q -e init --jsonl /dev/null -- grep SigIgn /proc/self/status)" "$("$TMP/ignores" grep SigIgn /proc/self/status)"
}

listing()
{
	local n
	ct list
	check 'list: status' is "$rc $(cat "$TMP/err")" '0 '
	check 'list: 100 columns' is "$(awk 'length > 100' "$TMP/out" | grep -v '^LIB \|^No libcuda' | head -3)" ''
	n=$(sed -n 's/^\([0-9]*\) functions, .*/\1/p' "$TMP/out")
	check "list: all rows ($n)" is "$(grep -cE '^(cu|nccl)' "$TMP/out")" "$n"
	grep -E '^(cu|nccl)' "$TMP/out" | awk '{ print $1 }' >"$TMP/names"
	check 'list: the exports of driver 580 are there' test "$(grep -cxF -f tests/unit/libcuda-580-exports.txt "$TMP/names")" -gt 600
	ct list --json
	check 'list --json: rows' jq -e --argjson n "${n:-0}" 'length == $n and ([.[].symbol] | unique | length) == $n' "$TMP/out"
	check 'list --json: members' jq -e 'all(.[]; (.symbol | test("^(cu|nccl)")) and .name and .class and .op and
		(.default | type == "boolean") and (.args | type == "array") and all(.args[]; .name and .type and .direction))' "$TMP/out"
	ct list --ioctls
	check 'list --ioctls: status' is "$rc $(cat "$TMP/err")" '0 '
	check 'list --ioctls: all tables' is "$(grep -oE '^[A-Z][A-Z ]*(:|$)' "$TMP/out" | tr -d '\n')" \
		'ESCAPES:CONTROLS:CLASSES:UVM COMMANDS:NVKMS COMMANDS:STATUSESSCHEDULER:XIDS:'
	check 'list --ioctls: 100 columns' is "$(awk 'length > 100' "$TMP/out" | head -3)" ''
	check 'list --ioctls: NVKMS numbers shift' is "$(grep -o '.*NVKMS_IOCTL_EXPORT_VRR_SEMAPHORE_SURFACE$' "$TMP/out" | tr -s ' ' | cut -d ' ' -f 2-9)" \
		'55 55 55 55 56 56 - -'
	ct list --ioctls --json
	check 'list --ioctls --json' jq -e '(.nvkms | length == 66) and (.nvkms[] | select(.name == "NVKMS_IOCTL_FLIP") |
		.numbers["550.163.01"] == 14 and .numbers["580.142"] == 15) and (.escapes | length > 40) and (.xids | length > 70)' "$TMP/out"
	ct list --json
	check 'list --json: the same as list' is "$(jq -r '.[].symbol' "$TMP/out" | md5sum)" "$(md5sum <"$TMP/names")"
	check 'list --json: queries are off by default' jq -e 'all(.[]; .default == (.op != "query"))' "$TMP/out"
	check 'list --json: the first level that has it' jq -e 'all(.[]; .default == (.detail == "low" or .detail == "normal")) and
		([.[].detail] | unique) == ["all", "high", "low", "normal"]' "$TMP/out"
	jq -r '.[] | select(.detail == "low").symbol' "$TMP/out" >"$TMP/low"
	ct list --detail=low
	check 'list --detail: what it has' is "$(awk '/^(cu|nccl)/ { print $1 }' "$TMP/out" | md5sum)" "$(md5sum <"$TMP/low")"
	check 'list --detail: how many' grep -Eq "^--detail=low +$(wc -l <"$TMP/low")  launches, " "$TMP/out"
	ct list --detail=low -e '!launch,cuEventRecord' --json
	check 'list --detail -e: less those' jq -e 'length > 100 and all(.[]; .class != "launch" and .symbol != "cuEventRecord" and .detail == "low")' "$TMP/out"
	ct list --detail=low -e cuEventRecord --json
	check 'list --detail -e: and those' is "$(jq -r '.[].symbol' "$TMP/out" | grep -vxF -f "$TMP/low" | xargs) $(grep -c cuLaunchKernelEx "$TMP/low")" \
		"cuEventRecord cuEventRecord_ptsz 2"
	bad 'list --detail --ioctls' 2 'leave one out' list --ioctls --detail=low
	ct list -e memory --json
	check 'list -e memory' jq -e 'length > 20 and all(.[]; .class == "memory")' "$TMP/out"
	ct list -e 'cuMemcpy*,!cuMemcpyHtoD*,cuInit' --json
	check 'list -e: globs and !' jq -e 'length > 10 and all(.[]; .symbol == "cuInit" or ((.symbol | startswith("cuMemcpy")) and (.symbol | startswith("cuMemcpyHtoD") | not)))' "$TMP/out"
	ct list -e cuMemAlloc --json
	check 'list -e: a name means all its versions' is "$(jq -c '[.[].symbol] | sort' "$TMP/out")" '["cuMemAlloc","cuMemAlloc_v2"]'
	ct list --libcuda "$FAKE/libcuda.so.1" --json
	check 'list --libcuda: exports' is "$(jq -r '.[] | select(.exported) | .symbol' "$TMP/out" | sort)" \
		"$(nm -D --defined-only "$FAKE/libcuda.so.1" | awk '$3 ~ /^cu/ { sub("@.*", "", $3); print $3 }' | sort)"
	echo 'int cuInit(int n) { return n; } int cuOfMyOwn(int n) { return n + 1; }' >"$TMP/two.c"
	${CC:-gcc} -shared -fPIC -Wl,-soname,libcuda.so.1 -o "$TMP/two.so" "$TMP/two.c"
	ct list --libcuda "$TMP/two.so" --json
	check 'list --libcuda: a library with two functions' is \
		"$(jq -c '[.[] | select(.exported) | [.symbol, .known]]' "$TMP/out")" '[["cuInit",true],["cuOfMyOwn",false]]'
	ct list --libcuda "$FAKE/libcuda.so.1"
	check 'list --libcuda: says of which file' grep -q "^LIB is $FAKE/libcuda.so.1: it has " "$TMP/out"
	check 'list: closed pipe' is "$("$CUDATRACE" list 2>&1 >/dev/null | head -1; "$CUDATRACE" list 2>"$TMP/err" | head -1 | cut -c 1-6; cat "$TMP/err")" 'SYMBOL'
	"$CUDATRACE" list >/dev/full 2>"$TMP/err"
	check 'list: full disk' is "$? $(grep -c 'cannot write to stdout' "$TMP/err")" '1 1'
}

checking()
{
	ct check
	# check inspects all processes, including those of suite blocking.
	check 'check: status' is "$rc $(grep -v '(FUSE)' "$TMP/err")" '0 '
	check 'check: sums up' grep -q '^Tracing is possible, with uprobe' "$TMP/out"
	ct check --json
	check 'check --json: valid' jq -e 'type == "object"' "$TMP/out"
	check 'check --json: says what is lost and how to fix it' jq -e '[.. | objects | select(has("state"))] | length > 15 and
		all(.[]; .name and .what and (.state == "yes" or ((.lost | length > 0) and (.fix | length > 0))))' "$TMP/out"
	ct check --json --libcuda "$FAKE535/libcuda.so.1"
	check 'check --json: the library' jq -e --arg p "$FAKE535/libcuda.so.1" \
		'[.. | objects | select(.path? == $p)] | length == 1 and .[0].functions > 400 and .[0].shifted_probes > 400' "$TMP/out"
	"$CUDATRACE" check >/dev/full 2>"$TMP/err"
	check 'check: full disk' is "$? $(grep -c 'cannot write to stdout' "$TMP/err")" '1 1'
}

texts()
{
	local o shell verb
	ct --version
	check '--version' grep -Eqx 'cudatrace [0-9]+\.[0-9]+\.[0-9]+[-.0-9a-z]*' "$TMP/out"
	for verb in '' list check; do
		# shellcheck disable=SC2086 # none or one
		ct $verb --help
		check "${verb:+$verb }--help" is "$rc $(wc -c <"$TMP/err")" '0 0'
		check "${verb:+$verb }--help: fits" is "$(awk 'length > 100' "$TMP/out")" ''
	done
	ct --help
	cp "$TMP/out" "$TMP/help"
	ct '-?'
	check '-?' cmp "$TMP/out" "$TMP/help"
	ct --help=all
	cp "$TMP/out" "$TMP/help"
	grep -o '^ .*--[a-z-]*' "$TMP/help" | grep -o -- '--[a-z-]*$' | sort -u >"$TMP/options"
	for o in jsonl chrome perfetto summary quiet trace all duration max-events min-duration libcuda buffer-size user no-follow \
		no-wait mechanism pid verbose version help; do
		check "--help=all: --$o" grep -qx -- "--$o" "$TMP/options"
	done

	ct --man
	cp "$TMP/out" "$TMP/cudatrace.1"
	check '--man: all options' is "$(sed 's/\\-/-/g' "$TMP/cudatrace.1" | grep -o -- '--[a-z-]*' | sort -u | comm -13 - "$TMP/options")" ''
	if command -v mandoc >/dev/null; then
		check '--man: mandoc' is "$(mandoc -T lint -W warning "$TMP/cudatrace.1" 2>&1 | head -5)" ''
	else
		skip '--man: mandoc' 'not installed'
	fi
	if command -v groff >/dev/null && groff -man -z /dev/null 2>/dev/null; then
		check '--man: groff' is "$(groff -ww -man -Tutf8 -z "$TMP/cudatrace.1" 2>&1 | head -5)" ''
	else
		skip '--man: groff' 'not installed'
	fi

	for shell in bash zsh fish; do
		"$CUDATRACE" --completion=$shell >"$TMP/completion.$shell"
		check "--completion=$shell: all options" is "$(sed 's/^--//' "$TMP/options" | while read -r o; do
			grep -Eq -- "(--| -l )$o\b" "$TMP/completion.$shell" || echo "$o"; done)" ''
		command -v $shell >/dev/null || { skip "--completion=$shell: is read" "$shell is not installed"; continue; }
		check "--completion=$shell: is read" $shell -n "$TMP/completion.$shell"
	done
	check '--completion=bash: completes' is "$(completed)" '--json --jsonl / cuMemAllocHost cuMemAllocHost_v2 / session / --trace / burst dump level reload status / report / layers / tests/lib.sh'
}
completed()
{
	PATH=$TMP/path:$PATH bash -c '
		. "$1"
		compopt() { :; }
		try()
		{
			COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
			_cudatrace
			printf "%s\n" "${COMPREPLY[@]}" | sort | xargs
		}
		echo "$(try cudatrace --jso) / $(try cudatrace -e cuMemAllocHo) / $(try cudatrace --mechanism = se) / $(
			try cudatrace list -- | tr " " "\n" | grep -x -e --trace) / $(
			try cudatrace ctl "" | tr " " "\n" | grep -xE "status|level|burst|dump|reload" | xargs) / $(
			try cudatrace help rep) / $(try cudatrace help lay) / $(try cudatrace report x.jsonl tests/lib)"' bash "$TMP/completion.bash"
}
mkdir "$TMP/path"
ln -s "$(realpath "$CUDATRACE")" "$TMP/path/cudatrace"

usage
selection
listing
texts
needs_tracing 'bad input: what needs root'
unknown
libraries
commands
processes
outputs
not_root
ways
kernels
refusals
statuses
checking

for verb in list check report diff daemon ctl; do
	check "--help=all: names $verb" grep -q "^       cudatrace $verb " <("$CUDATRACE" --help=all)
done

same_output 'help' help -- --help
same_output 'help of everything' help all -- --help=all
same_output 'help of a topic' help layers -- --help=layers
same_output 'help of an option' help --torch -- help torch
bad 'help: unknown topic' 2 'one of: which .*target.*ctl' help no-such-topic
bad 'no target' 2 'add a command, -p PID, or -a' --duration 1 -e launch
bad 'every process and one' 2 'leave out -p' -a -p 1
ct help which --json
check 'help which --json' jq -e 'length > 15 and all(.[]; (.command | startswith("cudatrace ")) and .question and .cost and .needs_root and .works_with_p)' "$TMP/out"
same_output 'help of a verb' help report -- report --help
same_output 'report --json' report --json tests/golden/h200-triton.jsonl -- report --format=json tests/golden/h200-triton.jsonl
ct trace -q --no-summary --jsonl "$X" -- sh -c 'exit 5'
check 'trace is the verb that needs no name' is $rc 5
ct top --help
check 'top --help: options do not repeat the verb' eval '[ $rc = 0 ] && ! grep -q " top: " "$TMP/out"'
ct ctl --help
check 'ctl --help: says what each command does' is "$(grep -cE '^  (status|level|burst|dump|reload) +[a-z]' "$TMP/out")" 5
