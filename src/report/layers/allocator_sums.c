/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "allocator_sums.h"
#include "util/memlimit.h"

#include "report/section.h"
#include "util/plural.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Limits: devices of processes; processes with driver memory. */
#define ROWS_MAX      1024
#define PROCESSES_MAX 1024
#define DEVICE_SZ     32

struct row {
	uint32_t pid;
	char device[DEVICE_SZ];
	uint64_t allocs, frees, ooms;
	uint64_t allocated, reserved; /* last */
	uint64_t peak_allocated, peak_reserved;
	uint64_t unused_at_peak; /* reserved minus allocated at peak_allocated */
};

/* Memory from the driver, according to calls. */
struct process {
	uint32_t pid;
	uint64_t live, peak;
};

struct allocator_sums {
	struct row *rows;
	struct process *processes;
	unsigned row_cnt, process_cnt;
	uint64_t rejected;
};

struct allocator_sums *allocator_sums__new(void)
{
	return calloc(1, sizeof(struct allocator_sums));
}

void allocator_sums__free(struct allocator_sums *s)
{
	if (!s)
		return;
	free(s->rows);
	free(s->processes);
	free(s);
}

static struct row *row_of(struct allocator_sums *s, const struct trace_event *ev)
{
	struct row *rows;

	for (unsigned i = s->row_cnt; i-- > 0;)
		if (s->rows[i].pid == ev->pid &&
		    !strncmp(s->rows[i].device, ev->allocator.device ?: "", DEVICE_SZ - 1))
			return &s->rows[i];
	rows = s->row_cnt < ROWS_MAX ? reallocarray(s->rows, s->row_cnt + 1, sizeof(*rows)) : NULL;
	if (!rows)
		return NULL;
	s->rows = rows;
	rows[s->row_cnt] = (struct row){.pid = ev->pid};
	snprintf(rows[s->row_cnt].device, DEVICE_SZ, "%s", ev->allocator.device ?: "");
	return &rows[s->row_cnt++];
}

static struct process *find_process(const struct allocator_sums *s, uint32_t pid)
{
	for (unsigned i = s->process_cnt; i-- > 0;)
		if (s->processes[i].pid == pid)
			return &s->processes[i];
	return NULL;
}

static void on_driver(struct allocator_sums *s, const struct trace_event *ev)
{
	struct process *p = find_process(s, ev->pid), *v;
	const uint64_t *bytes = ev->mem.bytes;
	uint64_t live = bytes[MEM_DEVICE] + bytes[MEM_MANAGED];

	if (!p && s->process_cnt < PROCESSES_MAX) {
		v = reallocarray(s->processes, s->process_cnt + 1, sizeof(*v));
		if (!v)
			return;
		s->processes = v;
		p = &v[s->process_cnt++];
		*p = (struct process){.pid = ev->pid};
	}
	if (!p)
		return;
	p->live = live;
	p->peak = live > p->peak ? live : p->peak;
}

void allocator_sums__event(struct allocator_sums *s, const struct trace_event *ev)
{
	const struct event_allocator *x = &ev->allocator;
	struct row *r;

	if (ev->kind == EVENT_CALL && ev->has_mem)
		on_driver(s, ev);
	if (ev->kind != EVENT_ALLOCATOR)
		return;
	r = row_of(s, ev);
	if (!r) {
		s->rejected++;
		memlimit_reject(MEMLIMIT_DEVICES);
		return;
	}
	r->ooms += ev->op[0] == 'o';
	r->allocs += ev->op[0] == 'a';
	r->frees += ev->op[0] == 'f';
	r->allocated = x->allocated;
	r->reserved = x->reserved;
	if (x->allocated > r->peak_allocated) {
		r->peak_allocated = x->allocated;
		r->unused_at_peak = x->reserved > x->allocated ? x->reserved - x->allocated : 0;
	}
	if (x->reserved > r->peak_reserved)
		r->peak_reserved = x->reserved;
}

static const char *device_text(char buf[SECTION_BUF], const struct row *r)
{
	snprintf(buf, SECTION_BUF, "%s of process %u", r->device, r->pid);
	return buf;
}

#define SECTION_STATE struct allocator_sums
#define SECTION_ROWS  "report/layers/allocator.section"
#include "report/section_rows.h"

void allocator_sums__print(struct allocator_sums *s, const struct term *term)
{
	if (!s || !s->row_cnt)
		return;
	term_section(term, "PyTorch allocator",
		     "memory allocated to programs, and memory reserved from the driver");
	section_print(NULL, &allocator_table, s, s, "list", TABLE_ROWS, term);
	for (unsigned i = 0; i < s->row_cnt; i++)
		if (s->rows[i].ooms)
			term_para(term, "%s of process %u: out of memory %llu time%s",
				  s->rows[i].device, s->rows[i].pid,
				  (unsigned long long)s->rows[i].ooms, plural(s->rows[i].ooms));
	if (s->rejected)
		term_para(term, "%llu %s missing: too many devices",
			  (unsigned long long)s->rejected,
			  noun(s->rejected, "allocation is", "allocations are"));
}

void allocator_sums__json(struct allocator_sums *s, struct json *j, const char *name)
{
	section_json(NULL, &allocator_table, s, s, j, name);
}

/* --- the analysis --- */

static void *analysis_new(struct report *r)
{
	return allocator_sums__new();
}

static void analysis_event(void *a, const struct trace_event *ev)
{
	allocator_sums__event(a, ev);
}

static void analysis_print(const void *a, const struct term *term)
{
	allocator_sums__print((struct allocator_sums *)a, term);
}

static void analysis_free(void *a)
{
	allocator_sums__free(a);
}

const struct analysis_ops allocator_ops = {
	.name = "allocator",
	.new = analysis_new,
	.event = analysis_event,
	.section = &allocator_table,
	.print = analysis_print,
	.free = analysis_free,
};
