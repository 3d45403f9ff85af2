/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Validation of raw records: later code may rely on the sizes in them. */
#ifndef RECORD_CHECK_H
#define RECORD_CHECK_H

#include "ct_gpu.h"
#include "ct_stall.h"
#include "ct_nv.h"
#include "ct_record.h"

#include <stddef.h>
#include <stdint.h>

/* Ids of calls are unique within one producer, and have this many bits. The producer's number is
 * above them, so that ids of different producers differ. Together they fit into the 53 bits of a
 * number in JSON. */
#define RAW_ID_BITS	 48
#define RAW_PRODUCER_MAX 32

/* A struct ct_call with its located pointees. */
struct raw_call {
	const struct ct_call *call;
	/* call->call_id, call->parent_id, call->operator_id, with the producer's number */
	uint64_t id, parent_id, operator_id;
	unsigned word_cnt, cap_cnt;
	const uint64_t *words;
	struct {
		const uint8_t *data; /* NULL when len <= 0 */
		int len;	     /* bytes; 0: not tried; negative: -errno */
	} caps[CT_MAX_CAPS];
	const uint64_t *stack; /* return addresses, the call's own first; NULL: none */
	unsigned stack_cnt;
	const struct ct_python_frame *python; /* innermost first; NULL: none */
	unsigned python_cnt;
};

/* A struct ct_nv with its located blocks. */
struct raw_nv {
	const struct ct_nv *nv;
	uint64_t call_id; /* nv->call_id, with the producer's number */
	unsigned block_cnt;
	struct {
		const uint8_t *data;
		int len; /* negative: -errno */
	} blocks[CT_NV_MAX_BLOCKS];
};

/* A record with valid sizes and numbers. */
struct raw {
	const struct ct_rec *rec; /* kind: enum ct_rec_kind, never CT_REC_NONE */
	union {
		struct raw_call call; /* CT_REC_CALL */
		struct raw_nv nv;     /* CT_REC_NV */
	};
};

/* Checks that a record is as producers make it. producer: number of its producer. Returns 0 and
 * *raw, or -EINVAL. */
int raw_check(const void *data, size_t size, unsigned producer, struct raw *raw);

#endif /* RECORD_CHECK_H */
