/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The targets of redirected functions: a thunk for each id, which calls inject_enter(), the real function with the same arguments, and inject_exit(), and returns the result of the real one. A call, and no change of
 * return addresses: unwinders, exceptions and shadow stacks go through it as through any function.
 *
 * The frame is a struct call (inject.h), followed by space for values that are saved around the calls of C: vector registers that hold arguments, and later the returned values.
 *
 * If calls of a function are off (inject.h: struct hook), its thunk jumps to it and does nothing else.
 */
#define PR_SET_SECCOMP 22
#define PR_SET_TSC     26
#define SECCOMP_MODE_STRICT 1
#define SECCOMP_SET_MODE_STRICT 0
#define PR_TSC_SIGSEGV 2
#define PR_SET_SYSCALL_USER_DISPATCH 59
#define HOOK_LOG       5 /* struct hook */
#define HOOK_BYPASS      8
#define HOOK_OFF_NS    16
#define SET_CHANGED_NS 40 /* struct ct_shm_set */

#ifdef __x86_64__
#include <cet.h>
#ifndef _CET_ENDBR
#define _CET_ENDBR
#endif
#define REGS	128
#define FUNC_ID 176
#define SP_AT	184
#define FP	192
#define RET	200
#define KEPT	256
#define FRAME	384

	.text
	.p2align 6
	.globl	inject_thunks
	.hidden	inject_thunks
	.type	inject_thunks, @function
inject_thunks:
	.set	id, 0
	.rept	4096	/* CT_MAX_FUNCS */
	.p2align 4
	_CET_ENDBR
	mov	$id, %r11d
	jmp	cudatrace_thunk
	.set	id, id + 1
	.endr
	.p2align 4
	.size	inject_thunks, . - inject_thunks

	.section .text.hot,"ax",@progbits
	.p2align 6
	.type	cudatrace_thunk, @function
cudatrace_thunk:
	.cfi_startproc
	shl	$HOOK_LOG, %r11d
	lea	inject_hooks(%rip), %r10
	add	%r10, %r11
	mov	inject_process(%rip), %r10
	mov	(%r10), %r10
	test	%r10, %r10
	jz	1f
	mov	SET_CHANGED_NS(%r10), %r10
	cmp	HOOK_OFF_NS(%r11), %r10
	jne	1f
	jmp	*HOOK_BYPASS(%r11)
1:	lea	inject_hooks(%rip), %r10
	sub	%r10, %r11
	shr	$HOOK_LOG, %r11d
	push	%rbp
	.cfi_def_cfa_offset 16
	.cfi_offset %rbp, -16
	mov	%rsp, %rbp
	.cfi_def_cfa_register %rbp
	sub	$FRAME, %rsp
	and	$-16, %rsp
	mov	%rdi, REGS(%rsp)
	mov	%rsi, REGS+8(%rsp)
	mov	%rdx, REGS+16(%rsp)
	mov	%rcx, REGS+24(%rsp)
	mov	%r8, REGS+32(%rsp)
	mov	%r9, REGS+40(%rsp)
	mov	%r11, FUNC_ID(%rsp)
	lea	8(%rbp), %rdi
	mov	%rdi, SP_AT(%rsp)
	mov	(%rbp), %rdi
	mov	%rdi, FP(%rsp)
	mov	8(%rbp), %rdi
	mov	%rdi, RET(%rsp)
	movaps	%xmm0, KEPT(%rsp)
	movaps	%xmm1, KEPT+16(%rsp)
	movaps	%xmm2, KEPT+32(%rsp)
	movaps	%xmm3, KEPT+48(%rsp)
	movaps	%xmm4, KEPT+64(%rsp)
	movaps	%xmm5, KEPT+80(%rsp)
	movaps	%xmm6, KEPT+96(%rsp)
	movaps	%xmm7, KEPT+112(%rsp)
	mov	%rsp, %rdi
	call	inject_enter
	mov	%rax, %r11
	movaps	KEPT(%rsp), %xmm0
	movaps	KEPT+16(%rsp), %xmm1
	movaps	KEPT+32(%rsp), %xmm2
	movaps	KEPT+48(%rsp), %xmm3
	movaps	KEPT+64(%rsp), %xmm4
	movaps	KEPT+80(%rsp), %xmm5
	movaps	KEPT+96(%rsp), %xmm6
	movaps	KEPT+112(%rsp), %xmm7
	mov	REGS(%rsp), %rdi
	mov	REGS+8(%rsp), %rsi
	mov	REGS+16(%rsp), %rdx
	mov	REGS+24(%rsp), %rcx
	mov	REGS+32(%rsp), %r8
	mov	REGS+40(%rsp), %r9
	call	*%r11
	mov	%rax, KEPT(%rsp)
	mov	%rdx, KEPT+8(%rsp)
	movaps	%xmm0, KEPT+16(%rsp)
	movaps	%xmm1, KEPT+32(%rsp)
	mov	%rsp, %rdi
	mov	%rax, %rsi
	call	inject_exit
	mov	KEPT(%rsp), %rax
	mov	KEPT+8(%rsp), %rdx
	movaps	KEPT+16(%rsp), %xmm0
	movaps	KEPT+32(%rsp), %xmm1
	leave
	.cfi_def_cfa %rsp, 8
	ret
	.cfi_endproc
	.size	cudatrace_thunk, . - cudatrace_thunk
	.text

	/* bypass.c: instructions that functions begin with, and a jump to what follows them there. */
	.bss
	.p2align 3
	.globl	inject_skip_to
	.hidden	inject_skip_to
	.type	inject_skip_to, @object
	.size	inject_skip_to, 64 * 8	/* BYPASS_MAX */
