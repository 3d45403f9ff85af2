/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "saved/parse.h"

/* In a block of exactly the size that the parser may read, so that ASan detects reads past it. */
static int parse(struct parser *p, const char *line, struct json_value *out, char **block)
{
	size_t len = strlen(line);
	int ret;

	*block = calloc(1, len + 1 + PARSE_SLACK);
	assert_non_null(*block);
	memcpy(*block, line, len);
	ret = parser__line(p, *block, len, out);
	assert_memory_equal(*block, line, len + 1);
	return ret;
}

static void check(const struct member *m, const char *name, const char *text)
{
	assert_int_equal(m->name_len, strlen(name));
	assert_memory_equal(m->name, name, m->name_len);
	assert_int_equal(m->len, strlen(text));
	assert_memory_equal(m->text, text, m->len);
}

/* Strings point into the line, or, if they have escapes, elsewhere. */
static void test_strings(void **state)
{
	static const char line[] =
		"{\"ts\":-1.5e3,\"comm\":\"plain and long enough for more than one step\","
		"\"a\\u0062c\":\"\\\"\\\\\\/\\b\\f\\n\\r\\t\",\"nested\":{\"x\":[\"\\n\",{}]},"
		"\"op\":\"sixteen bytes 16\\u00e9\\ud83d\\ude00 and then some more that is long\","
		"\"kernel_mangled\":\"\",\"\":\"last\\n\" , \"true\" : true}";
	static const char *const want[][2] = {
		{"ts", "-1.5e3"},
		{"comm", "plain and long enough for more than one step"},
		{"abc", "\"\\/\b\f\n\r\t"},
		{"nested", "\"x\":[\"\\n\",{}]"},
		{"op", "sixteen bytes 16\xc3\xa9\xf0\x9f\x98\x80 and then some more that is long"},
		{"kernel_mangled", ""},
		{"", "last\n"},
		{"true", ""},
	};
	static const char *const known[] = {"ts", "comm",	    NULL, NULL,
					    "op", "kernel_mangled", NULL, NULL};
	struct parser *p = parser__new();
	struct json_value out;
	char *block;

	assert_int_equal(parse(p, line, &out, &block), 0);
	assert_true(out.is_object);
	assert_int_equal(out.cnt, 8);
	for (unsigned i = 0; i < out.cnt; i++) {
		check(&out.m[i], want[i][0], want[i][1]);
		assert_int_equal(out.m[i].key, known[i] ? parse_key(known[i]) : KEY_OTHER);
		assert_true(!known[i] || out.m[i].key != KEY_OTHER);
	}
	/* With its name and value, as in the line. */
	assert_memory_equal(line + out.m[2].from, "\"a\\u0062c\":\"\\\"\\\\\\/", 18);
	assert_memory_equal(line + out.m[2].to - 5, "\\r\\t\",", 6);
	assert_memory_equal(line + out.m[7].from, "\"true\" : true", 13);
	assert_int_equal(out.m[7].to, sizeof(line) - 2);
	free(block);
	parser__free(p);
}

/* Bytes outside of ASCII are checked one by one: also escapes among them. */
static void test_utf8(void **state)
{
	struct parser *p = parser__new();
	struct json_value out;
	char *block;

	assert_int_equal(parse(p, "{\"\xc3\xa4\":\"\xe2\x82\xac\\t\xc3\xa4\",\"b\":\"\xc3\xa4\"}",
			       &out, &block),
			 0);
	assert_int_equal(out.cnt, 2);
	check(&out.m[0], "\xc3\xa4", "\xe2\x82\xac\t\xc3\xa4");
	check(&out.m[1], "b", "\xc3\xa4");
	free(block);
	assert_int_not_equal(parse(p, "{\"a\":\"\xc3\"}", &out, &block), 0);
	free(block);
	parser__free(p);
}

static void test_wrong(void **state)
{
	static const char *const lines[] = {
		"",
		"{",
		"{\"a\"",
		"{\"a\":\"",
		"{\"a\":\"\\",
		"{\"a\":\"\\u12\"}",
		"{\"a\":\"\\x\"}",
		"{\"a\":\"\n\"}",
		"{\"a\":1,}",
		"\"a\"",
		"{\"a\":01}",
		"{\"a\":1}2",
		"{\"a\":\"\\ud800\"}",
		"{\"a\":tru}",
	};
	struct parser *p = parser__new();
	struct json_value out;
	char *block;

	for (unsigned i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		assert_int_not_equal(parse(p, lines[i], &out, &block), 0);
		assert_non_null(out.why);
		free(block);
	}
	parser__free(p);
}

/* An empty result has a pointer, too: users add to it. */
static void test_empty(void **state)
{
	struct parser *p = parser__new();
	struct json_value out;
	char *block;

	assert_int_equal(parse(p, "{}", &out, &block), 0);
	assert_int_equal(out.cnt, 0);
	assert_non_null(out.m);
	free(block);
	parser__free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_strings),
		cmocka_unit_test(test_utf8),
		cmocka_unit_test(test_wrong),
		cmocka_unit_test(test_empty),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
