/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "communication_priv.h"
#include "util/memlimit.h"

#include "model/call.h"
#include "model/collective.h"

#include <stdlib.h>
#include <string.h>

static struct coll_comm *comm_of(struct communication *x, const struct trace_event *ev)
{
	uint64_t hash = ev->has & HAS_COMM ? ev->coll.hash : 0;
	uint32_t i = keys_get(&x->keys, hash, MEMLIMIT_COMMUNICATORS_MAX, MEMLIMIT_COMMUNICATORS);
	struct coll_comm **comms;

	if (i == KEYS_NONE)
		return NULL;
	comms = grow(x->comms, &x->cap, i + 1, sizeof(*comms), MEMLIMIT_COMMUNICATORS);
	if (comms)
		x->comms = comms;
	if (comms && !comms[i]) {
		comms[i] = memlimit_new(MEMLIMIT_COMMUNICATORS, sizeof(**comms));
		if (comms[i])
			comms[i]->hash = hash;
	}
	if (!comms || !comms[i]) {
		keys__undo(&x->keys, i);
		return NULL;
	}
	if (ev->coll.nranks)
		comms[i]->nranks = ev->coll.nranks;
	return comms[i];
}

/* Sets k->lost if its trace had a loss while it was the rank's. */
static void note_losses(const struct communication *x, struct coll_rank *k)
{
	k->lost |= k->trace < x->last_loss_cap && x->last_loss[k->trace] > k->loss;
}

static struct coll_rank *rank_add(struct coll_comm *c)
{
	struct coll_rank *grown = NULL;

	if (c->rank_cnt == RANKS_MAX)
		memlimit_reject(MEMLIMIT_COMMUNICATORS);
	else
		grown = grow(c->ranks, &c->rank_cap, c->rank_cnt + 1, sizeof(*grown),
			     MEMLIMIT_COMMUNICATORS);
	if (!grown)
		return NULL;
	c->ranks = grown;
	return &grown[c->rank_cnt++];
}

/* Ranks of one machine have exact times. */
static void note_clock(struct coll_comm *c, const struct coll_rank *k, uint64_t error_ns)
{
	uint64_t *errors = c->clock_errors_ns;

	for (const struct coll_rank *other = c->ranks; other < k; other++)
		if (other->clock == k->clock)
			return;
	c->clock_cnt++;
	c->is_uncompared |= error_ns == UINT64_MAX;
	c->is_apart = c->clock_cnt > 1 && c->is_uncompared;
	if (error_ns > errors[0]) {
		errors[1] = errors[0];
		errors[0] = error_ns;
	} else if (error_ns > errors[1]) {
		errors[1] = error_ns;
	}
}

/* NULL: limit reached. A rank belongs to one process: two programs traced one after the other have
 * different hashes. */
static struct coll_rank *rank_of(struct communication *x, struct coll_comm *c,
				 const struct trace_event *ev)
{
	struct coll_rank *k = c->ranks;

	if (!c->hash || !ev->coll.nranks)
		return NULL;
	for (; k < c->ranks + c->rank_cnt; k++) {
		if (k->rank != ev->coll.rank)
			continue;
		if (k->pid == ev->pid)
			goto out;
		/* Two traces have this process. */
		if (k->trace != ev->trace)
			return NULL;
	}
	k = rank_add(c);
	if (!k) {
		c->ranks_rejected++;
		return NULL;
	}
	k->rank = ev->coll.rank;
	k->pid = ev->pid;
	k->clock = ev->clock;
	note_clock(c, k, ev->clock_error_ns);
	k->trace = ev->trace;
	k->loss = x->loss_cnt;
out:
	if (k->trace != ev->trace) {
		note_losses(x, k);
		k->trace = ev->trace;
		k->loss = x->loss_cnt;
	}
	return k;
}

static struct coll_op *op_of(struct coll_comm *c, uint8_t op)
{
	struct coll_op *o = c->ops;

	while (o < c->ops + c->op_cnt && o->op != op)
		o++;
	if (o == c->ops + OPS_MAX)
		return NULL;
	c->op_cnt += o == c->ops + c->op_cnt;
	o->op = op;
	return o;
}

bool comm_is_partial(const struct coll_comm *c)
{
	for (unsigned i = 0; i < c->rank_cnt; i++)
		if (c->ranks[i].unknown || c->ranks[i].lost)
			return true;
	return false;
}

static void who_add(struct coll_who *w, unsigned i)
{
	w->bits[i / 64] |= 1ull << i % 64;
}

