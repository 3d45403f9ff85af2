/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "mem.h"

#include "call.h"
#include "event_path.h"
#include "util/law.h"

#include <stdlib.h>
#include <string.h>

static void less(struct mem *m, enum mem_kind kind, uint64_t bytes)
{
	law(m->bytes[kind] >= bytes);
	m->bytes[kind] -= bytes;
}

static void mem_gone(struct ledger *l, struct block *b, uint64_t ns)
{
	struct mem *m = (struct mem *)l;

	if (block_desc[b->kind].counted != MEM_NONE)
		less(m, block_desc[b->kind].counted, b->size);
	free(b);
	quota__give(m->ledger.quota, &m->ledger.share, 1);
}

/* The free was not recorded, or its record arrives later from another thread. */
static void mem_lost(struct ledger *l, struct block *b, const struct block *by)
{
	struct mem *m = (struct mem *)l;

	if (b->space == SPACE_MAPPED)
		return;
	m->superseded_cnt++;
	if (by->born_ns > m->superseded_ns)
		m->superseded_ns = by->born_ns;
}

static const struct ledger_ops mem_ops = {mem_gone, mem_lost};

static struct ledger *ledger_of(struct mem *m)
{
	m->ledger.ops = &mem_ops;
	m->ledger.ctx.quota = m->ledger.quota;
	return &m->ledger;
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
	less(m, kind, bytes);
	return true;
}

static struct block *block_new(struct mem *m, const struct block *key)
{
	struct block *b;

	if (!quota__take(m->ledger.quota, &m->ledger.share, 1))
		return NULL;
	b = malloc(sizeof(*b));
	if (b)
		*b = *key;
	else
		quota__give(m->ledger.quota, &m->ledger.share, 1);
	return b;
}

static void forget(struct mem *m, struct block *b)
{
	free(b);
	quota__give(m->ledger.quota, &m->ledger.share, 1);
}

void mem__add(struct mem *m, const struct block *key)
{
	enum mem_kind counted = block_desc[key->kind].counted;
	struct ledger *l = ledger_of(m);
	struct block *b;

	if (ledger__again(l, key))
		return;
	ledger__evict(l, key);
	b = block_new(m, key);
	if (b && !ledger__put(l, b)) {
		forget(m, b);
		b = NULL;
	}
	if (counted == MEM_NONE)
		return;
	if (b)
		m->bytes[counted] += key->size;
	else
		add_loose(m, counted, key->size);
}

bool mem__free(struct mem *m, enum block_space space, uint64_t key, uint64_t start_ns,
	       struct block *was)
{
	struct ledger *l = ledger_of(m);
	struct block *b = ledger__at(l, space, key);

	/* A free that began before this block existed is the late record of an older block, which
	 * is gone already. */
	if (!b || start_ns < b->born_ns)
		return false;
	*was = *b;
	ledger__release(l, b, start_ns);
	return true;
}

/* Remembers the address of device memory that another process owns, or that is counted by its
 * handle. */
static void learn(struct mem *m, uint64_t addr, uint64_t size, uint64_t end_ns)
{
	mem__add(m, &(struct block){.key = addr,
				    .size = size,
				    .born_ns = end_ns,
				    .refs = 1,
				    .kind = BLOCK_IPC,
				    .space = SPACE_ADDR});
}

void mem__learn(struct mem *m, const struct trace_event *ev)
{
	/* Without a size, only the address itself is known. */
	static const struct {
		const char *name, *addr, *size;
	} sources[] = {
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
		event_path_u64(ev, sources[i].size, &size);
		learn(m, addr, size, ev->end_ns);
		return;
	}
}

int mem__kind_at(const struct mem *m, uint64_t addr)
{
	const struct block *b = ledger__around(&m->ledger, addr);

	if (!b)
		return -1;
	/* Mapped memory of unknown origin is device memory. */
	if (b->space == SPACE_MAPPED)
		return b->phys ? block_desc[b->phys->kind].counted : MEM_NONE;
	return block_desc[b->kind].counted;
}

const struct mem_freed *mem__freed_at(const struct mem *m, uint64_t addr)
{
	unsigned cnt = m->freed_cnt < MEM_FREED_MAX ? m->freed_cnt : MEM_FREED_MAX;

	for (unsigned i = 1; i <= cnt; i++) {
		const struct mem_freed *f = &m->freed[(m->freed_cnt - i) % MEM_FREED_MAX];

		if (addr - f->ptr < (f->size ?: 1))
			return f;
	}
	return NULL;
}

static void context_gone(struct mem *m, uint64_t ctx, uint64_t ns)
{
	ledger__context_gone(&m->ledger, ctx, ns, NULL);
	/* After the last context no memory is left. */
	for (int k = 0; k < MEM_KIND_CNT && hash_cnt(&m->ledger.ctx.by_handle) <= 1; k++) {
		less(m, k, m->loose[k].bytes);
		m->loose[k].cnt = m->loose[k].bytes = 0;
	}
}

void mem__totals(const struct mem *m, struct mem_totals *out)
{
	memcpy(out->bytes, m->bytes, sizeof(out->bytes));
}

