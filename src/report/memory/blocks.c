/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Live blocks, for other analyses. */
#include "memory_priv.h"

static struct mem_proc *proc_of(const struct report *r, uint32_t pid)
{
	struct memory *m = r->an[AN_MEMORY];

	return m ? mem_proc_table__find(&m->procs, &pid) : NULL;
}

static struct memory_block block_of(const struct mem_block *b)
{
	const struct mem_block *phys = b->phys ?: b;

	return (struct memory_block){.ptr = b->key,
				     .size = b->size,
				     .id = phys->id,
				     .start_ns = phys->start_ns,
				     .call = phys->call,
				     .stack = phys->stack,
				     .device = phys->dev ? phys->dev->device : -1,
				     .on_gpu = on_gpu(phys->kind),
				     .size_known = b->size_known || b->space == SPACE_MAPPED};
}

void memory_each_block(const struct report *r, uint32_t pid,
		       void (*fn)(void *ctx, const struct memory_block *b), void *ctx)
{
	struct mem_proc *p = proc_of(r, pid);

	for (unsigned space = 0; p && space < SPACE_CNT; space++) {
		if (space != SPACE_ADDR && space != SPACE_MAPPED)
			continue;
		hash_each (b, &p->blocks[space]) {
			struct memory_block block = block_of(b);

			fn(ctx, &block);
		}
	}
}

bool memory_block_around(const struct report *r, uint32_t pid, uint64_t addr,
			 struct memory_block *b)
{
	struct mem_proc *p = proc_of(r, pid);
	const struct mem_block *found = p ? memory__around(p, addr) : NULL;

	if (found)
		*b = block_of(found);
	return found;
}

bool memory_is_whole(const struct report *r, uint32_t pid)
{
	struct mem_proc *p = proc_of(r, pid);

	return p && p->ledger.ctx.from_start;
}

int memory_device(const struct report *r, const struct trace_event *ev)
{
	struct mem_proc *p = proc_of(r, ev->pid);

	return p ? memory__device_of(p, memory__current(p, ev->tid)) : -1;
}
