/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Makes the record of a system call into the NVIDIA driver: classifies the device and copies the
 * bytes of an ioctl according to its plan. Shared by the BPF side (bpf/nv.bpf.h) and the in-process
 * library (inject/nv.c). The including file defines how to read the program's memory and where the
 * plans are.
 */
#ifndef CT_NV_COPY_H
#define CT_NV_COPY_H

#include "ct_bpf.h"
#include "ct_nv_bpf.h"

#ifdef __bpf__ /* the BPF side defines these as macros */
#define NV_INLINE   static __always_inline
#define NV_NOINLINE static __noinline
#else
#include <stddef.h>
#define NV_INLINE   static inline
#define NV_NOINLINE static inline
/* Returns 0, or -errno without writing to `to`. */
long nv_read(void *to, __u32 len, __u64 addr);
/* Returns NULL if there is none. */
const struct ct_nv_plan *nv_plan_at(const struct ct_nv_key *key);
const __u32 *nv_params_at(const __u32 *control);
#endif

/* --- devices --- */

NV_INLINE int nv_begins(const char *s, const char *want, int len)
{
	for (int i = 0; i < len; i++)
		if (s[i] != want[i])
			return 0;
	return 1;
}
#define NV_BEGINS(s, want) nv_begins(s, want, sizeof(want) - 1)

/* Tests have no device nodes: a regular file named nvidiactl is enough. */
NV_INLINE int nv_dev_by_name(const char name[16], __u16 *minor)
{
	*minor = 0;
	if (NV_BEGINS(name, "nvidia-uvm"))
		return name[10] ? CT_NV_UVM_TOOLS : CT_NV_UVM;
	if (NV_BEGINS(name, "nvidiactl"))
		return CT_NV_CTL;
	if (NV_BEGINS(name, "nvidia") && name[6] >= '0' && name[6] <= '9') {
		*minor = name[6] - '0';
		return CT_NV_GPU;
	}
	return CT_NV_NONE;
}

NV_INLINE int nv_dev_by_number(const volatile struct ct_nv_devs *devs, __u32 major, __u16 minor)
{
	if (major == CT_NV_MAJOR)
		return minor == 255 ? CT_NV_CTL : minor == 254 ? CT_NV_MODESET : CT_NV_GPU;
	/* Major 0: the driver has no number, so this is not its device. */
	if (major && major == devs->uvm_major)
		return minor ? CT_NV_UVM_TOOLS : CT_NV_UVM;
	for (int i = 0; i < 4; i++)
		if (devs->other_majors[i] && major == devs->other_majors[i])
			return CT_NV_OTHER;
	return CT_NV_NONE;
}

/* --- bytes of an ioctl --- */

/* Copies one range of a block after the record. limit: the block's size. */
NV_NOINLINE int nv_copy(struct ct_nv_thread *st, __u32 block, __u64 addr,
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
	ret = nv_read(st->out + at, len, addr + off);
	d->len = ret ? ret : len;
	if (!ret)
		st->off = at + ((len + 7) & ~7u);
	/* In the process, a signal may end the thread or jump out here. */
	__asm__ volatile("" ::: "memory");
	rec->block_cnt = i + 1;
	return 0;
}

NV_INLINE void nv_copy_spans(struct ct_nv_thread *st, const struct ct_nv_plan *plan, int exit)
{
	__u32 block = (st->xfer ? CT_NV_INNER_ENTRY : CT_NV_ENTRY) + (exit ? 1 : 0);
	__u32 limit = plan->flags & CT_NV_PLAN_CUT ? st->size : 0xffffffff;
	const struct ct_nv_span *spans = exit ? plan->exit : plan->entry;

	nv_copy(st, block, st->addr, &spans[0], limit);
	nv_copy(st, block, st->addr, &spans[1], limit);
}

NV_INLINE const struct ct_nv_plan *nv_plan(const struct ct_nv *rec, __u32 nr)
{
	struct ct_nv_key key = {.nr = nr, .dev = ct_nv_commands_of(rec->dev)};

	return nv_plan_at(&key);
}

/* IOCTL_XFER_CMD: the argument holds number, size and address of the real one. */
NV_INLINE const struct ct_nv_plan *nv_unwrap(struct ct_nv_thread *st, struct ct_nv *rec)
{
	struct {
		__u32 nr, size;
		__u64 addr;
	} xfer;
	struct ct_nv_span span = {.len = sizeof(xfer)};

	nv_copy(st, CT_NV_ENTRY, rec->arg, &span, sizeof(xfer));
	if (nv_read(&xfer, sizeof(xfer), rec->arg))
		return NULL;
	st->xfer = 1;
	st->nr = xfer.nr;
	st->size = xfer.size;
	st->addr = xfer.addr;
	return nv_plan(rec, xfer.nr);
}