static unsigned who_cnt(const struct coll_who *w)
{
	unsigned cnt = 0;

	for (unsigned i = 0; i < RANKS_MAX / 64; i++)
		cnt += (unsigned)__builtin_popcountll(w->bits[i]);
	return cnt;
}

/* Returns whether a rank is missing whose first recorded collective is a later one. */
static bool misses_unseen(const struct coll_comm *c, const struct coll_slot *s)
{
	for (unsigned i = 0; i < c->rank_cnt; i++)
		if (!who_has(&s->who, i) && c->ranks[i].first > s->seq)
			return true;
	return false;
}

/* Time until which the activity of all ranks but these is known: the end of their traces; unlimited
 * for processes that have ended. */
static uint64_t seen_until(struct communication *x, const struct coll_comm *c,
			   const struct coll_who *but)
{
	uint64_t until = x->r->is_over ? x->r->last_ns : UINT64_MAX;

	for (unsigned i = 0; i < c->rank_cnt; i++) {
		const struct coll_rank *k = &c->ranks[i];
		uint64_t ns = report_until(x->r, k->trace);

		if (!who_has(but, i) && ns < until && keys__find(&x->ended, k->pid) == KEYS_NONE)
			until = ns;
	}
	return until;
}

/* No further rank will join. */
static void settle(struct communication *x, struct coll_comm *c, struct coll_slot *s)
{
	struct coll_rank *last = &c->ranks[s->last_rank];
	uint64_t late = s->last_ns - s->first_ns, from;
	bool missing = who_cnt(&s->who) < c->rank_cnt;

	if (!s->seq || c->rank_cnt < 2 || misses_unseen(c, s))
		return;
	if (s->differs) {
		c->differ_cnt++;
	} else if (missing) {
		/* It may have joined after its trace ended. */
		c->missed_cnt += seen_until(x, c, &s->who) >= s->last_ns;
	} else {
		c->joined_cnt++;
		last->last_cnt++;
		if (late < LATE_NS || s->captured)
			return;
		c->late_cnt++;
		last->late_cnt++;
		from = s->first_ns > last->late_until ? s->first_ns : last->late_until;
		last->late_ns += s->last_ns > from ? s->last_ns - from : 0;
		spread__add(&x->late, s->last_ns, s->last_ns > from ? s->last_ns - from : 0);
		last->late_until = s->last_ns;
		comm_late_add(x, c, s);
		if (late > last->late_max_ns)
			last->late_max_ns = late;
	}
}

static void note_difference(struct coll_comm *c, const struct coll_rank *k, struct coll_slot *s,
			    const struct trace_event *ev)
{
	s->differs = true;
	if (c->differ_seq && c->differ_seq <= s->seq)
		return;
	c->differ_seq = s->seq;
	c->differ_ns = ev->start_ns;
	c->differ[0] = (struct coll_side){c->ranks[s->first_rank].rank, s->op, s->bytes};
	c->differ[1] = (struct coll_side){k->rank, ev->fn->op, ev->coll.bytes};
}

static void arrive(struct communication *x, struct coll_comm *c, struct coll_rank *k,
		   const struct trace_event *ev)
{
	unsigned i = k - c->ranks;
	struct coll_slot *s;

	if (!c->slots)
		c->slots = memlimit_new(MEMLIMIT_COMMUNICATORS, SLOTS * sizeof(*c->slots));
	if (!c->slots || ev->coll.seq < k->seq)
		return;
	if (!k->seq)
		k->first = ev->coll.seq;
	k->seq = ev->coll.seq;
	s = &c->slots[ev->coll.seq % SLOTS];
	if (s->seq > ev->coll.seq) {
		c->missed_cnt++;
		return;
	}
	if (s->seq != ev->coll.seq) {
		settle(x, c, s);
		*s = (struct coll_slot){
			.seq = ev->coll.seq,
			.first_ns = ev->start_ns,
			.last_ns = ev->start_ns,
			.op = ev->fn->op,
			.bytes = ev->coll.bytes,
			.first_rank = i,
			.last_rank = i,
		};
	}
	if (s->op != ev->fn->op || s->bytes != ev->coll.bytes)
		note_difference(c, k, s, ev);
	s->captured |= ev->capture != 0;
	who_add(&s->who, i);
	if (ev->start_ns < s->first_ns)
		s->first_ns = ev->start_ns;
	/* If ranks start at the same time, the highest one counts as last, in any order of
	 * lines. */
	if (ev->start_ns > s->last_ns ||
	    (ev->start_ns == s->last_ns && k->rank > c->ranks[s->last_rank].rank)) {
		s->last_ns = ev->start_ns;
		s->last_rank = i;
	}
}

