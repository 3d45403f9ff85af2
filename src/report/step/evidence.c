/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Calls of the trace that show what findings are about. */
#include "step_priv.h"

#include <stdlib.h>
#include <string.h>

#include "report/layers/communication.h"

#define ON_PATH "the call, on the critical path"

void step_example_add(struct step_examples *to, const struct step_example *x)
{
	unsigned i = to->cnt;

	if (i == STEP_EXAMPLES) {
		if (to->of[i - 1].ns >= x->ns)
			return;
		i--;
	} else {
		to->cnt++;
	}
	for (; i && to->of[i - 1].ns < x->ns; i--)
		to->of[i] = to->of[i - 1];
	to->of[i] = *x;
}

/* The time since the end of what an execution had to wait for, if it waited for its call then. */
static uint64_t idle_before(const struct step_graph *g, const struct step_exec *x)
{
	uint64_t ready_ns = 0;

	for (unsigned b = 0; b < 2; b++)
		if (x->before[b] != STEP_NONE && g->execs[x->before[b]].end_ns > ready_ns)
			ready_ns = g->execs[x->before[b]].end_ns;
	return ready_ns && step_requested_ns(g, x) > ready_ns ? x->start_ns - ready_ns : 0;
}

static void add_launch(struct steps *s, const struct step_exec *x)
{
	const struct step_call *c = &s->graph.calls[x->call];
	uint64_t ns = idle_before(&s->graph, x);

	if (ns)
		step_example_add(&s->res.launches,
				 &(struct step_example){
					 .what = "without work before its execution",
					 .fn = c->fn,
					 .call_id = c->id,
					 .begin_ns = x->start_ns - ns,
					 .ns = ns,
					 .pid = c->pid,
				 });
}

static void on_piece(struct steps *s, const struct step_piece *p)
{
	const struct step_graph *g = &s->graph;
	const struct step_call *c = &g->calls[p->call];
	struct step_example x = {.fn = c->fn,
				 .call_id = c->id,
				 .begin_ns = p->begin_ns,
				 .ns = p->end_ns - p->begin_ns,
				 .pid = c->pid};

	if (p->kind == STEP_COMMUNICATION) {
		x.what = "its NCCL kernel on the critical path";
		step_example_add(&s->res.topics[STEP_TOPIC_COMM].examples, &x);
	} else if (p->kind == STEP_PLAN) {
		x.what = ON_PATH;
		/* Not the time before it. */
		if (p->begin_ns >= c->start_ns)
			step_example_add(&s->res.plans, &x);
	} else if (!c->launches) {
		return;
	} else if (p->exec != STEP_NONE && p->begin_ns == g->execs[p->exec].start_ns) {
		add_launch(s, &g->execs[p->exec]);
	} else if (p->kind == STEP_LAUNCH && !g->exec_cnt) {
		x.what = ON_PATH;
		step_example_add(&s->res.launches, &x);
	}
}

void step_path_examples(struct steps *s, const struct step_window *windows, uint64_t cnt)
{
	const struct step_graph *g = &s->graph;
	bool has_any;

	for (uint32_t i = 0; i < s->path.cnt; i++) {
		const struct step_piece *p = &s->path.pieces[i];

		if (p->call != STEP_NONE && p->begin_ns >= windows[0].begin_ns &&
		    p->end_ns <= windows[cnt - 1].end_ns)
			on_piece(s, p);
	}
	has_any = s->res.launches.cnt;
	/* If no step waits for the GPU, no execution is on the path. */
	for (uint32_t i = 0; i < g->exec_cnt && !has_any; i++) {
		const struct step_exec *x = &g->execs[i];

		if (x->call != STEP_NONE && g->calls[x->call].launches &&
		    x->start_ns >= windows[0].begin_ns && x->end_ns <= windows[cnt - 1].end_ns)
			add_launch(s, x);
	}
}

/* The collective that the process began at this time; NULL: it is not kept. */
static const struct step_call *collective_at(const struct steps *s, uint32_t pid, uint64_t ns)
{
	const struct step_call *calls = s->calls.rows;

	for (uint32_t i = 0; i < s->calls.cnt; i++)
		if (calls[i].start_ns == ns && calls[i].pid == pid && calls[i].fn->api == API_NCCL)
			return &calls[i];
	return NULL;
}

static int by_lateness(const void *a, const void *b)
{
	const struct communication_wait *x = a, *y = b;

	return y->by_ns > x->by_ns ? 1 : y->by_ns < x->by_ns ? -1 : 0;
}

void step_late_make(struct steps *s, uint64_t from_ns)
{
	struct communication_late late = {.pid = s->res.late_pid};
	struct communication_wait *waits;
	int cnt;

	if (!late.pid && !communication_late(s->r, from_ns, UINT64_MAX, &late))
		return;
	cnt = communication_waits(s->r, late.pid, late.pid, &waits);
	if (cnt > 0)
		qsort(waits, cnt, sizeof(*waits), by_lateness);
	for (int i = 0, n = 0; i < cnt && n < STEP_EXAMPLES; i++) {
		const struct step_call *c;

		if (waits[i].to_ns < from_ns)
			continue;
		n++;
		c = collective_at(s, late.pid, waits[i].from_ns + waits[i].by_ns);
		if (c)
			step_example_add(&s->lates, &(struct step_example){
							    .what = "other ranks waited for it",
							    .fn = c->fn,
							    .call_id = c->id,
							    .begin_ns = waits[i].from_ns,
							    .ns = waits[i].by_ns,
							    .pid = late.pid,
						    });
	}
	free(waits);
}
