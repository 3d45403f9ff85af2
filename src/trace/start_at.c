/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "start_at.h"

#include <errno.h>
#include <time.h>

#include "util/clock.h"
#include "util/log.h"

/* A time that is later is a mistake. */
#define LATEST_NS (7 * 86400 * 1000000000ull)

static uint64_t wall_ns(void)
{
	return (uint64_t)((int64_t)now_ns() + epoch_ns());
}

int start_at__wait(const struct session_opts *o, uint64_t *begin_ns)
{
	uint64_t now = wall_ns(), at = o->start_at_ns;
	struct timespec until;

	*begin_ns = 0;
	if (!at && !o->start_every_ns)
		return 0;
	if (at && at < now) {
		err("--start-at: this time is over since %.1f s: give a later one, in UTC",
		    (double)(now - at) / 1e9);
		return EXIT_USAGE;
	}
	if (at > now + LATEST_NS) {
		err("--start-at: this time is more than a week away: give an earlier one, in UTC");
		return EXIT_USAGE;
	}
	/* The next multiple of the period is the same on all machines. */
	if (o->start_every_ns) {
		at = at > now ? at : now;
		at += o->start_every_ns - 1;
		at -= at % o->start_every_ns;
	}
	info("waiting for %.1f s", (double)(at - now) / 1e9);
	until = (struct timespec){.tv_sec = (time_t)(at / 1000000000),
				  .tv_nsec = (long)(at % 1000000000)};
	while (clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &until, NULL) == EINTR)
		;
	*begin_ns = now_ns() - (wall_ns() - at);
	return 0;
}
