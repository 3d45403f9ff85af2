/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * inject_cold TRACED PLAIN ROUNDS KB [FUNCTION]...: what the library in the traced process adds to
 * a call with cold caches, as in a program that computes between calls. TRACED and PLAIN are two
 * copies of the mock libcuda (FAKE_NO_SEM=1), one of which is hooked: its name must be
 * libcuda.so.*, the other's must not. Before each call the program reads KB of memory and executes
 * half as much code; 0: none. NESTED=1 (without FAKE_NO_SEM): all calls are nested in another one,
 * like NCCL's. PAUSE_S=16: so many seconds after the first calls, when a daemon has removed its
 * probes. Prints for each function, and for all
 *
 *   NAME traced N plain N added N
 *
 * nanoseconds of a call: medians, and the mean of the medians. Also the time of reading the time
 * stamp counter, which the library does twice per call. Other work on the machine shares the
 * caches: measure the versions to compare in turn, several times.
 *
 *   cp build/fake/libcuda.so.1 plain.so; gcc -O2 -o inject_cold tests/bench/inject_cold.c -ldl
 *   FAKE_NO_SEM=1 setpriv --bounding-set=-bpf,-perfmon,-sys_admin \
 *           build/cudatrace -q --probe=inject --all --jsonl t.jsonl -- \
 *           ./inject_cold $PWD/build/fake/libcuda.so.1 $PWD/plain.so 400 3072
 *
 * (as root, a program also has probes in its first second)
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#define FUNCS_MAX 16
#define LINE	  64

typedef int fn(void *a, void *b, long c, long d, long e, void *f, long g, void *h, long i, void *j,
	       void *k);
typedef int callback_fn(void (*f)(void *), void *arg);

static const char *names[FUNCS_MAX] = {
	"cuCtxGetCurrent",   "cuStreamIsCapturing",  "cuEventQuery",	"cuEventRecord",
	"cuStreamWaitEvent", "cuMemcpyDtoHAsync_v2", "cuMemsetD8Async", "cuCtxGetDevice"};
static volatile uint8_t *memory, *code;
static size_t memory_sz, code_sz;
static double ns_per_cycle;
static fn *fns[2][FUNCS_MAX];
static unsigned rounds, cnt;
static uint32_t *took;

