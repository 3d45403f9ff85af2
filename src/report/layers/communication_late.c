/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Late ranks over all communicators. One delay makes a rank late in every collective that the
 * others have submitted meanwhile, so times that overlap are one episode.
 */
#include "communication_priv.h"
#include "util/memlimit.h"
#include "util/order.h"

#include <errno.h>
#include <stdlib.h>

void comm_late_add(struct communication *x, const struct coll_comm *c, const struct coll_slot *s)
{
	struct coll_late *lates;

	if (x->late_cnt == LATES_MAX) {
		memlimit_reject(MEMLIMIT_COMMUNICATORS);
		return;
	}
	lates = grow(x->lates, &x->late_cap, x->late_cnt + 1, sizeof(*lates),
		     MEMLIMIT_COMMUNICATORS);
	if (!lates)
		return;
	x->lates = lates;
	lates[x->late_cnt++] = (struct coll_late){
		.from_ns = s->first_ns,
		.to_ns = s->last_ns,
		.by_ns = s->last_ns - s->first_ns,
		.comm = c,
		.pid = c->ranks[s->last_rank].pid,
	};
	if (s->gpu_cnt < c->rank_cnt)
		return;
	lates[x->late_cnt - 1].gpu_from_ns = s->gpu_first_ns;
	lates[x->late_cnt - 1].gpu_to_ns = s->gpu_last_ns;
}

void comm_late_drop(struct communication *x, const struct coll_comm *c)
{
	unsigned cnt = 0;

	for (unsigned i = 0; i < x->late_cnt; i++)
		if (x->lates[i].comm != c)
			x->lates[cnt++] = x->lates[i];
	x->late_cnt = cnt;
}

static int by_process(const void *a, const void *b)
{
	const struct coll_late *x = a, *y = b;

	return ASCENDING(x->pid, y->pid) ?: ASCENDING(x->from_ns, y->from_ns)
	       ?: ASCENDING(x->to_ns, y->to_ns);
}

/* Joins times that overlap; returns their number. */
static unsigned join(struct coll_late *lates, unsigned cnt)
{
	struct coll_late *last = NULL;

	if (cnt)
		qsort(lates, cnt, sizeof(*lates), by_process);
	for (unsigned i = 0; i < cnt; i++) {
		const struct coll_late *l = &lates[i];

		if (last && last->pid == l->pid && l->from_ns <= last->to_ns) {
			last->to_ns = l->to_ns > last->to_ns ? l->to_ns : last->to_ns;
		} else {
			last = last ? last + 1 : lates;
			*last = *l;
		}
	}
	return last ? last - lates + 1 : 0;
}

void comm_late_finish(struct communication *x)
{
	x->waits = memlimit_new(MEMLIMIT_COMMUNICATORS, x->late_cnt * sizeof(*x->waits));
	for (unsigned i = 0; x->waits && i < x->late_cnt; i++) {
		struct coll_late *w = &x->waits[i];

		*w = x->lates[i];
		if (!w->gpu_to_ns)
			continue;
		w->from_ns = w->gpu_from_ns;
		w->to_ns = w->gpu_to_ns;
	}
	x->wait_cnt = x->waits ? join(x->waits, x->late_cnt) : 0;
	x->late_cnt = join(x->lates, x->late_cnt);
}

struct late_window {
	const struct communication *x;
	uint64_t from_ns, to_ns;
};

static bool is_in(const struct late_window *w, const struct coll_late *l)
{
	return l->to_ns >= w->from_ns && l->to_ns <= w->to_ns;
}

/* Weighted median: half of the total time is in longer episodes. v is in ascending order. */
static uint64_t typical(const uint64_t *v, unsigned cnt, uint64_t total_ns)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < cnt; i++) {
		sum += v[i];
		if (2 * sum >= total_ns)
			return v[i];
	}
	return 0;
}

/* Episodes of the process from index i on; returns the index after the last. */
static unsigned measure(const struct late_window *w, unsigned i, uint64_t *v,
			struct communication_late *res)
{
	const struct coll_late *lates = w->x->lates;
	unsigned first = i, cnt = 0;
	uint64_t total_ns = 0;

