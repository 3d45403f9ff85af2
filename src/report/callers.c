/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "callers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/stack.h"
#include "util/order.h"

void callers__free(struct callers *c)
{
	keys__free(&c->keys);
	memlimit_free(c->rows);
}

void callers__add(struct callers *c, const struct trace_event *ev, uint64_t ns)
{
	uint32_t i;

	if (!ev->stack)
		return;
	i = keys_row(&c->keys, pair_key((uintptr_t)ev->fn, (uintptr_t)ev->stack), MEMLIMIT_CALLERS,
		     c->rows, c->cap);
	if (i == KEYS_NONE)
		return;
	c->rows[i].fn = ev->fn;
	c->rows[i].stack = ev->stack;
	c->rows[i].cnt++;
	c->rows[i].total_ns += ns;
}

static int by_time(const void *a, const void *b)
{
	const struct caller *x = a, *y = b;

	return DESCENDING(x->total_ns, y->total_ns) ?: ASCENDING(x->stack->id, y->stack->id);
}

void callers__sort(struct callers *c)
{
	if (c->rows)
		qsort(c->rows, c->keys.cnt, sizeof(*c->rows), by_time);
}

#define SECTION_STATE struct callers
#define SECTION_ROWS  "report/callers.section"
#include "section_rows.h"

void stack_line(const struct stack *s, char *buf, size_t size)
{
	size_t n = 0;

	buf[0] = '\0';
	for (unsigned i = 0; i < s->frame_cnt && n < size; i++) {
		char name[256];
		const char *text = stack_frame_name(&s->frames[i], name, sizeof(name));
		const char *plus = strrchr(text, '+');

		n += snprintf(buf + n, size - n, "%s%.*s", i ? " < " : "",
			      s->frames[i].symbol && !s->frames[i].python && plus
				      ? (int)(plus - text)
				      : (int)strlen(text),
			      text);
	}
	if (n >= size && size > 4)
		strcpy(buf + size - 4, "...");
}
