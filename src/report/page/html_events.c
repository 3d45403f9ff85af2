/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Events for the page's timeline. A lane has one thread's calls, or its system calls into the
 * driver. Data common to many events (name, kernel; grid, stream, size) is stored once.
 */
#include "html_events.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "decode/nv/nv_decode.h"
#include "model/gpu.h"
#include "model/ranges.h"
#include "util/memlimit.h"

struct html_events *html_events__new(uint64_t base_ns, size_t max)
{
	struct html_events *h = calloc(1, sizeof(*h));

	if (!h)
		return NULL;
	h->base_ns = base_ns;
	h->max = max > 16 ? max : 16;
	h->step_ns = CELL_MIN;
	return h;
}

/* NULL: limit reached, or no memory. */
static void *row_new(struct memlimit_share *rows, uint64_t max, size_t size)
{
	void *row;

	if (!memlimit_charge(rows, 1, max, MEMLIMIT_PAGE))
		return NULL;
	row = memlimit_new(MEMLIMIT_PAGE, size);
	if (!row)
		memlimit_uncharge(rows, NULL, 1);
	return row;
}

/* There was no memory for the row's place in its table. */
static void row_undo(struct memlimit_share *rows, void *row)
{
	memlimit_reject(MEMLIMIT_PAGE);
	memlimit_uncharge(rows, row, 1);
	memlimit_free(row);
}

static struct lane *others(struct html_events *h)
{
	struct lane *l = &h->others;

	if (!*l->comm) {
		strcpy(l->comm, "(others)");
		l->idx = h->lane_cnt;
		h->lane_at[h->lane_cnt++] = l;
	}
	return l;
}

static struct lane *find_lane(struct html_events *h, const struct trace_event *ev)
{
	bool gpu = ev->kind == EVENT_GPU, range = event_is_range(ev);
	bool driver = ev->kind != EVENT_CALL && ev->kind != EVENT_PROCESS &&
		      ev->kind != EVENT_LIBRARY && ev->kind != EVENT_TRACER && !gpu && !range;
	struct lane_key key = {ev->pid,
			       gpu     ? gpu_row_tid(ev)
			       : range ? range_row_tid(ev)
				       : ev->tid,
			       driver};
	char row[GPU_ROW_NAME_SZ + RANGE_ROW_NAME_SZ];
	struct lane *l = lane_table__find(&h->lanes, &key);

	if (l)
		return l;
	l = row_new(&h->lane_rows, MEMLIMIT_PAGE_MAX, sizeof(*l));
	if (!l)
		return others(h);
	l->key = key;
	if (lane_table__add(&h->lanes, l)) {
		row_undo(&h->lane_rows, l);
		return others(h);
	}
	l->idx = h->lane_cnt;
	if (gpu)
		gpu_row_name(ev, row);
	if (range)
		range_row_name(ev, row);
	if (gpu || range || ev->comm)
		snprintf(l->comm, sizeof(l->comm), "%.*s", (int)sizeof(l->comm) - 1,
			 gpu || range ? row : ev->comm);
	h->lane_at[h->lane_cnt++] = l;
	return l;
}

static struct detail_row *find_what(struct html_events *h, const struct trace_event *ev)
{
	struct detail_row_key key = {0};
	struct detail_row *w;

	key.name = ev->name;
	key.kernel = ev->kind == EVENT_GPU		   ? ev->gpu.kernel
		     : ev->kind == EVENT_RANGE		   ? ev->range.text
		     : ev->has & (HAS_LAUNCH | HAS_KERNEL) ? ev->launch.kernel
							   : NULL;
	key.type = ev->type;
	key.kind = ev->kind;
	w = detail_row_table__find(&h->whats, &key);
	if (w)
		return w;
	w = row_new(&h->what_rows, WHATS, sizeof(*w));
	if (!w)
		return h->whats.first;
	w->key = key;
	if (detail_row_table__add(&h->whats, w)) {
		row_undo(&h->what_rows, w);
		return h->whats.first;
	}
	w->op = ev->op;
	w->idx = h->what_cnt++;
	return w;
}

