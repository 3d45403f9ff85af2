/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "stops.h"

#include "attach/find/target.h"

#include <signal.h>
#include <unistd.h>

/* A parent notices the stop when it gets a processor. */
#define WATCHED_NS 3000000000ull

void stops__note(struct stops *s, pid_t pid, uint64_t now)
{
	unsigned long long start;
	struct stop x = {.child = pid, .end_ns = now + WATCHED_NS};

	if (target_stat(pid, &x.parent, &start) && x.parent > 1 && x.parent != getpid())
		s->of[s->cnt++ % STOPS_MAX] = x;
}

void stops__tick(struct stops *s, uint64_t now)
{
	for (unsigned i = 0; i < STOPS_MAX && i < s->cnt; i++) {
		struct stop *x = &s->of[i];

		if (now < x->end_ns && target_state(x->parent) == 'T' &&
		    target_state(x->child) != 'T')
			kill(x->parent, SIGCONT);
	}
}
