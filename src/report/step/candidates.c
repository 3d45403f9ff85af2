/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Changes that may save time in the steps, from what is on their critical path: the replay shows
 * which of them do. A change that concerns less than WORTH of the path cannot save more.
 */
#include "replay_priv.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "report/layers/communication.h"
#include "text/kernel_name.h"

#define WORTH	     0.01
#define ROWS	     64
#define FUSE_NAME    4	   /* letters of a name, at least: it stands for all names with it */
#define FUSE_LONG_NS 50000 /* the gaps between longer kernels are not worth a change */
#define VISITS	     4	   /* of each interval, to see what ranges contain */
#define WHOLE	     0.9   /* of the launches of the steps: the range is the step */

/* What one change would concern. */
struct row {
	enum step_change_kind kind;
	const char *name;
	size_t len;
	uint64_t ns;   /* on the critical path */
	uint64_t cnt;  /* steps with pieces of it; of a range: launches */
	uint64_t step; /* the earliest of these steps */
	bool is_unfit;
};

struct rows {
	struct row of[ROWS];
	unsigned cnt, last;
	uint64_t all_ns;
	uint64_t step; /* of the piece that is added: they come latest first */
};

static void propose(struct step_change_list *l, const char *fmt, const char *name, size_t len)
{
	char text[CHANGE_NAME + 16];
	int n = snprintf(text, sizeof(text), fmt, (int)len, name);

	if (l->cnt == STEP_CANDIDATES || n < 0 || (size_t)n >= sizeof(text))
		return;
	for (unsigned i = 0; i < l->cnt; i++)
		if (!strcmp(l->of[i].text, text))
			return;
	if (step_change_read(text, n, &l->of[l->cnt]))
		l->cnt++;
}

static void propose_name(struct step_change_list *l, const char *fmt, const char *name)
{
	propose(l, fmt, name, strlen(name));
}

static bool is_row(const struct row *row, enum step_change_kind kind, const char *name, size_t len)
{
	return row->kind == kind && row->len == len &&
	       (row->name == name || !memcmp(row->name, name, len));
}

/* The row of this change; NULL: there are too many. */
static struct row *row_of(struct rows *r, enum step_change_kind kind, const char *name, size_t len)
{
	if (r->last < r->cnt && is_row(&r->of[r->last], kind, name, len))
		return &r->of[r->last];
	for (r->last = 0; r->last < r->cnt; r->last++)
		if (is_row(&r->of[r->last], kind, name, len))
			return &r->of[r->last];
	/* --what-if separates changes by commas. */
	if (r->cnt == ROWS || memchr(name, ',', len) || len >= CHANGE_NAME)
		return NULL;
	r->of[r->cnt] = (struct row){.kind = kind, .name = name, .len = len};
	return &r->of[r->cnt++];
}

static void add_piece(struct rows *r, enum step_change_kind kind, const char *name, size_t len,
		      uint64_t ns)
{
	struct row *row = row_of(r, kind, name, len);

	if (!row)
		return;
	row->ns += ns;
	row->cnt += !row->cnt || row->step != r->step;
	row->step = r->step;
}

/* The part of a kernel's name that kernels to fuse have in common: without a number at its end. */
static const char *common_name(const char *kernel, size_t *len)
{
	const char *name = kernel_short_name(kernel, len);

	while (*len && isdigit((unsigned char)name[*len - 1]))
		--*len;
	while (*len && name[*len - 1] == '_')
		--*len;
	/* The change finds a name that contains it. */
	return *len < FUSE_NAME ? NULL : memmem(kernel, strlen(kernel), name, *len);
}

static bool is_fused(const struct step_graph *g, const struct step_piece *p,
		     const struct step_call *c)
{
	const struct step_exec *x = p->exec == STEP_NONE ? NULL : &g->execs[p->exec];

	if (!c->launches || !c->kernel)
		return false;
	if (x && x->kind == STEP_COMMUNICATION)
		return c->topics >> STEP_TOPIC_COLLECTIVE & 1;
	if (x && (x->kind != STEP_KERNEL || x->end_ns - x->start_ns > FUSE_LONG_NS))
		return false;
	return p->kind == STEP_LAUNCH || p->kind == STEP_BETWEEN || p->kind == STEP_LATENCY ||
	       p->kind == STEP_GAP;
}