/* Index of the event's details; 0: none. */
static unsigned find_detail(struct html_events *h, const struct trace_event *ev)
{
	static const struct detail_key none;
	struct detail_key key = {0};
	struct detail *d;

	key.has = ev->has & (HAS_SIZE | HAS_STREAM | HAS_DIR);
	key.size = ev->has & HAS_SIZE ? ev->size : 0;
	key.stream = ev->has & HAS_STREAM ? ev->stream : 0;
	key.dir = ev->has & HAS_DIR ? ev->dir : 0;
	if (ev->has & HAS_LAUNCH && ev->launch.has_config) {
		memcpy(key.grid, ev->launch.grid, sizeof(key.grid));
		memcpy(key.block, ev->launch.block, sizeof(key.block));
		key.shared_mem = ev->launch.shared_mem_sz;
		key.flags |= D_LAUNCH;
	}
	key.flags |= (ev->capturing ? D_CAPTURING : 0) | (ev->unfinished ? D_UNFINISHED : 0) |
		     (ev->abandoned ? D_ABANDONED : 0) | (ev->is_error ? D_ERROR : 0);
	key.result = ev->is_error ? ev->result : 0;
	if (ev->is_error && ev->fn)
		key.error = fn_result_name(ev->fn, ev->result);
	if (ev->kind == EVENT_DRIVER && ev->drv && ev->drv->ret < 0 && !ev->unfinished)
		key.result = (int32_t)ev->drv->ret;
	if (ev->kind == EVENT_DRIVER && ev->is_error && ev->drv && ev->drv->io)
		key.status = ev->drv->io->status_name;
	if (ev->kind == EVENT_CALL && ev->stack && ev->stack->frame_cnt &&
	    ev->stack->frames[ev->stack->frame_cnt - 1].python)
		key.stack = ev->stack;
	if (!memcmp(&key, &none, sizeof(key)))
		return 0;
	d = detail_table__find(&h->details, &key);
	if (d)
		return d->idx;
	d = row_new(&h->detail_rows, DETAILS, sizeof(*d));
	if (!d)
		return 0;
	d->key = key;
	if (detail_table__add(&h->details, d)) {
		row_undo(&h->detail_rows, d);
		return 0;
	}
	d->idx = ++h->detail_cnt;
	return d->idx;
}

static void add_cell(struct cell *to, const struct cell *c)
{
	to->cnt += c->cnt;
	to->busy_ns += c->busy_ns;
	if (c->longest_ns >= to->longest_ns && c->cnt) {
		to->longest_ns = c->longest_ns;
		to->type = c->type;
	}
}

static void widen_cells(struct html_events *h)
{
	static const struct cell none;

	h->step_ns *= 2;
	for (unsigned i = 0; i < h->lane_cnt; i++) {
		struct cell *cells = h->lane_at[i]->cells;

		for (unsigned c = 0; cells && c < CELLS; c++) {
			struct cell pair = none;

			if (c < CELLS / 2) {
				pair = cells[2 * c];
				add_cell(&pair, &cells[2 * c + 1]);
			}
			cells[c] = pair;
		}
	}
}

/* Charges the lane's process, whichever process exceeds the limit. */
static struct cell *cells_new(const struct html_events *h, const struct lane *l)
{
	size_t size = CELLS * sizeof(struct cell);
	struct cell *cells;
	uint32_t was;

	if (l == &h->others)
		return memlimit_new(MEMLIMIT_PAGE, size);
	was = memlimit_push_owner(l);
	cells = memlimit_new(MEMLIMIT_PAGE, size);
	memlimit_pop_owner(was);
	return cells;
}

/* Drops the event if there is no memory for the cells. */
static void merge(struct html_events *h, const struct hev *e, uint8_t type)
{
	struct lane *l = h->lane_at[e->lane];
	uint64_t at = e->start > 0 ? (uint64_t)e->start : 0;
	struct cell one = {.cnt = 1, .type = type, .busy_ns = e->dur, .longest_ns = e->dur};

	if (!l->cells)
		l->cells = cells_new(h, l);
	if (!l->cells)
		return;
	while (at / h->step_ns >= CELLS)
		widen_cells(h);
	add_cell(&l->cells[at / h->step_ns], &one);
	h->merged_cnt++;
}

/* Bin of a duration: 8 bins for each power of two. */
static unsigned dur_bin(uint64_t dur)
{
	unsigned log = dur < 8 ? 3 : 63 - (unsigned)__builtin_clzll(dur);

	return dur < 8 ? (unsigned)dur : (log - 2) * 8 + (unsigned)(dur >> (log - 3) & 7);
}

static uint64_t bin_end(unsigned bin)
{
	return bin < 8 ? bin + 1 : (uint64_t)(bin % 8 + 9) << (bin / 8 - 1);
}

static uint8_t type_of(const uint8_t *types, const struct hev *e)
{
	return types[e->what];
}

