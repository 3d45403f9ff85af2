/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Leaks: memory that was released with its context, process or program, without a free. */
#include "memory_priv.h"

#include <search.h>
#include <stdlib.h>

/* Keeps the largest leaks. */
static void list_leak(struct memory *m, const struct leak *l)
{
	unsigned min = 0;

	if (m->leak_list_cnt < LEAKS_MAX) {
		m->leaks[m->leak_list_cnt++] = *l;
		return;
	}
	for (unsigned i = 1; i < LEAKS_MAX; i++)
		if (m->leaks[i].size < m->leaks[min].size)
			min = i;
	if (m->leaks[min].size < l->size)
		m->leaks[min] = *l;
}

static void leak(struct memory *m, const struct mem_proc *p, const struct mem_block *b,
		 enum leak_end end)
{
	struct leak l = {.ptr = b->key,
			 .size = b->size,
			 .start_ns = b->start_ns,
			 .id = b->id,
			 .call = b->call,
			 .stack = b->stack,
			 .pid = p->pid,
			 .device = b->dev ? b->dev->device : -1,
			 .kind = b->kind,
			 .end = end,
			 .size_known = b->size_known};

	/* Addresses without memory, and memory of other processes. */
	if (b->kind == BLOCK_RESERVED || b->kind == BLOCK_IPC)
		return;
	if (b->too_late) {
		m->too_late_cnt++;
		return;
	}
	m->kinds[b->kind].leaks++;
	m->leak_cnt++;
	m->leak_bytes += b->size;
	m->leak_ends[end].cnt++;
	m->leak_ends[end].bytes += b->size;
	list_leak(m, &l);
}

void memory__context_gone(struct memory *m, struct mem_proc *p, uint64_t ctx, uint64_t ns)
{
	if (p->gpu_range_cnt > p->snap_cnt)
		memory__snapshot(m, p, ns);
	for (unsigned s = 0; s < SPACE_CNT; s++) {
		hash_each (b, &p->blocks[s]) {
			if (b->ctx != ctx)
				continue;
			leak(m, p, b, LEAK_CONTEXT);
			block__drop(m, p, b, ns);
		}
	}
}

static void keep(struct memory *m, struct mem_block *b)
{
	m->kinds[b->kind].kept += b->size;
	if (b->dev && on_gpu(b->kind))
		b->dev->kept += b->size;
}

static void clear_blocks(struct memory *m, struct mem_proc *p, enum leak_end end, uint64_t ns)
{
	/* Mappings first: a mapping may be the last reference to the memory. */
	hash_each (b, &p->blocks[SPACE_MAPPED]) {
		struct mem_block *phys = b->phys;

		if (phys && !phys->refs && phys->maps == 1) {
			leak(m, p, phys, end);
			keep(m, phys);
		}
		memory__unmap_block(m, p, b, ns);
	}
	for (unsigned s = 0; s < SPACE_CNT; s++) {
		hash_each (b, &p->blocks[s]) {
			leak(m, p, b, end);
			keep(m, b);
			block__drop(m, p, b, ns);
		}
	}
}

void memory__proc_gone(struct memory *m, struct mem_proc *p, enum leak_end end, uint64_t ns)
{
	if (p->gpu_range_cnt > p->snap_cnt)
		memory__snapshot(m, p, ns);
	clear_blocks(m, p, end, ns);
	ledger__clear(&p->ledger, ns, NULL);
	p->devs = NULL;
	p->snap_cnt = 0;
	p->generation = ++m->lives;
}

void memory__proc_free(struct memory *m, struct mem_proc *p)
{
	mem_proc_table__del(&m->procs, p);
	if (m->last_proc == p)
		m->last_proc = NULL;
	memlimit_free(p);
}

void memory_result(const struct report *r, struct memory_result *res)
{
	const struct memory *m = r->an[AN_MEMORY];

	*res = (struct memory_result){0};
	if (!m)
		return;
	for (int i = 0; i < BLOCK_KIND_CNT; i++)
		if (m->kinds[i].leaks || !m->leak_cnt)
			res->frees += m->kinds[i].frees;
	res->device_peak = m->device_peak;
	res->leak_cnt = m->leak_cnt;
	res->leak_bytes = m->leak_bytes;
	res->left_behind_cnt = m->leak_ends[LEAK_EXEC].cnt + m->leak_ends[LEAK_CONTEXT].cnt;
}

uint64_t memory_peak_of_process(const struct report *r, uint32_t pid)
{
	const struct memory *m = r->an[AN_MEMORY];
	uint64_t most = 0;

	for (unsigned i = 0; m && i < m->dev_row_cnt; i++)
		if (m->dev_rows[i]->pid == pid && m->dev_rows[i]->peak > most)
			most = m->dev_rows[i]->peak;
	return most;
}
