#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# No errors and no leaks: the program under valgrind, traces too; and built with ASan and UBSan, what valgrind is too
# slow for.
#
# Not counted as errors: what valgrind says of bpf()'s arguments. It wants bytes of the attribute initialised that
# the kernel does not look at, and knows not all commands.
# timeout: 240
set -u
. tests/lib.sh
unset MAKEFLAGS MAKELEVEL MFLAGS SUDO_UID SUDO_GID
export LD_LIBRARY_PATH=$FAKE

DEFAULT='all,!query,!cu[FP]*[LI]*[de]'
SAMPLE=("$FAKE/sample" --tokens 2 --layers 2 --quiet)
is() { [ "$1" = "$2" ] || { echo "$1, not $2"; return 1; }; }

# complaints LOG: blocks of valgrind's that are none of bpf()'s arguments
complaints()
{
	sed -n 's/^==[0-9]*== \{0,1\}//p' "$1" |
		awk -v RS= '!/^Syscall param bpf\(/ && !/^HEAP SUMMARY|^LEAK SUMMARY|^For lists of|^ERROR SUMMARY/' | head -20
}
# checked NAME STATUS ARG...: by valgrind
checked()
{
	local name="valgrind: $1" want=$2 rc said
	shift 2
	rm -f "$TMP/log"
	timeout 100 valgrind -q --log-file="$TMP/log" --leak-check=full --show-leak-kinds=definite,indirect,possible \
		--track-fds=no "$CUDATRACE" "$@" >"$TMP/out" 2>"$TMP/err"
	rc=$?
	said=$(complaints "$TMP/log")
	if [ $rc != "$want" ]; then
		fail "$name" "exit status $rc, not $want: $(head -3 "$TMP/err")"
	elif [ -n "$said" ]; then
		fail "$name" "$said"
	else
		pass "$name"
	fi
}

by_valgrind()
{
	command -v valgrind >/dev/null || { skip valgrind 'not installed'; return; }
	checked list 0 list
	checked 'list --json' 0 list --json --libcuda "$FAKE/libcuda.so.1"
	checked 'list -e' 0 list -e 'memory,!cuMemGet*'
	checked --help 0 --help
	checked --man 0 --man
	checked 'a wrong option' 2 --jsnl x
	checked 'a wrong -e' 2 -e memry -- true
	checked 'no libcuda' 1 list --libcuda tests/lib.sh
	(
		needs_tracing 'valgrind: traces'
		checked 'check' 0 check --json
		checked 'a trace' 0 --json -e "$DEFAULT" --jsonl "$TMP/a.jsonl" --chrome "$TMP/a.json" -- "${SAMPLE[@]}"
		# Not accounts(): the cost of a probe, measured under valgrind, is no number to count with.
		check 'valgrind: a trace: it is one' holds "$TMP/a.jsonl" 'end["calls"] == len(calls) > 100 and end["reason"] == "command exited"'
		checked 'a trace that cannot be written' 1 -q -e launch --jsonl /dev/full -- true
		checked 'a command that cannot be run' 1 -q -e launch --jsonl "$TMP/b.jsonl" -- "$TMP/a.json"
	)
}

# sane NAME STATUS COMMAND...: by the sanitizers; $san is the program
sane()
{
	local name="sanitizers: $1" want=$2 rc
	shift 2
	rm -f "$TMP"/san.*
	ASAN_OPTIONS=exitcode=99:log_path=$TMP/san.log UBSAN_OPTIONS=print_stacktrace=1:log_path=$TMP/san.log \
		timeout 60 "$@" >"$TMP/out" 2>"$TMP/err"
	rc=$?
	# Of the program: those of its command are not its own, and there are none.
	if compgen -G "$TMP/san.log*" >/dev/null; then
		fail "$name" "$(cat "$TMP"/san.log* | grep -v '^=*$' | head -30)"
	elif [ "$want" != any ] && [ $rc != "$want" ]; then
		fail "$name" "exit status $rc, not $want: $(head -3 "$TMP/err")"
	else
		pass "$name"
	fi
}

