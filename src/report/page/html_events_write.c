/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Writes the collected events in the format of html/events.js. */
#include <errno.h>
#include <stdlib.h>

#include "html_events.h"

#include "report/map/map.h"
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

static void put_cells(const struct html_events *h, const struct lane *l, struct json *j)
{
	json_open_array(j, "cells"); /* step, events, busy ns, type; repeated */
	for (unsigned i = 0; l->cells && i < CELLS; i++) {
		if (!l->cells[i].cnt)
			continue;
		json_u64(j, NULL, i);
		json_u64(j, NULL, l->cells[i].cnt);
		json_u64(j, NULL, l->cells[i].busy_ns);
		json_u64(j, NULL, l->cells[i].type);
	}
	json_close_array(j);
}

static void put_lanes(struct html_events *h, struct json *j)
{
	for (size_t i = 0; i < h->cnt; i++)
		h->lane_at[h->evs[i].lane]->cnt++;
	json_open_array(j, "lanes");
	for (unsigned i = 0; i < h->lane_cnt; i++) {
		const struct lane *l = h->lane_at[i];

		json_open(j, NULL);
		json_u64(j, "pid", l->key.pid);
		json_u64(j, "tid", l->key.tid);
		json_text(j, "comm", l->comm, strlen(l->comm));
		json_bool(j, "driver", l->key.driver);
		json_u64(j, "events", l->cnt);
		if (l->cells)
			put_cells(h, l, j);
		json_close(j);
	}
	json_close_array(j);
}

static void put_whats(const struct html_events *h, struct json *j)
{
	json_open_array(j, "whats"); /* in the order of their numbers */
	hash_each (w, &h->whats) {
		json_open(j, NULL);
		json_str(j, "type", html_type_name(html_type(w->key.kind, w->key.type)));
		json_str(j, "name", w->key.name ? w->key.name : "?");
		if (w->op)
			json_str(j, "op", w->op);
		if (w->key.kernel) {
			size_t len;
			const char *brief = kernel_short_name(w->key.kernel, &len);

			json_text(j, "short", brief, len);
			json_str(j, "kernel", w->key.kernel);
		}
		json_close(j);
	}
	json_close_array(j);
}

static void put_dim(struct json *j, const char *name, const uint32_t dim[3])
{
	json_open_array(j, name);
	for (unsigned i = 0; i < 3; i++)
		json_u64(j, NULL, dim[i]);
	json_close_array(j);
}

/* The calling functions, innermost first. */
static void put_python(struct json *j, const struct stack *s)
{
	char buf[256];

	json_open_array(j, "python");
	for (unsigned i = 0, n = 0; s && i < s->frame_cnt && n < PYTHON_SHOWN; i++) {
		const struct stack_frame *f = &s->frames[i];

		if (!f->python || map_is_noise(f))
			continue;
		json_str(j, NULL, stack_frame_name(f, buf, sizeof(buf)));
		n++;
	}
	json_close_array(j);
}

static void put_details(const struct html_events *h, struct json *j)
{
	json_open_array(j, "details"); /* numbered from 1 */
	hash_each (d, &h->details) {
		const struct detail_key *k = &d->key;

		json_open(j, NULL);
		if (k->flags & D_LAUNCH) {
			put_dim(j, "grid", k->grid);
			put_dim(j, "block", k->block);
			json_u64(j, "shared_mem", k->shared_mem);
		}
		if (k->has & HAS_SIZE)
			json_u64(j, "size", k->size);
		if (k->has & HAS_DIR && copy_dir_name(k->dir))
			json_str(j, "direction", copy_dir_name(k->dir));
		if (k->has & HAS_STREAM)
			json_hex(j, "stream", k->stream);
		if (k->flags & D_ERROR || k->result < 0) {
			json_i64(j, "result", k->result);
			if (k->error)
				json_str(j, "error", k->error);
		}
		if (k->stack)
			put_python(j, k->stack);
		if (k->status)
			json_str(j, "status", k->status);
		if (k->flags & D_CAPTURING)
			json_bool(j, "capturing", true);
		if (k->flags & D_UNFINISHED)
			json_bool(j, "unfinished", true);
		if (k->flags & D_ABANDONED)
			json_bool(j, "abandoned", true);
		json_close(j);
	}
	json_close_array(j);
}

static void put_refusals(const struct html_events *h, struct json *j)
{
	json_open_array(j, "refused");
	hash_each (r, &h->refusals) {
		const struct refusal_key *k = &r->key;
		const char *name = k->is_errno ? strerrorname_np((int)k->number) : k->status;

		json_open(j, NULL);
		json_str(j, "name", k->name);
		json_str(j, "device", k->device);
		if (name)
			json_str(j, "status", name);
		else
			json_hex(j, "status", k->number);
		json_u64(j, "count", r->cnt);
		json_close(j);
	}
	json_close_array(j);
}

int html_events__write(struct html_events *h, struct out *meta, struct out *columns)
{
	struct json j;

	if (h->failed)
		return -ENOMEM;
	if (h->cnt)
		qsort(h->evs, h->cnt, sizeof(*h->evs), by_place);
	json__init(&j, meta);
	json_open(&j, NULL);
	json_u64(&j, "events", h->cnt);
	json_u64(&j, "merged", h->merged_cnt);
	json_u64(&j, "below_ns", h->below_ns);
	json_u64(&j, "step_ns", h->step_ns);
	json_open_array(&j, "types");
	for (unsigned i = 0; i <= HTML_TYPE_DRIVER; i++)
		json_str(&j, NULL, html_type_name((uint8_t)i));
	json_close_array(&j);
	put_lanes(h, &j);
	put_whats(h, &j);
	put_details(h, &j);
	put_refusals(h, &j);
	callers__sort(&h->callers);
	callers__json(&h->callers, &j, CALLERS);
	json_close(&j);
	put_columns(h, columns);
	return 0;
}
