/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Calls that make and free memory. */
#include "memory_priv.h"

#include "decode/api_values.h"
#include "model/call.h"

#include <stdlib.h>
#include <string.h>

#include "model/event_path.h"

const char *const leak_end_name[LEAK_END_CNT] = {"exit", "exec", "context"};
const char *const bad_free_name[] = {"double free", "unknown pointer", "wrong function"};

static bool is(const struct trace_event *ev, const char *name)
{
	return !strcmp(ev->name, name);
}

/* Device of a CUmemLocation; false: it was read, and is no device. */
static bool location(const struct trace_event *ev, const char *type_path, const char *id_path,
		     int *device)
{
	uint64_t type, id;

	*device = -1;
	if (!event_path_u64(ev, type_path, &type))
		return true;
	if (type != CU_MEM_LOCATION_TYPE_DEVICE)
		return false;
	if (event_path_u64(ev, id_path, &id))
		*device = id;
	return true;
}

/* Where the memory of a call lies. NULL: not on a GPU. */
static struct dev_row *dev_of(struct memory *m, struct mem_proc *p, const struct trace_event *ev,
			      const struct block *b)
{
	struct pool *pool = NULL;
	uint64_t handle;
	int device;

	if (!on_gpu(b->kind) && b->kind != BLOCK_MANAGED)
		return NULL;
	if (b->kind == BLOCK_VMM) {
		if (!location(ev, "prop.location.type", "prop.location.id", &device))
			return NULL;
		return memory__dev_row(m, p, device);
	}
	if (b->kind == BLOCK_POOL && event_arg_u64(ev, "pool", &handle)) {
		HASH_FIND(hh, p->pools, &handle, sizeof(handle), pool);
		return memory__dev_row(m, p, pool ? pool->device : -1);
	}
	return memory__dev_row(m, p, memory__device_of(p, b->ctx));
}

static void add(struct memory *m, struct mem_proc *p, const struct trace_event *ev,
		enum block_kind kind, enum block_space space, uint64_t key)
{
	struct block b = {.key = key,
			  .size = ev->has & HAS_SIZE ? ev->size : 0,
			  .id = ev->id,
			  .parent_id = ev->parent_id,
			  .start_ns = ev->start_ns,
			  .born_ns = ev->end_ns,
			  .call = ev->name,
			  .stack = ev->stack,
			  .refs = 1,
			  .kind = kind,
			  .space = space,
			  .size_known = ev->has & HAS_SIZE};

	/* Not every call has its size as an argument. */
	if (ev->fn->op == OP_IMPORT && event_path_u64(ev, "memHandleDesc.size", &b.size))
		b.size_known = true;
	b.ctx = memory__current(p, ev->tid);
	b.dev = dev_of(m, p, ev, &b);
	if (!m->first_ns || ev->start_ns < m->first_ns)
		m->first_ns = ev->start_ns;
	if (ev->end_ns > m->last_ns)
		m->last_ns = ev->end_ns;
	memory__add(m, p, &b);
}

/* What a call makes, and the argument that says where (NULL: ev->ptr). Functions whose ops say
 * nothing of memory. */
static bool imports(const struct trace_event *ev, enum block_kind *kind, enum block_space *space,
		    const char **arg)
{
	*space = SPACE_ADDR;
	if (ev->fn->op == OP_MAP) {
		/* Freed with cuMemFree; the bytes are those of the external memory. */
		*kind = BLOCK_EXTERNAL;
		*arg = "devPtr";
		return is(ev, "cuExternalMemoryGetMappedBuffer");
	}
	if (ev->fn->op != OP_IMPORT)
		return false;
	*kind = BLOCK_IPC;
	*arg = "pdptr";
	if (is(ev, "cuIpcOpenMemHandle"))
		return true;
	*arg = "ptr_out";
	if (is(ev, "cuMemPoolImportPointer"))
		return true;
	*space = SPACE_HANDLE;
	*arg = "handle";
	if (is(ev, "cuMemImportFromShareableHandle"))
		return true;
	*kind = BLOCK_EXTERNAL;
	*arg = "extMem_out";
	return is(ev, "cuImportExternalMemory");
}

static bool makes(const struct trace_event *ev, enum block_kind *kind, enum block_space *space,
		  const char **arg)
{
	*arg = NULL;
	if (call_makes(ev, kind) > 0) {
		*space = block_facts[*kind].space;
		return true;
	}
	return imports(ev, kind, space, arg);
}

/* What a call frees. */
static bool frees(const struct trace_event *ev, enum block_space *space, const char **arg)
{
	enum block_kind kind;

	*arg = NULL;
	if (call_makes(ev, &kind) < 0) {
		*space = block_facts[kind].space;
		return true;
	}
	if (ev->fn->op == OP_RELEASE) {
		*space = SPACE_ADDR;
		*arg = "dptr";
		return is(ev, "cuIpcCloseMemHandle");
	}
	*space = SPACE_HANDLE;
	*arg = "extMem";
	return is(ev, "cuDestroyExternalMemory");
}

