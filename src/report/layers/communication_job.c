/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Global ranks: the numbers of processes in their job. */
#include "communication_priv.h"
#include "util/memlimit.h"

static const struct coll_rank *rank_in(const struct coll_comm *c, uint32_t pid)
{
	for (unsigned i = 0; i < c->rank_cnt; i++)
		if (c->ranks[i].pid == pid)
			return &c->ranks[i];
	return NULL;
}

static bool all_are_in(const struct communication *x, const struct coll_comm *job)
{
	for (unsigned i = 0; i < x->keys.cnt; i++)
		for (unsigned k = 0; k < x->comms[i]->rank_cnt; k++)
			if (!rank_in(job, x->comms[i]->ranks[k].pid))
				return false;
	return true;
}

void comm_add_job(struct communication *x, const struct trace_event *ev)
{
	uint32_t i = keys_row_max(&x->proc_keys, ev->pid, GONE_MAX, MEMLIMIT_PROCESSES, x->procs,
				  x->proc_cap);

	if (i != KEYS_NONE)
		x->procs[i] = (struct coll_proc){.pid = ev->pid, .rank = ev->job.global_rank};
}

static bool is_in_any(const struct communication *x, uint32_t pid)
{
	for (unsigned i = 0; i < x->keys.cnt; i++)
		if (rank_in(x->comms[i], pid))
			return true;
	return false;
}

/* The process that starts a node's ranks may have the number of one of them. */
static void find_launchers(struct communication *x)
{
	struct keys ranks = {0};

	for (unsigned i = 0; i < x->proc_keys.cnt; i++)
		if (is_in_any(x, x->procs[i].pid))
			keys_get(&ranks, x->procs[i].rank, GONE_MAX, MEMLIMIT_PROCESSES);
	for (unsigned i = 0; i < x->proc_keys.cnt; i++)
		x->procs[i].is_launcher = !is_in_any(x, x->procs[i].pid) &&
					  keys__find(&ranks, x->procs[i].rank) != KEYS_NONE;
	keys__free(&ranks);
}

void comm_find_job(struct communication *x)
{
	find_launchers(x);
	for (unsigned i = 0; i < x->keys.cnt; i++)
		if (!x->job || x->comms[i]->nranks > x->job->nranks)
			x->job = x->comms[i];
	if (x->job && !all_are_in(x, x->job))
		x->job = NULL;
}

bool communication_rank(const struct report *r, uint32_t pid, uint32_t *rank)
{
	struct communication *x = r->an[AN_COMMUNICATION];
	uint32_t i = x ? keys__find(&x->proc_keys, pid) : KEYS_NONE;
	const struct coll_rank *k = x && x->job ? rank_in(x->job, pid) : NULL;

	*rank = k ? k->rank : 0;
	if (i == KEYS_NONE || x->procs[i].is_launcher)
		return k;
	*rank = x->procs[i].rank;
	return true;
}

bool communication_process(const struct report *r, uint32_t rank, uint32_t *pid)
{
	const struct communication *x = r->an[AN_COMMUNICATION];
	uint32_t found;

	for (unsigned i = 0; x && i < x->keys.cnt; i++) {
		for (unsigned k = 0; k < x->comms[i]->rank_cnt; k++) {
			*pid = x->comms[i]->ranks[k].pid;
			if (communication_rank(r, *pid, &found) && found == rank)
				return true;
		}
	}
	return false;
}

void communication_of_clock(const struct report *r, unsigned clock,
			    struct communication_of_clock *res)
{
	const struct communication *x = r->an[AN_COMMUNICATION];
	struct keys pids = {0};

	*res = (struct communication_of_clock){0};
	for (unsigned i = 0; x && i < x->keys.cnt; i++) {
		for (unsigned k = 0; k < x->comms[i]->rank_cnt; k++) {
			const struct coll_rank *rank = &x->comms[i]->ranks[k];

			if (rank->clock != clock)
				continue;
			keys_get(&pids, rank->pid, GONE_MAX, MEMLIMIT_PROCESSES);
			res->cnt += rank->late_cnt;
			res->ns += rank->late_ns;
		}
	}
	res->rank_cnt = pids.cnt;
	keys__free(&pids);
}

void comm_find_shared(const struct communication *x, uint32_t pid, struct keys *to)
{
	for (unsigned i = 0; i < x->keys.cnt; i++)
		for (unsigned k = 0, cnt = rank_in(x->comms[i], pid) ? x->comms[i]->rank_cnt : 0;
		     k < cnt; k++)
			keys_get(to, x->comms[i]->ranks[k].pid, GONE_MAX, MEMLIMIT_PROCESSES);
}
