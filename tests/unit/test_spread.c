/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Time by the moment when it was spent (report/collect.h), against a complete list. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "random.h"
#include "report/collect.h"

#define TIMES 5000

static void test_shares(void **state)
{
	static uint64_t at[TIMES], ns[TIMES];
	struct spread s = {0};
	uint64_t now = 7000000000, all = 0;

	for (unsigned i = 0; i < TIMES; i++) {
		now += rnd() % 3000000;
		at[i] = now;
		ns[i] = rnd() % 100000;
		all += ns[i];
		spread__add(&s, at[i], ns[i]);
	}
	assert_int_equal(s.total_ns, all);
	for (unsigned n = 0; n < 200; n++) {
		uint64_t from = at[rnd() % TIMES];
		uint64_t to = from + rnd() % (now - from + 1);
		double part = 0;

		for (unsigned i = 0; i < TIMES; i++)
			part += at[i] >= from && at[i] < to ? ns[i] : 0;
		/* One cell at either end. */
		assert_true(fabs(spread__share(&s, from, to) - part / all) < 3.0 / SPREAD_PIECES);
	}
	assert_true(spread__share(&s, 0, UINT64_MAX) > 0.999999);
}

/* Time before the first moment, and empty ranges. */
static void test_ends(void **state)
{
	struct spread s = {0};

	assert_true(spread__share(&s, 0, UINT64_MAX) == 0);
	spread__add(&s, 5000000000, 10);
	spread__add(&s, 1000000000, 10);
	spread__add(&s, 5000000000 + (1ull << 50), 20);
	assert_int_equal(s.total_ns, 40);
	assert_true(spread__share(&s, 0, UINT64_MAX) == 1);
	assert_true(spread__share(&s, 5000000000 + (1ull << 49), UINT64_MAX) == 0.5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shares),
		cmocka_unit_test(test_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
