/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What PyTorch's allocator holds when memory is exhausted (--torch). */
#include "failure_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/hash_table.h"
#include "util/memlimit.h"
#include "util/order.h"

#define BLOCKS_MAX 262144
/* The holes are known if the trace has at least this part of the allocated memory as blocks. */
#define KNOWN_PERCENT 95

struct torch_block {
	struct hash_link link;
	struct {
		uint64_t pid, ptr;
	} key;
	uint64_t size;
};
HASH_TABLE(torch_block, key);

struct torch_blocks {
	struct torch_block_table by_ptr;
};

static void drop(struct torch_blocks *t, struct torch_block *b)
{
	torch_block_table__del(&t->by_ptr, b);
	memlimit_free(b);
}

void torch_free(struct failure *f)
{
	struct torch_blocks *t = f->torch;

	while (t && t->by_ptr.first)
		drop(t, t->by_ptr.first);
	free(t);
}

static void add_block(struct torch_blocks *t, const struct trace_event *ev)
{
	struct torch_block *b, *old;

	if (hash_cnt(&t->by_ptr) == BLOCKS_MAX)
		return;
	b = memlimit_new(MEMLIMIT_INFLIGHT, sizeof(*b));
	if (!b)
		return;
	*b = (struct torch_block){.key = {ev->pid, ev->ptr}, .size = ev->size};
	old = torch_block_table__find(&t->by_ptr, &b->key);
	if (old)
		drop(t, old);
	if (torch_block_table__add(&t->by_ptr, b))
		memlimit_free(b);
}

static void free_block(struct torch_blocks *t, const struct trace_event *ev)
{
	struct torch_block key = {.key = {ev->pid, ev->ptr}};
	struct torch_block *b = torch_block_table__find(&t->by_ptr, &key.key);

	if (b)
		drop(t, b);
}

static void note_device(struct fail_proc *p, const char *device)
{
	if (!*p->torch_device)
		snprintf(p->torch_device, sizeof(p->torch_device), "%s", device);
	else if (strncmp(p->torch_device, device, sizeof(p->torch_device) - 1))
		p->torch_several = true;
}

void torch_event(struct failure *f, const struct trace_event *ev)
{
	struct fail_proc *p = fail_proc_get(f, ev->pid);

	if (!f->torch)
		f->torch = calloc(1, sizeof(*f->torch));
	if (!p || !f->torch)
		return;
	note_device(p, ev->allocator.device ?: "");
	p->torch_allocated = ev->allocator.allocated;
	p->torch_reserved = ev->allocator.reserved;
	if ((ev->has & HAS_PTR) && ev->op[0] == 'a' && (ev->has & HAS_SIZE))
		add_block(f->torch, ev);
	else if ((ev->has & HAS_PTR) && ev->op[0] == 'f')
		free_block(f->torch, ev);
	/* It has released what it could. */
	for (unsigned i = 0; i < f->cnt && ev->op[0] == 'o'; i++)
		if (f->cases[i].kind == CASE_OOM && f->cases[i].pid == ev->pid)
			torch_at_oom(f, &f->cases[i]);
}

struct holes {
	const struct torch_block **of; /* of the process, by address */
	unsigned cnt;
	uint64_t largest;
};

static int by_ptr(const void *a, const void *b)
{
	const struct torch_block *x = *(const struct torch_block *const *)a;
	const struct torch_block *y = *(const struct torch_block *const *)b;

	return ASCENDING(x->key.ptr, y->key.ptr);
}

static unsigned first_from(const struct holes *h, uint64_t ptr)
{
	return COUNT_LEADING(i, h->cnt, h->of[i]->key.ptr < ptr);
}

/* A block of the driver without any of PyTorch's may not be PyTorch's. */
static void look_at_segment(void *ctx, const struct memory_block *b)
{
	struct holes *h = ctx;
	unsigned i = first_from(h, b->ptr);
	uint64_t at = b->ptr, end = b->ptr + b->size;

	if (!b->on_gpu || !b->size_known || i == h->cnt || h->of[i]->key.ptr >= end)
		return;
	for (; i < h->cnt && h->of[i]->key.ptr < end; i++) {
		uint64_t ptr = h->of[i]->key.ptr;

		if (ptr > at && ptr - at > h->largest)
			h->largest = ptr - at;
		at = ptr + h->of[i]->size > at ? ptr + h->of[i]->size : at;
	}
	if (end > at && end - at > h->largest)
		h->largest = end - at;
}

static void find_hole(struct failure *f, struct fail_case *c)
{
	struct torch_blocks *t = f->torch;
	struct holes h = {.of = calloc(hash_cnt(&t->by_ptr) + 1, sizeof(*h.of))};
	uint64_t known = 0;

	if (!h.of)
		return;
	hash_each (b, &t->by_ptr) {
		if (b->key.pid != c->pid)
			continue;
		h.of[h.cnt++] = b;
		known += b->size;
	}
	if (h.cnt && known >= c->torch_allocated / 100 * KNOWN_PERCENT) {
		qsort(h.of, h.cnt, sizeof(*h.of), by_ptr);
		memory_each_block(f->r, c->pid, look_at_segment, &h);
		c->torch_hole = h.largest;
	}
	free(h.of);
}

void torch_at_oom(struct failure *f, struct fail_case *c)
{
	const struct fail_proc *p = fail_proc_get(f, c->pid);

	/* With several devices it is not known which one is full. */
	if (!p || !f->torch || p->torch_several || !p->torch_reserved)
		return;
	c->torch_reserved = p->torch_reserved;
	c->torch_allocated = p->torch_allocated;
	c->torch_hole = 0;
	find_hole(f, c);
}
