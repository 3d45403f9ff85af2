/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What kernels are called: the name that a handle leads to, read in the thread that has just used
 * it. A read here does not fault a page in, so that no memory of a program can hold anybody up. A
 * page that is not there (swapped out, never touched) is no name this time.
 *
 * A name is sent once, more or less: each CPU remembers whose handles it has sent, in a table
 * where a newcomer takes the place of whoever is there. That costs no lock and no line that others
 * write; being pushed out, or running on another CPU, only means that the name is sent again.
 */
#ifndef CT_NAME_BPF_H
#define CT_NAME_BPF_H

/* Programs launch some hundred kernels. A power of two. */
#define NAMED_LOG 11

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1 << NAMED_LOG);
	__type(key, __u32);
	__type(value, __u64);
} named SEC(".maps");

/* A handle that led to no name is followed again at one of so many calls. */
#define NAME_RETRY 256

/* Goes up when a process's handles may lead to other names. By process id; those that share a
 * place send names again for each other. */
#define NAME_GENS 1024
#define LINE_U32S 16 /* a cache line each */
__u32 name_gens[NAME_GENS * LINE_U32S];

static __always_inline volatile __u32 *name_gen(__u32 pid)
{
	return &name_gens[(pid & (NAME_GENS - 1)) * LINE_U32S];
}

static __always_inline void names_forget(__u32 pid)
{
	__sync_fetch_and_add(name_gen(pid), 1);
}

/* Whose handle it is in one number, which is written at once: a thread may be preempted here.
 * Secret factors, or a program could choose handles that look like another's. */
static __always_inline __u64 name_key(__u32 pid, __u64 handle)
{
	__u64 owner = (__u64)pid << 32 | *name_gen(pid);

	return handle * cfg.name_secret[0] + owner * cfg.name_secret[1];
}

/* Puts the record together in t->out and sends it; without a name only when asked to. Returns 1
 * when a name went out. */
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
	/* The ring is full: it goes with a later call. */
	return rec_send(rec, size, false) && len;
}

/* Says what a handle leads to, unless this CPU has said so. */
static __always_inline void name_tell(struct ct_thread *t, __u64 handle)
{
	__u64 key = name_key(t->pid, handle), *told;
	__u32 i = key >> (64 - NAMED_LOG);

	told = bpf_map_lookup_elem(&named, &i);
	if (!handle || !told || *told == key)
		return;
	/* A read that fails costs more than the rest of the call: tried again now and then. */
	if (*told == key + 1 && t->stats[CT_STAT_ENTRIES] % NAME_RETRY)
		return;
	*told = name_send(t, handle, false) ? key : key + 1;
}

/* Of a call that is about to be sent, before its record is begun. A lookup's handle is always
 * told: by it the model knows whether names can be read so at all. */
static __always_inline void name_of_call(struct ct_thread *t, const struct ct_frame *f,
					 const struct ct_spec *spec, bool ok)
{
	__u64 handle;

	if (!spec->handle_word)
		return;
	handle = f->words[(spec->handle_word - 1) & (CT_MAX_WORDS - 1)];
	if (!(spec->flags & CT_SPEC_F_HANDLE_OUT))
		name_tell(t, handle);
	else if (ok && !bpf_probe_read_user(&handle, sizeof(handle), (void *)handle) && handle)
		name_send(t, handle, true);
}

#endif /* CT_NAME_BPF_H */
