/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Contexts: the current one of each thread, and the device on which a call allocates. */
#include "memory_priv.h"

#include <stdlib.h>
#include <string.h>

uint64_t memory__current(struct mem_proc *p, uint32_t tid)
{
	return contexts__current(&p->ledger.ctx, tid);
}

uint64_t memory_context(const struct report *r, const struct trace_event *ev)
{
	struct memory *m = r->an[AN_MEMORY];
	struct mem_proc *p = m ? memory__proc(m, ev->pid) : NULL;
	uint64_t ctx;

	if (!p)
		return CONTEXT_UNKNOWN;
	/* cuCtxSynchronize_v2, of CUDA 13 */
	if (ev->fn->class == CLASS_SYNC && event_arg_u64(ev, "ctx", &ctx) && ctx)
		return ctx;
	ctx = contexts__current(&p->ledger.ctx, ev->tid) ?: contexts__only(&p->ledger.ctx);
	return ctx || !p->ledger.ctx.by_handle.first ? ctx : CONTEXT_UNKNOWN;
}

uint64_t memory_ended_context(const struct report *r, const struct trace_event *ev)
{
	struct memory *m = r->an[AN_MEMORY];
	struct mem_proc *p = m && ev->fn->class == CLASS_CONTEXT ? memory__proc(m, ev->pid) : NULL;

	return p ? contexts__ended_by(&p->ledger.ctx, ev) : 0;
}

int memory__device_of(const struct mem_proc *p, uint64_t ctx)
{
	const struct context *c =
		ctx ? contexts__find(&p->ledger.ctx, ctx) : p->ledger.ctx.by_handle.first;
	int device = c ? c->device : -1;

	if (ctx)
		return device;
	/* The thread's context was set by an untraced call: the device is certain only if all
	 * contexts are on one device. */
	if (!p->ledger.ctx.from_start)
		return -1;
	hash_each (other, &p->ledger.ctx.by_handle)
		if (other->device != device)
			return -1;
	return device;
}

struct dev_row *memory__dev_row(struct memory *m, struct mem_proc *p, int device)
{
	struct dev_row *d;

	for (d = p->devs; d; d = d->next)
		if (d->device == device)
			return d;
	if (!memlimit_charge(&m->dev_row_rows, 1, MEMLIMIT_DEVICES_MAX, MEMLIMIT_DEVICES))
		return &m->other_dev;
	d = memlimit_new(MEMLIMIT_DEVICES, sizeof(*d));
	if (!d) {
		memlimit_uncharge(&m->dev_row_rows, NULL, 1);
		return &m->other_dev;
	}
	*d = (struct dev_row){.device = device, .pid = p->pid, .next = p->devs};
	p->devs = m->dev_rows[m->dev_row_cnt++] = d;
	return d;
}

void memory__context_event(struct memory *m, struct mem_proc *p, const struct trace_event *ev)
{
	uint64_t ended = contexts__event(&p->ledger.ctx, ev, &m->reset_unknown);

	if (ended)
		memory__context_gone(m, p, ended, ev->end_ns);
}
