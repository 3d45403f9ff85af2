/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "mem.h"

#include "call.h"
#include "event_path.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

struct range {
	uint64_t addr, last; /* what it covers; handles cover one */
	uint64_t bytes;
	uint64_t born_ns; /* when the call that made it returned */
	uint64_t ctx;	  /* that it goes with; 0: none, or not known */
	struct range *next;
	enum mem_kind kind; /* MEM_NONE: of a device, and not this process's own memory */
};

/* Live ranges do not overlap, so "overlaps" is "equal": a lookup of one byte finds the range that
 * it lies in. */
static int cmp_range(const void *a, const void *b)
{
	const struct range *x = a, *y = b;

	if (x->last < y->addr)
		return -1;
	return x->addr > y->last ? 1 : 0;
}

/* The target's numbers may lead beyond the end of the address space. */
static uint64_t last_byte(uint64_t addr, uint64_t size)
{
	if (!size)
		return addr;
	return size - 1 > UINT64_MAX - addr ? UINT64_MAX : addr + size - 1;
}

static void drop(struct mem *m, void **tree, struct range *r)
{
	tdelete(r, tree, cmp_range);
	if (r->kind != MEM_NONE)
		m->bytes[r->kind] -= r->bytes;
	free(r);
	quota__give(m->quota, &m->share, 1);
}

static void add_loose(struct mem *m, enum mem_kind kind, uint64_t bytes)
{
	m->bytes[kind] += bytes;
	m->loose[kind].bytes += bytes;
	m->loose[kind].cnt++;
}

static bool drop_loose(struct mem *m, enum mem_kind kind)
{
	uint64_t bytes;

	if (!m->loose[kind].cnt)
		return false;
	bytes = m->loose[kind].bytes / m->loose[kind].cnt--;
	if (!m->loose[kind].cnt)
		bytes = m->loose[kind].bytes;
	m->loose[kind].bytes -= bytes;
	m->bytes[kind] -= bytes;
	return true;
}

static void add(struct mem *m, void **tree, struct range key)
{
	struct range **node, *r;

	/* An older range in this place was freed: unseen, or by a thread whose record comes later.
	 */
	while ((node = tfind(&key, tree, cmp_range))) {
		drop(m, tree, *node);
		m->superseded_cnt++;
		if (key.born_ns > m->superseded_ns)
			m->superseded_ns = key.born_ns;
	}
	r = quota__take(m->quota, &m->share, 1) ? malloc(sizeof(*r)) : NULL;
	if (!r) {
		if (key.kind != MEM_NONE)
			add_loose(m, key.kind, key.bytes);
		return;
	}
	*r = key;
	r->ctx = m->in_ctx;
	if (!tsearch(r, tree, cmp_range)) {
		free(r);
		quota__give(m->quota, &m->share, 1);
		return;
	}
	if (r->kind != MEM_NONE)
		m->bytes[r->kind] += r->bytes;
}

/* Nobody frees what he was not given yet: a free that began before this range was there is the late
 * record of an older one, which add() has dropped. */
static bool del(struct mem *m, void **tree, uint64_t addr, uint64_t start_ns, uint64_t *size)
{
	struct range key = {.addr = addr, .last = addr}, **node = tfind(&key, tree, cmp_range);

	if (!node || (*node)->addr != addr || start_ns < (*node)->born_ns)
		return false;
	*size = (*node)->bytes;
	drop(m, tree, *node);
	return true;
}

void mem__alloc(struct mem *m, enum mem_kind kind, uint64_t addr, uint64_t size, uint64_t end_ns)
{
	add(m, &m->ranges,
	    (struct range){.addr = addr,
			   .last = last_byte(addr, size),
			   .bytes = size,
			   .born_ns = end_ns,
			   .kind = kind});
}

bool mem__free(struct mem *m, uint64_t addr, uint64_t start_ns, uint64_t *size)
{
	return del(m, &m->ranges, addr, start_ns, size);
}

