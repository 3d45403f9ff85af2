/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* --gpu-time: the call of an execution, and the times at which a device was busy. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>

#include "factory.h"
#include "model/gpu.h"
#include "model/gpu_busy.h"

static struct gpu_join join;
static struct gpu_calls calls;

static int clear(void **state)
{
	gpu_calls__free(&join, &calls);
	gpu_join__free(&join);
	join = (struct gpu_join){0};
	return 0;
}

static struct trace_event launch(struct factory *f)
{
	struct trace_event ev = factory_launch(f, "k", 0);

	assert_true(gpu_is_wanted(&ev));
	gpu_calls__add(&join, &calls, &ev, true);
	return ev;
}

static uint64_t id_at(uint64_t ns, bool is_later)
{
	bool later;
	struct gpu_call *c = gpu_calls__find(&calls, ns, &later);

	assert_int_equal(later, is_later);
	return c ? c->id : 0;
}

static void test_find(void **state)
{
	struct factory f = factory(7);
	struct trace_event a = launch(&f), b = launch(&f);

	assert_int_equal(id_at(a.start_ns - 1, false), 0);
	assert_int_equal(id_at(a.start_ns, false), a.id);
	assert_int_equal(id_at(a.end_ns, false), a.id);
	assert_int_equal(id_at(a.end_ns + 1, false), 0);
	assert_int_equal(id_at(b.end_ns, true), b.id);
	assert_int_equal(id_at(b.end_ns + 1, true), 0);
	assert_int_equal(gpu_calls__missing(&calls), 2);
}

/* An entry goes on until the next; a failed or captured launch executes nothing. */
static void test_kinds(void **state)
{
	struct factory f = factory(7);
	struct trace_event ev = factory_launch(&f, "k", 0);

	ev.entry_only = true;
	gpu_calls__add(&join, &calls, &ev, true);
	assert_int_equal(id_at(ev.end_ns + 1000000, true), ev.id);
	ev = factory_launch(&f, "k", 0);
	ev.capturing = true;
	gpu_calls__add(&join, &calls, &ev, true);
	ev = factory_launch(&f, "k", 0);
	ev.is_error = true;
	gpu_calls__add(&join, &calls, &ev, true);
	assert_int_equal(gpu_calls__missing(&calls), 0);
	ev = factory_launch(&f, "k", 0);
	gpu_calls__add(&join, &calls, &ev, false);
	assert_int_equal(id_at(ev.end_ns, true), 0);
	assert_int_equal(gpu_calls__missing(&calls), 1);
}

/* At the limit the first calls are dropped, and count as having no time. */
static void test_memlimit(void **state)
{
	const uint64_t cnt = 300000;
	struct factory f = factory(7);
	struct trace_event first = launch(&f), last = first;

	for (uint64_t i = 1; i < cnt; i++)
		last = launch(&f);
	assert_int_equal(id_at(first.start_ns, false), 0);
	assert_int_equal(id_at(last.start_ns, true), last.id);
	assert_true(join.missing_cnt > 0);
	assert_int_equal(join.missing_cnt + gpu_calls__missing(&calls), cnt);
	gpu_calls__free(&join, &calls);
	assert_int_equal(join.missing_cnt, cnt);
	assert_int_equal(join.row_cnt, 0);
}

static bool is_of(const struct ct_gpu_run *g, void *pid)
{
	return g->rec.pid == *(uint32_t *)pid;
}

/* In order of arrival, whichever are removed in between. */
static void test_wait(void **state)
{
	struct ct_gpu_run g = {0};
	uint32_t pid = 2, n;

	for (int round = 0; round < 3000; round++) {
		for (g.rec.pid = 1; g.rec.pid <= 3; g.rec.pid++)
			assert_true(gpu_join__wait(&join, &g));
		gpu_join__take(&join, is_of, &pid);
		gpu_join__take(&join, is_of, &pid);
		for (n = 1; gpu_join__first(&join); n += 2) {
			assert_int_equal(gpu_join__first(&join)->rec.pid, n);
			gpu_join__drop_first(&join);
		}
		assert_int_equal(n, 5);
	}
	for (n = 0; gpu_join__wait(&join, &g); n++)
		;
	assert_true(n >= 1000);
}

static void busy_is(struct gpu_busy *b, uint64_t compute, uint64_t copying, uint64_t any)
{
	assert_int_equal(b->parts[GPU_COMPUTE].total, compute);
	assert_int_equal(b->parts[GPU_COPYING].total, copying);
	assert_int_equal(b->parts[GPU_ANY].total, any);
	assert_int_equal(gpu_busy__overlap(b), compute + copying - any);
}

/* In any order of arrival. */
static void test_busy(void **state)
{
	const uint64_t o = 1000000000;
	struct gpu_busy b = {0};

	assert_true(gpu_busy__init(&b));
	gpu_busy__add(&b, o + 70000, o + 90000, GPU_COPY);
	gpu_busy__add(&b, o + 10000, o + 30000, GPU_KERNEL);
	gpu_busy__add(&b, o, o + 20000, GPU_KERNEL);
	gpu_busy__add(&b, o + 25000, o + 40000, GPU_COPY);
	gpu_busy__add(&b, o + 26000, o + 27000, GPU_COPY);
	gpu_busy__finish(&b);
	busy_is(&b, 30000, 35000, 60000);
	assert_int_equal(b.first, o);
	assert_int_equal(b.last, o + 90000);
	assert_int_equal(b.gaps[1].cnt, 1);
	assert_int_equal(b.gaps[1].ns, 30000);
	assert_int_equal(b.longest_gap_at, o + 40000);
	assert_int_equal(b.late_cnt, 0);
	assert_int_equal((uint64_t)gpu_busy__between(&b, GPU_ANY, o, o + 90000), 60000);
	assert_int_equal((uint64_t)gpu_busy__between(&b, GPU_ANY, o + 40000, o + 70000), 0);
	gpu_busy__free(&b);
}

