/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "held.h"

#include <stdlib.h>

/* As many chains as there are calls in half of what is held. */
#define CHAINS_LOG 16
/* Ids are made in the traced process: it may choose those of one chain. */
#define LOOK_MAX 64

/* Each begins with its oldest, which goes first. */
struct chain {
	struct held *first, *last;
};

struct held_calls {
	struct chain chains[1 << CHAINS_LOG];
};

struct held_calls *held__new(void)
{
	return calloc(1, sizeof(struct held_calls));
}

static struct chain *chain_of(struct held_calls *c, uint64_t id)
{
	return &c->chains[id * 0x9e3779b97f4a7c15 >> (64 - CHAINS_LOG)];
}

void held__add(struct held_calls *c, struct held *h, uint64_t id)
{
	struct chain *chain = chain_of(c, id);

	*h = (struct held){.id = id};
	if (chain->first)
		chain->last->next = h;
	else
		chain->first = h;
	chain->last = h;
}

bool held__executed(struct held_calls *c, const struct trace_event *ev)
{
	struct held *h = chain_of(c, ev->gpu.call_id)->first;
	struct gpu_times *t;

	for (unsigned i = 0; h && h->id != ev->gpu.call_id; i++)
		h = i < LOOK_MAX ? h->next : NULL;
	if (!h)
		return false;
	t = &h->times;
	if (!t->cnt || ev->start_ns < t->start_ns) {
		t->start_ns = ev->start_ns;
		t->queue_ns = ev->gpu.queue_us;
	}
	t->ns += event_duration_ns(ev);
	t->cnt++;
	return true;
}

void held__let_go(struct held_calls *c, const struct gpu_times *oldest)
{
	const struct held *h = (const struct held *)oldest;
	struct chain *chain = chain_of(c, h->id);

	chain->first = h->next;
}

void held__free(struct held_calls *c)
{
	free(c);
}
