/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * An execution belongs to the place of the call that requested it: the latest RECENT_MAX calls that
 * submit work have theirs. The stage and the iteration of a row are known only at the end of the
 * trace. Rows are kept by slice of time, and slices grow when there are too many rows; at the end,
 * each slice gets the stage of its middle and the iteration of its end: the last call of an
 * iteration waits, so what begins in a slice with the end of one belongs to the next.
 */
#include "profile.h"

#include <stdlib.h>
#include <string.h>

#include "model/call.h"
#include "report/collect.h"
#include "report/iter/iter.h"
#include "util/hash_table.h"
#include "util/memlimit.h"
#include "util/order.h"

#define FIRST_SLICE_NS 25000
/* Iterations are labels if they are at most so many, and as long as so many slices. */
#define ITERATIONS_MAX	 1000
#define ITERATION_SLICES 8
/* With more rows, slices get longer. */
#define SUMS_MAX (MEMLIMIT_PROFILE_MAX / 4)

struct place {
	struct hash_link link;
	struct profile_place at;
	const char *comm;
};
HASH_TABLE(place, at);

struct psum_key {
	const struct place *place;
	const char *leaf;
	uint64_t device;
	uint64_t slice;
};

struct psum {
	struct hash_link link;
	struct psum_key key;
	uint64_t v[PROFILE_VALUE_CNT];
};
HASH_TABLE(psum, key);

/* The place of a recent call. */
struct caller_place {
	uint64_t key;
	const struct place *place;
};

struct profile {
	struct memlimit_share place_rows, sum_rows;
	struct place_table places;
	struct psum_table sums;
	uint64_t slice_ns;
	uint64_t rest[PROFILE_VALUE_CNT];
	struct profile_row *rows;
	struct caller_place recent[RECENT_MAX];
};

struct profile *profile__new(void)
{
	struct profile *p = calloc(1, sizeof(*p));

	if (p)
		p->slice_ns = FIRST_SLICE_NS;
	return p;
}

static void sum_free(struct profile *p, struct psum *s)
{
	memlimit_uncharge(&p->sum_rows, s, 1);
	memlimit_free(s);
}

void profile__free(struct profile *p)
{
	if (!p)
		return;
	while (p->sums.first)
		sum_free(p, psum_table__pop(&p->sums));
	while (p->places.first) {
		struct place *place = place_table__pop(&p->places);

		memlimit_uncharge(&p->place_rows, place, 1);
		memlimit_free(place);
	}
	memlimit_share_free(&p->sum_rows);
	memlimit_share_free(&p->place_rows);
	free(p->rows);
	free(p);
}

/* A row of `size` bytes that is charged to the current owner. NULL: limit reached, or no memory. */
static void *row_new(struct memlimit_share *share, size_t size)
{
	void *row;

	if (!memlimit_charge(share, 1, MEMLIMIT_PROFILE_MAX, MEMLIMIT_PROFILE))
		return NULL;
	row = memlimit_new(MEMLIMIT_PROFILE, size);
	if (!row)
		memlimit_uncharge(share, NULL, 1);
	return row;
}

static const struct place *place_get(struct profile *p, const struct profile_place *at,
				     const char *comm)
{
	struct place *place = place_table__find(&p->places, at);

	if (place)
		return place;
	place = row_new(&p->place_rows, sizeof(*place));
	if (!place)
		return NULL;
	place->at = *at;
	place->comm = comm;
	if (!place_table__add(&p->places, place))
		return place;
	memlimit_reject(MEMLIMIT_PROFILE);
	memlimit_uncharge(&p->place_rows, place, 1);
	memlimit_free(place);
	return NULL;
}

static void values_add(uint64_t to[PROFILE_VALUE_CNT], const uint64_t v[PROFILE_VALUE_CNT])
{
	for (unsigned i = 0; i < PROFILE_VALUE_CNT; i++)
		to[i] += v[i];
}

/* Doubles the length of slices by merging pairs. */
static void coarsen(struct profile *p)
{
	struct psum_table table = {0};
	struct psum *s, *both;

	p->slice_ns *= 2;
	while ((s = psum_table__pop(&p->sums))) {
		s->key.slice /= 2;
		both = psum_table__find(&table, &s->key);
		if (!both && !psum_table__add(&table, s))
			continue;
		if (!both)
			memlimit_reject(MEMLIMIT_PROFILE);
		values_add(both ? both->v : p->rest, s->v);
		sum_free(p, s);
	}
	p->sums = table;
}

