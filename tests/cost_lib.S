/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A libcuda for measuring: two functions that do nothing. The kernel emulates the first instruction
 * of one under a probe, and single-steps that of the other. The third is PyTorch's, for --torch.
 */
	.text
#define BEGINS _ZN2at27getStepCallbacksUnlessEmptyENS_11RecordScopeE
	.globl cuCtxSetCurrent, cuCtxGetDevice, BEGINS
	.type cuCtxSetCurrent, %function
	.type cuCtxGetDevice, %function
	.type BEGINS, %function
#ifdef __x86_64__
BEGINS:
cuCtxSetCurrent:
	push %rbp
	mov %rsp, %rbp
	xor %eax, %eax
	pop %rbp
	ret
cuCtxGetDevice:
	xor %eax, %eax
	ret
#else
BEGINS:
cuCtxSetCurrent:
	nop
cuCtxGetDevice:
	mov w0, wzr
	ret
#endif
	.size cuCtxSetCurrent, .-cuCtxSetCurrent
	.size BEGINS, cuCtxGetDevice - BEGINS
	.size cuCtxGetDevice, .-cuCtxGetDevice
	.section .note.GNU-stack, "", %progbits
