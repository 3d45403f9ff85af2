/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Tables for a terminal: the columns shown, and the place of names. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "text/table.h"

static void prints(struct table *t, int width, const char *want)
{
	char got[4096] = "";
	struct term term = {.width = width};

	term.f = fmemopen(got, sizeof(got), "w");
	assert_non_null(term.f);
	table__print(t, &term);
	fclose(term.f);
	assert_string_equal(got, want);
}

static void put(struct table *t, const char *name, const char *a, const char *b, const char *c)
{
	struct table_row *row = table__row(t, name);

	snprintf(row->cell[0], CELL_SZ, "%s", a);
	snprintf(row->cell[1], CELL_SZ, "%s", b);
	snprintf(row->cell[2], CELL_SZ, "%s", c);
}

#define LONG_NAME "void kernel_of_a_long_name<float, std::array<char*, 3ul>>"

static void start(struct table *t)
{
	table__start(t, "kernel");
	table__col(t, (struct table_col){.head = "launches"});
	table__col(t, (struct table_col){.head = "mean", .drop = 1});
	table__col(t, (struct table_col){.head = "waves", .drop = 2, .if_any = true});
}

/* Columns without values are left out, and so are blanks at the end of a line. */
static void test_any(void **state)
{
	struct table t;

	start(&t);
	put(&t, "one", "12", "1.5", "");
	prints(&t, 80,
	       "  launches  mean  kernel\n"
	       "        12   1.5  one\n");
	put(&t, "two", "", "", "0.5");
	prints(&t, 80,
	       "  launches  mean  waves  kernel\n"
	       "        12   1.5         one\n"
	       "                    0.5  two\n");
	table__free(&t);
}

/* Columns are dropped, the highest number first, until the name has 40 columns. */
static void test_drop(void **state)
{
	struct table t;

	start(&t);
	put(&t, LONG_NAME, "12", "1.5", "0.5");
	prints(&t, 65,
	       "  launches  mean  waves  kernel\n"
	       "        12   1.5    0.5  kernel_of_a_long_name<...ay<char*, 3ul>>\n");
	prints(&t, 64,
	       "  launches  mean  kernel\n"
	       "        12   1.5  kernel_of_a_long_name<...d::array<char*, 3ul>>\n");
	prints(&t, 52,
	       "  launches  kernel\n"
	       "        12  kernel_of_a_long_name<...ay<char*, 3ul>>\n");
	table__free(&t);
}

/* If no column may be dropped, the name has its own line, unless it fits. */
static void test_own_line(void **state)
{
	struct table t;

	start(&t);
	put(&t, LONG_NAME, "12", "1.5", "");
	put(&t, "short", "12", "", "");
	prints(&t, 50,
	       "  launches  kernel\n"
	       "        12\n"
	       "      kernel_of_a_long_name<...:array<char*, 3ul>>\n"
	       "        12  short\n");
	table__free(&t);
}

/* More columns than the limit, and many rows. */
static void test_many(void **state)
{
	char heads[200] = "";
	struct table t;

	for (int i = 0; i < TABLE_COLS + 3; i++)
		strcat(heads, "a|");
	strcat(heads, "name");
	table__init(&t, heads);
	assert_int_equal(t.col_cnt, TABLE_COLS);
	assert_string_equal(t.name_head, "name");
	for (unsigned i = 0; i < 1000; i++)
		assert_non_null(table__row(&t, ""));
	assert_int_equal(t.row_cnt, 1000);
	table__free(&t);
}

/* Nodes of a tree are indented, less on a narrow terminal, and never by more than a third. */
static void test_depth(void **state)
{
	struct table t;

	table__start(&t, "node");
	table__col(&t, (struct table_col){.head = "calls"});
	for (unsigned i = 0; i < 3; i++) {
		struct table_row *row = table__row(&t, i < 2 ? "name" : LONG_NAME);

		snprintf(row->cell[0], CELL_SZ, "%u", i);
		row->depth = 20 * i;
	}
	prints(&t, 120,
	       "  calls  node\n"
	       "      0  name\n"
	       "      1                                          name\n"
	       "      2                                          " LONG_NAME "\n");
	prints(&t, 66,
	       "  calls  node\n"
	       "      0  name\n"
	       "      1                      name\n"
	       "      2\n"
	       "                          kernel_of_a_long_name<...ay<char*, 3ul>>\n");
	table__free(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_any),	 cmocka_unit_test(test_drop),
		cmocka_unit_test(test_own_line), cmocka_unit_test(test_many),
		cmocka_unit_test(test_depth),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
