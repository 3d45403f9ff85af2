/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Replays the steps with changes: those of --what-if, and those that may bring something. */
#include "replay_priv.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/layers/communication.h"

#define BEST  3	   /* changes that are proposed */
#define WORTH 0.01 /* share of the steps' time that a proposed change saves at least */
#define RARE  0.25 /* share of the steps whose gain alone is chance */

/* The steps, and a value of each. */
struct replayed {
	struct step_sim *m;
	const struct step_window *windows;
	uint64_t cnt, *buf, *saved;
	uint64_t *unchanged; /* lengths without a change: the first of all replays */
};

/* Replayed lengths of the steps: their quartiles and sum. */
static void measure(const struct replayed *r, const struct step_change *changes,
		    unsigned change_cnt, struct step_what_if *to)
{
	uint64_t cnt = r->cnt, *buf = change_cnt ? r->buf : r->unchanged;
	uint64_t saved_ns = 0, all_ns = 0;

	step_replay(r->m, changes, change_cnt);
	to->total_ns = 0;
	for (uint64_t i = 0; i < cnt; i++) {
		int64_t ns = step_replayed(r->m, r->windows[i].end_ns) -
			     step_replayed(r->m, r->windows[i].begin_ns);

		buf[i] = ns > 0 ? ns : 0;
		to->total_ns += buf[i];
		all_ns += r->unchanged[i];
		r->saved[i] = buf[i] < r->unchanged[i] ? r->unchanged[i] - buf[i] : 0;
	}
	sort_values(r->saved, cnt);
	for (uint64_t i = 0; i < cnt - (uint64_t)ceil(RARE * cnt); i++)
		saved_ns += r->saved[i];
	to->is_usual = saved_ns >= WORTH * all_ns;
	memmove(r->buf, buf, cnt * sizeof(*buf));
	buf = r->buf;
	sort_values(buf, cnt);
	to->step_ns = buf[(cnt - 1) / 2];
	to->low_ns = buf[(cnt - 1) / 4];
	to->high_ns = buf[cnt - 1 - (cnt - 1) / 4];
	to->change = change_cnt ? changes[0] : (struct step_change){0};
}

static void keep_best(struct step_result *res, unsigned first, const struct step_what_if *w)
{
	unsigned i = res->what_if_cnt;

	if (w->total_ns + WORTH * res->unchanged.total_ns > res->unchanged.total_ns ||
	    (w->change.kind == CHANGE_NO_WAIT && !w->is_usual))
		return;
	if (i - first == BEST) {
		if (res->what_ifs[i - 1].total_ns <= w->total_ns)
			return;
		i--;
	} else {
		res->what_if_cnt++;
	}
	for (; i > first && res->what_ifs[i - 1].total_ns > w->total_ns; i--)
		res->what_ifs[i] = res->what_ifs[i - 1];
	res->what_ifs[i] = *w;
}

/* The changes that show what a topic costs. */
static struct step_change change_of(const struct step_result *res, enum step_topic topic)
{
	switch (topic) {
	case STEP_TOPIC_PINNED:
		return (struct step_change){.kind = CHANGE_PINNED};
	case STEP_TOPIC_OVERLAP:
		return (struct step_change){.kind = CHANGE_OVERLAP};
	case STEP_TOPIC_COMM:
		return (struct step_change){.kind = CHANGE_OVERLAP_COMM};
	case STEP_TOPIC_LATE:
		return (struct step_change){.kind = CHANGE_ON_TIME, .pid = res->late_pid};
	default:
		return (struct step_change){.kind = CHANGE_TOPIC, .topic = topic};
	}
}

/* Keeps the place of a topic's longest call in the steps. */
static void note_topic(const struct step_graph *g, uint32_t call, bool is_in,
		       struct step_topic_row *t)
{
	const struct step_call *c = &g->calls[call];
	uint64_t ns = c->end_ns - c->start_ns;

	t->cnt++;
	if (!is_in)
		return;
	step_example_add(&t->examples, &(struct step_example){
					       .what = "the call",
					       .fn = c->fn,
					       .call_id = c->id,
					       .begin_ns = c->start_ns,
					       .ns = ns,
					       .pid = c->pid,
				       });
	if (ns <= t->longest_ns)
		return;
	t->longest_ns = ns;
	t->place = (struct step_part){
		.call_id = c->id,
		.fn = c->fn,
		.operator= c->operator,
		.frame = step_python_frame(g, call),
	};
}

