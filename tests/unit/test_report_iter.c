/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Iterations: their bounds, their number, and traces without any. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "factory.h"
#include "report/collect.h"
#include "report/iter/iter.h"
#include "report/iter/iter_priv.h"

struct run {
	struct factory f;
	struct report *r;
	struct trace_info info;
	struct trace_end end;
};

static const char *const names[] = {"k0", "k1", "k2", "k3", "k4", "k5", "k6", "k7", "k8", "k9"};

static void begin(struct run *x, struct report_opts opts)
{
	opts.top = 10;
	x->f = factory(100);
	x->info = factory_info();
	x->r = report__new(&opts, &x->info);
	assert_non_null(x->r);
}

static void put(struct run *x, struct trace_event ev)
{
	report__event(x->r, &ev);
}

static struct iter_result end(struct run *x)
{
	struct iter_result res;

	x->end = factory_end(&x->f, 0);
	report__finish(x->r, &x->end, NULL, 0);
	iter_result(x->r, &res);
	return res;
}

/* Launches of k[first] ... k[first + cnt - 1], each twice. */
static void launches(struct run *x, unsigned first, unsigned cnt)
{
	for (unsigned i = 0; i < 2 * cnt; i++)
		put(x, factory_launch(&x->f, names[first + i / 2], 0));
}

/* A token: 8 launches, 8 bytes to the host, a wait: 8 * 5000 + 2000 + 700 + 50500 ns. */
static void token(struct run *x, unsigned first)
{
	launches(x, first, 4);
	put(x, factory_copy(&x->f, "cuMemcpyDtoHAsync_v2", COPY_DIR_DTOH, 8, 2000));
	put(x, factory_sync(&x->f, 0));
}

static void tokens(void **state)
{
	const struct it_iter *list;
	struct iter_result res;
	struct run x;

	begin(&x, (struct report_opts){0});
	for (int i = 0; i < 20; i++) {
		put(&x, factory_copy(&x.f, "cuMemcpyHtoDAsync_v2", COPY_DIR_HTOD, 1 << 20, 9000));
		put(&x, factory_sync(&x.f, 0));
	}
	token(&x, 4); /* a prompt: other kernels, equally many */
	for (int i = 0; i < 4; i++)
		token(&x, 0);
	put(&x, factory_call(&x.f, "cuCtxSynchronize", 500, 5000));
	token(&x, 4);
	for (int i = 0; i < 9; i++)
		token(&x, 0);
	res = end(&x);
	assert_int_equal(res.count, 15);
	assert_int_equal(res.rounds, 2);
	assert_int_equal(res.warmup, 0);
	list = ((struct iter *)x.r->an[AN_ITER])->list;
	for (int i = 0; i < 15; i++) {
		assert_int_equal(list[i].kernels, 8);
		assert_int_equal(list[i].round, i >= 5);
		/* calls between two rounds belong to none */
		assert_int_equal(list[i].sums.calls, 10);
		assert_int_equal(list[i].sums.dtoh, 8);
		assert_int_equal(list[i].sums.htod, 0);
		assert_int_equal(list[i].sums.launch_ns, 8 * 4000);
		assert_int_equal(list[i].sums.sync_ns, 50000);
		assert_int_equal(iter_value(&list[i], ITS_TIME),
				 8 * 5000 + 2700 + 50500 - (i == 0 || i == 5 ? 1000 : 0));
	}
	assert_int_equal(res.dist[ITS_KERNELS].median, 8);
	assert_int_equal(res.dist[ITS_CALLS].total, 150);
	/* all launches are in iterations */
	assert_true(res.confidence > 0.93 && res.confidence < 0.94);
	assert_int_equal(iter_round_at(x.r, res.pid, list[7].begin_ns), 2);
	/* Moments of another process are in no round of this one. */
	assert_int_equal(iter_round_at(x.r, res.pid + 1, list[7].begin_ns), 0);
	assert_int_equal(iter_round_at(x.r, res.pid, list[4].end_ns), 0);
	assert_int_equal(iter_round_at(x.r, res.pid, FACTORY_BASE_NS), 0);
	report__free(x.r);
}

static void warmup_is_left_out(void **state)
{
	struct iter_result res;
	struct run x;

	begin(&x, (struct report_opts){0});
	put(&x, factory_call(&x.f, "cuModuleLoadData", 0, 9000000));
	token(&x, 0);
	x.f.now_ns += 5000000; /* slow without a module */
	token(&x, 0);
	for (int i = 0; i < 20; i++)
		token(&x, 0);
	res = end(&x);
	assert_int_equal(res.count, 22);
	assert_int_equal(res.warmup, 2);
	assert_int_equal(res.dist[ITS_TIME].max, 93200);
	assert_int_equal(res.dist[ITS_TIME].min, 93200);
	assert_int_equal(res.steady_ns, FACTORY_BASE_NS + 9000000 + 5000000 + 2 * 93200);
	report__free(x.r);
}

