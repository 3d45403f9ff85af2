/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef REPORT_GPU_STREAMS_PRIV_H
#define REPORT_GPU_STREAMS_PRIV_H

#include "report/collect.h"
#include "streams.h"

#define STREAM_WAITS 16

/* Something submitted to a stream: all of it up to number seq. */
struct stream_point {
	uint32_t stream; /* number + 1; 0: none */
	uint64_t seq;
};

struct stream {
	uint64_t handle, created_ns;
	uint64_t ctx;	   /* memory_context() of the call that made it, or of its last work */
	uint32_t pid, tid; /* tid: of a per-thread default stream, else 0 */
	bool created, has_flags, has_priority, gone;
	uint64_t flags;
	int32_t priority;
	uint64_t launches, transfers, bytes, syncs, sync_ns, recorded, waited;
	uint64_t submitted, done; /* done: known to be */
	uint64_t max_depth, depth_sum;
	struct stream_point waits[STREAM_WAITS]; /* what it waited for last, in a ring */
	unsigned wait_cnt;
	/* Of the same process, number + 1: all, and those that something was submitted to since the
	 * process waited for all of them. */
	uint32_t next, next_busy;
	bool busy;
};

struct stream_edge {
	uint32_t from, to;
	uint64_t cnt;
};

struct stream_proc {
	uint32_t first, first_busy; /* streams, number + 1 */
	/* Where it submitted last, as far as the default stream's order goes. */
	enum { LAST_NONE, LAST_DEFAULT, LAST_BLOCKING } last;
};

struct streams {
	struct report *r;
	struct keys keys, event_keys, edge_keys, proc_keys;
	struct memlimit_share list_rows;
	uint32_t *by_key; /* number + 1 of the stream that has the handle now */
	struct stream *list;
	struct stream_point *events; /* when recorded */
	struct stream_edge *edges;
	struct stream_proc *procs;
	unsigned by_key_cap, cnt, cap, event_cap, edge_cap, proc_cap;
	uint64_t launches, work, default_launches, default_work, switches, first_switch_ns;
	uint32_t *sorted; /* from the finish on: numbers, most used first */
};

/* Legacy default stream: it and blocking streams wait for one another. */
static inline bool stream_is_default(const struct stream *s)
{
	return !s->handle;
}

static inline bool stream_is_blocking(const struct stream *s)
{
	return s->has_flags && !(s->flags & 1);
}

extern const struct section_table streams_table;
void streams_print(const void *a, const struct term *term);

#endif /* REPORT_GPU_STREAMS_PRIV_H */
