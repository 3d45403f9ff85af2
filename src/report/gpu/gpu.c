/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * --gpu-time: durations of kernels, copies and graphs, busy time of each device, and computing
 * during copies. It also shows whether iterations are bound by the GPU or by the host.
 */
#include "gpu_priv.h"
#include "util/memlimit.h"

#include <stdlib.h>
#include <string.h>

#include "report/iter/iter.h"

static void gpu__free(void *a)
{
	struct gpu *g = a;

	gpu_devices__free(&g->devices);
	keys__free(&g->keys);
	memlimit_free(g->kernels);
	free(g->sorted);
	free(g);
}

static struct gpu_sum *kernel_of(struct gpu *g, const char *name)
{
	uint32_t i = keys_row(&g->keys, (uintptr_t)name, MEMLIMIT_KERNELS, g->kernels, g->cap);

	if (i == KEYS_NONE)
		return NULL;
	g->kernels[i].name = name;
	return &g->kernels[i];
}

static void add(struct gpu_sum *s, const struct trace_event *ev)
{
	uint64_t ns = event_duration_ns(ev);

	if (!s->cnt || ns < s->min)
		s->min = ns;
	if (ns > s->max)
		s->max = ns;
	s->cnt++;
	s->ns += ns;
	s->bytes += ev->has & HAS_SIZE ? ev->size : 0;
	if (!ev->gpu.call || ev->gpu.graph_node)
		return;
	s->queue_cnt++;
	s->queue_ns += ev->gpu.queue_ns;
	if (ev->gpu.queue_ns > s->queue_max)
		s->queue_max = ev->gpu.queue_ns;
}

static void gpu_event_seen(void *a, const struct trace_event *ev)
{
	struct gpu *g = a;
	struct gpu_sum *s;

	if (ev->kind != EVENT_GPU)
		return;
	if (!gpu_devices__event(&g->devices, ev)) {
		g->lost_cnt++;
		memlimit_reject(MEMLIMIT_DEVICES);
		return;
	}
	add(&g->all, ev);
	/* A node also waits for its predecessors: its queue time is not counted. */
	if (ev->gpu.call && !ev->gpu.graph_node)
		loghist_add(&g->queue, ev->gpu.queue_ns);
	switch (ev->op[0]) {
	case 'k':
		s = kernel_of(g, ev->gpu.kernel);
		break;
	case 'c':
		s = &g->copies[ev->has & HAS_DIR ? ev->dir : COPY_NONE];
		break;
	case 'm':
		s = &g->memset;
		break;
	default:
		s = &g->graphs;
	}
	if (s)
		add(s, ev);
}

static int by_time(const void *a, const void *b)
{
	const struct gpu_sum *x = *(const struct gpu_sum *const *)a;
	const struct gpu_sum *y = *(const struct gpu_sum *const *)b;

	return x->ns > y->ns ? -1 : x->ns < y->ns;
}

static void sort_kernels(struct gpu *g)
{
	g->sorted = malloc((g->keys.cnt + 1) * sizeof(*g->sorted));
	for (unsigned i = 0; g->sorted && i < g->keys.cnt; i++)
		g->sorted[g->sorted_cnt++] = &g->kernels[i];
	qsort(g->sorted, g->sorted_cnt, sizeof(*g->sorted), by_time);
}

static bool is_used_by(const struct gpu_device *d, uint32_t pid)
{
	return !pid || d->is_shared || gpu_device__is_of(d, pid);
}

