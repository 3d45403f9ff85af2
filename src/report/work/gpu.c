/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * --gpu-time: how long kernels, copies and graphs ran, how busy each device was, what it computed
 * while it copied, and whether the iterations waited for it or it for them.
 */
#include "gpu_priv.h"

#include <stdlib.h>
#include <string.h>

#include "report/iter/iter.h"

#define KERNELS_MAX (1 << 16)

static void *gpu__new(struct report *r)
{
	struct gpu *g = calloc(1, sizeof(*g));

	if (g)
		g->r = r;
	return g;
}

static void gpu__free(void *a)
{
	struct gpu *g = a;

	gpu_devices__free(&g->devices);
	keys__free(&g->keys);
	room_free(g->kernels);
	free(g->sorted);
	free(g);
}

static struct gpu_sum *kernel_of(struct gpu *g, const char *name)
{
	uint32_t i = keys_get(&g->keys, (uintptr_t)name, KERNELS_MAX, ROOM_KERNELS);
	struct gpu_sum *list;

	if (i == KEYS_NONE)
		return NULL;
	list = grow(g->kernels, &g->cap, i + 1, sizeof(*list), ROOM_KERNELS);
	if (!list) {
		keys__undo(&g->keys, i);
		return NULL;
	}
	g->kernels = list;
	list[i].name = name;
	return &list[i];
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
	s->of_graph |= ev->gpu.graph_node;
	if (!ev->gpu.call || ev->gpu.graph_node)
		return;
	s->queue_cnt++;
	s->queue_ns += ev->gpu.queue_us;
}

static void gpu_event_seen(void *a, const struct trace_event *ev)
{
	struct gpu *g = a;
	struct gpu_sum *s;

	if (ev->kind != EVENT_GPU)
		return;
	if (!gpu_devices__event(&g->devices, ev)) {
		g->lost_cnt++;
		return;
	}
	add(&g->all, ev);
	/* A node waits for those before it, too. */
	if (ev->gpu.call && !ev->gpu.graph_node)
		spread_add(&g->queue, ev->gpu.queue_us);
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

static void sum_devices(struct gpu *g)
{
	struct gpu_result *res = &g->res;

	gpu_devices__finish(&g->devices);
	for (unsigned i = 0; i < g->devices.cnt; i++) {
		struct gpu_busy *b = &g->devices.of[i]->busy;

		res->span_ns += b->last - b->first;
		res->busy_ns += b->parts[GPU_ANY].total;
		res->compute_ns += b->parts[GPU_COMPUTE].total;
		res->copy_ns += b->parts[GPU_COPYING].total;
		res->overlap_ns += gpu_busy__overlap(b);
		if (!i || b->first < res->first_ns)
			res->first_ns = b->first;
		if (b->longest_gap <= res->longest_gap_ns)
			continue;
		res->longest_gap_ns = b->longest_gap;
		res->longest_gap_at_ns = b->longest_gap_at;
	}
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

/* Of the device that was busiest in it: a program's others may be idle for good reasons. */
static double busy_share(const struct gpu *g, const struct iter_span *it)
{
	double most = 0, share;

	for (unsigned i = 0; i < g->devices.cnt; i++) {
		share = ratio_of(
			gpu_busy__between(&g->devices.of[i]->busy, it->begin_ns, it->end_ns),
			it->end_ns - it->begin_ns);
		if (share > most)
			most = share;
	}
	return most < 1 ? most : 1;
}

static void judge_iterations(struct gpu *g)
{
	struct iter_result its;
	double *shares;
	size_t cnt = 0;

	iter_result(g->r, &its);
	shares = its.count ? malloc(its.count * sizeof(*shares)) : NULL;
	for (uint64_t i = 0; shares && i < its.count; i++) {
		struct iter_span it = iter_at(g->r, i);

		if (it.warmup || it.end_ns <= it.begin_ns)
			continue;
		shares[cnt] = busy_share(g, &it);
		g->res.gpu_bound += shares[cnt] >= GPU_BOUND_SHARE;
		g->res.host_bound += shares[cnt] < GPU_BOUND_SHARE;
		cnt++;
	}
	if (cnt) {
		qsort(shares, cnt, sizeof(*shares), by_value);
		g->res.iter_busy_median = shares[cnt / 2];
	}
	free(shares);
}

static void gpu__finish(void *a)
{
	struct gpu *g = a;

	g->res.executions = g->all.cnt;
	g->res.device_cnt = g->devices.cnt;
	if (!g->all.cnt)
		return;
	sort_kernels(g);
	sum_devices(g);
	g->res.queue_p50_ns = spread_percentile(&g->queue, g->all.queue_cnt, 0.5, UINT64_MAX);
	g->res.queue_p99_ns = spread_percentile(&g->queue, g->all.queue_cnt, 0.99, UINT64_MAX);
	judge_iterations(g);
}

void gpu_result(const struct report *r, struct gpu_result *res)
{
	const struct gpu *g = r->an[AN_GPU];

	*res = g ? g->res : (struct gpu_result){0};
}

const struct analysis_ops gpu_ops = {
	.name = "gpu",
	.new = gpu__new,
	.event = gpu_event_seen,
	.finish = gpu__finish,
	.json = gpu_json,
	.print = gpu_print,
	.free = gpu__free,
};
