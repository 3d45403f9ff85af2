/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Stream captures of a process. Work submitted to a capturing stream becomes a graph node and does
 * not run. A stream that waits for an event recorded on a capturing stream joins the capture.
 */
#ifndef MODEL_CAPTURE_H
#define MODEL_CAPTURE_H

#include "event.h"

#include "util/limits.h"

/* Key of a stream: each thread has its own default stream. */
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
	struct quota *quota; /* of items; NULL: no limit */
	struct quota_share share;
};

/* Returns whether a capture is over after cuStreamEndCapture with this result. After some errors it
 * is, without a graph. */
bool capture_is_over(int32_t result);
/* Returns the stream of a call that has one (HAS_STREAM). */
struct capture_stream capture_stream_of(const struct trace_event *ev);
/* Updates the captures from a call, live or saved, and sets ev->capture and ev->capturing. Keeps
 * `capturing` of a saved call. */
void capture_set__event(struct capture_set *c, struct trace_event *ev);
void capture_set__clear(struct capture_set *c);

#endif /* MODEL_CAPTURE_H */
