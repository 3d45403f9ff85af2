/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Threads that put events into words, and write these, while the one that gives them goes on. What
 * an event points to is copied; the lines come in the order of the events. For sinks whose ops say
 * `cloned`. Copies may wait for what GPUs executed for their calls (--gpu-time), in all outputs of
 * these, and then without threads, too.
 */
#ifndef SINK_CREW_H
#define SINK_CREW_H

#include "sink.h"

struct crew;

/* What some events were worded as. */
struct crew_text {
	struct sink *words; /* a copy, with all in its out */
	uint64_t cnt;	    /* events */
	uint64_t now_ns;    /* when the last was given: crew__clock() */
};

/* Gets all texts in their order, in any thread, one at a time. */
struct crew_writer {
	/* Takes what there is from *at on, and moves that. false: what is left is for the thread
	 * that gives events, to which this happens next (is_caller). */
	bool (*write)(void *ctx, const struct crew_text *t, size_t *at, bool is_caller);
	void *ctx;
};
#define CREW_WRITERS_MAX 2
#define CREW_THREADS_MAX 15
#define CREW_CALLER	 CREW_THREADS_MAX

/* What a crew of so many threads takes at most, and how many copies of its sink it has. */
uint64_t crew__most(unsigned threads);
unsigned crew__copies(unsigned threads);
/* How many are worth it on a machine with so many processors: none where they would take one away
 * from what is traced. */
unsigned crew__size(unsigned cpus);
/* Before privileges are given up: each gives up its own, all of them. From now on s->out, which
 * they write to, is theirs, but between crew__wait() and the next event. NULL: no memory, no
 * threads. */
struct crew *crew__new(struct sink *s, unsigned threads, bool wait);
/* The same, but these get the text. */
struct crew *crew__new_for(struct sink *s, unsigned threads, const struct crew_writer *writers,
			   unsigned cnt);
/* The time of what comes next. */
void crew__clock(struct crew *c, uint64_t now_ns);
/* May wait for room. more: as in a sink. */
void crew__event(struct crew *c, const struct trace_event *ev, const char *more);
/* A text as it is, less than ITEMS_SZ / 2. */
void crew__put(struct crew *c, const void *text, size_t len);
/* Until all that was given is written. */
void crew__wait(struct crew *c);
/* Until all that need not wait for the GPU is there. */
void crew__tick(struct crew *c);
/* s->out->failed, as far as is known. */
bool crew__failed(const struct crew *c);
/* Waits, too. NULL is fine. */
void crew__free(struct crew *c);

#endif /* SINK_CREW_H */
