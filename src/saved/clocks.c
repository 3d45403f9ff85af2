/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "clocks.h"

#include <math.h>
#include <stdlib.h>

#include "saved_priv.h"
#include "util/order.h"

/* Wall clocks of one boot that differ by more: a container has a time namespace, or the clock was
 * set. */
#define SHIFT_NS 1000000000ll
/* Fewer collectives do not show anything. */
#define COLLECTIVES_MIN 3

static int64_t wall_of(const struct trace_info *info)
{
	return (int64_t)(info->wall_ns - info->base_ns);
}

static bool is_same_clock(const struct trace_info *a, const struct trace_info *b)
{
	int64_t diff = (int64_t)((uint64_t)wall_of(a) - (uint64_t)wall_of(b));

	return saved_same_boot(a, b) &&
	       (!a->wall_ns || !b->wall_ns || (diff < SHIFT_NS && diff > -SHIFT_NS));
}

const struct clock_unit *clocks__find(const struct clocks *c, const struct trace_info *info)
{
	for (unsigned i = 0; i < c->cnt; i++)
		if (is_same_clock(&c->units[i].info, info))
			return &c->units[i];
	return NULL;
}

uint32_t clocks__add(struct clocks *c, const struct trace_info *info)
{
	const struct clock_unit *known = clocks__find(c, info);
	struct clock_unit *grown, *u;

	if (known)
		return (uint32_t)(known - c->units);
	if (c->cnt == CLOCK_UNITS_MAX)
		return CLOCK_UNITS_MAX;
	grown = realloc(c->units, (c->cnt + 1) * sizeof(*grown));
	if (!grown)
		return CLOCK_UNITS_MAX;
	c->units = grown;
	u = &grown[c->cnt++];
	*u = (struct clock_unit){.info = *info};
	return c->cnt - 1;
}

static int by_collective(const void *x, const void *y)
{
	const struct clock_seen *a = x, *b = y;

	return ASCENDING(a->comm, b->comm) ?: ASCENDING(a->seq, b->seq)
	       ?: ASCENDING(a->unit, b->unit) ?: ASCENDING(a->enter_ns, b->enter_ns);
}

/* All rows of one collective. */
static unsigned rows_of(const struct clock_seen *seen, unsigned cnt, unsigned first)
{
	unsigned i = first;

	while (i < cnt && seen[i].comm == seen[first].comm && seen[i].seq == seen[first].seq)
		i++;
	return i - first;
}

/* Whether different units have it. Sizes that differ show that a record was lost. */
static bool is_shared(const struct clock_seen *rows, unsigned cnt)
{
	for (unsigned i = 1; i < cnt; i++)
		if (rows[i].op != rows->op || rows[i].bytes != rows->bytes)
			return false;
	return rows->unit != rows[cnt - 1].unit;
}

/* Merges the rows of each unit: the last that entered and the first that left. Keeps collectives of
 * several units. */
static unsigned merge(struct clock_seen *seen, unsigned cnt)
{
	unsigned kept = 0;

	if (cnt)
		qsort(seen, cnt, sizeof(*seen), by_collective);
	for (unsigned i = 0, n; i < cnt; i += n) {
		n = rows_of(seen, cnt, i);
		if (!is_shared(&seen[i], n))
			continue;
		for (unsigned k = i; k < i + n; k++) {
			struct clock_seen *row = &seen[kept];

			if (k > i && seen[k].unit == row[-1].unit) {
				row--;
				if (seen[k].enter_ns > row->enter_ns)
					row->enter_ns = seen[k].enter_ns;
				if (seen[k].leave_ns < row->leave_ns)
					row->leave_ns = seen[k].leave_ns;
			} else {
				*row = seen[k];
				kept++;
			}
		}
	}
	return kept;
}

/* Whether other clocks can be compared with it. */
static bool is_known(const struct clocks *c, const bool *done, uint32_t unit)
{
	return done[unit] && c->units[unit].place <= TRACE_BY_COLLECTIVES;
}

/* The next unit to place: the one with the most collectives of units that are placed already. */
static uint32_t best_unit(const struct clocks *c, const struct clock_seen *seen, unsigned cnt,
			  const bool *done, uint64_t *shared)
{
	uint32_t best = 0;

	for (uint32_t u = 0; u < c->cnt; u++)
		shared[u] = 0;
	for (unsigned i = 0, n; i < cnt; i += n) {
		bool any = false;

		n = rows_of(seen, cnt, i);
		for (unsigned k = i; k < i + n; k++)
			any |= is_known(c, done, seen[k].unit);
		for (unsigned k = i; any && k < i + n; k++)
			shared[seen[k].unit] += !done[seen[k].unit];
	}
	for (uint32_t u = 1; u < c->cnt; u++)
		if (!done[u] && shared[u] > shared[best])
			best = u;
	return best;
}

