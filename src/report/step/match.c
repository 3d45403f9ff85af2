/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What each change of --what-if concerns; for one that concerns nothing, a message with the names
 * that are like its own. */
#include "replay_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/kernel_name.h"
#include "util/strdist.h"

#define LIKE_MAX 3
#define SEEN	 64

/* The names that are most like a name, best first. */
struct likes {
	const char *name;
	struct like {
		char text[CHANGE_NAME];
		unsigned distance;
	} of[LIKE_MAX];
	unsigned cnt;
	const char *seen[SEEN]; /* the latest: most names occur often */
	unsigned next;
};

static bool is_seen(struct likes *l, const char *text)
{
	for (unsigned i = 0; i < SEEN; i++)
		if (l->seen[i] == text)
			return true;
	l->seen[l->next++ % SEEN] = text;
	return false;
}

static void add_like(struct likes *l, const char *text, size_t len)
{
	unsigned at = 0, d = str_distance(l->name, strlen(l->name), text, len);
	bool is_part = memmem(text, len, l->name, strlen(l->name)) != NULL;

	if ((!is_part && d > str_distance_limit(strlen(l->name))) || len >= CHANGE_NAME)
		return;
	for (unsigned i = 0; i < l->cnt; i++) {
		if (strlen(l->of[i].text) == len && !memcmp(l->of[i].text, text, len))
			return;
		at += l->of[i].distance <= d;
	}
	if (at == LIKE_MAX)
		return;
	l->cnt += l->cnt < LIKE_MAX;
	memmove(&l->of[at + 1], &l->of[at], (l->cnt - at - 1) * sizeof(l->of[0]));
	snprintf(l->of[at].text, sizeof(l->of[at].text), "%.*s", (int)len, text);
	l->of[at].distance = d;
}

static void add_name(struct likes *l, const char *name)
{
	if (name && !is_seen(l, name))
		add_like(l, name, strlen(name));
}

static bool names_calls(enum step_change_kind kind)
{
	return kind == CHANGE_DROP || kind == CHANGE_CACHE || kind == CHANGE_NO_WAIT ||
	       kind == CHANGE_BEFORE || kind == CHANGE_BATCH;
}

static bool names_kernels(enum step_change_kind kind)
{
	return kind == CHANGE_KERNEL || kind == CHANGE_FUSE;
}

static bool match_calls(const struct step_graph *g, const struct step_change *c)
{
	bool any = false;

	for (uint32_t i = 0; i < g->call_cnt; i++)
		any |= names_kernels(c->kind)
			       ? g->calls[i].kernel && strstr(g->calls[i].kernel, c->name)
			       : step_is_fn(&g->calls[i], c->name);
	return any;
}

static bool match_execs(const struct step_graph *g, const struct step_change *c)
{
	bool any = false;

	for (uint32_t i = 0; i < g->exec_cnt; i++)
		any |= g->execs[i].kernel && strstr(g->execs[i].kernel, c->name);
	return any;
}

static bool match_ranges(const struct steps *s, const struct step_change *c)
{
	const struct step_range *ranges = s->ranges.rows;
	bool any = false;

	for (uint32_t i = 0; i < s->ranges.cnt; i++)
		any |= ranges[i].pid == s->graph.calls[0].pid && !strcmp(ranges[i].name, c->name);
	return any;
}

/* Only GPU times show what they would bring. */
static bool needs_gpu_times(const struct step_change *c)
{
	return c->kind == CHANGE_GRAPH || c->kind == CHANGE_KERNEL || c->kind == CHANGE_OVERLAP ||
	       c->kind == CHANGE_OVERLAP_COMM;
}

static bool any_plan(const struct step_graph *g)
{
	bool any = false;

	for (unsigned t = 0; t < g->thread_cnt; t++)
		for (uint32_t i = 0; i < g->threads[t].cnt; i++)
			any |= g->segs[g->threads[t].first + i].is_plan;
	return any;
}

static bool any_copy(const struct step_graph *g, bool pageable)
{
	bool any = false;

	for (uint32_t i = 0; i < g->call_cnt; i++)
		any |= pageable ? g->calls[i].is_pageable : g->calls[i].is_htod;
	return any;
}

static bool any_collective(const struct step_graph *g)
{
	bool any = false;

	for (uint32_t i = 0; i < g->exec_cnt; i++)
		any |= g->execs[i].kind == STEP_COMMUNICATION;
	return any;
}

