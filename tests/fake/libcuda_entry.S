/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The exported entry points of the mock libcuda: one per row of the table, each at its own
 * address, shaped like a driver's. Where a uprobe sits decides what it costs, so the tracer reads
 * the first bytes of an entry point; both shapes that drivers have are made here.
 *
 *   default      push %rbp first, and a call through a pointer of its own (driver 580)
 *   -DFAKE_535   cmpl $0x321cba00,state(%rip), ten bytes, then a je at +10, and a jump through such
 *                a pointer (drivers 470 to 555)
 *   -DFAKE_PLAIN as the default, without the pointer: a driver that is not known yet
 *
 * What the pointer leads to only knows its number. fake_common counts the call and hands the argument
 * words to fake_dispatch() in libcuda.c.
 */
	.hidden	fake_counts, fake_no_sem, fake_state, fake_locked_cnt, fake_dispatch
#ifdef __x86_64__
	.section .text.fake,"ax",@progbits
	.p2align 4
fake_common:
	.cfi_startproc
	.cfi_def_cfa %rbp, 16
	.cfi_offset %rbp, -16
	lea	fake_counts(%rip), %r10
	lock incq (%r10,%rax,8)
	cmpb	$0, fake_no_sem(%rip)
	jne	1f
	sub	$48, %rsp
	mov	%rdi, (%rsp)
	mov	%rsi, 8(%rsp)
	mov	%rdx, 16(%rsp)
	mov	%rcx, 24(%rsp)
	mov	%r8, 32(%rsp)
	mov	%r9, 40(%rsp)
	mov	%eax, %edi
	mov	%rsp, %rsi
	lea	16(%rbp), %rdx
	call	fake_dispatch
	leave
	.cfi_remember_state
	.cfi_def_cfa %rsp, 8
	ret
	.cfi_restore_state
1:	xor	%eax, %eax
	leave
	.cfi_def_cfa %rsp, 8
	ret
	.cfi_endproc

	.macro BODY
	push	%rbp
	.cfi_def_cfa_offset 16
	.cfi_offset %rbp, -16
	mov	%rsp, %rbp
	.cfi_def_cfa_register %rbp
	mov	$fake_id, %eax
	jmp	fake_common
	.endm

	/* A word of 8 bytes in writable data, as the driver's. */
	.macro SLOT sym
	.pushsection .data.fakeslots,"aw",@progbits
	.p2align 3
fake_slot_\sym:
	.quad	fake_body_\sym
	.popsection
	.pushsection .text.fakebody,"ax",@progbits
fake_body_\sym:
	.cfi_startproc
	BODY
	.cfi_endproc
	.popsection
	.endm

	/* Stack words that a call passes on: all that there may be, if there are any. */
	.macro PUSH_WORDS cnt
	.set	push_off, 8 + 8 * \cnt
	.rept	\cnt
	push	push_off(%rbp)
	.set	push_off, push_off - 8
	.endr
	.endm

	/* A struct of 64 bytes is passed by value. */
	.macro PUSH_STRUCT sym, name
	.ifc	\sym,\name
	PUSH_WORDS 8
	.endif
	.endm

	.macro ENTRY sym, cnt=6
	.globl	\sym
	.hidden	fake_entry_\sym
	.type	\sym, @function
	.p2align 4
\sym:
fake_entry_\sym:
	.cfi_startproc
#ifdef FAKE_535
	cmpl	$0x321cba00, fake_state(%rip)
	je	1f
	jmp	*fake_slot_\sym(%rip)
1:	mov	$4, %eax	/* CUDA_ERROR_DEINITIALIZED */
	ret
	.cfi_endproc
	.size	\sym, . - \sym
	SLOT	\sym
#elif defined(FAKE_PLAIN)
	BODY
	.cfi_endproc
	.size	\sym, . - \sym
#else
	push	%rbp
	.cfi_def_cfa_offset 16
	.cfi_offset %rbp, -16
	mov	%rsp, %rbp
	.cfi_def_cfa_register %rbp
	cmpl	$0x321cba00, fake_state(%rip)
	je	1f
	.if	\cnt > 6
	PUSH_WORDS 10
	.endif
	PUSH_STRUCT \sym, cuIpcOpenEventHandle
	PUSH_STRUCT \sym, cuIpcOpenMemHandle
	PUSH_STRUCT \sym, cuIpcOpenMemHandle_v2
	call	*fake_slot_\sym(%rip)
	leave
	.cfi_remember_state
	.cfi_def_cfa %rsp, 8
	ret
	.cfi_restore_state
