/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Which streams capture, and how a capture spreads. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "model/capture.h"

static void test_one(void **state)
{
	struct capture_set c = {0};

	assert_false(capture_set__has(&c, 1));
	capture_set__end(&c, 1);
	capture_set__begin(&c, 1);
	capture_set__begin(&c, 1);
	assert_true(capture_set__has(&c, 1));
	assert_false(capture_set__has(&c, 2));
	capture_set__end(&c, 2);
	assert_true(capture_set__has(&c, 1));
	capture_set__end(&c, 1);
	assert_false(capture_set__has(&c, 1));
	/* The default stream of a thread may capture: its handle is 0. */
	capture_set__begin(&c, 0);
	assert_true(capture_set__has(&c, 0));
	capture_set__clear(&c);
	assert_false(capture_set__has(&c, 0));
	capture_set__clear(&c);
}

static void test_spread(void **state)
{
	struct capture_set c = {0};

	capture_set__begin(&c, 1);
	/* Fork: 2 waits for an event recorded on 1, 3 for one recorded on 2. */
	capture_set__record(&c, 100, 1);
	capture_set__wait(&c, 2, 100);
	assert_true(capture_set__has(&c, 2));
	capture_set__record(&c, 101, 2);
	capture_set__wait(&c, 3, 101);
	assert_true(capture_set__has(&c, 3));
	/* An event is not a stream. */
	assert_false(capture_set__has(&c, 100));
	/* Join: nothing new. */
	capture_set__record(&c, 102, 3);
	capture_set__wait(&c, 1, 102);
	/* All of it ends with the stream that it began on, and with no other. */
	capture_set__end(&c, 2);
	assert_true(capture_set__has(&c, 2));
	capture_set__end(&c, 1);
	for (uint64_t s = 1; s <= 3; s++)
		assert_false(capture_set__has(&c, s));
	/* The events are of no capture any more. */
	capture_set__wait(&c, 2, 100);
	assert_false(capture_set__has(&c, 2));
	capture_set__clear(&c);
}

static void test_outside(void **state)
{
	struct capture_set c = {0};

	capture_set__begin(&c, 1);
	/* An event that was recorded elsewhere spreads nothing; nor does one that nobody recorded.
	 */
	capture_set__record(&c, 100, 9);
	capture_set__wait(&c, 2, 100);
	capture_set__wait(&c, 2, 555);
	assert_false(capture_set__has(&c, 2));
	/* Recorded in the capture, then anew outside of it. */
	capture_set__record(&c, 100, 1);
	capture_set__record(&c, 100, 9);
	capture_set__wait(&c, 2, 100);
	assert_false(capture_set__has(&c, 2));
	/* A handle may be a stream's and an event's at once. */
	capture_set__record(&c, 1, 9);
	assert_true(capture_set__has(&c, 1));
	capture_set__clear(&c);
}

static void test_two(void **state)
{
	struct capture_set c = {0};

	capture_set__begin(&c, 1);
	capture_set__begin(&c, 2);
	capture_set__record(&c, 100, 1);
	capture_set__record(&c, 200, 2);
	capture_set__wait(&c, 3, 100);
	capture_set__wait(&c, 4, 200);
	/* Captures do not merge (the driver refuses it): the first one counts. */
	capture_set__wait(&c, 3, 200);
	capture_set__end(&c, 2);
	assert_true(capture_set__has(&c, 1));
	assert_true(capture_set__has(&c, 3));
	assert_false(capture_set__has(&c, 2));
	assert_false(capture_set__has(&c, 4));
	/* An event recorded in the other one now belongs to that. */
	capture_set__begin(&c, 2);
	capture_set__record(&c, 100, 2);
	capture_set__wait(&c, 5, 100);
	capture_set__end(&c, 1);
	assert_true(capture_set__has(&c, 5));
	capture_set__end(&c, 2);
	assert_false(capture_set__has(&c, 5));
	assert_int_equal(c.cnt, 0);
	capture_set__clear(&c);
}

/* Captures that never end: bounded. */
static void test_many(void **state)
{
	struct capture_set c = {0};
	struct quotas q;

	quotas__init(&q, true, true);
	c.quota = &q.of[QUOTA_CAPTURES];
	for (uint64_t s = 1; s <= 10000; s++) {
		capture_set__begin(&c, s);
		capture_set__record(&c, s, s);
	}
	assert_int_equal(c.cnt, 4096);
	assert_true(c.quota->full_cnt > 0);
	assert_true(capture_set__has(&c, 1));
	for (uint64_t s = 1; s <= 10000; s++)
		capture_set__end(&c, s);
	assert_int_equal(c.cnt, 0);
	capture_set__begin(&c, 77);
	assert_true(capture_set__has(&c, 77));
	capture_set__clear(&c);
	assert_int_equal(c.quota->used, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one),	cmocka_unit_test(test_spread),
		cmocka_unit_test(test_outside), cmocka_unit_test(test_two),
		cmocka_unit_test(test_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
