/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * --kernel by the tracepoints of all system calls, for systems where the driver's entry points
 * cannot be probed. A file is recognised by its device number. The records are those of nv.bpf.h.
 */
#ifndef CT_NV_SYS_BPF_H
#define CT_NV_SYS_BPF_H

#if defined(__TARGET_ARCH_x86)
#define NR_IOCTL      16
#define NR_MMAP	      9
#define NR_CLOSE      3
#define NR_OPENAT     257
#define SYSCALL_NR(r) BPF_CORE_READ(r, orig_ax)
#else
#define NR_IOCTL      29
#define NR_MMAP	      222
#define NR_CLOSE      57
#define NR_OPENAT     56
#define SYSCALL_NR(r) BPF_CORE_READ(r, syscallno)
#endif

static __always_inline struct file *fd_file(int fd)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	struct file *file = NULL, **fds;

	if (fd < 0 || (__u32)fd >= BPF_CORE_READ(task, files, fdt, max_fds))
		return NULL;
	fds = BPF_CORE_READ(task, files, fdt, fd);
	bpf_probe_read_kernel(&file, sizeof(file), fds + fd);
	return file;
}

/* Returns whether this close releases the file. Copies of the descriptor, also in other processes,
 * and mappings keep it open. */
static __always_inline bool is_last_reference(const struct file *file)
{
	const struct file___ref *ref = (const void *)file;
	const struct file___pre_6_13 *count = (const void *)file;

	if (bpf_core_field_exists(ref->f_ref))
		return BPF_CORE_READ(ref, f_ref.refcnt.counter) <= 0;
	return BPF_CORE_READ(count, f_count.counter) <= 1;
}

/* Returns 1 or 0; negative: the path is not in memory. */
static __always_inline int is_nv_path(const char *user)
{
	char path[sizeof(CT_NV_PATH)] = {};

	if (bpf_probe_read_user(path, sizeof(path) - 1, user))
		return -1;
	return NV_BEGINS(path, CT_NV_PATH);
}

static __always_inline int nv_sys_enter(struct pt_regs *regs, long nr)
{
	struct nv_what w = {.fd = -1};

	switch (nr) {
	case NR_IOCTL:
		w.op = CT_NV_IOCTL;
		w.fd = (int)PT_REGS_PARM1_CORE_SYSCALL(regs);
		w.cmd = PT_REGS_PARM2_CORE_SYSCALL(regs);
		w.arg = PT_REGS_PARM3_CORE_SYSCALL(regs);
		break;
	case NR_MMAP:
		w.op = CT_NV_MMAP;
		w.fd = (int)PT_REGS_PARM5_CORE_SYSCALL(regs);
		w.arg = PT_REGS_PARM2_CORE_SYSCALL(regs);
		break;
	case NR_CLOSE:
		w.op = CT_NV_CLOSE;
		w.fd = (int)PT_REGS_PARM1_CORE_SYSCALL(regs);
		break;
	case NR_OPENAT:
		/* A path that is not in memory yet is checked again when openat returns. */
		if (!is_nv_path((const char *)PT_REGS_PARM2_CORE_SYSCALL(regs)))
			return 0;
		w.op = CT_NV_OPEN;
		return nv_enter(&w);
	default:
		return 0;
	}
	w.file = fd_file(w.fd);
	if (!w.file)
		return 0;
	w.is_release = w.op == CT_NV_CLOSE && is_last_reference(w.file);
	return nv_enter(&w);
}

/* openat has returned, so the file exists: drop the call unless it is a device. */
static __always_inline void nv_opened(struct ct_nv_thread *st, struct pt_regs *regs, long ret)
{
	struct ct_nv *rec = (struct ct_nv *)st->out;
	struct file *file = ret >= 0 ? fd_file(ret) : NULL;
	__u16 minor = 0;

	if (!file) { /* failed: the device is unknown */
		rec->dev = CT_NV_OTHER;
		if (is_nv_path((const char *)PT_REGS_PARM2_CORE_SYSCALL(regs)) <= 0)
			st->active = 0;
		return;
	}
	rec->dev = nv_dev_of(file, &minor);
	rec->minor = minor;
	if (cfg.redact != CT_REDACT_ARGS) {
		rec->file = (__u64)file;
		rec->fd = ret;
	}
	if (!rec->dev)
		st->active = 0;
}

static __always_inline int nv_sys_exit(struct pt_regs *regs, long ret)
{
	__u32 tid = current_id();
	struct ct_nv_thread *st;

	switch (SYSCALL_NR(regs)) {
	case NR_IOCTL:
	case NR_MMAP:
	case NR_CLOSE:
	case NR_OPENAT:
		break;
	default:
		return 0;
	}
	st = bpf_map_lookup_elem(&nv_threads, &tid);
	if (!st || !st->active)
		return 0;
	if (((struct ct_nv *)st->out)->op == CT_NV_OPEN)
		nv_opened(st, regs, ret);
	return nv_exit(ret, true);
}

#endif /* CT_NV_SYS_BPF_H */
