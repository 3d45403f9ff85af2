/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Copies, memsets and prefetches: how much, how fast, from what kind of host memory. */
#include "transfers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/collect.h"
#include "model/event_path.h"
#include "report/memory/memory.h"

#define DIR_CNT	     (COPY_DIR_PEER + 1)
#define SMALL	     65536
#define SIZE_CLASSES 64
#define LARGEST_MAX  100
#define BATCH_MAX    128 /* maximum in a record */

/* Sums for one direction, or for memsets or prefetches. */
struct sum {
	uint64_t cnt, bytes, ns;
	uint64_t async_cnt, sync_cnt;
	uint64_t place[HOST_PLACE_CNT]; /* copies with a side on the host */
	uint64_t sized_cnt, small_cnt;
	uint64_t done_bytes, done_ns; /* only calls that returned after the copy was done */
	double max_gbps;
	struct size_class {
		uint64_t cnt, bytes;
	} sizes[SIZE_CLASSES + 1];
};

struct large_transfer {
	uint64_t start_ns, id, size, ns;
	enum copy_dir dir;
	enum host_place place;
	bool has_host;
	double gbps;
};

struct transfers {
	const struct report *r;
	struct sum dirs[DIR_CNT], memset, prefetch;
	uint64_t pageable_cnt, pageable_bytes, pageable_ns;
	struct keys pageable_threads;
	struct spread pageable;
	uint64_t batch_cnt, batch_copies;
	struct large_transfer largest[LARGEST_MAX]; /* largest first */
	unsigned large_cnt, large_max;
};

/* Argument names of the host side of a copy: source, destination. */
static const struct {
	uint8_t op;
	const char *side[2];
} sides[] = {
	{OP_COPY, {"src", "dst"}},
	{OP_COPY_HTOD, {"srcHost", NULL}},
	{OP_COPY_HTOA, {"srcHost", NULL}},
	{OP_COPY_DTOH, {NULL, "dstHost"}},
	{OP_COPY_ATOH, {NULL, "dstHost"}},
	{OP_COPY_2D, {"pCopy.srcHost", "pCopy.dstHost"}},
	{OP_COPY_3D, {"pCopy.srcHost", "pCopy.dstHost"}},
	{OP_COPY_BATCH, {"srcs", "dsts"}},
};

static enum host_place place_of_side(const struct transfers *t, const struct trace_event *ev,
				     const char *name)
{
	enum host_place place, all = HOST_PLACE_CNT;
	uint64_t addr[BATCH_MAX];
	unsigned cnt = 0;

	if (!name)
		return HOST_UNKNOWN;
	if (ev->fn->op == OP_COPY_BATCH)
		cnt = event_array_u64(ev, name, addr, BATCH_MAX);
	else if (strchr(name, '.'))
		cnt = event_path_u64(ev, name, addr);
	else
		cnt = event_arg_u64(ev, name, addr);
	for (unsigned i = 0; i < cnt; i++) {
		place = memory_host_place(t->r, ev->pid, addr[i]);
		if (all != HOST_PLACE_CNT && all != place)
			return HOST_UNKNOWN;
		all = place;
	}
	return all == HOST_PLACE_CNT ? HOST_UNKNOWN : all;
}

/* With both sides on the host, the slower kind counts. */
static enum host_place place_of(const struct transfers *t, const struct trace_event *ev)
{
	enum host_place src = HOST_PLACE_CNT, dst = HOST_PLACE_CNT;
	unsigned i;

	for (i = 0; i < sizeof(sides) / sizeof(sides[0]); i++)
		if (sides[i].op == ev->fn->op)
			break;
	if (i == sizeof(sides) / sizeof(sides[0]))
		return HOST_UNKNOWN;
	if (ev->dir != COPY_DIR_DTOH)
		src = place_of_side(t, ev, sides[i].side[0]);
	if (ev->dir != COPY_DIR_HTOD)
		dst = place_of_side(t, ev, sides[i].side[1]);
	return src < dst ? src : dst;
}

bool transfer_is_pageable(const struct report *r, const struct trace_event *ev)
{
	return r->an[AN_TRANSFERS] && place_of(r->an[AN_TRANSFERS], ev) == HOST_PAGEABLE;
}

/* Duration of the copy itself; false: not known. The host's time is used, from start to return, if
 * the call returned when the copy was done. Times measured on the GPU would go here. */
static bool copy_ns(const struct trace_event *ev, uint64_t *ns)
{
	*ns = event_duration_ns(ev);
	return ev->has & HAS_BANDWIDTH;
}

static void count(struct sum *s, const struct trace_event *ev)
{
	uint64_t size = ev->has & HAS_SIZE ? ev->size : 0;
	unsigned below = size ? 64 - __builtin_clzll(size) : 0;
	uint64_t ns;

	s->cnt++;
	s->bytes += size;
	s->ns += event_duration_ns(ev);
	if (ev->fn->is_async)
		s->async_cnt++;
	else
		s->sync_cnt++;
	if (!(ev->has & HAS_SIZE))
		return;
	s->sized_cnt++;
	s->small_cnt += size < SMALL;
	s->sizes[below].cnt++;
	s->sizes[below].bytes += size;
	if (!copy_ns(ev, &ns))
		return;
	s->done_bytes += size;
	s->done_ns += ns;
	if (ev->bandwidth_gbps > s->max_gbps)
		s->max_gbps = ev->bandwidth_gbps;
}

static bool precedes(const struct trace_event *ev, const struct large_transfer *row)
{
	return call_precedes(ev, ev->size, row->size, row->start_ns, row->id);
}