static bool key_of(const struct trace_event *ev, const char *arg, uint64_t *key)
{
	if (arg)
		return event_arg_u64(ev, arg, key);
	*key = ev->ptr;
	return ev->has & HAS_PTR;
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
	struct pool *pool = NULL;
	uint64_t handle, dev;
	int device = -1;

	if (ev->fn->op == OP_TRIM) {
		m->pool_trim_cnt++;
		return;
	}
	if (!event_arg_u64(ev, "pool", &handle) && !event_arg_u64(ev, "pool_out", &handle))
		return;
	HASH_FIND(hh, p->pools, &handle, sizeof(handle), pool);
	if (ev->fn->op == OP_DESTROY) {
		m->pool_gone_cnt++;
		if (!pool)
			return;
		HASH_DEL(p->pools, pool);
		room_free(pool);
		return;
	}
	if (ev->fn->op == OP_CREATE) {
		m->pool_made_cnt++;
		location(ev, "poolProps.location.type", "poolProps.location.id", &device);
	} else if (event_arg_u64(ev, "dev", &dev)) {
		device = dev;
	} else {
		location(ev, "location.type", "location.id", &device);
	}
	if (!pool) {
		if (HASH_COUNT(p->pools) == POOLS_MAX)
			room_full(ROOM_POOLS);
		else
			pool = room_new(ROOM_POOLS, sizeof(*pool));
		if (!pool)
			return;
		pool->handle = handle;
		HASH_ADD(hh, p->pools, handle, sizeof(pool->handle), pool);
	}
	pool->device = device;
}

static bool is_pool(const struct trace_event *ev)
{
	switch (ev->fn->op) {
	case OP_CREATE:
	case OP_DESTROY:
	case OP_TRIM:
		return !strncmp(ev->name, "cuMemPool", 9);
	case OP_LOOKUP:
		return strstr(ev->name, "MemPool");
	}
	return false;
}

static void on_mapping(struct memory *m, struct mem_proc *p, const struct trace_event *ev)
{
	uint64_t handle = 0, addr;
	struct block *b;

	if (is(ev, "cuMemMap") && (ev->has & HAS_PTR) && (ev->has & HAS_SIZE)) {
		event_arg_u64(ev, "handle", &handle);
		memory__map(m, p, ev, ev->ptr, ev->size, handle);
	} else if (is(ev, "cuMemUnmap") && (ev->has & HAS_PTR) && (ev->has & HAS_SIZE)) {
		memory__unmap(m, p, ev, ev->ptr, ev->size);
	} else if (is(ev, "cuMemRetainAllocationHandle") && event_arg_u64(ev, "handle", &handle)) {
		b = block_at(p, SPACE_HANDLE, handle);
		if (b) {
			b->refs++;
		} else if (event_arg_u64(ev, "addr", &addr)) {
			/* Released before, and held by its mapping. */
			b = block_at(p, SPACE_MAPPED, addr);
			if (b && b->phys && !b->phys->refs)
				memory__revive(m, p, b->phys, handle);
		}
	}
}

static void on_memory(struct memory *m, struct mem_proc *p, const struct trace_event *ev)
{
	enum block_space space;
	enum block_kind kind;
	const char *arg;
	uint64_t key;

	if (makes(ev, &kind, &space, &arg)) {
		if (ev->result)
			on_failed_alloc(m, ev, kind);
		else if (key_of(ev, arg, &key))
			add(m, p, ev, kind, space, key);
	} else if (frees(ev, &space, &arg)) {
		/* Nothing may be freed, as in C. */
		if (!key_of(ev, arg, &key) || !key)
			return;
		if (ev->result)
			memory__bad_free(m, p, space, key, ev);
		else
			memory__free_at(m, p, space, key, ev);
	} else if (ev->result) {
		return;
	} else if (is_pool(ev)) {
		on_pool(m, p, ev);
	} else if (ev->fn->op == OP_MAP || ev->fn->op == OP_UNMAP || ev->fn->op == OP_RETAIN) {
		on_mapping(m, p, ev);
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
	/* The child of a fork has nothing of CUDA; a program that was replaced neither. */
	memory__proc_gone(m, p, LEAK_EXEC, ev->end_ns);
	p->ctx.from_start = true;
}

static void memory__event(void *a, const struct trace_event *ev)
{
	struct memory *m = a;
	struct mem_proc *p;

	if (ev->kind == EVENT_PROCESS)
		on_process(m, ev);
	if (ev->kind != EVENT_CALL || !ev->fn || ev->unfinished || ev->abandoned)
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

	if (x->size != y->size)
		return x->size < y->size ? 1 : -1;
	return (x->start_ns > y->start_ns) - (x->start_ns < y->start_ns);
}

/* Processes that have not ended: what they hold is no leak. */
static void memory__finish(void *a)
{
	struct memory *m = a;
	struct mem_proc *p;

	mem_time__advance(&m->time, m, m->r->last_ns);
	for (p = m->procs; p; p = p->hh.next)
		if (p->gpu_range_cnt > p->snap_cnt)
			memory__snapshot(m, p, m->r->last_ns);
	qsort(m->leaks, m->leak_list_cnt, sizeof(m->leaks[0]), by_size);
}

static void memory__free(void *a)
{
	struct memory *m = a;
	struct mem_proc *p, *tmp;

	HASH_ITER (hh, m->procs, p, tmp) {
		memory__proc_gone(m, p, LEAK_EXIT, m->r->last_ns);
		memory__proc_free(m, p);
	}
	for (unsigned i = 0; i < m->dev_row_cnt; i++)
		room_free(m->dev_rows[i]);
	room_share_free(&m->dev_row_rows);
	room_share_free(&m->bad_free_rows);
	free(m);
}

const struct analysis_ops memory_ops = {
	.name = "memory",
	.new = memory__new,
	.event = memory__event,
	.finish = memory__finish,
	.json = memory__json,
	.print = memory__print,
	.free = memory__free,
	.of_args = true,
};