/* A kernel chosen by length makes no other iteration; launches with little in common do. */
static void small_differences(void **state)
{
	struct iter_result res;
	struct run x;

	begin(&x, (struct report_opts){0});
	for (int i = 0; i < 10; i++) {
		launches(&x, 0, 8);
		put(&x, factory_launch(&x.f, names[i % 2 ? 8 : 9], 0));
		put(&x, factory_sync(&x.f, 0));
	}
	res = end(&x);
	assert_int_equal(res.count, 10);
	assert_int_equal(res.rounds, 1);
	report__free(x.r);
}

/* Two waits in each iteration. */
static void several_waits(void **state)
{
	struct iter_result res;
	struct run x;

	begin(&x, (struct report_opts){0});
	for (int i = 0; i < 12; i++) {
		launches(&x, 5, 1);
		put(&x, factory_sync(&x.f, 0));
		launches(&x, 0, 5);
		put(&x, factory_sync(&x.f, 0));
	}
	res = end(&x);
	/* begins with the kernel launched most: the first small one is not in it */
	assert_int_equal(res.count, 11);
	assert_int_equal(res.dist[ITS_KERNELS].median, 12);
	assert_non_null(strstr(res.why, "2 waits in each"));
	report__free(x.r);
}

static void no_waits(void **state)
{
	static const unsigned layer[] = {1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3};
	struct iter_result res;
	struct run x;

	begin(&x, (struct report_opts){0});
	put(&x, factory_launch(&x.f, names[9], 0));
	for (int i = 0; i < 10; i++) {
		put(&x, factory_launch(&x.f, names[0], 0));
		for (unsigned l = 0; l < 12; l++)
			put(&x, factory_launch(&x.f, names[layer[l]], 0));
		put(&x, factory_launch(&x.f, names[4], 0));
	}
	put(&x, factory_sync(&x.f, 0));
	res = end(&x);
	/* steps, not layers */
	assert_int_equal(res.count, 10);
	assert_int_equal(res.dist[ITS_KERNELS].median, 14);
	assert_int_equal(res.dist[ITS_TIME].median, 14 * 5000);
	report__free(x.r);
}

static void graph_replays(void **state)
{
	struct iter_result res;
	struct run x;

	begin(&x, (struct report_opts){0});
	for (int i = 0; i < 8; i++) {
		put(&x, factory_on_stream(&x.f, "cuGraphLaunch", 0, 7000));
		put(&x, factory_sync(&x.f, 0));
	}
	res = end(&x);
	assert_int_equal(res.count, 8);
	assert_int_equal(res.dist[ITS_KERNELS].max, 0);
	assert_int_equal(res.dist[ITS_GRAPHS].min, 1);
	assert_int_equal(res.dist[ITS_LAUNCH].median, 7000);
	report__free(x.r);
}

/* Captured nodes, failed launches and nested calls are not launches. */
static void what_is_no_launch(void **state)
{
	struct iter_result res;
	struct trace_event ev;
	struct run x;

	begin(&x, (struct report_opts){0});
	for (int i = 0; i < 8; i++) {
		ev = factory_launch(&x.f, names[0], 0);
		ev.capturing = true;
		put(&x, ev);
		ev = factory_launch(&x.f, names[1], 0);
		ev.is_error = true;
		put(&x, ev);
		ev = factory_launch(&x.f, names[2], 0);
		ev.depth = ev.api_depth = 1;
		put(&x, ev);
		ev = factory_launch(&x.f, names[2], 0);
		ev.unfinished = true;
		put(&x, ev);
		put(&x, factory_sync(&x.f, 0));
	}
	res = end(&x);
	assert_int_equal(res.count, 0);
	assert_non_null(strstr(res.why, "no sequence"));
	report__free(x.r);
}

static void threads_are_apart(void **state)
{
	struct iter_result res;
	struct run x;

	begin(&x, (struct report_opts){0});
	for (int i = 0; i < 10; i++) {
		for (unsigned l = 0; l < 4; l++) {
			x.f.tid = 101;
			put(&x, factory_launch(&x.f, names[l], 0));
			x.f.tid = 102;
			put(&x, factory_launch(&x.f, names[5 + (i + l) % 4], 0));
		}
		x.f.tid = 101;
		put(&x, factory_sync(&x.f, 0));
	}
	res = end(&x);
	assert_int_equal(res.count, 10);
	assert_int_equal(res.tid, 101);
	assert_int_equal(res.dist[ITS_KERNELS].max, 4);
	report__free(x.r);
}

