/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Sums of hardware counters, by GPU and by kernel. */
#include "gpu_metrics.h"

#include "model/devices.h"
#include "report/section.h"
#include "util/order.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void reject(struct gpu_metrics *m)
{
	m->rejected_cnt++;
	memlimit_reject(MEMLIMIT_DEVICES);
}

static struct pm_gpu *gpu_of_sample(struct gpu_metrics *m, const struct trace_event *ev)
{
	const struct event_gpu_metrics *x = &ev->gpu_metrics;
	struct pm_gpu *g;

	for (unsigned i = 0; i < m->gpu_cnt; i++)
		if (m->gpus[i]->number == x->gpu.v && m->gpus[i]->trace == ev->trace)
			return m->gpus[i];
	g = m->gpu_cnt < PM_GPUS ? calloc(1, sizeof(*g)) : NULL;
	if (!g) {
		reject(m);
		return NULL;
	}
	g->number = x->gpu.v;
	g->trace = ev->trace;
	return m->gpus[m->gpu_cnt++] = g;
}

/* Without a UUID, the GPU is known if there is only one. */
static struct pm_gpu *gpu_of_work(const struct gpu_metrics *m, const struct trace_event *ev,
				  unsigned *at)
{
	const struct device *d = ev->device;
	struct pm_gpu *only = NULL;
	unsigned cnt = 0;

	for (unsigned i = 0; i < m->gpu_cnt; i++) {
		struct pm_gpu *g = m->gpus[i];

		if (d && *d->uuid && !strcmp(g->uuid, d->uuid))
			return m->gpus[*at = i];
		if ((!d || !*d->uuid) && g->trace == ev->trace && !cnt++)
			only = m->gpus[ *at = i];
	}
	return cnt == 1 ? only : NULL;
}

static void add_value(struct pm_value *v, double x, double ns, double active_ns)
{
	v->sum += x * ns;
	v->ns += ns;
	if (x > v->max)
		v->max = x;
	if (active_ns) {
		v->busy_sum += x * ns;
		v->busy_ns += active_ns;
	}
}

static void add_values(struct pm_value sums[CT_PM_VALUE_CNT], const struct pm_kept *k)
{
	double ns = k->end - k->start, active = k->values[CT_PM_GR_ACTIVE];
	double active_ns =
		k->known >> CT_PM_GR_ACTIVE & 1 && active >= PM_IDLE ? ns * active / 1e5 : 0;

	for (unsigned i = 0; i < CT_PM_VALUE_CNT; i++)
		if (k->known >> i & 1)
			add_value(&sums[i], k->values[i], ns, active_ns);
}

/* --- samples and executions --- */

static int by_start(const void *a, const void *b)
{
	const struct pm_kept *x = a, *y = b;

	return ASCENDING(x->start, y->start);
}

static int by_execution_start(const void *a, const void *b)
{
	const struct pm_execution *x = a, *y = b;

	return ASCENDING(x->start, y->start);
}

static double overlap_ns(const struct pm_kept *k, const struct pm_execution *e)
{
	uint64_t start = k->start > e->start ? k->start : e->start;
	uint64_t end = k->end < e->end ? k->end : e->end;

	return end > start ? end - start : 0;
}

/* A majority vote: what fills more than half of the executions' time remains. */
static void vote(struct pm_kept *k, const struct pm_execution *e)
{
	double ns = overlap_ns(k, e);

	if (k->kernel == e->kernel) {
		k->votes += ns;
	} else if (ns > k->votes) {
		k->kernel = e->kernel;
		k->votes = ns - k->votes;
	} else {
		k->votes -= ns;
	}
}

static void count(struct pm_kept *k, const struct pm_execution *e)
{
	*(k->kernel == e->kernel ? &k->own_ns : &k->others_ns) += overlap_ns(k, e);
}

