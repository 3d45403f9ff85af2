# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
# Functions for the suites of the daemon. Source it after tests/lib.sh and needs_tracing: . tests/daemon.sh
#
# start() sets $daemon, its pid; $url, the URL of its metrics; $files, its folder; $sock; $log.

is() { [ "$1" = "$2" ] || { echo "$1, not $2"; return 1; }; }
has() { [[ $1 == *"$2"* ]] || { printf '%s\n' "no: $2" "$1"; return 1; }; }
fails_with() { local want=$1 out; shift; out=$("$@" 2>&1) && { echo "passes: $out"; return 1; }; has "$out" "$want"; }
# The daemon listens before it answers: without a time limit a daemon that hangs would hang the suite.
get() { curl -sf --noproxy '*' -m 10 "$1"; }
is_up_or_gone() { get "$url/healthz" || is_gone "$daemon"; }

unset LD_LIBRARY_PATH
# Separate copies of library and programs: other tests may run the originals.
lib=$TMP/lib
mkdir "$lib"
cp "$FAKE/libcuda.so.1" "$lib/"
sample() { local name=$1; shift; [ -e "$TMP/$name" ] || cp "$FAKE/sample" "$TMP/$name"; LD_LIBRARY_PATH=$lib "$TMP/$name" "$@" >/dev/null; }
${CC:-gcc} -O1 -w -o "$TMP/caller" tests/caller.c -ldl -lpthread
# worker NAME: starts a caller (tests/lib.sh) of that name, and waits until the daemon has set its level
worker()
{
	cp "$TMP/caller" "$TMP/w-$1"
	CALLER=$TMP/w-$1 caller "$1" && [ "$(ask "$1" open "${2-$lib}/libcuda.so.1")" = 1 ] && until_ok 10 knows "${!1}" &&
		[ "$(ask "$1" init)" = 0 ]
}
knows() { ctl status | jq -e "any(.processes[]; .pid == $1)"; }
port() { python3 tests/helpers/ports.py 1; }

# start NAME OPTION...: starts a daemon that traces only our programs.
start()
{
	name=$1 files=$TMP/$1.files sock=$TMP/$1.sock log=$TMP/$1.log url=http://127.0.0.1:$(port)
	[ -e "$TMP/$1.yaml" ] || rules metrics >"$TMP/$1.yaml"
	shift
	"$CUDATRACE" daemon --config "$TMP/$name.yaml" --libcuda "$lib/libcuda.so.1" --set files.directory="$files" --set ctl.socket="$sock" \
		--set metrics.listen="${url#http://}" "$@" >"$log" 2>&1 &
	daemon=$!
	until_ok 20 is_up_or_gone && ! is_gone $daemon && return 0
	fail "daemon $name starts" "$(tail -3 "$log")"
	kill -9 $daemon 2>/dev/null
	return 1
}
rules() { printf 'level: off\nrules:\n  - match: {command: "%s/*"}\n    level: %s\n%s\n' "$TMP" "$1" "${2-}"; }
ctl() { "$CUDATRACE" ctl --set ctl.socket="$sock" "$@"; }
finish() { kill -TERM "${1:-$daemon}"; ended "${1:-$daemon}"; }

# shows EXPRESSION [NAME=VALUE...]: evaluates a Python expression over the current metrics, see tests/helpers/shows.py
shows()
{
	get "$url/metrics" >"$TMP/metrics" || { echo 'no metrics'; return 1; }
	python3 tests/helpers/shows.py "$TMP/metrics" "$files" "$@"
}
# all_of LEVEL PROGRAM [CALLS]: compares its calls with the driver's own counts in $TMP/counts.PROGRAM. At most CALLS first
# calls may come before its level is set: they are counted even at level off. LEVEL crowded: level metrics, where less
# than half of the calls may be lost if the losses are counted.
all_of()
{
	shows 'all_of(level, who, path, int(few))' level="$1" who="$2" path="$TMP/counts.$2" few="${3-40}"
}
until_shows() { until_ok 5 "$@" || "$@"; }
# The last metrics before the daemon ended, and the current files.
shows_last() { url=file://$TMP/last shows "$@"; }
# Only the files.
shows_now() { mkdir -p "$TMP/last"; : >"$TMP/last/metrics"; url=file://$TMP/last shows "$@"; }
