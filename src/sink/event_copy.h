/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Copies of live events for a report: their texts and stacks live as long as the copies, while the
 * model changes or frees its own. */
#ifndef SINK_EVENT_COPY_H
#define SINK_EVENT_COPY_H

#include "model/event.h"

struct event_copies;

/* NULL: out of memory. */
struct event_copies *event_copies__new(void);
void event_copies__free(struct event_copies *c);
/* The copy of an event other than EVENT_STACK. It is valid until the next call, what it points to
 * until the end; words and pointees are the event's own. */
const struct trace_event *event_copy(struct event_copies *c, const struct trace_event *ev);

#endif /* SINK_EVENT_COPY_H */