/* A jump in each line to the next one, then a return. */
static void code_make(void)
{
	static const uint8_t jump[] = {0xe9, LINE - 5, 0, 0, 0};

	code = mmap(NULL, code_sz + LINE, PROT_READ | PROT_WRITE | PROT_EXEC,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (code == MAP_FAILED) {
		perror("inject_cold: mmap");
		exit(2);
	}
	for (size_t i = 0; i < code_sz; i += LINE)
		memcpy((uint8_t *)code + i, jump, sizeof(jump));
	code[code_sz] = 0xc3;
}

static void evict(void)
{
	for (size_t i = 0; i < memory_sz; i += LINE)
		memory[i]++;
	if (code_sz)
		((void (*)(void))code)();
}

static void clock_measure(void)
{
	struct timespec a, b;
	uint64_t from, to;

	clock_gettime(CLOCK_MONOTONIC, &a);
	from = __rdtsc();
	do {
		clock_gettime(CLOCK_MONOTONIC, &b);
		to = __rdtsc();
	} while (b.tv_sec * 1e9 + b.tv_nsec - a.tv_sec * 1e9 - a.tv_nsec < 1e8);
	ns_per_cycle = (b.tv_sec * 1e9 + b.tv_nsec - a.tv_sec * 1e9 - a.tv_nsec) / (to - from);
}

/* Back to back. */
static double rdtsc_ns(void)
{
	uint64_t sum = 0, from = __rdtsc();

	for (unsigned i = 0; i < 1000000; i++) {
		sum += __rdtsc();
		__asm__ volatile("" : "+r"(sum));
	}
	return (__rdtsc() - from) * ns_per_cycle / 1e6;
}

static __attribute__((noinline)) uint32_t timed(fn *f)
{
	uint64_t out[16] = {0}, from, to;
	unsigned cpu;

	_mm_mfence();
	_mm_lfence();
	from = __rdtsc();
	_mm_lfence();
	f(out, out + 1, 8, 4, 5, out + 2, 7, out + 3, 0, out + 4, out + 5);
	to = __rdtscp(&cpu);
	_mm_lfence();
	return to - from;
}

/* Failing calls must not be measured. */
static void begin(void *lib)
{
	int (*init)(unsigned) = (int (*)(unsigned))dlsym(lib, "cuInit");
	int (*retain)(void **, int) = (int (*)(void **, int))dlsym(lib, "cuDevicePrimaryCtxRetain");
	int (*set)(void *) = (int (*)(void *))dlsym(lib, "cuCtxSetCurrent");
	void *ctx = NULL;

	if (!init || !retain || !set || init(0) || retain(&ctx, 0) || set(ctx)) {
		fprintf(stderr, "inject_cold: no context\n");
		exit(2);
	}
}

static int smaller(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

static double median(uint32_t *t, unsigned cnt)
{
	qsort(t, cnt, sizeof(*t), smaller);
	return t[cnt / 2] * ns_per_cycle;
}

static void all_timed(void *unused)
{
	for (unsigned r = 0; r < rounds; r++)
		for (unsigned i = 0; i < 2 * cnt; i++) {
			evict();
			took[i * rounds + r] = timed(fns[i & 1][i / 2]);
		}
}

int main(int argc, char **argv)
{
	callback_fn *nested;
	void *traced = NULL;
	double sum[2] = {0, 0};
	cpu_set_t set;

	rounds = argc > 4 ? atoi(argv[3]) : 0;
	if (!rounds)
		return 2;
	for (int i = 5; i < argc && i - 5 < FUNCS_MAX - 1; i++) {
		names[i - 5] = argv[i];
		names[i - 4] = NULL;
	}
	for (int k = 0; k < 2; k++) {
		void *lib = dlopen(argv[1 + k], RTLD_NOW);

		if (lib)
			begin(lib);
		if (!k)
			traced = lib;
		for (cnt = 0; names[cnt]; cnt++) {
			fns[k][cnt] = lib ? (fn *)dlsym(lib, names[cnt]) : NULL;
			if (!fns[k][cnt]) {
				fprintf(stderr, "inject_cold: %s\n", dlerror());
				return 2;
			}
		}
	}
	CPU_ZERO(&set);
	CPU_SET(0, &set);
	sched_setaffinity(0, sizeof(set), &set);
	memory_sz = strtoull(argv[4], NULL, 10) << 10;
	code_sz = memory_sz / 2;
	memory = calloc(1, memory_sz + 1);
	took = calloc(2ul * rounds * cnt, sizeof(*took));
	if (!memory || !took)
		return 2;
	code_make();
	if (getenv("PAUSE_S"))
		sleep(atoi(getenv("PAUSE_S")));
	clock_measure();
	nested = getenv("NESTED") ? (callback_fn *)dlsym(traced, "cuFakeCallback") : NULL;
	if (nested)
		nested(all_timed, names);
	else
		all_timed(NULL);
	for (unsigned i = 0; i < cnt; i++) {
		double ns[2];

		for (unsigned k = 0; k < 2; k++) {
			ns[k] = median(took + (2 * i + k) * rounds, rounds);
			sum[k] += ns[k] / cnt;
		}
		printf("%s traced %.0f plain %.0f added %.0f\n", names[i], ns[0], ns[1],
		       ns[0] - ns[1]);
	}
	printf("all traced %.0f plain %.0f added %.0f\n", sum[0], sum[1], sum[0] - sum[1]);
	printf("rdtsc %.1f\n", rdtsc_ns());
	return 0;
}
