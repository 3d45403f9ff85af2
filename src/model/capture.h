/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which streams of a process capture: what is launched on them becomes nodes of a graph and does
 * not run. A capture spreads to a stream that waits for an event recorded on a capturing one.
 */
#ifndef MODEL_CAPTURE_H
#define MODEL_CAPTURE_H

#include <stdbool.h>
#include <stdint.h>

#include "util/quota.h"

/* One stream or event that takes part in the capture that began on stream origin. */
struct capture_item {
	uint64_t handle, origin;
	bool is_event;
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

void capture_set__begin(struct capture_set *c, uint64_t stream);
void capture_set__end(struct capture_set *c, uint64_t stream);
void capture_set__record(struct capture_set *c, uint64_t event, uint64_t stream);
void capture_set__wait(struct capture_set *c, uint64_t stream, uint64_t event);
bool capture_set__has(const struct capture_set *c, uint64_t stream);
/* The stream that the capture began on which this one takes part in; false: it does not capture. */
bool capture_set__origin(const struct capture_set *c, uint64_t stream, uint64_t *origin);
void capture_set__clear(struct capture_set *c);

#endif /* MODEL_CAPTURE_H */
