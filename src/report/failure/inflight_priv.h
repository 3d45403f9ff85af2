/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Shared by inflight.c and inflight_list.c: streams and pending work by number. */
#ifndef REPORT_FAILURE_INFLIGHT_PRIV_H
#define REPORT_FAILURE_INFLIGHT_PRIV_H

#include "inflight.h"

static inline bool is_legacy(const struct inflight_stream *s)
{
	return !s->handle;
}

/* For claims of completion: the context must be the same for certain. */
static inline bool same_context(const struct inflight *f, const struct inflight_stream *s,
				uint64_t ctx)
{
	return !f->several_ctx || (ctx && s->ctx == ctx);
}

static inline const struct work *work_at(const struct inflight *f, uint64_t number)
{
	const struct work *x = f->ring_cap ? &f->ring[number % f->ring_cap] : NULL;

	return x && x->number == number ? x : NULL;
}

/* A full table drops no number of the report, so it is not counted as rejected. */
static inline bool has_room(struct keys *k, uint64_t key, uint32_t max)
{
	return k->cnt < max || keys__find(k, key) != KEYS_NONE;
}

/* Notes that a launch of this kernel has completed. inflight_list.c */
void inflight_note(struct inflight *f, const struct work *x);

/* Notes the kernel of a lookup by name. inflight_list.c */
void inflight__found(struct inflight *f, const struct trace_event *ev);

#endif /* REPORT_FAILURE_INFLIGHT_PRIV_H */
