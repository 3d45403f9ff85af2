/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The stage and the iteration of a running program, for profiles. The report's stages depend on
 * later calls (report/time/stage.h). A running program is in:
 *
 *   init       from cuInit until the first context has been made
 *   load       until the first launch
 *   warmup     until the first iteration begins, if functions are configured that end iterations
 *   inference  from then on
 *
 * The stage of a program that ran before the daemon is unknown until its next launch.
 */
#ifndef DAEMON_LIVE_STAGE_H
#define DAEMON_LIVE_STAGE_H

#include "model/event.h"
#include "report/time/stage.h"

/* An interval has about this many groups of iterations of a process. */
#define LIVE_GROUPS 64

struct live_stage {
	uint64_t launch_ns; /* 0, or when the first launches were counted */
	uint32_t tid;	    /* its calls end iterations: the first thread that made such a call */
	uint32_t iteration; /* from 1; 0: none yet */
	uint32_t group;	    /* iterations in a group: a power of 2 */
	uint32_t interval, ended; /* iterations that ended in that interval */
	bool known;
	uint8_t stage; /* enum stage */
};

/* The call begins: from now on, s is what the call belongs to. marks: there are functions that end
 * iterations. */
void live_stage__begin(struct live_stage *s, const struct trace_event *ev, bool marks);
/* The end of that call. ends: its function ends iterations. interval: number of the
 * current interval of profiles. */
void live_stage__end(struct live_stage *s, const struct trace_event *ev, bool ends,
		     uint32_t interval);
/* Calls were counted. If some of them launched, the stage begins after this reading of counts. */
void live_stage__counted(struct live_stage *s, const struct api_fn *fn, uint64_t read_ns,
			 bool marks);
/* Returns whether the program has a stage that ends soon. */
static inline bool live_stage__is_starting(const struct live_stage *s)
{
	return s->known && s->stage <= STAGE_LOAD;
}
/* The first iteration of the current group; 0: none. */
static inline uint32_t live_stage__first(const struct live_stage *s)
{
	return s->iteration ? ((s->iteration - 1) & ~(s->group - 1)) + 1 : 0;
}

#endif /* DAEMON_LIVE_STAGE_H */