NV_INLINE void nv_ioctl_enter(struct ct_nv_thread *st, struct ct_nv *rec)
{
	const struct ct_nv_plan *plan;

	st->xfer = 0;
	st->addr = rec->arg;
	st->size = (rec->cmd >> 16) & 0x3fff;
	/* The driver checks only the number, not the type. UVM's requests are plain numbers. */
	st->nr = ct_nv_commands_of(rec->dev) == CT_NV_UVM ? rec->cmd : rec->cmd & 0xff;
	plan = nv_plan(rec, st->nr);
	if (plan && plan->flags & CT_NV_PLAN_XFER)
		plan = nv_unwrap(st, rec);
	if (plan)
		nv_copy_spans(st, plan, 0);
}

/* RM_CONTROL: copies the first bytes of its parameters, for some commands. */
NV_INLINE void nv_control_params(struct ct_nv_thread *st)
{
	struct {
		__u32 client, object, cmd, flags;
		__u64 params;
		__u32 size, status;
	} ctl;
	struct ct_nv_span span = {};
	const __u32 *len;

	if (nv_read(&ctl, sizeof(ctl), st->addr))
		return;
	len = nv_params_at(&ctl.cmd);
	if (!len || !ctl.params)
		return;
	span.len = *len;
	nv_copy(st, CT_NV_PARAMS, ctl.params, &span, ctl.size);
}

NV_INLINE void nv_ioctl_exit(struct ct_nv_thread *st, struct ct_nv *rec)
{
	const struct ct_nv_plan *plan = nv_plan(rec, st->nr);

	if (!plan)
		return;
	nv_copy_spans(st, plan, 1);
	if (plan->flags & CT_NV_PLAN_CONTROL)
		nv_control_params(st);
}

/* --- records --- */

/* The part of a record that is known when a system call begins. */
struct nv_what {
	void *file; /* the kernel's; NULL: unknown */
	__u64 arg;
	__s64 ret;
	__u32 cmd;
	__s32 fd;
	__u8 op; /* enum ct_nv_op */
	__u8 is_release;
};

/* Begins a record. f: frame of the enclosing call; NULL: none. Arguments are not read when they are
 * redacted. */
NV_INLINE void nv_begin(struct ct_nv_thread *st, const struct nv_what *w, int dev, __u16 minor,
			__u32 redact, const struct ct_frame *f)
{
	struct ct_nv *rec = (struct ct_nv *)st->out;

	__builtin_memset(rec, 0, sizeof(*rec));
	st->off = sizeof(*rec);
	rec->cmd = w->cmd;
	rec->fd = -1;
	if (redact != CT_REDACT_ARGS) {
		rec->file = (__u64)(unsigned long)w->file;
		rec->arg = w->arg;
		rec->ret = w->ret;
		rec->fd = w->fd;
	}
	rec->minor = minor;
	rec->dev = dev;
	rec->op = w->op;
	rec->is_release = w->is_release;
	if (f) {
		rec->call_id = f->call_id;
		rec->func_id = f->func_id;
	}
	if (w->op == CT_NV_IOCTL && redact != CT_REDACT_ARGS)
		nv_ioctl_enter(st, rec);
}

/* An ioctl within a call is also counted there. */
NV_INLINE void nv_count(const struct ct_nv *rec, struct ct_frame *f)
{
	if (rec->op != CT_NV_IOCTL || !rec->call_id)
		return;
	f->ioctl_cnt++;
	f->ioctl_ns += rec->end_ns - rec->rec.ts_ns;
}

/* A descriptor or an address counts as an argument: when redacted, only success remains (0). */
NV_INLINE __s64 nv_result(__u32 redact, __u8 op, __s64 ret)
{
	int failed = ret < 0 && ret >= -CT_MAX_ERRNO;

	if (redact == CT_REDACT_ARGS && (op == CT_NV_MMAP || op == CT_NV_OPEN) && !failed)
		return 0;
	return ret;
}

/* The call has returned: copies the results that its plan requests. */
NV_INLINE void nv_end(struct ct_nv_thread *st, __u32 redact)
{
	struct ct_nv *rec = (struct ct_nv *)st->out;

	if (rec->op == CT_NV_IOCTL && redact != CT_REDACT_ARGS)
		nv_ioctl_exit(st, rec);
}

#endif /* CT_NV_COPY_H */
