/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "turn.h"

#include <event2/event.h>

#include "util/clock.h"
#include "util/time_budget.h"

#define ALIVE_NS (10 * SEC_NS)

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

	__atomic_store_n(&t->ended_ns, now, __ATOMIC_RELAXED);
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
	end(t);
	while (!event_base_got_break(base) && event_base_loop(base, EVLOOP_ONCE) == 0)
		end(t);
	__atomic_store_n(&t->ended_ns, 0, __ATOMIC_RELAXED);
}

bool turn__is_alive(const struct turn *t)
{
	uint64_t ended = __atomic_load_n(&t->ended_ns, __ATOMIC_RELAXED);

	return ended && now_ns() < ended + ALIVE_NS;
}

double turn__longest(const struct turn *t)
{
	return (t->longest_ns[0] > t->longest_ns[1] ? t->longest_ns[0] : t->longest_ns[1]) / 1e9;
}
