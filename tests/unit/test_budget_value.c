/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Values of a report by path. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "budget/value.h"
#include "saved/parse.h"

static const char report[] =
	"{\"complete\":true,\"a\":{\"b\":{\"max\":7,\"text\":\"t\",\"none\":null}},"
	"\"zero\":{\"cnt\":0},\"empty\":{\"list\":[]},"
	"\"list\":[{\"name\":\"one\",\"cnt\":1,\"in\":{\"ns\":10}},{\"name\":\"two\",\"cnt\":2,\"in\":{\"ns\":20}},"
	"{\"name\":\"twofold\",\"cnt\":4,\"in\":{\"ns\":40}}]}";

/* As in a report: the parser reads beyond the text. */
static struct values *parse(const char *text, int *err)
{
	static char copy[1024];

	assert_true(strlen(text) + 1 + PARSE_SLACK < sizeof(copy));
	strcpy(copy, text);
	return values__new(copy, strlen(copy), err);
}

static void test_paths(void **state)
{
	static const struct {
		const char *path, *name, *of;
		double x; /* -1: the report does not have it */
	} rows[] = {
		{"complete", NULL, NULL, 1},
		{"a.b.max", NULL, NULL, 7},
		{"a.b.$of", NULL, "max", 7},
		{"a.b.$of", NULL, "min", -1},
		{"a.b", NULL, NULL, -1},
		{"a.b.text", NULL, NULL, -1},
		{"a.b.none", NULL, NULL, -1},
		{"a.b.max.more", NULL, NULL, -1},
		{"a.b.max+zero.cnt", NULL, NULL, 7},
		{"zero.cnt", NULL, NULL, 0},
		{"zero.cnt!", NULL, NULL, -1},
		{"a.b.max!", NULL, NULL, 7},
		{"list[*].cnt", NULL, NULL, 7},
		{"list[+].in.ns", NULL, NULL, 70},
		{"list[name=two].cnt", NULL, NULL, 2},
		{"list[name^=two].in.ns", NULL, NULL, 60},
		{"list[name=three].cnt", NULL, NULL, 0},
		{"list[name=$].cnt", "one", NULL, 1},
		{"list[name=$].cnt", "three", NULL, -1},
		{"list[name=one].cnt+list[name=two].cnt", NULL, NULL, 3},
		{"list[*].none", NULL, NULL, -1},
		{"empty.list[*].cnt", NULL, NULL, 0},
		{"empty.list[+].cnt", NULL, NULL, -1},
		{"missing.list[*].cnt", NULL, NULL, -1},
		{"a[*].cnt", NULL, NULL, -1},
	};
	struct values *v;
	int err;

	v = parse(report, &err);
	assert_non_null(v);
	/* Each twice, in both orders: a walk leaves nothing behind. */
	for (unsigned n = 0; n < 2 * sizeof(rows) / sizeof(rows[0]); n++) {
		unsigned cnt = sizeof(rows) / sizeof(rows[0]), i = n < cnt ? n : 2 * cnt - 1 - n;
		double x;
		bool has = values__get(v, rows[i].path, rows[i].name, rows[i].of, &x);

		if (has != (rows[i].x >= 0) || (has && x != rows[i].x))
			fail_msg("%s: %d %f", rows[i].path, has, x);
	}
	values__free(v);
}

static void add(void *ctx, const char *text, size_t len)
{
	strncat(ctx, text, len);
	strcat(ctx, ";");
}

static void test_names(void **state)
{
	char names[64] = "";
	struct values *v;
	int err;

	v = parse(report, &err);
	assert_non_null(v);
	values__names(v, "list", "name", add, names);
	assert_string_equal(names, "one;two;twofold;");
	values__names(v, "a.b", "name", add, names);
	values__names(v, "list", "cnt", add, names);
	assert_string_equal(names, "one;two;twofold;");
	values__free(v);
}

static void test_no_report(void **state)
{
	static const char *const texts[] = {"", "[]", "{", "3", "{\"a\":}"};
	int err;

	for (unsigned i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		assert_null(parse(texts[i], &err));
		assert_int_equal(err, -EINVAL);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_paths),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_no_report),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
