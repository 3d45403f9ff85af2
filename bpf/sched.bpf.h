/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* --sched: off-CPU time of a CUDA call's thread, and GPU interrupts. */
#ifndef CT_SCHED_BPF_H
#define CT_SCHED_BPF_H

static __always_inline int sched_switch(struct task_struct *prev, struct task_struct *next)
{
	__u32 out = task_tid(prev), in = task_tid(next);
	struct ct_thread *t;

	t = bpf_map_lookup_elem(&threads, &out);
	if (t && t->depth)
		t->off_since_ns = bpf_ktime_get_ns();
	t = bpf_map_lookup_elem(&threads, &in);
	if (t && t->off_since_ns) {
		t->off_cpu_ns += bpf_ktime_get_ns() - t->off_since_ns;
		t->off_since_ns = 0;
	}
	return 0;
}

static __always_inline int irq_entry(int irq, struct irqaction *action)
{
	const char *name = BPF_CORE_READ(action, name);
	__u64 id = current_id();
	struct ct_irq rec = {};

	bpf_probe_read_kernel_str(rec.name, sizeof(rec.name), name);
	if (!starts_with(rec.name, "nvidia", 6))
		return 0;
	rec_begin(&rec.rec, CT_REC_IRQ, sizeof(rec), id >> 32, id);
	rec.irq = irq;
	rec.cpu = bpf_get_smp_processor_id();
	if (!rec_send(&rec, sizeof(rec), false))
		total_drop(CT_DROP_NV);
	return 0;
}

#endif /* CT_SCHED_BPF_H */
