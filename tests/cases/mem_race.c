/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Threads that reuse each other's addresses. Records of frees may come after those of the next
 * allocations; each must count exactly once. */
#include "mem_calls.h"

#define THREADS 4
#define ROUNDS	250

static handle ctx;

static void *worker(void *arg)
{
	case_set_current(ctx);
	for (int i = 0; i < ROUNDS; i++)
		case_free(case_alloc(4096));
	return arg;
}

int main(void)
{
	pthread_t threads[THREADS];

	case_open();
	ctx = case_context();
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, worker, NULL))
			die("no thread");
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	case_report("{'memory':{'kinds':[{'kind':'device','allocs':%d,'frees':%d,'live_bytes':0,"
		    "'peak_bytes':{'$le':%d}}],'leak_count':0,'bad_free_count':0,"
		    "'unmatched_frees':0,'unseen_frees':0}}",
		    THREADS * ROUNDS, THREADS * ROUNDS, THREADS * 4096);
	return 0;
}
