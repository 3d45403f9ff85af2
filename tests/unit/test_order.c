/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <cmocka.h>

#include "util/order.h"

static unsigned calls;

static bool holds(size_t i, size_t cnt, size_t leading)
{
	assert_true(i < cnt);
	calls++;
	return i < leading;
}

static void test_leading(void **state)
{
	(void)state;
	for (size_t cnt = 0; cnt < 40; cnt++) {
		for (size_t leading = 0; leading <= cnt; leading++) {
			calls = 0;
			assert_int_equal(COUNT_LEADING(i, cnt, holds(i, cnt, leading)), leading);
			assert_true(!cnt || 1u << (calls - 1) <= cnt);
		}
	}
}

/* More elements than half of all numbers; the count may use a variable of the same name. */
static void test_many(void **state)
{
	size_t i = SIZE_MAX;

	(void)state;
	assert_true(COUNT_LEADING(i, i, i < SIZE_MAX - 1) == SIZE_MAX - 1);
	assert_true(COUNT_LEADING(i, i, true) == i);
	assert_true(COUNT_LEADING(i, 3u, -1 < (int64_t)i) == 3);
}

static void test_orders(void **state)
{
	(void)state;
	assert_int_equal(ASCENDING(1u, 2u), -1);
	assert_int_equal(DESCENDING(1u, 2u), 1);
	assert_int_equal(ASCENDING(INT64_MAX, INT64_MIN), 1);
	assert_int_equal(DESCENDING(5, 5), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_leading),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_orders),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
