/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Launches by kernel: their number, host time and grids. A launch on a capturing stream, or
 * cuGraphAddKernelNode, makes a node: it runs with its graph (graphs.c) and has no time here.
 */
#include "report/report.h"

#include <stdlib.h>
#include <string.h>

#include "model/call.h"
#include "model/event_path.h"
#include "kernels_priv.h"
#include "launched.h"
#include "util/order.h"

static void kernels__free(void *a)
{
	struct kernels *k = a;

	keys__free(&k->keys);
	keys__free(&k->stream_keys);
	keys__free(&k->func_keys);
	memlimit_free(k->list);
	memlimit_free(k->funcs);
	free(k->sorted);
	free(k);
}

/* Row of the kernel; NULL if there are too many. */
static struct kernel *row_of(struct kernels *k, const char *name, uint64_t func, uint32_t pid)
{
	uint64_t key = name ? (uintptr_t)name : pair_key(func, pid);
	uint32_t i = keys_row(&k->keys, key, MEMLIMIT_KERNELS, k->list, k->cap);

	if (i == KEYS_NONE)
		return NULL;
	k->list[i].name = name;
	k->list[i].func = func;
	return &k->list[i];
}

struct kernel_func *kernels_func(struct kernels *k, uint64_t func, uint32_t pid)
{
	uint32_t i = keys_row(&k->func_keys, pair_key(func, pid), MEMLIMIT_HANDLES, k->funcs,
			      k->func_cap);

	if (i == KEYS_NONE)
		return NULL;
	return &k->funcs[i];
}

/* Links a handle to its kernel, so that queries of the handle apply to the kernel. */
static void note_func(struct kernels *k, struct kernel *row, const struct trace_event *ev)
{
	struct kernel_func *f;

	if (row->last_func == ev->launch.func)
		return;
	row->last_func = ev->launch.func;
	f = kernels_func(k, ev->launch.func, ev->pid);
	if (!f)
		return;
	f->name = row->name;
	f->kernel = row - k->list + 1;
}

static void note_stream(struct kernels *k, struct kernel *row, const struct trace_event *ev)
{
	uint64_t stream = pair_key(ev->has & HAS_STREAM ? ev->stream : 0, ev->pid);
	uint32_t before = k->stream_keys.cnt;

	if (row->stream_cnt && row->last_stream == stream)
		return;
	row->last_stream = stream;
	keys_get(&k->stream_keys, pair_key(stream, row - k->list), MEMLIMIT_HANDLES_MAX,
		 MEMLIMIT_KERNELS);
	row->stream_cnt += k->stream_keys.cnt - before;
}

/* Saturates at the largest 64-bit value. */
static uint64_t times(uint64_t a, uint64_t b)
{
	uint64_t n;

	return __builtin_mul_overflow(a, b, &n) ? UINT64_MAX : n;
}

static uint64_t volume(const uint32_t d[3])
{
	return times(times(d[0], d[1]), d[2]);
}

static void note_config(struct kernel *row, const struct launch_info *l, uint64_t blocks,
			uint64_t threads)
{
	row->is_mixed |= row->has_config &&
			 (threads != row->block_threads || l->shared_mem_sz != row->shared_mem ||
			  memcmp(row->cluster, l->cluster, sizeof(l->cluster)));
	if (!row->has_config || blocks < row->grid_blocks_min) {
		row->grid_blocks_min = blocks;
		memcpy(row->grid_min, l->grid, sizeof(l->grid));
	}
	if (!row->has_config || blocks > row->grid_blocks_max) {
		row->grid_blocks_max = blocks;
		memcpy(row->grid_max, l->grid, sizeof(l->grid));
	}
	if (!row->has_config || threads < row->block_threads_min) {
		row->block_threads_min = threads;
		memcpy(row->block_min, l->block, sizeof(l->block));
	}
	if (!row->has_config || threads > row->block_threads) {
		row->block_threads = threads;
		memcpy(row->block, l->block, sizeof(l->block));
	}
	if (l->shared_mem_sz > row->shared_mem)
		row->shared_mem = l->shared_mem_sz;
	if (l->cluster[0])
		memcpy(row->cluster, l->cluster, sizeof(l->cluster));
	row->has_config = true;
}

