/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "gpu_samples.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Three times the longest interval. */
#define FRESH_NS 180000000000ull

static uint64_t id_of(struct opt_u64 x)
{
	return x.known ? x.v : UINT64_MAX;
}

static struct gpu_sample *find(struct gpu_samples *s, const struct event_gpu_stats *x)
{
	uint64_t gpu = id_of(x->gpu), gi = id_of(x->gpu_instance), ci = id_of(x->compute_instance);
	struct gpu_sample *g;

	for (unsigned i = 0; i < s->cnt; i++) {
		g = &s->of[i];
		if (g->gpu_id == gpu && g->gpu_instance == gi && g->compute_instance == ci)
			return g;
	}
	if (s->cnt == GPU_SAMPLES_MAX)
		return NULL;
	g = &s->of[s->cnt++];
	g->gpu_id = gpu;
	g->gpu_instance = gi;
	g->compute_instance = ci;
	snprintf(g->gpu, sizeof(g->gpu), "%" PRIu64, gpu);
	if (gi != UINT64_MAX)
		snprintf(g->instance, sizeof(g->instance), "%" PRIu64, gi);
	return g;
}

static void copy(char *to, size_t size, const char *from)
{
	if (from)
		snprintf(to, size, "%s", from);
}

static void on_sample(struct gpu_sample *g, const struct trace_event *ev)
{
	const struct event_gpu_stats *x = &ev->gpu_stats;

	uint64_t mj = x->energy_j.v;

	/* The counter begins at zero when the driver is loaded. */
	g->rise_mj =
		x->energy_j.known && g->known >> CT_GPU_ENERGY & 1 && mj > g->values[CT_GPU_ENERGY]
			? mj - g->values[CT_GPU_ENERGY]
			: 0;
	g->period_ns = g->last_ns && ev->start_ns > g->last_ns ? ev->start_ns - g->last_ns : 0;
	g->is_used = x->graphics_active.known ? x->graphics_active.v : x->util.known && x->util.v;
	g->known = 0;
#define VALUE(ID, id, form, unit, text)                                                            \
	g->values[CT_GPU_##ID] = x->id.v;                                                          \
	g->known |= (uint64_t)x->id.known << CT_GPU_##ID;
#include "ct_gpu.def"
	/* A sample represents the time since the previous one. */
	if (x->throttle)
		g->throttled_ns += g->period_ns;
	g->last_ns = ev->start_ns;
	g->cost_ns += x->cost_us.v;
	g->cnt++;
}

struct gpu_sample *gpu_samples__event(struct gpu_samples *s, const struct trace_event *ev)
{
	const struct event_gpu_stats *x = &ev->gpu_stats;
	struct gpu_sample *g = x->gpu.known ? find(s, x) : NULL;

	if (!g)
		return NULL;
	copy(g->uuid, sizeof(g->uuid), x->uuid);
	if (!strcmp(ev->op, "device")) {
		copy(g->pci, sizeof(g->pci), x->pci);
		copy(g->model, sizeof(g->model), x->model);
		if (x->minor.known)
			snprintf(g->device, sizeof(g->device), "nvidia%" PRIu64, x->minor.v);
	} else if (!strcmp(ev->op, "sample")) {
		on_sample(g, ev);
	}
	return g;
}

bool gpu_sample_is_fresh(const struct gpu_sample *g, uint64_t now)
{
	return g->last_ns && (now < g->last_ns || now - g->last_ns < FRESH_NS);
}

static struct gpu_hardware *find_hardware(struct gpu_samples *s, uint64_t gpu)
{
	struct gpu_hardware *h;

	for (unsigned i = 0; i < s->hardware_cnt; i++)
		if (s->hardware[i].gpu_id == gpu)
			return &s->hardware[i];
	if (s->hardware_cnt == GPU_SAMPLES_MAX)
		return NULL;
	h = &s->hardware[s->hardware_cnt++];
	h->gpu_id = gpu;
	snprintf(h->gpu, sizeof(h->gpu), "%" PRIu64, gpu);
	return h;
}

void gpu_samples__hardware(struct gpu_samples *s, const struct trace_event *ev)
{
	const struct event_gpu_metrics *x = &ev->gpu_metrics;
	double seconds = (ev->end_ns - ev->start_ns) / 1e9;
	struct gpu_hardware *h;

	if (!x->gpu.known || strcmp(ev->op, "sample"))
		return;
	h = find_hardware(s, x->gpu.v);
	if (!h)
		return;
	copy(h->uuid, sizeof(h->uuid), x->uuid);
#define VALUE(ID, id, form, unit, metrics, text)                                                   \
	h->sums[CT_PM_##ID] += x->id.v * seconds;                                                  \
	h->known |= (uint64_t)x->id.known << CT_PM_##ID;
#include "ct_pm.def"
	h->sampled_ns += ev->end_ns - ev->start_ns;
	h->cost_ns += x->cost_us.v;
}