static void list_large(struct transfers *t, const struct trace_event *ev,
		       const struct large_transfer *l)
{
	unsigned i = t->large_cnt;

	if (!t->large_max || (i == t->large_max && !precedes(ev, &t->largest[i - 1])))
		return;
	if (i == t->large_max)
		i--;
	else
		t->large_cnt++;
	for (; i && precedes(ev, &t->largest[i - 1]); i--)
		t->largest[i] = t->largest[i - 1];
	t->largest[i] = *l;
}

static void on_copy(struct transfers *t, const struct trace_event *ev)
{
	struct large_transfer l = {.start_ns = ev->start_ns,
				   .id = ev->id,
				   .size = ev->size,
				   .ns = event_duration_ns(ev),
				   .dir = ev->has & HAS_DIR ? ev->dir : COPY_NONE,
				   .gbps = ev->has & HAS_BANDWIDTH ? ev->bandwidth_gbps : 0};
	struct sum *s = &t->dirs[l.dir];
	uint64_t copies;

	count(s, ev);
	if (ev->fn->op == OP_COPY_BATCH) {
		t->batch_cnt++;
		if (event_arg_u64(ev, "count", &copies) || event_arg_u64(ev, "numOps", &copies))
			t->batch_copies += copies;
	}
	l.has_host = l.dir == COPY_DIR_HTOD || l.dir == COPY_DIR_DTOH || l.dir == COPY_DIR_HTOH;
	if (l.has_host) {
		l.place = place_of(t, ev);
		s->place[l.place]++;
	}
	if (l.has_host && l.place == HOST_PAGEABLE) {
		t->pageable_cnt++;
		t->pageable_bytes += ev->has & HAS_SIZE ? ev->size : 0;
		t->pageable_ns += l.ns;
		spread__add(&t->pageable, ev->start_ns, l.ns);
		keys_get(&t->pageable_threads, thread_key(ev->pid, ev->tid), MEMLIMIT_THREADS_MAX,
			 MEMLIMIT_THREADS);
	}
	if (ev->has & HAS_SIZE)
		list_large(t, ev, &l);
}

static void transfers__event(void *a, const struct trace_event *ev)
{
	struct transfers *t = a;

	if (ev->kind != EVENT_CALL || ev->type != TYPE_TRANSFER || !ev->fn || ev->result ||
	    ev->unfinished || ev->abandoned || ev->capturing)
		return;
	if (ev->fn->op == OP_MEMSET)
		count(&t->memset, ev);
	else if (ev->fn->op == OP_PREFETCH)
		count(&t->prefetch, ev);
	else if (ev->fn->op != OP_DECOMPRESS)
		on_copy(t, ev);
}

static const char *dir_name(unsigned dir)
{
	return dir == COPY_NONE ? "unknown" : copy_dir_name(dir);
}

/* In display order: directions, copies without one, then the rest. */
static const struct sum *sum_at(const struct transfers *t, unsigned i)
{
	const struct sum *others[] = {&t->memset, &t->prefetch, NULL};

	return i < DIR_CNT ? &t->dirs[(i + 1) % DIR_CNT] : others[i - DIR_CNT];
}

static const char *sum_name(const struct transfers *t, const struct sum *x)
{
	return x == &t->memset ? "memset" : x == &t->prefetch ? "prefetch" : dir_name(x - t->dirs);
}

#define SECTION_STATE struct transfers
#define SECTION_ROWS  "report/gpu/transfers.section"
#include "report/section_rows.h"

static bool has_any(const struct transfers *t)
{
	const struct sum *x;

	for (unsigned i = 0; (x = sum_at(t, i)); i++)
		if (x->cnt)
			return true;
	return false;
}

static bool has_bandwidth(const struct transfers *t)
{
	uint64_t ns = t->memset.done_ns + t->prefetch.done_ns;

	for (unsigned i = 0; i < DIR_CNT; i++)
		ns += t->dirs[i].done_ns;
	return ns;
}

static void transfers__print(const void *a, const struct term *term)
{
	char text[256];
	const struct transfers *t = a;

	if (!has_any(t))
		return;
	term_heading(term, "Transfers");
	section_print(t->r, &transfers_table, t, t, "all", TABLE_ROWS, term);
	if (has_bandwidth(t))
		term_para(
			term,
			"Bandwidth: of transfers that were complete when the call returned, by host time in the call.");
	if (!t->pageable_cnt)
		return;
	snprintf(text, sizeof(text), "Pageable host memory: %s cop%s, %s in total, %s of host time",
		 HUMAN_COUNT(t->pageable_cnt), t->pageable_cnt == 1 ? "y" : "ies",
		 HUMAN_BYTES(t->pageable_bytes), HUMAN_RATE(t->pageable_bytes, t->pageable_ns));
	term_para(term, "%s", text);
}

static void *transfers__new(struct report *r)
{
	struct transfers *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->r = r;
	t->large_max = r->opts.top < LARGEST_MAX ? r->opts.top : LARGEST_MAX;
	return t;
}

void transfers_result(const struct report *r, struct transfers_result *res)
{
	const struct transfers *t = r->an[AN_TRANSFERS];

	*res = (struct transfers_result){0};
	if (t)
		*res = (struct transfers_result){t->pageable_cnt, t->pageable_bytes, t->pageable_ns,
						 t->pageable_threads.cnt, &t->pageable};
}

static void transfers__free(void *a)
{
	struct transfers *t = a;

	keys__free(&t->pageable_threads);
	free(t);
}

const struct analysis_ops transfers_ops = {
	.name = "transfers",
	.new = transfers__new,
	.event = transfers__event,
	.section = &transfers_table,
	.print = transfers__print,
	.free = transfers__free,
	.of_args = true,
	.needs = "transfer",
};
