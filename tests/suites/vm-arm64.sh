#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# arm64: Debian's kernels, booted in qemu, run the static program of `make cross-arm64` on the stand-in driver. The cases of tests/cases
# have the same expectations on every machine.
# timeout: 2400
# takes: 250
# long
set -u
. tests/lib.sh
. tests/vm/suite.sh

# Loading many programs takes long here, so only the newest kernel runs the cases in which mechanisms differ.
tests_of()
{
	case $1 in
	arm64-6.1) echo checked cases stacks ;;
	*) echo checked cases stacks in_process ;;
	esac
}
before() { :; }
mechanisms() { case $1 in arm64-6.1) echo perf ;; *) echo session multi ;; esac; }
# Without longjmp: docs/LIMITS.md describes the difference on arm64.
cases_of() # WAY
{
	case $1 in
	session) echo dlopen_late fork launch memory nccl nested threads ;;
	multi) echo launch nested ;;
	perf) echo launch ;;
	inside) echo launch threads ;;
	esac
}
# Removing perf's probes one by one takes a while, so only some functions are traced.
FEW='cuMem*,cuLaunch*,cuModule*,!cuMemGet*'
# traced NAME CASE OPTION...: commands that leave NAME-CASE.*
traced()
{
	local to=$1-$2 args=
	[ "$2" = dlopen_late ] && args='/usr/lib/libcuda.so.1 50'
	echo "FAKE_CUDA_COUNTS=$to.counts cudatrace -q ${*:3} --jsonl $to.jsonl -- /cases/$2 $args >$to.exp 2>$to.err; echo \$? >$to.status"
}
# as_expected NAME CASE: the trace must match the case's expectations and the stand-in's counts
as_expected()
{
	local to=$R/$1-$2 present=
	is "$(cat "$to.status") $(head -3 "$to.err")" '0 ' || return
	[ "$1" != perf ] || present=--present
	tests/vm/emulated.py $present "$to.jsonl" "$to.exp" || return
	# On arm64 communicators are not distinguished (docs/COLLECTIVES.md): for NCCL only the counts are compared.
	[ "$2" = nccl ] || tests/cases/expect.py "$to.jsonl" "$to.exp" || return
	# The counts are lost when exec replaces the program.
	[ "$2" = exec ] || tests/cases/expect.py --counts "$to.counts" $present "$to.jsonl" || return
	holds "$to.jsonl" 'calls and accounts()'
}

in_guest_checked() { echo 'cudatrace check --json >check.json; echo $? >status'; }
here_checked()
{
	check "$K: check: status" is "$(cat "$R/status")" 0
	check "$K: check: it can trace" python3 -c '
import json, sys
has = {c["name"]: c["state"] for c in json.load(open(sys.argv[1]))["capabilities"]}
multi = sys.argv[2] != "perf"
want = {"uprobe_multi": multi, "uprobe_session": multi, "cookie": True, "kprobe": True, "ringbuf": True, "btf": True}
bad = {k: has.get(k) for k, v in want.items() if k in has and (has[k] == "yes") != v}
sys.exit(str(bad) if bad else None)' "$R/check.json" "$(mechanisms "$K")"
}

in_guest_cases()
{
	local m c set
	for m in $(mechanisms "$K"); do
		set=$ALL
		[ "$m" = perf ] && set=$FEW
		for c in $(cases_of "$m"); do traced "$m" "$c" --mechanism="$m" -e "'$set'"; done
	done
}
here_cases()
{
	local m c
	for m in $(mechanisms "$K"); do
		for c in $(cases_of "$m"); do check "$K: $m: $c" as_expected "$m" "$c"; done
		check "$K: $m: it was that" holds "$R/$m-launch.jsonl" 'm in head["mechanism"] or (m == "perf" and head["mechanism"] == "uprobe")' m="$m"
		check "$K: $m: of arm64" holds "$R/$m-launch.jsonl" '(head["machine"], head["kernel"]) == ("aarch64", release)' release="$(uname_of)"
	done
}

# The program that makes calls like an inference server, with stacks.
in_guest_stacks()
{
	echo "cudatrace -q --stack -e '$FEW' --jsonl stack.jsonl -- sample --tokens 4 --layers 2 --quiet --counts >counts 2>err; echo \$? >status"
}
here_stacks()
{
	check "$K: stacks: status" is "$(cat "$R/status") $(cat "$R/err")" '0 '
	check "$K: stacks: counts" holds "$R/stack.jsonl" \
		'accounts() and {k: n for k, n in sym.items() if k.startswith("cuLaunch")} == {k: int(n) for k, n in re.findall(r"^(cuLaunch\w+) (\d+)$", open(counts).read(), re.M)}' counts="$R/counts"
	check "$K: stacks: names of kernels" holds "$R/stack.jsonl" \
		'{re.sub("^_Z[0-9]*|[(P].*", "", c["kernel"]) for c in calls if c["symbol"] == "cuLaunchKernel"} >= {"matmul", "softmax", "gelu", "layernorm"}'
	# Stacks must reach the program's own start, with names.
	check "$K: stacks: of launches, up to the start of the program" holds "$R/stack.jsonl" \
		'(lambda mine: mine and {e["id"] for e in ev if e["type"] == "stack" and any(f.get("symbol", "").startswith("main+") for f in e["frames"])} >= mine)(
		{c.get("stack") for c in calls if c["symbol"] == "cuLaunchKernel"})'
}

# With the in-process library. The stand-in has no dispatch pointers on arm64.
in_guest_in_process()
{
	local c
	for c in $(cases_of inside); do traced inside "$c" --probe=inject -e "'$ALL'"; done
}
here_in_process()
{
	local c
	for c in $(cases_of inside); do check "$K: in the process: $c" as_expected inside "$c"; done
}

command -v qemu-system-aarch64 >/dev/null || { skip vm-arm64 'qemu-system-arm is not installed'; exit 0; }
built=$O
if [ "$(uname -m)" != aarch64 ]; then
	[ "$(uname -m)" = x86_64 ] || { skip vm-arm64 'needs x86-64 or arm64'; exit 0; }
	command -v aarch64-linux-gnu-g++ >/dev/null || { skip vm-arm64 'g++-aarch64-linux-gnu is not installed'; exit 0; }
	[ -e /usr/aarch64-linux-gnu/lib/libc.so.6 ] || { skip vm-arm64 'libc6-dev-arm64-cross is not installed'; exit 0; }
	tools/cross-root.sh "$O/dist/root-arm64" >"$TMP/root" 2>&1 || { skip vm-arm64 "libraries of arm64 are not to be had: $(tail -1 "$TMP/root")"; exit 0; }
	building -s cross-arm64 >"$TMP/log" 2>&1 || { fail 'vm-arm64: is built' "$(grep -m 1 -i error "$TMP/log")"; exit 0; }
	built=$O/dist/build-arm64
fi
for c in "$built"/cases/*; do [[ $c == *.d ]] || guest_files+=(-a "$c:/cases/${c##*/}"); done
guest_files+=(-a "$built/fake/libnccl.so.2:/usr/lib/libnccl.so.2")
mapfile -t kernels < <(kernels | grep '^arm64-')
machines "${kernels[@]}"
