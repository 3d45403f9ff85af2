/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Events as they are handed from one thread to another: copies, with all that they point to. */
#ifndef SINK_DELIVERY_ITEMS_H
#define SINK_DELIVERY_ITEMS_H

#include "pending.h"
#include "sink/sink.h"

/* Some hundred events, which stay in a processor's own cache. */
#define ITEMS_SZ (256 << 10)

#define CACHE_LINE_SZ 64
/* One thread fills it, then another empties it: of several, all are used at the same time.
 * Processors fetch lines in pairs. */
struct items {
	_Alignas(2 * CACHE_LINE_SZ) char *buf; /* NULL: not yet, and no room */
	size_t len, room;
	/* What names would take that are there for others already: all of them are in lines. */
	size_t again;
	uint64_t cnt;
};

/* What its lines take at most, where JSON escapes all that is in them. */
#define ITEMS_TEXT_SZ (2 << 20)

/* Names that are there already: of kernels and threads there are few, and each call has some. */
#define ITEM_NAMES_LOG 6
struct item_name {
	uint64_t
		key; /* its number, or where it was, if it has none: that may be another's by now */
	const char *copy;
	size_t len;
};
struct item_names {
	struct item_name of[1 << ITEM_NAMES_LOG];
};

/* false: it has some already, or there is no memory. */
bool items__get_room(struct items *is);
/* What JSON of a live call shows, and the members that follow these (sink.h). names: of these
 * items. held: NULL, or where the call waits for what the GPU executes for it. false: there is no
 * room. */
bool items__put_call(struct items *is, struct item_names *names, const struct trace_event *ev,
		     const char *more, struct pending_calls *pending);
/* A line as it is. The same. */
bool items__put_line(struct items *is, const char *s, size_t len);
/* Its calls, the oldest of all that wait, wait no longer. */
void items__release(const struct items *is, struct pending_calls *pending);
/* Gives all to a sink's ops, and lines to its out. */
void items__format(const struct items *is, struct sink *s);
void items__clear(struct items *is);
/* And its memory. */
void items__free(struct items *is);

#endif /* SINK_DELIVERY_ITEMS_H */
