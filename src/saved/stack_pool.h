/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Keeps stacks as long as a report needs them, of saved traces or of processes that may have
 * exited. */
#ifndef SAVED_STACK_POOL_H
#define SAVED_STACK_POOL_H

#include "model/event.h"

struct stack_pool;

/* Returns NULL when out of memory. */
struct stack_pool *stack_pool__new(void);
/* Returns a pool for another trace, with its own ids: equal frames are the same stack in both.
 * Returns NULL when out of memory. */
struct stack_pool *stack_pool__beside(struct stack_pool *p);
void stack_pool__free(struct stack_pool *p);
/* Returns an empty stack with space for frame_cnt frames, to be filled and passed to
 * stack_pool__put(). Returns NULL when out of memory, or when the pool is full (64 MiB of one
 * process: only a hostile file has more). */
struct stack *stack_pool__make(const struct stack_pool *p, unsigned frame_cnt);
/* Takes ownership of the stack. Its strings must stay valid and be interned. Equal frames are one
 * stack, whatever ids they have: a process may define its stacks again, and several processes may
 * run the same program. Returns the stack to use from now on; NULL: the pool is full. */
const struct stack *stack_pool__put(struct stack_pool *p, struct stack *stack);
/* Looks a stack up by the id it was put with; NULL: unknown. */
const struct stack *stack_pool__get(const struct stack_pool *p, uint64_t id);
/* To be called when another trace begins after the current one. */
void stack_pool__forget_ids(struct stack_pool *p);

#endif /* SAVED_STACK_POOL_H */
