/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* --kernel: page faults and migrations of managed memory, from the driver's own notifications. */
#ifndef CT_UVM_BPF_H
#define CT_UVM_BPF_H

static __always_inline __u32 uvm_u32(const void *data, int field)
{
	__u32 x = 0;

	bpf_probe_read_kernel(&x, sizeof(x), data + cfg.uvm_off[field]);
	return x;
}

static __always_inline __u64 uvm_u64(const void *data, int field)
{
	__u64 x = 0;

	bpf_probe_read_kernel(&x, sizeof(x), data + cfg.uvm_off[field]);
	return x;
}

/* uvm_perf_event_notify(events, id, data): called for each event, even without listeners. */
static __always_inline int nv_uvm(__u32 event, const void *data)
{
	bool redacted = cfg.redact == CT_REDACT_ARGS;
	struct ct_uvm rec = {};
	__u64 id = current_id();

	if (event == cfg.uvm_migration_id) {
		rec.op = CT_UVM_MIGRATION;
		rec.dst = uvm_u32(data, CT_UVM_MIG_DST);
		rec.src = uvm_u32(data, CT_UVM_MIG_SRC);
		if (!redacted) {
			rec.address = uvm_u64(data, CT_UVM_MIG_ADDRESS);
			rec.bytes = uvm_u64(data, CT_UVM_MIG_BYTES);
		}
		rec.cause = uvm_u32(data, CT_UVM_MIG_CAUSE);
	} else if (event == cfg.uvm_fault_id) {
		rec.op = CT_UVM_FAULT;
		rec.dst = uvm_u32(data, CT_UVM_FAULT_PROC);
		if (rec.dst && !redacted) { /* a GPU's */
			const void *entry = (const void *)uvm_u64(data, CT_UVM_FAULT_ENTRY);

			rec.address = uvm_u64(entry, CT_UVM_ENTRY_ADDRESS);
		} else if (!rec.dst) {
			if (!redacted)
				rec.address = uvm_u64(data, CT_UVM_FAULT_CPU_VA);
			rec.is_write = uvm_u32(data, CT_UVM_FAULT_CPU_WRITE) & 0xff;
		}
	} else {
		return 0;
	}
	rec_begin(&rec.rec, CT_REC_UVM, sizeof(rec), id >> 32, id);
	if (!rec_send(&rec, sizeof(rec), false))
		total_drop(CT_DROP_NV);
	return 0;
}

#endif /* CT_UVM_BPF_H */
