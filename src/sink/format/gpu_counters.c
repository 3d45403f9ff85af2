/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "gpu_counters.h"

#include "ct_gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Limit of devices and MIG devices, and of network ports; further ones have no counters. */
#define DEVICES_MAX 256
#define PORTS_MAX   64
#define NAME_SZ	    64

/* Drawn values; NULL: not drawn. A process has the values reported for it. */
static const struct row {
	const char *of_device, *of_process, *unit;
} rows[CT_GPU_VALUE_CNT] = {
	[CT_GPU_UTIL] = {"busy", NULL, "%"},
	[CT_GPU_MEMORY_UTIL] = {"memory busy", NULL, "%"},
	[CT_GPU_MEMORY_USED] = {"memory used", "memory used", "bytes"},
	[CT_GPU_SM_CLOCK] = {"SM clock", NULL, "MHz"},
	[CT_GPU_MEMORY_CLOCK] = {"memory clock", NULL, "MHz"},
	[CT_GPU_POWER] = {"power", NULL, "W"},
	[CT_GPU_TEMPERATURE] = {"temperature", NULL, "degrees C"},
	[CT_GPU_PCIE_TX] = {"PCIe sent", NULL, "bytes/s"},
	[CT_GPU_PCIE_RX] = {"PCIe received", NULL, "bytes/s"},
	[CT_GPU_NVLINK_TX] = {"NVLink sent", NULL, "bytes/s"},
	[CT_GPU_NVLINK_RX] = {"NVLink received", NULL, "bytes/s"},
	[CT_GPU_SM_ACTIVE] = {"SMs active", NULL, "%"},
	[CT_GPU_SM_OCCUPANCY] = {"SM occupancy", NULL, "%"},
	[CT_GPU_TENSOR_ACTIVE] = {"tensor cores active", NULL, "%"},
	[CT_GPU_DRAM_ACTIVE] = {"DRAM active", NULL, "%"},
	[CT_GPU_SM_UTIL] = {NULL, "busy", "%"},
};

/* Counters of EVENT_GPU_METRICS. */
static const char *const metric_names[CT_PM_VALUE_CNT] = {
	[CT_PM_GR_ACTIVE] = "busy",
	[CT_PM_SM_ACTIVE] = "SMs active",
	[CT_PM_TENSOR_ACTIVE] = "tensor cores active",
	[CT_PM_DRAM_ACTIVE] = "DRAM active",
	[CT_PM_DRAM_READ] = "DRAM read",
	[CT_PM_DRAM_WRITE] = "DRAM written",
	[CT_PM_INST_EXECUTED] = "instructions",
	[CT_PM_SM_OCCUPANCY] = "SM occupancy",
	[CT_PM_L2_ACTIVE] = "L2 active",
	[CT_PM_PCIE_READ] = "PCIe read",
	[CT_PM_PCIE_WRITE] = "PCIe written",
	[CT_PM_NVLINK_RX] = "NVLink received",
	[CT_PM_NVLINK_TX] = "NVLink sent",
	[CT_PM_L1_HIT_RATE] = "L1 hits",
};

struct device {
	uint64_t gpu, gpu_instance, compute_instance;
	struct chrome_counter counters[CT_GPU_VALUE_CNT + 1];
	char names[CT_GPU_VALUE_CNT + 1][NAME_SZ];
};
#define THROTTLE CT_GPU_VALUE_CNT

struct metrics_device {
	uint64_t gpu;
	struct chrome_counter counters[CT_PM_VALUE_CNT];
	char names[CT_PM_VALUE_CNT][NAME_SZ];
};

struct port {
	char device[64];
	uint32_t number;
	struct chrome_counter sent, received;
	char names[2][96];
};

struct gpu_counters {
	struct device *devices[DEVICES_MAX];
	struct metrics_device *metrics[DEVICES_MAX];
	struct port *ports[PORTS_MAX];
	unsigned device_cnt, metrics_cnt, port_cnt;
};

struct gpu_counters *gpu_counters__new(void)
{
	return calloc(1, sizeof(struct gpu_counters));
}

void gpu_counters__free(struct gpu_counters *g)
{
	while (g && g->device_cnt)
		free(g->devices[--g->device_cnt]);
	while (g && g->metrics_cnt)
		free(g->metrics[--g->metrics_cnt]);
	while (g && g->port_cnt)
		free(g->ports[--g->port_cnt]);
	free(g);
}

#define opt_u64	  false
#define opt_hex	  false
#define opt_milli true
static const bool is_milli[CT_GPU_VALUE_CNT + 1] = {
#define VALUE(ID, id, form, unit, text) [CT_GPU_##ID] = form,
#include "ct_gpu.def"
};

static void make_counter(struct device *d, unsigned i, const char *what, const char *unit)
{
	char part[48] = "";

	/* The form of nvidia-smi. */
	if (d->gpu_instance != UINT64_MAX)
		snprintf(part, sizeof(part), " MIG %u/%u", (unsigned)d->gpu_instance,
			 (unsigned)d->compute_instance);
	snprintf(d->names[i], NAME_SZ, "GPU %u%s %s", (unsigned)d->gpu, part, what);
	d->counters[i] = (struct chrome_counter){d->names[i], "gpu", unit, is_milli[i]};
}

static struct device *new_device(struct gpu_counters *g)
{
	struct device *d = g->device_cnt < DEVICES_MAX ? calloc(1, sizeof(*d)) : NULL;

	if (d)
		g->devices[g->device_cnt++] = d;
	return d;
}

