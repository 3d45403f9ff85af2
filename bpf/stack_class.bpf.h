/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Where a call is on the stack, and on which: was it left without returning, may it return? */
#ifndef CT_STACK_CLASS_BPF_H
#define CT_STACK_CLASS_BPF_H

/*
 * Where the kernel makes a probed call return to, to get there first; 0: not known. A call that may
 * still return has this in the place of its return address.
 */
static __always_inline __u64 return_trampoline(void)
{
#if defined(__TARGET_ARCH_x86)
	struct mm_struct *mm = bpf_get_current_task_btf()->mm;

	return mm ? mm->uprobes_state.xol_area->vaddr : 0;
#else
	return 0; /* the return address is in a register first, and then nobody knows where */
#endif
}

/* Not static, with numbers for arguments: verified once each, not for every frame of a thread. */

/* Was the call left without returning, and its place on the stack used again? */
__noinline int frame_is_stale(__u64 sp, __u64 trampoline)
{
	__u64 ret = 0;

	return trampoline && !bpf_probe_read_user(&ret, sizeof(ret), (void *)sp) &&
	       ret != trampoline;
}

/* Calls that are no farther from each other are on one stack: smaller ones than 16 KiB, the least
 * that a POSIX thread may have, do not lie side by side. */
#define SAME_STACK_SZ (12 << 10)
/* Where nobody can have gone to another. */
#define DEEP_STACK_SZ (1 << 20)

static __always_inline bool is_on_sigaltstack(__u64 sp)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();

	return sp - BPF_CORE_READ(task, sas_ss_sp) < BPF_CORE_READ(task, sas_ss_size);
}

/*
 * Does a call begin on another stack than that of a call which the thread is in? One that lies far
 * off on the same stack is taken for such. A signal handler is through before what it interrupts
 * goes on: its stack may well lie below. deep: CT_SPEC_F_DEEP of the outer one.
 */
__noinline int on_other_stack(__u64 sp, __u64 outer_sp, bool deep)
{
	bool is_handler;

	if (sp > outer_sp && sp - outer_sp > SAME_STACK_SZ)
		return true;
	if (sp <= outer_sp && outer_sp - sp <= (deep ? DEEP_STACK_SZ : SAME_STACK_SZ))
		return false;
	is_handler = is_on_sigaltstack(sp) && !is_on_sigaltstack(outer_sp);
	return sp > outer_sp ? is_handler : !is_handler;
}

#endif /* CT_STACK_CLASS_BPF_H */
