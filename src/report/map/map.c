/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The pipeline map. The place of a call is: process, thread, NVTX ranges, Python functions,
 * operators, enclosing library calls, the call or its kernel. Lines come at the end of a call or
 * range, so the enclosing ones come later. Calls of a thread are pending, in order, until all of
 * these are known. After MAP_PENDING calls they are placed anyway: a range gets a node whose name
 * is set at its end; nested calls lose their enclosing call.
 */
#include "map_priv.h"

#include <stdlib.h>

#include "model/call.h"
#include "report/kernels/graphs.h"

#define CUT_LAUNCHES  256 /* a slice without waits */
#define PENDING_FIRST 16
/* Adds GPU busy time not covered by earlier executions, and the idle time before it. */
static void add_busy(void *ctx, struct gpu_owner of, uint64_t idle_ns, uint64_t busy_ns)
{
	struct map *m = ctx;
	struct map_sums *sums = map_sums_of(m, of.node, of.slice);

	if (!sums)
		return;
	sums->idle_ns += idle_ns;
	sums->busy_ns += busy_ns;
}

static void *map__new(struct report *r)
{
	struct map *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->r = r;
	m->slice_cnt = 1;
	m->slices[0].begin_ns = r->base_ns;
	m->devices.settled_fn = add_busy;
	m->devices.ctx = m;
	m->scopes = calloc(MAP_SCOPES, sizeof(*m->scopes));
	m->op_scopes = calloc(MAP_SCOPES, sizeof(*m->op_scopes));
	m->forwards = calloc(MAP_SCOPES, sizeof(*m->forwards));
	m->places = calloc(MAP_CALLS, sizeof(*m->places));
	if (m->scopes && m->op_scopes && m->forwards && m->places)
		return m;
	map_ops.free(m);
	return NULL;
}

static void map__free(void *a)
{
	struct map *m = a;

	for (uint32_t i = 0; i < m->thread_keys.cnt && i < m->thread_cap; i++) {
		memlimit_free(m->threads[i].pending);
		memlimit_free(m->threads[i].python);
	}
	map_tree_free(m);
	gpu_devices__free(&m->devices);
	keys__free(&m->path_keys);
	keys__free(&m->family_keys);
	keys__free(&m->thread_keys);
	keys__free(&m->code_keys);
	keys__free(&m->long_keys);
	keys__free(&m->final_keys);
	keys__free(&m->function_keys);
	memlimit_free(m->paths);
	memlimit_free(m->families);
	memlimit_free(m->codes);
	memlimit_free(m->threads);
	memlimit_free(m->finals);
	memlimit_free(m->functions);
	memlimit_free(m->captured);
	memlimit_free(m->capture_tops);
	memlimit_free(m->graph_counts);
	free(m->scopes);
	free(m->op_scopes);
	free(m->forwards);
	free(m->places);
	free(m);
}

static uint32_t thread_of(struct map *m, const struct trace_event *ev)
{
	uint32_t i = keys_row(&m->thread_keys, thread_key(ev->pid, ev->tid), MEMLIMIT_THREADS,
			      m->threads, m->thread_cap);

	if (i == KEYS_NONE)
		return MAP_NONE;
	if (m->threads[i].next)
		return i;
	m->threads[i] =
		(struct map_thread){.first = 1, .next = 1, .last = MAP_NONE, .pid = ev->pid};
	m->threads[i].root = map_node_of(m, 0, MAP_ROOT, NULL, NULL, 0);
	m->threads[i].root = map_node_of(m, m->threads[i].root, MAP_PROCESS, NULL, NULL, ev->pid);
	m->threads[i].root = map_node_of(m, m->threads[i].root, MAP_THREAD, ev->comm, NULL, 0);
	return i;
}

/* The node of a path; the last new_cnt functions began a pass with this call. */
static uint32_t path_node(struct map *m, uint32_t node, const struct map_pending *h)
{
	uint32_t at[MAP_DEPTH], cnt = 0;
	struct map_sums *sums;

	for (uint32_t p = h->path; p && cnt < MAP_DEPTH; p = m->paths[p].parent)
		at[cnt++] = p;
	while (cnt--) {
		const struct map_path *p = &m->paths[at[cnt]];

		node = map_node_of(m, node, MAP_PYTHON, p->name, p->file, p->number);
		sums = cnt < h->new_cnt ? map_sums_of(m, node, h->slice) : NULL;
		if (sums)
			sums->passes++;
	}
	return node;
}

/* --- pending calls --- */

static struct map_pending *pending_at(struct map_thread *t, uint64_t number)
{
	return &t->pending[number % t->cap];
}

