/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Live blocks: adding, finding, freeing. */
#include "memory_priv.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "decode/api_values.h"
#include "util/law.h"

struct mem_proc *memory__proc(struct memory *m, uint32_t pid)
{
	struct mem_proc *p = m->last_proc;

	if (p && p->pid == pid)
		return p;
	p = mem_proc_table__find(&m->procs, &pid);
	if (!p) {
		if (hash_cnt(&m->procs) == PROCS_MAX)
			memlimit_reject(MEMLIMIT_PROCESSES);
		else
			p = memlimit_new(MEMLIMIT_PROCESSES, sizeof(*p));
		if (!p)
			return NULL;
		p->pid = pid;
		p->generation = ++m->lives;
		p->ledger.quota = p->ledger.ctx.quota = memlimit_quota(QUOTA_RANGES);
		if (mem_proc_table__add(&m->procs, p)) {
			memlimit_reject(MEMLIMIT_PROCESSES);
			memlimit_free(p);
			return NULL;
		}
	}
	m->last_proc = p;
	return p;
}

struct mem_block *block_at(const struct mem_proc *p, enum block_space space, uint64_t key)
{
	return mem_block_table__find(&p->blocks[space], &key);
}

/* Lookups may use an address in the middle of a block. Live blocks do not overlap, so "overlaps"
 * means "equal". */
static bool in_tree(const struct mem_block *b)
{
	return b->space == SPACE_ADDR || b->space == SPACE_MAPPED;
}

static int cmp_addr(const void *a, const void *b)
{
	const struct mem_block *x = a, *y = b;

	if (x->key + (x->size ? x->size - 1 : 0) < y->key)
		return -1;
	return x->key > y->key + (y->size ? y->size - 1 : 0) ? 1 : 0;
}

static bool is_gpu_range(const struct mem_block *b)
{
	return b->space == SPACE_MAPPED || (b->space == SPACE_ADDR && on_gpu(b->kind));
}

/* Adds a block to the live sums. */
static void charge(struct memory *m, struct mem_block *b, uint64_t ns)
{
	struct kind_stat *k = &m->kinds[b->kind];

	mem_time__advance(&m->time, m, ns);
	b->counted = true;
	k->live += b->size;
	if (k->live > k->peak) {
		k->peak = k->live;
		k->peak_ns = ns;
	}
	mem_time__max(&m->time, b->kind, k->live);
	if (!on_gpu(b->kind) || !b->dev)
		return;
	m->device_bytes += b->size;
	if (m->device_bytes > m->device_peak) {
		m->device_peak = m->device_bytes;
		m->device_peak_ns = ns;
	}
	b->dev->live += b->size;
	if (b->dev->live > b->dev->peak) {
		b->dev->peak = b->dev->live;
		b->dev->peak_ns = ns;
	}
}

static void discharge(struct memory *m, struct mem_block *b, uint64_t ns)
{
	if (!b->counted)
		return;
	mem_time__advance(&m->time, m, ns);
	law(m->kinds[b->kind].live >= b->size);
	m->kinds[b->kind].live -= b->size;
	b->counted = false;
	if (!on_gpu(b->kind) || !b->dev)
		return;
	law(m->device_bytes >= b->size && b->dev->live >= b->size);
	m->device_bytes -= b->size;
	b->dev->live -= b->size;
}

/* Returns false, and counts it, if memory is out. */
static bool put_in(struct memory *m, struct mem_proc *p, struct mem_block *b)
{
	struct mem_block **node;

	if (mem_block_table__add(&p->blocks[b->space], b)) {
		m->rejected_cnt++;
		memlimit_reject(MEMLIMIT_ALLOCATIONS);
		return false;
	}
	m->block_cnt++;
	p->block_cnt++;
	p->gpu_range_cnt += is_gpu_range(b);
	/* Overlapping blocks were freed unseen. */
	while (in_tree(b) && (node = tsearch(b, &p->tree, cmp_addr)) && *node != b)
		memory__lost(m, p, *node, b->born_ns);
	return true;
}

