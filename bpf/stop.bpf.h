/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Detects whether it would do harm to stop a process for a moment. A parent may detect it: su,
 * runuser, script and nsenter stop themselves then, and a shell with job control treats the job as
 * stopped.
 */
#ifndef CT_STOP_BPF_H
#define CT_STOP_BPF_H

#define SIGCHLD	      17
#define SIGSTOP	      19
#define WAITERS_MAX   8
#define START_MAX_NS  1000000000ull
#define ANCESTORS_MAX 32
#define PT_SEIZED     0x10000

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

/* Returns whether the process runs a program whose handler ignores stops: a shell (bash, dash,
 * zsh5, ksh93, busybox), or timeout. By its file: the process may have the name of a script. */
static __always_inline bool ignores_stops(struct task_struct *task)
{
	const unsigned char *from = BPF_CORE_READ(task, mm, exe_file, f_path.dentry, d_name.name);
	const __u64 busybox = 0x00786f6279737562, timeout = 0x0074756f656d6974; /* as words */
	__u64 words[2] = {0};
	const char *name = (const char *)words;
	char before = 0, last = 0;

	if (bpf_probe_read_kernel_str(words, sizeof(words), from) < 0)
		return false;
	if (words[0] == busybox || words[0] == timeout)
		return true;
	for (int i = 0; i < (int)sizeof(words) && name[i]; i++) {
		if (name[i] >= '0' && name[i] <= '9')
			continue;
		before = last;
		last = name[i];
	}
	return before == 's' && last == 'h';
}

/* Returns whether it runs su, runuser or script, which read SIGCHLD from a descriptor. */
static __always_inline bool reads_signal(struct task_struct *task)
{
	const __u64 su = 0x7573, runuser = 0x00726573756e7572, script = 0x0000747069726373;
	__u64 word = 0; /* the name's first bytes */

	if (bpf_probe_read_kernel(&word, sizeof(word), task->comm))
		return false;
	return word == su || word == runuser || word == script;
}

/* Returns whether it runs timeout, which outlives its child. */
static __always_inline bool is_timeout(struct task_struct *task)
{
	const __u64 timeout = 0x0074756f656d6974;
	__u64 word = 0;

	return !bpf_probe_read_kernel(&word, sizeof(word), task->comm) && word == timeout;
}

static __always_inline struct pid *group_of(struct task_struct *task, int type)
{
	return BPF_CORE_READ(task, signal, pids[type]);
}

/*
 * When a process group becomes orphaned while a member is stopped, the kernel sends SIGHUP to all
 * of it (kill_orphaned_pgrp(), Linux 5.15 to 6.18). A group is not orphaned while a member has a
 * parent outside the group in the same session. The tracer does not end while it stops a process. A
 * launcher may: then its child in a group of its own, or the launcher's whole group, gets SIGHUP.
 */
static __always_inline bool may_be_orphaned(struct task_struct *task)
{
	struct pid *group = group_of(task, PIDTYPE_PGID);
	struct task_struct *member = task, *parent;

	for (int i = 0; i < ANCESTORS_MAX; i++) {
		parent = BPF_CORE_READ(member, real_parent);
		if (group_of(parent, PIDTYPE_PGID) != group) {
			if (group_of(parent, PIDTYPE_SID) != group_of(task, PIDTYPE_SID))
				return false; /* it is orphaned */
			return task_pid(parent) != cfg.own_pid || (i && !is_timeout(member));
		}
		if (task_pid(parent) == cfg.own_pid)
			return false;
		member = parent;
	}
	return true;
}

/* Somebody has sent it a SIGSTOP: another would be one with it, and be ended with ours. */
static __always_inline bool is_being_stopped(struct task_struct *task)
{
	return BPF_CORE_READ(task, signal, shared_pending.signal.sig[0]) & 1ull << (SIGSTOP - 1);
}

static __always_inline bool stop_is_noticed(struct task_struct *task)
{
	struct task_struct *parent = BPF_CORE_READ(task, real_parent);
	struct signal_struct *signal = BPF_CORE_READ(parent, signal);
	struct sighand_struct *sighand = BPF_CORE_READ(parent, sighand);
	__u64 handler;

	/* Tracers that attach in the old way take the SIGSTOP for one of their own. */
	if (BPF_CORE_READ(task, ptrace) && !(BPF_CORE_READ(task, ptrace) & PT_SEIZED))
		return true;
	if (may_be_orphaned(task))
		return true;
	if (task_pid(parent) == cfg.own_pid)
		return false;
	if (waits_for_stops(signal))
		return true;
	/* do_notify_parent_cldstop() of Linux 5.15 to 6.18 */
	handler = (__u64)BPF_CORE_READ(sighand, action[SIGCHLD - 1].sa.sa_handler);
	if (handler == 1 || BPF_CORE_READ(sighand, action[SIGCHLD - 1].sa.sa_flags) & SA_NOCLDSTOP)
		return false;
	/* The parent may read the signal from a descriptor. posix_spawn() and Python block all
	 * signals until the child has started and they run again. */
	if (!handler)
		return BPF_CORE_READ(parent, blocked.sig[0]) & 1ull << (SIGCHLD - 1) &&
		       (BPF_CORE_READ(parent, __state) || reads_signal(parent) ||
			bpf_ktime_get_ns() - BPF_CORE_READ(task, start_time) > START_MAX_NS);
	/* The handlers of shells matter only with job control: then each job has a group. Any other
	 * handler interrupts the system calls of its process. */
	return !ignores_stops(parent) || BPF_CORE_READ(task, signal, pids[PIDTYPE_PGID]) !=
						 BPF_CORE_READ(signal, pids[PIDTYPE_PGID]);
}

#endif /* CT_STOP_BPF_H */
