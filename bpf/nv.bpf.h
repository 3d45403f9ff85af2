/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * --kernel: system calls that reach the NVIDIA driver. Two ways produce the same records: probes on
 * the driver's own entry points (kprobe or fentry; here), and the tracepoints of all system calls
 * (nv_sys.bpf.h).
 *
 * A plan from user space (nv_plans) defines which data of an ioctl is copied (ct_nv_copy.h). The
 * commands are not listed here.
 */
#ifndef CT_NV_BPF_H
#define CT_NV_BPF_H

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, CT_NV_PLANS_MAX);
	__type(key, struct ct_nv_key);
	__type(value, struct ct_nv_plan);
} nv_plans SEC(".maps");

/* RM controls whose parameters are copied: number of bytes. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, CT_NV_PARAMS_MAX);
	__type(key, __u32);
	__type(value, __u32);
} nv_params SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1); /* set before load */
	__type(key, __u32);
	__type(value, struct ct_nv_thread);
} nv_threads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct ct_nv_thread);
} nv_zero SEC(".maps");

#define nv_read(to, len, addr) bpf_probe_read_user(to, len, (void *)(addr))
#define nv_plan_at(key)	       bpf_map_lookup_elem(&nv_plans, key)
#define nv_params_at(control)  bpf_map_lookup_elem(&nv_params, control)
#include "ct_nv_copy.h"

static __noinline int nv_file_by_name(struct file *file, __u16 *minor)
{
	char name[16] = {};
	const unsigned char *p = BPF_CORE_READ(file, f_path.dentry, d_name.name);

	bpf_probe_read_kernel_str(name, sizeof(name), p);
	return nv_dev_by_name(name, minor);
}

static __always_inline int nv_dev_of(struct file *file, __u16 *minor)
{
	__u32 rdev = BPF_CORE_READ(file, f_inode, i_rdev);

	if (cfg.nv.by_name)
		return nv_file_by_name(file, minor);
	*minor = rdev & 0xfffff;
	return nv_dev_by_number(&cfg.nv, rdev >> 20, *minor);
}

static __always_inline bool nv_wanted(__u32 pid)
{
	if (!pid || pid == cfg.own_pid)
		return false;
	if (cfg.filter_mode == CT_FILTER_PIDS)
		return bpf_map_lookup_elem(&pids, &pid);
	return !cfg.filter_uid || (__u32)bpf_get_current_uid_gid() == cfg.uid;
}

static __always_inline struct ct_nv_thread *nv_thread(__u32 pid, __u32 tid)
{
	struct ct_nv_thread *st = bpf_map_lookup_elem(&nv_threads, &tid), *zero;
	__u32 key = 0, uid = current_uid();
	int charged;

	if (st)
		return st;
	zero = bpf_map_lookup_elem(&nv_zero, &key);
	if (!zero)
		return NULL;
	charged = thread_charge(pid, CT_TABLE_DRIVER);
	if (charged) {
		total_drop(charged == OVER_SHARE ? CT_DROP_NV_SHARE : CT_DROP_NV);
		return NULL;
	}
	bpf_map_update_elem(&nv_threads, &tid, zero, BPF_NOEXIST);
	st = bpf_map_lookup_elem(&nv_threads, &tid);
	if (!st) {
		thread_uncharge(pid, uid, CT_TABLE_DRIVER);
		total_drop(CT_DROP_NV);
		return NULL;
	}
	st->pid = pid;
	st->uid = uid;
	send_thread(pid, tid);
	return st;
}

/* Returns the frame of the call that a thread is in; NULL: none. */
static __always_inline struct ct_frame *nv_frame(__u32 tid)
{
	struct ct_thread *t = bpf_map_lookup_elem(&threads, &tid);

	return t && t->depth && t->depth <= CT_MAX_DEPTH
		       ? &t->frames[(t->depth - 1) & (CT_MAX_DEPTH - 1)]
		       : NULL;
}

/* A system call reaches the driver or opens one of its devices. With the system call tracepoints,
 * file is NULL for an open: the device is found at exit. */
static __always_inline int nv_enter(const struct nv_what *w)
{
	__u64 id = current_id();
	__u32 pid = id >> 32, tid = id;
	struct ct_nv_thread *st;
	__u16 minor = 0;
	int dev = CT_NV_NONE;

	if (w->file) {
		dev = nv_dev_of(w->file, &minor);
		if (!dev)
			return 0;
	}
	if (!nv_wanted(pid))
		return 0;
	st = nv_thread(pid, tid);
	if (!st)
		return 0;
	st->active = 1;
	nv_begin(st, w, dev, minor, cfg.redact, nv_frame(tid));
	rec_begin(&((struct ct_nv *)st->out)->rec, CT_REC_NV, 0, pid, tid);
	return 0;
}