inject_skip_to:
	.zero	64 * 8
	.text
	.p2align 6
	.globl	inject_skips
	.hidden	inject_skips
	.type	inject_skips, @function
inject_skips:
	.cfi_startproc
	.irp	reg, rbx, rbp, r12, r13, r14, r15
	.set	i, 0
	.rept	64
	.p2align 3
	push	%\reg
	.cfi_adjust_cfa_offset 8
	jmp	*(inject_skip_to + 8 * i)(%rip)
	.cfi_adjust_cfa_offset -8
	.set	i, i + 1
	.endr
	.endr
	.set	i, 0
	.rept	64
	.p2align 3
	jmp	*(inject_skip_to + 8 * i)(%rip)
	.set	i, i + 1
	.endr
	.cfi_endproc
	.size	inject_skips, . - inject_skips

	/* Jumps to the function that the program would have called, with unchanged arguments. Its address is at this offset from inject_real. */
	.macro	PASS_ON at
8:	mov	(inject_real + \at)(%rip), %r11
	test	%r11, %r11
	jz	9f
	jmp	*%r11
9:	.irp	reg, rdi, rsi, rdx, rcx, r8, r9, rax
	push	%\reg
	.cfi_adjust_cfa_offset 8
	.endr
	call	inject_find_real
	.irp	reg, rax, r9, r8, rcx, rdx, rsi, rdi
	pop	%\reg
	.cfi_adjust_cfa_offset -8
	.endr
	mov	(inject_real + \at)(%rip), %r11
	test	%r11, %r11
	jnz	8b
	xor	%eax, %eax	/* there is none */
	ret
	.endm

	/*
	 * void *dlsym(void *handle, const char *name), in the place of libc's when the library is
	 * preloaded. If inject_dlsym() has no answer, the real function is reached by a jump, because it examines its return address: the meaning of RTLD_NEXT and RTLD_DEFAULT depends on the caller.
	 */
	.globl	dlsym
	.type	dlsym, @function
	.p2align 4
dlsym:
	.cfi_startproc
	_CET_ENDBR
	push	%rdi
	.cfi_adjust_cfa_offset 8
	push	%rsi
	.cfi_adjust_cfa_offset 8
	sub	$8, %rsp
	.cfi_adjust_cfa_offset 8
	call	inject_dlsym
	add	$8, %rsp
	.cfi_adjust_cfa_offset -8
	pop	%rsi
	.cfi_adjust_cfa_offset -8
	pop	%rdi
	.cfi_adjust_cfa_offset -8
	test	%rax, %rax
	jz	1f		/* the real function may find more for the caller, and sets the error */
	ret
