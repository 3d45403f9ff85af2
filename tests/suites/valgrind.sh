#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# No errors and no leaks in the program built with ASan and UBSan, also while tracing; in make check-all under valgrind.
#
# Valgrind's reports about bpf()'s arguments do not count. It requires initialised bytes of the attribute that the kernel ignores, and
# does not support all commands.
# timeout: 900
# takes: 60 100
# longer
set -u
. tests/lib.sh
unset MAKEFLAGS MAKELEVEL MFLAGS SUDO_UID SUDO_GID
export LD_LIBRARY_PATH=$FAKE

DEFAULT='all,!query,!cu[FP]*[LI]*[de]'
SAMPLE=("$FAKE/sample" --tokens 2 --layers 2 --quiet)
is() { [ "$1" = "$2" ] || { echo "$1, not $2"; return 1; }; }

# complaints LOG: valgrind's blocks that are not about bpf()'s arguments
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

# Threads, forks and execs, and more calls than any table's initial size; then a report of that.
under_load()
{
	# shellcheck disable=SC2016 # the inner shell's
	checked 'a trace under load' 0 -q -e "$DEFAULT" --buffer-size 64M --summary --jsonl "$TMP/load.jsonl" --chrome "$TMP/load.json" -- \
		sh -c '"$1/threads" 8 250; "$1/exec"; "$1/fork"; "$1/threads" 8 200; exec "$1/streams_events"' sh "$CASES"
	check 'valgrind: a trace under load: it is one' holds "$TMP/load.jsonl" \
		'end["calls"] == len(calls) > 10000 and not any(end["drops"].values()) and len(proc) > 8 and {"exec", "fork"} <= {e["op"] for e in proc}'
	checked report 0 report --format=all -o "$TMP/rep" "$TMP/load.jsonl"
	check 'valgrind: report: all its forms' test -s "$TMP/rep.report.html" -a -s "$TMP/rep.report.json" -a -s "$TMP/rep.report.txt"
	checked 'report of a broken file' 1 report tests/lib.sh
	checked diff 0 diff "$TMP/load.jsonl" "$TMP/load.jsonl"
}

by_daemon()
{
	local pid rc said lib=$TMP/lib
	rm -f "$TMP/log"
	# A private library and programs: the machine may have many others.
	mkdir -p "$lib" && cp "$FAKE/libcuda.so.1" "$FAKE/sample" "$CASES/threads" "$lib/"
	printf 'level: off\nrules:\n  - match: {command: "%s/*"}\n    level: trace\n' "$lib" >"$TMP/c.yaml"
	local -x LD_LIBRARY_PATH=$lib
	valgrind -q --log-file="$TMP/log" --leak-check=full --show-leak-kinds=definite,indirect,possible "$CUDATRACE" daemon --config "$TMP/c.yaml" \
		--libcuda "$lib/libcuda.so.1" --set files.directory="$TMP/files" --set ctl.socket="$TMP/ctl" \
		--set metrics.listen= >"$TMP/out" 2>"$TMP/err" &
	pid=$!
	until_ok 30 "$CUDATRACE" ctl --set ctl.socket="$TMP/ctl" status
	"$lib/threads" 4 100 >/dev/null
	"$CUDATRACE" ctl --set ctl.socket="$TMP/ctl" dump >"$TMP/ctl.out" 2>&1
	kill -HUP $pid
	"$lib/sample" --tokens 2 --layers 2 --quiet >/dev/null
	until_ok 30 sh -c '"$1" ctl --set ctl.socket="$2" status >"$3"' sh "$CUDATRACE" "$TMP/ctl" "$TMP/status"
	kill -TERM $pid
	ended $pid
	rc=$?
	said=$(complaints "$TMP/log")
	check 'valgrind: daemon: it worked' grep -q . "$TMP/status"
	if [ $rc = 0 ] && [ -z "$said" ]; then pass 'valgrind: daemon'; else fail 'valgrind: daemon' "exit status $rc: $said"; fi
}

by_valgrind()
{
	command -v valgrind >/dev/null || { skip valgrind 'not installed'; return; }
	checked list 0 list
	checked 'list -e' 0 list -e 'memory,!cuMemGet*'
	checked 'list --json' 0 list --json --libcuda "$FAKE/libcuda.so.1"
	checked --help 0 --help
	checked --man 0 --man
	checked 'a wrong option' 2 --jsnl x
	checked 'a wrong -e' 2 -e memry -- true
	checked 'no libcuda' 1 list --libcuda tests/lib.sh
	needs_tracing 'valgrind: traces'
	checked 'check' 0 check --json
	checked 'a trace' 0 --json -e "$DEFAULT" --jsonl "$TMP/a.jsonl" --chrome "$TMP/a.json" -- "${SAMPLE[@]}"
	# Not accounts(): the cost of a probe measured under valgrind is meaningless.
	check 'valgrind: a trace: it is one' holds "$TMP/a.jsonl" 'end["calls"] == len(calls) > 100 and end["reason"] == "command exited"'
	under_load
	by_daemon
	checked 'a trace that cannot be written' 1 -q -e launch --jsonl /dev/full -- true
	checked 'a command that cannot be run' 1 -q -e launch --jsonl "$TMP/b.jsonl" -- tests/lib.sh
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
	# Only the program's reports count; its command has none.
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
	if ! building O="${O#"$PWD/"}/san" SKEL_DIR="${O#"$PWD/"}" SAN=address,undefined "${san#"$PWD/"}" >"$TMP/make.log" 2>&1; then
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
		# LeakSanitizer starts a thread at the end.
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

if [ "$LONG" = 1 ]; then by_valgrind; else by_sanitizers; fi