static struct psum *sum_get(struct profile *p, const struct psum_key *key)
{
	struct psum *s = psum_table__find(&p->sums, key);

	if (s)
		return s;
	s = row_new(&p->sum_rows, sizeof(*s));
	if (!s)
		return NULL;
	s->key = *key;
	if (!psum_table__add(&p->sums, s))
		return s;
	memlimit_reject(MEMLIMIT_PROFILE);
	sum_free(p, s);
	return NULL;
}

static void add(struct profile *p, const struct report *r, struct psum_key key, uint64_t ns,
		const uint64_t v[PROFILE_VALUE_CNT])
{
	uint64_t at = ns > r->base_ns ? ns - r->base_ns : 0;
	struct psum *s;

	key.slice = at / p->slice_ns;
	s = key.place ? sum_get(p, &key) : NULL;
	values_add(s ? s->v : p->rest, v);
	while (hash_cnt(&p->sums) > SUMS_MAX && key.slice) {
		coarsen(p);
		key.slice /= 2;
	}
}

static struct caller_place *caller_of(struct profile *p, uint32_t pid, uint64_t id, bool is_new)
{
	uint64_t key = pair_key(id, pid) ?: 1;

	if (!id)
		return NULL;
	return is_new ? recent_get(p->recent, sizeof(*p->recent), key)
		      : recent_find(p->recent, sizeof(*p->recent), key);
}

/* Reserved addresses and memory of other processes are no allocations. */
static uint64_t allocated(const struct trace_event *ev)
{
	enum block_kind kind = ev->made ? ev->made - 1u : op_desc[ev->fn->op].block;

	if (ev->type != TYPE_MEMORY || !(ev->has & HAS_SIZE) || ev->result || ev->capturing ||
	    !call_was_made(ev) || !call_is_top(ev) || op_desc[ev->fn->op].makes != 1)
		return 0;
	return kind == BLOCK_RESERVED || kind == BLOCK_IPC ? 0 : ev->size;
}

void profile_call_values(const struct trace_event *ev, uint64_t v[PROFILE_VALUE_CNT])
{
	memset(v, 0, PROFILE_VALUE_CNT * sizeof(*v));
	v[PROFILE_CALLS] = 1;
	if (call_took_time(ev) && call_is_top(ev)) {
		v[PROFILE_HOST_NS] = event_duration_ns(ev);
		if (!call_launches_any(ev) && call_blocks(ev))
			v[PROFILE_WAIT_NS] = v[PROFILE_HOST_NS];
	}
	v[PROFILE_LAUNCHES] = call_was_made(ev) && call_launches(ev);
	v[PROFILE_GRAPH_LAUNCHES] = call_was_made(ev) && call_launches_graph(ev);
	v[PROFILE_ALLOC_BYTES] = allocated(ev);
}

static void on_call(struct profile *p, const struct report *r, const struct trace_event *ev)
{
	uint64_t v[PROFILE_VALUE_CNT];
	struct caller_place *caller;
	struct profile_place at;
	struct psum_key key = {0};

	memset(&at, 0, sizeof(at)); /* no padding in a key */
	at.function = ev->fn->name;
	at.operator= ev->operator;
	at.stack = ev->stack;
	at.stream = ev->has & HAS_STREAM ? 1 + call_stream(ev, ev->stream) : 0;
	at.pid = ev->pid;
	at.tid = ev->tid;
	key.place = place_get(p, &at, ev->comm);
	if (call_does(ev, DOES_LAUNCH))
		key.leaf = ev->launch.kernel;
	profile_call_values(ev, v);
	add(p, r, key, ev->start_ns, v);
	caller = call_submits(ev) || call_launches_any(ev) ? caller_of(p, ev->pid, ev->id, true)
							   : NULL;
	if (caller)
		caller->place = key.place;
}

const char *profile_executed(const struct trace_event *ev)
{
	static const char *const copies[] = {
		[COPY_NONE] = "[copy]",		 [COPY_DIR_HTOD] = "[copy HtoD]",
		[COPY_DIR_DTOH] = "[copy DtoH]", [COPY_DIR_DTOD] = "[copy DtoD]",
		[COPY_DIR_HTOH] = "[copy HtoH]", [COPY_DIR_PEER] = "[copy peer]",
	};
	unsigned dir = ev->has & HAS_DIR ? ev->dir : COPY_NONE;

	switch (ev->op[0]) {
	case 'k':
		return ev->gpu.kernel ?: "[kernel without a name]";
	case 'c':
		return dir < sizeof(copies) / sizeof(copies[0]) && copies[dir] ? copies[dir]
									       : "[copy]";
	case 'm':
		return "[memset]";
	default:
		return "[graph]";
	}
}

