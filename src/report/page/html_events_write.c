/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Writes the collected events in the format of html/events.js. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "html_events.h"

#include "report/map/map.h"
#include "report/section.h"
#include "text/json.h"
#include "text/kernel_name.h"
#include "text/stack.h"
#include "util/order.h"

#define PYTHON_SHOWN 3 /* functions shown above a call */

/* By lane, then in nesting order: earlier start first, then longer duration. */
static int by_place(const void *a, const void *b)
{
	const struct hev *x = a, *y = b;

	return ASCENDING(x->lane, y->lane) ?: ASCENDING(x->start, y->start)
	       ?: DESCENDING(x->dur, y->dur);
}

static void put_varint(struct out *o, uint64_t x)
{
	char *p = out_reserve(o, 10);

	for (; x >= 0x80; x >>= 7, o->len++)
		*p++ = (char)(x | 0x80);
	*p = (char)x;
	o->len++;
}

static uint64_t zigzag(int64_t x)
{
	return ((uint64_t)x << 1) ^ (uint64_t)(x >> 63);
}

/* Five columns, each with all events: start (delta in the lane), duration, what, detail, id
 * (delta). */
static void put_columns(const struct html_events *h, struct out *o)
{
	const struct hev *e = h->evs;
	int64_t id = 0;

	for (size_t i = 0; i < h->cnt; i++) {
		bool first = !i || e[i - 1].lane != e[i].lane;

		put_varint(o, first ? zigzag(e[i].start)
				    : zigzag((int64_t)e[i].start - (int64_t)e[i - 1].start));
	}
	for (size_t i = 0; i < h->cnt; i++)
		put_varint(o, e[i].dur);
	for (size_t i = 0; i < h->cnt; i++)
		put_varint(o, e[i].what);
	for (size_t i = 0; i < h->cnt; i++)
		put_varint(o, e[i].detail);
	for (size_t i = 0; i < h->cnt; i++) {
		put_varint(o, zigzag((int64_t)e[i].id - id));
		id = e[i].id;
	}
}

static uint64_t cell_value(const struct lane *l, unsigned i)
{
	const struct cell *c = &l->cells[i / 4];

	return i % 4 == 0 ? i / 4 : i % 4 == 1 ? c->cnt : i % 4 == 2 ? c->busy_ns : c->type;
}

static const char *brief_kernel(char buf[SECTION_BUF], const char *kernel)
{
	size_t len;
	const char *brief = kernel_short_name(kernel, &len);

	snprintf(buf, SECTION_BUF, "%.*s", (int)len, brief);
	return buf;
}

/* The calling function number n, innermost first; NULL: there are no more. */
static const struct stack_frame *python_frame(const struct stack *s, unsigned n)
{
	for (unsigned i = 0; i < s->frame_cnt; i++)
		if (s->frames[i].python && !map_is_noise(&s->frames[i]) && !n--)
			return &s->frames[i];
	return NULL;
}

static const char *status_text(char buf[SECTION_BUF], const struct refusal_key *k)
{
	const char *name = k->is_errno ? strerrorname_np((int)k->number) : k->status;

	if (name)
		return name;
	snprintf(buf, SECTION_BUF, "0x%llx", (unsigned long long)k->number);
	return buf;
}

/* Row after the previous one of a list. */
#define NEXT(table) (prev ? ((const struct hash_link *)prev)->next : (table).first)

#define SECTION_STATE struct html_events
#define SECTION_ROWS  "report/page/html_events.section"
#include "report/section_rows.h"

int html_events__write(struct html_events *h, struct out *meta, struct out *columns)
{
	struct json j;

	if (h->failed)
		return -ENOMEM;
	if (h->cnt)
		qsort(h->evs, h->cnt, sizeof(*h->evs), by_place);
	for (size_t i = 0; i < h->cnt; i++)
		h->lane_at[h->evs[i].lane]->cnt++;
	callers__sort(&h->callers);
	json__init(&j, meta);
	section_json(NULL, &page_table, h, h, &j, NULL);
	put_columns(h, columns);
	return 0;
}
