/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Time spent on work for users: limits for a turn, a user and all; others still get their share. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>

#include "util/clock.h"
#include "util/time_budget.h"

#define MS 1000000ull

/* The clock of util/clock.h. */
static uint64_t clock_now = SEC_NS;

uint64_t now_ns(void)
{
	return clock_now;
}

int64_t epoch_ns(void)
{
	return 0;
}

static int work_for(uid_t uid, uint64_t ns)
{
	struct work w;
	int ret = time_budget__begin(&w, uid, WORK_LIBRARIES);

	if (ret)
		return ret;
	clock_now += ns;
	time_budget__end(&w);
	return 0;
}

/* Turns with work of this length, for so long: returns the time that the user got. */
static uint64_t works(uid_t first, unsigned users, uint64_t piece_ns, uint64_t for_ns)
{
	uint64_t end = clock_now + for_ns, got = 0;

	for (unsigned i = 0; clock_now < end; i++) {
		time_budget__turn();
		if (!work_for(first + i % users, piece_ns))
			got += piece_ns;
		clock_now += MS;
	}
	return got;
}

static void test_nothing_is_limited_in_a_trace(void **state)
{
	for (int i = 0; i < 1000; i++)
		assert_int_equal(work_for(1000, 100 * MS), 0);
	clock_now += 1000 * SEC_NS;
}

static void test_turn(void **state)
{
	struct work w;

	time_budget__start();
	time_budget__turn();
	assert_int_equal(work_for(1, 15 * MS), 0);
	assert_int_equal(work_for(2, 15 * MS), 0);
	assert_int_equal(work_for(3, MS), -EAGAIN);
	assert_false(time_budget__may(3));
	/* Work that is not retried has only its user's limit. */
	assert_int_equal(time_budget__begin(&w, 3, WORK_FILES), 0);
	clock_now += 200 * MS;
	time_budget__end(&w);
	assert_int_equal(time_budget__begin(&w, 3, WORK_SYMBOLS), -EAGAIN);
	assert_int_equal(time_budget__begin(&w, 4, WORK_SYMBOLS), 0);
	time_budget__end(&w);
	time_budget__turn();
	assert_true(time_budget__may(3));
	assert_int_equal(work_for(3, 15 * MS), 0);
	/* A user gets half of a turn for such work. */
	assert_false(time_budget__may_half(3));
	assert_true(time_budget__may_half(4));
	clock_now += 1000 * SEC_NS;
}

static void test_user(void **state)
{
	uint64_t got = works(10, 1, 10 * MS, 100 * SEC_NS);

	/* 5 % of 100 s, and an initial two seconds. */
	assert_in_range(got, 6000 * MS, 7500 * MS);
	/* Others have their own share. */
	assert_int_equal(work_for(11, MS), 0);
	clock_now += 1000 * SEC_NS;
}

static void test_all_and_a_newcomer(void **state)
{
	uint64_t got;

	/* 40 users try all the time. */
	works(100, 40, 10 * MS, 150 * SEC_NS);
	got = works(100, 40, 10 * MS, 100 * SEC_NS);
	assert_in_range(got, 15000 * MS, 25000 * MS);
	/* A user who comes then has its library attached. */
	for (int i = 0; i < 3; i++) {
		works(100, 40, 10 * MS, 2 * SEC_NS);
		time_budget__turn();
		assert_int_equal(work_for(50, 10 * MS), 0);
	}
	clock_now += 1000 * SEC_NS;
}

/* More user ids than places get at most the limit of all. */
static void test_many_users(void **state)
{
	uint64_t got;

	works(1000, 1000, 10 * MS, 150 * SEC_NS);
	got = works(1000, 1000, 10 * MS, 100 * SEC_NS);
	assert_in_range(got, 10000 * MS, 30000 * MS);
	clock_now += 1000 * SEC_NS;
}

static void test_one_long_piece(void **state)
{
	time_budget__turn();
	assert_int_equal(work_for(20, 60 * SEC_NS), 0);
	time_budget__turn();
	assert_int_equal(work_for(20, MS), -EAGAIN);
	clock_now += 30 * SEC_NS;
	assert_int_equal(work_for(20, MS), 0);
	clock_now += 1000 * SEC_NS;
}

static void test_within(void **state)
{
	struct time_budget_stats before, after;
	struct work outer, inner;

	time_budget__stats(&before);
	time_budget__turn();
	assert_int_equal(time_budget__begin(&outer, 30, WORK_LIBRARIES), 0);
	clock_now += 50 * MS;
	assert_true(time_budget__has_time());
	/* Never refused, for any user; charged once. */
	assert_int_equal(time_budget__begin(&inner, 31, WORK_FILES), 0);
	clock_now += 260 * MS;
	assert_false(time_budget__has_time());
	time_budget__end(&inner);
	assert_int_equal(time_budget__begin(&inner, 31, WORK_FILES), 0);
	time_budget__end(&inner);
	time_budget__end(&outer);
	time_budget__stats(&after);
	assert_in_range((after.seconds[WORK_LIBRARIES] - before.seconds[WORK_LIBRARIES]) * 1000,
			309, 311);
	assert_true(after.seconds[WORK_FILES] == before.seconds[WORK_FILES]);
	assert_int_equal(work_for(30, MS), -EAGAIN);
	time_budget__stats(&before);
	assert_int_equal(before.refused[WORK_LIBRARIES], after.refused[WORK_LIBRARIES] + 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing_is_limited_in_a_trace),
		cmocka_unit_test(test_turn),
		cmocka_unit_test(test_user),
		cmocka_unit_test(test_all_and_a_newcomer),
		cmocka_unit_test(test_many_users),
		cmocka_unit_test(test_one_long_piece),
		cmocka_unit_test(test_within),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