static __always_inline void nv_send(struct ct_nv_thread *st, __u16 flags)
{
	struct ct_nv *rec = (struct ct_nv *)st->out;
	__u32 size = st->off;

	st->active = 0;
	if (size > sizeof(st->out))
		size = sizeof(st->out);
	rec->rec.size = size;
	rec->rec.flags = flags;
	if (!rec_send(st->out, size, false))
		total_drop(CT_DROP_NV);
}

/* set_ret: ret is the returned value. A release returns void. */
static __always_inline int nv_exit(__s64 ret, bool set_ret)
{
	__u32 tid = current_id();
	struct ct_nv_thread *st = bpf_map_lookup_elem(&nv_threads, &tid);
	struct ct_frame *f;
	struct ct_nv *rec;

	if (!st || !st->active)
		return 0;
	rec = (struct ct_nv *)st->out;
	rec->end_ns = bpf_ktime_get_ns();
	if (set_ret)
		rec->ret = nv_result(cfg.redact, rec->op, ret);
	nv_end(st, cfg.redact);
	f = nv_frame(tid);
	if (f)
		nv_count(rec, f);
	nv_send(st, 0);
	return 0;
}

/* The thread ends inside the driver. */
static __always_inline void nv_thread_end(__u32 tid)
{
	struct ct_nv_thread *st = bpf_map_lookup_elem(&nv_threads, &tid);
	__u32 pid, uid;

	if (!st)
		return;
	pid = st->pid;
	uid = st->uid;
	if (st->active) {
		((struct ct_nv *)st->out)->end_ns = bpf_ktime_get_ns();
		nv_send(st, CT_CALL_F_UNFINISHED);
	}
	if (!bpf_map_delete_elem(&nv_threads, &tid))
		thread_uncharge(pid, uid, CT_TABLE_DRIVER);
}

/* --- probes on the driver's entry points --- */

/* A system call that enters the driver has left it before. If its return was not seen, the kernel
 * had no return probe left. A function has 2 per CPU, at least 10 (kprobe). kprobe.multi before
 * 6.14 has as many per function, but shared by all of them. */
static __always_inline void nv_count_lost_return(void)
{
	__u32 tid = current_id();
	struct ct_nv_thread *st = bpf_map_lookup_elem(&nv_threads, &tid);

	if (!st || !st->active)
		return;
	st->active = 0;
	total_drop(CT_DROP_NV);
}

static __always_inline int nv_probe_enter(__u8 op, __u64 a, __u64 b, __u64 c)
{
	struct nv_what w = {.op = op, .fd = -1};

	switch (op) {
	case CT_NV_OPEN: /* (inode, file) */
	case CT_NV_CLOSE:
		w.file = (void *)b;
		w.is_release = op == CT_NV_CLOSE;
		break;
	case CT_NV_MMAP: { /* (file, vma) */
		struct vm_area_struct *vma = (struct vm_area_struct *)b;

		w.file = (void *)a;
		w.ret = BPF_CORE_READ(vma, vm_start);
		w.arg = BPF_CORE_READ(vma, vm_end) - w.ret;
		break;
	}
	default: /* (file, cmd, arg), (file, poll table) */
		w.file = (void *)a;
		w.cmd = op == CT_NV_IOCTL ? b : 0;
		w.arg = op == CT_NV_IOCTL ? c : 0;
	}
	if (!w.file)
		return 0;
	return nv_enter(&w);
}

/* mmap's record keeps the address when the driver succeeded. */
static __always_inline int nv_probe_exit(__u8 op, __s64 ret)
{
	return nv_exit(ret, op != CT_NV_MMAP || ret < 0);
}

/* The driver's own tracepoint (575 and later). The offsets of its fields come from its format file.
 * The record holds the positions of the strings (__data_loc: offset in the low half). */
static __always_inline int nv_xid(void *ctx)
{
	struct ct_xid rec = {};
	__u64 id = current_id();
	__u32 loc = 0;

	rec_begin(&rec.rec, CT_REC_XID, sizeof(rec), id >> 32, id);
	bpf_probe_read_kernel(&rec.code, sizeof(rec.code), ctx + cfg.xid_code_off);
	bpf_probe_read_kernel(&loc, sizeof(loc), ctx + cfg.xid_dev_off);
	bpf_probe_read_kernel_str(rec.device, sizeof(rec.device), ctx + (loc & 0xffff));
	/* The message may name a process and contain addresses. */
	if (cfg.redact == CT_REDACT_NOTHING) {
		bpf_probe_read_kernel(&loc, sizeof(loc), ctx + cfg.xid_msg_off);
		bpf_probe_read_kernel_str(rec.msg, sizeof(rec.msg), ctx + (loc & 0xffff));
	}
	if (!rec_send(&rec, sizeof(rec), true))
		total_drop(CT_DROP_NV);
	return 0;
}

#endif /* CT_NV_BPF_H */
