/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The seam for --kernel: what the BPF side says of the NVIDIA driver. Which bytes of an ioctl are
 * copied is data (`nv_plans`, `nv_params` maps), made by src/decode/nv/nv_plan.c from the driver's
 * version: the BPF side knows no command.
 */
#ifndef CT_NV_H
#define CT_NV_H

#include "ct_record.h"

enum ct_nv_dev {
	CT_NV_NONE = 0,
	CT_NV_CTL = 1,	     /* /dev/nvidiactl, 195:255 */
	CT_NV_GPU = 2,	     /* /dev/nvidiaN, 195:N */
	CT_NV_MODESET = 3,   /* /dev/nvidia-modeset, 195:254 */
	CT_NV_UVM = 4,	     /* /dev/nvidia-uvm, minor 0 */
	CT_NV_UVM_TOOLS = 5, /* /dev/nvidia-uvm-tools, minor 1 */
	CT_NV_OTHER = 6,     /* /dev/nvidia-caps/..., nvlink, nvswitch */
};
#define CT_NV_MAJOR 195

enum ct_nv_op {
	CT_NV_IOCTL = 1,
	CT_NV_MMAP = 2,
	CT_NV_OPEN = 3,
	CT_NV_CLOSE = 4,
	CT_NV_POLL = 5, /* kprobe and fentry only */
};

/* Blocks of bytes behind a record. */
enum ct_nv_block {
	CT_NV_ENTRY = 0,       /* the argument, before the driver ran */
	CT_NV_EXIT = 1,	       /* and after */
	CT_NV_INNER_ENTRY = 2, /* IOCTL_XFER_CMD: what its pointer points to */
	CT_NV_INNER_EXIT = 3,
	CT_NV_PARAMS = 4, /* RM_CONTROL: first bytes of its parameters, after */
};

#define CT_NV_SPAN_SZ_MAX 256
#define CT_NV_MAX_BLOCKS  6

struct ct_nv_data {
	__u8 block; /* enum ct_nv_block */
	__u8 reserved;
	__u16 off; /* where in the block */
	__s16 len; /* bytes that follow, padded to 8; negative: -errno, none follow */
	__u16 reserved2;
};

struct ct_nv {
	struct ct_rec rec; /* flags: CT_CALL_F_UNFINISHED */
	__u64 end_ns;
	__u64 call_id; /* the CUDA call that the thread was in, or 0 */
	__u64 file;    /* names the open file */
	__u64 arg;     /* ioctl: the argument; mmap: bytes */
	__s64 ret;     /* what the system call or the driver's function returned; mmap: address */
	__u32 func_id; /* of the CUDA call */
	__u32 cmd;     /* ioctl: low 32 bits */
	__s32 fd;      /* -1: not known (kprobe, fentry) */
	__u16 minor;
	__u8 dev; /* enum ct_nv_dev */
	__u8 op;  /* enum ct_nv_op */
	__u8 block_cnt;
	__u8 is_release; /* close: of the last descriptor, the file is gone with it */
	__u8 reserved[6];
	struct ct_nv_data blocks[CT_NV_MAX_BLOCKS];
};
_Static_assert(sizeof(struct ct_nv) == 136, "ct_nv is part of the ABI");

/* Room for a record with its blocks. A power of two: the verifier needs a mask. */
#define CT_NV_OUT_SZ_MAX 2048

/* A system call into the driver in flight; value of the `nv_threads` map, keyed by thread id. */
struct ct_nv_thread {
	__u32 active;
	__u32 off;  /* end of the record so far */
	__u32 nr;   /* what the plan is for: the inner number of an XFER */
	__u32 size; /* _IOC_SIZE, or that of the XFER */
	__u64 addr; /* of the argument, or what the XFER points to */
	__u32 xfer;
	__u32 pid, uid; /* whose row it is */
	__u32 reserved;
	__u8 out[CT_NV_OUT_SZ_MAX + CT_NV_SPAN_SZ_MAX];
};

struct ct_nv_span {
	__u16 off, len; /* len 0: nothing */
};

/* Value of the `nv_plans` map: what to copy of one command. */
struct ct_nv_plan {
	struct ct_nv_span entry[2], exit[2];
	__u32 flags;
};
#define CT_NV_PLAN_XFER                                                                            \
	1 /* the argument points to the real one: nr at 0, size at 4, pointer at 8 */
#define CT_NV_PLAN_CUT	   2 /* the argument ends at _IOC_SIZE */
#define CT_NV_PLAN_CONTROL 4 /* RM_CONTROL: cmd at 8, params at 16, paramsSize at 24 */

/* Key of `nv_plans`. */
struct ct_nv_key {
	__u32 nr;
	__u32 dev; /* 0: nvidiactl and nvidiaN, 1: UVM, 2: NVKMS (enum nv_plan_dev) */
};

struct ct_xid {
	struct ct_rec rec;
	__u32 code;
	__u32 reserved;
	char device[32];
	char msg[256];
};

struct ct_irq {
	struct ct_rec rec; /* pid and tid: who was interrupted */
	__u32 irq;
	__u32 cpu;
	char name[16];
};

/* Where the fields of uvm_perf_event_data_t lie in this driver, from its module's BTF:
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

enum ct_uvm_op { CT_UVM_FAULT = 1, CT_UVM_MIGRATION = 2 };

struct ct_uvm {
	struct ct_rec rec;
	__u32 op;    /* enum ct_uvm_op */
	__u32 cause; /* migration: UVM_MAKE_RESIDENT_CAUSE_* */
	__u64 address;
	__u64 bytes;	/* migration */
	__u32 src, dst; /* processors: 0 is the CPU, GPUs count from 1; fault: dst */
	__u32 is_write;
	__u32 reserved;
};

#endif /* CT_NV_H */
