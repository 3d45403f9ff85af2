/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "residency.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/collect.h"
#include "report/section.h"
#include "util/order.h"

/* A longer gap between two contexts is idle time; a switch takes a tenth of this. */
#define SWITCH_MAX_NS 1000000

static struct resident_gpu *gpu_of(struct residency *r, const struct trace_event *ev)
{
	struct resident_gpu *g;

	for (unsigned i = 0; i < r->cnt; i++)
		if (r->gpus[i]->minor == ev->ctxsw.minor && r->gpus[i]->trace == ev->trace)
			return r->gpus[i];
	g = r->cnt < RESIDENCY_GPUS ? calloc(1, sizeof(*g)) : NULL;
	if (!g)
		return NULL;
	g->minor = ev->ctxsw.minor;
	g->trace = ev->trace;
	snprintf(g->gpu, sizeof(g->gpu), "%s", ev->ctxsw.gpu ?: "");
	g->first_ns = g->last_ns = ev->start_ns;
	g->procs[RESIDENCY_PROCS].owner = "others";
	return r->gpus[r->cnt++] = g;
}

static struct resident *proc_of(struct resident_gpu *g, const struct trace_event *ev)
{
	const char *owner = ev->ctxsw.owner;
	struct resident *p;
	unsigned i = 0;

	/* The reader owns the strings of a saved trace. */
	if (owner)
		owner = strcmp(owner, "kernel") ? "other user" : "kernel";
	while (i < g->proc_cnt && (g->procs[i].pid != ev->pid || g->procs[i].owner != owner))
		i++;
	if (i == RESIDENCY_PROCS)
		return &g->procs[i];
	p = &g->procs[i];
	if (i == g->proc_cnt) {
		g->proc_cnt++;
		p->pid = ev->pid;
		p->owner = owner;
	}
	if (ev->comm && ev->comm[0])
		snprintf(p->comm, sizeof(p->comm), "%s", ev->comm);
	return p;
}

static void add_gap(struct resident_gpu *g, const struct trace_event *ev)
{
	uint64_t gap = ev->start_ns > g->last_ns ? ev->start_ns - g->last_ns : 0;

	if (ev->ctxsw.lost_before || ev->ctxsw.truncated_start)
		return;
	if (gap < SWITCH_MAX_NS)
		g->between_ns += gap;
	else
		g->empty_ns += gap;
}

void residency__event(struct residency *r, const struct trace_event *ev)
{
	struct resident_gpu *g = gpu_of(r, ev);
	uint64_t ns = event_duration_ns(ev);
	struct resident *p;

	if (!g)
		return;
	add_gap(g, ev);
	g->switch_cnt += !ev->ctxsw.truncated_start;
	g->lost_before += ev->ctxsw.lost_before;
	if (ev->end_ns > g->last_ns)
		g->last_ns = ev->end_ns;
	p = proc_of(g, ev);
	p->ns += ns;
	p->cnt++;
	if (ns > p->max_ns)
		p->max_ns = ns;
}

static int by_time(const void *a, const void *b)
{
	const struct resident *x = a, *y = b;

	return DESCENDING(x->ns, y->ns) ?: ASCENDING(x->pid, y->pid);
}

static int by_minor(const void *a, const void *b)
{
	const struct resident_gpu *x = *(struct resident_gpu *const *)a;
	const struct resident_gpu *y = *(struct resident_gpu *const *)b;

	return ASCENDING(x->minor, y->minor) ?: ASCENDING(x->trace, y->trace);
}

void residency__sort(struct residency *r)
{
	if (r->cnt)
		qsort(r->gpus, r->cnt, sizeof(r->gpus[0]), by_minor);
	for (unsigned i = 0; i < r->cnt; i++)
		qsort(r->gpus[i]->procs, r->gpus[i]->proc_cnt, sizeof(struct resident), by_time);
}

void residency__free(struct residency *r)
{
	while (r->cnt)
		free(r->gpus[--r->cnt]);
}

void resident_name(const struct resident *p, char *buf, size_t size)
{
	if (p->owner)
		snprintf(buf, size, "(%s)", p->owner);
	else
		snprintf(buf, size, "%s (%u)", p->comm[0] ? p->comm : "?", p->pid);
}

/* Includes the row of processes beyond the limit. */
static unsigned row_cnt(const struct resident_gpu *g)
{
	return g->procs[RESIDENCY_PROCS].cnt ? RESIDENCY_PROCS + 1 : g->proc_cnt;
}

static const char *resident_text(char buf[SECTION_BUF], const struct resident *p)
{
	resident_name(p, buf, SECTION_BUF);
	return buf;
}

#define SECTION_STATE struct residency
#define SECTION_ROWS  "report/gpu/residency.section"
#include "report/section_rows.h"

void residency__json(const struct residency *r, struct json *j)
{
	section_json(NULL, &residency_table, r, r, j, "context_switches");
}

static void print_gpu(const struct residency *r, const struct resident_gpu *g,
		      const struct term *term)
{
	char share[CELL_SZ];
	char title[48];

	if (g->trace)
		snprintf(title, sizeof(title), "Context switches of GPU %u, trace %u", g->minor,
			 g->trace);
	else
		snprintf(title, sizeof(title), "Context switches of GPU %u", g->minor);
	human_share(share, g->between_ns, resident_span_ns(g));
	term_section(term, title, "%s in %s; %s between two contexts, %s each%s%s",
		     HUMAN_COUNT(g->switch_cnt), HUMAN_TIME(resident_span_ns(g)),
		     share[0] ? share : "nothing",
		     HUMAN_TIME(g->switch_cnt ? (double)g->between_ns / g->switch_cnt : 0),
		     g->empty_ns ? "; no process had it for " : "",
		     g->empty_ns ? HUMAN_TIME(g->empty_ns) : "");
	section_print(NULL, &resident_gpu_table, r, g, "processes", TABLE_ROWS, term);
	if (g->lost_before)
		term_para(term,
			  "%s of the driver's log missing: the process at that time is unknown",
			  HUMAN_NOUNS(g->lost_before, "record"));
}

void residency__print(const struct residency *r, const struct term *term)
{
	const char *log = r->info->gpu_ctxsw;

	for (unsigned i = 0; i < r->cnt; i++)
		print_gpu(r, r->gpus[i], term);
	if (r->cnt || !log)
		return;
	if (!strcmp(log, "on"))
		term_section(term, "Context switches",
			     "none: a process that is alone on a GPU causes no switches");
	else
		term_section(term, "Context switches", "not recorded: %s", log);
}