static void take_out(struct memory *m, struct mem_proc *p, struct mem_block *b)
{
	m->block_cnt--;
	p->block_cnt--;
	mem_block_table__del(&p->blocks[b->space], b);
	p->gpu_range_cnt -= is_gpu_range(b);
	if (in_tree(b))
		tdelete(b, &p->tree, cmp_addr);
}

void block__drop(struct memory *m, struct mem_proc *p, struct mem_block *b, uint64_t ns)
{
	take_out(m, p, b);
	if (b->maps) {
		/* Released, but still mapped: the last unmapping frees the memory. */
		b->refs = 0;
		return;
	}
	discharge(m, b, ns);
	memlimit_free(b);
}

/* Call it before a free: the process may have its highest number of ranges now. */
static void before_free(struct memory *m, struct mem_proc *p, uint64_t ns)
{
	if (p->gpu_range_cnt > p->snap_cnt + p->snap_cnt / 8)
		memory__snapshot(m, p, ns);
}

static void count_alloc(struct memory *m, const struct mem_block *b, int sign)
{
	struct kind_stat *k = &m->kinds[b->kind];
	unsigned below = b->size ? 64 - __builtin_clzll(b->size) : 0;

	k->allocs += sign;
	k->alloc_bytes += sign * b->size;
	k->alloc_ns += sign * (b->born_ns - b->start_ns);
	if (b->kind == BLOCK_RESERVED)
		return;
	m->alloc_cnt += sign;
	mem_time__alloc(&m->time, sign);
	if (!b->size_known)
		return;
	m->sizes[below].cnt += sign;
	m->sizes[below].bytes += sign * b->size;
}

/* Removes the block in b's place: that of the inner call of the same allocation, or one that was
 * freed, unseen or by a thread whose record comes later. */
static void make_room(struct memory *m, struct mem_proc *p, const struct mem_block *b)
{
	struct mem_block *old = block_at(p, b->space, b->key);

	if (old && old->parent_id && old->parent_id == b->id)
		count_alloc(m, old, -1);
	else if (old)
		m->unseen_free_cnt++;
	if (old)
		block__drop(m, p, old, b->born_ns);
}

struct mem_block *memory__add(struct memory *m, struct mem_proc *p, const struct mem_block *tmpl)
{
	struct mem_block *b;

	/* Replacing a block does not raise the count. */
	if (!memlimit_leaves(p->block_cnt, 1, m->block_cnt, MEMLIMIT_ALLOCATIONS_MAX) &&
	    !block_at(p, tmpl->space, tmpl->key)) {
		m->rejected_cnt++;
		memlimit_reject(MEMLIMIT_ALLOCATIONS);
		return NULL;
	}
	b = memlimit_new(MEMLIMIT_ALLOCATIONS, sizeof(*b));
	if (!b)
		return NULL;
	*b = *tmpl;
	/* The target's values are not trusted: clip the block at the end of the address space. */
	if (b->space != SPACE_HANDLE && b->size > UINT64_MAX - b->key)
		b->size = UINT64_MAX - b->key;
	mem_time__advance(&m->time, m, b->born_ns);
	make_room(m, p, b);
	if (!put_in(m, p, b)) {
		memlimit_free(b);
		return NULL;
	}
	if (b->space == SPACE_MAPPED)
		return b;
	count_alloc(m, b, 1);
	charge(m, b, b->born_ns);
	return b;
}

bool memory__again(struct memory *m, struct mem_proc *p, const struct mem_block *b)
{
	struct mem_block *old = block_at(p, b->space, b->key);

	if (!old || old->kind != BLOCK_IPC || b->kind != BLOCK_IPC)
		return false;
	/* Do not count the outer call of a counted one. */
	if (!old->parent_id || old->parent_id != b->id) {
		old->refs++;
		m->kinds[BLOCK_IPC].allocs++;
		m->kinds[BLOCK_IPC].alloc_ns += b->born_ns - b->start_ns;
	}
	old->parent_id = b->parent_id;
	return true;
}

