/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The answer of a tool: a text that is either an error for the model, or one JSON object. Its table
 * has a page of rows: `columns`, `rows`, `total`, and if more follow `remaining` and `next`. Its
 * size is limited, whatever the rows are.
 */
#ifndef MCP_ANSWER_H
#define MCP_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "saved/parse.h"
#include "text/json.h"
#include "util/out.h"

/* Bytes of one answer. */
#define ANSWER_MAX 16384u
/* Bytes of one value of a row; the rest of a longer one is left out. */
#define ANSWER_VALUE_MAX 256u
#define ANSWER_ROWS	 10u
#define ANSWER_ROWS_MAX	 200u

struct arg_list;

struct answer {
	struct out *out; /* the text */
	struct json j;	 /* writes to out */
	bool is_error;
	/* The table: rows as JSON objects that end with a NUL, of the page only. */
	struct out *rows;
	uint64_t first, max, total;
	unsigned row_cnt;
	const struct arg_list *columns; /* chosen ones; NULL: all that a row has */
	struct parser *parser;		/* for rows */
};

struct answer *answer__new(void);
void answer__free(struct answer *a);
/* Empties it. */
void answer__begin(struct answer *a);
/* Replaces the written text by an error, which contains what to do. */
void answer__fail(struct answer *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Counts a row, and returns whether it belongs to the page. */
bool answer__takes(struct answer *a);
/* Keeps a row of the page: a JSON object. */
void answer__row(struct answer *a, const char *json, size_t len);
/* Both at once. */
void answer__add(void *a, const char *json, size_t len);
/* Adds to the answer the members of a document, the length of each of its lists of objects, and the
 * elements of the list of this name as rows. Returns false if it is not JSON. */
bool answer__document(struct answer *a, struct out *json, const char *list);
/* Writes the table into the object that is open. is_text: whether the column has text that programs
 * chose. */
typedef bool (*answer_is_text)(void *ctx, const char *column, size_t len);
void answer__table(struct answer *a, answer_is_text is_text, void *ctx);

#endif /* MCP_ANSWER_H */