bool communication_is_small(const struct trace_event *ev)
{
	return !ev->is_error && (ev->has & HAS_BYTES) && !ev->coll.group &&
	       ev->coll.bytes < SMALL_SZ;
}

static void note_small(struct communication *x, const struct trace_event *ev)
{
	if (!communication_is_small(ev))
		return;
	keys_get(&x->small_threads, thread_key(ev->pid, ev->tid), MEMLIMIT_THREADS_MAX,
		 MEMLIMIT_THREADS);
	x->res.small_threads = x->small_threads.cnt;
	x->res.small_ns += event_duration_ns(ev);
	spread__add(&x->small, ev->start_ns, event_duration_ns(ev));
	if (!x->res.small_cnt++)
		x->res.small_at_ns = ev->start_ns;
}

static void on_call(struct communication *x, const struct trace_event *ev)
{
	struct coll_comm *c = comm_of(x, ev);
	struct coll_op *o = c ? op_of(c, ev->fn->op) : NULL;
	struct coll_rank *k = c ? rank_of(x, c, ev) : NULL;
	unsigned i = 0;

	if (!o)
		return;
	x->res.call_cnt++;
	o->cnt++;
	o->grouped_cnt += ev->coll.group != 0;
	o->error_cnt += ev->is_error;
	o->unfinished_cnt += ev->unfinished;
	o->host_ns += event_duration_ns(ev);
	if (event_duration_ns(ev) > o->host_max_ns)
		o->host_max_ns = event_duration_ns(ev);
	if (ev->is_error)
		return;
	while (i + 1 < SIZES && ev->coll.bytes >= size_below(i))
		i++;
	o->sizes[i] += (ev->has & HAS_BYTES) != 0;
	o->bytes += ev->coll.bytes;
	note_small(x, ev);
	comm_gpu_await(x, ev, c, o - c->ops);
	if (!k || !ev->coll.seq)
		return;
	k->unknown = ev->coll.seq_partial;
	if (!k->unknown)
		arrive(x, c, k, ev);
}

/* A collective may be lost: sequence numbers no longer match those of other ranks. */
static void on_lost(struct communication *x, const struct trace_event *ev)
{
	uint32_t *last = grow(x->last_loss, &x->last_loss_cap, ev->trace + 1, sizeof(*last),
			      MEMLIMIT_TRACES);

	if (!last)
		return;
	x->last_loss = last;
	last[ev->trace] = ++x->loss_cnt;
}

static void communication_event(void *a, const struct trace_event *ev)
{
	struct communication *x = a;

	if (ev->kind == EVENT_GPU) {
		comm_gpu_add(x, ev);
		return;
	}
	if (ev->kind == EVENT_JOB)
		comm_add_job(x, ev);
	if (ev->kind == EVENT_PROCESS && !strcmp(ev->op, "exit"))
		keys_get(&x->ended, ev->pid, GONE_MAX, MEMLIMIT_PROCESSES);
	if (ev->kind == EVENT_TRACER && !strcmp(ev->op, "lost"))
		on_lost(x, ev);
	if (ev->kind != EVENT_CALL || !ev->fn || ev->abandoned)
		return;
	if (call_does(ev, DOES_LAUNCH)) {
		comm_gpu_launch(x, ev);
		return;
	}
	if (ev->type != TYPE_COLLECTIVE || !comm_gpu_has_room(x))
		return;
	/* ncclBcast() calls ncclBroadcast(), which launches; only the outer call is counted. */
	if (!call_is_outer(ev)) {
		comm_gpu_inner(x, ev);
		return;
	}
	if (call_does(ev, DOES_COLLECTIVE | DOES_PEER)) {
		on_call(x, ev);
	} else if (ev->fn->op == OP_GROUP_END) {
		comm_gpu_group_end(x, ev);
	} else if (ev->fn->op == OP_INIT && ev->has & HAS_COMM) {
		/* From now on this rank may be late. */
		struct coll_comm *c = comm_of(x, ev);

		if (c)
			rank_of(x, c, ev);
	}
}

/* Ranks that have joined. A rank with a later collective has joined, too: its line may be lost or
 * untraced. */
static struct coll_who who_came(const struct coll_comm *c, const struct coll_slot *s)
{
	struct coll_who who = s->who;

