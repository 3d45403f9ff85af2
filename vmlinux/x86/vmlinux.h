/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Kernel types that the BPF side reads, x86-64: the part that differs between machines. Written by
 * hand; see ../README.md. */
#ifndef __VMLINUX_H__
#define __VMLINUX_H__

#ifndef BPF_NO_PRESERVE_ACCESS_INDEX
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
#endif

struct pt_regs {
	unsigned long r15;
	unsigned long r14;
	unsigned long r13;
	unsigned long r12;
	unsigned long bp;
	unsigned long bx;
	unsigned long r11;
	unsigned long r10;
	unsigned long r9;
	unsigned long r8;
	unsigned long ax;
	unsigned long cx;
	unsigned long dx;
	unsigned long si;
	unsigned long di;
	unsigned long orig_ax;
	unsigned long ip;
	unsigned long cs; /* since 6.9 (FRED) 16 bits in a union: mask to 0xffff */
	unsigned long flags;
	unsigned long sp;
	unsigned long ss; /* as cs */
};

/* cs of user code: 64-bit, and 32-bit in compatibility mode (arch/x86/include/asm/segment.h). */
#define USER_CS	  0x33
#define USER32_CS 0x23

struct thread_info {
	unsigned long flags;
	unsigned int status; /* TS_COMPAT: inside a 32-bit system call */
};
#define TS_COMPAT 0x0002

struct thread_struct {
	unsigned long fsbase; /* where user code's thread-local storage is */
};

typedef struct {
	/* Since 5.11. 16 bits at first, 64 later; the bit below is in the low 16 of both. */
	unsigned short flags;
} mm_context_t;
/* The process runs a 32-bit program: 5.11 and later. */
#define MM_CONTEXT_IA32 0x1

#ifndef BPF_NO_PRESERVE_ACCESS_INDEX
#pragma clang attribute pop
#endif

#include "../common.h"

#ifndef BPF_NO_PRESERVE_ACCESS_INDEX
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
#endif

/* mm_struct before 5.11: what MM_CONTEXT_IA32 says later, TIF_IA32 then. */
struct mm_struct___pre_5_11 {
	struct {
		unsigned short ia32_compat;
	} context;
};

#ifndef BPF_NO_PRESERVE_ACCESS_INDEX
#pragma clang attribute pop
#endif

#endif /* __VMLINUX_H__ */
