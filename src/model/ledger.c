/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "ledger_priv.h"

#include <search.h>
#include <stdlib.h>

/* Sizes from the target may extend beyond the end of the address space; a handle covers one key. */
static uint64_t last_of(const struct block *b)
{
	if (!b->size || b->space == SPACE_HANDLE)
		return b->key;
	return b->size - 1 > UINT64_MAX - b->key ? UINT64_MAX : b->key + b->size - 1;
}

/* Live blocks do not overlap, so the order treats overlapping blocks as equal: a lookup of one byte
 * finds the block that contains it. */
static int cmp_block(const void *a, const void *b)
{
	const struct block *x = a, *y = b;

	if (last_of(x) < y->key)
		return -1;
	return x->key > last_of(y) ? 1 : 0;
}

static unsigned tree_of(enum block_space space)
{
	return space == SPACE_MAPPED ? SPACE_ADDR : space;
}

static struct block *overlapping(const struct ledger *l, const struct block *key)
{
	struct block *const *node =
		tfind(key, (void *const *)&l->trees[tree_of(key->space)], cmp_block);

	return node ? *node : NULL;
}

struct block *ledger__at(const struct ledger *l, enum block_space space, uint64_t key)
{
	struct block *b = overlapping(l, &(struct block){.key = key, .space = space});

	return b && b->key == key && b->space == space ? b : NULL;
}

struct block *ledger__around(const struct ledger *l, uint64_t addr)
{
	return overlapping(l, &(struct block){.key = addr, .space = SPACE_ADDR});
}

static void add_ref(struct block *b)
{
	b->refs += b->refs < UINT16_MAX;
}

bool ledger__again(struct ledger *l, const struct block *b)
{
	struct block *old = ledger__at(l, b->space, b->key);

	if (!old || old->kind != BLOCK_IPC || b->kind != BLOCK_IPC)
		return false;
	add_ref(old);
	return true;
}

static void unmapped(struct ledger *l, struct block *phys, uint64_t ns)
{
	if (!--phys->maps && !phys->refs)
		l->ops->removed(l, phys, ns);
}

void ledger__take(struct ledger *l, struct block *b, uint64_t ns)
{
	struct block *phys = b->phys;

	tdelete(b, &l->trees[tree_of(b->space)], cmp_block);
	if (b->maps) {
		b->refs = 0;
		return;
	}
	l->ops->removed(l, b, ns);
	if (phys)
		unmapped(l, phys, ns);
}

void ledger__release(struct ledger *l, struct block *b, uint64_t ns)
{
	if (b->refs > 1)
		b->refs -= b->refs < UINT16_MAX;
	else
		ledger__take(l, b, ns);
}

void ledger__evict(struct ledger *l, const struct block *b)
{
	struct block *old;

	while ((old = overlapping(l, b))) {
		l->ops->lost(l, old, b);
		ledger__take(l, old, b->born_ns);
	}
}

bool ledger__put(struct ledger *l, struct block *b)
{
	ledger__evict(l, b);
	return tsearch(b, &l->trees[tree_of(b->space)], cmp_block);
}

bool ledger__map(struct ledger *l, struct block *b, uint64_t handle)
{
	ledger__unmap(l, b->key, 1, b->born_ns);
	if (!ledger__put(l, b))
		return false;
	b->phys = ledger__at(l, SPACE_HANDLE, handle);
	if (b->phys)
		b->phys->maps++;
	return true;
}

/* One call may remove several adjacent mappings. */
void ledger__unmap(struct ledger *l, uint64_t addr, uint64_t size, uint64_t ns)
{
	struct block key = {.key = addr, .size = size, .space = SPACE_MAPPED}, *b;

	while (size && (b = overlapping(l, &key)) && b->space == SPACE_MAPPED)
		ledger__take(l, b, ns);
}

void ledger__retain(struct ledger *l, uint64_t handle, uint64_t addr)
{
	struct block *b = ledger__at(l, SPACE_HANDLE, handle);

	if (b) {
		add_ref(b);
		return;
	}
	/* The memory was released before, and its mapping keeps it. */
	b = addr ? ledger__around(l, addr) : NULL;
	b = b ? b->phys : NULL;
	if (!b || b->refs)
		return;
	b->key = handle;
	b->refs = ledger__put(l, b);
}

struct list {
	struct block *first, **end;
};

static void append(const void *node, VISIT which, void *closure)
{
	struct block *b = *(struct block *const *)node;
	struct list *list = closure;

	if (which != postorder && which != leaf)
		return;
	b->next = NULL;
	*list->end = b;
	list->end = &b->next;
}

struct block *ledger__list(const struct ledger *l, enum block_space space)
{
	struct list list = {.end = &list.first};

	twalk_r(l->trees[tree_of(space)], append, &list);
	return list.first;
}

static void notify(struct ledger *l, struct block *b, void (*left)(struct ledger *, struct block *))
{
	if (left && b)
		left(l, b);
}

void ledger__context_gone(struct ledger *l, uint64_t ctx, uint64_t ns,
			  void (*left)(struct ledger *l, struct block *b))
{
	struct block *b, *next;

	for (unsigned s = 0; s < SPACE_MAPPED; s++) {
		for (b = ledger__list(l, s); b; b = next) {
			next = b->next;
			if (b->ctx != ctx)
				continue;
			notify(l, b, left);
			ledger__take(l, b, ns);
		}
	}
}

void ledger__clear(struct ledger *l, uint64_t ns, void (*left)(struct ledger *l, struct block *b))
{
	struct block *b, *next;

	/* Mappings first: they may be the only references to the memory. */
	for (b = ledger__list(l, SPACE_MAPPED); b; b = next) {
		next = b->next;
		if (b->space != SPACE_MAPPED)
			continue;
		if (b->phys && !b->phys->refs && b->phys->maps == 1)
			notify(l, b->phys, left);
		ledger__take(l, b, ns);
	}
	for (unsigned s = 0; s < SPACE_MAPPED; s++) {
		for (b = ledger__list(l, s); b; b = next) {
			next = b->next;
			notify(l, b, left);
			ledger__take(l, b, ns);
		}
	}
	ledger_pools_clear(l);
	contexts__clear(&l->ctx);
}
