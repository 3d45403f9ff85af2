/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A worker pool that formats events and writes them while the calling thread continues. Data that
 * an event points to is copied; lines come in the order of the events. For sinks whose ops have
 * `cloned`. Copies may wait for their calls' GPU executions (--gpu-time), in all such outputs, also
 * without threads.
 */
#ifndef SINK_DELIVERY_WORKERS_H
#define SINK_DELIVERY_WORKERS_H

#include "sink/sink.h"

struct workers;

/* The formatted text of some events. */
struct workers_text {
	struct sink *formatter; /* a copy, with the text in its out */
	uint64_t cnt;		/* number of events */
	uint64_t now_ns;	/* time of the last event: workers__clock() */
};

/* Gets all texts in order, in any thread, one at a time. */
struct workers_writer {
	/* Consumes the text from *at on, and advances that. false: the rest is for the thread that
	 * adds events, which calls this next (is_caller). */
	bool (*write)(void *ctx, const struct workers_text *t, size_t *at, bool is_caller);
	void *ctx;
};
#define WORKERS_WRITERS_MAX 2
#define WORKERS_THREADS_MAX 15
#define WORKERS_CALLER	    WORKERS_THREADS_MAX

/* The maximum memory of a worker pool of this size, and the number of its copies of the sink. */
uint64_t workers__max_bytes(unsigned threads);
unsigned workers__copies(unsigned threads);
/* Useful number of threads for this number of processors: 0 where they would take one away from the
 * traced program. */
unsigned workers__size(unsigned cpus);
/* Call this before privileges are dropped: each thread drops its own. From now on s->out belongs to
 * the threads, except between workers__wait() and the next event. NULL: no memory or no threads. */
struct workers *workers__new(struct sink *s, unsigned threads, bool wait);
/* As workers__new(), but these writers receive the text. */
struct workers *workers__new_for(struct sink *s, unsigned threads,
				 const struct workers_writer *writers, unsigned cnt);
/* Sets the time of the following events. */
void workers__clock(struct workers *c, uint64_t now_ns);
/* May wait for a free batch. more: as in a sink. */
void workers__event(struct workers *c, const struct trace_event *ev, const char *more);
/* Puts a text unchanged, smaller than ITEMS_SZ / 2. */
void workers__put(struct workers *c, const void *text, size_t len);
/* Waits until everything is written. */
void workers__wait(struct workers *c);
/* Writes everything that need not wait for the GPU. */
void workers__tick(struct workers *c);
/* s->out->failed, as last known. */
bool workers__failed(const struct workers *c);
/* Waits, too. c may be NULL. */
void workers__free(struct workers *c);

#endif /* SINK_DELIVERY_WORKERS_H */
