/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Whether a process's parent would notice that the process is stopped for a moment. su, runuser,
 * script and nsenter stop themselves then, and a shell with job control takes the job for stopped.
 */
#ifndef CT_STOP_BPF_H
#define CT_STOP_BPF_H

#define SIGCHLD	     17
#define WAITERS_MAX  8
#define START_MAX_NS 1000000000ull

/* Returns whether a thread of the process waits for children that stop. */
static __always_inline bool waits_for_stops(struct signal_struct *signal)
{
	__u64 offset = bpf_core_field_offset(struct wait_opts, child_wait.entry);
	struct list_head *head = &signal->wait_chldexit.head;
	struct list_head *at = BPF_CORE_READ(signal, wait_chldexit.head.next);

	if (!bpf_core_type_exists(struct wait_opts))
		return false;
	for (int i = 0; i < WAITERS_MAX && at && at != head; i++) {
		struct wait_opts *w = (void *)at - offset;

		if (BPF_CORE_READ(w, wo_flags) & WUNTRACED)
			return true;
		at = BPF_CORE_READ(at, next);
	}
	return false;
}

static __always_inline bool stop_is_noticed(struct task_struct *task)
{
	struct task_struct *parent = BPF_CORE_READ(task, real_parent);
	struct signal_struct *signal = BPF_CORE_READ(parent, signal);
	struct sighand_struct *sighand = BPF_CORE_READ(parent, sighand);
	__u64 handler;

	if (task_pid(parent) == cfg.own_pid)
		return false;
	if (waits_for_stops(signal))
		return true;
	/* do_notify_parent_cldstop() of Linux 5.15 to 6.18 */
	handler = (__u64)BPF_CORE_READ(sighand, action[SIGCHLD - 1].sa.sa_handler);
	if (handler == 1 || BPF_CORE_READ(sighand, action[SIGCHLD - 1].sa.sa_flags) & SA_NOCLDSTOP)
		return false;
	/* It may read the signal from a descriptor. posix_spawn() and Python block all signals
	 * until the child has started and they run again. */
	if (!handler)
		return BPF_CORE_READ(parent, blocked.sig[0]) & 1ull << (SIGCHLD - 1) &&
		       (BPF_CORE_READ(parent, __state) ||
			bpf_ktime_get_ns() - BPF_CORE_READ(task, start_time) > START_MAX_NS);
	/* The handlers of shells matter only with job control: then each job has a group. */
	return BPF_CORE_READ(task, signal, pids[PIDTYPE_PGID]) !=
	       BPF_CORE_READ(signal, pids[PIDTYPE_PGID]);
}

#endif /* CT_STOP_BPF_H */
