/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Ids of a task as the tracer's own PID namespace numbers them, so that they match its /proc. Tasks
 * of nested namespaces have such an id; all others have 0. */
#ifndef CT_IDS_BPF_H
#define CT_IDS_BPF_H

/* Maximum nesting of namespaces that is searched; the kernel allows 32. */
#define PIDNS_LEVELS 8

static __always_inline __u32 pid_number(struct pid *pid)
{
	const void *numbers = (const void *)pid + bpf_core_field_offset(struct pid, numbers);
	__u32 depth = BPF_CORE_READ(pid, level);

	/* Level 0 is the initial namespace of the machine, which is not ours. */
	for (__u32 i = 1; i < PIDNS_LEVELS && i <= depth; i++) {
		const struct upid *in = numbers + i * bpf_core_type_size(struct upid);

		if (BPF_CORE_READ(in, ns, ns.inum) == cfg.pidns)
			return BPF_CORE_READ(in, nr);
	}
	return 0;
}

static __always_inline __u32 task_tid(struct task_struct *task)
{
	return cfg.pidns ? pid_number(BPF_CORE_READ(task, thread_pid)) : BPF_CORE_READ(task, pid);
}

static __always_inline __u32 task_pid(struct task_struct *task)
{
	return cfg.pidns ? pid_number(BPF_CORE_READ(task, group_leader, thread_pid))
			 : BPF_CORE_READ(task, tgid);
}

/* pid << 32 | tid, like bpf_get_current_pid_tgid(). */
static __always_inline __u64 current_id(void)
{
	struct task_struct *task;

	if (!cfg.pidns)
		return bpf_get_current_pid_tgid();
	task = (struct task_struct *)bpf_get_current_task();
	return (__u64)task_pid(task) << 32 | task_tid(task);
}

#endif /* CT_IDS_BPF_H */
