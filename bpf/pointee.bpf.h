/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Memory that a call's arguments point to, read as the spec requests. */
#ifndef CT_POINTEE_BPF_H
#define CT_POINTEE_BPF_H

/* Copies a communicator's fields to t->out + off, from the offsets of this library version. */
__noinline long comm_read(struct ct_thread *t, const struct ct_frame *f, const struct ct_cap *cap,
			  __u32 off)
{
	struct ct_comm c = {0};
	__u64 counts[CT_COMM_COUNTS];
	struct ct_comm_layout *place;
	__u32 lib;

	if (!t || !f || !cap || off >= CT_OUT_SZ_MAX)
		return -28;
	lib = CT_LIB_ID(f->lib_id);
	place = bpf_map_lookup_elem(&comm_layouts, &lib);
	if (!place)
		return -2;
	c.handle = f->words[cap->arg & (CT_MAX_WORDS - 1)];
	if (cap->flags & CT_CAP_F_DEREF &&
	    bpf_probe_read_user(&c.handle, sizeof(c.handle), (void *)c.handle))
		return -14;
	if (!c.handle || bpf_probe_read_user(&c.magic, sizeof(c.magic), (void *)c.handle) ||
	    bpf_probe_read_user(&c.hash,
				offsetof(struct ct_comm, version) - offsetof(struct ct_comm, hash),
				(void *)(c.handle + place->off)))
		return -14;
	c.version = place->version;
	if (place->counts_off &&
	    !bpf_probe_read_user(counts, sizeof(counts), (void *)(c.handle + place->counts_off))) {
		for (int i = 0; i < CT_COMM_COUNTS; i++)
			c.made += counts[i];
	}
	if (bpf_probe_read_kernel(t->out + off, sizeof(c), &c))
		return -14;
	return sizeof(c);
}

/* Copies part of a kernel's arguments to t->out + off: see CT_CAP_EXTRA. */
__noinline long extra_read(struct ct_thread *t, const struct ct_frame *f, const struct ct_cap *cap,
			   __u32 off)
{
	__u32 word = 0;
	long n;

	if (!t || !f || !cap || off >= CT_OUT_SZ_MAX)
		return -28;
	if (!RECORDER_HAS_EXTRA(f))
		return -2;
	n = recorder_extra(f, cap, &word);
	if (n < 0)
		return n;
	if (bpf_probe_read_kernel(t->out + off, sizeof(word), &word))
		return RECORDER_EFAULT;
	__builtin_memset(t->out + off + sizeof(word), 0, 4);
	return sizeof(word);
}

/* The kernel writes its own NUL where a string did not fit. */
static __always_inline bool str_is_cut(__u64 end)
{
	char last = 1;

	bpf_probe_read_user(&last, sizeof(last), (void *)end);
	return last;
}

/* Reads one pointee to t->out + off. Returns its length or -errno. */
__noinline long cap_read(struct ct_thread *t, const struct ct_frame *f, const struct ct_cap *cap,
			 __u32 off)
{
	__u64 addr = 0;
	__u32 len = 0;
	long n;

	if (!t || !f || !cap || off >= CT_OUT_SZ_MAX)
		return -28;
	if (cap->kind == CT_CAP_COMM)
		return comm_read(t, f, cap, off);
	if (cap->kind == CT_CAP_EXTRA)
		return extra_read(t, f, cap, off);
	n = recorder_locate(f, cap, &addr, &len);
	if (n)
		return n;
	if (len > CT_CAP_SZ_MAX)
		len = CT_CAP_SZ_MAX;
	if (recorder_is_string(cap)) {
		n = bpf_probe_read_user_str(t->out + off, len, (void *)addr);
		if (n > 1 && n == len && str_is_cut(addr + n - 1))
			n--;
	} else {
		n = bpf_probe_read_user(t->out + off, len, (void *)addr);
		n = n ? n : len;
	}
	if (n < 0 || n > CT_CAP_SZ_MAX)
		return n;
	/* Clear up to the next pointee: bytes of an earlier call would show there. */
	__builtin_memset(t->out + off + n, 0, 7);
	return n;
}

/* Reads pointee i if requested. Returns the record's size. */
static __always_inline __u32 capture_one(struct ct_thread *t, const struct ct_frame *f,
					 const struct ct_spec *spec, bool ok, __u32 off, int i)
{
	long n;

	if (!ok && spec->caps[i].flags & CT_CAP_F_ON_SUCCESS)
		return off;
	n = cap_read(t, f, &spec->caps[i], off);
	((struct ct_call *)t->out)->cap_len[i] = n;
	return n > 0 && n <= CT_CAP_SZ_MAX ? off + ((n + 7) & ~7u) : off;
}

/* Reads all pointees but the first. */
__noinline __u32 capture_more(struct ct_thread *t, const struct ct_frame *f,
			      const struct ct_spec *spec, bool ok, __u32 off)
{
	if (!t || !f || !spec)
		return off;
	for (int i = 1; i < CT_MAX_CAPS && i < spec->cap_cnt; i++)
		off = capture_one(t, f, spec, ok, off, i);
	return off;
}

/* Reads the spec's pointees after the words. Returns the record's size. */
static __always_inline __u32 call_capture(struct ct_thread *t, const struct ct_frame *f,
					  const struct ct_spec *spec, bool ok, __u32 off)
{
	__u32 cnt = spec->cap_cnt;

	if (!cnt)
		return off;
	((struct ct_call *)t->out)->cap_cnt = cnt;
	off = capture_one(t, f, spec, ok, off, 0);
	/* Few calls have more: one function for all would slow down calls with one
	 * (count_returned()). */
	return cnt > 1 ? capture_more(t, f, spec, ok, off) : off;
}

#endif /* CT_POINTEE_BPF_H */
