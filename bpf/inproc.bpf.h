/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * In-process libraries (inject/): which calls they record, so that the programs here do not.
 *
 * A word in the process is set while its library records. Both sides read the same word: the
 * program here at the entry point, and the library some nanoseconds later, when the driver's
 * dispatch pointer has led the call to it.
 */
#ifndef CT_INPROC_BPF_H
#define CT_INPROC_BPF_H

static __always_inline bool is_inproc(__u32 pid, __u32 func_id)
{
	struct ct_inproc *in;
	__u32 alive = 1, i = func_id / 64;

	if (!cfg.inproc)
		return false;
	in = bpf_map_lookup_elem(&inproc, &pid);
	barrier_var(i);
	if (!in || i >= CT_MAX_FUNCS / 64 || !(in->is_inproc[i] >> (func_id % 64) & 1))
		return false;
	/* A page that is swapped out was in use, so a failed read counts as alive. */
	if (!in->forked)
		bpf_probe_read_user(&alive, sizeof(alive), (void *)in->alive);
	return alive;
}

/* The child has its parent's dispatch pointers; it does not run yet. */
static __always_inline void inproc_fork(__u32 ppid, __u32 pid)
{
	struct ct_inproc *in;
	__u32 alive = 1;

	if (!cfg.inproc)
		return;
	/* An entry under this id belongs to an earlier process: it was added after that process
	 * ended. */
	bpf_map_delete_elem(&inproc, &pid);
	in = bpf_map_lookup_elem(&inproc, &ppid);
	if (!in)
		return;
	/* The parent's library has stopped: the child has the driver's own dispatch pointers. This
	 * runs in the parent. */
	if (!in->forked)
		bpf_probe_read_user(&alive, sizeof(alive), (void *)in->alive);
	if (!alive || bpf_map_update_elem(&inproc, &pid, in, BPF_ANY))
		return;
	in = bpf_map_lookup_elem(&inproc, &pid);
	if (in)
		in->forked = 1;
}

static __always_inline void inproc_end(__u32 pid)
{
	if (cfg.inproc)
		bpf_map_delete_elem(&inproc, &pid);
}

/* Sends the begin or the end of this call: calls that the library records in between are made in
 * it. */
static __always_inline void inproc_announce(const struct ct_thread *t, const struct ct_frame *f,
					    bool ended)
{
	struct ct_enter rec = {};
	__u32 pid = t->pid;

	if (!cfg.inproc || (cfg.inproc == CT_INPROC_SOME && !bpf_map_lookup_elem(&inproc, &pid)))
		return;
	rec_begin_at(&rec.rec, CT_REC_ENTER, sizeof(rec), t->pid, t->tid,
		     ended ? bpf_ktime_get_ns() : f->start_ns);
	rec.call_id = f->call_id;
	rec.api = f->api;
	rec.func_id = f->func_id;
	rec.depth = f->depth;
	rec.api_depth = f->api_depth;
	rec.ended = ended;
	if (!rec_send(&rec, sizeof(rec), false))
		total_drop(CT_DROP_BEGIN);
}

/* No library records this call. If it is the first driver call, the process's later calls need
 * probes.
 */
static __always_inline void inproc_begins(__u32 pid, __u32 tid, __u32 func_id)
{
	struct ct_enter rec = {};

	if (cfg.inproc != CT_INPROC_SOME || func_id != cfg.begins_func)
		return;
	rec_begin(&rec.rec, CT_REC_ENTER, sizeof(rec), pid, tid);
	rec.begins = 1;
	if (!rec_send(&rec, sizeof(rec), true))
		total_drop(CT_DROP_TASK);
}

#endif /* CT_INPROC_BPF_H */
