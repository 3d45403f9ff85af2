/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Processes: which are traced, which start and end, which map a library. */
#ifndef CT_PROC_BPF_H
#define CT_PROC_BPF_H

static __always_inline void send_task(__u16 kind, struct task_struct *task, __u32 pid, __u32 tid,
				      __u32 parent_pid, __s32 exit_code, const char *comm)
{
	struct ct_task rec = {};

	rec_begin(&rec.rec, kind, sizeof(rec), pid, tid);
	rec.parent_pid = parent_pid;
	rec.exit_code = exit_code;
	rec.generation = task_generation(task);
	bpf_probe_read_kernel_str(rec.comm, sizeof(rec.comm), comm);
	/* The last process to exit ends the trace: wake the reader. */
	if (!rec_send(&rec, sizeof(rec), kind == CT_REC_EXIT))
		total_drop(CT_DROP_TASK);
}

/* Children without calls may use at most 1/FORK_PARTS of their user's share of processes. */
#define FORK_PARTS 4

static __always_inline int proc_fork(struct task_struct *parent, struct task_struct *child)
{
	__u32 ppid = task_pid(parent), pid = task_pid(child);
	/* A process without calls has a row only for its level. */
	__u32 parts = cfg.filter_mode == CT_FILTER_ALL ? FORK_PARTS : 1;
	struct ct_pid *p, copy;

	if (pid == ppid || !cfg.follow_children)
		return 0;
	p = bpf_map_lookup_elem(&pids, &ppid);
	if (!p)
		return 0;
	copy = *p;
	copy.flags &= ~CT_PID_F_STOPPED;
	copy.generation = task_generation(child);
	p = bpf_map_lookup_elem(&pids, &pid);
	if (p) { /* the end of the id's previous owner was not seen */
		copy.uid = p->uid;
		bpf_map_update_elem(&pids, &pid, &copy, BPF_EXIST);
	} else if (process_add(pid, &copy, parts)) {
		if (cfg.filter_mode == CT_FILTER_PIDS)
			total_drop(CT_DROP_PROCESSES);
		return 0;
	}
	inproc_fork(ppid, pid);
	python_fork(ppid, pid);
	send_task(CT_REC_FORK, child, pid, pid, ppid, 0, child->comm);
	return 0;
}

/* The old program's threads have ended, except the caller, which takes the leader's id. The
 * caller's old id is sent as the machine numbers it: in a PID namespace that thread cannot be
 * found. The level belonged to the old program. */
static __always_inline int proc_exec(struct task_struct *task, __u32 old_tid)
{
	__u32 pid = task_pid(task);
	struct ct_pid *p = bpf_map_lookup_elem(&pids, &pid);

	if (!p)
		return 0;
	p->level = CT_PROC_DEFAULT;
	p->generation = task_generation(task);
	inproc_end(pid);
	python_end(pid);
	names_forget(pid);
	if (!cfg.pidns)
		thread_end(old_tid);
	if (cfg.pidns || old_tid != pid)
		thread_end(pid);
	send_task(CT_REC_EXEC, task, pid, pid, 0, 0, task->comm);
	return 0;
}

static __always_inline int proc_exit(struct task_struct *task)
{
	__u32 pid = task_pid(task), tid = task_tid(task);
	struct task_struct *leader;
	struct ct_pid *p;
	int code;

	thread_end(tid);
	nv_thread_end(tid);
	if (BPF_CORE_READ(task, signal, live.counter))
		return 0;
	bpf_map_delete_elem(&usage, &pid);
	inproc_end(pid);
	python_end(pid);
	p = bpf_map_lookup_elem(&pids, &pid);
	/* When the last threads exit at the same time, none sees another one alive. */
	if (!p || !process_drop(pid, p->uid))
		return 0;
	names_forget(pid);
	/* The last thread can be any, with a name and a code of its own. The parent gets the same
	 * code as here (wait_task_zombie of Linux 5.15 to 6.18). */
	leader = BPF_CORE_READ(task, group_leader);
	if (BPF_CORE_READ(task, signal, flags) & SIGNAL_GROUP_EXIT)
		code = BPF_CORE_READ(task, signal, group_exit_code);
	else
		code = BPF_CORE_READ(leader, exit_code);
	send_task(CT_REC_EXIT, task, pid, pid, 0, code, leader->comm);
	return 0;
}

static __always_inline int proc_rename(struct task_struct *task, const char *comm)
{
	__u32 pid = task_pid(task), tid = task_tid(task);

	if (bpf_map_lookup_elem(&threads, &tid) || bpf_map_lookup_elem(&nv_threads, &tid))
		send_task(CT_REC_THREAD, task, pid, tid, 0, 0, comm);
	return 0;
}

