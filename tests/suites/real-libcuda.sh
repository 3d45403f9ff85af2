#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The real driver libraries that are available without a GPU: the trace must have the program's calls, and probes must be where they
# cost least. Without a GPU little of a driver works, but every entry point exists. make check uses the first branch whose functions
# have dispatch pointers and the newest; make check-all the others.
# takes: 40
# longer
# uses: real-libcuda
set -u
. tests/lib.sh
needs_tracing real-libcuda
unset LD_LIBRARY_PATH

is() { [ "$1" = "$2" ] || { echo "$1, not $2"; return 1; }; }

if [ "$LONG" = 1 ]; then wanted='450 460 525 535 550'; else wanted='470 555'; fi
[ "$(uname -m)" = x86_64 ] || { for v in $wanted; do skip "real libcuda $v" 'fetched for x86-64 only'; done; exit 0; }
list=$(O=$O timeout 200 tools/fetch-libcuda.sh 2>"$TMP/fetch.err")
for v in $wanted; do
	grep -q "^$v\." <<<"$list" || skip "real libcuda $v" "$(tail -1 "$TMP/fetch.err" | grep . || echo 'not in the archive')"
done
[ -n "$list" ] || exit 0
# cuInit as root creates it. A real driver's file stays.
trap '[ -e /sys/module/nvidia ] || rm -f /dev/nvidiactl' EXIT

# A program that prints its calls, like those of tests/cases.
cat >"$TMP/real.c" <<'END'
#include "case.h"

static int rounds;
static volatile size_t strlen_of;

