/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Raw records, distrusted once: whatever comes behind this may rely on the sizes in them.
 */
#ifndef EVENT_CHECK_H
#define EVENT_CHECK_H

#include "ct_record.h"
#include "ct_nv.h"

#include <stddef.h>
#include <stdint.h>

/* A struct ct_call whose captures have been found. */
struct raw_call {
	const struct ct_call *call;
	unsigned word_cnt, cap_cnt;
	const uint64_t *words;
	struct {
		const uint8_t *data; /* NULL when len <= 0 */
		int len;	     /* bytes; 0: not tried; negative: -errno */
	} caps[CT_MAX_CAPS];
	const uint64_t *stack; /* return addresses, the call's own first; NULL: none */
	unsigned stack_cnt;
};

/* A struct ct_nv whose blocks have been found. */
struct raw_nv {
	const struct ct_nv *nv;
	unsigned block_cnt;
	struct {
		const uint8_t *data;
		int len; /* negative: -errno */
	} blocks[CT_NV_MAX_BLOCKS];
};

/* For a record of kind CT_REC_NV. -EINVAL when its sizes or numbers make no sense. */
int raw_check_nv(const void *data, size_t size, struct raw_nv *out);

/* Kind of a record whose sizes are right, or -EINVAL. For CT_REC_CALL fills *call. */
int raw_check(const void *data, size_t size, struct raw_call *call);

#endif /* EVENT_CHECK_H */
