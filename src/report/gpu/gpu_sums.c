/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "gpu_sums_priv.h"
#include "util/memlimit.h"

#include "report/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct gpu_sums *gpu_sums__new(void)
{
	return calloc(1, sizeof(struct gpu_sums));
}

void gpu_sums__free(struct gpu_sums *g)
{
	if (!g)
		return;
	free(g->devices);
	free(g->processes);
	free(g);
}

static void copy(char *to, size_t size, const char *from)
{
	if (from)
		snprintf(to, size, "%s", from);
}

/* Appends a zeroed element; NULL: limit reached, or no memory. */
static void *add(void **array, unsigned *cnt, unsigned *cap, unsigned max, size_t size)
{
	unsigned wanted = *cap ? 2 * *cap : 8;
	char *grown;

	if (*cnt == max)
		return NULL;
	if (*cnt == *cap) {
		grown = realloc(*array, wanted * size);
		if (!grown)
			return NULL;
		memset(grown + *cap * size, 0, (wanted - *cap) * size);
		*array = grown;
		*cap = wanted;
	}
	return (char *)*array + (*cnt)++ * size;
}

static uint64_t id_of(struct opt_u64 x)
{
	return x.known ? x.v : UINT64_MAX;
}

static struct gpu_device *device_of(struct gpu_sums *g, const struct trace_event *ev)
{
	const struct event_gpu_stats *x = &ev->gpu_stats;
	uint64_t gpu = id_of(x->gpu), gi = id_of(x->gpu_instance), ci = id_of(x->compute_instance);
	struct gpu_device *d;

	for (unsigned i = 0; i < g->device_cnt; i++) {
		d = &g->devices[i];
		if (d->gpu == gpu && d->gpu_instance == gi && d->compute_instance == ci &&
		    d->trace == ev->trace)
			return d;
	}
	d = add((void **)&g->devices, &g->device_cnt, &g->device_cap, GPU_STATS_DEVICES,
		sizeof(*d));
	if (!d)
		return NULL;
	d->gpu = gpu;
	d->gpu_instance = gi;
	d->compute_instance = ci;
	d->trace = ev->trace;
	return d;
}

static struct gpu_process *process_of(struct gpu_sums *g, unsigned device, uint32_t pid)
{
	struct gpu_process *p;

	for (unsigned i = 0; i < g->process_cnt; i++)
		if (g->processes[i].pid == pid && g->processes[i].device == device)
			return &g->processes[i];
	p = add((void **)&g->processes, &g->process_cnt, &g->process_cap, GPU_STATS_PROCESSES,
		sizeof(*p));
	if (!p)
		return NULL;
	p->pid = pid;
	p->device = device;
	return p;
}

static void add_value(struct gpu_value *v, struct opt_u64 x)
{
	if (!x.known)
		return;
	v->cnt++;
	v->sum += x.v;
	v->last = x.v;
	if (x.v > v->max)
		v->max = x.v;
}

static void add_values(struct gpu_value *values, const struct event_gpu_stats *x)
{
#define VALUE(ID, id, form, unit, text) add_value(&values[CT_GPU_##ID], x->id);
#include "ct_gpu.def"
}

/* A sample covers the time since the previous one. */
static void on_sample(struct gpu_device *d, const struct trace_event *ev)
{
	const struct event_gpu_stats *x = &ev->gpu_stats;

	if (d->sample_cnt++ && ev->start_ns > d->last_ns) {
		if (x->throttle)
			d->throttled_ns += ev->start_ns - d->last_ns;
	} else if (d->sample_cnt == 1) {
		d->first_ns = ev->start_ns;
	}
	copy(d->throttle, sizeof(d->throttle), x->throttle);
	d->last_ns = ev->start_ns;
	add_values(d->values, x);
}

static void on_missing(struct gpu_sums *g, const struct event_gpu_stats *x)
{
	unsigned i = g->missing_cnt;

	if (i == GPU_STATS_MISSING)
		return;
	if (x->gpu.known)
		snprintf(g->missing[i], sizeof(g->missing[i]), "GPU %llu: %s",
			 (unsigned long long)x->gpu.v, x->why ?: "");
	else
		copy(g->missing[i], sizeof(g->missing[i]), x->why ?: "");
	g->missing_cnt++;
}

static void on_process(struct gpu_sums *g, struct gpu_device *d, const struct trace_event *ev)
{
	struct gpu_process *p = process_of(g, d - g->devices, ev->pid);

	if (!p) {
		g->rejected_cnt++;
		memlimit_reject(MEMLIMIT_DEVICES);
		return;
	}
	copy(p->comm, sizeof(p->comm), ev->comm);
	add_values(p->values, &ev->gpu_stats);
}

void gpu_sums__event(struct gpu_sums *g, const struct trace_event *ev)
{
	const struct event_gpu_stats *x = &ev->gpu_stats;
	struct gpu_device *d;

	if (!strcmp(ev->op, "missing")) {
		on_missing(g, x);
		return;
	}
	d = device_of(g, ev);
	if (!d) {
		g->rejected_cnt++;
		memlimit_reject(MEMLIMIT_DEVICES);
		return;
	}
	copy(d->uuid, sizeof(d->uuid), x->uuid);
	copy(d->model, sizeof(d->model), x->model);
	copy(d->pci, sizeof(d->pci), x->pci);
	if (x->memory_total.known)
		d->memory_total = x->memory_total.v;
	if (!strcmp(ev->op, "sample"))
		on_sample(d, ev);
	else if (!strcmp(ev->op, "process"))
		on_process(g, d, ev);
}

bool gpu_sums_xids(const struct gpu_sums *g, unsigned i, struct gpu_xids *res)
{
	const struct gpu_device *d;

	if (!g || i >= g->device_cnt)
		return false;
	d = &g->devices[i];
	*res = (struct gpu_xids){d->gpu, d->values[CT_GPU_XIDS].max,
				 d->values[CT_GPU_LAST_XID].last, d->first_ns};
	return true;
}

static void *analysis_new(struct report *r)
{
	return gpu_sums__new();
}

static void analysis_event(void *a, const struct trace_event *ev)
{
	if (ev->kind == EVENT_GPU_STATS)
		gpu_sums__event(a, ev);
}

static void analysis_print(const void *a, const struct term *term)
{
	gpu_sums__print(a, term);
}

static void analysis_free(void *a)
{
	gpu_sums__free(a);
}

const struct analysis_ops gpu_stats_ops = {
	.name = "gpu_stats",
	.new = analysis_new,
	.event = analysis_event,
	.section = &gpu_stats_table,
	.print = analysis_print,
	.free = analysis_free,
};