static void sum_devices(const struct gpu *g, uint32_t pid, struct gpu_result *res)
{
	for (unsigned i = 0; i < g->devices.cnt; i++) {
		const struct gpu_device *d = g->devices.of[i];
		const struct gpu_busy *b = &d->busy;

		if (!is_used_by(d, pid))
			continue;
		res->device_cnt++;
		res->span_ns += b->last - b->first;
		res->busy_ns += b->parts[GPU_ANY].total;
		res->compute_ns += b->parts[GPU_COMPUTE].total;
		res->copy_ns += b->parts[GPU_COPYING].total;
		res->overlap_ns += gpu_busy__overlap(b);
		res->shared |= d->is_shared;
		if (!d->is_shared) {
			res->comm_ns += b->parts[GPU_COMMUNICATING].total;
			res->alone_ns += gpu_busy__alone(b);
		}
		if (!res->first_ns || b->first < res->first_ns)
			res->first_ns = b->first;
		if (b->longest_gap > res->longest_gap_ns)
			res->longest_gap_ns = b->longest_gap;
	}
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double share_of(const struct gpu_busy *b, enum gpu_part part, const struct iter_span *it)
{
	double share = ratio_of(gpu_busy__between(b, part, it->begin_ns, it->end_ns),
				it->end_ns - it->begin_ns);

	return share < 1 ? share : 1;
}

/* The process's device, or shared device, that was busiest in the iteration. Its other devices may
 * be idle for good reasons. */
static const struct gpu_device *device_of(const struct gpu *g, uint32_t pid,
					  const struct iter_span *it)
{
	const struct gpu_device *best = NULL;
	double most = -1, share;

	for (unsigned i = 0; i < g->devices.cnt; i++) {
		const struct gpu_device *d = g->devices.of[i];

		share = share_of(&d->busy, GPU_ANY, it);
		if (!is_used_by(d, pid) || share <= most)
			continue;
		most = share;
		best = d;
	}
	return best;
}

static double median_of(double *values, size_t cnt)
{
	qsort(values, cnt, sizeof(*values), by_value);
	return cnt ? values[cnt / 2] : 0;
}

static uint64_t longest_piece(const struct gpu *g)
{
	uint64_t ns = 0;

	for (unsigned i = 0; i < g->devices.cnt; i++)
		if (g->devices.of[i]->busy.bin_ns > ns)
			ns = g->devices.of[i]->busy.bin_ns;
	return ns;
}

static void judge_iterations(struct gpu *g)
{
	struct iter_result its;
	double *busy, *comm, *alone;
	size_t cnt = 0;

	iter_result(g->r, &its);
	if (its.count && longest_piece(g) * ITER_PIECES > its.dist[ITS_TIME].median) {
		g->res.iter_coarse_ns = longest_piece(g);
		return;
	}
	busy = its.count ? calloc(3 * its.count, sizeof(*busy)) : NULL;
	if (!busy)
		return;
	comm = busy + its.count;
	alone = comm + its.count;
	for (uint64_t i = 0; i < its.count; i++) {
		struct iter_span it = iter_at(g->r, i);
		const struct gpu_device *d;

		d = it.warmup || it.end_ns <= it.begin_ns ? NULL : device_of(g, its.pid, &it);
		if (!d)
			continue;
		busy[cnt] = share_of(&d->busy, GPU_ANY, &it);
		if (!d->is_shared) {
			comm[cnt] = share_of(&d->busy, GPU_COMMUNICATING, &it);
			alone[cnt] = busy[cnt] - share_of(&d->busy, GPU_ELSE, &it);
		}
		g->res.gpu_bound += busy[cnt] >= GPU_BOUND_SHARE;
		g->res.host_bound += busy[cnt] < GPU_BOUND_SHARE;
		cnt++;
	}
	g->res.iter_busy_median = median_of(busy, cnt);
	g->res.iter_comm_median = median_of(comm, cnt);
	g->res.iter_alone_median = median_of(alone, cnt);
	free(busy);
}

static void gpu__finish(void *a)
{
	struct gpu *g = a;

	g->res.executions = g->all.cnt;
	if (!g->all.cnt)
		return;
	sort_kernels(g);
	gpu_devices__finish(&g->devices);
	sum_devices(g, 0, &g->res);
	g->res.queue_p50_ns =
		loghist_percentile(&g->queue, g->all.queue_cnt, 0.5, g->all.queue_max);
	g->res.queue_p99_ns =
		loghist_percentile(&g->queue, g->all.queue_cnt, 0.99, g->all.queue_max);
	judge_iterations(g);
}

void gpu_result(const struct report *r, struct gpu_result *res)
{
	const struct gpu *g = r->an[AN_GPU];

	*res = g ? g->res : (struct gpu_result){0};
}

void gpu_result_of(const struct report *r, uint32_t pid, struct gpu_result *res)
{
	const struct gpu *g = r->an[AN_GPU];

	*res = (struct gpu_result){0};
	if (g)
		sum_devices(g, pid, res);
}

void gpu_period(const struct report *r, uint32_t pid, uint64_t from_ns, uint64_t to_ns,
		struct gpu_period *res)
{
	const struct gpu *g = r->an[AN_GPU];

	*res = (struct gpu_period){0};
	if (g)
		gpu_period_of(&g->devices, pid, from_ns, to_ns, res);
}

void gpu_period_of(const struct gpu_devices *devices, uint32_t pid, uint64_t from_ns,
		   uint64_t to_ns, struct gpu_period *res)
{
	*res = (struct gpu_period){0};
	for (unsigned i = 0; to_ns > from_ns && i < devices->cnt; i++) {
		const struct gpu_device *d = devices->of[i];
		const struct gpu_busy *b = &d->busy;
		double whole = to_ns - from_ns, part[GPU_PART_CNT];

		for (unsigned n = 0; n < GPU_PART_CNT; n++) {
			part[n] = gpu_busy__between(b, n, from_ns, to_ns);
			if (part[n] > whole)
				part[n] = whole;
		}
		if (part[GPU_ANY] < 1 || !is_used_by(d, pid))
			continue;
		/* Executions that arrived late may be in one part only. */
		for (unsigned n = 0; n < GPU_ANY; n++)
			if (part[n] > part[GPU_ANY])
				part[n] = part[GPU_ANY];
		res->whole_ns += whole;
		res->idle_ns += whole - part[GPU_ANY];
		res->copy_alone_ns += part[GPU_ANY] - part[GPU_COMPUTE];
		res->comm_alone_ns += part[GPU_ANY] - part[GPU_ELSE];
	}
	res->compute_ns = res->whole_ns - res->idle_ns - res->copy_alone_ns - res->comm_alone_ns;
}

bool gpu_of_process(const struct report *r, uint32_t pid, struct gpu_of_process *res)
{
	const struct gpu *g = r->an[AN_GPU];
	bool found = false;

	*res = (struct gpu_of_process){0};
	for (unsigned i = 0; g && i < g->devices.cnt; i++) {
		const struct gpu_device *d = g->devices.of[i];

		if (!gpu_device__is_alone(d) || !gpu_device__is_of(d, pid))
			continue;
		found = true;
		res->busy_ns += d->busy.parts[GPU_ANY].total;
		res->idle_ns += gpu_device__idle(d);
		res->comm_ns += d->busy.parts[GPU_COMMUNICATING].total;
		res->alone_ns += gpu_busy__alone(&d->busy);
	}
	return found;
}

const struct analysis_ops gpu_ops = {
	.name = "gpu",
	.size = STATE_SIZE(struct gpu),
	.event = gpu_event_seen,
	.finish = gpu__finish,
	.section = &gpu_table,
	.print = gpu_print,
	.free = gpu__free,
};
