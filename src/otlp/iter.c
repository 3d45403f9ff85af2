/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "iter.h"

#include "model/call.h"

#include <event2/util.h>
#include <stdlib.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

struct iter {
	struct {
		uint32_t pid, tid;
	} key;
	uint64_t changes;
	uint64_t number, start_ns;
	uint64_t calls, launches, errors;
	struct otlp_ids ids;
	UT_hash_handle hh;
};

struct otlp_iters {
	struct iter *by_thread;
	struct quota *quota;
	struct quota_owners processes;
};

struct otlp_iters *otlp_iters__new(struct quota *quota)
{
	struct otlp_iters *its = calloc(1, sizeof(*its));

	if (its)
		its->quota = quota;
	return its;
}

static void drop(struct otlp_iters *its, struct iter *it)
{
	quota_owners__give(&its->processes, its->quota, it->key.pid, 1);
	HASH_DEL(its->by_thread, it);
	free(it);
}

void otlp_iters__free(struct otlp_iters *its)
{
	struct iter *it, *next;

	if (!its)
		return;
	HASH_ITER (hh, its->by_thread, it, next)
		drop(its, it);
	free(its);
}

static struct iter *find(struct otlp_iters *its, const struct trace_event *ev, uint64_t changes)
{
	const struct {
		uint32_t pid, tid;
	} key = {ev->pid, ev->tid};
	struct iter *it;

	HASH_FIND(hh, its->by_thread, &key, sizeof(key), it);
	if (!it || it->changes == changes)
		return it;
	drop(its, it);
	return NULL;
}

const struct otlp_ids *otlp_iters__call(struct otlp_iters *its, const struct trace_event *ev,
					uint64_t changes)
{
	struct iter *it = find(its, ev, changes);

	if (!it)
		return NULL;
	it->calls++;
	it->errors += ev->is_error;
	it->launches += call_launches_any(ev);
	return &it->ids;
}

/* Drops the process's oldest iteration. Threads that end leave theirs behind. */
static bool drop_oldest(struct otlp_iters *its, uint32_t pid)
{
	struct iter *it = its->by_thread;

	while (it && it->key.pid != pid)
		it = it->hh.next;
	if (it)
		drop(its, it);
	return it;
}

/* Begins at a thread's first call of a marker. */
static struct iter *begin(struct otlp_iters *its, const struct trace_event *ev, uint64_t changes)
{
	struct iter *it = calloc(1, sizeof(*it));

	if (!it)
		return NULL;
	if (!quota_owners__take(&its->processes, its->quota, ev->pid, 1) &&
	    !(drop_oldest(its, ev->pid) &&
	      quota_owners__take(&its->processes, its->quota, ev->pid, 1))) {
		free(it);
		return NULL;
	}
	it->key.pid = ev->pid;
	it->key.tid = ev->tid;
	it->changes = changes;
	HASH_ADD(hh, its->by_thread, key, sizeof(it->key), it);
	return it;
}

bool otlp_iters__mark(struct otlp_iters *its, const struct trace_event *ev, uint64_t changes,
		      struct otlp_span *s, uint64_t epoch_ns)
{
	struct iter *it = find(its, ev, changes);
	bool ends = it != NULL;

	if (!it)
		it = begin(its, ev, changes);
	if (!it)
		return false;
	if (ends) {
		*s = (struct otlp_span){
			.ids = it->ids,
			.labels = s->labels,
			.command = s->command,
			.redacted = s->redacted,
			.pid = ev->pid,
			.tid = ev->tid,
			.name = "iteration",
			.function = ev->fn->symbol,
			.start_ns = it->start_ns + epoch_ns,
			.end_ns = ev->end_ns + epoch_ns,
			.iteration = it->number,
			.calls = it->calls,
			.launches = it->launches,
			.errors = it->errors,
		};
	}
	it->number++;
	it->start_ns = ev->end_ns;
	it->calls = it->launches = it->errors = 0;
	evutil_secure_rng_get_bytes(&it->ids, sizeof(it->ids));
	return ends;
}

void otlp_iters__forget(struct otlp_iters *its, uint32_t pid)
{
	struct iter *it, *next;

	if (!its)
		return;
	HASH_ITER (hh, its->by_thread, it, next) {
		if (it->key.pid == pid)
			drop(its, it);
	}
}
