/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "summary_priv.h"

#include "model/call.h"
#include "model/ranges.h"

#include <stdlib.h>
#include <string.h>

struct summary *summary__new(void)
{
	/* Most of it is tables that stay untouched, and so use no memory. */
	struct summary *s = calloc(1, sizeof(*s));

	if (s)
		s->other_kernels.name = s->driver.other_cmds.name = "(others)";
	return s;
}

void summary__free(struct summary *s)
{
	if (!s)
		return;
	wait_thread_table__free(&s->wait_threads);
	kernel_stat_table__free(&s->kernels);
	proc_stat_table__free(&s->procs);
	thread_stat_table__free(&s->threads);
	cmd_stat_table__free(&s->driver.cmds);
	gpu_devices__free(&s->run_gpus);
	residency__free(&s->residency);
	gpu_sums__free(s->gpus);
	range_sums__free(s->ranges);
	range_sums__free(s->operators);
	allocator_sums__free(s->allocator);
	free(s);
}

static struct fn_stat *fn_stat(struct summary *s, const struct api_fn *fn)
{
	unsigned i = hash_bits((uintptr_t)fn, SUMMARY_FN_BITS);

	for (; s->fns[i].fn; i = (i + 1) % SUMMARY_FN_SLOTS)
		if (s->fns[i].fn == fn)
			return &s->fns[i];
	/* CT_MAX_FUNCS is half of the table: only a bug in the caller gets here. */
	if (s->fn_cnt >= SUMMARY_FN_SLOTS * 3 / 4)
		return &s->other_fns;
	s->fn_cnt++;
	s->fns[i].fn = fn;
	return &s->fns[i];
}

static struct kernel_stat *kernel_by_name(struct summary *s, const char *name)
{
	size_t len = strnlen(name, SUMMARY_NAME_MAX);
	struct kernel_stat *k = kernel_stat_table__find(&s->kernels, name, len);

	if (k)
		return k;
	if (hash_cnt(&s->kernels) >= SUMMARY_KERNELS_MAX)
		return &s->other_kernels;
	k = calloc(1, sizeof(*k) + len + 1);
	if (!k)
		return &s->other_kernels;
	memcpy(k + 1, name, len);
	k->name = (const char *)(k + 1);
	if (kernel_stat_table__add(&s->kernels, k, len)) {
		free(k);
		return &s->other_kernels;
	}
	return k;
}

/* A name keeps its address while a process has it; later the address may be reused, so it is only a
 * shortcut. */
static struct kernel_stat *kernel_stat(struct summary *s, const char *name)
{
	unsigned i = hash_bits((uintptr_t)name, SUMMARY_KERNEL_BITS);
	struct kernel_stat *k;

	while (s->kernel_slots[i].ptr && s->kernel_slots[i].ptr != name)
		i = (i + 1) % SUMMARY_KERNEL_SLOTS;
	k = s->kernel_slots[i].kernel;
	if (k && !strncmp(k->name, name, SUMMARY_NAME_MAX))
		return k;
	k = kernel_by_name(s, name);
	if (s->kernel_slots[i].ptr) {
		s->kernel_slots[i].kernel = k;
		return k;
	}
	if (s->kernel_ptr_cnt < SUMMARY_KERNEL_SLOTS / 2) {
		s->kernel_ptr_cnt++;
		s->kernel_slots[i] = (struct kernel_slot){name, k};
	}
	return k;
}

static void count_stream(struct summary *s, const struct trace_event *ev)
{
	unsigned i = hash_bits(ev->stream ^ (uint64_t)ev->pid << 40, 12) % SUMMARY_STREAMS_MAX;
	struct stream_id *id = &s->streams[i];

	for (; id->used; id = &s->streams[i = (i + 1) % SUMMARY_STREAMS_MAX])
		if (id->handle == ev->stream && id->pid == ev->pid)
			return;
	if (s->stream_cnt >= SUMMARY_STREAMS_MAX / 2)
		return;
	s->stream_cnt++;
	*id = (struct stream_id){ev->stream, ev->pid, true};
}