static struct free_record *freed_slot(struct memory *m, const struct mem_proc *p, uint64_t key)
{
	uint64_t h = (key ^ (uint64_t)p->generation << 48) * 0x9e3779b97f4a7c15ull;

	return &m->freed[h >> (64 - FREED_BITS)];
}

static const struct free_record *freed_at(struct memory *m, const struct mem_proc *p,
					  enum block_space space, uint64_t key)
{
	const struct free_record *f = freed_slot(m, p, key);

	return f->generation == p->generation && f->key == key && f->space == space ? f : NULL;
}

static void count_free(struct memory *m, enum block_kind kind, const struct trace_event *ev)
{
	m->kinds[kind].frees++;
	m->kinds[kind].free_ns += event_duration_ns(ev);
}

void memory__free_at(struct memory *m, struct mem_proc *p, enum block_space space, uint64_t key,
		     const struct trace_event *ev)
{
	const struct free_record *f = freed_at(m, p, space, key);
	struct mem_block *b;

	before_free(m, p, ev->start_ns);
	b = block_at(p, space, key);
	/* The inner call of this one freed it. */
	if (f && f->parent_id && f->parent_id == ev->id)
		return;
	/* A free cannot precede its allocation, so this is the late record of an older block. That
	 * block was replaced by the one that is here, or that has been freed since. */
	if (b ? ev->start_ns < b->born_ns : f && m->unseen_free_cnt && ev->start_ns < f->start_ns) {
		m->late_free_cnt++;
		m->unseen_free_cnt -= m->unseen_free_cnt > 0;
		count_free(m, b ? b->kind : f->kind, ev);
		return;
	}
	*freed_slot(m, p, key) = (struct free_record){.key = key,
						      .start_ns = ev->start_ns,
						      .parent_id = ev->parent_id,
						      .generation = p->generation,
						      .space = space,
						      .kind = b ? b->kind : BLOCK_DEVICE};
	if (!b) {
		m->unmatched_free_cnt++;
		return;
	}
	count_free(m, b->kind, ev);
	if (b->refs > 1) {
		b->refs--;
		return;
	}
	block__drop(m, p, b, ev->end_ns);
}

void memory__map(struct memory *m, struct mem_proc *p, const struct trace_event *ev, uint64_t addr,
		 uint64_t size, uint64_t handle)
{
	struct mem_block *phys = block_at(p, SPACE_HANDLE, handle), *b;

	memory__unmap(m, p, ev, addr, 1);
	b = memory__add(m, p,
			&(struct mem_block){.key = addr,
					    .size = size,
					    .id = ev->id,
					    .start_ns = ev->start_ns,
					    .born_ns = ev->end_ns,
					    .call = ev->name,
					    .kind = BLOCK_VMM,
					    .space = SPACE_MAPPED});
	if (!b || !phys)
		return;
	b->phys = phys;
	phys->maps++;
}

void memory__unmap_block(struct memory *m, struct mem_proc *p, struct mem_block *b, uint64_t ns)
{
	struct mem_block *phys = b->phys;

	block__drop(m, p, b, ns);
	if (!phys || --phys->maps || phys->refs)
		return;
	discharge(m, phys, ns);
	memlimit_free(phys);
}

void memory__unmap(struct memory *m, struct mem_proc *p, const struct trace_event *ev,
		   uint64_t addr, uint64_t size)
{
	uint64_t step;
	struct mem_block *b;

	before_free(m, p, ev->start_ns);
	/* One call may unmap several consecutive mappings. */
	while (size && (b = block_at(p, SPACE_MAPPED, addr))) {
		step = b->size < size ? b->size : size;
		memory__unmap_block(m, p, b, ev->end_ns);
		if (!step)
			return;
		addr += step;
		size -= step;
	}
}