#define MAP_ANONYMOUS 0x20
/* Only the alignment matters: libcudart 13 has 3 MB. arm64's linkers align all libraries to the
 * largest page, 64 KiB. The flags exclude mappings for thread stacks and heaps. */
#if defined(__TARGET_ARCH_x86)
#define RESERVE_SZ_MIN (2 << 20)
#else
#define RESERVE_SZ_MIN (64 << 10)
#endif
#define MAP_NORESERVE 0x4000
#define MAP_STACK     0x20000
/* Arguments of an mmap call. */
struct mmap_call {
	int fd;	      /* -1: no file */
	bool reserve; /* reserves address space, without access */
	bool compat;  /* 32-bit call */
};

static __always_inline struct mmap_call mmap_call(struct task_struct *task)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
	struct mmap_call c = {.fd = -1};
	__u64 len, prot, flags;
	int fd;
#if defined(__TARGET_ARCH_x86)
	struct pt_regs r = {};

	if (bpf_probe_read_kernel(&r, sizeof(r), regs))
		return c;
	c.compat = BPF_CORE_READ(task, thread_info.status) & TS_COMPAT;
	if (c.compat) { /* mmap2(ebx, ecx, edx, esi = flags, edi = fd) */
		if (r.orig_ax == 192 && !(r.si & MAP_ANONYMOUS))
			c.fd = r.di;
		return c;
	}
	if (r.orig_ax != 9)
		return c;
	len = r.si, prot = r.dx, flags = r.r10, fd = r.r8;
#else
	__u64 r[5];

	/* Read single registers: 6.1 rejects a program with all of them on the stack. */
	if (BPF_CORE_READ(regs, syscallno) != 222 || BPF_CORE_READ_INTO(&r, regs, regs))
		return c;
	len = r[1], prot = r[2], flags = r[3], fd = r[4];
#endif
	if (!(flags & MAP_ANONYMOUS))
		c.fd = fd;
	else
		c.reserve =
			!prot && len >= RESERVE_SZ_MIN && !(flags & (MAP_NORESERVE | MAP_STACK));
	return c;
}

static __always_inline bool has_stem(const char *name, const volatile char *stem)
{
	for (int i = 0; i < CT_STEM_SZ && stem[i]; i++)
		if (name[i] != stem[i])
			return false;
	return true;
}

/* The kernel puts "memfd:" before the name given to memfd_create(). */
#define MEMFD_LEN 6
static __always_inline bool is_in_memory(const char *name)
{
	return name[0] == 'm' && name[1] == 'e' && name[2] == 'm' && name[3] == 'f' &&
	       name[4] == 'd' && name[5] == ':';
}

/* Returns the file behind a descriptor (slot: its place in the table) if its name is libcuda.so* or
 * similar, else 0. The name goes to rec. The function is not static and has no kernel pointers as
 * parameters, so it is verified once. In each iteration of the loop below that took 390000 steps.
 */
__noinline __u64 open_library(__u64 slot, struct ct_lib_map *rec)
{
	const unsigned char *name;
	struct file *file;

	if (!rec || bpf_probe_read_kernel(&file, sizeof(file), (void *)slot) || !file)
		return 0;
	name = BPF_CORE_READ(file, f_path.dentry, d_name.name);
	bpf_probe_read_kernel_str(rec->name, sizeof(rec->name), name);
	if (is_in_memory(rec->name))
		bpf_probe_read_kernel_str(rec->name, sizeof(rec->name), name + MEMFD_LEN);
	for (int i = 0; i < CT_STEMS_MAX && cfg.stems[i][0]; i++)
		if (has_stem(rec->name, cfg.stems[i]))
			return (__u64)file;
	return 0;
}

/* A loader has few files open; a program that loads libraries late may have more. Two loops: the
 * verifier walks 16 and 32 iterations instead of 512. */
#define FDS_AT_ONCE   32
#define FDS_LOOKED_AT (16 * FDS_AT_ONCE)

/* Returns the file of such a library behind one of cnt descriptors (at most FDS_AT_ONCE), else 0.
 * Adds the number examined to rec->fd. */
__noinline __u64 open_libraries(__u64 slots, __u32 cnt, struct ct_lib_map *rec)
{
	__u64 file = 0;

	if (!rec)
		return 0;
	for (__u32 i = 0; i < FDS_AT_ONCE && i < cnt && !file; i++, rec->fd++)
		file = open_library(slots + i * sizeof(struct file *), rec);
	return file;
}

