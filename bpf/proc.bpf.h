/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Processes: who is traced, who appears and leaves, who maps a libcuda. */
#ifndef CT_PROC_BPF_H
#define CT_PROC_BPF_H

static __always_inline void send_task(__u16 kind, __u32 pid, __u32 tid, __u32 parent_pid,
				      __s32 exit_code, const char *comm)
{
	struct ct_task rec = {};

	rec.rec.size = sizeof(rec);
	rec.rec.kind = kind;
	rec.rec.ts_ns = bpf_ktime_get_ns();
	rec.rec.pid = pid;
	rec.rec.tid = tid;
	rec.parent_pid = parent_pid;
	rec.exit_code = exit_code;
	bpf_probe_read_kernel_str(rec.comm, sizeof(rec.comm), comm);
	/* The last process to exit ends the trace: the reader should not sleep over it. */
	if (bpf_ringbuf_output(&ring, &rec, sizeof(rec),
			       kind == CT_REC_EXIT ? BPF_RB_FORCE_WAKEUP : wake_flags(sizeof(rec))))
		total_drop(CT_DROP_TASK);
}

static __always_inline int proc_fork(struct task_struct *parent, struct task_struct *child)
{
	__u32 ppid = BPF_CORE_READ(parent, tgid), pid = BPF_CORE_READ(child, tgid);
	struct ct_pid *p, copy;

	if (pid == ppid || !cfg.follow_children)
		return 0;
	p = bpf_map_lookup_elem(&pids, &ppid);
	if (!p)
		return 0;
	copy = *p;
	bpf_map_update_elem(&pids, &pid, &copy, BPF_ANY);
	send_task(CT_REC_FORK, pid, pid, ppid, 0, child->comm);
	return 0;
}

/* Threads of the old program but the caller are gone; the caller takes the leader's id. */
static __always_inline int proc_exec(struct task_struct *task, __u32 old_tid)
{
	__u32 pid = BPF_CORE_READ(task, tgid);

	if (!bpf_map_lookup_elem(&pids, &pid))
		return 0;
	thread_end(old_tid);
	if (old_tid != pid)
		thread_end(pid);
	send_task(CT_REC_EXEC, pid, pid, 0, 0, task->comm);
	return 0;
}

static __always_inline int proc_exit(struct task_struct *task)
{
	__u32 pid = BPF_CORE_READ(task, tgid), tid = BPF_CORE_READ(task, pid);

	thread_end(tid);
	nv_thread_end(tid);
	if (!bpf_map_lookup_elem(&pids, &pid))
		return 0;
	if (BPF_CORE_READ(task, signal, live.counter))
		return 0;
	bpf_map_delete_elem(&pids, &pid);
	send_task(CT_REC_EXIT, pid, tid, 0, BPF_CORE_READ(task, exit_code), task->comm);
	return 0;
}

static __always_inline int proc_rename(struct task_struct *task, const char *comm)
{
	__u32 pid = BPF_CORE_READ(task, tgid), tid = BPF_CORE_READ(task, pid);

	if (bpf_map_lookup_elem(&threads, &tid) || bpf_map_lookup_elem(&nv_threads, &tid))
		send_task(CT_REC_THREAD, pid, tid, 0, 0, comm);
	return 0;
}

#define MAP_ANONYMOUS 0x20
#define SIGSTOP	      19

/* The file descriptor that the current mmap call maps, or -1; *compat: a 32-bit call. */
static __always_inline int mmap_fd(struct task_struct *task, bool *compat)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
	struct pt_regs r = {};

	if (bpf_probe_read_kernel(&r, sizeof(r), regs))
		return -1;
#if defined(__TARGET_ARCH_x86)
	*compat = BPF_CORE_READ(task, thread_info.status) & TS_COMPAT;
	if (*compat) /* mmap2(ebx, ecx, edx, esi = flags, edi = fd) */
		return r.orig_ax == 192 && !(r.si & MAP_ANONYMOUS) ? (int)r.di : -1;
	return r.orig_ax == 9 && !(r.r10 & MAP_ANONYMOUS) ? (int)r.r8 : -1;
#else
	*compat = false;
	return r.syscallno == 222 && !(r.regs[3] & MAP_ANONYMOUS) ? (int)r.regs[4] : -1;
#endif
}

static __always_inline int proc_mmap(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 pid = bpf_get_current_pid_tgid() >> 32;
	struct ct_lib_map rec = {};
	struct ct_lib_key key = {};
	struct ct_pid *p;
	struct file *file, **fds;
	const unsigned char *name;
	unsigned int max_fds;
	bool compat = false;
	__u32 dev;
	int fd;

	p = bpf_map_lookup_elem(&pids, &pid);
	if (pid == cfg.own_pid || (!p && cfg.filter_mode == CT_FILTER_PIDS))
		return 0;
	fd = mmap_fd(task, &compat);
	if (fd < 0)
		return 0;
	max_fds = BPF_CORE_READ(task, files, fdt, max_fds);
	if ((unsigned int)fd >= max_fds)
		return 0;
	fds = BPF_CORE_READ(task, files, fdt, fd);
	if (bpf_probe_read_kernel(&file, sizeof(file), fds + fd) || !file)
		return 0;
	name = BPF_CORE_READ(file, f_path.dentry, d_name.name);
	bpf_probe_read_kernel_str(rec.name, sizeof(rec.name), name);
	if (!starts_with(rec.name, "libcuda.so", 10))
		return 0;
	dev = BPF_CORE_READ(file, f_inode, i_sb, s_dev);
	key.ino = BPF_CORE_READ(file, f_inode, i_ino);
	key.dev_major = dev >> 20;
	key.dev_minor = dev & 0xfffff;
	if (p && p->flags & CT_PID_F_STOP_ON_LIB && !compat &&
	    !bpf_map_lookup_elem(&known_libs, &key) && !bpf_send_signal(SIGSTOP))
		rec.rec.flags |= CT_LIB_F_STOPPED;
	if (compat)
		rec.rec.flags |= CT_LIB_F_COMPAT;
	rec.rec.size = sizeof(rec);
	rec.rec.kind = CT_REC_LIB;
	rec.rec.ts_ns = bpf_ktime_get_ns();
	rec.rec.pid = pid;
	rec.rec.tid = (__u32)bpf_get_current_pid_tgid();
	rec.ino = key.ino;
	rec.dev_major = key.dev_major;
	rec.dev_minor = key.dev_minor;
	bpf_get_current_comm(rec.comm, sizeof(rec.comm));
	/* Always wakes: a process may stand still until user space has attached. */
	if (bpf_ringbuf_output(&ring, &rec, sizeof(rec), BPF_RB_FORCE_WAKEUP))
		total_drop(CT_DROP_LIB);
	return 0;
}

#endif /* CT_PROC_BPF_H */
