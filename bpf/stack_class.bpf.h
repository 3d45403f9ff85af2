/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Position of a call on its stack: whether it was abandoned, and whether it can still return. */
#ifndef CT_STACK_CLASS_BPF_H
#define CT_STACK_CLASS_BPF_H

/*
 * Returns the address to which the kernel redirects the return of a probed call; 0: unknown. A call
 * that may still return has this in place of its return address.
 */
static __always_inline __u64 return_trampoline(void)
{
#if defined(__TARGET_ARCH_x86)
	struct mm_struct *mm = bpf_get_current_task_btf()->mm;

	return mm ? mm->uprobes_state.xol_area->vaddr : 0;
#else
	return 0; /* the return address starts in a register, and its later place is unknown */
#endif
}

/* The functions below are not static, and their parameters are numbers, so each is verified once,
 * not for every frame of a thread. */

/* Returns whether the call was abandoned and its place on the stack reused. */
__noinline int frame_is_stale(__u64 sp, __u64 trampoline)
{
	__u64 ret = 0;

	return trampoline && !bpf_probe_read_user(&ret, sizeof(ret), (void *)sp) &&
	       ret != trampoline;
}

/* CT_SAME_STACK_SZ where the thread cannot have switched stacks. */
#define DEEP_STACK_SZ (1 << 20)

static __always_inline bool is_on_sigaltstack(__u64 sp)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();

	return sp - BPF_CORE_READ(task, sas_ss_sp) < BPF_CORE_READ(task, sas_ss_size);
}

/*
 * Returns whether a call begins on another stack than an enclosing call. A distant call on the same
 * stack is treated as one on another. A signal handler ends before the interrupted code continues,
 * so its stack may lie below. deep: CT_SPEC_F_DEEP of the outer call.
 */
__noinline int on_other_stack(__u64 sp, __u64 outer_sp, bool deep)
{
	bool is_handler;

	if (sp > outer_sp && sp - outer_sp > CT_SAME_STACK_SZ)
		return true;
	if (sp <= outer_sp && outer_sp - sp <= (deep ? DEEP_STACK_SZ : CT_SAME_STACK_SZ))
		return false;
	is_handler = is_on_sigaltstack(sp) && !is_on_sigaltstack(outer_sp);
	return sp > outer_sp ? is_handler : !is_handler;
}

#endif /* CT_STACK_CLASS_BPF_H */