static struct map_pending *call_around(struct map_thread *t, const struct map_pending *h)
{
	return h->up ? pending_at(t, h->up) : NULL;
}

/* After a call without an enclosing one, earlier calls will not get one: it would have come. */
static bool is_ready(struct map *m, struct map_thread *t, uint64_t number)
{
	const struct map_pending *h = pending_at(t, number);

	while (h->parent && number > t->outer) {
		if (!h->up)
			return false;
		number = h->up;
		h = pending_at(t, number);
	}
	return map_scopes_known(m, h);
}

static uint32_t place_of_calls(struct map *m, struct map_thread *t, uint32_t node,
			       const struct map_pending *h)
{
	const char *names[MAP_DEPTH];
	unsigned cnt = 0;

	while ((h = call_around(t, h)) && cnt < MAP_DEPTH)
		names[cnt++] = h->name;
	while (cnt--)
		node = map_node_of(m, node, MAP_CALL, names[cnt], NULL, 0);
	return node;
}

/* Adds the time since the previous call to the node where both were made; not for nested calls. */
static void add_gap(struct map *m, struct map_thread *t, const struct map_pending *h,
		    uint32_t parent)
{
	struct map_sums *sums;
	uint64_t gap;

	if (!h->path && t->python) {
		t->aside_ns += h->end_ns - h->start_ns;
		return;
	}
	if (t->last != MAP_NONE && h->start_ns > t->last_end) {
		gap = h->start_ns - t->last_end;
		sums = map_sums_of(m, map_common(m, t->last, parent), h->slice);
		if (sums)
			sums->gap_ns += gap > t->aside_ns ? gap - t->aside_ns : 0;
	}
	t->aside_ns = 0;
	t->last = parent;
	if (h->end_ns > t->last_end)
		t->last_end = h->end_ns;
}

static void add_execution(struct map *m, uint32_t node, uint32_t slice, const struct map_pending *h)
{
	struct map_sums *sums;

	/* Kernels of a graph are below its launch. */
	if (h->graph_row != GRAPH_NONE)
		node = map_graph_node(m, node, h->graph_row, h->name);
	else if (h->kind == MAP_KERNEL && m->nodes[node].kind == MAP_CALL)
		node = map_node_of(m, node, MAP_KERNEL, h->name, NULL, 0);
	sums = map_sums_of(m, node, slice);
	if (!sums) {
		m->rejected++;
		return;
	}
	sums->gpu_cnt++;
	sums->gpu_ns += h->end_ns - h->start_ns;
	/* Those of a graph's nodes are added at the end: final.c. */
	if (h->graph_row == GRAPH_NONE || h->what != 'k')
		roofline_add(m->r,
			     &(struct roof_execution){.key = h->key,
						      .kernel = h->name,
						      .ns = h->end_ns - h->start_ns,
						      .bytes = h->bytes,
						      .device = h->roof_device,
						      .what = h->what,
						      .is_local = h->is_local},
			     &sums->roof);
	if (h->device)
		gpu_busy__add_of(&h->device->busy, h->start_ns, h->end_ns,
				 h->is_copy ? GPU_COPY : GPU_KERNEL,
				 (struct gpu_owner){node, slice});
}

static void give_place(struct map *m, struct map_thread *t, const struct map_pending *h)
{
	struct map_position *place = &m->places[h->key % MAP_CALLS];
	const struct map_forward *of;
	struct map_sums *sums;
	uint32_t parent, node;

	if (h->is_gpu) {
		if (place->key == h->key && place->node != MAP_NONE)
			add_execution(m, place->node, place->slice, h);
		else
			m->unknown_gpu++;
		return;
	}
	m->early += h->parent && !h->up;
	of = map_forward_of(m, h);
	parent = of ? of->node
		    : path_node(m, map_range_node(m, t->root, h->range, h->range_text), h);
	parent = map_operator_node(m, t, parent, of, h);
	parent = place_of_calls(m, t, parent, h);
	node = map_node_of(m, parent, h->kind, h->name, NULL, 0);
	if (place->key == h->key) {
		place->node = node;
		if (node == MAP_NONE)
			place->key = 0;
	}
	map_graph_captured(m, h->graph_row, node);
	sums = map_sums_of(m, node, h->slice);
	if (!sums) {
		m->rejected++;
		return;
	}
	sums->calls++;
	sums->launches += h->is_launch;
	sums->bytes += h->bytes;
	sums->flops += h->flops;
	sums->unfinished += h->is_cut;
	if (!h->has_time)
		return;
	if (h->end_ns - h->start_ns > h->inner_ns)
		sums->host_ns += h->end_ns - h->start_ns - h->inner_ns;
	if (!h->up)
		add_gap(m, t, h, parent);
}