static void *work(void *arg)
{
	int version = 0, r = F(cuDriverGetVersion)(&version);

	(void)arg;
	expect("cuDriverGetVersion", r, "'$parent':null,'args':{'driverVersion':%d}", version);
	for (int i = 0; i < rounds; i++) {
		const char *text = "";

		r = F(cuGetErrorString)(2, &text);
		expect("cuGetErrorString", r, "'op':'query','args':{'error':'CUDA_ERROR_OUT_OF_MEMORY','pStr':'%s'}", text);
		r = F(cuGetErrorName)(500, &text);
		expect("cuGetErrorName", r, "'args':{'error':'CUDA_ERROR_NOT_FOUND','pStr':'%s'}", text);
		r = F(cuGetErrorName)(123456, &text);
		expect("cuGetErrorName", r, "'args':{'error':123456}");
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t t[3];
	size_t total = 0;
	int r, cnt = -1, device = -1;
	handle ctx = NULL, stream = NULL;
	const char *text = "";
	dptr p = 0;

	case_open_path(argv[1]);
	/* The kernel side cannot read a page that was never touched: so touch those with these texts. */
	r = F(cuGetErrorString)(2, &text);
	expect("cuGetErrorString", r, "'args':{'error':'CUDA_ERROR_OUT_OF_MEMORY'}");
	strlen_of += strlen(text);
	r = F(cuGetErrorName)(500, &text);
	expect("cuGetErrorName", r, "'args':{'error':'CUDA_ERROR_NOT_FOUND'}");
	strlen_of += strlen(text);
	rounds = argc > 2 ? atoi(argv[2]) : 50;
	work(NULL);
	/* No GPU: whatever the reason, it is the same number in the trace. */
	r = F(cuInit)(0);
	expect("cuInit", r, "'type':'init','op':'init','args':{'Flags':0}");
	fprintf(stderr, "cuInit %d\n", r);
	r = F(cuDeviceGetCount)(&cnt);
	expect("cuDeviceGetCount", r, "'type':'device','op':'query'");
	r = F(cuDeviceGet)(&device, 0);
	expect("cuDeviceGet", r, "'args':{'ordinal':0}");
	r = F(cuDeviceTotalMem_v2)(&total, 0);
	expect("cuDeviceTotalMem_v2", r, "'args':{'dev':0}");
	r = F(cuCtxGetCurrent)(&ctx);
	expect("cuCtxGetCurrent", r, "'type':'context'");
	r = F(cuMemAlloc_v2)(&p, (size_t)12345);
	expect("cuMemAlloc_v2", r, "'type':'memory','op':'alloc','args':{'bytesize':12345}");
	r = F(cuStreamCreate)(&stream, 1);
	expect("cuStreamCreate", r, "'type':'stream','op':'create','args':{'Flags':'CU_STREAM_NON_BLOCKING'}");
	/* Eleven arguments. Without a context nothing is launched. */
	r = F(cuLaunchKernel)(NULL, 4, 3, 2, 32, 2, 1, 512, NULL, NULL, NULL);
	expect("cuLaunchKernel", r, "'type':'kernel','op':'launch','grid':[4,3,2],'block':[32,2,1],'shared_mem':512,"
	       "'args':{'f':'0x0','gridDimX':4,'blockDimY':2,'sharedMemBytes':512,'hStream':'0x0','kernelParams':null,'extra':null}");
	r = F(cuMemcpyHtoD_v2)((dptr)0x1000, &cnt, (size_t)4);
	expect("cuMemcpyHtoD_v2", r, "'type':'transfer','op':'copy','direction':'HtoD','size':4,'args':{'dstDevice':'0x1000','ByteCount':4}");
	r = F(cuMemFree_v2)((dptr)0);
	expect("cuMemFree_v2", r, "'type':'memory','op':'free'");
	for (int i = 0; i < 3; i++)
		if (pthread_create(&t[i], NULL, work, NULL))
			die("cannot make a thread");
	for (int i = 0; i < 3; i++)
		pthread_join(t[i], NULL);
	return 0;
}
END
# Calls the same function many times; prints nanoseconds per call.
cat >"$TMP/cost.c" <<'END'
#include "case.h"
int main(int argc, char **argv)
{
	double least = 1e9, ns;
	const char *text;
	case_open_path(argv[1]);
	int (*f)() = F(cuGetErrorName);
	for (int k = 0; k < 40; k++) {
		struct timespec a, b;
		clock_gettime(CLOCK_MONOTONIC, &a);
		for (int i = 0; i < 500; i++)
			f(2, &text);
		clock_gettime(CLOCK_MONOTONIC, &b);
		ns = ((b.tv_sec - a.tv_sec) * 1e9 + b.tv_nsec - a.tv_nsec) / 500;
		least = ns < least ? ns : least;
	}
	printf("%.0f\n", least);
	return 0;
}
END
for p in real cost; do
	${CC:-gcc} -std=gnu11 -D_GNU_SOURCE -O2 -w -Itests/cases -o "$TMP/$p" "$TMP/$p.c" -ldl -lpthread ||
		{ fail real-libcuda "cannot compile $p.c"; exit; }
done

# compare LABEL: status, events and accounts of the trace $TMP/t.jsonl of a run of $TMP/real
compare()
{
	check "$1: status" is "$2" 0
	check "$1: events as the program says" tests/cases/expect.py "$TMP/t.jsonl" "$TMP/t.out"
	check "$1: accounts" holds "$TMP/t.jsonl" 'len(calls) > 600 and accounts()'
	check "$1: nothing to say" is "$(grep -v '^cuInit ' "$TMP/t.err")" ''
}

# The places of the probes: all at +10 except for the few functions that begin differently.
places()
{
	local label=$1 lib=$TMP/driver.bin found at10 other
	# Under another name, which no other tracer of the whole machine finds.
	cp "$2" "$lib"
	caller real || return
	is "$(ask real open "$lib")" 1 || { fail "$label: probes at +10" 'cannot be loaded'; return; }
	tracer places --all --libcuda "$lib" -p "$real" || { fail "$label: probes at +10" 'see above'; return; }
	found=$(probed "$real" "$lib")
	stop $tracer
	at10=$(grep -o '[0-9]* at 0xa' <<<"$found" | cut -d' ' -f1)
	other=$(grep -o '[0-9]* at 0x0' <<<"$found" | cut -d' ' -f1)
	echo "# $label: $found"
	check "$label: probes at +10" test "${at10:-0}" -gt 300 -a "${other:-0}" -le 5
	check "$label: all exports are probed" holds "$TMP/places.jsonl" 'head["libraries"][0]["functions"] == int(n)' n=$((${at10:-0} + ${other:-0}))
	check "$label: as in the file afterwards" is "$(probed "$real" "$lib")" none
	quit real
}

# A single-stepped probe costs ten times as much as the stub that cudatrace measures at start. Other processes may make one try slower,
# but not five.
cheap()
{
	local lib=$1 bare traced stub
	for _ in 1 2 3 4 5; do
		bare=$("$TMP/cost" "$lib")
		traced=$("$CUDATRACE" -q -e cuGetErrorName --jsonl "$TMP/cost.jsonl" -- "$TMP/cost" "$lib")
		stub=$(jq -r 'select(.type == "header").probe_cost_ns | round' "$TMP/cost.jsonl")
		echo "cuGetErrorName $bare ns, traced $traced ns; the stub's probe costs $stub ns"
		[ "${stub:-0}" -gt 0 ] && [ $((traced - bare)) -lt $((stub * 3 + 1500)) ] && return
	done
	return 1
}

while read -r version lib; do
	[[ " $wanted " == *" ${version%%.*} "* ]] || continue
	file=$(realpath "$lib")
	label="driver $version"
	"$CUDATRACE" -q --all --libcuda "$lib" --jsonl "$TMP/t.jsonl" -- "$TMP/real" "$lib" >"$TMP/t.out" 2>"$TMP/t.err"
	compare "$label, --libcuda" $?
	echo "# $label: $(grep '^cuInit' "$TMP/t.err"), $(jq -c 'select(.type == "end").calls' "$TMP/t.jsonl") calls"
	check "$label: header" holds "$TMP/t.jsonl" 'len(head["libraries"]) == 1 and len(head["libraries"][0]["build_id"]) == 40 and head["libraries"][0]["functions"] > 300'

	"$CUDATRACE" -q --all --jsonl "$TMP/t.jsonl" -- "$TMP/real" "$lib" >"$TMP/t.out" 2>"$TMP/t.err"
	compare "$label, found when loaded" $?
	# Up to 470, mapped in two steps for segments aligned to 2 MB: see bpf/proc.bpf.h.
	check "$label, found when loaded: library event" holds "$TMP/t.jsonl" '[(l["op"], l["path"]) for l in lib] == [("attached", path)]' path="$file"

	if has_mechanism multi; then
		"$CUDATRACE" -q --all --mechanism=multi --jsonl "$TMP/t.jsonl" -- "$TMP/real" "$lib" 5 >"$TMP/t.out" 2>"$TMP/t.err"
		check "$label, multi: events as the program says" tests/cases/expect.py "$TMP/t.jsonl" "$TMP/t.out"
	fi
	case ${version%%.*} in
	470 | 535 | 550 | 555)
		places "$label" "$file"
		check "$label: a traced call costs as little as the stub" cheap "$file"
		;;
	esac
done <<<"$list"
