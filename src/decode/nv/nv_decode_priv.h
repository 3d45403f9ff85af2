/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Shared by nv_decode.c and nv_decode_rm.c. */
#ifndef DECODE_NV_NV_DECODE_PRIV_H
#define DECODE_NV_NV_DECODE_PRIV_H

#include "nv_decode.h"

struct decode {
	const struct nv_decode_in *in;
	struct nv_ioctl *out;
	const struct nv_block *entry, *exit; /* those of in, or the inner ones of an XFER */
};

/* Copies size bytes at off of the argument, all or nothing. */
bool nv_block_read(const struct nv_block *b, uint32_t off, uint32_t size, void *dst);
void nv_decode_roles(struct decode *d, const struct nv_struct *layout, bool is_uvm);
/* Decodes a field that is in no layout. */
void nv_decode_value(struct decode *d, uint32_t off, uint8_t size, bool made, enum nv_role role);
void nv_decode_fit(struct nv_ioctl *out, enum nv_fit fit);
void nv_decode_rm(struct decode *d);

#endif /* DECODE_NV_NV_DECODE_PRIV_H */
