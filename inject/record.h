/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Frames and records of calls: what record.c and left.c share, most of it on every call's way. */
#ifndef INJECT_RECORD_H
#define INJECT_RECORD_H

#include "inject.h"

#include <string.h>

static inline bool is_own_stack(const struct thread *t, uint64_t sp)
{
	return sp - t->stack_lo < t->stack_hi - t->stack_lo;
}

static inline uint32_t word_cnt_of(const struct ct_spec *spec)
{
	return spec->word_cnt < CT_MAX_WORDS ? spec->word_cnt : CT_MAX_WORDS;
}

/* Those that are not in registers. */
static inline void words_rest(__u64 *to, const void *stack, uint32_t cnt)
{
	const __u64 *from = stack;

	for (uint32_t i = REG_WORDS; i < cnt; i++)
		to[i] = from[i - REG_WORDS];
}

/* Those of registers all, which is no branch: a frame has 0 where nothing is asked for. */
static inline __attribute__((always_inline)) void words_fill(__u64 *to, const struct ct_frame *f,
							     uint32_t cnt)
{
#pragma GCC unroll 8
	for (uint32_t n = 0; n < REG_WORDS; n++)
		to[n] = f->words[n];
	if (unlikely(cnt > REG_WORDS))
		words_rest(to, f->words + REG_WORDS, cnt);
}

/* Fixed part and words, of a frame of the slot's; returns the record's size so far. */
static inline uint32_t call_fill(struct ct_call *c, const struct thread *t,
				 const struct ct_frame *f, const struct ct_spec *spec, uint64_t now,
				 uint16_t flags)
{
	uint32_t words = word_cnt_of(spec);

	memset(c, 0, CT_CALL_FIXED_SZ);
	c->rec.kind = CT_REC_CALL;
	c->rec.flags = flags;
	c->rec.ts_ns = f->start_ns;
	c->rec.tid = t->tid;
	c->end_ns = now;
	c->call_id = f->call_id;
	/* On another stack than the call before it is in none. */
	if (f->depth)
		c->parent_id = (f - 1)->call_id;
	c->func_id = f->func_id;
	c->depth = f->depth;
	c->word_cnt = words;
	c->ioctl_cnt = f->ioctl_cnt;
	c->api_depth = f->api_depth;
	c->ioctl_ns = f->ioctl_ns;
	words_fill(c->words, f, words);
	return CT_CALL_FIXED_SZ + words * 8;
}

/* The same of a call that has returned. */
static inline __attribute__((always_inline)) uint32_t
short_fill(struct ct_shm_short *c, const struct thread *t, const struct ct_frame *f,
	   const struct ct_spec *spec, uint64_t now, int32_t result)
{
	uint32_t words = word_cnt_of(spec);

	c->kind = CT_SHM_REC_SHORT;
	c->flags = 0;
	c->ts_ns = f->start_ns;
	c->end_ns = now;
	c->call_id = f->call_id;
	c->tid = t->tid;
	c->result = result;
	c->func_id = f->func_id;
	c->word_cnt = words;
	c->cap_cnt = spec->cap_cnt;
	memset(c->cap_len, 0, sizeof(c->cap_len));
	words_fill(c->words, f, words);
	return sizeof(*c) + words * 8;
}

/* The number of a call that went well at addr, which is aligned: spec->out_sz. Returns the size of the
 * record with it. */
static inline __attribute__((always_inline)) uint32_t
out_add(const struct ct_spec *spec, uint64_t addr, void *rec, int16_t *cap_len, uint32_t off)
{
	*(uint64_t *)(rec + off) =
		spec->out_sz == 8 ? *(const uint64_t *)addr : *(const uint32_t *)addr;
	*cap_len = spec->out_sz;
	return off + 8;
}

/* All pointees: mostly that is one number, which is read here. */
static inline __attribute__((always_inline)) uint32_t
pointees_add(struct thread *t, const struct call *call, const struct ct_spec *spec, void *rec,
	     int16_t *cap_len, bool ok, uint32_t off)
{
	uint64_t addr;
	unsigned i = 0;

	if (likely(spec->out_sz && ok)) {
		addr = call->regs[spec->caps[0].arg % REG_WORDS];
		if (likely(addr && !(addr & (spec->out_sz - 1u)))) {
			off = out_add(spec, addr, rec, cap_len, off);
			i = 1;
		}
	}
	if (likely(i == spec->cap_cnt))
		return off;
	return pointees_from(i, t, call, spec, rec, cap_len, ok, off);
}

/* All at once, instead of one after the other: in a program that computes between calls none of it
 * is in the caches any more. always_inline: gcc 12 leaves out a call that does nothing else. */
