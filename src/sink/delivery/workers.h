/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Threads that put events into words, and write these, while the one that gives them goes on. What
 * an event points to is copied; the lines come in the order of the events. For sinks whose ops say
 * `cloned`. Copies may wait for what GPUs executed for their calls (--gpu-time), in all outputs of
 * these, and then without threads, too.
 */
#ifndef SINK_DELIVERY_WORKERS_H
#define SINK_DELIVERY_WORKERS_H

#include "sink/sink.h"

struct workers;

/* What some events were formatted as. */
struct workers_text {
	struct sink *formatter; /* a copy, with all in its out */
	uint64_t cnt;		/* events */
	uint64_t now_ns;	/* when the last was given: workers__clock() */
};

/* Gets all texts in their order, in any thread, one at a time. */
struct workers_writer {
	/* Takes what there is from *at on, and moves that. false: what is left is for the thread
	 * that gives events, to which this happens next (is_caller). */
	bool (*write)(void *ctx, const struct workers_text *t, size_t *at, bool is_caller);
	void *ctx;
};
#define WORKERS_WRITERS_MAX 2
#define WORKERS_THREADS_MAX 15
#define WORKERS_CALLER	    WORKERS_THREADS_MAX

/* What a worker pool of so many threads takes at most, and how many copies of its sink it has. */
uint64_t workers__most(unsigned threads);
unsigned workers__copies(unsigned threads);
/* How many are worth it on a machine with so many processors: none where they would take one away
 * from what is traced. */
unsigned workers__size(unsigned cpus);
/* Before privileges are given up: each gives up its own, all of them. From now on s->out, which
 * they write to, is theirs, but between workers__wait() and the next event. NULL: no memory, no
 * threads. */
struct workers *workers__new(struct sink *s, unsigned threads, bool wait);
/* The same, but these get the text. */
struct workers *workers__new_for(struct sink *s, unsigned threads,
				 const struct workers_writer *writers, unsigned cnt);
/* The time of what comes next. */
void workers__clock(struct workers *c, uint64_t now_ns);
/* May wait for room. more: as in a sink. */
void workers__event(struct workers *c, const struct trace_event *ev, const char *more);
/* A text as it is, less than ITEMS_SZ / 2. */
void workers__put(struct workers *c, const void *text, size_t len);
/* Until all that was given is written. */
void workers__wait(struct workers *c);
/* Until all that need not wait for the GPU is there. */
void workers__tick(struct workers *c);
/* s->out->failed, as far as is known. */
bool workers__failed(const struct workers *c);
/* Waits, too. NULL is fine. */
void workers__free(struct workers *c);

#endif /* SINK_DELIVERY_WORKERS_H */
