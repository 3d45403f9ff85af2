/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * --kernel: system calls that reach the NVIDIA driver. Two ways in give the same records: probes on
 * the driver's own entry points (kprobe or fentry; here), and the tracepoints of all system calls
 * (nv_sys.bpf.h).
 *
 * What is copied of an ioctl is a plan from user space (nv_plans); the commands are not known here.
 */
#ifndef CT_NV_BPF_H
#define CT_NV_BPF_H

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 512);
	__type(key, struct ct_nv_key);
	__type(value, struct ct_nv_plan);
} nv_plans SEC(".maps");

/* RM controls whose parameters are worth copying: how many bytes. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 512);
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

/* Tests have no device nodes: a regular file called nvidiactl will do. */
static __noinline int nv_dev_by_name(struct file *file, __u16 *minor)
{
	char name[16] = {};
	const unsigned char *p = BPF_CORE_READ(file, f_path.dentry, d_name.name);

	bpf_probe_read_kernel_str(name, sizeof(name), p);
	*minor = 0;
	if (starts_with(name, "nvidia-uvm", 10))
		return name[10] ? CT_NV_UVM_TOOLS : CT_NV_UVM;
	if (starts_with(name, "nvidiactl", 9))
		return CT_NV_CTL;
	if (starts_with(name, "nvidia", 6) && name[6] >= '0' && name[6] <= '9') {
		*minor = name[6] - '0';
		return CT_NV_GPU;
	}
	return CT_NV_NONE;
}

static __always_inline int nv_dev_of(struct file *file, __u16 *minor)
{
	__u32 rdev = BPF_CORE_READ(file, f_inode, i_rdev), major = rdev >> 20;

	if (cfg.nv_by_name)
		return nv_dev_by_name(file, minor);
	if (!rdev)
		return CT_NV_NONE;
	*minor = rdev & 0xfffff;
	if (major == CT_NV_MAJOR)
		return *minor == 255 ? CT_NV_CTL : *minor == 254 ? CT_NV_MODESET : CT_NV_GPU;
	if (major == cfg.nv_uvm_major)
		return *minor ? CT_NV_UVM_TOOLS : CT_NV_UVM;
	for (int i = 0; i < 4; i++)
		if (cfg.nv_other_majors[i] && major == cfg.nv_other_majors[i])
			return CT_NV_OTHER;
	return CT_NV_NONE;
}

/* Copies one range of a block behind the record. limit: the block's size. */
static __noinline int nv_copy(struct ct_nv_thread *st, __u32 block, __u64 addr,
			      const struct ct_nv_span *span, __u32 limit)
{
	struct ct_nv *rec = (struct ct_nv *)st->out;
	__u32 at = st->off, i = rec->block_cnt, off = span->off, len = span->len;
	struct ct_nv_data *d;
	long ret;

	if (off >= limit || !len || i >= CT_NV_MAX_BLOCKS)
		return 0;
	if (len > limit - off)
		len = limit - off;
	if (len > CT_NV_SPAN_SZ_MAX)
		len = CT_NV_SPAN_SZ_MAX;
	if (at >= CT_NV_OUT_SZ_MAX)
		return 0;
	d = &rec->blocks[i];
	d->block = block;
	d->reserved = 0;
	d->off = off;
	d->reserved2 = 0;
	ret = bpf_probe_read_user(st->out + at, len, (void *)(addr + off));
	d->len = ret ? ret : len;
	rec->block_cnt = i + 1;
	if (!ret)
		st->off = at + ((len + 7) & ~7u);
	return 0;
}

static __always_inline void nv_copy_spans(struct ct_nv_thread *st, const struct ct_nv_plan *plan,
					  bool exit)
{
	__u32 block = (st->xfer ? CT_NV_INNER_ENTRY : CT_NV_ENTRY) + (exit ? 1 : 0);
	__u32 limit = plan->flags & CT_NV_PLAN_CUT ? st->size : 0xffffffff;
	const struct ct_nv_span *spans = exit ? plan->exit : plan->entry;

	nv_copy(st, block, st->addr, &spans[0], limit);
	nv_copy(st, block, st->addr, &spans[1], limit);
}

static __always_inline struct ct_nv_plan *nv_plan(const struct ct_nv *rec, __u32 nr)
{
	struct ct_nv_key key = {.nr = nr, .dev = ct_nv_commands_of(rec->dev)};

	return bpf_map_lookup_elem(&nv_plans, &key);
}

