/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Rows of an answer in the order of a column. */
#ifndef MCP_SORTED_H
#define MCP_SORTED_H

#include "answer.h"

struct sorted_row;

/* Zeroed but for the column is empty. */
struct sorted {
	const char *column;
	struct sorted_row *rows;
	unsigned cnt, cap;
	size_t bytes;
	int error; /* -ENOMEM, or -E2BIG */
	struct parser *parser;
};

void sorted__add(struct sorted *s, const char *json, size_t len);
/* Adds the rows to the answer, the largest number first; rows without one are last. Returns 0,
 * -ENOMEM, or another -errno after answer__fail(). */
int sorted__put(struct sorted *s, struct answer *a);
void sorted__free(struct sorted *s);

#endif /* MCP_SORTED_H */
