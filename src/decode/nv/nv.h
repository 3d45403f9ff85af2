/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The NVIDIA kernel ABI as data: escapes, RM controls, classes, UVM commands, NVKMS commands,
 * status codes, parameter layouts, scheduler controls, Xids.
 *
 * Nothing here is stable between drivers, so every lookup takes a struct nv_abi: the running
 * driver's version, matched once with the versions in the tables (515.43.04 to 595.45.04). Each
 * lookup returns in enum nv_fit how reliable its result is. Pure functions over const tables;
 * tools/nv-tables.py generates most of the .def files from tables of facts.
 */
#ifndef DECODE_NV_NV_H
#define DECODE_NV_NV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ct_nv.h"

struct nv_version {
	unsigned major, minor, patch; /* 580.159.04 -> 580, 159, 4 */
};

/* How the running driver relates to the tables. */
enum nv_known {
	NV_KNOWN,	  /* a branch in the tables */
	NV_KNOWN_NEWER,	  /* newer than the tables: newest layouts are used */
	NV_KNOWN_OLDER,	  /* older than the tables: 515's layouts are used */
	NV_KNOWN_NOTHING, /* no version could be read: newest layouts are used */
};

struct nv_abi {
	struct nv_version version; /* running version; zeros with NV_KNOWN_NOTHING */
	uint32_t key;		   /* NV_VER() of the version used for lookups */
	uint8_t branch;		   /* index, 0 is 515 */
	uint8_t known;		   /* enum nv_known */
};

/* How reliable a row is for this driver. */
enum nv_fit {
	NV_FIT_EXACT,
	NV_FIT_PARTIAL, /* only some releases of this branch have it; which ones is unknown */
	NV_FIT_OTHER,	/* only other versions have it: the name is only a hint */
	NV_FIT_NONE,	/* no such row */
};

#define NV_VER(a, b, c) ((uint32_t)(a) << 20 | (uint32_t)(b) << 10 | (uint32_t)(c))

/* Reads "580.159.04" or "580.142" at the start of text; the next character must not be part of
 * it. */
bool nv_version_parse(const char *text, struct nv_version *v);
/* v may be NULL: version unknown. */
void nv_abi_init(struct nv_abi *abi, const struct nv_version *v);
/* 515, ..., 595: the branch whose tables are used. */
unsigned nv_abi_branch(const struct nv_abi *abi);
/* Returns a warning for the user, or NULL if the driver is in the tables. */
const char *nv_abi_caveat(const struct nv_abi *abi);

enum nv_kind {
	NV_KIND_UINT,
	NV_KIND_INT,
	NV_KIND_BOOL,
	NV_KIND_HANDLE,
	NV_KIND_PTR,
	NV_KIND_STATUS,
	NV_KIND_BYTES, /* array, struct, union, UUID */
};

struct nv_field {
	uint16_t off, size;
	uint8_t kind; /* enum nv_kind */
	const char *name;
};

struct nv_struct {
	const char *name;
	uint32_t size;
	uint32_t since, until; /* NV_VER() */
	const struct nv_field *fields;
	unsigned field_cnt;
};

struct nv_escape {
	uint8_t nr;
	uint8_t devs;  /* bits (1 << n) of enum ct_nv_dev; 0: in a header, handled by no driver on
			  Linux */
	bool is_short; /* RM_ALLOC: the 32-byte form */
	const char *name;
	const char *params; /* struct of the argument, or NULL */
	uint32_t since, until;
};

enum nv_by { NV_BY_NO, NV_BY_CPU, NV_BY_GSP };

enum { NV_CTRL_ALIAS = 1, NV_CTRL_UNPUB = 2 };

struct nv_size {
	uint32_t since; /* NV_VER(), UINT32_MAX ends the list */
	uint32_t size;
};

struct nv_rmctrl {
	uint32_t value;
	uint16_t branches, partial; /* bit n: branch of index n */
	uint8_t by;		    /* enum nv_by: what executes it with GSP firmware */
	uint8_t flags;		    /* NV_CTRL_* */
	const char *name;
	const char *params; /* struct, or NULL */
	const struct nv_size *sizes;
};

struct nv_class {
	uint32_t number;
	uint16_t branches; /* 0: in the driver's resource list, not in a class header */
	const char *name;
	const char *kind;   /* "channel", "memory", ... or "" */
	const char *params; /* struct of the allocation parameters, or NULL */
	uint32_t params_size;
	const char *other_names; /* comma separated, or "" */
};