/* Adds a piece to the changes that concern it. */
static void on_piece(const struct step_graph *g, const struct step_piece *p, struct rows *r)
{
	const struct step_call *c = p->call == STEP_NONE ? NULL : &g->calls[p->call];
	uint64_t ns = p->end_ns - p->begin_ns;
	const char *name;
	size_t len;

	if (!c)
		return;
	if (is_fused(g, p, c)) {
		name = common_name(c->kernel, &len);
		if (name)
			add_piece(r, CHANGE_FUSE, name, len, ns);
	} else if (c->topics >> STEP_TOPIC_COPY & 1) {
		add_piece(r, CHANGE_BATCH, c->fn->name, strlen(c->fn->name), ns);
	} else if (c->is_cacheable && p->exec == STEP_NONE && p->kind != STEP_BETWEEN) {
		add_piece(r, CHANGE_CACHE, c->fn->name, strlen(c->fn->name), ns);
	}
}

static void sum_path(const struct step_sim *m, struct rows *r)
{
	const struct step_path *path = &m->s->path;
	uint64_t from_ns = m->windows[0].begin_ns, to_ns = m->windows[m->window_cnt - 1].end_ns;

	r->step = m->window_cnt - 1;
	for (uint32_t i = 0; i < path->cnt; i++) {
		const struct step_piece *p = &path->pieces[i];

		if (p->begin_ns < from_ns || p->end_ns > to_ns)
			continue;
		while (p->begin_ns < m->windows[r->step].begin_ns)
			r->step--;
		r->all_ns += p->end_ns - p->begin_ns;
		on_piece(m->g, p, r);
	}
}

/* A call that cannot be captured, or that is part of a graph already. */
static bool is_uncapturable(const struct step_call *c)
{
	return c->kind == STEP_BUILD_GRAPH || c->kind == STEP_MODULE ||
	       c->topics >> STEP_TOPIC_ALLOC & 1 || (c->launches && c->fn->class == CLASS_GRAPH);
}

/* Counts the launches in a range; unfit: it cannot be captured. The replay leaves a wait at its end
 * outside of the graph. Returns how many intervals it looked at. */
static uint32_t on_range(const struct step_graph *g, const struct step_thread *t,
			 const struct step_range *x, struct row *row)
{
	uint32_t first = step_first_seg(g, t, x->start_ns), i = first, launches = 0;
	bool waits = false;

	for (; i < t->first + t->cnt && g->segs[i].end_ns <= x->end_ns && !row->is_unfit; i++) {
		const struct step_call *c = &g->calls[g->segs[i].call];

		launches += c->launches;
		row->is_unfit = is_uncapturable(c) || (waits && c->submits);
		waits |= c->waits;
	}
	if (launches >= 2)
		row->cnt += launches;
	return i - first;
}

/* Returns the number of launches in the steps. */
static uint64_t count_launches(const struct step_sim *m)
{
	const struct step_graph *g = m->g;
	uint64_t cnt = 0;

	for (uint32_t i = 0; i < g->call_cnt; i++)
		cnt += g->calls[i].launches && g->calls[i].start_ns >= m->windows[0].begin_ns &&
		       g->calls[i].end_ns <= m->windows[m->window_cnt - 1].end_ns;
	return cnt;
}

static void sum_ranges(const struct step_sim *m, struct rows *r)
{
	const struct step_graph *g = m->g;
	const struct step_range *ranges = m->s->ranges.rows;
	uint64_t left = (uint64_t)VISITS * m->seg_cnt;

	for (uint32_t i = 0; i < m->s->ranges.cnt && left; i++) {
		const struct step_range *x = &ranges[i];
		unsigned t = 0;
		struct row *row;
		uint32_t visited;

		if (x->pid != g->calls[0].pid || x->start_ns < m->windows[0].begin_ns ||
		    x->end_ns > m->windows[m->window_cnt - 1].end_ns)
			continue;
		while (t < g->thread_cnt && g->threads[t].tid != x->tid)
			t++;
		row = t < g->thread_cnt ? row_of(r, CHANGE_GRAPH, x->name, strlen(x->name)) : NULL;
		if (!row || row->is_unfit)
			continue;
		visited = on_range(g, &g->threads[t], x, row);
		left -= visited < left ? visited : left;
	}
}

