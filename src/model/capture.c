/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "capture.h"

#include <stdlib.h>
#include <string.h>

#include "call.h"
#include "decode/api_values.h"
#include "event_path.h"

/* A capture has a handful of streams and events. */
#define ITEMS_MORE 16

bool capture_is_over(int32_t result)
{
	return result == CUDA_SUCCESS || result == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED ||
	       result == CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
}

struct capture_stream capture_stream_of(const struct trace_event *ev)
{
	uint64_t handle = call_stream(ev, ev->stream);

	return (struct capture_stream){handle, handle == CU_STREAM_PER_THREAD ? ev->tid : 0};
}

static struct capture_item *find(const struct capture_set *c, struct capture_stream key,
				 bool is_event)
{
	for (unsigned i = 0; i < c->cnt; i++) {
		struct capture_item *item = &c->items[i];

		if (item->handle == key.handle && item->tid == key.tid &&
		    item->is_event == is_event)
			return item;
	}
	return NULL;
}

static void add(struct capture_set *c, const struct capture_item *what)
{
	struct capture_item *item = find(c, (struct capture_stream){what->handle, what->tid},
					 what->is_event),
			    *items;

	if (!item) {
		/* A program that never ends its captures must not make our memory grow without
		 * limit. */
		if (c->cnt == c->cap) {
			if (!quota__take(c->quota, &c->share, ITEMS_MORE))
				return;
			items = realloc(c->items, (c->cap + ITEMS_MORE) * sizeof(*items));
			if (!items) {
				quota__give(c->quota, &c->share, ITEMS_MORE);
				return;
			}
			c->items = items;
			c->cap += ITEMS_MORE;
		}
		item = &c->items[c->cnt++];
	}
	*item = *what;
}

static void del(struct capture_set *c, struct capture_item *item)
{
	*item = c->items[--c->cnt];
}

/* A capture ends with the stream on which it began, and only with that one. */
static void end(struct capture_set *c, struct capture_stream stream)
{
	const struct capture_item *on = find(c, stream, false);
	uint64_t capture = on ? on->capture : 0;

	if (!on || !on->is_origin)
		return;
	for (unsigned i = c->cnt; i-- > 0;)
		if (c->items[i].capture == capture)
			del(c, &c->items[i]);
}

static void begin(struct capture_set *c, struct capture_stream stream, uint64_t id)
{
	end(c, stream); /* the record of its end was dropped */
	add(c, &(struct capture_item){stream.handle, id, stream.tid, false, true});
}

/* With CU_EVENT_RECORD_EXTERNAL, the capture gets a node that records the event. The event does not
 * join the capture (cuda.h 11.1). */
static bool is_external(const struct trace_event *ev)
{
	uint64_t flags;

	return event_path_u64(ev, "flags", &flags) && (flags & CU_EVENT_RECORD_EXTERNAL);
}

static void record(struct capture_set *c, const struct capture_item *on,
		   const struct trace_event *ev)
{
	struct capture_item event = {.handle = ev->cu_event, .is_event = true}, *old;

	if (on && !is_external(ev)) {
		event.capture = on->capture;
		add(c, &event);
	}
	/* The event was recorded again outside any capture. */
	old = on ? NULL : find(c, (struct capture_stream){event.handle, 0}, true);
	if (old)
		del(c, old);
}

static void wait(struct capture_set *c, const struct trace_event *ev)
{
	const struct capture_item *event = find(c, (struct capture_stream){ev->cu_event, 0}, true);
	struct capture_stream stream = capture_stream_of(ev);

	if (event)
		add(c, &(struct capture_item){stream.handle, event->capture, stream.tid, false,
					      false});
}

/* A graph cannot be launched in a capture (driver 580). */
static bool is_node(const struct trace_event *ev)
{
	switch (ev->fn->op) {
	case OP_ALLOC_ASYNC:
	case OP_FREE_ASYNC:
	case OP_STREAM_MEMOP:
		return true;
	}
	return ev->fn->class == CLASS_LAUNCH || ev->fn->class == CLASS_TRANSFER;
}

static void on_bound(struct capture_set *c, struct trace_event *ev)
{
	struct capture_stream stream = capture_stream_of(ev);
	const struct capture_item *on;

	if (!event_returned(ev))
		return;
	if (ev->fn->op == OP_CAPTURE_BEGIN) {
		if (ev->result)
			return;
		begin(c, stream, ev->id);
		ev->capture = ev->id;
		return;
	}
	on = find(c, stream, false);
	if (on)
		ev->capture = on->capture;
	if (capture_is_over(ev->result))
		end(c, stream);
}

void capture_set__event(struct capture_set *c, struct trace_event *ev)
{
	bool went_well = !ev->result && event_returned(ev);
	const struct capture_item *on;

	if (!(ev->has & HAS_STREAM))
		return;
	if (ev->fn->op == OP_CAPTURE_BEGIN || ev->fn->op == OP_CAPTURE_END) {
		on_bound(c, ev);
		return;
	}
	if (!c->cnt)
		return;
	on = find(c, capture_stream_of(ev), false);
	if (ev->fn->op == OP_RECORD && (ev->has & HAS_CU_EVENT) && went_well) {
		record(c, on, ev);
	} else if (ev->fn->op == OP_WAIT && (ev->has & HAS_CU_EVENT) && went_well && !on) {
		wait(c, ev);
	}
	on = find(c, capture_stream_of(ev), false);
	if (!on)
		return;
	ev->capture = on->capture;
	ev->capturing |= is_node(ev);
}

void capture_set__clear(struct capture_set *c)
{
	free(c->items);
	quota__give(c->quota, &c->share, c->share.used);
	c->items = NULL;
	c->cnt = c->cap = 0;
}
