/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The names of a split output's segments, and their order. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>

#include "util/segment.h"

static void check_path(const char *path, unsigned n, const char *want)
{
	char buf[64];

	assert_int_equal(segment_path(buf, sizeof(buf), path, n), 0);
	assert_string_equal(buf, want);
}

static void test_path(void **state)
{
	char buf[8];

	check_path("out.jsonl", 1, "out.1.jsonl");
	check_path("a.b/out.chrome.json", 12, "a.b/out.chrome.12.json");
	check_path("a.b/out", 1, "a.b/out.1");
	check_path("./.hidden", 3, "./.hidden.3");
	check_path("out.jsonl.gz", 1, "out.1.jsonl.gz");
	check_path("out.7.jsonl", 1, "out.7.1.jsonl");
	check_path("-", 1, "-.1");
	assert_int_equal(segment_path(buf, sizeof(buf), "out.jsonl", 1), -ENAMETOOLONG);
}

static void check_after(const char *path, unsigned n, const char *want)
{
	char buf[64];

	assert_int_equal(segment_after(buf, sizeof(buf), path, n), 0);
	assert_string_equal(buf, want);
}

static void test_after(void **state)
{
	check_after("out.jsonl", 0, "out.1.jsonl");
	check_after("out.1.jsonl", 1, "out.2.jsonl");
	check_after("x/out.9.jsonl.zst", 9, "x/out.10.jsonl.zst");
	check_after("out.4", 4, "out.5");
	/* The number is not that of a segment. */
	check_after("run.7.jsonl", 0, "run.7.1.jsonl");
	check_after("run.7.1.jsonl", 1, "run.7.2.jsonl");
	check_after("other.jsonl", 2, "other.3.jsonl");
}

static void check_sort(const char *const *want, const char **paths, unsigned cnt)
{
	segments_sort(paths, cnt);
	for (unsigned i = 0; i < cnt; i++)
		assert_string_equal(paths[i], want[i]);
}

static void test_sort(void **state)
{
	const char *glob[] = {"d/o.10.jsonl", "d/o.1.jsonl", "d/o.2.jsonl", "d/o.jsonl"};
	const char *mixed[] = {"b.jsonl", "a.2.jsonl", "z", "a.jsonl", "a.1.json", "a.1.jsonl"};
	const char *others[] = {"new.jsonl", "-", "10.jsonl", "9.jsonl", "x.01", "x"};

	check_sort((const char *const[]){"d/o.jsonl", "d/o.1.jsonl", "d/o.2.jsonl", "d/o.10.jsonl"},
		   glob, 4);
	check_sort((const char *const[]){"b.jsonl", "a.jsonl", "a.1.jsonl", "a.2.jsonl", "z",
					 "a.1.json"},
		   mixed, 6);
	check_sort((const char *const[]){"new.jsonl", "-", "10.jsonl", "9.jsonl", "x.01", "x"},
		   others, 6);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_path),
		cmocka_unit_test(test_after),
		cmocka_unit_test(test_sort),
	};

	return cmocka_run_group_tests_name("segment", tests, NULL, NULL);
}
