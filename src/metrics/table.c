/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The rows of metrics.def as data, and the functions that make points with labels. */
#include "table.h"

#include <stdio.h>
#include <string.h>

#include "level.h"
#include "metrics_priv.h"
#include "model/trace.h"

/* The parameters of all functions that a row names. */
#define POINTS                                                                                     \
	const struct metrics *m, const struct metrics_self *s, const struct metrics_target *t,     \
		metric_point_fn put, void *ctx
#define PUT(...) put(ctx, &(struct metric_point){__VA_ARGS__})

/* As in traces, libcuda's functions have an empty label, so that their series stay unchanged. */
static const char *api_label(enum api_id api)
{
	return api == API_CUDA ? NULL : api_at(api)->name;
}

static void calls_points(POINTS)
{
	hash_each (f, &t->fns)
		PUT({f->fn->symbol, api_class_name(f->fn->class), api_label(f->fn->api)},
		    .number = f->sums.calls);
}

static void errors_points(POINTS)
{
	hash_each (e, &t->errors)
		PUT({e->key.fn->symbol, metrics_error_name(e->key.fn, e->key.code),
		     api_label(e->key.fn->api)},
		    .number = e->cnt);
}

static void durations_points(POINTS)
{
	for (int api = 0; api < API_CNT; api++)
		for (int class = 0; class < CLASS_CNT; class ++)
			if (t->durations[api][class])
				PUT({api_class_name(class), api_label(api)},
				    .hist = t->durations[api][class]);
}

static void transfers_points(POINTS)
{
	for (int i = COPY_NONE; i <= COPY_DIR_PEER; i++)
		if (t->bytes[i])
			PUT({copy_dir_name(i) ?: "unknown"}, .number = t->bytes[i]);
}

static void memory_points(POINTS)
{
	for (int i = 0; i < MEM_KIND_CNT; i++)
		PUT({mem_kind_name(i)}, .number = t->mem[i]);
}

static void memory_peaks_points(POINTS)
{
	for (int i = 0; i < MEM_KIND_CNT; i++)
		PUT({mem_kind_name(i)}, .number = t->peak[i]);
}

/* For two metrics: count and time. */
static void ioctls_points(POINTS)
{
	hash_each (c, &t->cmds)
		PUT({c->name}, .number = c->cnt, .seconds = c->total_ns / 1e9);
}

/* For two metrics. */
static void residents_points(POINTS)
{
	hash_each (g, &t->resident_on)
		PUT({g->bus}, .number = g->cnt, .seconds = g->total_ns / 1e9);
}

static void runs_points(POINTS)
{
	char device[16];

	hash_each (r, &t->runs) {
		snprintf(device, sizeof(device), "%u", r->key.device);
		PUT({device, r->key.op}, .number = r->cnt, .seconds = r->total_ns / 1e9);
	}
}

static void communication_points(POINTS)
{
	char device[16];

	hash_each (r, &t->runs) {
		snprintf(device, sizeof(device), "%u", r->key.device);
		if (r->collective_ns)
			PUT({device}, .seconds = r->collective_ns / 1e9);
	}
}

/* For two metrics. */
static void collectives_points(POINTS)
{
	hash_each (x, &t->colls)
		PUT({api_op_name(x->op)}, .number = x->cnt, .seconds = x->total_ns / 1e9);
}

static void collective_bytes_points(POINTS)
{
	hash_each (x, &t->colls)
		PUT({api_op_name(x->op)}, .number = x->bytes);
}

static void gpu_lost_points(POINTS)
{
	for (unsigned i = 0; s->gpu_time && i < METRICS_GPU_LOST; i++)
		PUT({metrics_gpu_lost[i]}, .number = s->gpu_lost[i]);
}

static void gpu_discarded_points(POINTS)
{
	if (s->gpu_time)
		PUT({0}, .number = s->gpu_discarded_bytes);
}

static void inproc_points(POINTS)
{
	if (s->inject)
		PUT({0}, .number = s->inproc);
}

static void build_points(POINTS)
{
	PUT({s->version, s->driver_version, api_redact_name(s->redact)}, .number = 1);
}

static void drops_points(POINTS)
{
	for (int i = 0; i < CT_DROP_CNT; i++)
		PUT({drop_name(i)}, .number = s->drops[i]);
}

static void limits_hit_points(POINTS)
{
	for (int i = 0; i < QUOTA_CNT; i++)
		PUT({limit_name(i)}, .number = s->full[i]);
}

static void work_refused_points(POINTS)
{
	for (int i = 0; i < WORK_CNT; i++)
		PUT({work_name(i)}, .number = s->work.refused[i]);
}

static void work_time_points(POINTS)
{
	for (int i = 0; i < WORK_CNT; i++)
		PUT({work_name(i)}, .seconds = s->work.seconds[i]);
}

