/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "response_cache.h"

#include <event2/event.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "util/clock.h"
#include "util/out.h"

/* Number of cached texts: a slow client keeps its own. */
#define RESPONSES_MAX 4
#define BURST_NS      (SEC_NS / 2)

struct response {
	struct out *text;
	uint64_t made_ns;
	unsigned users; /* its readers, plus 1 for the newest until it is RESPONSE_S old */
};

struct response_cache {
	struct response_cache_ops ops;
	struct event *forget_ev;
	struct response *all[RESPONSES_MAX]; /* newest last */
	unsigned cnt;
	bool newest_kept, requested;
	uint64_t spent_ns, paid_ns; /* time spent on making them; updated at */
};

static struct response *newest(const struct response_cache *ps)
{
	return ps->cnt ? ps->all[ps->cnt - 1] : NULL;
}

const struct out *response_text(const struct response *p)
{
	return p->text;
}

void response_cache__put(struct response_cache *ps, struct response *p)
{
	unsigned i = 0;

	if (--p->users)
		return;
	while (ps->all[i] != p)
		i++;
	memmove(&ps->all[i], &ps->all[i + 1], (--ps->cnt - i) * sizeof(p));
	out__close(p->text);
	free(p);
}

static void forget(struct response_cache *ps)
{
	if (ps->newest_kept)
		response_cache__put(ps, newest(ps));
	ps->newest_kept = false;
}

static void on_forget(evutil_socket_t fd, short what, void *ctx)
{
	forget(ctx);
}

static size_t held(const struct response_cache *ps)
{
	size_t sz = 0;

	for (unsigned i = 0; i < ps->cnt; i++)
		sz += ps->all[i]->text->cap;
	return sz;
}

/* Returns whether another text as large as the newest fits. */
static bool has_room(const struct response_cache *ps)
{
	return ps->cnt < RESPONSES_MAX &&
	       (!ps->cnt || held(ps) + newest(ps)->text->cap <= RESPONSES_SZ);
}

static bool may_make(struct response_cache *ps, uint64_t now)
{
	uint64_t paid = (now - ps->paid_ns) / ps->ops.part;

	ps->paid_ns = now;
	ps->spent_ns -= paid < ps->spent_ns ? paid : ps->spent_ns;
	return ps->spent_ns < BURST_NS;
}

bool response_cache__add(struct response_cache *ps, struct out *text, uint64_t made_ns,
			 uint64_t took_ns)
{
	const struct timeval tv = {.tv_sec = RESPONSE_S};
	struct response *p = text ? calloc(1, sizeof(*p)) : NULL;

	ps->requested = false;
	ps->spent_ns += took_ns;
	if (!p) {
		out__close(text);
		return false;
	}
	forget(ps);
	*p = (struct response){.text = text, .made_ns = made_ns, .users = 1};
	ps->all[ps->cnt++] = p;
	ps->newest_kept = true;
	event_add(ps->forget_ev, &tv);
	return true;
}

bool response_cache__get(struct response_cache *ps, uint64_t since_ns, struct response **p)
{
	uint64_t now = now_ns();
	bool old = !ps->cnt || now - newest(ps)->made_ns > RESPONSE_S * SEC_NS;

	if (old || newest(ps)->made_ns < since_ns) {
		if (!ps->requested && (may_make(ps, now) || old)) {
			if (old)
				forget(ps);
			while (old && !has_room(ps))
				ps->ops.release(ps->ops.ctx, ps->all[0]);
			ps->requested = has_room(ps);
			if (ps->requested)
				ps->ops.make(ps->ops.ctx);
		}
		if (ps->requested)
			return false;
	}
	*p = newest(ps);
	(*p)->users++;
	return true;
}

struct response_cache *response_cache__new(struct event_base *base,
					   const struct response_cache_ops *ops)
{
	struct response_cache *ps = calloc(1, sizeof(*ps));

	if (!ps)
		return NULL;
	ps->ops = *ops;
	ps->forget_ev = event_new(base, -1, 0, on_forget, ps);
	if (ps->forget_ev)
		return ps;
	free(ps);
	return NULL;
}

void response_cache__free(struct response_cache *ps)
{
	if (!ps)
		return;
	forget(ps);
	event_free(ps->forget_ev);
	free(ps);
}
