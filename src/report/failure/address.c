/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Memory at the address of a fault, or nearest to it. */
#include "failure_priv.h"

#include "model/call.h"

#define NULL_PAGE 65536

const char *const memory_state_name[] = {"unknown",  "null",   "live", "freed",
					 "past-end", "before", "never"};

/* Remembers what a call frees. The ledger of the memory analysis receives the call later. */
void address_event(struct failure *f, const struct trace_event *ev)
{
	struct memory_block b;
	enum block_kind kind;
	bool frees = call_makes(ev, &kind) < 0 || ev->fn->op == OP_UNMAP;

	if (!frees || !(ev->has & HAS_PTR) || !memory_block_around(f->r, ev->pid, ev->ptr, &b))
		return;
	if (!f->freed)
		f->freed = memlimit_new(MEMLIMIT_INFLIGHT, FREED_MAX * sizeof(*f->freed));
	if (!f->freed)
		return;
	f->freed[f->freed_cnt++ % FREED_MAX] = (struct freed_block){.b = b,
								    .pid = ev->pid,
								    .tid = ev->tid,
								    .freed_ns = ev->start_ns,
								    .freed_id = ev->id,
								    .freed_call = ev->name,
								    .freed_stack = ev->stack};
}

static const struct freed_block *freed_around(const struct failure *f, uint32_t pid, uint64_t addr)
{
	uint64_t first = f->freed_cnt > FREED_MAX ? f->freed_cnt - FREED_MAX : 0;

	for (uint64_t i = f->freed_cnt; i > first; i--) {
		const struct freed_block *x = &f->freed[(i - 1) % FREED_MAX];

		if (x->pid == pid && addr >= x->b.ptr && addr - x->b.ptr < x->b.size)
			return x;
	}
	return NULL;
}

const struct freed_block *address_freed_by(const struct failure *f, uint32_t pid, uint64_t id)
{
	uint64_t cnt = f->freed_cnt < FREED_MAX ? f->freed_cnt : FREED_MAX;

	for (uint64_t i = 0; i < cnt; i++)
		if (f->freed[i].pid == pid && f->freed[i].freed_id == id)
			return &f->freed[i];
	return NULL;
}

struct nearest {
	uint64_t addr, distance;
	bool any;
	struct fail_memory *m;
};

static void keep_nearest(void *ctx, const struct memory_block *b)
{
	struct nearest *n = ctx;
	bool past = b->ptr <= n->addr;
	/* The address is in no block. The access is N bytes behind the last byte. */
	uint64_t distance = past ? n->addr - b->ptr - b->size : b->ptr - n->addr;

	if (!b->on_gpu || !b->size_known || (n->any && distance >= n->distance))
		return;
	n->any = true;
	n->distance = distance;
	*n->m = (struct fail_memory){.state = past ? MEMORY_PAST_END : MEMORY_BEFORE,
				     .offset = distance,
				     .block = {.b = *b}};
}

void address_find(struct failure *f, struct fail_case *c)
{
	uint64_t addr = c->xid.address;
	const struct freed_block *freed;
	struct nearest n = {addr, 0, false, &c->mem};
	struct memory_block b;

	c->mem = (struct fail_memory){.state = MEMORY_UNKNOWN};
	if (addr < NULL_PAGE) {
		c->mem.state = MEMORY_NULL;
		return;
	}
	if (memory_block_around(f->r, c->pid, addr, &b)) {
		c->mem = (struct fail_memory){MEMORY_LIVE, addr - b.ptr, {.b = b}};
		return;
	}
	freed = freed_around(f, c->pid, addr);
	if (freed) {
		c->mem = (struct fail_memory){MEMORY_FREED, addr - freed->b.ptr, *freed};
		return;
	}
	memory_each_block(f->r, c->pid, keep_nearest, &n);
	if (!n.any && memory_is_whole(f->r, c->pid))
		c->mem.state = MEMORY_NEVER;
}
