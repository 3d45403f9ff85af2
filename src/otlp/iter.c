/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "iter.h"

#include "model/call.h"

#include <event2/util.h>
#include <stdlib.h>

#include "util/hash_table.h"

struct iter_key {
	uint32_t pid, tid;
};

struct iter {
	struct hash_link link;
	struct iter_key key;
	uint64_t changes;
	uint64_t number, start_ns;
	uint64_t calls, launches, errors;
	struct otlp_ids ids;
};
HASH_TABLE(iter, key);

struct otlp_iters {
	struct iter_table by_thread;
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
	iter_table__del(&its->by_thread, it);
	free(it);
}

void otlp_iters__free(struct otlp_iters *its)
{
	if (!its)
		return;
	hash_each (it, &its->by_thread)
		drop(its, it);
	free(its);
}

static struct iter *find(struct otlp_iters *its, const struct trace_event *ev, uint64_t changes)
{
	const struct iter_key key = {ev->pid, ev->tid};
	struct iter *it = iter_table__find(&its->by_thread, &key);

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
	hash_each (it, &its->by_thread) {
		if (it->key.pid == pid) {
			drop(its, it);
			return true;
		}
	}
	return false;
}

/* Begins at a thread's first call of a marker. */
static struct iter *begin(struct otlp_iters *its, const struct trace_event *ev, uint64_t changes)
{
	const struct iter_key key = {ev->pid, ev->tid};
	struct iter *it;

	if (!quota_owners__take(&its->processes, its->quota, ev->pid, 1) &&
	    !(drop_oldest(its, ev->pid) &&
	      quota_owners__take(&its->processes, its->quota, ev->pid, 1)))
		return NULL;
	it = iter_table__new(&its->by_thread, &key);
	if (it)
		it->changes = changes;
	else
		quota_owners__give(&its->processes, its->quota, ev->pid, 1);
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
	if (!its)
		return;
	hash_each (it, &its->by_thread) {
		if (it->key.pid == pid)
			drop(its, it);
	}
}