static void on_launch(struct summary *s, const struct trace_event *ev, uint64_t ns)
{
	struct kernel_stat *k;

	if (ev->is_error)
		return;
	if (ev->launch.kernel) {
		k = kernel_stat(s, ev->launch.kernel);
	} else {
		s->launch_unnamed_cnt++;
		k = kernel_stat(s, "(name unknown)");
	}
	if (ev->capturing) {
		s->launch_node_cnt++;
		k->node_cnt++;
		return;
	}
	s->launch_cnt++;
	s->launch_ns += ns;
	k->cnt++;
	k->untimed_cnt += ev->entry_only;
	k->total_ns += ns;
	if (ns > k->max_ns)
		k->max_ns = ns;
	if (ev->has & HAS_STREAM)
		count_stream(s, ev);
}

static void mem_set(struct summary *s, struct proc_stat *p, enum mem_kind kind, uint64_t bytes)
{
	struct mem_stat *m = &s->mem[kind];

	m->live += bytes - p->mem[kind];
	if (m->live > m->peak)
		m->peak = m->live;
	p->mem[kind] = bytes;
}

/* times -1: undoes the count. */
static void mem_count(struct summary *s, const struct mem_call *c, int times)
{
	struct mem_stat *m = &s->mem[c->kind];

	if (c->sign < 0) {
		m->free_cnt += times;
		return;
	}
	m->alloc_cnt += times;
	m->alloc_bytes += times * c->bytes;
}

static void on_memory(struct summary *s, struct proc_stat *p, const struct trace_event *ev)
{
	const uint64_t *now = ev->mem.bytes;
	struct mem_call counted;
	enum block_kind block;
	enum mem_kind kind;
	int sign = call_makes(ev, &block), i;

	kind = block_desc[block].counted;
	if (kind == MEM_NONE)
		sign = 0;

	/* A free of address 0 frees nothing. */
	if (sign < 0 && ev->has & HAS_PTR && !ev->ptr)
		sign = 0;
	if (ev->is_error || ev->entry_only)
		return;
	if (ev->has_mem) {
		/* cuMemFree frees managed memory too: the changed total shows which it was. */
		for (i = 0; i < MEM_KIND_CNT; i++)
			if (now[i] != p->mem[i])
				kind = i;
		for (i = 0; i < MEM_KIND_CNT; i++)
			mem_set(s, p, i, now[i]);
	}
	if (!sign)
		return;
	/* When a driver function calls another one, count only the outer call. */
	if (p->inner.parent_id && p->inner.parent_id == ev->id)
		mem_count(s, &p->inner, -1);
	counted = (struct mem_call){ev->parent_id, kind, sign, ev->has & HAS_SIZE ? ev->size : 0};
	mem_count(s, &counted, 1);
	if (ev->parent_id)
		p->inner = counted;
}

static void note_wait_thread(struct summary *s, const struct trace_event *ev)
{
	uint64_t key = (uint64_t)ev->pid << 32 | ev->tid;

	if (!wait_thread_table__find(&s->wait_threads, &key) &&
	    hash_cnt(&s->wait_threads) < SUMMARY_WAIT_THREADS)
		wait_thread_table__new(&s->wait_threads, &key);
}

static void on_wait(struct summary *s, struct fn_stat *st, const struct trace_event *ev,
		    uint64_t ns)
{
	if (ev->entry_only)
		return;
	note_wait_thread(s, ev);
	s->wait_cnt++;
	s->wait_ns += ns;
	st->wait_cnt++;
	st->wait_ns += ns;
	if (!(ev->has & HAS_OFF_CPU))
		return;
	s->has_off_cpu = true;
	st->off_cpu_ns += ev->off_cpu_ns < ns ? ev->off_cpu_ns : ns;
}