struct nv_uvm {
	uint32_t number;
	uint8_t devs; /* bits of enum ct_nv_dev; 0: not routed on Linux */
	bool is_test;
	const char *name;
	const char *params;
	uint32_t since, until;
};

struct nv_status_row {
	uint32_t value;
	const char *name;
	uint32_t since, until;
};

#define NV_KMS_RELEASES 8
struct nv_kms {
	const char *name;
	int16_t cmd[NV_KMS_RELEASES]; /* -1: not in that release */
};

/* A control that sends a request to the GPU scheduler or reports its state. */
struct nv_sched {
	uint32_t value;
	const char *op; /* short word for events: "schedule", "timeslice", ... */
	const char *name;
	const char *text;
	const char *params; /* layout in struct.def, or NULL */
	const char *fields; /* its fields with the result, separated by commas, or "" */
};

struct nv_xid {
	unsigned number;
	const char *text;
};

/* Rows in table order. */
const struct nv_escape *nv_escapes(unsigned *cnt);
const struct nv_rmctrl *nv_rmctrls(unsigned *cnt);
const struct nv_class *nv_classes(unsigned *cnt);
const struct nv_uvm *nv_uvms(unsigned *cnt);
const struct nv_status_row *nv_statuses(unsigned *cnt);
const struct nv_kms *nv_kms_rows(unsigned *cnt);
const uint32_t *nv_kms_releases(unsigned *cnt);
const struct nv_struct *nv_structs(unsigned *cnt);
const struct nv_sched *nv_scheds(unsigned *cnt);
const struct nv_xid *nv_xids(unsigned *cnt);

/* Lookups return NULL if there is no such row; fit may be NULL. */
const struct nv_escape *nv_escape_by_nr(const struct nv_abi *abi, uint32_t nr, enum nv_fit *fit);
const struct nv_rmctrl *nv_rmctrl_by_value(const struct nv_abi *abi, uint32_t value,
					   enum nv_fit *fit);
const struct nv_rmctrl *nv_rmctrl_by_name(const struct nv_abi *abi, const char *name,
					  enum nv_fit *fit);
const struct nv_class *nv_class_by_number(const struct nv_abi *abi, uint32_t number,
					  enum nv_fit *fit);
const struct nv_uvm *nv_uvm_by_number(const struct nv_abi *abi, uint32_t number, enum nv_fit *fit);
const char *nv_status_name(const struct nv_abi *abi, uint32_t status, enum nv_fit *fit);
const char *nv_kms_name(const struct nv_abi *abi, uint32_t cmd, enum nv_fit *fit);
const struct nv_struct *nv_struct_by_name(const struct nv_abi *abi, const char *name,
					  enum nv_fit *fit);
/* Returns the only layout of that name with this size, whatever the version; NULL if there is none
 * or more than one. */
const struct nv_struct *nv_struct_by_size(const char *name, uint32_t size);
const struct nv_field *nv_field_by_name(const struct nv_struct *s, const char *name);
const struct nv_sched *nv_sched_by_value(uint32_t value);
const char *nv_xid_text(unsigned number);

/* Returns the size of the parameters in this version, -1 if unknown. */
int nv_rmctrl_params_size(const struct nv_abi *abi, const struct nv_rmctrl *c);
int nv_class_params_size(const struct nv_abi *abi, const struct nv_class *c);
/* Returns whether the RM only forwards the control to the GSP firmware. Mostly libnvidia-ml uses
 * these; their numbers are unpublished. */
bool nv_rmctrl_is_gss_legacy(uint32_t value);
/* Writes the name, "GSS legacy ...", class and low half of the number, or the number; never
 * empty. */
void nv_rmctrl_describe(const struct nv_abi *abi, uint32_t value, char *buf, size_t size);
/* Writes "bEnable=1 bSkipSubmit=0" from the parameter bytes; fields beyond len are "?". */
void nv_sched_describe(const struct nv_abi *abi, const struct nv_sched *s, const void *params,
		       size_t len, char *buf, size_t size);
/* Returns "nvidia-uvm"; for CT_NV_GPU "nvidiaN", because N is unknown. */
const char *nv_dev_name(enum ct_nv_dev dev);
/* Returns the NVOS32 function name without its prefix, or NULL. */
const char *nv_heap_function_name(uint32_t function);

#endif /* DECODE_NV_NV_H */
