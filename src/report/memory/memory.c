/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Calls that make and free memory. */
#include "memory_priv.h"

#include "model/call.h"
#include "util/order.h"

#include <stdlib.h>
#include <string.h>

const char *const leak_end_name[LEAK_END_CNT] = {"exit", "exec", "context"};
const char *const bad_free_name[] = {"double free", "unknown pointer", "wrong function"};

/* Device of a call's new block. NULL: not on a GPU. */
static struct dev_row *dev_of(struct memory *m, struct mem_proc *p, const struct trace_event *ev,
			      const struct mem_act *a)
{
	if (!on_gpu(a->kind) && a->kind != BLOCK_MANAGED)
		return NULL;
	if (a->is_placed)
		return memory__dev_row(m, p, a->device);
	return memory__dev_row(m, p, memory__device_of(p, memory__current(p, ev->tid)));
}

static void add(struct memory *m, struct mem_proc *p, const struct trace_event *ev,
		const struct mem_act *a)
{
	struct mem_block b = {.key = a->key,
			      .size = a->size,
			      .id = ev->id,
			      .parent_id = ev->parent_id,
			      .start_ns = ev->start_ns,
			      .born_ns = ev->end_ns,
			      .call = ev->name,
			      .stack = ev->stack,
			      .ctx = ledger__home(&p->ledger, ev, a),
			      .dev = dev_of(m, p, ev, a),
			      .refs = 1,
			      .kind = a->kind,
			      .space = a->space,
			      .size_known = a->has_size};

	if (!m->first_ns || ev->start_ns < m->first_ns)
		m->first_ns = ev->start_ns;
	if (ev->end_ns > m->last_ns)
		m->last_ns = ev->end_ns;
	if (!memory__again(m, p, &b))
		memory__add(m, p, &b);
}

static void on_failed_alloc(struct memory *m, const struct trace_event *ev, enum block_kind kind)
{
	if (kind == BLOCK_IPC || kind == BLOCK_RESERVED)
		return;
	if (!m->failed_cnt++)
		m->failed_first_ns = ev->start_ns;
	if ((ev->has & HAS_SIZE) && ev->size > m->failed_largest)
		m->failed_largest = ev->size;
}

static void on_pool(struct memory *m, struct mem_proc *p, const struct trace_event *ev)
{
	m->pool_trim_cnt += ev->fn->op == OP_TRIM;
	m->pool_gone_cnt += ev->fn->op == OP_DESTROY;
	m->pool_made_cnt += ev->fn->op == OP_CREATE;
	if (!ledger__pool(&p->ledger, ev))
		memlimit_reject(MEMLIMIT_POOLS);
}

static void on_retain(struct memory *m, struct mem_proc *p, const struct trace_event *ev,
		      uint64_t handle)
{
	struct mem_block *b = block_at(p, SPACE_HANDLE, handle);
	uint64_t addr;

	if (b) {
		b->refs++;
	} else if (event_arg_u64(ev, "addr", &addr)) {
		/* Released before, but kept alive by its mapping. */
		b = memory__around(p, addr);
		if (b && b->phys && !b->phys->refs)
			memory__revive(m, p, b->phys, handle);
	}
}

static void on_made(struct memory *m, struct mem_proc *p, const struct trace_event *ev,
		    const struct mem_act *a)
{
	if (ev->result)
		on_failed_alloc(m, ev, a->kind);
	else if (a->has_key)
		add(m, p, ev, a);
}

static void on_free(struct memory *m, struct mem_proc *p, const struct trace_event *ev,
		    const struct mem_act *a)
{
	/* Freeing NULL is allowed, as in C. */
	if (!a->has_key || !a->key)
		return;
	if (ev->result)
		memory__bad_free(m, p, a->space, a->key, ev);
	else
		memory__free_at(m, p, a->space, a->key, ev);
}