static void each_overlap(struct pm_gpu *g, unsigned cnt,
			 void (*fn)(struct pm_kept *k, const struct pm_execution *e))
{
	for (unsigned i = 0; i < g->execution_cnt; i++) {
		const struct pm_execution *e = &g->executions[i];
		unsigned low = 0, high = cnt;

		/* The first sample that ends after its start. */
		while (low < high) {
			unsigned mid = (low + high) / 2;

			if (g->kept[mid].end <= e->start)
				low = mid + 1;
			else
				high = mid;
		}
		for (; low < cnt && g->kept[low].start < e->end; low++)
			fn(&g->kept[low], e);
	}
}

static void settle_sample(struct gpu_metrics *m, struct pm_gpu *g, const struct pm_kept *k)
{
	double ns = k->end - k->start;
	struct pm_kernel *kernel;

	if (k->own_ns < ns * PM_OWN || k->others_ns > ns * PM_OTHERS)
		return;
	kernel = &m->kernels[k->kernel];
	g->mostly_one++;
	kernel->samples++;
	kernel->sampled_ns += ns;
	/* Executions of a kernel may overlap. */
	kernel->own_ns += k->own_ns < ns ? k->own_ns : ns;
	add_values(kernel->values, k);
}

/* Attributes the samples that begin before ns, and forgets what ended before. */
static void settle(struct gpu_metrics *m, struct pm_gpu *g, uint64_t ns)
{
	unsigned cnt, left = 0;

	qsort(g->kept, g->kept_cnt, sizeof(*g->kept), by_start);
	cnt = COUNT_LEADING(i, g->kept_cnt, g->kept[i].start < ns);
	each_overlap(g, cnt, vote);
	each_overlap(g, cnt, count);
	for (unsigned i = 0; i < cnt; i++)
		settle_sample(m, g, &g->kept[i]);
	g->kept_cnt -= cnt;
	if (cnt)
		memmove(g->kept, g->kept + cnt, g->kept_cnt * sizeof(*g->kept));
	for (unsigned i = 0; i < g->execution_cnt; i++)
		if (g->executions[i].end > ns)
			g->executions[left++] = g->executions[i];
	g->execution_cnt = left;
}

static void make_room(struct gpu_metrics *m, struct pm_gpu *g)
{
	if (g->kept_cnt == PM_SAMPLES) {
		qsort(g->kept, g->kept_cnt, sizeof(*g->kept), by_start);
		settle(m, g, g->kept[PM_SAMPLES / 2].start);
	}
	if (g->execution_cnt == PM_EXECUTIONS) {
		qsort(g->executions, g->execution_cnt, sizeof(*g->executions), by_execution_start);
		settle(m, g, g->executions[PM_EXECUTIONS / 2].start);
	}
}