void memory__revive(struct memory *m, struct mem_proc *p, struct mem_block *phys, uint64_t handle)
{
	phys->key = handle;
	phys->refs = put_in(m, p, phys);
}

void memory__lost(struct memory *m, struct mem_proc *p, struct mem_block *b, uint64_t ns)
{
	m->unseen_free_cnt++;
	if (b->space == SPACE_MAPPED)
		memory__unmap_block(m, p, b, ns);
	else
		block__drop(m, p, b, ns);
}

/* The live block with the address in it, but not at its start. Used only after an error. */
static const struct mem_block *block_around(const struct mem_proc *p, uint64_t addr)
{
	hash_each (b, &p->blocks[SPACE_ADDR])
		if (addr > b->key && addr - b->key < b->size)
			return b;
	return NULL;
}

/* Returns whether the pointer is the cause of a failed free. */
static bool blames_pointer(int32_t result)
{
	return result == CUDA_ERROR_INVALID_VALUE || result == CUDA_ERROR_INVALID_HANDLE ||
	       result == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

void memory__bad_free(struct memory *m, struct mem_proc *p, enum block_space space, uint64_t key,
		      const struct trace_event *ev)
{
	const struct bad_free *last = &m->bad_frees[m->bad_free_list_cnt];
	struct mem_block *b = block_at(p, space, key);
	const struct mem_block *around;
	const struct free_record *f = freed_at(m, p, space, key);
	struct bad_free bad = {.what = BAD_UNKNOWN,
			       .ptr = key,
			       .start_ns = ev->start_ns,
			       .id = ev->id,
			       .parent_id = ev->parent_id,
			       .call = ev->name,
			       .pid = p->pid,
			       .error = ev->result,
			       .confidence = p->ledger.ctx.from_start ? 0.9 : 0.5};

	if (b && ev->result == CUDA_ERROR_DEINITIALIZED)
		b->too_late = true;
	if (!blames_pointer(ev->result))
		return;
	if (!memlimit_has(&m->bad_free_rows, 1, BAD_FREES_MAX)) {
		m->bad_free_cnt++;
		return;
	}
	/* Skip the outer call of a failed one. */
	if (m->bad_free_list_cnt && last[-1].parent_id && last[-1].parent_id == ev->id)
		return;
	around = space == SPACE_ADDR ? block_around(p, key) : NULL;
	if (b) {
		bad.what = BAD_FUNCTION;
		bad.confidence = 0.9;
	} else if (f) {
		bad.what = BAD_DOUBLE;
		bad.freed_ns = f->start_ns;
		bad.confidence = 1;
	} else if (around) {
		bad.inside = around->key;
		bad.confidence = 1;
	}
	m->bad_free_cnt++;
	if (memlimit_charge(&m->bad_free_rows, 1, BAD_FREES_MAX, MEMLIMIT_ALLOCATIONS))
		m->bad_frees[m->bad_free_list_cnt++] = bad;
}

struct mem_block *memory__around(const struct mem_proc *p, uint64_t addr)
{
	struct mem_block key = {.key = addr, .size = 1}, **node = tfind(&key, &p->tree, cmp_addr);

	return node ? *node : NULL;
}

enum host_place memory_host_place(const struct report *r, uint32_t pid, uint64_t addr)
{
	struct memory *m = r->an[AN_MEMORY];
	struct mem_proc *p = m ? memory__proc(m, pid) : NULL;
	const struct mem_block *b;

	if (!p)
		return HOST_UNKNOWN;
	b = memory__around(p, addr);
	if (!b)
		return p->ledger.ctx.from_start ? HOST_PAGEABLE : HOST_UNKNOWN;
	b = b->phys ?: b;
	if (b->kind == BLOCK_MANAGED)
		return HOST_MANAGED;
	if (b->kind == BLOCK_HOST || b->kind == BLOCK_REGISTERED)
		return HOST_PINNED;
	return HOST_UNKNOWN; /* memory of a device */
}