const char *const dossier_reason_name[] = {"error", "xid", "hang", "request"};

static void dossiers_points(POINTS)
{
	for (int i = 0; i < DOSSIER_REASON_CNT; i++)
		PUT({dossier_reason_name[i]}, .number = s->dossiers[i]);
}

static void injections_points(POINTS)
{
	PUT({"entered"}, .number = s->injections[0]);
	PUT({"refused"}, .number = s->injections[1]);
}

static void dossiers_refused_points(POINTS)
{
	static const char *const why[] = {"rate", "user", "busy", "disk"};

	for (int i = 0; i < DOSSIER_REFUSAL_CNT; i++)
		PUT({why[i]}, .number = s->dossiers_refused[i]);
}

static void tables_used_points(POINTS)
{
	for (int i = 0; i < QUOTA_CNT; i++)
		PUT({limit_name(i)}, .number = s->used[i]);
}

static void xids_points(POINTS)
{
	char number[16];

	for (unsigned i = 0; i < m->xid_cnt; i++) {
		snprintf(number, sizeof(number), "%u", m->xids[i].number);
		PUT({m->xids[i].gpu, number}, .number = m->xids[i].cnt);
	}
}

static void gpus_points(POINTS)
{
	for (const struct gpu *g = s->gpus; g < s->gpus + s->gpu_cnt; g++)
		PUT({g->bus, g->uuid, g->model, g->minor}, .number = 1);
}

/* The labels of dcgm-exporter, so that its series and ours can be joined. */
#define GPU_LABELS_OF(g, s)                                                                        \
	{                                                                                          \
		(g)->gpu, (g)->uuid, (g)->pci, (g)->device, (g)->model,                            \
			*(g)->instance ? (g)->instance : NULL, (s)->hostname                       \
	}

static void put_gpus(POINTS, int id, double scale)
{
	for (const struct gpu_sample *g = m->gpus.of; g < m->gpus.of + m->gpus.cnt; g++)
		if (gpu_sample_is_fresh(g, s->now_ns) && g->known >> id & 1)
			PUT(GPU_LABELS_OF(g, s), .seconds = g->values[id] / scale);
}

static void gpu_throttled_points(POINTS)
{
	for (const struct gpu_sample *g = m->gpus.of; g < m->gpus.of + m->gpus.cnt; g++)
		if (g->cnt)
			PUT(GPU_LABELS_OF(g, s), .seconds = g->throttled_ns / 1e9);
}

static void gpu_idle_energy_points(POINTS)
{
	for (const struct gpu_sample *g = m->gpus.of; g < m->gpus.of + m->gpus.cnt; g++)
		if (g->known >> CT_GPU_ENERGY & 1)
			PUT(GPU_LABELS_OF(g, s), .seconds = g->idle_joules);
}

static void gpu_sampling_points(POINTS)
{
	for (const struct gpu_sample *g = m->gpus.of; g < m->gpus.of + m->gpus.cnt; g++)
		if (g->cnt)
			PUT(GPU_LABELS_OF(g, s), .seconds = g->cost_ns / 1e9, .number = g->cnt);
}
#define gpu_samples_points gpu_sampling_points

static const struct {
	enum ct_pm_value value;
	const char *what;
} activities[] =
	{
		{CT_PM_GR_ACTIVE, "engine"},	 {CT_PM_SM_ACTIVE, "sm"},
		{CT_PM_TENSOR_ACTIVE, "tensor"}, {CT_PM_DRAM_ACTIVE, "dram"},
		{CT_PM_INST_EXECUTED, "issue"},	 {CT_PM_SM_OCCUPANCY, "warps"},
		{CT_PM_L2_ACTIVE, "l2"},
},
  traffic[] = {
	  {CT_PM_DRAM_READ, "dram_read"}, {CT_PM_DRAM_WRITE, "dram_write"},
	  {CT_PM_PCIE_READ, "pcie_read"}, {CT_PM_PCIE_WRITE, "pcie_write"},
	  {CT_PM_NVLINK_RX, "nvlink_rx"}, {CT_PM_NVLINK_TX, "nvlink_tx"},
};
#define EACH_HARDWARE(h)                                                                           \
	for (const struct gpu_hardware *h = m->gpus.hardware;                                      \
	     h < m->gpus.hardware + m->gpus.hardware_cnt; h++)

static void gpu_active_points(POINTS)
{
	EACH_HARDWARE(h)
	for (unsigned i = 0; i < sizeof(activities) / sizeof(*activities); i++)
		if (h->known >> activities[i].value & 1)
			PUT({h->gpu, h->uuid, activities[i].what},
			    .seconds = h->sums[activities[i].value] / 1e5);
}

static void gpu_traffic_points(POINTS)
{
	EACH_HARDWARE(h)
	for (unsigned i = 0; i < sizeof(traffic) / sizeof(*traffic); i++)
		if (h->known >> traffic[i].value & 1)
			PUT({h->gpu, h->uuid, traffic[i].what},
			    .number = h->sums[traffic[i].value]);
}

