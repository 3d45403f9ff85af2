#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# odd.sh CUDATRACE: unusual real programs, on a machine with an NVIDIA GPU and gcc, as root: checks status and output as untraced,
# and the contents of the trace. Run it in the repository's folder. FAKE=build/fake tries it against the mock driver.
set -u
ct=$(realpath "$1")
tmp=$(mktemp -d) && trap 'rm -rf "$tmp"' EXIT
if [ -n "${FAKE:-}" ]; then
	cp "$FAKE/libcuda.so.1" "$tmp/"
	export LD_LIBRARY_PATH=$tmp
fi
failed=0

# same NAME CALLS COMMAND...: traced by both producers, it must behave as untraced, and each trace has CALLS calls of cuMemAlloc.
same()
{
	local name=$1 calls=$2 want got status
	shift 2
	want=$("$@" 2>&1; echo "status $?")
	for probe in uprobe inject; do
		got=$(timeout 120 "$ct" -q --no-summary --probe=$probe --jsonl "$tmp/t.jsonl" -- "$@" 2>&1; echo "status $?")
		status=OK
		[ "$got" = "$want" ] || { status=FAILED; echo "untraced: $want"; echo "traced: $got"; }
		python3 - "$tmp/t.jsonl" "$calls" <<'EOF' || status=FAILED
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
calls = [x for x in lines if "id" in x]
allocs = sum(x["symbol"] == "cuMemAlloc_v2" for x in calls)
lost = {k: v for k, v in lines[-1]["drops"].items() if v}
late = [x["ts"] for x in calls if not 0 <= x["ts"] < 600e6]
print(f"  {len(calls)} calls, {allocs} cuMemAlloc, drops {lost}, unseen {lines[-1].get('unseen')}")
sys.exit(allocs != int(sys.argv[2]) or bool(lost) or bool(late))
EOF
		echo "$status: $name, $probe: ${want##*$'\n'}"
		[ $status = OK ] || failed=1
	done
}

cat >"$tmp/odd.c" <<'EOF'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <unistd.h>

static int (*alloc)(unsigned long long *, size_t), (*set)(void *);
static void *ctx;

static void *work(void *of)
{
	unsigned long long p;

	set(ctx);
	for (int i = 0; i < 25; i++)
		if (alloc(&p, 4096))
			puts("cuMemAlloc failed");
	return NULL;
}

static void *open_copy(const char *from)
{
	int fd = memfd_create("libcuda.so.1", 0), in = open(from, O_RDONLY);
	char path[64];

	while (sendfile(fd, in, NULL, 1 << 30) > 0)
		;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return dlopen(path, RTLD_NOW);
}

int main(int argc, char **argv)
{
	void *lib = argc > 1 && argv[1][0] == '/' ? open_copy(argv[1]) : dlopen("libcuda.so.1", RTLD_NOW);
	int (*init)(unsigned) = lib ? dlsym(lib, "cuInit") : NULL;
	int (*retain)(void **, int) = lib ? dlsym(lib, "cuDevicePrimaryCtxRetain") : NULL;
	pthread_t t[4];

	if (!init || init(0) || retain(&ctx, 0))
		return 77;
	alloc = dlsym(lib, "cuMemAlloc_v2");
	set = dlsym(lib, "cuCtxSetCurrent");
	if (argc > 1 && !strcmp(argv[1], "lock"))
		printf("mlockall %d\n", mlockall(MCL_CURRENT));
	for (int i = 0; i < 4; i++)
		pthread_create(&t[i], NULL, work, NULL);
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	puts("done");
	return 5;
}
EOF
build() { gcc -O1 -g -w "$@" "$tmp/odd.c" -o "$tmp/odd-$name" -ldl -lpthread; }
name=plain && build && same plain 100 "$tmp/odd-plain"
name=asan && build -fsanitize=address && export ASAN_OPTIONS=protect_shadow_gap=0:detect_leaks=0 && same "AddressSanitizer" 100 "$tmp/odd-asan"
name=ubsan && build -fsanitize=undefined && same "UBSan" 100 "$tmp/odd-ubsan"
name=tsan && build -fsanitize=thread && export TSAN_OPTIONS=report_bugs=0 && same "ThreadSanitizer" 100 setarch -R "$tmp/odd-tsan"
same "mlockall" 100 "$tmp/odd-plain" lock
same "a time namespace" 100 unshare --time --monotonic 1000000 --fork "$tmp/odd-plain"
same "descriptors 0 to 2 closed" 100 sh -c '"$1" <&- >&- 2>&-' sh "$tmp/odd-plain"
real=$(ldconfig -p | awk '/libcuda\.so\.1.*x86-64/ { print $NF; exit }')
[ -z "${FAKE:-}" ] || real=$tmp/libcuda.so.1
same "libcuda in a memfd" 100 "$tmp/odd-plain" "$(realpath "$real")"

# A child that outlives its parent: --wait=main does not wait for it.
begun=$SECONDS
"$ct" -q --no-summary --wait=main --jsonl "$tmp/w.jsonl" -- sh -c 'sleep 30 & "$1"' sh "$tmp/odd-plain" >"$tmp/w.out"
status=$?
if [ $status = 5 ] && [ $((SECONDS - begun)) -lt 20 ]; then echo "OK: --wait=main"; else echo "FAILED: --wait=main, status $status"; failed=1; fi
exit $failed
