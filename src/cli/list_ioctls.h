/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Shared by the two output forms of cudatrace list --ioctls. */
#ifndef CLI_LIST_IOCTLS_H
#define CLI_LIST_IOCTLS_H

#include "decode/nv/nv_priv.h"
#include "text/json.h"
#include "util/out.h"

struct ioctls {
	struct out *out;
	struct json j;
	struct nv_abi abi;
	uint32_t oldest, newest; /* drivers in the tables, as NV_VER() */
	char driver[64];	 /* "": none is loaded */
	unsigned row_cnt, absent_cnt;
};

/* "CPU", "GSP"; NULL: unknown. */
const char *ioctls_by_name(const struct nv_rmctrl *c);
void ioctls_format_version(uint32_t v, char *buf, size_t size);
/* Number of the branch with this index. */
unsigned ioctls_branch(unsigned i);
enum nv_fit ioctls_ctrl_fit(const struct nv_abi *abi, const struct nv_rmctrl *c);
enum nv_fit ioctls_kms_fit(const struct nv_abi *abi, const struct nv_kms *k);
enum nv_fit ioctls_class_fit(const struct nv_abi *abi, const struct nv_class *c);
/* Size in bytes for this driver; -1: unknown. */
int ioctls_struct_size(const struct ioctls *l, const char *name);
void ioctls_count(struct ioctls *l, enum nv_fit fit);

void ioctls_print_json(struct ioctls *l);

#endif /* CLI_LIST_IOCTLS_H */
