/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The stack of a thread of another process, by call frame information (cfi.h), which needs no frame
 * pointers; without stopping it. Of its memory nothing is read but return addresses and saved frame
 * pointers. The process, its files and its memory may be anything. x86-64; elsewhere only the
 * innermost address is known.
 */
#ifndef ATTACH_FIND_UNWIND_H
#define ATTACH_FIND_UNWIND_H

#include "ct_bpf.h"
#include "ct_record.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* One process: its mappings are read, and its files when they are needed. NULL: they cannot be. */
struct unwinder;
struct unwinder *unwinder__new(pid_t pid);
void unwinder__free(struct unwinder *u);

/* Where a thread is. */
struct unwind_at {
	uint64_t ip, sp, fp;
	bool has_fp;		   /* the frame pointer's register is known */
	const struct ct_ret *rets; /* what is to be read in these places */
	unsigned ret_cnt;
};

struct call_chain {
	unsigned cnt;
	uint64_t ips[CT_STACK_MAX];  /* return addresses, innermost first */
	bool inside;		     /* the first is where the thread is instead */
	uint64_t ends[CT_STACK_MAX]; /* of the frames: CFA; 0: not known, of the last only */
	bool whole;		     /* it is followed to the thread's first function */
};
/* It ends before the first frame that is not certain. false: the stack cannot be read. */
bool unwinder__follow(struct unwinder *u, const struct unwind_at *at, struct call_chain *out);

/* Of two that were taken of a thread that runs, one behind the other, the frames that it was in all
 * the time: those that are the same from the outermost on, and the last one's place in it. None if
 * one of them is not whole. */
void unwound_common(struct call_chain *first, const struct call_chain *second);

#endif /* ATTACH_FIND_UNWIND_H */