1:	mov	$4, %eax
	pop	%rbp
	.cfi_def_cfa %rsp, 8
	ret
	.cfi_endproc
	.size	\sym, . - \sym
	SLOT	\sym
#endif
	.set	fake_id, fake_id + 1
	.endm

	.macro ENTRY_LOCKED sym
#ifndef FAKE_LOCKED
	ENTRY	\sym
#else
	/* The kernel refuses to probe an instruction with a lock prefix. */
	.globl	\sym
	.hidden	fake_entry_\sym
	.type	\sym, @function
	.p2align 4
\sym:
fake_entry_\sym:
	.cfi_startproc
	lock incl fake_locked_cnt(%rip)
	BODY
	.cfi_endproc
	.size	\sym, . - \sym
	.set	fake_id, fake_id + 1
#endif
	.endm
#define POINTER .quad

#elif defined(__aarch64__)
	.text
	.p2align 4
fake_common:
	adrp	x17, fake_counts
	add	x17, x17, :lo12:fake_counts
	add	x17, x17, x16, lsl #3
1:	ldxr	x10, [x17]
	add	x10, x10, #1
	stxr	w11, x10, [x17]
	cbnz	w11, 1b
	adrp	x17, fake_no_sem
	ldrb	w17, [x17, :lo12:fake_no_sem]
	cbnz	w17, 2f
	sub	sp, sp, #64
	stp	x0, x1, [sp]
	stp	x2, x3, [sp, #16]
	stp	x4, x5, [sp, #32]
	stp	x6, x7, [sp, #48]
	mov	w0, w16
	mov	x1, sp
	add	x2, x29, #16
	bl	fake_dispatch
	mov	sp, x29
	ldp	x29, x30, [sp], #16
	ret
2:	mov	w0, #0
	mov	sp, x29
	ldp	x29, x30, [sp], #16
	ret

	.macro ENTRY sym, cnt=0
	.globl	\sym
	.hidden	fake_entry_\sym
	.type	\sym, %function
	.p2align 4
\sym:
fake_entry_\sym:
	stp	x29, x30, [sp, #-16]!
	mov	x29, sp
	mov	w16, #fake_id
	b	fake_common
	.size	\sym, . - \sym
	.set	fake_id, fake_id + 1
	.endm
	.macro ENTRY_LOCKED sym
	ENTRY	\sym
	.endm
#define POINTER .quad
#else
#error "the mock libcuda has entry points for x86-64 and arm64 only"
#endif

	.set	fake_id, 0
	.text
/* How many there are: of each a sign and a number. */
#define IN(t, n)	 +1
#define OUT(t, n)	 +1
#define INOUT(t, n)	 +1
#define IN_PTR(t, n)	 +1
#define IN_STR(n)	 +1
#define OUT_STR(n)	 +1
#define OUT_PSTR(n)	 +1
#define IN_ARR(t, n, c)	 +1
#define OUT_ARR(t, n, c) +1
#define NOARGS
#define FN(sym, cls, op, since, args) ENTRY sym, (0 args)
#include "decode/cuda_api.def"
#undef FN
#define EXTRA(sym)	  ENTRY sym
#define EXTRA_LOCKED(sym) ENTRY_LOCKED sym
#include "libcuda_extra.def"
#undef EXTRA
#undef EXTRA_LOCKED

	/* Addresses by number: for cuGetProcAddress and for calls between exports. */
	.section .data.rel.ro,"aw"
	.p2align 3
	.globl	fake_entries
	.hidden	fake_entries
fake_entries:
#define FN(sym, cls, op, since, args) POINTER fake_entry_##sym
#include "decode/cuda_api.def"
#undef FN
#define EXTRA(sym)	  POINTER fake_entry_##sym
#define EXTRA_LOCKED(sym) POINTER fake_entry_##sym
#include "libcuda_extra.def"
#undef EXTRA
#undef EXTRA_LOCKED

	.section .note.GNU-stack,"",%progbits
