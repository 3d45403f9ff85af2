/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Sentences for a terminal: their line breaks. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "text/numbers.h"
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

static void fits(int width, const char *name, const char *want)
{
	char got[200] = "";
	struct term term = {.width = 80};

	term.f = fmemopen(got, sizeof(got), "w");
	assert_non_null(term.f);
	term_name(&term, name, width);
	fclose(term.f);
	assert_string_equal(got, want);
}

/* Names of C++ are cut in their arguments, and lose namespaces before the function's own name. */
static void test_name(void **state)
{
	static const char vec[] =
		"void at::native::vectorized_elementwise_kernel<8, at::add<float>, char*>"
		"(int, float)";

	fits(84, vec, vec);
	fits(79, vec, vec + 5);
	fits(60, vec, "at::native::vectorized_elementwise_kernel<...r*>(int, float)");
	fits(50, vec, "native::vectorized_elementwise_kernel<...t, float)");
	fits(40, vec, "vectorized_elementwise_kernel<... float)");
	fits(30, "c10::Allocator<int, float>::put(void*, long, long)", "put(void*, long, long)");
	fits(30, "aten::to > aten::_to_copy > aten::empty", "aten::to > ate...> aten::empty");
	/* The call before its kernel */
	fits(60, "cuLaunchKernel void at::native::vectorized_elementwise_kernel<8, char*>(int)",
	     "cuLaunchKernel vectorized_elementwise_kernel<8, char*>(int)");
	fits(50, "cuLaunchKernel void at::native::vectorized_elementwise_kernel<8, char*>(int)",
	     "cuLaunchKernel vectorized_elementwise_kernel<...t)");
	fits(40, "cuLaunchKernel void at::native::kernel<at::add<float>, char*>(int)",
	     "cuLaunchKernel kernel<at::...char*>(int)");
	fits(20, "abcdefghijklmnopqrstuvwxyz", "abcdefghi...stuvwxyz");
}

static void prints(bool is_markdown, const char *want)
{
	char got[200] = "";
	struct term term = {.width = 80, .is_markdown = is_markdown};

	term.f = fmemopen(got, sizeof(got), "w");
	assert_non_null(term.f);
	term_heading(&term, "Memory");
	term_fence(&term);
	fputs("drawn\n", term.f);
	term_fence(&term);
	term_gap(&term);
	fclose(term.f);
	assert_string_equal(got, want);
}

/* What is between tables and sentences. */
static void test_markdown(void **state)
{
	prints(false, "\nMemory\ndrawn\n\n");
	prints(true, "\n## Memory\n```\ndrawn\n```\n");
}

static void test_nouns(void **state)
{
	assert_string_equal(HUMAN_NOUNS(1, "CUDA call"), "1 CUDA call");
	assert_string_equal(HUMAN_NOUNS(12345, "CUDA call"), "12,345 CUDA calls");
	assert_string_equal(HUMAN_NOUNS(1, "launch"), "1 launch");
	assert_string_equal(HUMAN_NOUNS(0, "launch"), "0 launches");
	assert_string_equal(HUMAN_NOUNS(2, "process"), "2 processes");
	assert_string_equal(HUMAN_TIME(1.25e6), "1.25 ms");
	assert_string_equal(HUMAN_SHARE(1, 0), "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_words), cmocka_unit_test(test_percent),
		cmocka_unit_test(test_name),  cmocka_unit_test(test_markdown),
		cmocka_unit_test(test_nouns),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