static void on_execution(struct profile *p, const struct report *r, const struct trace_event *ev)
{
	const uint64_t v[PROFILE_VALUE_CNT] = {
		[PROFILE_GPU_NS] = event_duration_ns(ev),
		[PROFILE_EXECUTIONS] = 1,
	};
	const struct caller_place *caller = caller_of(p, ev->pid, ev->gpu.call_id, false);
	struct psum_key key = {.leaf = profile_executed(ev),
			       .device = 1 + (uint64_t)ev->gpu.device};
	struct profile_place at;

	memset(&at, 0, sizeof(at));
	at.function = ev->gpu.call ?: PROFILE_NO_CALL;
	at.pid = ev->pid;
	at.tid = ev->tid;
	key.place = caller ? caller->place : place_get(p, &at, ev->comm);
	add(p, r, key, ev->start_ns, v);
}

void profile__event(struct profile *p, const struct report *r, const struct trace_event *ev)
{
	if (ev->kind == EVENT_CALL && ev->fn)
		on_call(p, r, ev);
	else if (ev->kind == EVENT_GPU)
		on_execution(p, r, ev);
}

static int by_text(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) : !!a - !!b;
}

static int by_place(const void *a, const void *b)
{
	const struct profile_row *x = a, *y = b;
	uint64_t of_x = x->at.stack ? x->at.stack->id : 0, of_y = y->at.stack ? y->at.stack->id : 0;

	return ASCENDING(x->at.pid, y->at.pid)
		       ?: ASCENDING(x->at.tid, y->at.tid)
		       ?: ASCENDING(of_x, of_y)
		       ?: by_text(x->at.operator, y->at.operator)
		       ?: by_text(x->at.function, y->at.function)
		       ?: ASCENDING(x->at.stream, y->at.stream)
		       ?: by_text(x->leaf, y->leaf)
		       ?: ASCENDING(x->device, y->device)
		       ?: ASCENDING(x->stage, y->stage)
		       ?: ASCENDING(x->iteration, y->iteration);
}

static unsigned merge_equal(struct profile_row *rows, unsigned cnt)
{
	unsigned n = 0;

	for (unsigned i = 0; i < cnt; i++) {
		if (n && !by_place(&rows[n - 1], &rows[i]))
			values_add(rows[n - 1].v, rows[i].v);
		else
			rows[n++] = rows[i];
	}
	return n;
}

/* The process whose rows have iterations. 0: none. */
static uint32_t iterations_of(const struct profile *p, const struct report *r)
{
	struct iter_result iter;

	iter_result(r, &iter);
	if (r->args_redacted || iter.count > ITERATIONS_MAX ||
	    iter.dist[ITS_TIME].median < ITERATION_SLICES * p->slice_ns)
		return 0;
	return iter.count ? iter.pid : 0;
}

const struct profile_row *profile__rows(struct profile *p, const struct report *r, unsigned *cnt,
					uint64_t rest[PROFILE_VALUE_CNT])
{
	uint32_t repeats = iterations_of(p, r);
	unsigned n = 0;

	free(p->rows);
	p->rows = calloc(hash_cnt(&p->sums) + 1, sizeof(*p->rows));
	*cnt = 0;
	if (!p->rows)
		return NULL;
	hash_each (s, &p->sums) {
		uint64_t begin = r->base_ns + s->key.slice * p->slice_ns;
		uint64_t end = begin + p->slice_ns - 1;

		p->rows[n] = (struct profile_row){
			.at = s->key.place->at,
			.comm = s->key.place->comm,
			.leaf = s->key.leaf,
			.device = s->key.device,
			.stage = r->args_redacted ? STAGE_OTHER
						  : stage_of_moment(r, begin + p->slice_ns / 2),
			.iteration = s->key.place->at.pid == repeats ? iter_number_at(r, end) : 0,
		};
		memcpy(p->rows[n++].v, s->v, sizeof(s->v));
	}
	qsort(p->rows, n, sizeof(*p->rows), by_place);
	*cnt = merge_equal(p->rows, n);
	memcpy(rest, p->rest, sizeof(p->rest));
	return p->rows;
}