void mem__create(struct mem *m, uint64_t handle, uint64_t size, uint64_t end_ns)
{
	add(m, &m->physical,
	    (struct range){.addr = handle,
			   .last = handle,
			   .bytes = size,
			   .born_ns = end_ns,
			   .kind = MEM_DEVICE});
}

bool mem__release(struct mem *m, uint64_t handle, uint64_t start_ns, uint64_t *size)
{
	return del(m, &m->physical, handle, start_ns, size);
}

void mem__learn(struct mem *m, const struct trace_event *ev)
{
	/* Calls that return an address of device memory that others own, or that is counted by its
	 * handle. Without a size only the address itself is known. */
	static const struct {
		const char *name, *addr, *size;
	} sources[] = {
		{"cuMemMap", "ptr", "size"},
		{"cuIpcOpenMemHandle", "pdptr", NULL},
		{"cuMemPoolImportPointer", "ptr_out", NULL},
		{"cuExternalMemoryGetMappedBuffer", "devPtr", "bufferDesc.size"},
		{"cuModuleGetGlobal", "dptr", "bytes"},
		{"cuLibraryGetGlobal", "dptr", "bytes"},
		{"cuLibraryGetManaged", "dptr", "bytes"},
		{"cuGraphicsResourceGetMappedPointer", "pDevPtr", "pSize"},
		{"cuGraphAddMemAllocNode", "nodeParams.dptr", "nodeParams.bytesize"},
	};
	uint64_t addr, size = 0;

	if (ev->result || !event_returned(ev))
		return;
	for (unsigned i = 0; i < sizeof(sources) / sizeof(sources[0]); i++) {
		if (strcmp(ev->fn->name, sources[i].name))
			continue;
		if (!event_path_u64(ev, sources[i].addr, &addr) || !addr)
			return;
		if (sources[i].size)
			event_path_u64(ev, sources[i].size, &size);
		m->in_ctx = 0;
		mem__alloc(m, MEM_NONE, addr, size, ev->end_ns);
		return;
	}
}

/* What cuMemUnmap takes off may have been mapped by several calls. */
static void unmap(struct mem *m, uint64_t addr, uint64_t size)
{
	struct range key = {.addr = addr, .last = last_byte(addr, size)}, **node;

	while ((node = tfind(&key, &m->ranges, cmp_range)) && (*node)->kind == MEM_NONE)
		drop(m, &m->ranges, *node);
}

int mem__kind_at(const struct mem *m, uint64_t addr)
{
	struct range key = {.addr = addr, .last = addr};
	struct range *const *node = tfind(&key, (void *const *)&m->ranges, cmp_range);

	return node ? (int)(*node)->kind : -1;
}

struct goners {
	uint64_t ctx;
	struct range *list;
};

static void find_goner(const void *node, VISIT which, void *closure)
{
	struct range *r = *(struct range *const *)node;
	struct goners *g = closure;

	if ((which == preorder || which == leaf) && r->ctx == g->ctx) {
		r->next = g->list;
		g->list = r;
	}
}

static void drop_all_of(struct mem *m, void **tree, uint64_t ctx)
{
	struct goners g = {.ctx = ctx};

	twalk_r(*tree, find_goner, &g);
	while (g.list) {
		struct range *r = g.list;

		g.list = r->next;
		drop(m, tree, r);
	}
}

static void context_gone(struct mem *m, uint64_t ctx)
{
	drop_all_of(m, &m->ranges, ctx);
	drop_all_of(m, &m->physical, ctx);
	/* It was the last: nothing is left to live in. */
	for (int k = 0; k < MEM_KIND_CNT && HASH_COUNT(m->ctx.by_handle) <= 1; k++) {
		m->bytes[k] -= m->loose[k].bytes;
		m->loose[k].cnt = m->loose[k].bytes = 0;
	}
}

void mem__totals(const struct mem *m, struct mem_totals *out)
{
	memcpy(out->bytes, m->bytes, sizeof(out->bytes));
}