	for (unsigned i = 0; i < c->rank_cnt; i++)
		if (c->ranks[i].seq > s->seq)
			who_add(&who, i);
	return who;
}

/* Finds the first collective that only some ranks have joined. */
static void find_open(struct communication *x, struct coll_comm *c)
{
	static const struct coll_who none;
	struct communication_result *res = &x->res;
	uint64_t until, waits;
	unsigned missing = 0;

	for (unsigned i = 0; c->slots && i < SLOTS; i++) {
		const struct coll_slot *s = &c->slots[i];

		struct coll_who who;

		if (!s->seq || (c->open.seq && s->seq > c->open.seq))
			continue;
		who = who_came(c, s);
		if (who_cnt(&who) < c->rank_cnt)
			c->open = *s;
	}
	if (!c->open.seq)
		return;
	c->open.who = who_came(c, &c->open);
	until = seen_until(x, c, &none);
	waits = until > c->open.first_ns ? until - c->open.first_ns : 0;
	c->open_ns = waits;
	if (waits < OPEN_NS) {
		c->open.seq = 0;
		return;
	}
	if (waits <= res->open_ns)
		return;
	res->open_seq = c->open.seq;
	res->open_ns = waits;
	res->open_at_ns = c->open.first_ns;
	res->open_in_cnt = who_cnt(&c->open.who);
	while (who_has(&c->open.who, missing))
		missing++;
	res->open_pid = c->ranks[missing].pid;
}

/* In order of sequence numbers: lateness depends on time order. */
static void settle_rest(struct communication *x, struct coll_comm *c)
{
	uint64_t most = 0;

	for (unsigned i = 0; c->slots && i < SLOTS; i++)
		most = c->slots[i].seq > most ? c->slots[i].seq : most;
	/* Counts slots, not numbers: a trace may contain the largest number. */
	for (unsigned i = 0; most && i < SLOTS; i++) {
		struct coll_slot *s = &c->slots[(most + 1 + i) % SLOTS];

		if (!c->open.seq || s->seq < c->open.seq)
			settle(x, c, s);
	}
}

static void communication_finish(void *a)
{
	struct communication *x = a;

	comm_find_job(x);
	for (unsigned n = 0; n < x->keys.cnt; n++) {
		struct coll_comm *c = x->comms[n];
		bool joined;

		for (unsigned i = 0; i < c->rank_cnt; i++)
			note_losses(x, &c->ranks[i]);
		joined = c->rank_cnt > 1 && !comm_is_partial(c) && !c->is_apart;
		if (joined)
			find_open(x, c);
		settle_rest(x, c);
		if (joined)
			continue;
		/* Unmatched collectives are neither joined nor late. */
		comm_late_drop(x, c);
		c->joined_cnt = c->late_cnt = c->differ_cnt = c->missed_cnt = 0;
		for (unsigned i = 0; i < c->rank_cnt; i++)
			c->ranks[i].late_cnt = c->ranks[i].late_ns = c->ranks[i].late_max_ns =
				c->ranks[i].last_cnt = 0;
	}
	comm_late_finish(x);
}

double coll_busbw(const struct coll_comm *c, const struct coll_op *o)
{
	return ratio_of(o->gpu_bytes * nccl_bus_factor(o->op, c->nranks), o->gpu_ns);
}

void communication_result(const struct report *r, struct communication_result *res)
{
	const struct communication *x = r->an[AN_COMMUNICATION];

	*res = x ? x->res : (struct communication_result){0};
	if (!x)
		return;
	res->late = &x->late;
	res->small = &x->small;
}

static void communication__free(void *a)
{
	struct communication *x = a;

	for (unsigned i = 0; i < x->keys.cnt; i++) {
		memlimit_free(x->comms[i]->slots);
		memlimit_free(x->comms[i]->ranks);
		memlimit_free(x->comms[i]);
	}
	keys__free(&x->keys);
	keys__free(&x->ended);
	keys__free(&x->proc_keys);
	memlimit_free(x->procs);
	keys__free(&x->small_threads);
	memlimit_free(x->comms);
	memlimit_free(x->lates);
	memlimit_free(x->waits);
	memlimit_free(x->last_loss);
	memlimit_free(x->calls);
	memlimit_free(x->launches);
	free(x);
}

const struct analysis_ops communication_ops = {
	.name = "communication",
	.size = STATE_SIZE(struct communication),
	.event = communication_event,
	.finish = communication_finish,
	.section = &communication_table,
	.print = communication_print,
	.free = communication__free,
	.of_args = true,
	.needs = "collective",
};