1:	PASS_ON	0
	.cfi_endproc
	.size	dlsym, . - dlsym

	/* Used before a system call after which each read of the clock ends the program. */
	.macro	CLOCK_OFF
	.irp	reg, rdi, rsi, rdx, rcx, r8, r9, rax
	push	%\reg
	.cfi_adjust_cfa_offset 8
	.endr
	call	inject_clock_off
	.irp	reg, rax, r9, r8, rcx, rdx, rsi, rdi
	pop	%\reg
	.cfi_adjust_cfa_offset -8
	.endr
	.endm

	/*
	 * prctl() and syscall(): calls that set a filter for system calls are detected (sandbox.c). All calls continue to the real function.
	 */
	.globl	prctl
	.type	prctl, @function
	.p2align 4
prctl:
	.cfi_startproc
	_CET_ENDBR
	cmp	$PR_SET_SYSCALL_USER_DISPATCH, %edi
	je	0f
	cmp	$PR_SET_SECCOMP, %edi
	jne	1f
0:	movl	$1, inject_sandboxed(%rip)
	cmp	$PR_SET_SECCOMP, %edi
	jne	3f
	cmp	$SECCOMP_MODE_STRICT, %esi
	je	2f
1:	cmp	$PR_SET_TSC, %edi
	jne	3f
	cmp	$PR_TSC_SIGSEGV, %esi
	jne	3f
2:	CLOCK_OFF
3:	PASS_ON	8
	.cfi_endproc
	.size	prctl, . - prctl

	.globl	syscall
	.type	syscall, @function
	.p2align 4
syscall:
	.cfi_startproc
	_CET_ENDBR
	cmp	$317, %rdi	/* SYS_seccomp */
	jne	1f
	movl	$1, inject_sandboxed(%rip)
	cmp	$SECCOMP_SET_MODE_STRICT, %esi
	je	3f
1:	cmp	$157, %rdi	/* SYS_prctl */
	jne	4f
	cmp	$PR_SET_SECCOMP, %esi
	jne	2f
	movl	$1, inject_sandboxed(%rip)
	cmp	$SECCOMP_MODE_STRICT, %edx
	je	3f
2:	cmp	$PR_SET_TSC, %esi
	jne	4f
	cmp	$PR_TSC_SIGSEGV, %edx
	jne	4f
3:	CLOCK_OFF
4:	PASS_ON	16
	.cfi_endproc
	.size	syscall, . - syscall

#elif defined(__aarch64__)
#define REGS	128
#define FUNC_ID 192
#define SP_AT	200
#define FP	208
#define RET	216
#define KEPT	272
#define INDIRECT 400	/* x8: where a large result goes */
#define FRAME	416

	.text
	.p2align 6
	.globl	inject_thunks
	.hidden	inject_thunks
	.type	inject_thunks, %function
inject_thunks:
	.set	id, 0
	.rept	4096	/* CT_MAX_FUNCS */
	hint	#34	/* bti c */
	mov	w16, #id
	b	cudatrace_thunk
	nop
	.set	id, id + 1
	.endr
	.size	inject_thunks, . - inject_thunks

	.section .text.hot,"ax",%progbits
	.p2align 6
	.type	cudatrace_thunk, %function