/* At the limit: converts at least a quarter, the shortest, to density. */
static int make_room(struct html_events *h)
{
	size_t bins[8 * 64] = {0}, sum = 0, kept = 0;
	uint8_t *types = malloc(h->what_cnt);
	unsigned bin = 0;

	if (!types)
		return -ENOMEM;
	hash_each (w, &h->whats)
		types[w->idx] = html_type(w->key.kind, w->key.type);
	for (size_t i = 0; i < h->cnt; i++)
		bins[dur_bin(h->evs[i].dur)]++;
	while ((sum += bins[bin]) < h->cnt / 4)
		bin++;
	h->below_ns = bin_end(bin);
	for (size_t i = 0; i < h->cnt; i++) {
		if (h->evs[i].dur < h->below_ns)
			merge(h, &h->evs[i], type_of(types, &h->evs[i]));
		else
			h->evs[kept++] = h->evs[i];
	}
	h->cnt = kept;
	free(types);
	return 0;
}

static int reserve(struct html_events *h)
{
	size_t cap = h->cap ? 2 * h->cap : 1 << 14;
	struct hev *evs;
	uint32_t was;

	if (h->cnt < h->cap)
		return 0;
	if (h->cnt >= h->max)
		return make_room(h);
	cap = cap < h->max ? cap : h->max;
	/* shared by all: no owner */
	was = memlimit_push_owner(NULL);
	evs = memlimit_resize(MEMLIMIT_PAGE, h->evs, cap * sizeof(*evs));
	memlimit_pop_owner(was);
	if (!evs && h->cap) {
		h->max = h->cap;
		return make_room(h);
	}
	if (!evs)
		return -ENOMEM;
	h->evs = evs;
	h->cap = cap;
	return 0;
}

static void count_refusal(struct html_events *h, const struct trace_event *ev)
{
	const struct driver_info *drv = ev->drv;
	struct refusal_key key = {0};
	struct refusal *r;

	if (ev->kind != EVENT_DRIVER || !ev->is_error || !drv || !drv->io)
		return;
	key.name = ev->name;
	key.device = drv->device;
	key.is_errno = drv->ret < 0;
	key.status = key.is_errno ? NULL : drv->io->status_name;
	key.number = key.is_errno  ? (uint64_t)-drv->ret
		     : !key.status ? drv->io->f[NV_R_STATUS].v
				   : 0;
	r = refusal_table__find(&h->refusals, &key);
	if (!r) {
		r = row_new(&h->refusal_rows, REFUSALS, sizeof(*r));
		if (!r)
			return;
		r->key = key;
		if (refusal_table__add(&h->refusals, r)) {
			row_undo(&h->refusal_rows, r);
			return;
		}
	}
	r->cnt++;
}

static int64_t clamp_start(const struct html_events *h, uint64_t ns)
{
	const int64_t most = ((int64_t)1 << 47) - 1;
	int64_t rel = (int64_t)(ns - h->base_ns);

	return rel > most ? most : rel < -most ? -most : rel;
}

void html_events__event(struct html_events *h, const struct trace_event *ev)
{
	const uint64_t dur_max = ((uint64_t)1 << 44) - 1;
	struct lane *l = find_lane(h, ev);
	struct detail_row *w = find_what(h, ev);
	uint64_t dur = event_duration_ns(ev);
	struct hev e;

	if (h->failed || !w) {
		h->failed = true;
		return;
	}
	count_refusal(h, ev);
	if (ev->kind == EVENT_CALL && ev->fn)
		callers__add(&h->callers, ev, event_returned(ev) ? dur : 0);
	e = (struct hev){
		.start = clamp_start(h, ev->start_ns),
		.dur = dur < dur_max ? dur : dur_max,
		.lane = l->idx,
		.what = w->idx,
		.id = ev->id <= UINT32_MAX ? (uint32_t)ev->id : 0,
	};
	h->failed = reserve(h) != 0; /* may raise below_ns */
	if (h->failed)
		return;
	if (e.dur < h->below_ns) {
		merge(h, &e, html_type(ev->kind, ev->type));
		return;
	}
	e.detail = find_detail(h, ev);
	h->evs[h->cnt++] = e;
}

void html_events__free(struct html_events *h)
{
	if (!h)
		return;
	while (lane_table__pop(&h->lanes))
		;
	for (unsigned i = 0; i < h->lane_cnt; i++) {
		memlimit_free(h->lane_at[i]->cells);
		if (h->lane_at[i] != &h->others)
			memlimit_free(h->lane_at[i]);
	}
	while (h->whats.first)
		memlimit_free(detail_row_table__pop(&h->whats));
	while (h->details.first)
		memlimit_free(detail_table__pop(&h->details));
	while (h->refusals.first)
		memlimit_free(refusal_table__pop(&h->refusals));
	callers__free(&h->callers);
	memlimit_share_free(&h->lane_rows);
	memlimit_share_free(&h->what_rows);
	memlimit_share_free(&h->detail_rows);
	memlimit_share_free(&h->refusal_rows);
	memlimit_free(h->evs);
	free(h);
}