static void on_memory(struct memory *m, struct mem_proc *p, const struct trace_event *ev)
{
	uint64_t handle = 0;
	struct mem_act a;

	ledger__read(&p->ledger, ev, &a);
	if (a.what == MEM_MAKES)
		on_made(m, p, ev, &a);
	else if (a.what == MEM_FREES)
		on_free(m, p, ev, &a);
	if (ev->result)
		return;
	if (a.what == MEM_POOLS)
		on_pool(m, p, ev);
	if (a.what == MEM_RETAINS && a.has_key)
		on_retain(m, p, ev, a.key);
	if (!a.has_key || !a.has_size)
		return;
	if (a.what == MEM_MAPS) {
		event_arg_u64(ev, "handle", &handle);
		memory__map(m, p, ev, a.key, a.size, handle);
	} else if (a.what == MEM_UNMAPS) {
		memory__unmap(m, p, ev, a.key, a.size);
	}
}

static void on_process(struct memory *m, const struct trace_event *ev)
{
	struct mem_proc *p = memory__proc(m, ev->pid);

	if (!p)
		return;
	if (!strcmp(ev->name, "exit")) {
		memory__proc_gone(m, p, LEAK_EXIT, ev->end_ns);
		memory__proc_free(m, p);
		return;
	}
	/* Neither the child of a fork nor a new program has CUDA state. */
	memory__proc_gone(m, p, LEAK_EXEC, ev->end_ns);
	p->ledger.ctx.from_start = true;
}

static void memory__event(void *a, const struct trace_event *ev)
{
	struct memory *m = a;
	struct mem_proc *p;

	if (ev->kind == EVENT_PROCESS)
		on_process(m, ev);
	/* A captured call makes a node: its memory comes with the graph's launch. */
	if (ev->kind != EVENT_CALL || !ev->fn || ev->unfinished || ev->abandoned || ev->capturing)
		return;
	if (ev->type != TYPE_MEMORY && ev->type != TYPE_CONTEXT && ev->type != TYPE_INTEROP &&
	    ev->type != TYPE_INIT)
		return;
	p = memory__proc(m, ev->pid);
	if (!p)
		return;
	if (ev->type != TYPE_CONTEXT && ev->type != TYPE_INIT)
		on_memory(m, p, ev);
	else if (!ev->result)
		memory__context_event(m, p, ev);
}

static void *memory__new(struct report *r)
{
	struct memory *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->r = r;
	m->other_dev.device = -1;
	mem_time__init(&m->time);
	return m;
}

static int by_size(const void *a, const void *b)
{
	const struct leak *x = a, *y = b;

	return DESCENDING(x->size, y->size) ?: ASCENDING(x->start_ns, y->start_ns);
}

/* Memory of processes that have not ended is not a leak. */
static void memory__finish(void *a)
{
	struct memory *m = a;

	mem_time__advance(&m->time, m, m->r->last_ns);
	hash_each (p, &m->procs)
		if (p->gpu_range_cnt > p->snap_cnt)
			memory__snapshot(m, p, m->r->last_ns);
	qsort(m->leaks, m->leak_list_cnt, sizeof(m->leaks[0]), by_size);
}

static void memory__free(void *a)
{
	struct memory *m = a;

	hash_each (p, &m->procs) {
		memory__proc_gone(m, p, LEAK_EXIT, m->r->last_ns);
		memory__proc_free(m, p);
	}
	for (unsigned i = 0; i < m->dev_row_cnt; i++)
		memlimit_free(m->dev_rows[i]);
	memlimit_share_free(&m->dev_row_rows);
	memlimit_share_free(&m->bad_free_rows);
	free(m);
}

const struct analysis_ops memory_ops = {
	.name = "memory",
	.new = memory__new,
	.event = memory__event,
	.finish = memory__finish,
	.section = &memory_table,
	.print = memory__print,
	.free = memory__free,
	.of_args = true,
	.needs = "memory",
};
