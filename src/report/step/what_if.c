/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Replays the steps with changes: those of --what-if, and those that may bring something. */
#include "step_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/layers/communication.h"

#define BEST	   3	/* changes that are proposed */
#define WORTH	   0.01 /* share of the steps' time that a proposed change saves at least */
#define CANDIDATES (5 + 2 * STEP_PARTS)

struct list {
	struct step_change of[CANDIDATES];
	unsigned cnt;
};

/* Replayed lengths of the steps: their quartiles and sum. */
static void measure(struct step_sim *m, const struct step_window *windows, uint64_t cnt,
		    const struct step_change *changes, unsigned change_cnt, uint64_t *buf,
		    struct step_what_if *to)
{
	step_replay(m, changes, change_cnt);
	to->total_ns = 0;
	for (uint64_t i = 0; i < cnt; i++) {
		int64_t ns =
			step_replayed(m, windows[i].end_ns) - step_replayed(m, windows[i].begin_ns);

		buf[i] = ns > 0 ? ns : 0;
		to->total_ns += buf[i];
	}
	sort_values(buf, cnt);
	to->step_ns = buf[(cnt - 1) / 2];
	to->low_ns = buf[(cnt - 1) / 4];
	to->high_ns = buf[cnt - 1 - (cnt - 1) / 4];
	to->change = change_cnt ? changes[0] : (struct step_change){0};
}

static void propose(struct list *l, const char *fmt, const char *name)
{
	char text[CHANGE_NAME + 16];
	int len = snprintf(text, sizeof(text), fmt, name);

	if (l->cnt == CANDIDATES || len < 0 || (size_t)len >= sizeof(text))
		return;
	for (unsigned i = 0; i < l->cnt; i++)
		if (!strcmp(l->of[i].text, text))
			return;
	if (step_change_read(text, len, &l->of[l->cnt]))
		l->cnt++;
}

/* Changes to the parts of the median step that a program can do without. */
static void propose_all(const struct steps *s, bool has_graphs, struct list *l)
{
	const struct step *m = &s->res.steps[STEP_MEDIAN];
	struct communication_late late;
	char number[16];
	uint32_t rank;

	if (communication_late(s->r, 0, UINT64_MAX, &late) &&
	    communication_rank(s->r, late.pid, &rank)) {
		snprintf(number, sizeof(number), "%u", rank);
		propose(l, "on-time:%s", number);
	}
	if (s->graph.exec_cnt && !has_graphs)
		propose(l, "%s", "graph");
	propose(l, "%s", "plans");
	if (s->graph.exec_cnt) {
		propose(l, "%s", "pinned");
		propose(l, "%s", "overlap-copies");
	}
	for (unsigned i = 0; i < m->part_cnt; i++) {
		const struct step_part *p = &m->parts[i];

		if (!p->name)
			continue;
		if (p->kind == STEP_MEMORY || p->kind == STEP_MODULE || p->kind == STEP_BUILD_GRAPH)
			propose(l, "drop:%s", p->name);
		else if (p->kind == STEP_RETURN && s->graph.exec_cnt)
			propose(l, "no-wait:%s", p->name);
		else if (p->kind == STEP_COMMUNICATION)
			propose(l, "%s", "overlap-comm");
	}
}

