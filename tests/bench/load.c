/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * load LIBRARY: a target that makes calls by command: one command per line on stdin, each with one
 * line of results on stdout.
 *
 *   time FUNCTION BATCHES CALLS           BATCHES times CALLS calls; "NS NS": time of a call
 *                                         overall, and in the median batch
 *   rate FUNCTION THREADS RATE SECONDS    RATE calls per second in total, in one burst per
 *                                         millisecond; 0: without a pause; "CALLS NS": calls made
 *                                         and the time taken
 *
 * Batches are so short that the median one has no interruption by another thread, such as the
 * reader of a tracer.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_BATCHES 10000
#define MAX_THREADS 64
#define WARM_CALLS  50
#define BURST_NS    1000000

typedef int (*call_fn)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
		       uint64_t, uint64_t, uint64_t, uint64_t);

struct worker {
	pthread_t thread;
	call_fn fn;
	double rate, seconds;
	long cnt;
};

static void *lib;

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ull + ts.tv_nsec;
}

static void sleep_until(uint64_t ns)
{
	struct timespec ts = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
}

static call_fn find(const char *name)
{
	call_fn fn = (call_fn)dlsym(lib, name);

	if (!fn) {
		fprintf(stderr, "load: no %s\n", name);
		exit(1);
	}
	return fn;
}

/* Functions with an out-parameter write to the first argument; the second is a size for them. */
static void make_calls(call_fn fn, long cnt)
{
	uint64_t out[16] = {0};

	while (cnt-- > 0)
		fn((uintptr_t)out, 4096, 2, 1, 256, 1, 1, 49152, 0, (uintptr_t)out, 0);
}

static int cmp_double(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void do_time(const char *name, long batch_cnt, long cnt)
{
	static double took[MAX_BATCHES];
	call_fn fn = find(name);
	double sum = 0;

	if (batch_cnt < 1 || batch_cnt > MAX_BATCHES || cnt < 1) {
		fprintf(stderr, "load: time: 1 to %d batches\n", MAX_BATCHES);
		exit(1);
	}
	make_calls(fn, WARM_CALLS);
	for (long i = 0; i < batch_cnt; i++) {
		uint64_t begin = now_ns();

		make_calls(fn, cnt);
		took[i] = (double)(now_ns() - begin) / cnt;
		sum += took[i];
	}
	qsort(took, batch_cnt, sizeof(took[0]), cmp_double);
	printf("%.2f %.2f\n", sum / batch_cnt, took[batch_cnt / 2]);
}

static void *work(void *arg)
{
	struct worker *w = arg;
	uint64_t begin = now_ns(), end = begin + (uint64_t)(w->seconds * 1e9);
	uint64_t next = begin;
	long want;

	if (!w->rate) {
		for (; now_ns() < end; w->cnt += 100)
			make_calls(w->fn, 100);
		return NULL;
	}
	/* Calls that are late are made later: the number is fixed, not the end. */
	while (next < end) {
		next += BURST_NS;
		want = (long)((next - begin) * 1e-9 * w->rate);
		make_calls(w->fn, want - w->cnt);
		w->cnt = want;
		sleep_until(next);
	}
	return NULL;
}

static void do_rate(const char *name, long thread_cnt, double rate, double seconds)
{
	struct worker w[MAX_THREADS] = {0};
	uint64_t begin = now_ns();
	long cnt = 0;

	if (thread_cnt < 1 || thread_cnt > MAX_THREADS) {
		fprintf(stderr, "load: rate: 1 to %d threads\n", MAX_THREADS);
		exit(1);
	}
	for (long i = 0; i < thread_cnt; i++) {
		w[i] = (struct worker){
			.fn = find(name), .rate = rate / thread_cnt, .seconds = seconds};
		if (pthread_create(&w[i].thread, NULL, work, &w[i]))
			exit(1);
	}
	for (long i = 0; i < thread_cnt; i++) {
		pthread_join(w[i].thread, NULL);
		cnt += w[i].cnt;
	}
	printf("%ld %llu\n", cnt, (unsigned long long)(now_ns() - begin));
}

int main(int argc, char **argv)
{
	char line[256], name[128];
	double rate, seconds;
	long a, b;

	lib = argc == 2 ? dlopen(argv[1], RTLD_NOW) : NULL;
	if (!lib) {
		fprintf(stderr, "load: %s\n", argc == 2 ? dlerror() : "usage: load LIBRARY");
		return 1;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("ready\n");
	while (fgets(line, sizeof(line), stdin)) {
		if (sscanf(line, "time %127s %ld %ld", name, &a, &b) == 3)
			do_time(name, a, b);
		else if (sscanf(line, "rate %127s %ld %lf %lf", name, &a, &rate, &seconds) == 4)
			do_rate(name, a, rate, seconds);
		else
			return 1;
	}
	return 0;
}
