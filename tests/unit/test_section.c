/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The rows of all sections: views name existing columns, members have unique names and a text. Also
 * cases that no report of the corpus has: null values, maps, rejected rows. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "report/section.h"
#include "report/section_csv.h"

static const struct analysis_ops *const analyses[] = {
#define AN(id, name, what) &name##_ops,
#include "report/analyses.def"
#undef AN
};

static const struct section_col *find(const struct section_table *of, const char *name, size_t len)
{
	for (unsigned i = 0; i < of->col_cnt; i++)
		if (strlen(of->cols[i].name) == len && !strncmp(of->cols[i].name, name, len))
			return &of->cols[i];
	return NULL;
}

static void check_view(const struct section_col *list)
{
	size_t len;

	for (const char *v = list->view; *v && *v != '='; v += len + (v[len] == ' ')) {
		len = strcspn(v, " =");
		if (*v == '*')
			continue;
		if (!find(list->of, v, len) || !find(list->of, v, len)->in_text)
			fail_msg("%s: its view has no column %.*s", list->name, (int)len, v);
	}
}

/* Returns the number of tables below it. */
static unsigned check_table(const struct section_table *t)
{
	unsigned cnt = 1;

	assert_true(t->col_cnt > 0);
	for (unsigned i = 0; i < t->col_cnt; i++) {
		const struct section_col *c = &t->cols[i];

		for (unsigned k = 0; k < i; k++)
			if (!strcmp(t->cols[k].name, c->name) && c->kind != SECTION_COMPARE)
				fail_msg("%s: %s is there twice", t->id, c->name);
		if (c->in_json && (!c->text || !*c->text || c->text[strlen(c->text) - 1] == '.'))
			fail_msg("%s: %s has no text, or a sentence", t->id, c->name);
		if (c->in_text && (!c->head || !*c->head))
			fail_msg("%s: %s has no heading", t->id, c->name);
		if (c->kind == SECTION_LIST)
			check_view(c);
		if (c->of)
			cnt += check_table(c->of);
	}
	return cnt;
}

static void test_rows(void **state)
{
	unsigned cnt = 0;

	for (unsigned i = 0; i < AN_CNT; i++)
		if (analyses[i]->section)
			cnt += check_table(analyses[i]->section);
	assert_true(cnt > 50);
}

struct toy {
	uint64_t cnt, left;
	const char *name;
	unsigned ids[3];
	struct toy_row {
		uint64_t n;
	} rows[4];
};

static const char *label_of(char buf[SECTION_BUF], const struct toy_row *x)
{
	snprintf(buf, SECTION_BUF, "row %u", (unsigned)x->n);
	return buf;
}

static const char *id_of(char buf[SECTION_BUF], unsigned id)
{
	snprintf(buf, SECTION_BUF, "id%u", id);
	return buf;
}

#define SECTION_STATE struct toy
#define SECTION_ROWS  "toy.section"
#include "report/section_rows.h"

static const struct toy toy = {.cnt = 1234, .ids = {7, 8, 0}, .rows = {{5}, {0}, {6}, {7}}};

static void test_json(void **state)
{
	static const char want[] =
		"{\"toy\":{\"cnt\":1234,\"name\":null,\"mean\":1235,\"ids\":[7,8,0],"
		"\"by_id\":{\"id7\":7,\"id8\":8},\"list\":[{\"n\":5,\"up\":1234},{\"n\":6,\"up\":1234}],"
		"\"first\":{\"n\":5,\"up\":1234}}}";
	struct out *out = out__memory();
	struct json j;

	assert_non_null(out);
	json__init(&j, out);
	json_open(&j, NULL);
	section_json(NULL, &toy_table, &toy, &toy, &j, "toy");
	json_close(&j);
	assert_int_equal(out->len, strlen(want));
	assert_memory_equal(out->buf, want, out->len);
	out__close(out);
}

static void test_text(void **state)
{
	char got[1000] = "";
	struct term term = {.width = 80};

	term.f = fmemopen(got, sizeof(got), "w");
	assert_non_null(term.f);
	assert_int_equal(section_print(NULL, &toy_table, &toy, &toy, "list", 2, &term), 2);
	/* none: nothing is printed */
	assert_int_equal(section_print(NULL, &toy_table, &toy, &toy, "none", 2, &term), 0);
	fclose(term.f);
	assert_string_equal(got, "  half  n  the row\n"
				 "  2.50  5  row 5\n"
				 "  3.00  6  row 6\n");
}

/* Tables of the report itself have it as their state; here that is toy. */
static void assert_csv(const struct toy *x, const struct section_path *p, const char *want)
{
	struct out *out = out__memory();

	assert_non_null(out);
	assert_int_equal(section_csv((const void *)x, p, out), 0);
	assert_int_equal(out->len, strlen(want));
	assert_memory_equal(out->buf, want, out->len);
	out__close(out);
}

/* Objects are columns, also those that are left out; a list is a table of its own. */
static void test_csv(void **state)
{
	struct section_path p = {.id = AN_CNT, .from = &toy_table};
	struct toy quoted = toy;

	assert_csv(&toy, &p,
		   "cnt,left,name,mean,ids,by_id,first.n,first.up,second.n,second.up\r\n"
		   "1234,,,1235,\"[7,8,0]\",\"{\"\"id7\"\":7,\"\"id8\"\":8}\",5,1234,,\r\n");
	quoted.name = "=a\"b\",c";
	assert_csv(
		&quoted, &p,
		"cnt,left,name,mean,ids,by_id,first.n,first.up,second.n,second.up\r\n"
		"1234,,\"'=a\"\"b\"\",c\",1235,\"[7,8,0]\",\"{\"\"id7\"\":7,\"\"id8\"\":8}\",5,1234,,"
		"\r\n");
	p.cols[p.len++] = find(&toy_table, "list", 4);
	assert_csv(&toy, &p, "n,up\r\n5,1234\r\n6,1234\r\n");
}

static void take(void *ctx, const struct section_value *v)
{
	char *text = ctx;

	sprintf(text + strlen(text), "%s %u %u %u;", v->what, v->flags, (unsigned)v->cnt,
		(unsigned)v->ns);
}

/* The values of a table and its objects, not of its lists. */
static void test_compare(void **state)
{
	char got[200] = "", buf[SECTION_BUF];

	toy_visit(&(struct section_cursor){
		.s = &toy, .x = &toy, .of = &toy_table, .buf = buf, .value = take, .ctx = got});
	assert_string_equal(got, "n 1 5 0;all 5 1234 7;");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows),	cmocka_unit_test(test_json),
		cmocka_unit_test(test_text),	cmocka_unit_test(test_csv),
		cmocka_unit_test(test_compare),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
