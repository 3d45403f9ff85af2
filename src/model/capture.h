/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The captures of a process: what is put on a stream that captures becomes a node of a graph and
 * does not run. A capture spreads to a stream that waits for an event recorded on a capturing one.
 */
#ifndef MODEL_CAPTURE_H
#define MODEL_CAPTURE_H

#include "event.h"

#include "util/quota.h"

/* What a stream is known by: the default stream of a thread is another one in each thread. */
struct capture_stream {
	uint64_t handle;
	uint32_t tid; /* 0: the handle is enough */
};

/* One stream or event that takes part in a capture. */
struct capture_item {
	uint64_t handle;
	uint64_t capture; /* id of the call that began it */
	uint32_t tid;	  /* as capture_stream */
	bool is_event, is_origin;
};

struct capture_set {
	struct capture_item *items;
	unsigned cnt, cap;
	struct quota *quota; /* of items; NULL: no bound */
	struct quota_share share;
};

/* Is the capture over after cuStreamEndCapture with this result? After some errors it is, and no
 * graph comes of it. */
bool capture_is_over(int32_t result);
/* The stream of a call that has one (HAS_STREAM). */
struct capture_stream capture_stream_of(const struct trace_event *ev);
/* A call, live or saved: learns from it, and sets ev->capture and ev->capturing. What a saved call
 * has as `capturing` stays. */
void capture_set__event(struct capture_set *c, struct trace_event *ev);
void capture_set__clear(struct capture_set *c);

#endif /* MODEL_CAPTURE_H */