/* Places calls that are ready, from the first on, and at least at_least of them. */
static void settle(struct map *m, struct map_thread *t, unsigned at_least)
{
	while (t->first < t->next) {
		struct map_pending *h = pending_at(t, t->first);

		if (!at_least && !is_ready(m, t, t->first))
			return;
		/* The enclosing call may still be pending: it is found by its number. */
		give_place(m, t, h);
		t->first++;
		at_least -= at_least > 0;
	}
}

/* Calls since the start of this one are nested in it, also those whose parent's line is missing. */
static void take_inner(struct map_thread *t, struct map_pending *outer, uint64_t number)
{
	int64_t i = number - 1;

	while (i >= (int64_t)t->first) {
		struct map_pending *h = pending_at(t, i);

		if (!h->is_gpu) {
			if (!h->parent || h->start_ns < outer->start_ns)
				break;
			h->up = number;
			outer->inner_ns += h->has_time ? h->end_ns - h->start_ns : 0;
			if (!outer->path)
				outer->path = h->path;
			else if (!h->path)
				h->path = outer->path;
		}
		i -= 1 + h->inner_cnt;
	}
	outer->inner_cnt = number - 1 - i;
	if (!outer->parent)
		t->outer = number;
}

/* Adds an entry for one more call of the thread. If its list is full, the oldest quarter gets its
 * places in the map now; calls of other threads that these wait for get theirs before. */
static struct map_pending *hold(struct map *m, uint32_t thread)
{
	struct map_thread *t = &m->threads[thread];
	unsigned cap = t->cap ? 2 * t->cap : PENDING_FIRST;
	struct map_pending *list;
	uint32_t ahead;

	if (t->next - t->first == t->cap && t->cap < MAP_PENDING) {
		list = memlimit_new(MEMLIMIT_MAP, cap * sizeof(*list));
		for (uint64_t i = t->first; list && i < t->next; i++)
			list[i % cap] = *pending_at(t, i);
		if (list) {
			memlimit_free(t->pending);
			t->pending = list;
			t->cap = cap;
		}
	}
	if (t->cap && t->next - t->first == t->cap) {
		ahead = map_forward_ahead(m, pending_at(t, t->first));
		if (ahead != MAP_NONE)
			settle(m, &m->threads[ahead], MAP_PENDING);
		settle(m, t, t->cap / 4);
	}
	if (!t->cap) {
		m->rejected++;
		return NULL;
	}
	list = pending_at(t, t->next);
	*list = (struct map_pending){0};
	return list;
}

/* --- events --- */

static void cut_slices(struct map *m, const struct trace_event *ev)
{
	m->launches_since += call_launches(ev);
	if (!call_was_made(ev) || !call_is_top(ev))
		return;
	if (!call_makes_context(ev) && !call_blocks(ev) && m->launches_since < CUT_LAUNCHES)
		return;
	map_slice_cut(m, ev->end_ns);
	m->launches_since = 0;
}

static void on_call(struct map *m, const struct trace_event *ev)
{
	uint32_t thread = thread_of(m, ev), new_cnt;
	struct map_thread *t;
	struct map_pending *h;

	h = thread == MAP_NONE ? NULL : hold(m, thread);
	if (!h) {
		m->rejected += thread == MAP_NONE;
		return;
	}
	t = &m->threads[thread];
	*h = (struct map_pending){
		.key = map_key(ev->pid, ev->id),
		.parent = map_key(ev->pid, ev->parent_id),
		.range = map_key(ev->pid, ev->range_id),
		.range_text = ev->range_text,
		.op = map_key(ev->pid, ev->operator_id),
		.op_name = ev->operator,
		.name = ev->fn->name,
		.kind = MAP_CALL,
		.start_ns = ev->start_ns,
		.end_ns = ev->end_ns > ev->start_ns ? ev->end_ns : ev->start_ns,
		.slice = map_slice_at(m, ev->start_ns),
		.is_launch = call_was_made(ev) && call_launches_any(ev),
		.is_cut = ev->unfinished || ev->abandoned,
		.has_time = event_returned(ev),
		.graph_row = graphs_captured_row(m->r, ev),
	};
	if (call_does(ev, DOES_LAUNCH) && ev->launch.kernel) {
		h->kind = MAP_KERNEL;
		h->name = ev->launch.kernel;
	}
	if ((ev->has & HAS_SIZE) && ev->type == TYPE_TRANSFER && call_ran(ev) && call_is_top(ev))
		h->bytes = ev->size;
	if ((ev->has & HAS_GEMM) && call_was_made(ev) && !ev->is_error)
		h->flops = ev->gemm.flops;
	h->path = map_path_of(m, thread, ev->stack, &new_cnt);
	h->new_cnt = new_cnt;
	if (t->python && call_blocks(ev))
		t->python->waits++;
	m->places[h->key % MAP_CALLS] = (struct map_position){h->key, MAP_NONE, thread, h->slice};
	map_operator_calls(m, h->op);
	take_inner(t, h, t->next);
	t->next++;
	cut_slices(m, ev);
	settle(m, t, 0);
}