cudatrace_thunk:
	.cfi_startproc
	adrp	x9, inject_process
	ldr	x9, [x9, :lo12:inject_process]
	ldr	x9, [x9]
	cbz	x9, 1f
	ldr	x9, [x9, #SET_CHANGED_NS]
	adrp	x10, inject_hooks
	add	x10, x10, :lo12:inject_hooks
	add	x10, x10, x16, lsl #HOOK_LOG
	ldr	x11, [x10, #HOOK_OFF_NS]
	cmp	x9, x11
	b.ne	1f
	ldr	x16, [x10, #HOOK_BYPASS]
	br	x16
1:	stp	x29, x30, [sp, #-16]!
	.cfi_def_cfa_offset 16
	.cfi_offset x29, -16
	.cfi_offset x30, -8
	mov	x29, sp
	.cfi_def_cfa x29, 16
	sub	sp, sp, #FRAME
	stp	x0, x1, [sp, #REGS]
	stp	x2, x3, [sp, #REGS+16]
	stp	x4, x5, [sp, #REGS+32]
	stp	x6, x7, [sp, #REGS+48]
	add	x9, x29, #16
	stp	x16, x9, [sp, #FUNC_ID]
	ldr	x9, [x29]
	stp	x9, x30, [sp, #FP]
	str	x8, [sp, #INDIRECT]
	stp	q0, q1, [sp, #KEPT]
	stp	q2, q3, [sp, #KEPT+32]
	stp	q4, q5, [sp, #KEPT+64]
	stp	q6, q7, [sp, #KEPT+96]
	mov	x0, sp
	bl	inject_enter
	mov	x16, x0
	ldr	x8, [sp, #INDIRECT]
	ldp	q0, q1, [sp, #KEPT]
	ldp	q2, q3, [sp, #KEPT+32]
	ldp	q4, q5, [sp, #KEPT+64]
	ldp	q6, q7, [sp, #KEPT+96]
	ldp	x0, x1, [sp, #REGS]
	ldp	x2, x3, [sp, #REGS+16]
	ldp	x4, x5, [sp, #REGS+32]
	ldp	x6, x7, [sp, #REGS+48]
	blr	x16
	stp	x0, x1, [sp, #KEPT]
	stp	q0, q1, [sp, #KEPT+16]
	stp	q2, q3, [sp, #KEPT+48]
	mov	x1, x0
	mov	x0, sp
	bl	inject_exit
	ldp	x0, x1, [sp, #KEPT]
	ldp	q0, q1, [sp, #KEPT+16]
	ldp	q2, q3, [sp, #KEPT+48]
	mov	sp, x29
	ldp	x29, x30, [sp], #16
	.cfi_def_cfa sp, 0
	.cfi_restore x29
	.cfi_restore x30
	ret
	.cfi_endproc
	.size	cudatrace_thunk, . - cudatrace_thunk
	.text

	/* As above. */
	.macro	PASS_ON at
8:	adrp	x16, inject_real + \at
	ldr	x16, [x16, :lo12:inject_real + \at]
	cbz	x16, 9f
	br	x16
9:	stp	x0, x1, [sp, #-80]!
	.cfi_def_cfa_offset 80
	stp	x2, x3, [sp, #16]
	stp	x4, x5, [sp, #32]
	stp	x6, x7, [sp, #48]
	str	x30, [sp, #64]
	.cfi_offset x30, -16
	bl	inject_find_real
	ldr	x30, [sp, #64]
	ldp	x6, x7, [sp, #48]
	ldp	x4, x5, [sp, #32]
	ldp	x2, x3, [sp, #16]
	ldp	x0, x1, [sp], #80
	.cfi_def_cfa_offset 0
	.cfi_restore x30
	adrp	x16, inject_real + \at
	ldr	x16, [x16, :lo12:inject_real + \at]
	cbnz	x16, 8b
	mov	x0, #0
	ret
	.endm
	.macro	NOTICE
	adrp	x16, inject_sandboxed
	mov	w17, #1
	str	w17, [x16, :lo12:inject_sandboxed]
	.endm
	.globl	dlsym
	.type	dlsym, %function
	.p2align 4
dlsym:
	.cfi_startproc
	hint	#34
	stp	x0, x1, [sp, #-32]!
	.cfi_def_cfa_offset 32
	str	x30, [sp, #16]
	.cfi_offset x30, -16
	bl	inject_dlsym
	mov	x9, x0
	ldr	x30, [sp, #16]
	ldp	x0, x1, [sp], #32
	.cfi_def_cfa_offset 0
	.cfi_restore x30
	cbz	x9, 1f
	mov	x0, x9
	ret
1:	PASS_ON	0
	.cfi_endproc
	.size	dlsym, . - dlsym

	.globl	prctl
	.type	prctl, %function
	.p2align 4
prctl:
	.cfi_startproc
	hint	#34
	cmp	w0, #PR_SET_SECCOMP
	b.ne	1f
	NOTICE
1:	PASS_ON	8
	.cfi_endproc
	.size	prctl, . - prctl

	.globl	syscall
	.type	syscall, %function
	.p2align 4
syscall:
	.cfi_startproc
	hint	#34
	cmp	x0, #277	/* SYS_seccomp */
	b.eq	1f
	cmp	x0, #167	/* SYS_prctl */
	b.ne	2f
	cmp	w1, #PR_SET_SECCOMP
	b.ne	2f
1:	NOTICE
2:	PASS_ON	16
	.cfi_endproc
	.size	syscall, . - syscall
#else
#error "thunks are for x86-64 and arm64"
#endif

	.section .note.GNU-stack,"",%progbits