/*
 * Returns the library that the current mmap call maps or is about to map. glibc maps a library in
 * two steps if its segments are aligned to more than a page (2 MB: drivers up to 470; arm64: all).
 * First it reserves address space without a file. Then it maps the file there with MAP_FIXED, which
 * does not search for space and so does not get here. The file is already open in the first step.
 */
static __always_inline struct file *
mmap_library(struct task_struct *task, const struct mmap_call *call, struct ct_lib_map *rec)
{
	struct file **fds = BPF_CORE_READ(task, files, fdt, fd);
	__u32 cnt = BPF_CORE_READ(task, files, fdt, max_fds);

	rec->fd = call->fd;
	if (call->fd >= 0 && (__u32)call->fd < cnt)
		return (struct file *)open_library((__u64)(fds + call->fd), rec);
	if (call->fd >= 0 || !call->reserve)
		return NULL;
	for (__u32 fd = 0; fd < FDS_LOOKED_AT && fd < cnt; fd += FDS_AT_ONCE) {
		__u64 file = open_libraries((__u64)(fds + fd), cnt - fd, rec);

		/* rec->fd started at -1, so it is now the last descriptor examined. */
		if (file)
			return (struct file *)file;
	}
	return NULL;
}

/* Calls from a newly mapped file must be symbolised while it is mapped. The reader reads the
 * mappings when the thread's next call arrives. */
static __always_inline void wake_on_file(const struct mmap_call *call, __u32 tid)
{
	struct ct_thread *t;

	if (!cfg.wake_on_thread || call->fd < 0)
		return;
	t = bpf_map_lookup_elem(&threads, &tid);
	if (t)
		t->wake = 1;
}

static __always_inline int proc_mmap(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 pid = current_id() >> 32;
	struct ct_lib_map rec = {}, *out;
	struct ct_lib_key key = {};
	struct mmap_call call;
	struct ct_pid *p;
	struct file *file;
	void *ring;
	bool known;
	__u32 dev;

	p = bpf_map_lookup_elem(&pids, &pid);
	if (!pid || pid == cfg.own_pid || pid == cfg.links_pid ||
	    (!p && cfg.filter_mode == CT_FILTER_PIDS))
		return 0;
	call = mmap_call(task);
	wake_on_file(&call, (__u32)current_id());
	file = mmap_library(task, &call, &rec);
	if (!file)
		return 0;
	dev = BPF_CORE_READ(file, f_inode, i_sb, s_dev);
	key.ino = BPF_CORE_READ(file, f_inode, i_ino);
	key.dev_major = dev >> 20;
	key.dev_minor = dev & 0xfffff;
	known = bpf_map_lookup_elem(&known_libs, &key);
	/* Probably space for a heap. */
	if (call.reserve && known)
		return 0;
	/* Before stopping the process: without a record nothing would continue it. */
	ring = this_ring();
	out = ring ? bpf_ringbuf_reserve(ring, sizeof(*out), 0) : NULL;
	if (!out) {
		total_drop(CT_DROP_LIB);
		return 0;
	}
	if (p && p->flags & CT_PID_F_STOP_ON_LIB && !call.compat &&
	    (!known || !python_is_known(pid))) {
		if (stop_is_noticed(task) ||
		    (!(p->flags & CT_PID_F_STOPPED) && is_being_stopped(task))) {
			rec.rec.flags |= known ? 0 : CT_LIB_F_RUNS;
			goto send;
		}
		/* Must come first, because the tracer's guard needs it if the tracer dies now
		 * (src/attach/guard.h). */
		p->flags |= CT_PID_F_STOPPED;
		if (!bpf_send_signal(SIGSTOP))
			rec.rec.flags |= CT_LIB_F_STOPPED;
	}
send:
	if (call.compat)
		rec.rec.flags |= CT_LIB_F_COMPAT;
	rec_begin(&rec.rec, CT_REC_LIB, sizeof(rec), pid, (__u32)current_id());
	rec.ino = key.ino;
	rec.dev_major = key.dev_major;
	rec.dev_minor = key.dev_minor;
	rec.uid = (__u32)bpf_get_current_uid_gid();
	bpf_get_current_comm(rec.comm, sizeof(rec.comm));
	__builtin_memcpy(out, &rec, sizeof(rec));
	/* Always wake: the process may be stopped until user space has attached. */
	bpf_ringbuf_submit(out, BPF_RB_FORCE_WAKEUP);
	return 0;
}

#endif /* CT_PROC_BPF_H */