static void on_gpu(struct map *m, const struct trace_event *ev)
{
	uint64_t key = map_key(ev->pid, ev->gpu.call_id);
	struct map_position *place = &m->places[key % MAP_CALLS];
	struct map_pending execution =
				   {
					   .is_gpu = true,
					   .key = key,
					   .kind = ev->op[0] == 'k' ? MAP_KERNEL : MAP_CALL,
					   .name = ev->gpu.kernel,
					   .start_ns = ev->start_ns,
					   .end_ns = ev->end_ns > ev->start_ns ? ev->end_ns
									       : ev->start_ns,
					   .device = gpu_devices__get(&m->devices, ev),
					   .graph_row = graphs_executed_row(m->r),
					   .is_copy = ev->op[0] == 'c' || ev->op[0] == 'm',
					   .is_local =
						   ev->op[0] == 'm' || ((ev->has & HAS_DIR) &&
									ev->dir == COPY_DIR_DTOD),
					   .what = ev->op[0],
					   .bytes = ev->has & HAS_SIZE ? ev->size : 0,
					   .roof_device = roofline_device(m->r, ev),
				   },
			   *h;

	m->has_gpu = true;
	if (!key || place->key != key) {
		m->unknown_gpu++;
		return;
	}
	if (place->node != MAP_NONE) {
		add_execution(m, place->node, place->slice, &execution);
		return;
	}
	h = hold(m, place->thread);
	if (!h)
		return;
	*h = execution;
	m->threads[place->thread].next++;
}

/* Returns true if node a is below b. A hostile trace may contain cycles. */
static bool is_below(const struct map *m, uint32_t a, uint32_t b)
{
	for (unsigned i = 0; i < 4 * MAP_DEPTH && a; i++) {
		if (a == b)
			return true;
		a = m->nodes[a].parent;
	}
	return a != 0;
}

static void on_range(struct map *m, const struct trace_event *ev)
{
	uint64_t key = map_key(ev->pid, ev->range.id), parent = map_key(ev->pid, ev->range.parent);
	uint32_t thread = thread_of(m, ev), *at, to;

	if (ev->op[0] == 'm')
		return;
	m->scopes[key % MAP_SCOPES] =
		(struct map_scope){.key = key, .parent = parent, .name = ev->range.text};
	at = map_long_of(m, key);
	if (at && thread != MAP_NONE) {
		struct map_node *n;

		to = map_range_node(m, m->threads[thread].root, parent, NULL);
		n = &m->nodes[*at];
		n->name = ev->range.text;
		if (to != MAP_NONE && !is_below(m, to, *at)) {
			n->parent = to;
			n->depth = m->nodes[to].depth + 1;
		}
	}
	if (thread != MAP_NONE)
		settle(m, &m->threads[thread], 0);
}

static void on_operator(struct map *m, const struct trace_event *ev)
{
	uint32_t thread = thread_of(m, ev);

	map_operator_ended(m, ev, thread);
	if (thread != MAP_NONE)
		settle(m, &m->threads[thread], 0);
}

static void map_event(void *a, const struct trace_event *ev)
{
	struct map *m = a;

	if (ev->kind == EVENT_CALL && ev->fn)
		on_call(m, ev);
	else if (ev->kind == EVENT_GPU)
		on_gpu(m, ev);
	else if (ev->kind == EVENT_RANGE)
		on_range(m, ev);
	else if (ev->kind == EVENT_OPERATOR)
		on_operator(m, ev);
}

static void map_finish(void *a)
{
	struct map *m = a;

	for (uint32_t i = 0; i < m->thread_keys.cnt && i < m->thread_cap; i++)
		settle(m, &m->threads[i], MAP_PENDING);
	gpu_devices__finish(&m->devices);
	map_finish_tree(m);
}

const struct analysis_ops map_ops = {
	.name = "map",
	.new = map__new,
	.event = map_event,
	.finish = map_finish,
	.section = &map_table,
	.print = map_print,
	.free = map__free,
};