/* A kernel of NCCL counts as computing, too. It is alone while no other kernel and no copy runs. */
static void test_communicating(void **state)
{
	const uint64_t o = 1000000000;
	struct gpu_busy b = {0};

	assert_true(gpu_busy__init(&b));
	gpu_busy__add(&b, o, o + 10000, GPU_KERNEL);
	gpu_busy__add(&b, o + 5000, o + 40000, GPU_COLLECTIVE);
	gpu_busy__add(&b, o + 20000, o + 25000, GPU_COPY);
	gpu_busy__add(&b, o + 30000, o + 50000, GPU_KERNEL);
	gpu_busy__add(&b, o + 60000, o + 70000, GPU_COLLECTIVE);
	gpu_busy__finish(&b);
	busy_is(&b, 60000, 5000, 60000);
	assert_int_equal(b.parts[GPU_COMMUNICATING].total, 45000);
	assert_int_equal(b.parts[GPU_ELSE].total, 35000);
	/* 10,000 to 20,000, 25,000 to 30,000, and the last */
	assert_int_equal(gpu_busy__alone(&b), 25000);
	assert_int_equal((uint64_t)gpu_busy__between(&b, GPU_COMMUNICATING, o, o + 30000), 25000);
	assert_int_equal((uint64_t)gpu_busy__between(&b, GPU_ELSE, o + 60000, o + 70000), 0);
	gpu_busy__free(&b);
}

/* Late executions reduce nothing. */
static void test_alone_late(void **state)
{
	struct gpu_busy b = {0};

	assert_true(gpu_busy__init(&b));
	for (uint64_t i = 0; i < GPU_KEPT; i++)
		gpu_busy__add(&b, 1000000 + i * 1000, 1000000 + i * 1000 + 500, GPU_COLLECTIVE);
	gpu_busy__finish(&b);
	gpu_busy__add(&b, 1000600, UINT64_MAX / 2, GPU_KERNEL);
	gpu_busy__add(&b, 5, 1000, GPU_COPY);
	gpu_busy__finish(&b);
	assert_true(gpu_busy__alone(&b) <= b.parts[GPU_COMMUNICATING].total);
	gpu_busy__free(&b);
}

/* More than are kept, in an order that CUPTI may deliver: the sums are complete. */
static void test_many(void **state)
{
	const uint64_t o = 5000, cnt = 1000000;
	struct gpu_busy b = {0};

	assert_true(gpu_busy__init(&b));
	for (uint64_t i = 0; i < cnt; i++) {
		/* Blocks of 8192, each in reverse order. */
		uint64_t at = (i | 8191) - (i & 8191);

		at = at < cnt ? at : i;
		gpu_busy__add(&b, o + at * 1000, o + at * 1000 + 600,
			      at % 4 ? GPU_KERNEL : GPU_COPY);
	}
	gpu_busy__finish(&b);
	assert_int_equal(b.late_cnt, 0);
	busy_is(&b, cnt / 4 * 3 * 600, cnt / 4 * 600, cnt * 600);
	assert_int_equal(b.gaps[0].cnt, cnt - 1);
	/* Bins are larger by now. */
	assert_true(b.bin_ns > 1000);
	assert_int_equal((uint64_t)gpu_busy__between(&b, GPU_ANY, 0, UINT64_MAX / 2), cnt * 600);
	gpu_busy__free(&b);
}

/* An execution that comes after its bin was closed counts as late; time that nothing else covers is
 * lost. */
static void test_late(void **state)
{
	struct gpu_busy b = {0};

	assert_true(gpu_busy__init(&b));
	for (uint64_t i = 0; i < GPU_KEPT; i++)
		gpu_busy__add(&b, 1000000 + i * 1000, 1000000 + i * 1000 + 500, GPU_KERNEL);
	gpu_busy__add(&b, 1000600, 1000700, GPU_KERNEL);
	gpu_busy__finish(&b);
	assert_int_equal(b.late_cnt, 1);
	busy_is(&b, GPU_KEPT * 500ull, 0, GPU_KEPT * 500ull);
	gpu_busy__free(&b);
}

/* A process may send any time. */
static void test_absurd(void **state)
{
	struct gpu_busy b = {0};

	assert_true(gpu_busy__init(&b));
	gpu_busy__add(&b, 1, 2, GPU_KERNEL);
	gpu_busy__add(&b, UINT64_MAX - 5, UINT64_MAX, GPU_COPY);
	gpu_busy__add(&b, 10, UINT64_MAX - 1, GPU_KERNEL);
	gpu_busy__finish(&b);
	busy_is(&b, UINT64_MAX - 10, 5, UINT64_MAX - 9);
	assert_true(gpu_busy__between(&b, GPU_ANY, 0, UINT64_MAX) > 1e19);
	gpu_busy__free(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_find, clear),
		cmocka_unit_test_teardown(test_kinds, clear),
		cmocka_unit_test_teardown(test_memlimit, clear),
		cmocka_unit_test_teardown(test_wait, clear),
		cmocka_unit_test(test_busy),
		cmocka_unit_test(test_communicating),
		cmocka_unit_test(test_alone_late),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_late),
		cmocka_unit_test(test_absurd),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
