/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdbool.h>
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

/* A line as cudatrace writes it is parsed by plain functions, and one that begins with a space by
 * RapidJSON: their results must be equal. */
static bool same(struct parser *plain, struct parser *full, const char *line, size_t len)
{
	char *a = calloc(1, len + 1 + PARSE_SLACK), *b = calloc(1, len + 2 + PARSE_SLACK);
	struct json_value x, y;
	int ret;

	assert_true(a && b);
	memcpy(a, line, len);
	b[0] = ' ';
	memcpy(b + 1, line, len);
	ret = parser__line(plain, a, len, &x);
	assert_int_equal(ret, parser__line(full, b, len + 1, &y));
	if (ret)
		assert_string_equal(x.why, y.why);
	assert_int_equal(x.at + 1, y.at);
	if (!ret) {
		assert_int_equal(x.is_object, y.is_object);
		assert_int_equal(x.cnt, y.cnt);
	}
	for (unsigned i = 0; !ret && i < x.cnt; i++) {
		const struct member *m = &x.m[i], *n = &y.m[i];

		assert_int_equal(m->key, n->key);
		assert_int_equal(m->val, n->val);
		assert_int_equal(m->from + 1, n->from);
		assert_int_equal(m->to + 1, n->to);
		assert_int_equal(m->name_len, n->name_len);
		assert_int_equal(m->len, n->len);
		assert_int_equal(!m->name, !n->name);
		assert_memory_equal(m->name ? m->name : "", n->name ? n->name : "", m->name_len);
		assert_memory_equal(m->text, n->text, m->len);
	}
	free(a);
	free(b);
	return !ret;
}

static void test_plain(void **state)
{
	static const char *const lines[] = {
		"{}",
		"[]",
		"{\"ts\":12.5,\"dur\":-0,\"x\":0.25,\"ok\":true,\"no\":false,\"none\":null,\"\":\"\"}",
		"[1,\"a\",{},[],[1,2],{\"a\":[{\"b\":null}]},true,-1.5]",
		"{\"comm\":\"exactly 16 bytes\",\"args\":{\"f\":\"0x1\",\"grid\":[1,2,3],\"s\":{\"t\":[]}},"
		"\"a name of more than sixteen bytes\":[{\"a\":\"b\"},\"c\"]}",
		"{\"ts\": 12.5, \"args\": {\"a\": [1, {\"b\": true}], \"c\": \"d\"}, \"e\": [ ]}",
		"[1, \"a\", {\"b\": 1}, [2, 3], null]",
		"{\"a\":1e5,\"b\":1E-3,\"c\":2.5e+10}",
		"{\"a\":1e400}",
		"{\"a\":99999999999999999999999999999999999999999999999999999999999999999999999}",
		"[[[[[[[[[[[[1]]]]]]]]]]]]",
		"{\"a\":{\"b\\u0041\":\"\\n\"},\"c\":\"\\\\\"}",
		"{\"a\":\"\x7f\xc3\xa4\"}",
		"{\"a\":[1,]}",
		"{\"a\":{\"b\"}}",
		"{\"a\":{\"b\":1,}}",
		"{\"a\":{\"b\":1]}",
		"{\"a\":-}",
		"{\"a\":1.}",
		"{\"a\":00}",
		"{\"a\":nul}",
		"{\"a\":truer}",
		"{\"a\":\"b\"c}",
		"{\"a\" :1}",
		"{\"a\":1} ",
		"{\"a\":1}\r",
	};
	struct parser *plain = parser__new(), *full = parser__new();
	static const char with[] = "\"\\,:{}[]0-1.e tn\x01\x80";
	unsigned valid = 0, seed = 1;

	for (unsigned i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		size_t len = strlen(lines[i]);
		char *line = strdup(lines[i]);

		valid += same(plain, full, line, len);
		for (size_t n = 0; n < len; n++)
			same(plain, full, line, n);
		/* One byte replaced, and two. */
		for (size_t n = 0; n < len; n++) {
			for (unsigned k = 0; k < sizeof(with); k++) {
				size_t other = (seed = seed * 1103515245 + 12345) / 65536 % len;
				char was = line[n], other_was;

				line[n] = with[k];
				same(plain, full, line, len);
				other_was = line[other];
				line[other] = with[seed / 256 % sizeof(with)];
				same(plain, full, line, len);
				line[other] = other_was;
				line[n] = was;
			}
		}
		free(line);
	}
	assert_int_equal(valid, 15);
	parser__free(plain);
	parser__free(full);
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
		cmocka_unit_test(test_strings), cmocka_unit_test(test_plain),
		cmocka_unit_test(test_utf8),	cmocka_unit_test(test_wrong),
		cmocka_unit_test(test_empty),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