static void on_transfer(struct summary *s, struct fn_stat *st, const struct trace_event *ev,
			uint64_t ns)
{
	struct transfer_stat *t = &s->transfers[ev->dir];
	uint64_t size = ev->has & HAS_SIZE ? ev->size : 0;

	if (ev->capturing)
		return;
	/* Copies within the device and memsets return before they are done, named async or not. */
	if (call_blocks(ev))
		on_wait(s, st, ev, ns);
	if (ev->is_error)
		return;
	if (ev->fn->op == OP_MEMSET)
		t = &s->transfers[TRANSFER_MEMSET];
	else if (ev->fn->op == OP_PREFETCH)
		t = &s->transfers[TRANSFER_PREFETCH];
	t->cnt++;
	t->bytes += size;
	t->total_ns += ns;
	if (ev->fn->is_async || ev->entry_only)
		return;
	t->sync_cnt++;
	t->sync_bytes += size;
	t->sync_ns += ns;
}

static void proc_free(struct summary *s, struct proc_stat *p)
{
	proc_stat_table__del(&s->procs, p);
	free(p);
	s->cur_proc = NULL;
}

static void forget_ended(struct summary *s)
{
	hash_each (p, &s->procs)
		if (p->ended_ns)
			proc_free(s, p);
}

/* The process of a call; NULL when there are too many. */
static struct proc_stat *proc_get(struct summary *s, const struct trace_event *ev)
{
	struct proc_stat *p = s->cur_proc;
	uint32_t pid = ev->pid;

	if (!p || p->pid != pid)
		p = proc_stat_table__find(&s->procs, &pid);
	/* Another process with the same id. */
	if (p && p->ended_ns && ev->start_ns > p->ended_ns) {
		proc_free(s, p);
		p = NULL;
	}
	if (!p && hash_cnt(&s->procs) == SUMMARY_PROCS_MAX)
		forget_ended(s);
	if (!p && hash_cnt(&s->procs) < SUMMARY_PROCS_MAX) {
		p = proc_stat_table__new(&s->procs, &pid);
		s->proc_cnt += p != NULL;
	}
	s->cur_proc = p;
	return p;
}

/* A process that ended, or runs another program, frees all its memory. */
static void on_process(struct summary *s, const struct trace_event *ev)
{
	bool is_exit = !strcmp(ev->name, "exit");
	struct proc_stat *p;
	int i;

	if (!is_exit && strcmp(ev->name, "exec"))
		return;
	p = proc_stat_table__find(&s->procs, &ev->pid);
	if (!p)
		return;
	for (i = 0; i < MEM_KIND_CNT; i++) {
		s->mem[i].kept += p->mem[i];
		mem_set(s, p, i, 0);
	}
	if (is_exit)
		p->ended_ns = ev->end_ns;
}

/* A truncated time does not describe the function: it is in no total. */
static void on_unfinished(struct summary *s, const struct trace_event *ev, uint64_t ns)
{
	if (ev->abandoned) {
		s->abandoned_cnt++;
		return;
	}
	s->unfinished_cnt++;
	if (call_blocks(ev) && ns > s->longest_wait_ns)
		s->longest_wait_ns = ns;
	if (ns < s->longest_unfinished_ns && s->longest_unfinished)
		return;
	s->longest_unfinished_ns = ns;
	s->longest_unfinished = ev->fn->name;
}

static void on_meaning(struct summary *s, struct proc_stat *p, struct fn_stat *st,
		       const struct trace_event *ev, uint64_t ns)
{
	if (call_does(ev, DOES_LAUNCH)) {
		on_launch(s, ev, ns);
		return;
	}
	switch (ev->fn->op) {
	case OP_GRAPH_LAUNCH:
		s->graph_launch_cnt += !ev->is_error;
		s->graph_launch_ns += ev->is_error ? 0 : ns;
		return;
	case OP_INSTANTIATE:
		s->instantiate_cnt += !ev->is_error;
		return;
	case OP_SYNC:
		on_wait(s, st, ev, ns);
		return;
	default:
		break;
	}
	if (ev->type == TYPE_TRANSFER)
		on_transfer(s, st, ev, ns);
	else if (p && (ev->type == TYPE_MEMORY || ev->has_mem))
		on_memory(s, p, ev);
	else if (p && ev->has & HAS_COMM && !p->has_rank) {
		p->has_rank = true;
		s->rank_cnt++;
	}
}

