/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Stacks for as long as a report needs them: of a saved trace, or of processes that may be gone. */
#ifndef SAVED_STACK_POOL_H
#define SAVED_STACK_POOL_H

#include "model/event.h"

struct stack_pool;

/* NULL: out of memory. */
struct stack_pool *stack_pool__new(void);
/* One for another trace, with ids of its own: what has the same frames is the same stack in both.
 * NULL: out of memory. */
struct stack_pool *stack_pool__beside(struct stack_pool *p);
void stack_pool__free(struct stack_pool *p);
/* A stack for so many frames, none yet: to be filled and given to stack_pool__put(). NULL: out of
 * memory, or the pool is full (64 MiB of one process: only a file that is made to be a burden has
 * more). */
struct stack *stack_pool__make(const struct stack_pool *p, unsigned frame_cnt);
/* Takes the stack; its strings must stay where they are, and be the same where their texts are: the
 * same frames are the same stack, whatever ids it has. A process's stacks may be defined anew, and
 * several processes run the same program. Returns what stands for it from now on; NULL: the pool is
 * full. */
const struct stack *stack_pool__put(struct stack_pool *p, struct stack *stack);
/* By the id that it was put with; NULL: not known. */
const struct stack *stack_pool__get(const struct stack_pool *p, uint64_t id);
/* Another trace begins where the one before has ended. */
void stack_pool__forget_ids(struct stack_pool *p);

#endif /* SAVED_STACK_POOL_H */
