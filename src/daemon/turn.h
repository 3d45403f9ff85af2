/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Turns of the event loop: each may work 20 ms on behalf of users (util/time_budget.h), and the
 * longest is reported. It shows delays that users cause, whatever else the machine does.
 */
#ifndef DAEMON_TURN_H
#define DAEMON_TURN_H

#include <stdbool.h>
#include <stdint.h>

struct event_base;

/* Initialised with zeros. */
struct turn {
	uint64_t begin_ns;	/* 0: no turn is running */
	uint64_t longest_ns[2]; /* longest turn of this minute and of the last */
	uint64_t minute;
	uint64_t ended_ns; /* atomic: when the last turn ended; 0: the loop does not run */
};

/* The first callback of a turn begins it; for the others this does nothing. Returns the time. */
uint64_t turn__begin(struct turn *t);
/* Runs the loop until event_base_loopbreak(). */
void turn__loop(struct turn *t, struct event_base *base);
/* In any thread: returns whether the loop runs, and a turn has ended in the last 10 s. Without work
 * there is one each second. */
bool turn__is_alive(const struct turn *t);
/* The longest turn of the last one to two minutes, in seconds. */
double turn__longest(const struct turn *t);

#endif /* DAEMON_TURN_H */