/* IOCTL_XFER_CMD: the argument says number, size and place of the real one. */
static __always_inline struct ct_nv_plan *nv_unwrap(struct ct_nv_thread *st, struct ct_nv *rec)
{
	struct {
		__u32 nr, size;
		__u64 addr;
	} xfer;
	struct ct_nv_span span = {.len = sizeof(xfer)};

	nv_copy(st, CT_NV_ENTRY, rec->arg, &span, sizeof(xfer));
	if (bpf_probe_read_user(&xfer, sizeof(xfer), (void *)rec->arg))
		return NULL;
	st->xfer = 1;
	st->nr = xfer.nr;
	st->size = xfer.size;
	st->addr = xfer.addr;
	return nv_plan(rec, xfer.nr);
}

static __always_inline void nv_ioctl_enter(struct ct_nv_thread *st, struct ct_nv *rec)
{
	struct ct_nv_plan *plan;

	st->xfer = 0;
	st->addr = rec->arg;
	st->size = (rec->cmd >> 16) & 0x3fff;
	/* The driver looks at the number only, not at the type. UVM's requests are plain numbers.
	 */
	st->nr = ct_nv_commands_of(rec->dev) == CT_NV_UVM ? rec->cmd : rec->cmd & 0xff;
	plan = nv_plan(rec, st->nr);
	if (plan && plan->flags & CT_NV_PLAN_XFER)
		plan = nv_unwrap(st, rec);
	if (plan)
		nv_copy_spans(st, plan, false);
}

/* RM_CONTROL: the first bytes of its parameters, for some commands. */
static __always_inline void nv_control_params(struct ct_nv_thread *st)
{
	struct {
		__u32 client, object, cmd, flags;
		__u64 params;
		__u32 size, status;
	} ctl;
	struct ct_nv_span span = {};
	__u32 *len;

	if (bpf_probe_read_user(&ctl, sizeof(ctl), (void *)st->addr))
		return;
	len = bpf_map_lookup_elem(&nv_params, &ctl.cmd);
	if (!len || !ctl.params)
		return;
	span.len = *len;
	nv_copy(st, CT_NV_PARAMS, ctl.params, &span, ctl.size);
}

static __always_inline void nv_ioctl_exit(struct ct_nv_thread *st, struct ct_nv *rec)
{
	struct ct_nv_plan *plan = nv_plan(rec, st->nr);

	if (!plan)
		return;
	nv_copy_spans(st, plan, true);
	if (plan->flags & CT_NV_PLAN_CONTROL)
		nv_control_params(st);
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
	int room;

	if (st)
		return st;
	zero = bpf_map_lookup_elem(&nv_zero, &key);
	if (!zero)
		return NULL;
	room = thread_room_take(pid, CT_TABLE_DRIVER);
	if (room) {
		total_drop(room == ROOM_NOT_HIS ? CT_DROP_NV_SHARE : CT_DROP_NV);
		return NULL;
	}
	bpf_map_update_elem(&nv_threads, &tid, zero, BPF_NOEXIST);
	st = bpf_map_lookup_elem(&nv_threads, &tid);
	if (!st) {
		thread_room_give(pid, uid, CT_TABLE_DRIVER);
		total_drop(CT_DROP_NV);
		return NULL;
	}
	st->pid = pid;
	st->uid = uid;
	send_thread(pid, tid);
	return st;
}

struct nv_what {
	struct file *file;
	__u64 arg;
	__s64 ret;
	__u32 cmd;
	__s32 fd;
	__u8 op;
	bool is_release;
};

/* A system call reaches the driver, or opens one of its devices (file is NULL then, for the system
 * call tracepoints: the device is known at exit). */