static void marker(void **state)
{
	struct iter_result res;
	struct run x;

	begin(&x, (struct report_opts){.iter = ITER_MARKER, .marker = "cuEventRecord"});
	launches(&x, 0, 1);
	for (unsigned i = 0; i < 3; i++) {
		put(&x, factory_on_stream(&x.f, "cuEventRecord", 0, 1000));
		launches(&x, 0, i + 1);
	}
	res = end(&x);
	assert_int_equal(res.count, 3);
	assert_int_equal(res.dist[ITS_KERNELS].min, 2);
	assert_int_equal(res.dist[ITS_KERNELS].max, 6);
	/* until the next marker: 1000 + 2 * 5000 + 500 */
	assert_int_equal(res.dist[ITS_TIME].min, 11500);
	report__free(x.r);
}

static void gap(void **state)
{
	struct iter_result res;
	struct run x;

	begin(&x, (struct report_opts){.iter = ITER_GAP, .gap_ns = 1000000});
	for (unsigned i = 0; i < 3; i++) {
		launches(&x, 0, i + 1);
		put(&x, factory_sync(&x.f, 0));
		launches(&x, 0, 1);
		x.f.now_ns += 2000000;
	}
	res = end(&x);
	assert_int_equal(res.count, 3);
	assert_int_equal(res.dist[ITS_KERNELS].median, 6);
	report__free(x.r);
}

static void by_sync(void **state)
{
	struct iter_result res;
	struct run x;

	begin(&x, (struct report_opts){.iter = ITER_SYNC});
	for (unsigned i = 1; i < 5; i++) {
		launches(&x, i, i);
		put(&x, factory_sync(&x.f, 0));
		put(&x, factory_sync(&x.f, 0));
	}
	res = end(&x);
	assert_int_equal(res.count, 4);
	assert_int_equal(res.dist[ITS_KERNELS].total, 20);
	report__free(x.r);
}

static void nothing(void **state)
{
	struct iter_result res;
	struct run x;

	begin(&x, (struct report_opts){0});
	res = end(&x);
	assert_int_equal(res.count, 0);
	report__free(x.r);
}

static void histogram(void **state)
{
	struct loghist *h = calloc(1, sizeof(*h));
	uint64_t v[1000], got;

	for (unsigned i = 0; i < 1000; i++) {
		v[i] = 100 + (uint64_t)i * i;
		loghist_add(h, v[i]);
	}
	for (double p = 0.01; p < 1; p += 0.01) {
		uint64_t exact = sorted_percentile(v, 1000, p);

		got = loghist_percentile(h, 1000, p, v[999]);
		assert_true(got <= exact + exact / 32 + 1 && exact <= got + got / 32 + 1);
	}
	assert_int_equal(loghist_percentile(h, 1000, 1, v[999]), v[999]);
	loghist_add(h, 0);
	loghist_add(h, UINT64_MAX);
	assert_int_equal(h->n[0], 1);
	assert_int_equal(h->n[LOGHIST_BUCKETS - 1], 1);
	free(h);
}

static void keys(void **state)
{
	struct keys k = {0};

	assert_int_equal(keys__find(&k, 7), KEYS_NONE);
	for (uint64_t i = 0; i < 5000; i++)
		assert_int_equal(keys_get(&k, i * i, 5000, MEMLIMIT_THREADS), i);
	for (uint64_t i = 0; i < 5000; i++)
		assert_int_equal(keys_get(&k, i * i, 5000, MEMLIMIT_THREADS), i);
	assert_int_equal(keys_get(&k, 3, 5000, MEMLIMIT_THREADS), KEYS_NONE);
	assert_int_equal(keys__find(&k, 3), KEYS_NONE);
	/* Only the latest one is removed. */
	keys__undo(&k, KEYS_NONE);
	keys__undo(&k, 17);
	assert_int_equal(k.cnt, 5000);
	keys__undo(&k, 4999);
	assert_int_equal(keys__find(&k, 4999 * 4999), KEYS_NONE);
	for (uint64_t i = 0; i < 4999; i++)
		assert_int_equal(keys__find(&k, i * i), i);
	assert_int_equal(keys_get(&k, 3, 5000, MEMLIMIT_THREADS), 4999);
	keys__free(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tokens),
		cmocka_unit_test(warmup_is_left_out),
		cmocka_unit_test(small_differences),
		cmocka_unit_test(several_waits),
		cmocka_unit_test(no_waits),
		cmocka_unit_test(graph_replays),
		cmocka_unit_test(what_is_no_launch),
		cmocka_unit_test(threads_are_apart),
		cmocka_unit_test(marker),
		cmocka_unit_test(gap),
		cmocka_unit_test(by_sync),
		cmocka_unit_test(nothing),
		cmocka_unit_test(histogram),
		cmocka_unit_test(keys),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
