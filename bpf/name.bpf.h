/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Kernel names: the name that a handle leads to, read in the thread that has just used the handle.
 * A read here does not fault pages in, so no program's memory can block it. If a page is not
 * present (swapped out, never touched), this call yields no name.
 *
 * A name is usually sent once. Each CPU caches the handles it has sent in a table where a new entry
 * replaces the old one in its slot. This needs no lock and no shared cache line. After eviction, or
 * on another CPU, the name is only sent again.
 */
#ifndef CT_NAME_BPF_H
#define CT_NAME_BPF_H

/* Programs launch a few hundred kernels. A power of two. */
#define NAMED_LOG 11

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1 << NAMED_LOG);
	__type(key, __u32);
	__type(value, __u64);
} named SEC(".maps");

/* Incremented when a process's handles may lead to other names. Indexed by a hash of the process
 * id; processes that share a slot resend each other's names. */
#define NAME_GENS 1024
#define LINE_U32S 16 /* one cache line each */
__u32 name_gens[NAME_GENS * LINE_U32S];

static __always_inline volatile __u32 *name_gen(__u32 pid)
{
	return &name_gens[(pid & (NAME_GENS - 1)) * LINE_U32S];
}

static __always_inline void names_forget(__u32 pid)
{
	__sync_fetch_and_add(name_gen(pid), 1);
}

/* Combines process and handle in one number, which is written at once because a thread may be
 * preempted here. The factors are secret: otherwise a program could choose handles that collide
 * with another's. */
static __always_inline __u64 name_key(__u32 pid, __u64 handle)
{
	__u64 owner = (__u64)pid << 32 | *name_gen(pid);

	return handle * cfg.name_secret[0] + owner * cfg.name_secret[1];
}

/* Assembles the record in t->out and sends it. Without a name, it is sent only if `anyway` is set.
 * Returns 1 when a name was sent. */
static __noinline int name_send(struct ct_thread *t, __u64 handle, bool anyway)
{
	struct ct_name *rec = (struct ct_name *)t->out;
	__u64 addr = 0;
	long len = 0;
	__u32 size;

	if (!bpf_probe_read_user(&addr, sizeof(addr), (void *)(handle + CT_NAME_PTR_OFF)))
		len = bpf_probe_read_user_str(rec->name, CT_NAME_SZ_MAX, (void *)addr);
	if (len < 0 || len > CT_NAME_SZ_MAX)
		len = 0;
	if (!len && !anyway)
		return 0;
	size = sizeof(*rec) + len;
	barrier_var(size);
	if (size > sizeof(*rec) + CT_NAME_SZ_MAX)
		return 0;
	rec_begin(&rec->rec, CT_REC_NAME, size, t->pid, t->tid);
	rec->rec.flags = 0;
	rec->handle = handle;
	rec->len = len;
	rec->reserved = 0;
	/* If the ring is full, a later call sends it. */
	return rec_send(rec, size, false) && len;
}

/* Sends the name of a handle unless this CPU has already sent it. */
static __always_inline void name_announce(struct ct_thread *t, __u64 handle)
{
	__u64 key = name_key(t->pid, handle), *sent;
	__u32 i = key >> (64 - NAMED_LOG);

	sent = bpf_map_lookup_elem(&named, &i);
	if (!handle || !sent || *sent == key)
		return;
	if (*sent == key + 1 && t->stats[CT_STAT_ENTRIES] % RECORDER_NAME_RETRY)
		return;
	*sent = name_send(t, handle, false) ? key : key + 1;
}

/* Sends the name for a call that is about to be sent, before its record is begun. */
static __always_inline void name_of_call(struct ct_thread *t, const struct ct_frame *f,
					 const struct ct_spec *spec, bool ok)
{
	__u64 handle = 0;
	enum recorder_name how = recorder_handle(f, spec, ok, &handle);

	if (how == RECORDER_NAME_USED)
		name_announce(t, handle);
	else if (how == RECORDER_NAME_NEW)
		name_send(t, handle, true);
}

#endif /* CT_NAME_BPF_H */