/* A time of the unit, on the reference's clock; *error_ns is added to. */
static double on_reference(const struct clock_unit *u, int64_t own_ns, double *error_ns)
{
	double offset_ns = 0;

	*error_ns = 0;
	if (u->place == TRACE_BY_COLLECTIVES)
		offset_ns = clock_fit__offset(&u->fit, own_ns, error_ns);
	return offset_ns;
}

/* Exact, because by wall clocks both times are nearly the same. Hostile times overflow. */
static double difference(const struct clock_unit *a, int64_t a_ns, const struct clock_unit *b,
			 int64_t b_ns)
{
	return (double)(int64_t)((uint64_t)a_ns + (uint64_t)a->wall_ns - (uint64_t)b_ns -
				 (uint64_t)b->wall_ns);
}

struct limits {
	struct clock_limit *l;
	unsigned cnt;
	struct clock_hint *hints;
	unsigned hint_cnt;
	uint64_t collectives;
};

static void add_limit(struct limits *to, int64_t t_ns, double ns, bool is_upper)
{
	to->l[to->cnt++] = (struct clock_limit){t_ns, ns, is_upper};
}

/* The times of row that are known, against those of a unit that is placed. */
static void limit_by(const struct clocks *c, const bool *done, struct limits *to,
		     const struct clock_seen *row, const struct clock_seen *rows, unsigned cnt)
{
	double lower = -INFINITY, upper = INFINITY, error, offset;
	const struct clock_unit *own = &c->units[row->unit];
	bool has_hint = false;

	for (const struct clock_seen *o = rows; o < rows + cnt; o++) {
		const struct clock_unit *u = &c->units[o->unit];

		if (o->unit == row->unit || !is_known(c, done, o->unit))
			continue;
		/* Ranks leave a collective at nearly the same time. */
		if (o->leave_ns != CLOCK_NEVER && row->leave_ns != CLOCK_NEVER && !has_hint) {
			has_hint = true;
			offset = on_reference(u, o->leave_ns, &error);
			to->hints[to->hint_cnt++] = (struct clock_hint){
				row->leave_ns,
				difference(u, o->leave_ns, own, row->leave_ns) + offset};
		}
		if (o->leave_ns != CLOCK_NEVER && row->enter_ns != -CLOCK_NEVER) {
			offset = on_reference(u, o->leave_ns, &error);
			upper = fmin(upper, difference(u, o->leave_ns, own, row->enter_ns) +
						    offset + error);
		}
		if (o->enter_ns != -CLOCK_NEVER && row->leave_ns != CLOCK_NEVER) {
			offset = on_reference(u, o->enter_ns, &error);
			lower = fmax(lower, difference(u, o->enter_ns, own, row->leave_ns) +
						    offset - error);
		}
	}
	if (upper < INFINITY)
		add_limit(to, row->enter_ns, upper, true);
	if (lower > -INFINITY)
		add_limit(to, row->leave_ns, lower, false);
	to->collectives += upper < INFINITY || lower > -INFINITY;
}

static int by_time(const void *x, const void *y)
{
	const struct clock_limit *a = x, *b = y;

	return ASCENDING(a->t_ns, b->t_ns) ?: ASCENDING(a->is_upper, b->is_upper)
	       ?: ASCENDING(a->ns, b->ns);
}

static int by_hint_time(const void *x, const void *y)
{
	const struct clock_hint *a = x, *b = y;

	return ASCENDING(a->t_ns, b->t_ns) ?: ASCENDING(a->ns, b->ns);
}

/* A container's clock that was only set differs by nothing. */
static bool is_same(const struct clocks *c, const struct clock_unit *u)
{
	double diff = (double)(c->units->wall_ns - u->wall_ns), error;

	return saved_same_boot(&c->units->info, &u->info) && u->fit.piece_cnt == 1 &&
	       fabs(clock_fit__offset(&u->fit, u->fit.pieces->from_ns, &error) - diff) <=
		       clock_fit__error(&u->fit);
}

