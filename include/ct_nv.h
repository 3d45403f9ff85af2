/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Interface for records (ct_record.h) of the NVIDIA driver: system calls, errors, interrupts, page
 * faults and migrations.
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
	CT_NV_OTHER = 6,     /* /dev/nvidia-caps/..., nvlink, nvswitch: numbers only */
	CT_NV_DEV_CNT
};

/* How devices other than those of CT_NV_MAJOR are recognised. */
struct ct_nv_devs {
	__u32 uvm_major;       /* dynamic: from /proc/devices */
	__u32 other_majors[4]; /* nvidia-caps and the like; 0: none */
	__u32 by_name;	       /* for tests without devices: recognise files by name */
};
/* Major number of NVIDIA's device files. */
#define CT_NV_MAJOR 195
/* Prefix of their paths. */
#define CT_NV_PATH "/dev/nvidia"

/* The device whose set of commands `dev` uses: there are three sets. */
static inline __u32 ct_nv_commands_of(__u32 dev)
{
	if (dev == CT_NV_GPU)
		return CT_NV_CTL;
	return dev == CT_NV_UVM_TOOLS ? CT_NV_UVM : dev;
}

/* For a result that may be an address: values from -CT_MAX_ERRNO to -1 are -errno. */
#define CT_MAX_ERRNO 4095

enum ct_nv_op {
	CT_NV_IOCTL = 1,
	CT_NV_MMAP = 2,
	CT_NV_OPEN = 3,
	CT_NV_CLOSE = 4,
	CT_NV_POLL = 5, /* kprobe and fentry only */
};

/* Blocks of bytes after a record. */
enum ct_nv_block {
	CT_NV_ENTRY = 0,       /* the argument, before the driver ran */
	CT_NV_EXIT = 1,	       /* the same, after */
	CT_NV_INNER_ENTRY = 2, /* IOCTL_XFER_CMD: what its pointer points to */
	CT_NV_INNER_EXIT = 3,
	CT_NV_PARAMS = 4, /* RM_CONTROL: first bytes of its parameters, after */
};

#define CT_NV_SPAN_SZ_MAX 256
#define CT_NV_MAX_BLOCKS  6

struct ct_nv_data {
	__u8 block; /* enum ct_nv_block */
	__u8 reserved;
	__u16 off; /* offset in the block */
	__s16 len; /* bytes that follow, padded to 8; negative: -errno, and none follow */
	__u16 reserved2;
};

struct ct_nv {
	struct ct_rec rec; /* flags: CT_CALL_F_UNFINISHED */
	__u64 end_ns;
	__u64 call_id; /* the enclosing CUDA call, or 0 */
	__u64 file;    /* identifies the open file */
	__u64 arg;     /* ioctl: the argument; mmap: bytes */
	__s64 ret;     /* result of the system call or of the driver's function; mmap: address */
	__u32 func_id; /* of the CUDA call */
	__u32 cmd;     /* ioctl: low 32 bits */
	__s32 fd;      /* -1: unknown (kprobe, fentry) */
	__u16 minor;
	__u8 dev; /* enum ct_nv_dev */
	__u8 op;  /* enum ct_nv_op */
	__u8 block_cnt;
	__u8 is_release; /* close of the last descriptor: the file is released */
	__u8 reserved[6];
	struct ct_nv_data blocks[CT_NV_MAX_BLOCKS];
};
_Static_assert(sizeof(struct ct_nv) == 136, "ct_nv is part of the ABI");

struct ct_xid {
	struct ct_rec rec;
	__u32 code;
	__u32 reserved;
	char device[32];
	char msg[256];
};

struct ct_irq {
	struct ct_rec rec; /* pid and tid: the interrupted thread */
	__u32 irq;
	__u32 cpu;
	char name[16];
};

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

/* UNFINISHED: the GPU was still in use when the trace ended. BEFORE: already in use when the log
 * began. KERNEL: used by the kernel. */
#define CT_CTXSW_F_UNFINISHED 1
#define CT_CTXSW_F_BEFORE     2
#define CT_CTXSW_F_KERNEL     4

/* --gpu-ctxsw: a process used a GPU's graphics and compute engine. */
struct ct_ctxsw {
	struct ct_rec rec; /* pid 0: the kernel, or another user's process */
	__u64 end_ns;
	__u64 missed;  /* records of the driver's log missing right before this one */
	__u32 minor;   /* N of /dev/nvidiaN */
	__u32 context; /* channel number; 0: redacted */
	char gpu[16];  /* PCI address */
	char comm[16]; /* of the process; empty: unknown */
};

#endif /* CT_NV_H */
