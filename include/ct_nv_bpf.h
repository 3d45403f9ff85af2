/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Interface for --kernel between the producers of records and the tracer that configures them.
 * Which bytes of an ioctl are copied is data: the maps `nv_plans` and `nv_params`, and struct
 * ct_shm_nv. src/decode/nv/nv_plan.c makes it from the driver's version; the BPF side and the
 * library contain no commands. ct_nv_copy.h does the copying; records are in ct_nv.h.
 */
#ifndef INCLUDE_CT_NV_BPF_H
#define INCLUDE_CT_NV_BPF_H

#include "ct_nv.h"

/* Size of a record with its blocks. A power of two: the verifier needs a mask. */
#define CT_NV_OUT_SZ_MAX 2048

/* A system call into the driver in flight; value of the `nv_threads` map, keyed by thread id, or
 * part of the thread's slot (ct_shm.h). */
struct ct_nv_thread {
	__u32 active;
	__u32 off;  /* end of the record so far */
	__u32 nr;   /* number to find the plan by: of an XFER the inner one */
	__u32 size; /* _IOC_SIZE, or that of the XFER */
	__u64 addr; /* address of the argument, or of the inner argument of an XFER */
	__u32 xfer;
	__u32 pid, uid; /* owner of the row; unused in a slot */
	__u32 reserved;
	__u8 out[CT_NV_OUT_SZ_MAX + CT_NV_SPAN_SZ_MAX];
};

struct ct_nv_span {
	__u16 off, len; /* len 0: unused; at most CT_NV_SPAN_SZ_MAX */
};
#define CT_NV_SPANS 2

/* Value of the `nv_plans` map: the bytes to copy for one command. Nothing is copied for a command
 * without a plan. */
struct ct_nv_plan {
	struct ct_nv_span entry[CT_NV_SPANS], exit[CT_NV_SPANS];
	__u32 flags;
};
#define CT_NV_PLAN_XFER                                                                            \
	1 /* the argument points to the real one: nr at 0, size at 4, pointer at 8 */
#define CT_NV_PLAN_CUT	   2 /* the argument ends at _IOC_SIZE */
#define CT_NV_PLAN_CONTROL 4 /* RM_CONTROL: cmd at 8, params at 16, paramsSize at 24 */

/* Key of `nv_plans`. */
struct ct_nv_key {
	__u32 nr;  /* _IOC_NR; for CT_NV_UVM the whole request */
	__u32 dev; /* ct_nv_commands_of() */
};

/* A command, and an RM control whose first parameter bytes are copied at exit, too. */
struct ct_nv_row {
	struct ct_nv_key key;
	struct ct_nv_plan plan;
};
struct ct_nv_params {
	__u32 control;
	__u32 len; /* cut at paramsSize */
};
#define CT_NV_PLANS_MAX	 256
#define CT_NV_PARAMS_MAX 64

/* Offsets of the fields of uvm_perf_event_data_t in this driver, from its module's BTF:
 * ct_cfg.uvm_off[]. */
enum ct_uvm_field {
	CT_UVM_MIG_DST,
	CT_UVM_MIG_SRC,
	CT_UVM_MIG_ADDRESS,
	CT_UVM_MIG_BYTES,
	CT_UVM_MIG_CAUSE,
	CT_UVM_FAULT_PROC,
	CT_UVM_FAULT_CPU_VA,
	CT_UVM_FAULT_CPU_WRITE,
	CT_UVM_FAULT_ENTRY,   /* GPU faults: pointer to a uvm_fault_buffer_entry_t ... */
	CT_UVM_ENTRY_ADDRESS, /* ... and the address in that */
	CT_UVM_FIELD_CNT
};
_Static_assert(CT_UVM_FIELD_CNT == 10, "ct_cfg.uvm_off has a place for each");

#endif /* INCLUDE_CT_NV_BPF_H */
