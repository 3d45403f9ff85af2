/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Kernel types that the BPF side reads, arm64: the part that differs between machines. Written by
 * hand; see ../README.md. */
#ifndef __VMLINUX_H__
#define __VMLINUX_H__

#ifndef BPF_NO_PRESERVE_ACCESS_INDEX
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
#endif

/* UAPI: what bpf_tracing.h casts a context to. */
struct user_pt_regs {
	unsigned long long regs[31];
	unsigned long long sp;
	unsigned long long pc;
	unsigned long long pstate;
};

struct pt_regs {
	union {
		struct user_pt_regs user_regs;
		struct {
			unsigned long long regs[31];
			unsigned long long sp;
			unsigned long long pc;
			unsigned long long pstate;
		};
	};
	unsigned long long orig_x0;
	int syscallno;
};

/* pstate of a thread that runs AArch32 code (arch/arm64/include/uapi/asm/ptrace.h). */
#define PSR_MODE32_BIT 0x00000010

struct thread_info {
	unsigned long flags;
};

struct thread_struct {
	unsigned long fault_address;
};

typedef struct {
	unsigned long flags;
} mm_context_t;

#ifndef BPF_NO_PRESERVE_ACCESS_INDEX
#pragma clang attribute pop
#endif

#include "../common.h"

#endif /* __VMLINUX_H__ */
