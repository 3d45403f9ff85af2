/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* System call filters (seccomp) of a process, which user space simulates before it enters the
 * process. No thread is stopped. */
#ifndef CT_FILTER_BPF_H
#define CT_FILTER_BPF_H

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct ct_filter);
} filter SEC(".maps");

/* Filters are only added, and a thread keeps its own until it ends: a thread that ends meanwhile
 * leaves invalid instructions, at worst. */
static __always_inline __s32 filter_copy(struct ct_filter *to, struct seccomp_filter *f)
{
	struct sock_fprog_kern *orig;
	__u32 len;

	for (__u32 i = 0; i < CT_FILTERS_MAX && f && i < to->nth; i++)
		f = BPF_CORE_READ(f, prev);
	if (!f)
		return CT_FILTER_NONE;
	orig = BPF_CORE_READ(f, prog, orig_prog);
	len = orig ? BPF_CORE_READ(orig, len) : 0;
	if (!len || len > CT_FILTER_LEN_MAX)
		return CT_FILTER_UNREADABLE;
	return bpf_probe_read_kernel(to->code, len * sizeof(to->code[0]),
				     BPF_CORE_READ(orig, filter))
		       ? CT_FILTER_UNREADABLE
		       : (__s32)len;
}

static __always_inline void filter_read(struct task_struct *task)
{
	__u32 zero = 0;
	struct ct_filter *to = bpf_map_lookup_elem(&filter, &zero);
	struct seccomp_filter *f;

	/* A kernel without filters. */
	if (!bpf_core_field_exists(task->seccomp.filter) ||
	    !bpf_core_type_exists(struct seccomp_filter))
		return;
	if (!to || to->pid != task_pid(task) || (to->tid && to->tid != task_tid(task)))
		return;
	f = BPF_CORE_READ(task, seccomp.filter);
	if (to->thread_cnt++) {
		to->differ |= to->id != (__u64)f;
		return;
	}
	to->id = (__u64)f;
	to->len = filter_copy(to, f);
}

#endif /* CT_FILTER_BPF_H */