static __always_inline int nv_enter(const struct nv_what *w)
{
	__u64 id = current_id();
	__u32 pid = id >> 32, tid = id;
	struct ct_nv_thread *st;
	struct ct_thread *t;
	struct ct_nv *rec;
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
	rec = (struct ct_nv *)st->out;
	__builtin_memset(rec, 0, sizeof(*rec));
	st->off = sizeof(*rec);
	st->active = 1;
	rec->cmd = w->cmd;
	rec->fd = -1;
	if (cfg.hide != CT_HIDE_ARGS) {
		rec->file = (__u64)w->file;
		rec->arg = w->arg;
		rec->ret = w->ret;
		rec->fd = w->fd;
	}
	rec->minor = minor;
	rec->dev = dev;
	rec->op = w->op;
	rec->is_release = w->is_release;
	t = bpf_map_lookup_elem(&threads, &tid);
	if (t && t->depth && t->depth <= CT_MAX_DEPTH) {
		struct ct_frame *f = &t->frames[(t->depth - 1) & (CT_MAX_DEPTH - 1)];

		rec->call_id = f->call_id;
		rec->func_id = f->func_id;
	}
	if (w->op == CT_NV_IOCTL && cfg.hide != CT_HIDE_ARGS)
		nv_ioctl_enter(st, rec);
	rec_begin(&rec->rec, CT_REC_NV, 0, pid, tid);
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

/* A descriptor and an address are no results, but for what they say: it went well. */
static __always_inline __s64 nv_result(__u8 op, __s64 ret)
{
	bool failed = ret < 0 && ret >= -CT_MAX_ERRNO;

	if (cfg.hide == CT_HIDE_ARGS && (op == CT_NV_MMAP || op == CT_NV_OPEN) && !failed)
		return 0;
	return ret;
}

/* set_ret: ret is what it returned; not so for the void of a release. */
static __always_inline int nv_exit(__s64 ret, bool set_ret)
{
	__u32 tid = current_id();
	struct ct_nv_thread *st = bpf_map_lookup_elem(&nv_threads, &tid);
	struct ct_thread *t;
	struct ct_nv *rec;

	if (!st || !st->active)
		return 0;
	rec = (struct ct_nv *)st->out;
	rec->end_ns = bpf_ktime_get_ns();
	if (set_ret)
		rec->ret = nv_result(rec->op, ret);
	if (rec->op == CT_NV_IOCTL && cfg.hide != CT_HIDE_ARGS)
		nv_ioctl_exit(st, rec);
	t = bpf_map_lookup_elem(&threads, &tid);
	if (t && t->depth && t->depth <= CT_MAX_DEPTH && rec->call_id && rec->op == CT_NV_IOCTL) {
		struct ct_frame *f = &t->frames[(t->depth - 1) & (CT_MAX_DEPTH - 1)];

		f->ioctl_cnt++;
		f->ioctl_ns += rec->end_ns - rec->rec.ts_ns;
	}
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
		thread_room_give(pid, uid, CT_TABLE_DRIVER);
}

/* --- probes on the driver's entry points --- */

/* A system call that enters the driver has left it before. If its return was not seen, the kernel
 * had no return probe left: for a function it has 2 for each CPU, 10 at least (kprobe); before 6.14
 * as many for each function, but shared by all of them (kprobe.multi). */
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
		w.file = (struct file *)b;
		w.is_release = op == CT_NV_CLOSE;
		break;
	case CT_NV_MMAP: { /* (file, vma) */
		struct vm_area_struct *vma = (struct vm_area_struct *)b;

		w.file = (struct file *)a;
		w.ret = BPF_CORE_READ(vma, vm_start);
		w.arg = BPF_CORE_READ(vma, vm_end) - w.ret;
		break;
	}
	default: /* (file, cmd, arg), (file, poll table) */
		w.file = (struct file *)a;
		w.cmd = op == CT_NV_IOCTL ? b : 0;
		w.arg = op == CT_NV_IOCTL ? c : 0;
	}
	if (!w.file)
		return 0;
	return nv_enter(&w);
}

/* mmap's record keeps the address when the driver agreed. */
static __always_inline int nv_probe_exit(__u8 op, __s64 ret)
{
	return nv_exit(ret, op != CT_NV_MMAP || ret < 0);
}

/* The driver's own trace point (575 and later). Where its fields lie is read from its format file;
 * the strings' places are in the record (__data_loc: offset in the low half). */
static __always_inline int nv_xid(void *ctx)
{
	struct ct_xid rec = {};
	__u64 id = current_id();
	__u32 loc = 0;

	rec_begin(&rec.rec, CT_REC_XID, sizeof(rec), id >> 32, id);
	bpf_probe_read_kernel(&rec.code, sizeof(rec.code), ctx + cfg.xid_code_off);
	bpf_probe_read_kernel(&loc, sizeof(loc), ctx + cfg.xid_dev_off);
	bpf_probe_read_kernel_str(rec.device, sizeof(rec.device), ctx + (loc & 0xffff));
	/* It may name a process and have addresses. */
	if (cfg.hide == CT_HIDE_NOTHING) {
		bpf_probe_read_kernel(&loc, sizeof(loc), ctx + cfg.xid_msg_off);
		bpf_probe_read_kernel_str(rec.msg, sizeof(rec.msg), ctx + (loc & 0xffff));
	}
	if (!rec_send(&rec, sizeof(rec), true))
		total_drop(CT_DROP_NV);
	return 0;
}

#endif /* CT_NV_BPF_H */
