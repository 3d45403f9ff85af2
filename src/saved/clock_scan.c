/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "clock_scan.h"

#include <stdlib.h>
#include <string.h>

#include "clock_waits.h"
#include "model/call.h"
#include "util/hash_table.h"

/* The latest launches and collectives, by process and id. A later one may replace an earlier one,
 * whose GPU time is then not used. */
#define JOINS (1u << 14)

struct join {
	uint64_t key, value;
};

struct scan_file {
	uint32_t unit;
	unsigned first; /* its first row */
	bool gpu_time;
	struct clock_waits waits;
	struct join launches[JOINS]; /* to the enclosing call */
	struct join calls[JOINS];    /* to the row */
	struct join groups[JOINS];   /* by the call that begins it: to the only row, or ROW_NONE */
};
#define ROW_NONE UINT32_MAX
/* GPU times that are less exact are not used. */
#define GPU_ERROR_MAX_NS 1000000000ull

static uint64_t key_of(const struct trace_event *ev, uint64_t id)
{
	return (uint64_t)ev->pid << 48 ^ id;
}

static struct join *slot_of(struct join *joins, uint64_t key)
{
	return &joins[hash_word(key) % JOINS];
}

static void put(struct join *joins, uint64_t key, uint64_t value)
{
	*slot_of(joins, key) = (struct join){key, value};
}

static const struct join *get(struct join *joins, uint64_t key)
{
	const struct join *j = slot_of(joins, key);

	return key && j->key == key ? j : NULL;
}

/* The same for all ranks, and in all processes: no secret seed. */
static bool is_kept(const struct clock_scan *s, uint64_t comm, uint64_t seq)
{
	uint64_t hash = hash_mix(comm ^ 0x9e3779b97f4a7c15, seq * 0xd6e8feb86659fd93 + 1);

	return !(hash & ((1ull << s->skipped) - 1));
}

/* Removes half of the rows. */
static void thin_out(struct clock_scan *s)
{
	unsigned cnt = 0, first = 0;

	s->skipped++;
	for (unsigned i = 0; i < s->cnt; i++) {
		first = i == s->file->first ? cnt : first;
		if (is_kept(s, s->seen[i].comm, s->seen[i].seq))
			s->seen[cnt++] = s->seen[i];
	}
	s->file->first = s->file->first < s->cnt ? first : cnt;
	s->cnt = cnt;
	/* Their rows have moved. */
	memset(s->file->calls, 0, sizeof(s->file->calls));
	memset(s->file->groups, 0, sizeof(s->file->groups));
	clock_waits__forget(&s->file->waits);
}

static bool make_room(struct clock_scan *s)
{
	unsigned cap = s->cap ? 2 * s->cap : 1024;
	struct clock_seen *grown;

	if (s->cnt < s->cap)
		return true;
	while (s->cnt >= CLOCK_SEEN_MAX && s->skipped < 63)
		thin_out(s);
	if (s->cnt < s->cap)
		return true;
	grown = cap > CLOCK_SEEN_MAX ? NULL : realloc(s->seen, cap * sizeof(*grown));
	if (!grown)
		return false;
	s->seen = grown;
	s->cap = cap;
	return true;
}

/* Each rank needs data of all others. */
static bool needs_all(const struct trace_event *ev)
{
	return ev->fn->op == OP_ALL_REDUCE || ev->fn->op == OP_ALL_GATHER ||
	       ev->fn->op == OP_REDUCE_SCATTER || ev->fn->op == OP_ALL_TO_ALL;
}

