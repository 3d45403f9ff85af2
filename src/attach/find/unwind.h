/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Unwinds the stack of a thread in another process by call frame information (cfi.h), without frame
 * pointers and without stopping it. It reads only return addresses and saved frame pointers from
 * memory. The process, its files and its memory are untrusted. x86-64; elsewhere only the innermost
 * address is available.
 */
#ifndef ATTACH_FIND_UNWIND_H
#define ATTACH_FIND_UNWIND_H

#include "ct_bpf.h"
#include "ct_record.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* One process: its mappings are read now, its files when needed. NULL: they cannot be read. */
struct unwinder;
struct unwinder *unwinder__new(pid_t pid);
void unwinder__free(struct unwinder *u);

/* Registers of a thread. */
struct unwind_at {
	uint64_t ip, sp, fp;
	bool has_fp;		   /* fp is valid */
	const struct ct_ret *rets; /* original values of these stack words */
	unsigned ret_cnt;
};

struct call_chain {
	unsigned cnt;
	uint64_t ips[CT_STACK_MAX];  /* return addresses, innermost first */
	bool inside;		     /* the first is the thread's present instruction instead */
	uint64_t ends[CT_STACK_MAX]; /* CFA of each frame; 0: unknown, for the last only */
	bool whole;		     /* complete up to the thread's first function */
};
/* Unwinds up to the first uncertain frame. Returns false if the stack cannot be read. */
bool unwinder__follow(struct unwinder *u, const struct unwind_at *at, struct call_chain *out);

/* Unwinds the callers of a call in flight: at->sp is where its return address is. They do not
 * change while the thread is in the call. */
bool unwinder__callers(struct unwinder *u, const struct unwind_at *at, struct call_chain *out);

/* Compares two successive stacks of a running thread, and keeps in `first` the frames that the
 * thread was in all the time: the equal ones from the outermost on, and the position in the last
 * one. Keeps none if a stack is not whole. */
void unwound_common(struct call_chain *first, const struct call_chain *second);

#endif /* ATTACH_FIND_UNWIND_H */
