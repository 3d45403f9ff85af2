/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * many SYMBOL COUNT [THREADS [PAUSE_NS]]: COUNT calls of SYMBOL in each thread, back to back or
 * PAUSE_NS apart; prints the time of a call. For benchmarks, with FAKE_NO_SEM=1 to measure the
 * tracer and not the mock driver. It prints no expectations: FAKE_CUDA_COUNTS has the number of
 * calls.
 */
#include "case.h"

typedef int (*call_fn)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
		       uint64_t, uint64_t, uint64_t, uint64_t);

static call_fn fn;
static long cnt;
static uint64_t pause_ns;
static handle ctx;
static pthread_barrier_t barrier;

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static void *work(void *arg)
{
	uint64_t out[16] = {0}, begin, next;

	if (ctx)
		F(cuCtxSetCurrent)(ctx);
	pthread_barrier_wait(&barrier);
	begin = next = now_ns();
	for (long i = 0; i < cnt; i++) {
		fn((uintptr_t)out, 4096, 0, 1, 1, 1, 1, 0, 0, 0, 0);
		if (pause_ns) {
			next += pause_ns;
			while (now_ns() < next)
				;
		}
	}
	*(uint64_t *)arg = now_ns() - begin;
	return NULL;
}

int main(int argc, char **argv)
{
	int threads = argc > 3 ? atoi(argv[3]) : 1;
	uint64_t took[256], sum = 0, longest = 0;
	const char *no_sem = getenv("FAKE_NO_SEM");
	pthread_t t[256];

	if (argc < 3 || threads < 1 || threads > 256)
		die("usage: many SYMBOL COUNT [THREADS [PAUSE_NS]]");
	cnt = atol(argv[2]);
	pause_ns = argc > 4 ? strtoull(argv[4], NULL, 0) : 0;
	case_open();
	fn = (call_fn)case_sym(argv[1]);
	case_quiet = true;
	if (!no_sem || *no_sem == '0')
		ctx = case_context();
	pthread_barrier_init(&barrier, NULL, threads);
	for (int i = 0; i < threads; i++)
		if (pthread_create(&t[i], NULL, work, &took[i]))
			die("cannot make a thread");
	for (int i = 0; i < threads; i++) {
		pthread_join(t[i], NULL);
		sum += took[i];
		if (took[i] > longest)
			longest = took[i];
	}
	printf("symbol %s\ncalls %ld\nthreads %d\nwall_ns %llu\nns_per_call %.1f\n", argv[1],
	       cnt * threads, threads, (unsigned long long)longest,
	       cnt ? (double)sum / threads / cnt : 0.0);
	return 0;
}