static void on_collective(struct clock_scan *s, const struct trace_event *ev)
{
	uint64_t group = ev->coll.group ? key_of(ev, ev->coll.group) : 0;
	bool counts = needs_all(ev) && ev->coll.seq && !ev->coll.seq_partial && ev->coll.bytes &&
		      ev->has & HAS_COMM && ev->coll.nranks > 1;
	const struct join *only;

	if (group) /* a kernel of a group may be of any of its calls */
		put(s->file->groups, group,
		    !counts || get(s->file->groups, group) ? ROW_NONE : s->cnt);
	if (!counts || !is_kept(s, ev->coll.hash, ev->coll.seq) || !make_room(s) ||
	    !is_kept(s, ev->coll.hash, ev->coll.seq)) {
		if (group)
			put(s->file->groups, group, ROW_NONE);
		return;
	}
	only = get(s->file->groups, group);
	if (only && only->value != ROW_NONE)
		put(s->file->groups, group, s->cnt);
	put(s->file->calls, key_of(ev, ev->id), s->cnt);
	s->seen[s->cnt] = (struct clock_seen){
		.comm = ev->coll.hash,
		.seq = ev->coll.seq,
		.enter_ns = (int64_t)ev->start_ns,
		.leave_ns = CLOCK_NEVER,
		.bytes = ev->coll.bytes,
		.unit = s->file->unit,
		.op = ev->fn->op,
	};
	if (!s->file->gpu_time && !group)
		clock_waits__collective(&s->file->waits, ev, s->cnt);
	s->cnt++;
}

static void on_group_end(struct clock_scan *s, const struct trace_event *ev)
{
	const struct join *group = get(s->file->groups, key_of(ev, ev->coll.group));

	if (group && group->value != ROW_NONE)
		put(s->file->calls, key_of(ev, ev->id), group->value);
}

/* A collective with several kernels begins with the first and ends with the last. */
static void on_kernel(struct clock_scan *s, const struct trace_event *ev)
{
	const struct join *launch = get(s->file->launches, key_of(ev, ev->gpu.call_id));
	const struct join *call = launch ? get(s->file->calls, launch->value) : NULL;
	struct clock_seen *row;

	if (!ev->gpu.call_id || !call || call->value >= s->cnt)
		return;
	row = &s->seen[call->value];
	if (!row->by_gpu || (int64_t)ev->start_ns < row->enter_ns)
		row->enter_ns = (int64_t)ev->start_ns;
	if (!row->by_gpu || (int64_t)ev->end_ns > row->leave_ns)
		row->leave_ns = (int64_t)ev->end_ns;
	row->by_gpu = true;
}

void clock_scan__begin(struct clock_scan *s, uint32_t unit, bool gpu_time)
{
	if (!s->file)
		s->file = malloc(sizeof(*s->file));
	if (!s->file)
		return;
	memset(s->file, 0, sizeof(*s->file));
	s->file->unit = unit;
	s->file->first = s->cnt;
	s->file->gpu_time = gpu_time;
}

void clock_scan__event(struct clock_scan *s, const struct trace_event *ev)
{
	if (!s->file)
		return;
	if (ev->kind == EVENT_GPU) {
		on_kernel(s, ev);
		return;
	}
	if (ev->kind != EVENT_CALL || !ev->fn || ev->is_error || ev->unfinished || ev->abandoned)
		return;
	/* It did not run, or is an order within the graph only. */
	if (ev->capture)
		return;
	if (call_does(ev, DOES_LAUNCH) && ev->parent_id)
		put(s->file->launches, key_of(ev, ev->id), key_of(ev, ev->parent_id));
	else if (ev->type == TYPE_COLLECTIVE && ev->fn->op == OP_GROUP_END)
		on_group_end(s, ev);
	else if (ev->type == TYPE_COLLECTIVE && call_does(ev, DOES_COLLECTIVE | DOES_PEER) &&
		 call_is_outer(ev))
		on_collective(s, ev);
	else if (!s->file->gpu_time)
		clock_waits__event(&s->file->waits, ev, s->seen);
}

void clock_scan__end(struct clock_scan *s, uint64_t gpu_error_ns)
{
	bool is_useless = gpu_error_ns > GPU_ERROR_MAX_NS;

	for (unsigned i = s->file ? s->file->first : s->cnt; i < s->cnt; i++) {
		struct clock_seen *row = &s->seen[i];

		if (!row->by_gpu)
			continue;
		row->enter_ns = is_useless ? -CLOCK_NEVER : row->enter_ns - (int64_t)gpu_error_ns;
		row->leave_ns = is_useless ? CLOCK_NEVER : row->leave_ns + (int64_t)gpu_error_ns;
	}
	if (s->file)
		clock_waits__free(&s->file->waits);
}

void clock_scan__free(struct clock_scan *s)
{
	free(s->seen);
	free(s->file);
	*s = (struct clock_scan){0};
}