static void count_executions(const struct step_graph *g, struct step_result *res)
{
	uint64_t joined = 0;

	for (uint32_t i = 0; i < g->exec_cnt; i++) {
		res->topics[STEP_TOPIC_COMM].cnt += g->execs[i].kind == STEP_COMMUNICATION;
		joined += g->execs[i].call != STEP_NONE;
	}
	res->is_joined = 2 * joined >= g->exec_cnt;
}

/* Counts what the topics concern. Those that are about what the GPU does have nothing without GPU
 * times. */
static void count_topics(const struct replayed *r, struct step_result *res)
{
	const struct step_graph *g = r->m->g;
	uint64_t w = 0;

	for (uint32_t i = 0; i < g->call_cnt; i++) {
		const struct step_call *c = &g->calls[i];
		unsigned topics = c->topics | (unsigned)c->is_pageable << STEP_TOPIC_PINNED |
				  (unsigned)c->is_htod << STEP_TOPIC_OVERLAP;
		bool is_in;

		if (!topics)
			continue;
		while (w < r->cnt && r->windows[w].end_ns <= c->start_ns)
			w++;
		is_in = w < r->cnt && r->windows[w].begin_ns <= c->start_ns;
		for (unsigned topic = 0; topics >> topic; topic++)
			if (topics >> topic & 1)
				note_topic(g, i, is_in, &res->topics[topic]);
	}
	count_executions(g, res);
	res->topics[STEP_TOPIC_IDLE].cnt =
		step_idle_make(r->m, &res->topics[STEP_TOPIC_IDLE].examples);
	res->topics[STEP_TOPIC_LATE].cnt = res->late_pid != 0;
	if (g->exec_cnt)
		return;
	res->topics[STEP_TOPIC_WAIT].cnt = res->topics[STEP_TOPIC_PINNED].cnt = 0;
	res->topics[STEP_TOPIC_OVERLAP].cnt = res->topics[STEP_TOPIC_LATE].cnt = 0;
}

/* What the last of the changes saves on top of the others. */
static uint64_t saved_by_last(const struct replayed *r, const struct step_change *changes,
			      unsigned cnt, uint64_t without_ns)
{
	struct step_what_if w;

	measure(r, changes, cnt, &w);
	/* Without waits, the GPU's work also hides rare pauses of the host. */
	if (changes->kind == CHANGE_TOPIC && changes->topic == STEP_TOPIC_WAIT && !w.is_usual)
		return 0;
	return w.total_ns < without_ns ? without_ns - w.total_ns : 0;
}

/* No idle time between iterations, a graph, or with graphs a host that costs nothing would also
 * save what other findings are about, which has easier remedies. */
static void measure_rest(const struct replayed *r, bool would_graph, struct step_result *res)
{
	static const enum step_topic easier[] = {STEP_TOPIC_ALLOC, STEP_TOPIC_MODULE,
						 STEP_TOPIC_GRAPH, STEP_TOPIC_QUERY,
						 STEP_TOPIC_PINNED};
	struct step_change changes[16] = {{.kind = CHANGE_PLANS}};
	struct step_what_if w = res->unchanged;
	unsigned cnt = res->plans_saved_ns != 0;

	for (unsigned i = 0; i < sizeof(easier) / sizeof(easier[0]); i++)
		if (res->topics[easier[i]].saved_ns)
			changes[cnt++] = change_of(res, easier[i]);
	if (cnt)
		measure(r, changes, cnt, &w);
	changes[cnt] = change_of(res, STEP_TOPIC_IDLE);
	if (res->topics[STEP_TOPIC_IDLE].cnt)
		res->topics[STEP_TOPIC_IDLE].saved_ns =
			saved_by_last(r, changes, cnt + 1, w.total_ns);
	changes[cnt] = (struct step_change){.kind = would_graph ? CHANGE_GRAPH : CHANGE_HOST};
	res->host_saved_ns = saved_by_last(r, changes, cnt + 1, w.total_ns);
	changes[cnt++] = change_of(res, STEP_TOPIC_IDLE);
	for (unsigned i = STEP_GAP_INPUT; i < STEP_GAP_CNT; i++)
		if (res->gaps[i].cnt)
			changes[cnt++] = (struct step_change){.kind = CHANGE_GAPS, .gap = i};
	measure(r, changes, cnt, &w);
	changes[cnt] = change_of(res, STEP_TOPIC_BETWEEN);
	res->topics[STEP_TOPIC_BETWEEN].saved_ns = saved_by_last(r, changes, cnt + 1, w.total_ns);
}