static void clear(void **tree)
{
	while (*tree) {
		struct range *r = *(struct range **)*tree;

		tdelete(r, tree, cmp_range);
		free(r);
	}
}

void mem__clear(struct mem *m)
{
	clear(&m->ranges);
	clear(&m->physical);
	memset(m->bytes, 0, sizeof(m->bytes));
	memset(m->loose, 0, sizeof(m->loose));
	m->superseded_cnt = m->superseded_ns = 0;
	contexts__clear(&m->ctx);
	quota__give(m->quota, &m->share, m->share.used);
}

static void make(struct mem *m, struct trace_event *ev, const struct block_facts *block)
{
	if (!(ev->has & HAS_PTR) || !(ev->has & HAS_SIZE))
		return;
	if (block->space == SPACE_HANDLE) /* the bytes lie elsewhere */
		mem__create(m, ev->ptr, ev->size, ev->end_ns);
	else
		mem__alloc(m, block->counted, ev->ptr, ev->size, ev->end_ns);
	ev->has_mem = true;
}

static bool release_loose(struct mem *m, const struct trace_event *ev, enum mem_kind kind)
{
	/* cuMemFree(0) does nothing. */
	if (!ev->ptr)
		return false;
	/* The late record of what has been taken away already. */
	if (m->superseded_cnt && ev->start_ns < m->superseded_ns) {
		m->superseded_cnt--;
		return false;
	}
	if (kind == MEM_HOST)
		return drop_loose(m, MEM_HOST);
	return drop_loose(m, MEM_DEVICE) || drop_loose(m, MEM_MANAGED);
}

static void release(struct mem *m, struct trace_event *ev, const struct block_facts *block)
{
	uint64_t size;

	if (!(ev->has & HAS_PTR))
		return;
	if (block->space == SPACE_HANDLE ? !mem__release(m, ev->ptr, ev->start_ns, &size)
					 : !mem__free(m, ev->ptr, ev->start_ns, &size)) {
		ev->has_mem = release_loose(m, ev, block->counted);
		return;
	}
	ev->size = size;
	ev->has |= HAS_SIZE;
	ev->has_mem = true;
}

static void on_context(struct mem *m, struct trace_event *ev, bool lives_in_it)
{
	bool unknown = false, known = m->ctx.by_handle != NULL;
	uint64_t ctx = 0, gone;

	m->ctx.quota = m->quota;
	gone = contexts__event(&m->ctx, ev, &unknown);
	if (gone) {
		context_gone(m, gone);
		ev->has_mem = true;
	}
	if (known && lives_in_it)
		ctx = contexts__current(&m->ctx, ev->tid) ?: contexts__only(&m->ctx);
	/* Its ranges live there (0: in none that is known) and go with it. */
	m->in_ctx = ctx;
}

void mem__event(struct mem *m, struct trace_event *ev)
{
	const struct block_facts *block;
	enum block_kind kind;
	uint64_t ipc;
	int makes;

	if (ev->result || !event_returned(ev))
		return;
	if (ev->fn->op == OP_MAP || ev->fn->op == OP_IMPORT)
		mem__learn(m, ev);
	else if (ev->fn->op == OP_UNMAP && (ev->has & HAS_PTR) && (ev->has & HAS_SIZE))
		unmap(m, ev->ptr, ev->size);
	else if (ev->fn->op == OP_RELEASE && event_arg_u64(ev, "dptr", &ipc))
		unmap(m, ipc, 1);
	makes = call_makes(ev, &kind);
	block = &block_facts[kind];
	/* Pools and physical memory belong to the device. */
	on_context(m, ev, makes <= 0 || block->in_context);
	if (makes && block->counted == MEM_NONE)
		makes = 0;
	if (makes > 0)
		make(m, ev, block);
	else if (makes < 0)
		release(m, ev, block);
	if (ev->has_mem)
		mem__totals(m, &ev->mem);
}