by_sanitizers()
{
	local san=$O/san/cudatrace a pid
	if ! make -j2 O="$O/san" SKEL_DIR="$O" SAN=address,undefined "$san" >"$TMP/make.log" 2>&1; then
		skip sanitizers "does not build here: $(grep -m 1 -i error "$TMP/make.log")"
		return
	fi
	for a in list 'list --json' 'list --names' --help 'list --help' --man --completion=bash --completion=zsh --completion=fish --version; do
		# shellcheck disable=SC2086 # words
		sane "$a" 0 "$san" $a
	done
	sane 'list --libcuda' 0 "$san" list --libcuda "$FAKE535/libcuda.so.1"
	sane 'a wrong option' 2 "$san" --jsnl x
	sane 'a wrong -e' 2 "$san" -e memry -- true
	(
		needs_tracing 'sanitizers: traces'
		# LeakSanitizer makes a thread at the end.
		out=(--no-sandbox --jsonl "$TMP/a.jsonl" --chrome "$TMP/a.json") e=(-e "$DEFAULT")
		sane check 0 "$san" check
		for a in session multi perf; do
			has_mechanism $a || continue
			[ $a = perf ] && DEFAULT=launch,init
			sane "a trace, $a" 0 "$san" --summary -e "$DEFAULT" --mechanism=$a "${out[@]}" -- "${SAMPLE[@]}"
			check "sanitizers: a trace, $a: it is one" holds "$TMP/a.jsonl" 'calls and accounts()'
		done
		sane 'a trace of everything' 0 "$san" --json --all "${out[@]}" -- "${SAMPLE[@]}" --threads 4
		sane 'a trace of late names' 0 "$san" -q "${e[@]}" "${out[@]}" -- "$CASES/modules"
		sane 'hostile arguments' any "$san" -q --all "${out[@]}" -- "$CASES/hostile"
		sane 'a fork' any "$san" -q "${e[@]}" "${out[@]}" -- "$CASES/fork"
		sane 'longjmp' any "$san" -q "${e[@]}" "${out[@]}" -- "$CASES/longjmp"
		sane 'a command that exits in a call' any "$san" -q "${e[@]}" "${out[@]}" -- "$CASES/exit_in_call"
		sane '--max-events' 0 "$san" "${e[@]}" -q --max-events 50 "${out[@]}" -- "${SAMPLE[@]}"
		sane 'a small ring' 0 "$san" -q --all --buffer-size 64K "${out[@]}" -- "${SAMPLE[@]}" --tokens 50
		sane 'a file size limit' 1 bash -c 'ulimit -f 40; "$@"' sh "$san" -q "${e[@]}" "${out[@]}" -- "${SAMPLE[@]}"
		sane 'a closed pipe' 1 bash -o pipefail -c '"$@" | head -1' sh "$san" --no-sandbox -q "${e[@]}" --jsonl - -- sh -c '"$@" >/dev/null' sh "${SAMPLE[@]}"
		sane 'an output that cannot be opened' 1 "$san" -q --jsonl "$TMP/a.jsonl" --chrome "$TMP" -- true
		sane 'a command that cannot be run' 1 "$san" -q "${out[@]}" -- "$TMP/a.json"
		sane 'a process without CUDA' 1 "$san" -q --no-wait "${out[@]}" -p $$
		FAKE_DELAY_US=cuStreamSynchronize:10000 "${SAMPLE[@]}" --tokens 1000000 >/dev/null &
		pid=$!
		until_ok 5 grep -q libcuda /proc/$pid/maps
		sane 'a running process' 0 "$san" "${e[@]}" -q --duration 0.5 "${out[@]}" -p $pid
		sane 'SIGINT' 0 timeout --preserve-status -s INT 1 "$san" -q "${e[@]}" "${out[@]}" -p $pid
		sane 'the whole machine' 0 "$san" --json --duration 0.5 "${out[@]}"
		kill $pid
		wait $pid 2>/dev/null
		true
	)
}

by_valgrind
by_sanitizers
