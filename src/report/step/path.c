/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The critical path: from the end of the last step back to the begin of the first, always to what
 * ended last of all that the current piece had to wait for. On the host that is the call or the
 * time before it, for a blocked wait the execution that it waited for; on the GPU the execution
 * before it, or the launch call if the GPU was ready earlier.
 */
#include "step_priv.h"

#include <stdlib.h>
#include <string.h>

#include "report/layers/communication.h"
#include "util/order.h"

#define STUCK 16 /* steps without progress */

struct walk {
	struct steps *s;
	const struct step_graph *g;
	uint64_t from_ns, t;
	unsigned thread;
	uint32_t exec;	   /* position on the GPU; STEP_NONE: on the host */
	uint32_t launched; /* the walk came from an execution of this call */
	uint32_t next;	   /* host call after t */
	unsigned stuck;
	bool is_failed;
	struct communication_wait *waits; /* for late ranks, latest first */
	int wait_cnt;
	int wait; /* the first of them that the walk has not passed */
};

static void add(struct walk *w, uint64_t begin, enum step_kind kind, uint32_t call, uint32_t exec)
{
	struct step_path *p = &w->s->path;
	struct step_piece *pieces;
	uint32_t cap;

	if (begin < w->from_ns)
		begin = w->from_ns;
	if (begin >= w->t)
		return;
	if (p->cnt == p->cap) {
		cap = p->cap ? 2 * p->cap : 1024;
		pieces = realloc(p->pieces, cap * sizeof(*pieces));
		if (!pieces) {
			w->is_failed = true;
			return;
		}
		p->pieces = pieces;
		p->cap = cap;
	}
	p->pieces[p->cnt++] = (struct step_piece){
		.begin_ns = begin, .end_ns = w->t, .call = call, .exec = exec, .kind = kind};
	w->t = begin;
	w->stuck = 0;
}

const struct step_seg *step_seg_before(const struct step_graph *g, unsigned thread, uint64_t ns)
{
	const struct step_seg *segs = g->segs + g->threads[thread].first;
	uint32_t n = COUNT_LEADING(i, g->threads[thread].cnt, segs[i].start_ns < ns);

	return n ? &segs[n - 1] : NULL;
}

uint64_t step_blocked_until(const struct steps *s, uint32_t call)
{
	const struct step_graph *g = &s->graph;
	const struct step_call *c = &g->calls[call];
	uint32_t x = g->target[call];
	uint64_t end;

	if (!c->waits && !c->may_wait)
		return 0;
	if (!g->exec_cnt)
		return c->waits ? c->end_ns : 0;
	if (x == STEP_NONE)
		return 0;
	end = g->execs[x].end_ns;
	if (end <= c->start_ns)
		return 0;
	if (end > c->end_ns)
		return c->waits ? c->end_ns : 0;
	return end;
}

uint64_t step_requested_ns(const struct step_graph *g, const struct step_exec *x)
{
	const struct step_call *c = &g->calls[x->call];

	return (c->waits || c->may_wait) && x->start_ns < c->end_ns ? c->start_ns : c->end_ns;
}

unsigned step_thread_of(const struct step_graph *g, uint32_t call)
{
	for (unsigned i = 0; i < g->thread_cnt; i++)
		if (g->threads[i].tid == g->calls[call].tid)
			return i;
	return 0;
}

/* Work alternates between threads (backward of PyTorch): the one that was in a call last before t
 * did the work that the current thread waited for. */
static unsigned active_thread(const struct walk *w, const struct step_seg **seg)
{
	const struct step_graph *g = w->g;
	unsigned best = w->thread;
	uint64_t end = *seg ? (*seg)->end_ns : 0;

	for (unsigned i = 0; i < g->thread_cnt; i++) {
		const struct step_seg *other;

		if (i == w->thread || (i && !g->threads[i].alternates))
			continue;
		other = step_seg_before(g, i, w->t);
		if (!other || other->end_ns <= end || other->end_ns > w->t)
			continue;
		best = i;
		end = other->end_ns;
		*seg = other;
	}
	return best;
}

/* Returns the kind of the time before the call that the walk was in last. */
static enum step_kind kind_before(const struct walk *w)
{
	const struct step_seg *next = step_seg_before(w->g, w->thread, w->t + 1);

	return next && next->start_ns == w->t && next->is_plan_before ? STEP_PLAN : STEP_BETWEEN;
}

static enum step_kind kind_of(const struct step_call *c, const struct step_seg *seg)
{
	if (c->waits && c->kind == STEP_CALL)
		return STEP_RETURN;
	if (seg->is_plan)
		return STEP_PLAN;
	return c->kind == STEP_PLAN ? STEP_LIBRARY : c->kind;
}

