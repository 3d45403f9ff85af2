/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "clock_waits.h"

#include <stdlib.h>
#include <string.h>

#include "clock_scan.h"
#include "model/call.h"
#include "util/hash_table.h"

#define PROCS_MAX   64 /* per file */
#define STREAMS_MAX 16 /* with collectives, or that waited for them, per process */
#define OPEN_MAX    4096
#define MARKS	    1024

/* By stream: how many of its collectives come before a point of another stream. */
struct before {
	uint32_t cnt[STREAMS_MAX];
};

/* A collective that may not have ended yet. */
struct open_coll {
	unsigned row, stream;
	uint32_t number; /* in its stream, from 1 */
	uint64_t end_ns; /* of the call */
};

struct mark {
	uint64_t cu_event; /* 0: none */
	uint64_t end_ns;   /* of the call that recorded it */
	struct before before;
};

struct wait_proc {
	struct wait_proc *next;
	uint32_t pid;
	/* A process of several ranks has several contexts: its waits are not used. */
	bool has_ranks;
	uint64_t comm;
	uint32_t rank;
	uint64_t streams[STREAMS_MAX];
	unsigned stream_cnt;
	uint64_t last_ns[STREAMS_MAX]; /* end of the latest call that `before` contains */
	struct before before[STREAMS_MAX];
	struct open_coll open[OPEN_MAX];
	unsigned open_cnt;
	struct mark marks[MARKS];
};

static struct wait_proc *proc_of(struct clock_waits *w, uint32_t pid, bool add)
{
	struct wait_proc *p = w->procs;
	unsigned cnt = 0;

	for (; p && p->pid != pid; p = p->next)
		cnt++;
	if (p || !add || cnt == PROCS_MAX)
		return p;
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->pid = pid;
	p->next = w->procs;
	return w->procs = p;
}

/* The default stream of a thread has no handle of its own: it is ignored. */
static bool is_threads(const struct trace_event *ev)
{
	const char *end = strrchr(ev->fn->symbol, '_');

	return !ev->stream && end && (!strcmp(end, "_ptsz") || !strcmp(end, "_ptds"));
}

/* Returns STREAMS_MAX if there are too many. */
static unsigned stream_of(struct wait_proc *p, const struct trace_event *ev)
{
	unsigned i = 0;

	if (!(ev->has & HAS_STREAM) || is_threads(ev))
		return STREAMS_MAX;
	while (i < p->stream_cnt && p->streams[i] != ev->stream)
		i++;
	if (i == p->stream_cnt && i < STREAMS_MAX)
		p->streams[p->stream_cnt++] = ev->stream;
	return i;
}

void clock_waits__collective(struct clock_waits *w, const struct trace_event *ev, unsigned row)
{
	struct wait_proc *p = proc_of(w, ev->pid, true);
	unsigned stream = p ? stream_of(p, ev) : STREAMS_MAX;

	if (stream == STREAMS_MAX)
		return;
	if (!p->comm) {
		p->comm = ev->coll.hash;
		p->rank = ev->coll.rank;
	}
	p->has_ranks |= p->comm == ev->coll.hash && p->rank != ev->coll.rank;
	p->before[stream].cnt[stream]++;
	if (ev->end_ns > p->last_ns[stream])
		p->last_ns[stream] = ev->end_ns;
	if (p->open_cnt == OPEN_MAX) {
		memmove(p->open, p->open + OPEN_MAX / 2, OPEN_MAX / 2 * sizeof(*p->open));
		p->open_cnt -= OPEN_MAX / 2;
	}
	p->open[p->open_cnt++] =
		(struct open_coll){row, stream, p->before[stream].cnt[stream], ev->end_ns};
}

/* The wait began after these collectives had been submitted: they have ended at its end. */
static void ended(struct wait_proc *p, const struct trace_event *ev, const struct before *before,
		  struct clock_seen *seen)
{
	unsigned cnt = 0;

	for (unsigned i = 0; i < p->open_cnt; i++) {
		const struct open_coll *o = &p->open[i];

		if (!p->has_ranks && o->number <= before->cnt[o->stream] &&
		    o->end_ns <= ev->start_ns)
			seen[o->row].leave_ns = (int64_t)ev->end_ns;
		else
			p->open[cnt++] = *o;
	}
	p->open_cnt = cnt;
}

static struct mark *mark_of(struct wait_proc *p, uint64_t cu_event)
{
	return &p->marks[hash_word(cu_event) % MARKS];
}

static void on_record(struct wait_proc *p, const struct trace_event *ev)
{
	unsigned stream = stream_of(p, ev);
	struct mark *m = mark_of(p, ev->cu_event);

	*m = (struct mark){0};
	/* Calls of other threads have no known order. */
	if (stream == STREAMS_MAX || ev->start_ns < p->last_ns[stream])
		return;
	*m = (struct mark){ev->cu_event, ev->end_ns, p->before[stream]};
}

static void on_stream_wait(struct wait_proc *p, const struct trace_event *ev)
{
	const struct mark *m = mark_of(p, ev->cu_event);
	unsigned stream = stream_of(p, ev);

	if (stream == STREAMS_MAX || m->cu_event != ev->cu_event || ev->start_ns < m->end_ns)
		return;
	for (unsigned i = 0; i < STREAMS_MAX; i++)
		if (m->before.cnt[i] > p->before[stream].cnt[i])
			p->before[stream].cnt[i] = m->before.cnt[i];
	if (ev->end_ns > p->last_ns[stream])
		p->last_ns[stream] = ev->end_ns;
}

static void on_sync(struct wait_proc *p, const struct trace_event *ev, struct clock_seen *seen)
{
	struct before all;
	unsigned stream;

	if (ev->has & HAS_CU_EVENT) {
		const struct mark *m = mark_of(p, ev->cu_event);

		if (m->cu_event == ev->cu_event && ev->start_ns >= m->end_ns)
			ended(p, ev, &m->before, seen);
	} else if (ev->has & HAS_STREAM) {
		stream = stream_of(p, ev);
		if (stream < STREAMS_MAX && ev->start_ns >= p->last_ns[stream])
			ended(p, ev, &p->before[stream], seen);
	} else {
		memset(&all, 0xff, sizeof(all));
		ended(p, ev, &all, seen);
	}
}

void clock_waits__event(struct clock_waits *w, const struct trace_event *ev,
			struct clock_seen *seen)
{
	struct wait_proc *p = proc_of(w, ev->pid, false);

	if (!p)
		return;
	if (ev->type == TYPE_EVENT && !strcmp(ev->op, "record"))
		on_record(p, ev);
	else if (ev->type == TYPE_STREAM && !strcmp(ev->op, "wait"))
		on_stream_wait(p, ev);
	else if (ev->type == TYPE_SYNC && !strcmp(ev->op, "sync"))
		on_sync(p, ev, seen);
}

void clock_waits__forget(struct clock_waits *w)
{
	for (struct wait_proc *p = w->procs; p; p = p->next)
		p->open_cnt = 0;
}

void clock_waits__free(struct clock_waits *w)
{
	struct wait_proc *next;

	for (struct wait_proc *p = w->procs; p; p = next) {
		next = p->next;
		free(p);
	}
	w->procs = NULL;
}
