/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Frames and records of calls, shared by record.c and stale_frames.c. Most of it runs at every
 * call. */
#ifndef INJECT_RECORD_H
#define INJECT_RECORD_H

#include "inject.h"

#include <string.h>

static inline bool is_own_stack(const struct thread *t, uint64_t sp)
{
	return sp - t->stack_lo < t->stack_hi - t->stack_lo;
}

/* Stack contents of the call's thunk, and its return address. A function called after a longjmp()
 * from there has overwritten them. */
static inline bool is_there(const struct thread *t, uint32_t depth)
{
	const struct ct_frame *f = &t->slot->frames[depth];
	const struct call *call = t->calls[depth];

	if (!call)
		return false;
#ifdef __x86_64__
	if (*(const volatile uint64_t *)f->sp != call->ret)
		return false;
#endif
	return call->sp == f->sp && call->t == t && call->start_ns == f->start_ns &&
	       call->func_id == f->func_id && call->gen == inject_me.gen;
}

/* Returns whether a call with this stack pointer is certainly made within the innermost frame's
 * call. */
static inline bool is_inproc(const struct thread *t, uint32_t depth, uint64_t sp)
{
	uint64_t outer_sp;

	if (unlikely(depth > CT_MAX_DEPTH)) /* the program may overwrite it */
		return false;
	outer_sp = t->slot->frames[depth - 1].sp;
	return outer_sp > sp &&
	       (likely(outer_sp - sp <= CT_SAME_STACK_SZ) ||
		(is_own_stack(t, sp) && is_own_stack(t, outer_sp))) &&
	       is_there(t, depth - 1);
}

/* Arguments that are not in registers. */
static inline void words_rest(__u64 *to, const void *stack, uint32_t cnt)
{
	const __u64 *from = stack;

	for (uint32_t i = REG_WORDS; i < cnt; i++)
		to[i] = from[i - REG_WORDS];
}

/* Arguments in registers: copies all of them, without a branch; unused ones are 0. */
static inline __attribute__((always_inline)) void words_fill(__u64 *to, const struct ct_frame *f,
							     uint32_t cnt)
{
#pragma GCC unroll 8
	for (uint32_t n = 0; n < REG_WORDS; n++)
		to[n] = f->words[n];
	if (unlikely(cnt > REG_WORDS))
		words_rest(to, f->words + REG_WORDS, cnt);
}

/* Writes the fixed part and words of a frame in the slot; returns the record's size so far. */
static inline uint32_t call_fill(struct ct_call *c, const struct thread *t,
				 const struct ct_frame *f, const struct ct_spec *spec, uint64_t now,
				 uint16_t flags)
{
	uint32_t words = recorder_word_cnt(spec);

	memset(c, 0, CT_CALL_FIXED_SZ);
	c->rec.kind = CT_REC_CALL;
	c->rec.flags = flags | (f->flags & CT_FRAME_F_REUSED ? CT_CALL_F_REUSED : 0);
	c->rec.ts_ns = f->start_ns;
	c->rec.tid = t->tid;
	c->end_ns = now;
	recorder_fill(c, f, words);
	/* A call on another stack than the previous one is not nested. */
	if (f->depth)
		c->parent_id = (f - 1)->call_id;
	words_fill(c->words, f, words);
	return CT_CALL_FIXED_SZ + words * 8;
}

/* Fills in a short record of a call that has returned. */
static inline __attribute__((always_inline)) uint32_t
short_fill(struct ct_shm_short *c, const struct thread *t, const struct ct_frame *f,
	   const struct ct_spec *spec, uint64_t now, int32_t result)
{
	uint32_t words = recorder_word_cnt(spec), first = f->depth != 0;

	c->kind = CT_SHM_REC_SHORT;
	c->depth = f->depth;
	c->api_depth = f->api_depth;
	c->ts_ns = f->start_ns;
	c->end_ns = now;
	c->call_id = f->call_id;
	c->tid = t->tid;
	c->result = result;
	c->func_id = f->func_id;
	c->word_cnt = words;
	c->cap_cnt = spec->cap_cnt;
	memset(c->cap_len, 0, sizeof(c->cap_len));
	if (first)
		c->words[0] = (f - 1)->call_id;
	words_fill(c->words + first, f, words);
	return sizeof(*c) + (first + words) * 8;
}

/* Adds all pointees of a call. Usually there is one number, which is read here. */
static inline __attribute__((always_inline)) uint32_t
pointees_add(struct thread *t, const struct call *call, const struct ct_spec *spec, void *rec,
	     int16_t *cap_len, bool ok, uint32_t off)
{
	uint64_t addr;
	unsigned i = 0;

	if (likely(spec->out_sz && ok)) {
		addr = call->regs[spec->caps[0].arg % REG_WORDS];
		if (likely(addr && !(addr & (spec->out_sz - 1u)))) {
			*(uint64_t *)(rec + off) = spec->out_sz == 8 ? *(const uint64_t *)addr
								     : *(const uint32_t *)addr;
			*cap_len = spec->out_sz;
			off += 8;
			i = 1;
		}
	}
	if (likely(i == spec->cap_cnt))
		return off;
	return pointees_from(i, t, call, spec, rec, cap_len, ok, off);
}

/* Adds a frame: a call has begun. */
static inline void frame_add(struct ct_shm_slot *s)
{
	__atomic_store_n(&s->begun, s->begun + CT_SHM_DEPTHS + 1, __ATOMIC_RELEASE);
}
/* At most this many. */
static inline void depth_set(struct ct_shm_slot *s, uint32_t depth)
{
	__atomic_store_n(&s->begun, (s->begun & -(uint64_t)CT_SHM_DEPTHS) | depth,
			 __ATOMIC_RELEASE);
}

/* stale_frames.c: calls that will not return. */
#define OTHER_STACK -1
/* Returns 1 plus the depth of the frame that encloses a call with this stack pointer; or ELSEWHERE.
 * Drops frames of calls that were left without returning. */
cold int calls_unwind_stale(struct process *p, struct thread *t, uint64_t sp);
/* Drops all frames above depth. */
void calls_drop_frames(struct thread *t, uint32_t depth, uint64_t now, uint16_t flags);

#endif /* INJECT_RECORD_H */
