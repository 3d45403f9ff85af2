/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Code that both recorders of calls share: the BPF programs (bpf/) and the library in the traced
 * process (inject/). ct_pointee.h has the shared code for memory of the program, and ct_nv_copy.h
 * that for system calls into the driver.
 */
#ifndef CT_RECORDER_H
#define CT_RECORDER_H

#include "ct_bpf.h"

#ifdef __bpf__
#define RECORDER_INLINE	    static __always_inline
#define recorder_barrier(i) barrier_var(i)
#else
#define RECORDER_INLINE	    static inline
#define recorder_barrier(i) ((void)0)
#endif

/* --- stacks --- */

/* Calls at most this far apart are on one stack: stacks smaller than 16 KiB, the POSIX minimum for
 * threads, are not adjacent. */
#define CT_SAME_STACK_SZ (12 << 10)

/* --- levels and results --- */

/* Level of a call in a process with this level (enum ct_proc_level); CT_LEVEL_SAMPLE: call
 * recorder_sample(). */
RECORDER_INLINE __u32 recorder_level(const struct ct_spec *spec, __u32 proc_level)
{
	if (proc_level == CT_PROC_OFF)
		return CT_LEVEL_OFF;
	if (proc_level == CT_PROC_METRICS && spec->level < CT_LEVEL_COUNT &&
	    !(spec->flags & CT_SPEC_F_ALWAYS))
		return CT_LEVEL_COUNT;
	return spec->level;
}

/* Chosen at random, because every Nth call of a repetitive program may always be the same one. */
RECORDER_INLINE __u32 recorder_sample(const struct ct_spec *spec, __u32 random)
{
	return random < spec->sample_below ? CT_LEVEL_TRACE : CT_LEVEL_COUNT;
}

/* The result under which a failed call is counted. results: of the function's family. */
RECORDER_INLINE __s32 recorder_result(const volatile __u64 *results, __s32 result)
{
	__u32 word = (__u32)result / 64;

	if (word < CT_RESULT_WORDS && results[word & (CT_RESULT_WORDS - 1)] >> (result & 63) & 1)
		return result;
	return CT_RESULT_OTHER;
}

/* --- frames --- */

/* Sets the call's parent, its depth, and its depth within its family. outer: frames of enclosing
 * calls; at least 1. */
RECORDER_INLINE void recorder_nest(const struct ct_frame *frames, struct ct_frame *f, __u32 outer)
{
	const struct ct_frame *in;
	__u32 i = outer - 1;

	/* Without this, the compiler drops the mask because it has the bound, and 6.1 loses the
	 * bound on the stack. */
	recorder_barrier(i);
	in = &frames[i & (CT_MAX_DEPTH - 1)];
	f->call_id = in->call_id;
	f->depth = in->depth + !(in->flags & CT_FRAME_F_COUNTED);
	for (int n = 0; n < CT_MAX_DEPTH && n < (int)outer; n++) {
		i = outer - 1 - n;
		recorder_barrier(i);
		in = &frames[i & (CT_MAX_DEPTH - 1)];
		if (in->api != f->api)
			continue;
		f->api_depth = in->api_depth + !(in->flags & CT_FRAME_F_COUNTED);
		break;
	}
}

/* System calls of a call that has returned are also those of the enclosing call. */
RECORDER_INLINE void recorder_add_ioctls(struct ct_frame *outer, const struct ct_frame *f)
{
	outer->ioctl_cnt += f->ioctl_cnt;
	outer->ioctl_ns += f->ioctl_ns;
}

RECORDER_INLINE __u32 recorder_word_cnt(const struct ct_spec *spec)
{
	return spec->word_cnt < CT_MAX_WORDS ? spec->word_cnt : CT_MAX_WORDS;
}

/* Copies the members of a record that come from its frame, except the words. */
RECORDER_INLINE void recorder_fill(struct ct_call *c, const struct ct_frame *f, __u32 word_cnt)
{
	c->call_id = f->call_id;
	c->func_id = f->func_id;
	c->depth = f->depth;
	c->api_depth = f->api_depth;
	c->word_cnt = word_cnt;
	c->ioctl_cnt = f->ioctl_cnt;
	c->ioctl_ns = f->ioctl_ns;
}

/* Returns whether CT_CAP_EXTRA is read: only in the outermost call of its family that is within a
 * call of another. */
#define RECORDER_HAS_EXTRA(x) ((x)->depth && !(x)->api_depth)

#endif /* CT_RECORDER_H */
