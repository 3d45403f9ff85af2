/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Effects of calls on memory: what they make and where, what they free, map and reference. */
#include "ledger_priv.h"

#include "call.h"
#include "event_path.h"

#include "decode/api_values.h"

#include <stdlib.h>
#include <string.h>

struct ledger_pool {
	struct hash_link link;
	uint64_t handle;
	int device;
	enum block_kind kind; /* kind of the blocks allocated from it */
};
HASH_TABLE_KEY(ledger_pool, handle);

static bool is(const struct trace_event *ev, const char *name)
{
	return !strcmp(ev->name, name);
}

/* Sets kind and device from a CUmemLocation. Memory located on the host is pinned host memory,
 * whichever call made it. */
static void place(const struct trace_event *ev, const char *type_path, const char *id_path,
		  enum block_kind *kind, int *device)
{
	uint64_t type, id;

	*device = -1;
	if (!event_path_u64(ev, type_path, &type))
		return;
	if (type == CU_MEM_LOCATION_TYPE_HOST || type == CU_MEM_LOCATION_TYPE_HOST_NUMA ||
	    type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT)
		*kind = BLOCK_HOST;
	else if (type == CU_MEM_LOCATION_TYPE_DEVICE && event_path_u64(ev, id_path, &id))
		*device = id;
}

static void place_managed(const struct trace_event *ev, const char *path, enum block_kind *kind)
{
	uint64_t type;

	if (event_path_u64(ev, path, &type) && type == CU_MEM_ALLOCATION_TYPE_MANAGED)
		*kind = BLOCK_MANAGED;
}

static struct ledger_pool *pool_find(const struct ledger *l, uint64_t handle)
{
	return ledger_pool_table__find(&l->pools, &handle);
}

static void pool_del(struct ledger *l, struct ledger_pool *pool)
{
	ledger_pool_table__del(&l->pools, pool);
	free(pool);
	quota__give(l->quota, &l->share, 1);
}

void ledger_pools_clear(struct ledger *l)
{
	hash_each (pool, &l->pools)
		pool_del(l, pool);
}

static struct ledger_pool *pool_new(struct ledger *l, uint64_t handle)
{
	struct ledger_pool *pool;

	if (hash_cnt(&l->pools) == MEMLIMIT_POOLS_MAX || !quota__take(l->quota, &l->share, 1))
		return NULL;
	pool = ledger_pool_table__new(&l->pools, &handle);
	if (!pool)
		quota__give(l->quota, &l->share, 1);
	return pool;
}