	*res = (struct communication_late){.pid = lates[i].pid};
	for (; i < w->x->late_cnt && lates[i].pid == res->pid; i++) {
		if (!is_in(w, &lates[i]))
			continue;
		v[cnt++] = lates[i].by_ns;
		total_ns += lates[i].by_ns;
	}
	sort_values(v, cnt);
	res->typical_ns = typical(v, cnt, total_ns);
	for (unsigned k = first; k < i; k++) {
		const struct coll_late *l = &lates[k];

		if (!is_in(w, l) || 2 * l->by_ns < res->typical_ns)
			continue;
		res->cnt++;
		res->total_ns += l->by_ns;
		if (l->by_ns <= res->max_ns)
			continue;
		res->max_ns = l->by_ns;
		res->at_ns = l->from_ns + l->by_ns;
	}
	return i;
}

/* Whether the process is late in more than its share of all episodes. Sets all_cnt. */
static bool is_often(const struct late_window *w, struct communication_late *l, unsigned procs)
{
	unsigned cnt = 0, all_cnt = 0;

	l->all_cnt = 0;
	for (unsigned i = 0; i < w->x->late_cnt; i++) {
		const struct coll_late *e = &w->x->lates[i];

		if (!is_in(w, e))
			continue;
		all_cnt++;
		cnt += e->pid == l->pid;
		l->all_cnt += 2 * e->by_ns >= l->typical_ns;
	}
	return cnt * procs > all_cnt;
}

/* Processes of the communicators in which a rank was late. */
static unsigned procs_of(const struct communication *x)
{
	struct keys pids = {0};
	unsigned cnt;

	for (unsigned i = 0; i < x->keys.cnt; i++)
		for (unsigned k = 0; x->comms[i]->late_cnt && k < x->comms[i]->rank_cnt; k++)
			keys_get(&pids, x->comms[i]->ranks[k].pid, MEMLIMIT_THREADS_MAX,
				 MEMLIMIT_THREADS);
	cnt = pids.cnt;
	keys__free(&pids);
	return cnt;
}

bool communication_late(const struct report *r, uint64_t from_ns, uint64_t to_ns,
			struct communication_late *res)
{
	const struct communication *x = r->an[AN_COMMUNICATION];
	const struct late_window w = {x, from_ns, to_ns};
	unsigned procs = x ? procs_of(x) : 0;
	uint64_t *v = x && x->late_cnt ? calloc(x->late_cnt, sizeof(*v)) : NULL;
	struct communication_late l;

	*res = (struct communication_late){0};
	for (unsigned i = 0; v && i < x->late_cnt;) {
		i = measure(&w, i, v, &l);
		if (l.total_ns > res->total_ns && is_often(&w, &l, procs))
			*res = l;
	}
	free(v);
	return res->cnt;
}

static int by_end(const void *a, const void *b)
{
	const struct communication_wait *x = a, *y = b;

	return DESCENDING(x->to_ns, y->to_ns) ?: ASCENDING(x->pid, y->pid);
}

int communication_waits(const struct report *r, uint32_t pid, uint32_t late,
			struct communication_wait **waits)
{
	const struct communication *x = r->an[AN_COMMUNICATION];
	bool is_own = late == pid;
	const struct coll_late *lates;
	struct keys shared = {0};
	unsigned late_cnt;
	int cnt = 0;

	*waits = NULL;
	late_cnt = !x ? 0 : is_own ? x->late_cnt : x->wait_cnt;
	if (!late_cnt)
		return 0;
	lates = is_own ? x->lates : x->waits;
	*waits = calloc(late_cnt, sizeof(**waits));
	if (!*waits)
		return -ENOMEM;
	comm_find_shared(x, pid, &shared);
	for (unsigned i = 0; i < late_cnt; i++) {
		const struct coll_late *l = &lates[i];

		if ((late ? l->pid != late : l->pid == pid) ||
		    keys__find(&shared, l->pid) == KEYS_NONE)
			continue;
		(*waits)[cnt++] =
			(struct communication_wait){l->pid, l->from_ns, l->to_ns, l->by_ns};
	}
	keys__free(&shared);
	qsort(*waits, cnt, sizeof(**waits), by_end);
	return cnt;
}
