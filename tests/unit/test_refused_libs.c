/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Files refused by a limit are remembered for a while; one user cannot take all places. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "trace/refused_libs.h"
#include "util/clock.h"

static struct refused_libs refused;

static struct ct_lib_key key(uint64_t ino)
{
	return (struct ct_lib_key){.ino = ino, .dev_major = 8, .dev_minor = 1};
}

static void add(uint64_t ino, uid_t uid, uint64_t now)
{
	struct ct_lib_key k = key(ino);

	refused_libs__add(&refused, &k, uid, now);
}

static bool has(uint64_t ino, uint64_t now)
{
	struct ct_lib_key k = key(ino);

	return refused_libs__has(&refused, &k, now);
}

static void test_for_a_while(void **state)
{
	uint64_t now = 1000 * SEC_NS;

	add(1, 1000, now);
	assert_true(has(1, now));
	assert_false(has(2, now));
	assert_true(has(1, now + 29 * SEC_NS));
	assert_false(has(1, now + 31 * SEC_NS));
}

static void test_shares(void **state)
{
	uint64_t now = 2000 * SEC_NS;

	add(7, 1, now);
	for (uint64_t i = 0; i < 1000; i++)
		add(100 + i, 2, now + i);
	/* The newest file of one user, and those of another. */
	assert_true(has(7, now + 1000));
	assert_true(has(1099, now + 1000));
	assert_true(has(1099 - REFUSED_LIBS_MAX / 8 + 1, now + 1000));
	assert_false(has(100, now + 1000));
}

static void test_full(void **state)
{
	uint64_t now = 3000 * SEC_NS;

	for (uint64_t i = 0; i < 2 * REFUSED_LIBS_MAX; i++)
		add(10000 + i, 100 + i / 16, now);
	assert_true(has(10000, now));
	assert_false(has(10000 + REFUSED_LIBS_MAX, now));
	/* They have expired. */
	add(5, 1, now + 31 * SEC_NS);
	assert_true(has(5, now + 31 * SEC_NS));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_for_a_while),
		cmocka_unit_test(test_shares),
		cmocka_unit_test(test_full),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