static void gpu_active_sampled_points(POINTS)
{
	EACH_HARDWARE(h)
	PUT({h->gpu, h->uuid}, .seconds = h->sampled_ns / 1e9);
}

static void gpu_active_sampling_points(POINTS)
{
	EACH_HARDWARE(h)
	PUT({h->gpu, h->uuid}, .seconds = h->cost_ns / 1e9);
}

static void gpu_memory_used_points(POINTS)
{
	for (const struct target_gpu *x = t->gpus; x < t->gpus + t->gpu_cnt; x++)
		if (x->memory && gpu_sample_is_fresh(&m->gpus.of[x->gpu], s->now_ns))
			PUT(GPU_LABELS_OF(&m->gpus.of[x->gpu], s), .number = x->memory);
}

static void gpu_utilization_points(POINTS)
{
	for (const struct target_gpu *x = t->gpus; x < t->gpus + t->gpu_cnt; x++)
		if (x->memory && gpu_sample_is_fresh(&m->gpus.of[x->gpu], s->now_ns))
			PUT(GPU_LABELS_OF(&m->gpus.of[x->gpu], s),
			    .number = (x->util + 500) / 1000);
}

static void gpu_energy_points(POINTS)
{
	for (const struct target_gpu *x = t->gpus; x < t->gpus + t->gpu_cnt; x++)
		if (x->joules)
			PUT(GPU_LABELS_OF(&m->gpus.of[x->gpu], s), .seconds = x->joules);
}

static void processes_points(POINTS)
{
	for (int i = 0; i < LEVEL_CNT; i++)
		PUT({proc_level_name(i)}, .number = s->processes[i]);
}

#define GPU_LABELS
#define METRIC(of, name, kind, unit, labels, points, help)
#define DCGM(name, kind, unit, value, scale, help)                                                 \
	static void name##_points(POINTS)                                                          \
	{                                                                                          \
		put_gpus(m, s, t, put, ctx, CT_GPU_##value, scale);                                \
	}
#define NUMBER(of, name, kind, unit, value, help)                                                  \
	static void name##_number(POINTS)                                                          \
	{                                                                                          \
		PUT(.number = value, .seconds = value);                                            \
	}
#include "metrics.def"
#undef METRIC
#undef NUMBER
#undef DCGM
#undef GPU_LABELS

#define LABELS(...) __VA_ARGS__
#define GPU_LABELS                                                                                 \
	LABELS("gpu", "UUID", "pci_bus_id", "device", "modelName", "GPU_I_ID", "Hostname")
#define DCGM(name, kind, unit, value, scale, help)                                                 \
	{METRIC_NODE, METRIC_##kind, #name, unit, help, {GPU_LABELS}, true, name##_points},
#define METRIC(of, name, kind, unit, labels, points, help)                                         \
	{METRIC_##of, METRIC_##kind, #name, unit, help, {labels}, false, points##_points},
#define NUMBER(of, name, kind, unit, value, help)                                                  \
	{METRIC_##of, METRIC_##kind, #name, unit, help, {NULL}, false, name##_number},
static const struct metric table[] = {
#include "metrics.def"
};

const struct metric *metrics_table(unsigned *cnt)
{
	*cnt = sizeof(table) / sizeof(table[0]);
	return table;
}

bool metric_is_seconds(const struct metric *metric)
{
	return !strcmp(metric->unit, "s");
}

bool metric_is_real(const struct metric *metric)
{
	return metric->as_is || metric_is_seconds(metric) || !strcmp(metric->unit, "J");
}

void metric_full_name(const struct metric *metric, char *buf, size_t size)
{
	if (metric->as_is) {
		snprintf(buf, size, "%s", metric->name);
		return;
	}
	snprintf(buf, size, "cudatrace_%s%s%s", metric->name,
		 metric_is_seconds(metric)     ? "_seconds"
		 : !strcmp(metric->unit, "By") ? "_bytes"
		 : !strcmp(metric->unit, "J")  ? "_joules"
					       : "",
		 metric->kind == METRIC_SUM    ? "_total"
		 : metric->kind == METRIC_INFO ? "_info"
					       : "");
}

bool metric_is_shown(const struct metric *metric, const struct metrics_self *s)
{
	if (metric->as_is)
		return s->dcgm;
	return metric->of != METRIC_ARGS || s->redact != CT_REDACT_ARGS;
}

void metrics__each(const struct metrics *m, void (*fn)(void *ctx, const struct metrics_target *t),
		   void *ctx)
{
	hash_each (t, &m->targets)
		fn(ctx, t);
	if (m->others.fns.first || m->others.resident_on.first || m->others.processes ||
	    m->others.gpu_cnt)
		fn(ctx, &m->others);
}