bool ledger__pool(struct ledger *l, const struct trace_event *ev)
{
	struct ledger_pool *pool;
	uint64_t handle, dev;

	if (ev->fn->op == OP_TRIM ||
	    (!event_arg_u64(ev, "pool", &handle) && !event_arg_u64(ev, "pool_out", &handle)))
		return true;
	pool = pool_find(l, handle);
	if (ev->fn->op == OP_DESTROY) {
		if (pool)
			pool_del(l, pool);
		return true;
	}
	pool = pool ?: pool_new(l, handle);
	if (!pool)
		return false;
	pool->kind = BLOCK_POOL;
	if (ev->fn->op == OP_CREATE) {
		place(ev, "poolProps.location.type", "poolProps.location.id", &pool->kind,
		      &pool->device);
		place_managed(ev, "poolProps.allocType", &pool->kind);
	} else if (event_arg_u64(ev, "dev", &dev)) {
		pool->device = dev;
	} else {
		place(ev, "location.type", "location.id", &pool->kind, &pool->device);
	}
	return true;
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

/* Functions whose ops do not describe memory: memory of other processes and APIs, and the argument
 * that has its address. */
static const struct {
	const char *name, *key, *size;
	enum mem_act_what what;
	enum block_kind kind;
	enum block_space space;
} others[] = {
	{"cuIpcOpenMemHandle", "pdptr", NULL, MEM_MAKES, BLOCK_IPC, SPACE_ADDR},
	{"cuIpcCloseMemHandle", "dptr", NULL, MEM_FREES, BLOCK_IPC, SPACE_ADDR},
	{"cuMemPoolImportPointer", "ptr_out", NULL, MEM_MAKES, BLOCK_IPC, SPACE_ADDR},
	{"cuMemImportFromShareableHandle", "handle", NULL, MEM_MAKES, BLOCK_IPC, SPACE_HANDLE},
	/* Freed with cuMemFree; the bytes are those of the external memory. */
	{"cuExternalMemoryGetMappedBuffer", "devPtr", "bufferDesc.size", MEM_MAKES, BLOCK_EXTERNAL,
	 SPACE_ADDR},
	{"cuImportExternalMemory", "extMem_out", "memHandleDesc.size", MEM_MAKES, BLOCK_EXTERNAL,
	 SPACE_HANDLE},
	{"cuDestroyExternalMemory", "extMem", NULL, MEM_FREES, BLOCK_EXTERNAL, SPACE_HANDLE},
};

static bool read_other(const struct trace_event *ev, struct mem_act *a)
{
	for (unsigned i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		if (!is(ev, others[i].name))
			continue;
		a->what = others[i].what;
		a->kind = others[i].kind;
		a->space = others[i].space;
		a->has_key = event_path_u64(ev, others[i].key, &a->key);
		a->has_size = others[i].size && event_path_u64(ev, others[i].size, &a->size);
		return true;
	}
	return false;
}

static void read_place(const struct ledger *l, const struct trace_event *ev, struct mem_act *a)
{
	const struct ledger_pool *pool;
	uint64_t handle;

	if (ev->fn->op == OP_MEM_CREATE) {
		a->is_placed = true;
		place(ev, "prop.location.type", "prop.location.id", &a->kind, &a->device);
		place_managed(ev, "prop.type", &a->kind);
	} else if (ev->fn->op == OP_ALLOC_ASYNC && event_arg_u64(ev, "pool", &handle)) {
		a->is_placed = true;
		pool = pool_find(l, handle);
		a->device = pool ? pool->device : -1;
		a->kind = pool ? pool->kind : a->kind;
	}
}

void ledger__read(const struct ledger *l, const struct trace_event *ev, struct mem_act *a)
{
	const struct op_desc *op = &op_desc[ev->fn->op];

	*a = (struct mem_act){.kind = op->block, .device = -1};
	if (ev->fn->class == CLASS_MEMORY && op->makes) {
		a->what = op->makes > 0 ? MEM_MAKES : MEM_FREES;
		a->space = block_desc[a->kind].space;
		a->in_context = block_desc[a->kind].in_context;
		a->key = ev->ptr;
		a->has_key = ev->has & HAS_PTR;
		a->size = ev->has & HAS_SIZE ? ev->size : 0;
		a->has_size = ev->has & HAS_SIZE;
		if (op->makes > 0)
			read_place(l, ev, a);
		return;
	}
	if (read_other(ev, a)) {
		a->in_context = block_desc[a->kind].in_context;
		return;
	}
	if (is_pool(ev))
		a->what = MEM_POOLS;
	else if (is(ev, "cuMemMap"))
		a->what = MEM_MAPS;
	else if (is(ev, "cuMemUnmap"))
		a->what = MEM_UNMAPS;
	else if (is(ev, "cuMemRetainAllocationHandle"))
		a->what = MEM_RETAINS;
	if (a->what == MEM_RETAINS) {
		a->has_key = event_arg_u64(ev, "handle", &a->key);
		return;
	}
	a->key = ev->ptr;
	a->size = ev->size;
	a->has_key = ev->has & HAS_PTR;
	a->has_size = ev->has & HAS_SIZE;
}

uint64_t ledger__home(struct ledger *l, const struct trace_event *ev, const struct mem_act *a)
{
	if (!a->in_context || !l->ctx.by_handle.first)
		return 0;
	return contexts__current(&l->ctx, ev->tid) ?: contexts__only(&l->ctx);
}
