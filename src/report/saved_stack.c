// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Stacks of a saved trace: defined on lines of their own, named by the calls behind them. */
#include "saved_value.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Frames of a stack, and bytes of all: only a file that is made to be a burden has more. */
#define FRAMES_MAX 1024
#define BYTES_MAX  (64ull << 20)

/* The same frames are the same stack, whatever ids it has: a process's stacks may be defined anew,
 * and several processes run the same program. */
struct saved_stack {
	UT_hash_handle hh; /* by frames */
	struct stack stack;
};

struct saved_stack_id {
	uint64_t id;
	const struct stack *stack;
	UT_hash_handle hh;
};

/* They are keys: no padding. */
_Static_assert(sizeof(struct stack_frame) == 2 * 8 + 3 * sizeof(void *), "frames are compared");

void saved_stack_ids_clear(struct saved *s)
{
	struct saved_stack_id *id, *next;

	HASH_ITER (hh, s->stack_ids, id, next) {
		HASH_DEL(s->stack_ids, id);
		free(id);
	}
}

void saved_stacks_free(struct saved *s)
{
	struct saved_stack *st, *next;

	saved_stack_ids_clear(s);
	HASH_ITER (hh, s->stacks, st, next) {
		HASH_DEL(s->stacks, st);
		free(st);
	}
	parser__free(s->list);
}

static void read_frame(struct saved *s, const struct parsed *p, struct stack_frame *f)
{
	const struct member *m;

	m = parsed_find(p, "module");
	f->module = m ? member_str(s, m) : NULL;
	m = parsed_find(p, "build_id");
	f->build_id = m ? member_str(s, m) : NULL;
	m = parsed_find(p, "symbol");
	f->symbol = m ? member_str(s, m) : NULL;
	m = parsed_find(p, f->module ? "offset" : "ip");
	if (m)
		*(f->module ? &f->offset : &f->ip) = member_u64(m);
}

static const struct stack *intern(struct saved *s, struct saved_stack *st)
{
	size_t key_sz = st->stack.frame_cnt * sizeof(st->stack.frames[0]);
	struct saved_stack *known;

	HASH_FIND(hh, s->stacks, st->stack.frames, key_sz, known);
	if (known) {
		free(st);
		return &known->stack;
	}
	s->stack_bytes += sizeof(*st) + key_sz;
	HASH_ADD_KEYPTR(hh, s->stacks, st->stack.frames, key_sz, st);
	return &st->stack;
}

static void put_id(struct saved *s, uint64_t number, const struct stack *stack)
{
	struct saved_stack_id *id;

	HASH_FIND(hh, s->stack_ids, &number, sizeof(number), id);
	if (!id) {
		id = malloc(sizeof(*id));
		if (!id)
			return;
		id->id = number;
		s->stack_bytes += sizeof(*id);
		HASH_ADD(hh, s->stack_ids, id, sizeof(id->id), id);
	}
	id->stack = stack;
}

int saved_stack(struct saved *s, const struct parsed *p, const char **why)
{
	const struct member *id = parsed_find(p, "id"), *frames = parsed_find(p, "frames");
	struct parsed all, one;
	struct saved_stack *st;
	uint64_t number;

	*why = "a stack without frames: was it changed?";
	if (!id || !frames || frames->val != VAL_ARRAY)
		return -EINVAL;
	if (s->stack_bytes > BYTES_MAX)
		return SAVED_STACK;
	*why = "out of memory: close other programs";
	if (!s->list)
		s->list = parser__new();
	if (!s->list || parser__slice(s->list, frames, &all))
		return -EINVAL;
	if (all.cnt > FRAMES_MAX)
		all.cnt = FRAMES_MAX;
	st = calloc(1, sizeof(*st) + all.cnt * sizeof(st->stack.frames[0]));
	if (!st)
		return -EINVAL;
	st->stack.id = number = member_u64(id);
	for (unsigned i = 0; i < all.cnt; i++)
		if (all.m[i].val == VAL_OBJECT && !parser__slice(s->inner, &all.m[i], &one))
			read_frame(s, &one, &st->stack.frames[st->stack.frame_cnt++]);
	put_id(s, number, intern(s, st));
	return SAVED_STACK;
}

const struct stack *saved_stack_of(const struct saved *s, uint64_t number)
{
	struct saved_stack_id *id;

	HASH_FIND(hh, s->stack_ids, &number, sizeof(number), id);
	return id ? id->stack : NULL;
}
