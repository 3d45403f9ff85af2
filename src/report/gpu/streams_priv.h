/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Streams and edges between them: the state of streams.c and streams_print.c. */
#ifndef REPORT_GPU_STREAMS_PRIV_H
#define REPORT_GPU_STREAMS_PRIV_H

#include "report/collect.h"
#include "streams.h"

#define STREAM_WAITS 16

/* A position in a stream: all work up to number seq. */
struct stream_point {
	uint32_t stream; /* index + 1; 0: none */
	uint64_t seq;
};

struct stream {
	uint64_t handle, created_ns;
	uint64_t ctx;	   /* memory_context() of the creating call, or of its last work */
	uint32_t pid, tid; /* tid: only for a per-thread default stream, else 0 */
	bool created, has_flags, has_priority, destroyed;
	uint64_t flags;
	int32_t priority;
	uint64_t launches, transfers, bytes, syncs, sync_ns, recorded, waited;
	uint64_t submitted, done; /* done: known to be done */
	uint64_t max_depth, depth_sum;
	struct stream_point waits[STREAM_WAITS]; /* what it waited for last, as a ring */
	unsigned wait_cnt;
	/* Lists of streams of the same process, index + 1: all, and those with work since the
	 * process last waited for all of them. */
	uint32_t next, next_busy;
	bool busy;
};

struct stream_edge {
	uint32_t from, to;
	uint64_t cnt;
};

struct stream_proc {
	uint32_t first, first_busy; /* heads of the lists, index + 1 */
	/* The kind of stream of its last submission, if that affects the default stream's order. */
	enum { LAST_NONE, LAST_DEFAULT, LAST_BLOCKING } last;
};

struct streams {
	struct report *r;
	struct keys keys, event_keys, edge_keys, proc_keys;
	struct memlimit_share list_rows;
	uint32_t *by_key; /* index + 1 of the handle's current stream */
	struct stream *list;
	struct stream_point *events; /* positions when recorded */
	struct stream_edge *edges;
	struct stream_proc *procs;
	unsigned by_key_cap, cnt, cap, event_cap, edge_cap, proc_cap;
	uint64_t launches, work, default_launches, default_work, switches, first_switch_ns;
	uint32_t *sorted; /* valid after the finish: indices, most used first */
};

/* The legacy default stream and blocking streams wait for each other. */
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
