/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "pending.h"

#include <stdlib.h>

#include "util/hash_table.h"

/* Number of chains: as many as half of the pending memory holds calls. */
#define CHAINS_LOG 16
/* The traced process makes the ids: all may be equal. */
#define LOOK_MAX 64

/* Begins with its oldest call, which is removed first. */
struct chain {
	struct pending_call *first, *last;
};

struct pending_calls {
	struct chain chains[1 << CHAINS_LOG];
};

struct pending_calls *pending__new(void)
{
	return calloc(1, sizeof(struct pending_calls));
}

static struct chain *chain_of(struct pending_calls *c, uint64_t id)
{
	return &c->chains[hash_word(id) >> (64 - CHAINS_LOG)];
}

void pending__add(struct pending_calls *c, struct pending_call *h, uint64_t id)
{
	struct chain *chain = chain_of(c, id);

	*h = (struct pending_call){.id = id};
	if (chain->first)
		chain->last->next = h;
	else
		chain->first = h;
	chain->last = h;
}

bool pending__executed(struct pending_calls *c, const struct trace_event *ev)
{
	struct pending_call *h = chain_of(c, ev->gpu.call_id)->first;
	struct gpu_times *t;

	for (unsigned i = 0; h && h->id != ev->gpu.call_id; i++)
		h = i < LOOK_MAX ? h->next : NULL;
	if (!h)
		return false;
	t = &h->times;
	if (!t->cnt || ev->start_ns < t->start_ns) {
		t->start_ns = ev->start_ns;
		t->queue_ns = ev->gpu.queue_ns;
	}
	t->ns += event_duration_ns(ev);
	t->cnt++;
	return true;
}

void pending__release(struct pending_calls *c, const struct gpu_times *oldest)
{
	const struct pending_call *h = (const struct pending_call *)oldest;
	struct chain *chain = chain_of(c, h->id);

	chain->first = h->next;
}

void pending__free(struct pending_calls *c)
{
	free(c);
}