/* What each finding about steps gains. */
static void measure_findings(const struct replayed *r, bool would_graph, struct step_result *res)
{
	uint64_t all_ns = res->unchanged.total_ns;
	struct step_change changes[2] = {{.kind = CHANGE_PLANS}};

	res->plans_saved_ns = saved_by_last(r, changes, 1, all_ns);
	for (unsigned i = STEP_GAP_INPUT; i < STEP_GAP_CNT; i++) {
		changes[0] = (struct step_change){.kind = CHANGE_GAPS, .gap = i};
		if (res->gaps[i].cnt)
			res->gaps[i].saved_ns = saved_by_last(r, changes, 1, all_ns);
	}
	count_topics(r, res);
	for (unsigned topic = 0; topic < STEP_TOPIC_IDLE; topic++) {
		uint64_t pinned_ns = all_ns - res->topics[STEP_TOPIC_PINNED].saved_ns;
		bool is_second = topic == STEP_TOPIC_OVERLAP && pinned_ns < all_ns;

		if (!res->topics[topic].cnt)
			continue;
		changes[0] = change_of(res, STEP_TOPIC_PINNED);
		changes[is_second] = change_of(res, topic);
		res->topics[topic].saved_ns =
			saved_by_last(r, changes, 1 + is_second, is_second ? pinned_ns : all_ns);
	}
	measure_rest(r, would_graph, res);
}

/* Replays each requested change alone, then all together. */
static void replay_asked(struct steps *s, const struct replayed *r)
{
	const struct report_opts *o = &s->r->opts;
	struct step_result *res = &s->res;
	struct step_what_if *w;

	for (unsigned i = 0; i < o->change_cnt; i++) {
		w = &res->what_ifs[res->what_if_cnt++];
		measure(r, &o->changes[i], 1, w);
		w->is_asked = true;
	}
	if (o->change_cnt < 2)
		return;
	w = &res->what_ifs[res->what_if_cnt++];
	measure(r, o->changes, o->change_cnt, w);
	w->is_asked = true;
	w->change = (struct step_change){.text = "all of these"};
}

static bool is_asked(const struct report *r, const struct step_change *c)
{
	unsigned i = 0;

	while (i < r->opts.change_cnt && strcmp(r->opts.changes[i].text, c->text) != 0)
		i++;
	return i < r->opts.change_cnt;
}

void step_what_ifs_make(struct steps *s, const struct step_window *windows, uint64_t cnt,
			bool has_graphs)
{
	static const struct step_change no_host = {.kind = CHANGE_HOST},
					no_gpu = {.kind = CHANGE_GPU};
	uint64_t *buf = malloc(3 * cnt * sizeof(*buf));
	struct replayed r = {
		step_sim_new(s, windows, cnt), windows, cnt, buf, buf + cnt, buf + 2 * cnt};
	struct step_result *res = &s->res;
	struct communication_late late;
	struct step_what_if w = {0};
	struct step_change_list l = {0};
	unsigned first;

	for (uint64_t i = 0; i < cnt; i++)
		res->total_ns += windows[i].end_ns - windows[i].begin_ns;
	if (r.m && buf) {
		measure(&r, NULL, 0, &res->unchanged);
		measure(&r, &no_host, 1, &res->no_host);
		measure(&r, &no_gpu, 1, &res->no_gpu);
		if (communication_late(s->r, windows[0].begin_ns, windows[cnt - 1].end_ns, &late))
			res->late_pid = late.pid;
		measure_findings(&r, s->graph.exec_cnt && !has_graphs, res);
		replay_asked(s, &r);
		step_match_changes(s);
		step_propose(r.m, has_graphs, &l);
		first = res->what_if_cnt;
		for (unsigned i = 0; i < l.cnt; i++) {
			if (is_asked(s->r, &l.of[i]))
				continue;
			measure(&r, &l.of[i], 1, &w);
			keep_best(res, first, &w);
		}
	}
	step_sim_free(r.m);
	free(buf);
}
