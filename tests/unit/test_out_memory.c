/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Outputs without memory for a unit: they fail, and what was written before stays. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdbool.h>
#include <stdlib.h>

static bool fails;

static void *failing_realloc(void *p, size_t size)
{
	return fails ? NULL : realloc(p, size);
}

#define realloc failing_realloc
#include "util/out.c"
#undef realloc

#define BIG  (5u << 20)
#define LINE "all of this line\n"

static void put_line(struct out *o)
{
	out_lit(o, LINE);
	out__commit(o);
}

static void put_big(struct out *o)
{
	char *big = malloc(BIG);

	memset(big, 'x', BIG);
	out_lit(o, "the first part, ");
	out_bytes(o, big, BIG);
	out_json_str(o, big, 100000);
	out_char(o, '\n');
	out__commit(o);
	free(big);
}

/* Lines before the failure stay, those after it do not follow, and both are counted. */
static void test_file(void **state)
{
	char path[] = "/tmp/cudatrace-out-XXXXXX", got[256] = "";
	struct out *o;
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	o = out__open(path);
	assert_non_null(o);
	put_line(o);
	out__flush(o);
	put_line(o);
	fails = true;
	put_big(o);
	assert_true(o->failed);
	assert_int_equal(o->error, ENOMEM);
	fails = false;
	for (unsigned i = 0; i < 200000; i++)
		put_line(o);
	assert_true(o->len <= o->cap);
	out__finish(o);
	assert_int_equal(o->lost, 200001);
	assert_int_equal(out__close(o), -ENOMEM);
	assert_int_equal(read(fd, got, sizeof(got) - 1), 2 * strlen(LINE));
	assert_string_equal(got, LINE LINE);
	close(fd);
	unlink(path);
}

/* Whole lines that are held back are written first. */
static void test_held(void **state)
{
	char path[] = "/tmp/cudatrace-out-XXXXXX";
	struct out *o;
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	o = out__open(path);
	assert_non_null(o);
	o->held = true;
	put_line(o);
	fails = true;
	put_big(o);
	fails = false;
	o->held = false;
	assert_int_equal(out__close(o), -ENOMEM);
	assert_int_equal(lseek(fd, 0, SEEK_END), strlen(LINE));
	close(fd);
	unlink(path);
}

/* In memory, if the user checks it. */
static void test_memory(void **state)
{
	struct out *o = out__memory();

	assert_non_null(o);
	o->is_checked = true;
	fails = true;
	put_big(o);
	assert_true(o->failed && o->error == ENOMEM && o->len <= o->cap);
	/* A single piece that is larger than the buffer. */
	memset(out_reserve(o, 2 * BIG), 'y', 2 * BIG);
	assert_true(o->cap >= 2 * BIG);
	fails = false;
	assert_int_equal(out__close(o), -ENOMEM);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_file),
		cmocka_unit_test(test_held),
		cmocka_unit_test(test_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
