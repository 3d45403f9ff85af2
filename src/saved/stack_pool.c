/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "stack_pool.h"

#include <stdlib.h>

#include "util/hash_table.h"
#include "util/memlimit.h"

struct pool_row {
	struct hash_link link;
	struct stack stack;
};
HASH_TABLE_TYPE(pool_row);
HASH_TABLE_BYTES(pool_row, stack.frames);

struct pool_id {
	struct hash_link link;
	uint64_t id;
	const struct stack *stack;
};
HASH_TABLE(pool_id, id);

/* Shared by pools that stack_pool__beside() connected. */
struct content {
	unsigned pools;
	struct pool_row_table stacks; /* of all traces so far */
	struct memlimit_share bytes;
};

struct stack_pool {
	struct content *all;
	struct pool_id_table ids; /* of the current trace */
};

/* Frames are hash keys: no padding. */
_Static_assert(sizeof(struct stack_frame) == 3 * 8 + 3 * sizeof(void *), "frames are compared");

struct stack_pool *stack_pool__new(void)
{
	struct stack_pool *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->all = calloc(1, sizeof(*p->all));
	if (!p->all) {
		free(p);
		return NULL;
	}
	p->all->pools = 1;
	return p;
}

struct stack_pool *stack_pool__beside(struct stack_pool *p)
{
	struct stack_pool *other = calloc(1, sizeof(*other));

	if (!other)
		return NULL;
	other->all = p->all;
	p->all->pools++;
	return other;
}

void stack_pool__forget_ids(struct stack_pool *p)
{
	struct pool_id *id;

	while ((id = pool_id_table__pop(&p->ids))) {
		memlimit_uncharge(&p->all->bytes, id, sizeof(*id));
		memlimit_free(id);
	}
}

void stack_pool__free(struct stack_pool *p)
{
	struct content *all;

	if (!p)
		return;
	stack_pool__forget_ids(p);
	all = p->all;
	free(p);
	if (--all->pools)
		return;
	while (all->stacks.first)
		memlimit_free(pool_row_table__pop(&all->stacks));
	memlimit_share_free(&all->bytes);
	free(all);
}

struct stack *stack_pool__make(const struct stack_pool *p, unsigned frame_cnt)
{
	size_t size = sizeof(struct pool_row) + frame_cnt * sizeof(struct stack_frame);
	struct pool_row *st;

	if (!memlimit_has(&p->all->bytes, size, MEMLIMIT_STACKS_MAX)) {
		memlimit_reject(MEMLIMIT_STACKS);
		return NULL;
	}
	st = memlimit_new(MEMLIMIT_STACKS, size);
	return st ? &st->stack : NULL;
}

static struct pool_id *id_get(struct stack_pool *p, uint64_t number)
{
	struct pool_id *id = pool_id_table__find(&p->ids, &number);

	if (id)
		return id;
	if (!memlimit_charge(&p->all->bytes, sizeof(*id), MEMLIMIT_STACKS_MAX, MEMLIMIT_STACKS))
		return NULL;
	id = memlimit_new(MEMLIMIT_STACKS, sizeof(*id));
	if (id) {
		id->id = number;
		if (!pool_id_table__add(&p->ids, id))
			return id;
		memlimit_reject(MEMLIMIT_STACKS);
	}
	memlimit_free(id);
	memlimit_uncharge(&p->all->bytes, NULL, sizeof(*id));
	return NULL;
}

const struct stack *stack_pool__put(struct stack_pool *p, struct stack *stack)
{
	struct pool_row *st = (struct pool_row *)((char *)stack - offsetof(struct pool_row, stack));
	uint64_t number = stack->id;
	size_t key_sz = stack->frame_cnt * sizeof(stack->frames[0]);
	struct pool_row *known;
	struct pool_id *id;

	known = pool_row_table__find(&p->all->stacks, stack->frames, key_sz);
	if (known) {
		memlimit_free(st);
		st = known;
	} else {
		if (!memlimit_charge(&p->all->bytes, sizeof(*st) + key_sz, MEMLIMIT_STACKS_MAX,
				     MEMLIMIT_STACKS)) {
			memlimit_free(st);
			return NULL;
		}
		if (pool_row_table__add(&p->all->stacks, st, key_sz)) {
			memlimit_reject(MEMLIMIT_STACKS);
			memlimit_uncharge(&p->all->bytes, st, sizeof(*st) + key_sz);
			memlimit_free(st);
			return NULL;
		}
	}
	id = id_get(p, number);
	if (id)
		id->stack = &st->stack;
	return &st->stack;
}

const struct stack *stack_pool__get(const struct stack_pool *p, uint64_t number)
{
	const struct pool_id *id = pool_id_table__find(&p->ids, &number);

	return id ? id->stack : NULL;
}