static bool matches(const struct steps *s, const struct step_change *c)
{
	uint32_t pid;

	if (needs_gpu_times(c) && !s->graph.exec_cnt)
		return 0;
	if (names_calls(c->kind) || c->kind == CHANGE_FUSE)
		return match_calls(&s->graph, c);
	if (c->kind == CHANGE_KERNEL)
		return match_execs(&s->graph, c);
	if (c->kind == CHANGE_GRAPH && *c->name)
		return match_ranges(s, c);
	switch (c->kind) {
	case CHANGE_ON_TIME:
		return communication_process(s->r, c->rank, &pid);
	case CHANGE_PLANS:
		return any_plan(&s->graph);
	case CHANGE_PINNED:
	case CHANGE_OVERLAP:
		return any_copy(&s->graph, c->kind == CHANGE_PINNED);
	case CHANGE_OVERLAP_COMM:
		return any_collective(&s->graph);
	default:
		return true;
	}
}

static void find_likes(const struct steps *s, const struct step_change *c, struct likes *l)
{
	const struct step_graph *g = &s->graph;

	for (uint32_t i = 0; i < g->call_cnt; i++) {
		const struct step_call *call = &g->calls[i];
		const struct stack_frame *f = step_frame_in(call->stack);

		if (names_kernels(c->kind) && call->kernel && !is_seen(l, call->kernel)) {
			size_t len;
			const char *name = kernel_short_name(call->kernel, &len);

			add_like(l, name, len);
		}
		if (!names_calls(c->kind))
			continue;
		add_name(l, call->fn->name);
		add_name(l, call->operator);
		add_name(l, f ? f->symbol : NULL);
	}
	for (unsigned i = 0; c->kind == CHANGE_GRAPH && i < s->range_name_cnt; i++)
		add_name(l, s->range_names[i]);
}

static const char *what_of(const struct step_change *c)
{
	return names_calls(c->kind)	   ? "no call"
	       : names_kernels(c->kind)	   ? "no launch of a kernel"
	       : c->kind == CHANGE_ON_TIME ? "no rank"
					   : "no NVTX range or PyTorch operator";
}

/* Returns what the trace does not have, so that the change has no effect; for a message. */
static const char *lacks(const struct step_change *c)
{
	switch (c->kind) {
	case CHANGE_PLANS:
		return "call that builds plans (--all-layers records libraries)";
	case CHANGE_PINNED:
		return "copy of pageable memory";
	case CHANGE_OVERLAP:
		return "copy to a GPU";
	case CHANGE_OVERLAP_COMM:
		return "execution of an NCCL kernel";
	default:
		return NULL;
	}
}

static const char *list_of(const struct steps *s, const struct step_change *c)
{
	if (c->kind == CHANGE_GRAPH && !s->range_name_cnt)
		return "--nvtx and --torch record them";
	return names_calls(c->kind)	   ? "--section=overview lists functions"
	       : names_kernels(c->kind)	   ? "--section=kernels lists kernels"
	       : c->kind == CHANGE_ON_TIME ? "--section=compared lists ranks"
					   : "--section=ranges,operators lists them";
}

static void explain(const struct steps *s, const struct step_change *c, char *buf, size_t size)
{
	struct likes l = {.name = c->name};
	size_t n;

	if (needs_gpu_times(c) && !s->graph.exec_cnt) {
		snprintf(buf, size, "'%s' needs GPU times: trace with --gpu-time", c->text);
		return;
	}
	if (lacks(c)) {
		snprintf(buf, size, "'%s' changes nothing: the trace has no %s", c->text, lacks(c));
		return;
	}
	find_likes(s, c, &l);
	n = snprintf(buf, size, "'%s' changes nothing: the trace has %s of this name; ", c->text,
		     what_of(c));
	for (unsigned i = 0; i < l.cnt && n < size; i++)
		n += snprintf(buf + n, size - n, "%s%s", i ? ", " : "did you mean ", l.of[i].text);
	if (n < size)
		snprintf(buf + n, size - n, "%s", l.cnt ? "?" : list_of(s, c));
}

bool step_changes_error(const struct report *r, char *buf, size_t size)
{
	const struct steps *s = r->an[AN_STEP];

	if (!s || !r->opts.change_cnt)
		return false;
	if (!s->res.steps[STEP_MEDIAN].part_cnt)
		snprintf(buf, size,
			 "no iterations were found, so there is no step to replay: "
			 "--marker names a call or range that begins each");
	else if (s->res.error[0])
		snprintf(buf, size, "%s", s->res.error);
	else
		return false;
	return true;
}

void step_match_changes(struct steps *s)
{
	struct step_result *res = &s->res;

	for (unsigned i = 0; i < res->what_if_cnt; i++) {
		struct step_what_if *w = &res->what_ifs[i];

		if (!w->is_asked || i >= s->r->opts.change_cnt)
			continue;
		w->is_unmatched = !matches(s, &w->change);
		if (w->is_unmatched && !res->error[0])
			explain(s, &w->change, res->error, sizeof(res->error));
	}
}