static void on_launch(struct kernels *k, const struct trace_event *ev)
{
	const struct launch_info *l = &ev->launch;
	struct kernel *row = row_of(k, l->kernel, l->func, ev->pid);
	uint64_t ns = event_duration_ns(ev), blocks = 0, threads = 0;

	if (row) {
		note_func(k, row, ev);
		row->error_cnt += ev->is_error;
	}
	if (ev->is_error)
		return;
	if (row && l->kernel_mangled)
		row->mangled = l->kernel_mangled;
	if (l->has_config) {
		blocks = volume(l->grid);
		threads = volume(l->block);
		if (row)
			note_config(row, l, blocks, threads);
		threads = times(blocks, threads);
	}
	if (ev->capturing) {
		k->node_cnt++;
		if (row)
			row->node_cnt++;
		return;
	}
	k->cnt++;
	k->unnamed_cnt += !l->kernel;
	k->total_ns += ns;
	k->blocks += blocks;
	k->threads += threads;
	if (!row)
		return;
	note_stream(k, row, ev);
	row->cnt++;
	row->total_ns += ns;
	row->max_ns = ns > row->max_ns ? ns : row->max_ns;
	row->blocks += blocks;
	row->threads += threads;
}

/* cuGraphAddKernelNode: the kernel is func, or kern in newer programs. */
static void on_node(struct kernels *k, const struct trace_event *ev)
{
	struct kernel_func *f;
	struct kernel *row;
	uint64_t func;

	if ((!event_path_u64(ev, "nodeParams.func", &func) || !func) &&
	    (!event_path_u64(ev, "nodeParams.kern", &func) || !func))
		return;
	k->node_cnt++;
	f = kernels_func(k, func, ev->pid);
	row = f ? row_of(k, f->name, func, ev->pid) : NULL;
	if (!row)
		return;
	f->kernel = row - k->list + 1;
	row->node_cnt++;
}

static void kernels_event(void *a, const struct trace_event *ev)
{
	struct kernels *k = a;

	kernels_gpu(k, ev);
	if (!call_was_made(ev))
		return;
	if (call_does(ev, DOES_LAUNCH))
		on_launch(k, ev);
	switch (ev->fn->op) {
	case OP_ADD:
		if (ev->fn->class == CLASS_GRAPH && !ev->is_error)
			on_node(k, ev);
		break;
	case OP_LOOKUP:
	case OP_QUERY:
		if (!ev->is_error)
			kernels_query(k, ev);
		break;
	}
}

static int by_time(const void *a, const void *b)
{
	const struct kernel *x = *(struct kernel *const *)a, *y = *(struct kernel *const *)b;

	if (x->total_ns != y->total_ns)
		return x->total_ns < y->total_ns ? 1 : -1;
	if (x->node_cnt != y->node_cnt)
		return x->node_cnt < y->node_cnt ? 1 : -1;
	if (x->name && y->name)
		return strcmp(x->name, y->name);
	return ASCENDING(x->func, y->func);
}

static void kernels_finish(void *a)
{
	struct kernels *k = a;

	kernels_occupancy(k);
	k->sorted = calloc(k->keys.cnt + 1, sizeof(*k->sorted));
	for (unsigned i = 0; k->sorted && i < k->keys.cnt; i++)
		k->sorted[i] = &k->list[i];
	if (k->sorted)
		qsort(k->sorted, k->keys.cnt, sizeof(*k->sorted), by_time);
}

static struct kernel *named(const struct report *r, const char *kernel)
{
	struct kernels *k = r->an[AN_KERNELS];
	uint32_t i = k && kernel ? keys__find(&k->keys, (uintptr_t)kernel) : KEYS_NONE;

	return i == KEYS_NONE ? NULL : &k->list[i];
}

struct launched kernels_launched(const struct report *r, const char *kernel)
{
	const struct kernel *x = named(r, kernel);

	if (!x)
		return (struct launched){0};
	return (struct launched){x->grid_blocks_max, x->has_waves, x->waves, x->tail_share};
}

void kernels_print_ncu(const struct report *r, const char *kernel, const char *why,
		       const struct term *term)
{
	const struct kernel *x = named(r, kernel);

	if (x)
		kernel_print_ncu(r, x, why, term);
}

const struct analysis_ops kernels_ops = {
	.name = "kernels",
	.size = STATE_SIZE(struct kernels),
	.event = kernels_event,
	.finish = kernels_finish,
	.section = &kernels_table,
	.print = kernels_print,
	.free = kernels__free,
	.of_args = true,
	.needs = "launch",
};
