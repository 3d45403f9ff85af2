/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The placement of several traces in time. */
#include "saved_priv.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Tolerance for traces without a boot id: their clocks agree this well within one boot, since the
 * wall clock may be adjusted in small steps. */
#define SAME_BOOT_NS 5000000000ll

bool saved_same_boot(const struct trace_info *a, const struct trace_info *b)
{
	int64_t diff = (int64_t)((a->wall_ns - a->base_ns) - (b->wall_ns - b->base_ns));

	if (a->boot_id && b->boot_id)
		return !strcmp(a->boot_id, b->boot_id);
	return a->wall_ns && b->wall_ns && !strcmp(a->hostname, b->hostname) &&
	       diff < SAME_BOOT_NS && diff > -SAME_BOOT_NS;
}

/* Returns the index of the clock, or -1. */
static int clock_of(const struct saved_all *all, const struct trace_info *info)
{
	for (unsigned i = 0; i < all->clock_cnt; i++)
		if (saved_same_boot(&all->clocks[i].info, info))
			return (int)i;
	return -1;
}

bool saved__is_placed(const struct saved *s)
{
	return s->cur && s->cur->is_placed;
}

void saved__set_clocks(struct saved *s, const struct clocks *clocks)
{
	s->all->clock_units = clocks;
}

/* NULL: nothing but its wall clock is known. */
static const struct clock_unit *unit_of(const struct saved_all *all, const struct trace_info *info)
{
	const struct clock_unit *u = all->clock_units ? clocks__find(all->clock_units, info) : NULL;

	return u && u->place != TRACE_BY_WALL && u->place != TRACE_BEHIND ? u : NULL;
}

uint64_t saved_time(const struct saved *s, uint64_t ns, bool negative)
{
	uint64_t base_ns = s->unit ? s->own_base_ns : s->base_ns;

	if (negative)
		ns = ns < base_ns ? base_ns - ns : 0;
	else
		ns += base_ns;
	return s->unit ? clock_unit__time(s->unit, ns) : ns;
}

uint64_t saved__when(const struct saved *s, const struct trace_info *info)
{
	const struct saved_all *all = s->all;
	const struct saved_clock *ref = &all->clocks[all->ref];
	int clock = clock_of(all, info);
	const struct clock_unit *unit = unit_of(all, info);
	uint64_t ns = UINT64_MAX;

	if (unit)
		ns = clock_unit__time(unit, info->base_ns);
	else if (clock >= 0)
		ns = all->clocks[clock].placed_ns +
		     (info->base_ns - all->clocks[clock].info.base_ns);
	else if (all->clock_cnt && info->wall_ns && ref->info.wall_ns)
		ns = ref->placed_ns + (info->wall_ns - ref->info.wall_ns);
	return ns <= SAVED_NS_MAX ? ns : UINT64_MAX;
}

bool saved__earlier(const struct saved *s, const struct trace_info *a, const struct trace_info *b)
{
	const struct clock_unit *x = unit_of(s->all, a), *y = unit_of(s->all, b);

	if (x && y)
		return clock_unit__time(x, a->base_ns) < clock_unit__time(y, b->base_ns);
	if (saved_same_boot(a, b))
		return a->base_ns < b->base_ns;
	return a->wall_ns && (!b->wall_ns || a->wall_ns < b->wall_ns);
}

/* Adds a clock for the current trace. */
static int clock_add(struct saved_all *all, const struct trace_info *info, uint64_t placed_ns)
{
	if (all->clock_cnt == CLOCKS_MAX)
		return -1;
	all->clocks[all->clock_cnt] = (struct saved_clock){*info, placed_ns, info->pid_add};
	return (int)all->clock_cnt++;
}

static void __attribute__((format(printf, 2, 3))) note(struct saved *s, const char *fmt, ...)
{
	va_list ap;
	int len;

	va_start(ap, fmt);
	len = vsnprintf(s->note, sizeof(s->note), fmt, ap);
	va_end(ap);
	if (len >= 0 && (size_t)len < sizeof(s->note))
		snprintf(s->note + len, sizeof(s->note) - len,
			 ": its ts 0 is at ts %.6f, and its process ids are raised by %" PRIu32,
			 (double)(int64_t)(s->base_ns - s->all->first_ns) / 1e6, s->pid_add);
}

void saved__place(struct saved *s, bool beside)
{
	struct saved_all *all = s->all;
	struct trace_info *info = &s->cur->info;
	uint64_t when = saved__when(s, info);
	const struct clock_unit *unit = unit_of(all, info);
	int clock = clock_of(all, info);

	s->note[0] = 0;
	if (s->cur->is_placed)
		return;
	s->cur->is_placed = true;
	info->number = all->trace_cnt++;
	info->pid_add = info->number * TRACE_PID_STEP;
	if (!info->number) {
		/* On the time line of the reference. */
		unit = all->clock_units ? clocks__find(all->clock_units, info) : NULL;
		info->place = unit && unit->place == TRACE_BY_COLLECTIVES ? TRACE_BY_COLLECTIVES
									  : TRACE_FIRST;
		when = all->first_ns = all->last_ns =
			unit ? clock_unit__time(unit, info->base_ns) : info->base_ns;
		clock = clock_add(all, info, when);
	} else if (unit && beside && when != UINT64_MAX &&
		   (unit->place == TRACE_BY_COLLECTIVES ||
		    (unit->place == TRACE_FIRST && clock < 0))) {
		info->place = unit->place;
		clock = clock >= 0 ? clock : clock_add(all, info, when);
	} else if (clock >= 0 && when != UINT64_MAX && (beside || when >= all->last_ns)) {
		info->place = TRACE_SAME_CLOCK;
		/* Processes that continue keep their ids. Containers have host names of their
		 * own. */
		if (!beside && !strcmp(all->clocks[clock].info.hostname, info->hostname))
			info->pid_add = all->clocks[clock].pid_add;
	} else if (beside && when != UINT64_MAX) {
		info->place = TRACE_BY_WALL;
		clock = clock_add(all, info, when);
	} else {
		info->place = TRACE_BEHIND;
		when = all->last_ns + 1000000;
		clock = clock_add(all, info, when);
		saved_procs_clear(all);
	}
	if (!beside && clock >= 0)
		all->ref = (unsigned)clock;
	info->clock = clock >= 0 ? (unsigned)clock : CLOCKS_MAX + info->number;
	info->clock_error_ns =
		info->place == TRACE_BY_WALL || info->place == TRACE_BEHIND ? UINT64_MAX : 0;
	s->unit = info->place == TRACE_BEHIND || info->place == TRACE_BY_WALL ? NULL : unit;
	if (s->unit)
		clock_unit__describe(s->unit, info);
	s->own_base_ns = info->base_ns;
	info->base_ns = s->base_ns = when;
	s->pid_add = info->pid_add;
	if (info->place == TRACE_BEHIND)
		note(s,
		     "another trace begins, of another or unknown time: it is placed right after the "
		     "previous one (traces of the same time need one file each)");
	else if (beside && info->place == TRACE_BY_WALL)
		note(s,
		     "a trace of the same time, but of another clock, begins: it is aligned by wall "
		     "clocks, which may differ");
	else if (beside && info->place == TRACE_BY_COLLECTIVES)
		note(s,
		     "a trace of another machine begins: it is aligned by %" PRIu64
		     " collectives, to within %.1f us",
		     info->clock_collectives, info->clock_error_ns / 1e3);
	else if (beside)
		note(s, "a trace of the same time begins");
}
