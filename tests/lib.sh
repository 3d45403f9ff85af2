# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
# What the suites that trace have in common. Source it: . tests/lib.sh
#
# $O, $CUDATRACE and $TMP are tests/run.sh's.

FAKE=$O/fake FAKE535=$O/fake535 CASES=$O/cases
# Everything but cuFakeLocked, which the kernel refuses to probe in $O/fakelocked: to find out which one it is
# costs more than a second. -e knows no exports that have no row in the table, but globs match them (and this one
# cuProfilerInitialize and cuFuncIsLoaded, for it must match a row).
ALL='all,!cu[FP]*[LI]*[de]'

pass() { echo "ok $1"; }
skip() { echo "skip $1 # $2"; }
# fail NAME WHY: only the first line of WHY counts, some of the others are shown.
fail()
{
	local why=${2%%$'\n'*}
	[ "$why" = "$2" ] || printf '%s\n' "${2#*$'\n'}" | head -40 | sed 's/^/    /' | cut -c 1-1000
	echo "not ok $1 # $why"
}
# check NAME COMMAND...: passes when the command does; what it prints is the reason when it does not.
check()
{
	local name=$1 out
	shift
	if out=$("$@" 2>&1); then pass "$name"; else fail "$name" "${out:-failed: $*}"; fi
}

# until_ok SECONDS COMMAND...: SECONDS is for a quiet machine; six times that is given. Asks less often what takes long.
until_ok()
{
	local n=0 end=$((${EPOCHREALTIME/./} + $1 * 6000000))
	shift
	until "$@" >/dev/null 2>&1; do
		[ "${EPOCHREALTIME/./}" -lt $end ] || return 1
		if [ $((n += 1)) -lt 20 ]; then sleep 0.02; else sleep 0.15; fi
	done
}

# Ends the suite with one skip where nothing can be traced.
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

# has_mechanism NAME: whether kernels of this version have it
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
#   accounts()     what is wrong with the trace as a whole, see tests/helpers/jsonl.py
holds() { python3 tests/helpers/holds.py "$@"; }

# make, in the build folder: one suite at a time
building() { flock "$O/check/make.lock" make -j2 O="${O#"$PWD/"}" "$@"; }

# A running tracer: tracer NAME OPTION... leaves the trace in $TMP/NAME.jsonl, its stderr in $TMP/NAME.err, its
# pid in $tracer. Returns when it has attached and written its header.
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
# ended PID...: waits for them, 20 seconds at most; status of the last
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
# stop PID: ends a trace by hand. Not by SIGINT, which a shell has its background jobs ignore.
stop() { kill -TERM "$1"; ended "$1"; }

# A target that takes commands (tests/caller.c): caller NAME sets $NAME to its pid; ask NAME COMMAND prints the answer.
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

# probed PID LIBRARY: see there
probed() { python3 tests/helpers/probed.py "$@"; }

# Prints two free ports
two_ports() { python3 tests/helpers/ports.py 2; }