/* Proposes the rows of one kind that weigh most. */
static void propose_rows(struct rows *r, enum step_change_kind kind, const char *fmt,
			 struct step_change_list *l)
{
	for (unsigned n = 0; n < STEP_CANDIDATES_EACH; n++) {
		struct row *best = NULL;

		for (unsigned i = 0; i < r->cnt; i++) {
			struct row *row = &r->of[i];

			if (row->kind == kind && !row->is_unfit &&
			    (!best ||
			     (kind == CHANGE_GRAPH ? row->cnt > best->cnt : row->ns > best->ns)))
				best = row;
		}
		if (!best)
			return;
		propose(l, fmt, best->name, best->len);
		best->is_unfit = true;
	}
}

/* Changes that join or save calls. Only GPU times show what they gain. */
static void propose_calls(const struct step_sim *m, bool has_graphs, struct step_change_list *l)
{
	struct rows r = {0};
	uint64_t launches = count_launches(m);

	sum_path(m, &r);
	sum_ranges(m, &r);
	for (unsigned i = 0; i < r.cnt; i++) {
		struct row *row = &r.of[i];

		if (row->kind == CHANGE_GRAPH)
			row->is_unfit |= !row->cnt || (!has_graphs && row->cnt > WHOLE * launches);
		else
			row->is_unfit |= row->ns < WORTH * r.all_ns;
		/* It is called once instead of in each step. */
		if (row->kind == CHANGE_CACHE)
			row->is_unfit |= 2 * row->cnt < m->window_cnt;
	}
	propose_rows(&r, CHANGE_CACHE, "cache:%.*s", l);
	propose_rows(&r, CHANGE_BATCH, "batch:%.*s", l);
	propose_rows(&r, CHANGE_FUSE, "fuse:%.*s", l);
	propose_rows(&r, CHANGE_GRAPH, "graph:%.*s", l);
}

/* Whether calls of this part are candidates for "cache". */
static bool is_cached(const struct step_change_list *l, const char *name)
{
	for (unsigned i = 0; i < l->cnt; i++)
		if (l->of[i].kind == CHANGE_CACHE && !strcmp(l->of[i].name, name))
			return true;
	return false;
}

void step_propose(const struct step_sim *m, bool has_graphs, struct step_change_list *l)
{
	const struct steps *s = m->s;
	const struct step *median = &s->res.steps[STEP_MEDIAN];
	char number[16];
	uint32_t rank;

	if (s->res.late_pid && communication_rank(s->r, s->res.late_pid, &rank)) {
		snprintf(number, sizeof(number), "%u", rank);
		propose_name(l, "on-time:%.*s", number);
	}
	if (s->graph.exec_cnt && !has_graphs)
		propose_name(l, "%.*s", "graph");
	propose_name(l, "%.*s", "plans");
	if (s->graph.exec_cnt) {
		propose_name(l, "%.*s", "pinned");
		propose_name(l, "%.*s", "overlap-copies");
		if (s->res.is_joined)
			propose_calls(m, has_graphs, l);
	}
	for (unsigned i = 0; i < median->part_cnt; i++) {
		const struct step_part *p = &median->parts[i];

		if (!p->name || is_cached(l, p->name))
			continue;
		if (p->kind == STEP_MEMORY || p->kind == STEP_MODULE || p->kind == STEP_BUILD_GRAPH)
			propose_name(l, "drop:%.*s", p->name);
		else if (p->kind == STEP_RETURN && s->graph.exec_cnt)
			propose_name(l, "no-wait:%.*s", p->name);
		else if (p->kind == STEP_COMMUNICATION)
			propose_name(l, "%.*s", "overlap-comm");
	}
}
