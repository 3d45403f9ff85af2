/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Registers of threads, from which user space unwinds their stacks. No thread is stopped. */
#ifndef CT_REGS_BPF_H
#define CT_REGS_BPF_H

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, CT_REGS_MAX);
	__type(key, __u32); /* thread */
	__type(value, struct ct_regs);
} regs SEC(".maps");

static __always_inline void regs_read_rets(struct task_struct *task, struct ct_regs *r)
{
	struct return_instance *ri = BPF_CORE_READ(task, utask, return_instances);

	r->ret_cnt = 0;
	for (__u32 i = 0; i < CT_REGS_RETS && ri; i++) {
		r->rets[i].at = BPF_CORE_READ(ri, stack);
		r->rets[i].ip = BPF_CORE_READ(ri, orig_ret_vaddr);
		r->ret_cnt = i + 1;
		ri = BPF_CORE_READ(ri, next);
	}
}

static __always_inline void regs_read(struct task_struct *task)
{
	__u32 tid = task_tid(task);
	struct ct_regs *r = bpf_map_lookup_elem(&regs, &tid);
	struct pt_regs *user;

	if (!r || r->pid != task_pid(task))
		return;
	user = (struct pt_regs *)bpf_task_pt_regs(task);
	r->ip = PT_REGS_IP_CORE(user);
	r->sp = PT_REGS_SP_CORE(user);
	r->fp = PT_REGS_FP_CORE(user);
#if defined(__TARGET_ARCH_x86)
	r->tls = BPF_CORE_READ(task, thread.fsbase);
#endif
	r->runs = !BPF_CORE_READ(task, __state);
	regs_read_rets(task, r);
	r->seen = 1;
}

#endif /* CT_REGS_BPF_H */