static struct device *device_of(struct gpu_counters *g, const struct event_gpu_stats *x)
{
	uint64_t gi = x->gpu_instance.known ? x->gpu_instance.v : UINT64_MAX;
	uint64_t ci = x->compute_instance.known ? x->compute_instance.v : UINT64_MAX;
	struct device *d;

	for (unsigned i = 0; i < g->device_cnt; i++) {
		d = g->devices[i];
		if (d->gpu == x->gpu.v && d->gpu_instance == gi && d->compute_instance == ci)
			return d;
	}
	d = new_device(g);
	if (!d)
		return NULL;
	d->gpu = x->gpu.v;
	d->gpu_instance = gi;
	d->compute_instance = ci;
	for (unsigned i = 0; i < CT_GPU_VALUE_CNT; i++)
		if (rows[i].unit)
			make_counter(d, i, rows[i].of_device ?: rows[i].of_process, rows[i].unit);
	make_counter(d, THROTTLE, "throttled", "yes");
	return d;
}

/* NULL: no memory, or too many. */
static struct port *port_of(struct gpu_counters *g, const struct event_network *x)
{
	const char *device = x->device ?: "";
	struct port *p;

	for (unsigned i = 0; i < g->port_cnt; i++)
		if (g->ports[i]->number == x->port && !strcmp(g->ports[i]->device, device))
			return g->ports[i];
	p = g->port_cnt < PORTS_MAX && strlen(device) < sizeof(p->device) ? calloc(1, sizeof(*p))
									  : NULL;
	if (!p)
		return NULL;
	g->ports[g->port_cnt++] = p;
	strcpy(p->device, device);
	p->number = x->port;
	snprintf(p->names[0], sizeof(p->names[0]), "%s/%u sent", p->device, p->number);
	snprintf(p->names[1], sizeof(p->names[1]), "%s/%u received", p->device, p->number);
	p->sent = (struct chrome_counter){p->names[0], "network", "bytes/s", false};
	p->received = (struct chrome_counter){p->names[1], "network", "bytes/s", false};
	return p;
}

static void network_event(struct gpu_counters *g, const struct trace_event *ev,
			  chrome_counter_fn fn, void *ctx)
{
	const struct event_network *x = &ev->network;
	const struct port *p = port_of(g, x);

	if (p && x->tx.known)
		fn(ctx, ev->pid, &p->sent, ev->start_ns, x->tx.v);
	if (p && x->rx.known)
		fn(ctx, ev->pid, &p->received, ev->start_ns, x->rx.v);
}

static struct metrics_device *metrics_device_of(struct gpu_counters *g, uint64_t gpu)
{
	static const struct {
		const char *unit;
		bool is_milli;
	} forms[] = {
#define VALUE(ID, id, form, unit, metrics, text) [CT_PM_##ID] = {unit, form},
#include "ct_pm.def"
	};
	struct metrics_device *d;

	for (unsigned i = 0; i < g->metrics_cnt; i++)
		if (g->metrics[i]->gpu == gpu)
			return g->metrics[i];
	d = g->metrics_cnt < DEVICES_MAX ? calloc(1, sizeof(*d)) : NULL;
	if (!d)
		return NULL;
	g->metrics[g->metrics_cnt++] = d;
	d->gpu = gpu;
	for (unsigned i = 0; i < CT_PM_VALUE_CNT; i++) {
		snprintf(d->names[i], NAME_SZ, "GPU %u hardware: %s", (unsigned)gpu,
			 metric_names[i] ?: "");
		d->counters[i] = (struct chrome_counter){d->names[i], "gpu", forms[i].unit,
							 forms[i].is_milli};
	}
	return d;
}

static void metrics_event(struct gpu_counters *g, const struct trace_event *ev,
			  chrome_counter_fn fn, void *ctx)
{
	const struct event_gpu_metrics *x = &ev->gpu_metrics;
	struct metrics_device *d =
		!strcmp(ev->op, "sample") && x->gpu.known ? metrics_device_of(g, x->gpu.v) : NULL;

	if (!d)
		return;
#define VALUE(ID, id, form, unit, metrics, text)                                                   \
	if (x->id.known && metric_names[CT_PM_##ID])                                               \
		fn(ctx, ev->pid, &d->counters[CT_PM_##ID], ev->start_ns, x->id.v);
#include "ct_pm.def"
}

void gpu_counters__event(struct gpu_counters *g, const struct trace_event *ev, chrome_counter_fn fn,
			 void *ctx)
{
	const struct event_gpu_stats *x = &ev->gpu_stats;
	bool of_process = !strcmp(ev->op, "process");
	struct device *d;

	if (ev->kind == EVENT_NETWORK) {
		network_event(g, ev, fn, ctx);
		return;
	}
	if (ev->kind == EVENT_GPU_METRICS) {
		metrics_event(g, ev, fn, ctx);
		return;
	}
	if (!x->gpu.known || (!of_process && strcmp(ev->op, "sample")))
		return;
	d = device_of(g, x);
	if (!d)
		return;
#define VALUE(ID, id, form, unit_, text)                                                           \
	if (x->id.known &&                                                                         \
	    (of_process ? rows[CT_GPU_##ID].of_process : rows[CT_GPU_##ID].of_device))             \
		fn(ctx, ev->pid, &d->counters[CT_GPU_##ID], ev->start_ns, x->id.v);
#include "ct_gpu.def"
	if (!of_process && x->clock_reasons.known)
		fn(ctx, ev->pid, &d->counters[THROTTLE], ev->start_ns, x->throttle != NULL);
}
