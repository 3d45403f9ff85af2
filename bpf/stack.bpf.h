/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * --stack: return addresses of a call, starting with its own, as the kernel finds them by frame
 * pointers. They follow the record's pointees.
 */
#ifndef CT_STACK_BPF_H
#define CT_STACK_BPF_H

/* Returns the bytes of addresses; the first is the instruction pointer. 0: none. */
static __noinline long stack_read(void *ctx, struct ct_thread *t, __u32 off)
{
	if (off > CT_OUT_STACK_OFF_MAX)
		return 0;
	return bpf_get_stack(ctx, t->out + off, CT_STACK_MAX * 8, BPF_F_USER_STACK);
}

static __always_inline __u32 stack_took(struct ct_thread *t, long n)
{
	if (n < 8 || n > CT_STACK_MAX * 8)
		return 0;
	((struct ct_call *)t->out)->stack_cnt = (__u32)n / 8;
	return n & ~7u;
}

/* At a return the instruction pointer is the address that the call returns to, and the frame
 * pointer is its caller's again. */
static __always_inline __u32 stack_of_return(void *ctx, struct ct_thread *t, __u32 off)
{
	return stack_took(t, stack_read(ctx, t, off));
}

/*
 * At the entry, the frame pointer register is still the caller's, so unwinding misses the return
 * address on top of the stack. It replaces the first address, which is the entered function. Newer
 * kernels find it, too, if they recognise the function's first instructions: then it is there
 * twice.
 */
static __always_inline __u32 stack_of_entry(struct pt_regs *ctx, struct ct_thread *t, __u32 off)
{
	long n = stack_read(ctx, t, off);
	__u64 ret = 0;

#if defined(__TARGET_ARCH_x86)
	if (bpf_probe_read_user(&ret, sizeof(ret), (void *)PT_REGS_SP(ctx)))
		return 0;
#else
	ret = PT_REGS_RET(ctx);
#endif
	barrier_var(off);
	if (off > CT_OUT_STACK_OFF_MAX)
		return 0;
	__builtin_memcpy(t->out + off, &ret, sizeof(ret));
	return stack_took(t, n);
}

#endif /* CT_STACK_BPF_H */