static void on_call(struct summary *s, const struct trace_event *ev)
{
	uint64_t ns = event_duration_ns(ev);
	struct proc_stat *p = proc_get(s, ev);
	struct fn_stat *st = fn_stat(s, ev->fn);
	struct class_stat *c = &s->classes[ev->fn->class];

	s->call_cnt++;
	st->cnt++;
	c->cnt++;
	if (ev->has & HAS_IOCTLS) {
		st->ioctl_cnt += ev->ioctl_cnt;
		st->ioctl_ns += ev->ioctl_ns;
	}
	if (ev->entry_only) {
		st->untimed_cnt++;
		s->untimed_cnt++;
		on_meaning(s, p, st, ev, 0);
		return;
	}
	if (call_is_top(ev) && call_took_time(ev))
		host_clock__call(&s->host, ev);
	if (ev->unfinished || ev->abandoned) {
		on_unfinished(s, ev, ns);
		return;
	}
	st->total_ns += ns;
	if (ns > st->max_ns) {
		st->max_ns = ns;
		st->max_at_ns = ev->start_ns;
	}
	if (call_is_outer(ev))
		c->total_ns += ns;
	if (call_is_top(ev)) {
		c->top_ns += ns;
		s->call_ns += ns;
		summary_top_call(s, st, ev, ns);
	}
	if (ev->is_error)
		summary_error(s, st, ev);
	on_meaning(s, p, st, ev, ns);
}

static void on_gpu_stats(struct summary *s, const struct trace_event *ev)
{
	if (!s->gpus)
		s->gpus = gpu_sums__new();
	if (s->gpus)
		gpu_sums__event(s->gpus, ev);
}

static bool is_of_ranges(const struct trace_event *ev)
{
	return ev->kind == EVENT_RANGE || (ev->kind == EVENT_CALL && ev->range_id) ||
	       (ev->kind == EVENT_GPU && ev->gpu.range_id);
}

static void on_range(struct range_sums **sums, bool of_operators, const struct trace_event *ev)
{
	if (!*sums)
		*sums = range_sums__new(of_operators);
	if (*sums)
		range_sums__event(*sums, ev);
}

static bool is_of_operators(const struct trace_event *ev)
{
	return ev->kind == EVENT_OPERATOR || (ev->kind == EVENT_CALL && ev->operator_id) ||
	       (ev->kind == EVENT_GPU && ev->gpu.operator_id);
}

static void on_allocator(struct summary *s, const struct trace_event *ev)
{
	if (!s->allocator)
		s->allocator = allocator_sums__new();
	if (s->allocator)
		allocator_sums__event(s->allocator, ev);
}

void summary__event(struct summary *s, const struct trace_event *ev)
{
	if (ev->kind == EVENT_TRACER || ev->kind == EVENT_STACK)
		return;
	losses__event(&s->lost, ev);
	s->event_cnt++;
	if (is_of_ranges(ev))
		on_range(&s->ranges, false, ev);
	if (is_of_operators(ev))
		on_range(&s->operators, true, ev);
	if (ev->kind == EVENT_ALLOCATOR || (ev->has_mem && ev->kind == EVENT_CALL))
		on_allocator(s, ev);
	if (ev->kind == EVENT_CALL && ev->fn)
		on_call(s, ev);
	else if (ev->kind == EVENT_PROCESS)
		on_process(s, ev);
	else if (ev->kind == EVENT_GPU)
		summary_gpu_event(s, ev, ev->gpu.kernel ? kernel_stat(s, ev->gpu.kernel) : NULL);
	else if (ev->kind == EVENT_CTXSW)
		residency__event(&s->residency, ev);
	else if (ev->kind == EVENT_GPU_STATS)
		on_gpu_stats(s, ev);
	else if (!event_is_range(ev) && ev->kind != EVENT_ALLOCATOR)
		summary_driver_event(s, ev);
}

void summary__totals(const struct summary *s, struct summary_totals *t)
{
	*t = (struct summary_totals){
		.event_cnt = s->event_cnt,
		.call_cnt = s->call_cnt,
		.launch_cnt = s->launch_cnt,
		.graph_launch_cnt = s->graph_launch_cnt,
		.error_cnt = s->error_cnt,
		.device_bytes = s->mem[MEM_DEVICE].live,
		.device_peak = s->mem[MEM_DEVICE].peak,
	};
}
