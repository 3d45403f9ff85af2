/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "sorted.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "util/order.h"

#define BYTES_MAX (64u << 20)

struct sorted_row {
	double key;
	unsigned at; /* equal ones keep their order */
	size_t len;
	char *json; /* followed by PARSE_SLACK */
};

static double key_of(struct sorted *s, const struct sorted_row *row)
{
	struct json_value v;
	char text[32] = "";

	if (parser__line(s->parser, row->json, row->len, &v))
		return -INFINITY;
	for (unsigned i = 0; i < v.cnt; i++) {
		const struct member *m = &v.m[i];

		if (strlen(s->column) != m->name_len || memcmp(s->column, m->name, m->name_len) ||
		    m->val != VAL_NUMBER || m->len >= sizeof(text))
			continue;
		memcpy(text, m->text, m->len);
		return strtod(text, NULL);
	}
	return -INFINITY;
}

/* Returns the next row; NULL: out of memory. */
static struct sorted_row *new_row(struct sorted *s, size_t len)
{
	struct sorted_row *row;

	if (s->cnt == s->cap) {
		unsigned cap = s->cap ? 2 * s->cap : 64;
		void *grown = reallocarray(s->rows, cap, sizeof(*s->rows));

		if (!grown)
			return NULL;
		s->rows = grown;
		s->cap = cap;
	}
	row = &s->rows[s->cnt];
	row->json = calloc(1, len + PARSE_SLACK + 1);
	return row->json ? row : NULL;
}

void sorted__add(struct sorted *s, const char *json, size_t len)
{
	struct sorted_row *row;

	s->parser = s->parser ?: parser__new();
	s->bytes += len;
	if (s->bytes > BYTES_MAX)
		s->error = -E2BIG;
	if (s->error)
		return;
	row = s->parser ? new_row(s, len) : NULL;
	if (!row) {
		s->error = -ENOMEM;
		return;
	}
	memcpy(row->json, json, len);
	row->len = len;
	row->at = s->cnt++;
	row->key = key_of(s, row);
}

static int by_key(const void *x, const void *y)
{
	const struct sorted_row *a = x, *b = y;

	return DESCENDING(a->key, b->key) ?: ASCENDING(a->at, b->at);
}

int sorted__put(struct sorted *s, struct answer *a)
{
	if (s->error == -E2BIG)
		answer__fail(a, "order: the table has more than 64 MiB; leave out order, or choose "
				"rows by contains");
	if (s->error)
		return s->error;
	if (s->cnt)
		qsort(s->rows, s->cnt, sizeof(*s->rows), by_key);
	for (unsigned i = 0; i < s->cnt; i++)
		answer__add(a, s->rows[i].json, s->rows[i].len);
	return 0;
}

void sorted__free(struct sorted *s)
{
	for (unsigned i = 0; i < s->cnt; i++)
		free(s->rows[i].json);
	free(s->rows);
	parser__free(s->parser);
}
