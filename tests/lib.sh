# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
# Functions for the suites that trace. Source it: . tests/lib.sh
#
# tests/run.sh sets $O, $CUDATRACE and $TMP.

FAKE=$O/fake FAKE535=$O/fake535 CASES=$O/cases
# Everything but cuFakeLocked, which the kernel refuses to probe in $O/fakelocked: finding it takes more than a
# second. -e accepts no names of exports without a row in the table, but globs match them. This glob also matches
# cuProfilerInitialize and cuFuncIsLoaded, because a glob must match a row.
ALL='all,!cu[FP]*[LI]*[de]'

pass() { echo "ok $1"; }
skip() { echo "skip $1 # $2"; }
# fail NAME WHY: the first line of WHY is the reason; some of the others are printed.
fail()
{
	local why=${2%%$'\n'*}
	[ "$why" = "$2" ] || printf '%s\n' "${2#*$'\n'}" | head -40 | sed 's/^/    /' | cut -c 1-1000
	echo "not ok $1 # $why"
}
# check NAME COMMAND...: passes if the command succeeds; else its output is the reason.
check()
{
	local name=$1 out
	shift
	if out=$("$@" 2>&1); then pass "$name"; else fail "$name" "${out:-failed: $*}"; fi
}

# until_ok SECONDS COMMAND...: retries COMMAND until it succeeds. SECONDS is for a quiet machine; the limit is six times that.
until_ok()
{
	local n=0 end=$((${EPOCHREALTIME/./} + $1 * 6000000))
	shift
	until "$@" >/dev/null 2>&1; do
		[ "${EPOCHREALTIME/./}" -lt $end ] || return 1
		if [ $((n += 1)) -lt 20 ]; then sleep 0.02; else sleep 0.15; fi
	done
}

# Ends the suite with one skip if this machine cannot trace.
needs_tracing()
{
	local why
	why=$(python3 tests/helpers/tracing.py) && [ -z "$why" ] && return 0
	skip "$1" "${why:-needs python3}"
	exit 0
}

# kernel_at_least 6 13
kernel_at_least()
{
	local a b
	IFS=.- read -r a b _ < <(uname -r)
	[ "$a" -gt "$1" ] || { [ "$a" -eq "$1" ] && [ "$b" -ge "$2" ]; }
}

# has_mechanism NAME: whether this kernel version has the mechanism
has_mechanism()
{
	case $1 in
	session) kernel_at_least 6 13 ;;
	multi) kernel_at_least 6 6 ;;
	perf) kernel_at_least 5 15 ;;
	esac
}

# holds TRACE EXPRESSION [NAME=VALUE...]: a Python expression over a JSONL trace
#   ev all lines   head the header   end the end   calls proc lib events by kind   sym Counter of symbols
#   accounts()     checks the trace as a whole, see tests/helpers/jsonl.py
holds() { python3 tests/helpers/holds.py "$@"; }

# Runs make in the build folder, one suite at a time
building() { flock "$O/check/make.lock" make -j2 O="${O#"$PWD/"}" "$@"; }

# tracer NAME OPTION...: starts a tracer. Its trace is $TMP/NAME.jsonl, its stderr $TMP/NAME.err, its pid $tracer.
# Returns when it has attached and written its header.
tracer()
{
	local name=$1
	shift
	rm -f "$TMP/$name.jsonl"
	"$CUDATRACE" -q --jsonl "$TMP/$name.jsonl" "$@" >"$TMP/$name.stdout" 2>"$TMP/$name.err" &
	tracer=$!
	until_ok 20 test -s "$TMP/$name.jsonl" && return 0
	kill -9 $tracer
	echo "cudatrace $* does not start: $(head -3 "$TMP/$name.err")"
	return 1
}
# ended PID...: waits for the processes (60 seconds, as of until_ok), then kills them; returns the status of the last
ended()
{
	local p rc=0
	for p; do
		until_ok 60 is_gone "$p" || { echo "# process $p does not end"; kill -9 "$p"; }
		wait "$p"
		rc=$?
	done
	return $rc
}
is_gone() { [ ! -e "/proc/$1" ] || grep -q '^State:.[ZX]' "/proc/$1/status"; }
# stop PID: ends a tracer. Not by SIGINT, which the background jobs of a shell ignore.
stop() { kill -TERM "$1"; ended "$1"; }

# A target that runs commands (tests/caller.c): caller NAME sets $NAME to its pid; ask NAME COMMAND prints the result.
caller()
{
	[ -x "$TMP/caller" ] || ${CC:-gcc} -O1 -w -o "$TMP/caller" tests/caller.c -ldl -lpthread || return 1
	mkfifo "$TMP/$1.to" "$TMP/$1.from"
	"${CALLER:-$TMP/caller}" <"$TMP/$1.to" >"$TMP/$1.from" 2>"$TMP/$1.caller.err" &
	printf -v "$1" %d $!
	local to from
	exec {to}>"$TMP/$1.to" {from}<"$TMP/$1.from"
	printf -v "$1_to" %d $to
	printf -v "$1_from" %d $from
	rm "$TMP/$1.to" "$TMP/$1.from"
}
ask()
{
	local to=$1_to from=$1_from answer
	# A subshell: writing to a target that is gone raises SIGPIPE.
	(echo "${*:2}" >&"${!to}") 2>/dev/null
	read -r -t 20 answer <&"${!from}" && echo "$answer"
}
# quit NAME. Not by closing its stdin: processes started later hold the other end too.
quit()
{
	local to=$1_to
	(echo 'exit 0' >&"${!to}") 2>/dev/null
	ended "${!1}"
}

# probed PID LIBRARY: see tests/helpers/probed.py
probed() { python3 tests/helpers/probed.py "$@"; }

# Prints two free ports
two_ports() { python3 tests/helpers/ports.py 2; }