/* In this time, ranks that take part in a collective wait for those that come later. */
static void add_collective(struct walk *w, uint64_t begin, enum step_kind kind, uint32_t call,
			   uint32_t exec)
{
	const struct step_path *path = &w->s->path;
	const struct communication_wait *wait;
	uint32_t first;

	if (begin < w->from_ns)
		begin = w->from_ns;
	for (; w->t > begin && w->wait < w->wait_cnt; w->wait++) {
		wait = &w->waits[w->wait];
		if (wait->to_ns <= begin)
			break;
		/* The walk only goes back. */
		if (wait->from_ns >= w->t)
			continue;
		add(w, wait->to_ns, kind, call, exec);
		first = path->cnt;
		add(w, wait->from_ns > begin ? wait->from_ns : begin, STEP_RANK, call, exec);
		if (path->cnt > first)
			path->pieces[first].late_pid = wait->pid;
		/* The rest of it may be in an earlier piece. */
		if (wait->from_ns < begin)
			break;
	}
	add(w, begin, kind, call, exec);
}

static void walk_host(struct walk *w)
{
	const struct step_graph *g = w->g;
	const struct step_seg *seg = step_seg_before(g, w->thread, w->t);
	const struct step_call *c;
	enum step_kind kind;
	uint64_t until;

	if (!seg || seg->end_ns < w->t) {
		kind = kind_before(w);
		w->thread = active_thread(w, &seg);
		add(w, seg ? seg->end_ns : w->from_ns, kind, w->next, STEP_NONE);
		w->launched = STEP_NONE;
		return;
	}
	c = &g->calls[seg->call];
	until = seg->call == w->launched || w->stuck > STUCK ? 0
							     : step_blocked_until(w->s, seg->call);
	w->next = seg->call;
	if (until <= seg->start_ns) {
		add(w, seg->start_ns, kind_of(c, seg), seg->call, STEP_NONE);
		return;
	}
	if (!g->exec_cnt) {
		add_collective(w, seg->start_ns, STEP_WAIT, seg->call, STEP_NONE);
		return;
	}
	add(w, until, STEP_RETURN, seg->call, STEP_NONE);
	w->exec = g->target[seg->call];
}

/* Adds the gap before an execution for which the GPU was ready at this time. */
static void add_gap(struct walk *w, const struct step_exec *x, uint64_t ready_ns)
{
	const struct step_call *c = x->call == STEP_NONE ? NULL : &w->g->calls[x->call];

	if (c && c->end_ns > x->start_ns) /* the host was in the call */
		add(w, ready_ns, c->kind, x->call, STEP_NONE);
	else
		add(w, ready_ns, STEP_GAP, x->call, w->exec);
}

static void walk_gpu(struct walk *w)
{
	const struct step_graph *g = w->g;
	const struct step_exec *x = &g->execs[w->exec];
	const struct step_exec *p = NULL;
	uint32_t before = x->before[0];

	if (x->kind == STEP_COMMUNICATION)
		add_collective(w, x->start_ns, x->kind, x->call, w->exec);
	else
		add(w, x->start_ns, x->kind, x->call, w->exec);
	if (before == STEP_NONE || (x->before[1] != STEP_NONE && x->before[1] > before))
		before = x->before[1];
	if (before != STEP_NONE)
		p = &g->execs[before];
	if (p && (x->call == STEP_NONE || step_requested_ns(g, x) <= p->end_ns)) {
		add_gap(w, x, p->end_ns);
		w->exec = before;
		return;
	}
	w->launched = x->call;
	if (x->call != STEP_NONE) {
		add(w, g->calls[x->call].end_ns, STEP_LATENCY, x->call, w->exec);
		w->thread = step_thread_of(g, x->call);
		w->next = x->call;
	} else {
		w->thread = 0;
	}
	w->exec = STEP_NONE;
}

bool step_path_make(struct steps *s, uint64_t from_ns, uint64_t to_ns)
{
	struct walk w = {.s = s,
			 .g = &s->graph,
			 .from_ns = from_ns,
			 .t = to_ns,
			 .exec = STEP_NONE,
			 .launched = STEP_NONE,
			 .next = STEP_NONE};

	w.wait_cnt = communication_waits(s->r, s->graph.calls[0].pid, 0, &w.waits);
	w.wait_cnt = w.wait_cnt > 0 ? w.wait_cnt : 0;
	while (w.t > from_ns && !w.is_failed) {
		w.stuck++;
		if (w.exec != STEP_NONE && w.stuck <= STUCK)
			walk_gpu(&w);
		else if (w.stuck <= 2 * STUCK)
			w.exec = STEP_NONE, walk_host(&w);
		else
			add(&w, from_ns, STEP_REST, STEP_NONE, STEP_NONE);
	}
	free(w.waits);
	return !w.is_failed;
}