static inline __attribute__((always_inline)) void fetch(const struct process *p, uint64_t func_id)
{
	const uint8_t *next = inject_me.next, *t = (const uint8_t *)inject_me.t;
	const struct ct_shm_slot *s = inject_me.slot;

	__builtin_prefetch(p);
	__builtin_prefetch(&inject_hooks[func_id]);
	__builtin_prefetch(inject_me.set);
	__builtin_prefetch(inject_me.shm);
	__builtin_prefetch(&inject_me.set->specs[func_id]);
	__builtin_prefetch(t, 1);
	__builtin_prefetch(t + 64, 1);
	__builtin_prefetch(s, 1);
	__builtin_prefetch(s->frames, 1);
	__builtin_prefetch((const uint8_t *)s->frames + 64, 1);
	__builtin_prefetch(next, 1);
	__builtin_prefetch(next + 64, 1);
	__builtin_prefetch(next + 128, 1);
}

/* --- the frame of a call that has begun --- */

/* What one that is in no other one has. */
static inline __attribute__((always_inline)) void
frame_fill(struct ct_frame *f, const struct call *call, const struct ct_spec *spec)
{
	f->sp = call->sp;
	f->func_id = call->func_id;
	f->ioctl_ns = 0;
	f->off_cpu_ns = 0;
	f->ioctl_cnt = 0;
	f->flags = 0;
	f->api = spec->api;
	f->depth = 0;
	f->api_depth = 0;
}
static inline void frame_words(struct ct_frame *f, const struct call *call, uint32_t cnt)
{
	/* Where nothing is asked for it is nobody's business. Without a branch, which is guessed
	 * wrong when it has not been seen for a while. */
	uint64_t mask = -(uint64_t)(cnt != 0);

#pragma GCC unroll 8
	for (uint32_t i = 0; i < REG_WORDS; i++)
		f->words[i] = call->regs[i] & mask;
	if (unlikely(cnt > REG_WORDS))
		words_rest(f->words, call_stack(call), cnt);
}

/* It is going to be counted. */
static inline __attribute__((always_inline)) void
frame_count(struct ct_frame *f, const struct thread *t, const struct call *call)
{
	f->call_id = 0;
	f->flags = CT_FRAME_F_COUNTED;
	count_fetch(t, call->func_id);
}
/* Or a record. */
static inline __attribute__((always_inline)) void
frame_record(struct ct_frame *f, struct ct_shm_slot *s, const struct call *call,
	     const struct ct_spec *spec)
{
	f->call_id = s->next_id++;
	frame_words(f, call, word_cnt_of(spec));
}

/* One frame more: a call has begun. */
static inline void frame_add(struct ct_shm_slot *s)
{
	__atomic_store_n(&s->begun, s->begun + CT_SHM_DEPTHS + 1, __ATOMIC_RELEASE);
}
/* No more than so many. */
static inline void depth_set(struct ct_shm_slot *s, uint32_t depth)
{
	__atomic_store_n(&s->begun, (s->begun & -(uint64_t)CT_SHM_DEPTHS) | depth,
			 __ATOMIC_RELEASE);
}

/* --- records and counts of calls that have returned --- */

/* The reader, on another processor, has what was there last: it takes as long as a call to get that
 * back, so it is begun at the end of the call before. */
static inline void next_set(const uint8_t *next)
{
	inject_me.next = next;
#pragma GCC unroll 4
	for (unsigned i = 0; i < 4; i++)
		__builtin_prefetch(next + 64 * i, 1);
}

static inline void call_send(struct thread *t, uint64_t call_id, uint32_t size)
{
	/* In this order: see was_sent(). */
	t->sent_head = t->slot->head;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	t->sent_id = call_id;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	ring_send(t, size);
	next_set(t->ring + (t->slot->head & (t->ring_sz - 1)));
}

/* What struct ct_shm_short has room for. */
static inline bool is_short(const struct ct_spec *spec, const struct ct_frame *f)
{
	return !f->depth && !f->ioctl_cnt && spec->cap_cnt <= CT_SHM_SHORT_CAPS &&
	       !(spec->flags & CT_SPEC_F_STACK);
}

/* One call more that took so long. */
static inline __attribute__((always_inline)) void count_add(struct ct_count *c, struct ct_frame *f,
							    uint64_t ns)
{
	uint32_t i = ct_hist_index(ns);

	c->total_ns += ns;
	if (ns > c->max_ns)
		c->max_ns = ns;
	frame_row(f, i, c->hist[i] + 1);
	c->hist[i]++;
}

/* left.c: calls that will not return any more. */
#define ELSEWHERE -1
/* Depth of the frame that a call with this stack pointer is in, and 1; or ELSEWHERE. Gives up
 * frames of calls that were left without returning. */
int calls_settle(struct process *p, struct thread *t, uint64_t sp);
/* Gives up all frames above depth. */
void calls_give_up(struct thread *t, uint32_t depth, uint64_t now, uint16_t flags);

#endif /* INJECT_RECORD_H */