static void keep_best(struct step_result *res, unsigned first, const struct step_what_if *w)
{
	unsigned i = res->what_if_cnt;

	if (w->total_ns + WORTH * res->unchanged.total_ns > res->unchanged.total_ns)
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

/* The changes that show what a topic costs. Returns their number. */
static unsigned changes_of(const struct step_result *res, enum step_topic topic,
			   struct step_change changes[2])
{
	changes[0] = (struct step_change){.kind = CHANGE_TOPIC, .topic = topic};
	changes[1] = (struct step_change){.kind = CHANGE_OVERLAP};
	if (topic == STEP_TOPIC_PINNED || topic == STEP_TOPIC_OVERLAP)
		changes[0].kind = CHANGE_PINNED;
	if (topic == STEP_TOPIC_COMM)
		changes[0].kind = CHANGE_OVERLAP_COMM;
	if (topic == STEP_TOPIC_LATE)
		changes[0] = (struct step_change){.kind = CHANGE_ON_TIME, .pid = res->late_pid};
	return topic == STEP_TOPIC_OVERLAP ? 2 : 1;
}

/* Counts what the topics concern. Those that are about what the GPU does have nothing without GPU
 * times. */
static void count_topics(const struct step_graph *g, struct step_result *res)
{
	for (uint32_t i = 0; i < g->call_cnt; i++) {
		const struct step_call *c = &g->calls[i];

		for (unsigned topic = 0; topic < STEP_TOPIC_PINNED; topic++)
			res->topics[topic].cnt += c->topics >> topic & 1;
		res->topics[STEP_TOPIC_PINNED].cnt += c->is_pageable;
		res->topics[STEP_TOPIC_OVERLAP].cnt += c->is_htod;
	}
	for (uint32_t i = 0; i < g->exec_cnt; i++)
		res->topics[STEP_TOPIC_COMM].cnt += g->execs[i].kind == STEP_COMMUNICATION;
	for (unsigned t = 0; t < g->thread_cnt; t++)
		for (uint32_t i = 0; i < g->threads[t].cnt; i++)
			res->topics[STEP_TOPIC_IDLE].cnt +=
				g->segs[g->threads[t].first + i].is_idle_before;
	res->topics[STEP_TOPIC_LATE].cnt = res->late_pid != 0;
	if (g->exec_cnt)
		return;
	res->topics[STEP_TOPIC_WAIT].cnt = res->topics[STEP_TOPIC_PINNED].cnt = 0;
	res->topics[STEP_TOPIC_OVERLAP].cnt = 0;
}

static void measure_topics(struct steps *s, struct step_sim *m, const struct step_window *windows,
			   uint64_t cnt, uint64_t *buf)
{
	struct step_result *res = &s->res;
	struct communication_late late;
	struct step_what_if pinned = res->unchanged, w;

	if (communication_late(s->r, windows[0].begin_ns, windows[cnt - 1].end_ns, &late))
		res->late_pid = late.pid;
	count_topics(&s->graph, res);
	for (unsigned topic = 0; topic < STEP_TOPIC_CNT; topic++) {
		const struct step_what_if *base =
			topic == STEP_TOPIC_OVERLAP ? &pinned : &res->unchanged;
		struct step_change changes[2];

		if (!res->topics[topic].cnt)
			continue;
		measure(m, windows, cnt, changes, changes_of(res, topic, changes), buf, &w);
		if (w.total_ns < base->total_ns)
			res->topics[topic].saved_ns = base->total_ns - w.total_ns;
		if (topic == STEP_TOPIC_PINNED)
			pinned = w;
	}
}

/* A graph also saves the building of plans, which has easier remedies. */
static void measure_findings(struct step_sim *m, const struct step_window *windows, uint64_t cnt,
			     uint64_t *buf, bool would_graph, struct step_result *res)
{
	static const struct step_change changes[] = {{.kind = CHANGE_PLANS},
						     {.kind = CHANGE_GRAPH}};
	struct step_what_if plans, both, without;

	measure(m, windows, cnt, changes, 1, buf, &plans);
	if (plans.total_ns < res->unchanged.total_ns)
		res->plans_saved_ns = res->unchanged.total_ns - plans.total_ns;
	for (unsigned i = STEP_GAP_INPUT; i < STEP_GAP_CNT; i++) {
		struct step_change gaps = {.kind = CHANGE_GAPS, .gap = i};

		if (!res->gaps[i].cnt)
			continue;
		measure(m, windows, cnt, &gaps, 1, buf, &without);
		if (without.total_ns < res->unchanged.total_ns)
			res->gaps[i].saved_ns = res->unchanged.total_ns - without.total_ns;
	}
	if (!would_graph)
		return;
	measure(m, windows, cnt, changes, 2, buf, &both);
	if (both.total_ns < plans.total_ns)
		res->graph_saved_ns = plans.total_ns - both.total_ns;
}

/* Replays each requested change alone, then all together. */
static void replay_asked(struct steps *s, struct step_sim *m, const struct step_window *windows,
			 uint64_t cnt, uint64_t *buf)
{
	const struct report_opts *o = &s->r->opts;
	struct step_result *res = &s->res;
	struct step_what_if *w;

	for (unsigned i = 0; i < o->change_cnt; i++) {
		w = &res->what_ifs[res->what_if_cnt++];
		measure(m, windows, cnt, &o->changes[i], 1, buf, w);
		w->is_asked = true;
	}
	if (o->change_cnt < 2)
		return;
	w = &res->what_ifs[res->what_if_cnt++];
	measure(m, windows, cnt, o->changes, o->change_cnt, buf, w);
	w->is_asked = true;
	w->change = (struct step_change){.text = "all of these"};
}

void step_what_ifs_make(struct steps *s, const struct step_window *windows, uint64_t cnt,
			bool has_graphs)
{
	static const struct step_change no_host = {.kind = CHANGE_HOST},
					no_gpu = {.kind = CHANGE_GPU};
	struct step_sim *m = step_sim_new(s, windows, cnt);
	uint64_t *buf = malloc(cnt * sizeof(*buf));
	struct step_result *res = &s->res;
	struct step_what_if w = {0};
	struct list l = {0};
	unsigned first;

	for (uint64_t i = 0; i < cnt; i++)
		res->total_ns += windows[i].end_ns - windows[i].begin_ns;
	if (m && buf) {
		measure(m, windows, cnt, NULL, 0, buf, &res->unchanged);
		measure(m, windows, cnt, &no_host, 1, buf, &res->no_host);
		measure(m, windows, cnt, &no_gpu, 1, buf, &res->no_gpu);
		measure_findings(m, windows, cnt, buf, s->graph.exec_cnt && !has_graphs, res);
		measure_topics(s, m, windows, cnt, buf);
		replay_asked(s, m, windows, cnt, buf);
		propose_all(s, has_graphs, &l);
		first = res->what_if_cnt;
		for (unsigned i = 0; i < l.cnt; i++) {
			measure(m, windows, cnt, &l.of[i], 1, buf, &w);
			keep_best(res, first, &w);
		}
	}
	step_sim_free(m);
	free(buf);
}