static void on_sample(struct gpu_metrics *m, struct pm_gpu *g, const struct trace_event *ev)
{
	const struct event_gpu_metrics *x = &ev->gpu_metrics;
	struct pm_kept k = {.start = ev->start_ns, .end = ev->end_ns, .kernel = KEYS_NONE}, *grown;

	if (k.end <= k.start)
		return;
#define VALUE(ID, id, form, unit, metrics, text)                                                   \
	if (x->id.known) {                                                                         \
		k.values[CT_PM_##ID] = x->id.v;                                                    \
		k.known |= 1u << CT_PM_##ID;                                                       \
	}
#include "ct_pm.def"
	g->samples++;
	g->sampled_ns += k.end - k.start;
	add_values(g->values, &k);
	make_room(m, g);
	grown = g->kept_cnt < PM_SAMPLES
			? grow(g->kept, &g->kept_cap, g->kept_cnt + 1, sizeof(k), MEMLIMIT_DEVICES)
			: NULL;
	if (!grown) {
		reject(m);
		return;
	}
	g->kept = grown;
	g->kept[g->kept_cnt++] = k;
}

static void on_metrics(struct gpu_metrics *m, const struct trace_event *ev)
{
	const struct event_gpu_metrics *x = &ev->gpu_metrics;
	struct pm_gpu *g = x->gpu.known ? gpu_of_sample(m, ev) : NULL;

	if (!g)
		return;
	if (x->uuid)
		snprintf(g->uuid, sizeof(g->uuid), "%s", x->uuid);
	if (!strcmp(ev->op, "device")) {
		snprintf(g->model, sizeof(g->model), "%s", x->model ?: "");
		g->interval_ns = x->interval_ns;
	} else if (!strcmp(ev->op, "sample")) {
		on_sample(m, g, ev);
	}
}

static uint32_t kernel_of(struct gpu_metrics *m, unsigned gpu, const struct trace_event *ev)
{
	/* Operations other than kernels differ in their first letter. */
	uint64_t what = ev->gpu.kernel ? (uintptr_t)ev->gpu.kernel : (uint64_t)*ev->op;
	uint32_t n = keys_row_max(&m->keys, pair_key(what, gpu), PM_KERNELS, MEMLIMIT_DEVICES,
				  m->kernels, m->kernel_cap);
	struct pm_kernel *k;

	if (n == KEYS_NONE)
		return n;
	k = &m->kernels[n];
	if (n == m->kernel_cnt) {
		m->kernel_cnt++;
		k->op = ev->op;
		k->name = ev->gpu.kernel;
		k->gpu = gpu;
	}
	k->executions++;
	k->gpu_ns += ev->end_ns - ev->start_ns;
	return n;
}

static void on_work(struct gpu_metrics *m, const struct trace_event *ev)
{
	struct pm_execution *grown;
	unsigned at = 0;
	struct pm_gpu *g = gpu_of_work(m, ev, &at);
	uint32_t kernel;

	if (!g || ev->end_ns <= ev->start_ns)
		return;
	kernel = kernel_of(m, at, ev);
	make_room(m, g);
	grown = kernel != KEYS_NONE && g->execution_cnt < PM_EXECUTIONS
			? grow(g->executions, &g->execution_cap, g->execution_cnt + 1,
			       sizeof(*grown), MEMLIMIT_DEVICES)
			: NULL;
	if (!grown) {
		reject(m);
		return;
	}
	g->executions = grown;
	g->executions[g->execution_cnt++] = (struct pm_execution){ev->start_ns, ev->end_ns, kernel};
}

static void gpu_metrics_event(void *a, const struct trace_event *ev)
{
	if (ev->kind == EVENT_GPU_METRICS)
		on_metrics(a, ev);
	else if (ev->kind == EVENT_GPU)
		on_work(a, ev);
}

static int by_time(const void *a, const void *b)
{
	const struct pm_kernel *x = *(struct pm_kernel *const *)a;
	const struct pm_kernel *y = *(struct pm_kernel *const *)b;

	return DESCENDING(x->gpu_ns, y->gpu_ns) ?: ASCENDING(x, y);
}

static void gpu_metrics_finish(void *a)
{
	struct gpu_metrics *m = a;

	for (unsigned i = 0; i < m->gpu_cnt; i++)
		settle(m, m->gpus[i], UINT64_MAX);
	m->sorted = calloc(m->kernel_cnt + 1, sizeof(*m->sorted));
	for (unsigned i = 0; m->sorted && i < m->kernel_cnt; i++)
		if (m->kernels[i].samples >= PM_FEW)
			m->sorted[m->sorted_cnt++] = &m->kernels[i];
	if (m->sorted)
		qsort(m->sorted, m->sorted_cnt, sizeof(*m->sorted), by_time);
}

static void gpu_metrics_free(void *a)
{
	struct gpu_metrics *m = a;

	for (unsigned i = 0; i < m->gpu_cnt; i++) {
		memlimit_free(m->gpus[i]->kept);
		memlimit_free(m->gpus[i]->executions);
		free(m->gpus[i]);
	}
	memlimit_free(m->kernels);
	keys__free(&m->keys);
	free(m->sorted);
	free(m);
}

const struct analysis_ops gpu_metrics_ops = {
	.name = "gpu_metrics",
	.size = STATE_SIZE(struct gpu_metrics),
	.event = gpu_metrics_event,
	.finish = gpu_metrics_finish,
	.section = &gpu_metrics_table,
	.print = gpu_metrics_print,
	.free = gpu_metrics_free,
};
