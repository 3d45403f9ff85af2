/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The state of a thread that makes calls. Its first call creates it. thread_end() in call.bpf.h
 * deletes it and ends its calls. */
#ifndef CT_THREAD_BPF_H
#define CT_THREAD_BPF_H

/* Sends a thread's name. */
static __always_inline void send_thread(__u32 pid, __u32 tid)
{
	struct ct_task rec = {};

	rec_begin(&rec.rec, CT_REC_THREAD, sizeof(rec), pid, tid);
	rec.generation = task_generation(bpf_get_current_task_btf());
	bpf_get_current_comm(rec.comm, sizeof(rec.comm));
	if (!rec_send(&rec, sizeof(rec), cfg.wake_on_thread))
		total_drop(CT_DROP_TASK);
}

/* The row may come from the process's first call, or from user space with its level. */
static __always_inline void generation_known(__u32 pid, __u64 generation)
{
	struct ct_pid *p = bpf_map_lookup_elem(&pids, &pid);

	if (p && !p->generation)
		p->generation = generation;
}

static __always_inline struct ct_thread *thread_new(__u32 pid, __u32 tid)
{
	__u32 key = 0, uid = current_uid();
	struct ct_thread *zero, *t;
	int charged;

	zero = bpf_map_lookup_elem(&zero_thread, &key);
	if (!zero)
		return NULL;
	/* Must come first, because without its row the end of the process would be missed. */
	if (cfg.filter_mode == CT_FILTER_ALL && !bpf_map_lookup_elem(&pids, &pid)) {
		struct ct_pid p = {};

		if (process_add(pid, &p, 1)) {
			total_drop(CT_DROP_PROCESSES);
			return NULL;
		}
	}
	charged = thread_charge(pid, CT_TABLE_THREADS);
	if (charged) {
		total_drop(charged == OVER_SHARE ? CT_DROP_THREADS_SHARE : CT_DROP_THREADS);
		return NULL;
	}
	bpf_map_update_elem(&threads, &tid, zero, BPF_NOEXIST);
	t = bpf_map_lookup_elem(&threads, &tid);
	if (!t) {
		thread_uncharge(pid, uid, CT_TABLE_THREADS);
		total_drop(CT_DROP_THREADS);
		return NULL;
	}
	t->pid = pid;
	t->tid = tid;
	t->uid = uid;
	t->cost.mean_16 = 16ull * cost_cfg.first_ns;
	t->cost.since_ns = bpf_ktime_get_ns();
	t->generation = task_generation(bpf_get_current_task_btf());
	generation_known(pid, t->generation);
	send_thread(pid, tid);
	return t;
}

/* Sends the contents of t->out. The record's size is bounded for the verifier here. */
static __always_inline void thread_send(struct ct_thread *t, __u32 size)
{
	struct ct_call *c = (struct ct_call *)t->out;

	if (size > sizeof(t->out))
		size = sizeof(t->out);
	c->rec.size = size;
	if (!rec_send(t->out, size, t->wake))
		t->drops[CT_DROP_CALL]++;
	t->wake = 0;
}

#endif /* CT_THREAD_BPF_H */