static void place(struct clocks *c, const bool *done, uint32_t unit, const struct clock_seen *seen,
		  unsigned cnt, struct clock_limit *l, struct clock_hint *hints)
{
	struct clock_unit *u = &c->units[unit];
	struct limits limits = {.l = l, .hints = hints};

	for (unsigned i = 0, n; i < cnt; i += n) {
		n = rows_of(seen, cnt, i);
		for (unsigned k = i; k < i + n; k++)
			if (seen[k].unit == unit)
				limit_by(c, done, &limits, &seen[k], &seen[i], n);
	}
	if (limits.collectives < COLLECTIVES_MIN)
		return;
	if (limits.cnt)
		qsort(l, limits.cnt, sizeof(*l), by_time);
	if (limits.hint_cnt)
		qsort(hints, limits.hint_cnt, sizeof(*hints), by_hint_time);
	if (clock_fit__make(&u->fit, l, limits.cnt, hints, limits.hint_cnt))
		return;
	u->collectives = limits.collectives;
	u->place = TRACE_BY_COLLECTIVES;
	if (!is_same(c, u))
		return;
	u->place = TRACE_SAME_CLOCK;
	u->wall_ns = c->units->wall_ns;
	u->fit.piece_cnt = 0;
}

void clocks__compare(struct clocks *c, struct clock_seen *seen, unsigned cnt)
{
	bool *done = calloc(c->cnt, sizeof(*done));
	uint64_t *shared = calloc(c->cnt, sizeof(*shared));
	struct clock_limit *l;
	struct clock_hint *hints;

	for (uint32_t i = 0; i < c->cnt; i++) {
		struct clock_unit *u = &c->units[i];
		bool has_wall = u->info.wall_ns && c->units->info.wall_ns;

		/* To the reference's clock; without wall clocks, by the starts. */
		u->wall_ns = has_wall ? (int64_t)((uint64_t)wall_of(&u->info) -
						  (uint64_t)wall_of(&c->units->info))
				      : (int64_t)(c->units->info.base_ns - u->info.base_ns);
		u->place = !i						? TRACE_FIRST
			   : saved_same_boot(&u->info, &c->units->info) ? TRACE_SAME_CLOCK
			   : has_wall					? TRACE_BY_WALL
									: TRACE_BEHIND;
		if (u->place == TRACE_SAME_CLOCK)
			u->wall_ns = 0;
	}
	cnt = merge(seen, cnt);
	l = calloc(2ull * cnt + 1, sizeof(*l));
	hints = calloc(cnt + 1ull, sizeof(*hints));
	while (done && shared && l && hints) {
		uint32_t unit;

		done[0] = true;
		unit = best_unit(c, seen, cnt, done, shared);
		if (!unit)
			break;
		place(c, done, unit, seen, cnt, l, hints);
		done[unit] = true;
	}
	free(l);
	free(hints);
	free(done);
	free(shared);
}

bool clocks__any(const struct clocks *c)
{
	for (unsigned i = 0; i < c->cnt; i++)
		if (c->units[i].place == TRACE_BY_COLLECTIVES)
			return true;
	return false;
}

uint64_t clock_unit__time(const struct clock_unit *u, uint64_t own_ns)
{
	int64_t ns;
	double error;

	if (own_ns > 2 * SAVED_NS_MAX - 1)
		own_ns = 2 * SAVED_NS_MAX - 1;
	if (__builtin_add_overflow((int64_t)own_ns, u->wall_ns, &ns))
		return u->wall_ns > 0 ? SAVED_NS_MAX : 0;

	if (u->place == TRACE_BY_COLLECTIVES)
		ns += llround(clock_fit__offset(&u->fit, (int64_t)own_ns, &error));
	return ns > 0 ? (uint64_t)ns : 0;
}

void clock_unit__describe(const struct clock_unit *u, struct trace_info *info)
{
	info->clock_error_ns =
		u->place == TRACE_BY_WALL || u->place == TRACE_BEHIND ? UINT64_MAX : 0;
	if (u->place != TRACE_BY_COLLECTIVES)
		return;
	info->clock_error_ns = (uint64_t)ceil(clock_fit__error(&u->fit));
	info->clock_ahead_ns = -llround(u->fit.pieces->from_offset_ns);
	info->clock_rate = -clock_fit__rate(&u->fit);
	info->clock_steps = u->fit.piece_cnt - 1;
	info->clock_collectives = u->collectives;
}

void clocks__free(struct clocks *c)
{
	free(c->units);
	*c = (struct clocks){0};
}
