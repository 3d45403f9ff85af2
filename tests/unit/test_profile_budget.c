/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The limit of the daemon's time for profiles. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "util/clock.h"
#include "util/profile_budget.h"

static void work_for(uint64_t ns)
{
	uint64_t begun = clock_ns(CLOCK_THREAD_CPUTIME_ID);

	while (clock_ns(CLOCK_THREAD_CPUTIME_ID) - begun < ns)
		;
}

static void unlimited(void **state)
{
	profile_budget__begin();
	work_for(1000000);
	profile_budget__end();
	assert_int_equal(profile_budget__spent_ns(), 0);
	assert_true(profile_budget__has_time());
}

static void limited(void **state)
{
	uint64_t spent;

	profile_budget__start();
	assert_true(profile_budget__has_time() && profile_budget__has_much());
	profile_budget__spend_within(SEC_NS);
	assert_int_equal(profile_budget__spent_ns(), 0);
	/* Nested work counts once. */
	profile_budget__begin();
	profile_budget__begin();
	work_for(10000000);
	profile_budget__spend_within(1000);
	profile_budget__end();
	profile_budget__end();
	spent = profile_budget__spent_ns();
	assert_in_range(spent, 10001000, 15000000);
	assert_true(profile_budget__has_much());
	profile_budget__spend(60000000);
	assert_true(profile_budget__has_time() && !profile_budget__has_much());
	/* Running work counts. */
	profile_budget__begin();
	work_for(40000000);
	assert_false(profile_budget__has_time());
	profile_budget__end();
	assert_false(profile_budget__has_time());
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(unlimited), cmocka_unit_test(limited)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
