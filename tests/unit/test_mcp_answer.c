/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Pages of an answer: their size, and that each goes on where the one before ended. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json_check.h"
#include "mcp/answer.h"

static bool is_text(void *ctx, const char *column, size_t len)
{
	return false;
}

/* A row of cnt columns whose values are len control characters, which take six bytes each. */
static char *wide_row(unsigned cnt, unsigned len)
{
	char *row = calloc(1, (size_t)cnt * (16 + 6 * len) + 3), *p = row;

	assert_non_null(row);
	*p++ = '{';
	for (unsigned i = 0; i < cnt; i++) {
		p += sprintf(p, "%s\"c%u\":\"", i ? "," : "", i);
		for (unsigned k = 0; k < len; k++)
			p += sprintf(p, "\\u0001");
		*p++ = '"';
	}
	*p++ = '}';
	return row;
}

static void finish(struct answer *a)
{
	answer__table(a, is_text, NULL);
	json_close(&a->j);
	assert_true(a->out->len <= ANSWER_MAX);
	assert_true(json_valid(a->out->buf, a->out->len));
	out_char(a->out, '\0');
}

static void begin(struct answer *a, uint64_t first, uint64_t max)
{
	answer__begin(a);
	a->first = first;
	a->max = max;
	json_open(&a->j, NULL);
}

/* Rows that no page has room for as they are: each page has one of them. */
static void test_wide_rows(void **state)
{
	struct answer *a = answer__new();
	char *row = wide_row(100, 300);

	assert_non_null(a);
	for (uint64_t first = 0; first < 3; first++) {
		char next[32];

		begin(a, first, 10);
		for (int i = 0; i < 3; i++)
			answer__add(a, row, strlen(row));
		finish(a);
		snprintf(next, sizeof(next), "\"next\":\"%d\"", (int)first + 1);
		assert_int_equal(!!strstr(a->out->buf, next), first < 2);
		assert_non_null(strstr(a->out->buf, "\"shortened\":100"));
		assert_non_null(strstr(a->out->buf, "\"total\":3"));
	}
	free(row);
	answer__free(a);
}

/* Many small rows: all pages together have each once. */
static void test_pages(void **state)
{
	struct answer *a = answer__new();
	unsigned first = 0, pages = 0;

	assert_non_null(a);
	while (first < 1000) {
		char row[64], text[32];
		unsigned next = 1000;
		const char *at;

		begin(a, first, ANSWER_ROWS_MAX);
		for (unsigned i = 0; i < 1000; i++) {
			snprintf(row, sizeof(row), "{\"n\":%u,\"none\":null}", i);
			answer__add(a, row, strlen(row));
		}
		finish(a);
		snprintf(text, sizeof(text), "\"rows\":[[%u]", first);
		assert_non_null(strstr(a->out->buf, text));
		at = strstr(a->out->buf, "\"next\":\"");
		if (at)
			next = atoi(at + strlen("\"next\":\""));
		snprintf(text, sizeof(text), "[%u]]", next - 1);
		assert_non_null(strstr(a->out->buf, text));
		assert_true(next > first);
		first = next;
		pages++;
	}
	assert_int_equal(pages, 5);
	answer__free(a);
}

/* A document: members first, then one of its lists; the others are counted. */
static void test_document(void **state)
{
	static const char text[] =
		"{\"a\":1,\"list\":[{\"x\":\"y\"},{\"z\":[1,2]}],\"more\":[{}],\"words\":[\"w\"]}\n";
	static const char want[] =
		"{\"a\":1,\"words\":[\"w\"],\"tables\":{\"list\":2,\"more\":1},\"columns\":[\"x\",\"z\"],"
		"\"untrusted\":[],\"rows\":[[\"y\",null],[null,[1,2]]],\"total\":2}";
	struct answer *a = answer__new();
	struct out *json = out__memory();

	assert_true(a && json);
	out_str(json, text);
	begin(a, 0, 10);
	assert_true(answer__document(a, json, "list"));
	finish(a);
	assert_string_equal(a->out->buf, want);
	json->len = 0;
	out_str(json, "[1");
	begin(a, 0, 10);
	assert_false(answer__document(a, json, "list"));
	out__close(json);
	answer__free(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_wide_rows),
		cmocka_unit_test(test_pages),
		cmocka_unit_test(test_document),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
