/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "gpu_stats.h"

#include "event_table.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* The values of nvmlClocksEventReason... in nvml.h that slow a GPU down (CUDA 13.5 has the last
 * two). Not listed: 0x1 idle, 0x2 application clocks, 0x100 display clocks. */
static const struct {
	uint64_t bit;
	const char *word;
} reasons[] = {
	{0x4, "sw_power_cap"},	       {0x8, "hw_slowdown"},
	{0x10, "sync_boost"},	       {0x20, "sw_thermal_slowdown"},
	{0x40, "hw_thermal_slowdown"}, {0x80, "hw_power_brake_slowdown"},
	{0x200, "board_limit"},	       {0x400, "reliability"},
};
#define REASON_CNT (sizeof(reasons) / sizeof(reasons[0]))

static const char *throttle_text(uint64_t bits, char *buf, size_t size)
{
	size_t len = 0;

	for (unsigned i = 0; i < REASON_CNT && len < size; i++)
		if (bits & reasons[i].bit)
			len += snprintf(buf + len, size - len, "%s%s", len ? " " : "",
					reasons[i].word);
	return len ? buf : NULL;
}

/* Returns NULL if the text is empty. */
static const char *text_of(char *to, const char *from, size_t size)
{
	memcpy(to, from, size);
	to[size] = 0;
	return *to ? to : NULL;
}

static struct opt_u64 number(uint32_t x)
{
	return (struct opt_u64){x, x != CT_GPU_NONE};
}

static void take_values(const struct ct_gpu *rec, struct event_gpu_stats *g)
{
#define VALUE(ID, id, form, unit, text)                                                            \
	g->id = (struct opt_u64){rec->values[CT_GPU_##ID], rec->known >> CT_GPU_##ID & 1};
#include "ct_gpu.def"
}

static void port_event(const struct ct_gpu *rec, struct gpu_stats_texts *texts,
		       struct trace_event *ev)
{
	struct event_network *n = &ev->network;

	*ev = (struct trace_event){
		.kind = EVENT_NETWORK,
		.type = event_kinds[EVENT_NETWORK].type,
		.op = "sample",
		.name = "port",
		.comm = "",
		.start_ns = rec->rec.ts_ns,
		.end_ns = rec->rec.ts_ns,
	};
	n->device = text_of(texts->name, rec->name, sizeof(rec->name)) ?: "";
	n->port = rec->gpu;
	n->link = text_of(texts->pci, rec->pci, sizeof(rec->pci)) ?: "";
	n->state = text_of(texts->uuid, rec->uuid, sizeof(rec->uuid)) ?: "";
#define VALUE(ID, id, file, scale, form, unit, text)                                               \
	n->id = (struct opt_u64){rec->values[CT_NET_##ID], rec->known >> CT_NET_##ID & 1};
#include "ct_net.def"
}

static void metrics_event(const struct ct_gpu *rec, struct gpu_stats_texts *texts,
			  struct trace_event *ev)
{
	static const char *const ops[] = {
		[CT_GPU_PM_DEVICE] = "device",
		[CT_GPU_PM_SAMPLE] = "sample",
		[CT_GPU_PM_MISSING] = "missing",
	};
	struct event_gpu_metrics *g = &ev->gpu_metrics;
	const char *name = text_of(texts->name, rec->name, sizeof(rec->name));
	bool is_sample = rec->op == CT_GPU_PM_SAMPLE;

	*ev = (struct trace_event){
		.kind = EVENT_GPU_METRICS,
		.type = event_kinds[EVENT_GPU_METRICS].type,
		.op = ops[rec->op],
		.name = "PM sampling",
		.comm = "",
		.start_ns = rec->rec.ts_ns,
		.end_ns = is_sample && rec->end_ns > rec->rec.ts_ns ? rec->end_ns : rec->rec.ts_ns,
	};
	g->gpu = number(rec->gpu);
	g->uuid = text_of(texts->uuid, rec->uuid, sizeof(rec->uuid));
	g->pci = text_of(texts->pci, rec->pci, sizeof(rec->pci));
	if (rec->op == CT_GPU_PM_DEVICE) {
		g->model = name;
		g->interval_ns = rec->end_ns;
	} else if (!is_sample) {
		g->why = name;
	} else {
#define VALUE(ID, id, form, unit, metrics, text)                                                   \
	g->id = (struct opt_u64){rec->values[CT_PM_##ID], rec->known >> CT_PM_##ID & 1};
#include "ct_pm.def"
		g->cost_us = (struct opt_u64){rec->cost_ns, true};
	}
}

int gpu_stats__event(const struct ct_gpu *rec, struct gpu_stats_texts *texts,
		     struct trace_event *ev)
{
	static const char *const ops[] = {
		[CT_GPU_DEVICE] = "device",
		[CT_GPU_SAMPLE] = "sample",
		[CT_GPU_PROCESS] = "process",
		[CT_GPU_MISSING] = "missing",
	};
	struct event_gpu_stats *g = &ev->gpu_stats;
	const char *name;

	if (rec->op == CT_GPU_PORT) {
		port_event(rec, texts, ev);
		return 0;
	}
	if (rec->op >= CT_GPU_PM_DEVICE && rec->op <= CT_GPU_PM_MISSING) {
		metrics_event(rec, texts, ev);
		return 0;
	}
	if (rec->op < CT_GPU_DEVICE || rec->op > CT_GPU_MISSING)
		return -EINVAL;
	*ev = (struct trace_event){
		.kind = EVENT_GPU_STATS,
		.type = event_kinds[EVENT_GPU_STATS].type,
		.op = ops[rec->op],
		.name = "NVML",
		.pid = rec->rec.pid,
		.tid = rec->rec.tid,
		.comm = "",
		.start_ns = rec->rec.ts_ns,
		.end_ns = rec->rec.ts_ns,
	};
	name = text_of(texts->name, rec->name, sizeof(rec->name));
	g->gpu = number(rec->gpu);
	g->gpu_instance = number(rec->gpu_instance);
	g->compute_instance = number(rec->compute_instance);
	g->minor = number(rec->minor);
	g->uuid = text_of(texts->uuid, rec->uuid, sizeof(rec->uuid));
	g->pci = text_of(texts->pci, rec->pci, sizeof(rec->pci));
	take_values(rec, g);
	if (g->clock_reasons.known)
		g->throttle =
			throttle_text(g->clock_reasons.v, texts->throttle, sizeof(texts->throttle));
	if (rec->op == CT_GPU_DEVICE)
		g->model = name;
	else if (rec->op == CT_GPU_MISSING)
		g->why = name;
	else if (rec->op == CT_GPU_PROCESS)
		ev->comm = name ?: "";
	return 0;
}
