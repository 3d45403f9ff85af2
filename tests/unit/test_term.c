/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Sentences for a terminal: their line breaks. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "text/term.h"

static void breaks(int width, const char *text, const char *want)
{
	char got[200] = "";
	struct term term = {.width = width};

	term.f = fmemopen(got, sizeof(got), "w");
	assert_non_null(term.f);
	term_text(&term, text, 2);
	fclose(term.f);
	assert_string_equal(got, want);
}

static void test_words(void **state)
{
	breaks(20, "words of one line", "words of one line\n");
	breaks(10, "words of one line", "words of\n  one line\n");
	breaks(4, "one-that-is-too-long x", "one-that-is-too-long\n  x\n");
}

/* A number is not separated from its sign. */
static void test_percent(void **state)
{
	breaks(11, "some is 1.3 % of it", "some is\n  1.3 % of\n  it\n");
	breaks(13, "some is 1.3 % of it", "some is 1.3 %\n  of it\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_words),
		cmocka_unit_test(test_percent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
