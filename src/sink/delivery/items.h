/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Events passed from one thread to another: copies, with all that they point to. */
#ifndef SINK_DELIVERY_ITEMS_H
#define SINK_DELIVERY_ITEMS_H

#include "pending.h"
#include "sink/sink.h"

/* A few hundred events, which fit into a processor's own cache. */
#define ITEMS_SZ (256 << 10)

#define CACHE_LINE_SZ 64
/* One thread fills it, then another empties it; several are in use at a time. Aligned because
 * processors fetch cache lines in pairs. */
struct items {
	_Alignas(2 * CACHE_LINE_SZ) char *buf; /* NULL: not allocated yet, and no space */
	size_t len, room;
	/* Size of names that are shared with earlier events: lines contain them each time. */
	size_t again;
	uint64_t cnt;
};

/* Maximum size of its lines, if JSON escapes every character. */
#define ITEMS_TEXT_SZ (2 << 20)

/* Cache of copied names: there are few kernels and threads, and each call has some. */
#define ITEM_NAMES_LOG 6
struct item_name {
	uint64_t key; /* its id, or else its address, which may be reused */
	const char *copy;
	size_t len;
};
struct item_names {
	struct item_name of[1 << ITEM_NAMES_LOG];
};

/* false: it has memory already, or there is none. */
bool items__get_room(struct items *is);
/* Puts what the JSON of a live call shows, and the members that follow (sink.h). names: of these
 * items. pending: NULL, or where the call waits for its GPU executions. false: no space. */
bool items__put_call(struct items *is, struct item_names *names, const struct trace_event *ev,
		     const char *more, struct pending_calls *pending);
/* Puts a line unchanged. false: no space. */
bool items__put_line(struct items *is, const char *s, size_t len);
/* Its calls stop waiting; they must be the oldest of all pending ones. */
void items__release(const struct items *is, struct pending_calls *pending);
/* Passes all events to a sink's ops, and lines to its out. */
void items__format(const struct items *is, struct sink *s);
void items__clear(struct items *is);
/* Frees its memory, too. */
void items__free(struct items *is);

#endif /* SINK_DELIVERY_ITEMS_H */