void mem__clear(struct mem *m)
{
	ledger__clear(ledger_of(m), 0, NULL);
	memset(m->bytes, 0, sizeof(m->bytes));
	memset(m->loose, 0, sizeof(m->loose));
	m->superseded_cnt = m->superseded_ns = m->freed_cnt = 0;
	if (m->freed)
		quota__give(m->ledger.quota, &m->ledger.share, MEM_FREED_ROWS);
	free(m->freed);
	m->freed = NULL;
}

static void make(struct mem *m, struct trace_event *ev, const struct mem_act *a)
{
	bool is_counted = block_desc[a->kind].counted != MEM_NONE;

	/* Reserved addresses have no memory. */
	if (!a->has_key || a->kind == BLOCK_RESERVED || (is_counted && !a->has_size))
		return;
	mem__add(m, &(struct block){.key = a->key,
				    .size = a->size,
				    .born_ns = ev->end_ns,
				    .ctx = is_counted ? ledger__home(&m->ledger, ev, a) : 0,
				    .refs = 1,
				    .kind = a->kind,
				    .space = a->space});
	ev->made = a->kind + 1;
	ev->has_mem = is_counted;
}

static bool release_loose(struct mem *m, const struct trace_event *ev, enum block_kind kind)
{
	enum mem_kind counted = block_desc[kind].counted;

	/* cuMemFree(0) does nothing. */
	if (!ev->ptr || counted == MEM_NONE)
		return false;
	/* The late record of a free of a block that was removed already. */
	if (m->superseded_cnt && ev->start_ns < m->superseded_ns) {
		m->superseded_cnt--;
		return false;
	}
	if (counted == MEM_HOST)
		return drop_loose(m, MEM_HOST);
	return drop_loose(m, MEM_DEVICE) || drop_loose(m, MEM_MANAGED);
}

static void remember(struct mem *m, const struct block *was, uint64_t id)
{
	if (!m->freed && quota__take(m->ledger.quota, &m->ledger.share, MEM_FREED_ROWS)) {
		m->freed = malloc(MEM_FREED_MAX * sizeof(*m->freed));
		if (!m->freed)
			quota__give(m->ledger.quota, &m->ledger.share, MEM_FREED_ROWS);
	}
	if (m->freed)
		m->freed[m->freed_cnt++ % MEM_FREED_MAX] =
			(struct mem_freed){was->key, was->size, id};
}

static void release(struct mem *m, struct trace_event *ev, const struct mem_act *a)
{
	struct block was;

	if (!a->has_key)
		return;
	if (!mem__free(m, a->space, a->key, ev->start_ns, &was)) {
		/* Older than the trace, so its size is not known. */
		if (a->space == SPACE_ADDR && a->key && m->keeps_freed)
			remember(m, &(struct block){.key = a->key}, ev->id);
		ev->has_mem = release_loose(m, ev, a->kind);
		return;
	}
	if (was.space == SPACE_ADDR && m->keeps_freed)
		remember(m, &was, ev->id);
	if (block_desc[was.kind].counted == MEM_NONE)
		return;
	ev->size = was.size;
	ev->has |= HAS_SIZE;
	ev->has_mem = true;
}

static void map(struct mem *m, const struct trace_event *ev, const struct mem_act *a)
{
	uint64_t handle = 0;
	struct block *b;

	b = block_new(m, &(struct block){.key = a->key,
					 .size = a->size,
					 .born_ns = ev->end_ns,
					 .refs = 1,
					 .kind = BLOCK_RESERVED,
					 .space = SPACE_MAPPED});
	event_arg_u64(ev, "handle", &handle);
	if (b && !ledger__map(&m->ledger, b, handle))
		forget(m, b);
}

static void act(struct mem *m, struct trace_event *ev, const struct mem_act *a)
{
	bool is_range = a->has_key && a->has_size;
	uint64_t addr = 0;

	switch (a->what) {
	case MEM_NOTHING:
		break;
	case MEM_MAKES:
		make(m, ev, a);
		break;
	case MEM_FREES:
		release(m, ev, a);
		break;
	case MEM_MAPS:
		if (is_range)
			map(m, ev, a);
		break;
	case MEM_UNMAPS:
		if (is_range)
			ledger__unmap(&m->ledger, a->key, a->size, ev->end_ns);
		ev->has_mem = is_range;
		break;
	case MEM_RETAINS:
		event_arg_u64(ev, "addr", &addr);
		if (a->has_key)
			ledger__retain(&m->ledger, a->key, addr);
		break;
	case MEM_POOLS:
		ledger__pool(&m->ledger, ev);
		break;
	}
}

void mem__event(struct mem *m, struct trace_event *ev)
{
	struct ledger *l = ledger_of(m);
	bool unknown = false;
	struct mem_act a;
	uint64_t ended;

	if (ev->result || !event_returned(ev))
		return;
	/* A graph node: the memory is allocated at this address when the graph runs. */
	if (ev->capturing) {
		if (ev->fn->op == OP_ALLOC_ASYNC && (ev->has & HAS_PTR))
			learn(m, ev->ptr, ev->has & HAS_SIZE ? ev->size : 0, ev->end_ns);
		return;
	}
	ended = contexts__event(&l->ctx, ev, &unknown);
	if (ended) {
		context_gone(m, ended, ev->end_ns);
		ev->has_mem = true;
	}
	if (ev->fn->class == CLASS_MEMORY) {
		ledger__read(l, ev, &a);
		act(m, ev, &a);
	}
	if (ev->has_mem)
		mem__totals(m, &ev->mem);
}
