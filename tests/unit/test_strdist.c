/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "util/strdist.h"

static unsigned dist(const char *a, const char *b)
{
	assert_int_equal(str_distance(a, strlen(a), b, strlen(b)),
			 str_distance(b, strlen(b), a, strlen(a)));
	return str_distance(a, strlen(a), b, strlen(b));
}

static void test_edits(void **state)
{
	assert_int_equal(dist("", ""), 0);
	assert_int_equal(dist("", "abc"), 3);
	assert_int_equal(dist("launch", "launch"), 0);
	assert_int_equal(dist("launch", "LAUNCH"), 0);
	assert_int_equal(dist("lunch", "launch"), 1);
	assert_int_equal(dist("launhc", "launch"), 1);
	assert_int_equal(dist("kitten", "sitting"), 3);
	assert_int_equal(dist("abcdef", "badcfe"), 3);
}

static void test_long(void **state)
{
	char a[200], b[200];

	memset(a, 'a', sizeof(a));
	memset(b, 'a', sizeof(b));
	assert_int_equal(str_distance(a, 64, b, 64), 0);
	assert_int_equal(str_distance(a, 200, b, 64), 136);
	b[0] = 'b';
	assert_int_equal(str_distance(a, 64, b, 64), 1);
	/* Lengths count, not a NUL. */
	assert_int_equal(str_distance("abc", 2, "ab", 2), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_edits),
		cmocka_unit_test(test_long),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
