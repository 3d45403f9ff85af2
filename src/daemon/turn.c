/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "turn.h"

#include <event2/event.h>

#include "util/clock.h"
#include "util/time_budget.h"

uint64_t turn__begin(struct turn *t)
{
	uint64_t now = now_ns();

	if (!t->begin_ns) {
		t->begin_ns = now;
		time_budget__turn();
	}
	return now;
}

static void end(struct turn *t)
{
	uint64_t now = now_ns(), minute = now / (60 * SEC_NS), took = now - t->begin_ns;

	if (!t->begin_ns)
		return;
	t->begin_ns = 0;
	if (minute != t->minute) {
		t->longest_ns[1] = minute == t->minute + 1 ? t->longest_ns[0] : 0;
		t->longest_ns[0] = 0;
		t->minute = minute;
	}
	if (took > t->longest_ns[0])
		t->longest_ns[0] = took;
}

void turn__loop(struct turn *t, struct event_base *base)
{
	while (!event_base_got_break(base) && event_base_loop(base, EVLOOP_ONCE) == 0)
		end(t);
}

double turn__longest(const struct turn *t)
{
	return (t->longest_ns[0] > t->longest_ns[1] ? t->longest_ns[0] : t->longest_ns[1]) / 1e9;
}
