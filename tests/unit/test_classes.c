/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A class of functions is a row; the documents list all classes. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/event.h"

static const struct {
	enum api_class class;
	const char *type, *chrome;
} rows[] = {
#define CLASS(id, name, TYPE, type, detail, queries, chrome, ...) {CLASS_##id, type, chrome},
#include "decode/cuda_classes.def"
#undef CLASS
};
#define ROWS (sizeof(rows) / sizeof(rows[0]))

/* Unit tests run in the top-level folder. */
static char *document(const char *path)
{
	char *text = NULL;
	size_t cap = 0;
	FILE *f = fopen(path, "r");

	assert_non_null(f);
	assert_true(getdelim(&text, &cap, '\0', f) > 0);
	fclose(f);
	return text;
}

static void types(void **state)
{
	/* Each class has a row, except for that of queries. */
	assert_int_equal(ROWS, CLASS_CNT - 1);
	for (unsigned i = 0; i < ROWS; i++) {
		assert_string_equal(event_type_name(event_type_of(rows[i].class)), rows[i].type);
		for (unsigned k = 0; k < i; k++) {
			assert_string_not_equal(rows[i].type, rows[k].type);
			assert_string_not_equal(rows[i].chrome, rows[k].chrome);
		}
	}
}

static void in_documents(void **state)
{
	char *schema = document("docs/SCHEMA.md"), *chrome = document("docs/CHROME.md");
	char *of_calls = strstr(schema, "or for a call one of "), *line, *at, word[100];

	assert_non_null(of_calls);
	*strchr(of_calls, '\n') = '\0';
	for (unsigned i = 0; i < ROWS; i++) {
		snprintf(word, sizeof(word), "`%s`", rows[i].type);
		if (!strstr(of_calls, word))
			fail_msg("docs/SCHEMA.md: no type %s", word);
		/* A line of the table has two types, followed by their colours. */
		snprintf(word, sizeof(word), "| %s |", rows[i].type);
		line = strstr(chrome, word);
		if (!line)
			fail_msg("docs/CHROME.md: no type %s", rows[i].type);
		snprintf(word, sizeof(word), "(`%s`) |", rows[i].chrome);
		at = strstr(line, word);
		if (!at || at > strchr(line + strlen(rows[i].type) + 4, '|'))
			fail_msg("docs/CHROME.md: %s has not the colour %s", rows[i].type,
				 rows[i].chrome);
	}
	free(schema);
	free(chrome);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(types),
		cmocka_unit_test(in_documents),
	};

	return cmocka_run_group_tests_name("classes", tests, NULL, NULL);
}
