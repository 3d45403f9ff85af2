/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Decodes the bytes of one ioctl.
 *
 * The caller passes the device, the request number, and the copied bytes of the argument, at entry,
 * at exit, or both. The bytes come from the traced process and are untrusted: nothing outside the
 * given ranges is read, and a field that is not completely inside them is NV_AT_UNREADABLE. Pure
 * functions; the result points into const tables only.
 */
#ifndef DECODE_NV_NV_DECODE_H
#define DECODE_NV_NV_DECODE_H

#include "nv.h"

#include "ct_nv_bpf.h"

#define NV_VERSION_LEN 64
#define NV_CARDS       6
#define NV_GPU_IDS     32

struct nv_range {
	const void *data;
	uint32_t off; /* offset of data in the argument */
	uint32_t len;
};

struct nv_block {
	struct nv_range r[CT_NV_SPANS]; /* len 0: nothing */
};

struct nv_decode_in {
	const struct nv_abi *abi;
	enum ct_nv_dev dev;
	uint32_t cmd;		     /* low 32 bits of the request */
	bool finished;		     /* false: the ioctl has not returned; exit is ignored */
	int64_t ret;		     /* return value of ioctl() */
	struct nv_block entry, exit; /* the argument */
	struct nv_block inner_entry; /* XFER: the block that the argument's ptr points to */
	struct nv_block inner_exit;
};

/* Source of a value. */
enum nv_at {
	NV_AT_NONE, /* this command has no such field */
	NV_AT_EXIT,
	NV_AT_ENTRY, /* before the driver ran; valid for fields that the caller sets */
	NV_AT_STALE, /* status that the driver did not write, because it failed or is not done */
	NV_AT_UNREADABLE, /* the field exists, its bytes were not copied */
};

enum nv_role {
	NV_R_STATUS,
	NV_R_CLIENT, /* hClient, hRoot */
	NV_R_OBJECT, /* object of the command */
	NV_R_PARENT, /* hObjectParent, hDevice */
	NV_R_NEW,    /* handle created by the command */
	NV_R_CLASS,
	NV_R_CONTROL,  /* RM_CONTROL: the nested command */
	NV_R_FUNCTION, /* VID_HEAP_CONTROL and others: a sub-function */
	NV_R_FLAGS,
	NV_R_ADDRESS,
	NV_R_OFFSET,
	NV_R_LENGTH,
	NV_R_FD,
	NV_R_PARAMS, /* pointer to a second block */
	NV_R_PARAMS_SIZE,
	NV_R_SRC_CLIENT, /* DUP_OBJECT */
	NV_R_SRC_OBJECT,
	NV_R_CNT
};

struct nv_value {
	uint64_t v; /* 0 unless at is EXIT or ENTRY; signed fields are sign-extended */
	uint8_t at; /* enum nv_at */
};

enum {
	NV_NOTE_XFER = 1 << 0,		 /* nr and size are those inside an IOCTL_XFER_CMD */
	NV_NOTE_UNKNOWN = 1 << 1,	 /* number in no table */
	NV_NOTE_OTHER_VERSION = 1 << 2,	 /* a name is from another version */
	NV_NOTE_PARTIAL = 1 << 3,	 /* a name holds for some releases of this branch */
	NV_NOTE_SIZE_MISMATCH = 1 << 4,	 /* size in the request fits no layout: fields not read */
	NV_NOTE_LAYOUT_BY_SIZE = 1 << 5, /* layout chosen by size, against the version */
	NV_NOTE_NOT_HANDLED = 1 << 6,	 /* number that no driver on Linux handles */
	NV_NOTE_GSS_LEGACY = 1 << 7,
	NV_NOTE_UNPUBLISHED = 1 << 8,
	NV_NOTE_PARAMS_SIZE = 1 << 9, /* control's parameters have another size than in the table */
	NV_NOTE_NEWER = 1 << 10,      /* driver newer than the tables */
	NV_NOTE_OLDER = 1 << 11,
	NV_NOTE_NO_VERSION = 1 << 12,
	NV_NOTE_NEW_CLIENT = 1 << 13, /* RM_ALLOC of a root: the client is the new handle */
	NV_NOTE_TRUNCATED = 1 << 14,  /* list longer than what was copied */
	NV_NOTE_TEST = 1 << 15,	      /* UVM built-in test */
};

struct nv_card {
	bool valid;
	uint32_t domain, gpu_id, minor;
	uint8_t bus, slot, function;
	uint16_t vendor_id, device_id;
};

struct nv_ioctl {
	enum ct_nv_dev dev;
	uint32_t nr;   /* escape number, UVM or NVKMS command */
	uint32_t size; /* bytes of the argument; 0 if the request does not contain it */
	uint32_t notes;
	const char *name;		 /* NV_ESC_*, UVM_*, NVKMS_IOCTL_*; NULL when unknown */
	const char *params;		 /* struct of the argument, or NULL */
	const struct nv_struct *layout;	 /* layout used for the fields, or NULL */
	const struct nv_rmctrl *control; /* RM_CONTROL, if in the table */
	const struct nv_sched *sched;	 /* if the control concerns the scheduler */
	const struct nv_class *class;
	const char *function;	 /* name of a VID_HEAP_CONTROL function */
	const char *status_name; /* NULL: no status, or one without a name */
	struct nv_value f[NV_R_CNT];
	uint8_t uuid[16]; /* of the GPU or processor */
	uint8_t uuid_at;
	char lib_version[NV_VERSION_LEN]; /* CHECK_VERSION_STR: version that the library sent ... */
	char driver_version[NV_VERSION_LEN]; /* ... and the driver's reply; "" if not read */
	struct nv_card cards[NV_CARDS];	     /* CARD_INFO: the copied entries */
	uint32_t card_cnt;
	uint32_t gpu_ids[NV_GPU_IDS]; /* ATTACH_GPUS_TO_FD */
	uint32_t gpu_id_cnt;
};

void nv_decode_ioctl(const struct nv_decode_in *in, struct nv_ioctl *out);

static inline bool nv_has(const struct nv_ioctl *io, enum nv_role role)
{
	return io->f[role].at == NV_AT_EXIT || io->f[role].at == NV_AT_ENTRY;
}

/* Rows that define what to copy from each ioctl, and from the parameters of RM controls. The code
 * that copies needs no knowledge of commands. Both return the number of rows, and write at most cap
 * of them (CT_NV_PLANS_MAX, CT_NV_PARAMS_MAX are enough). */
unsigned nv_plan_rows(const struct nv_abi *abi, enum ct_redact redact, struct ct_nv_row *out,
		      unsigned cap);
unsigned nv_plan_param_rows(const struct nv_abi *abi, enum ct_redact redact,
			    struct ct_nv_params *out, unsigned cap);

#endif /* DECODE_NV_NV_DECODE_H */
