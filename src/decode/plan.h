/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Layout of a function's arguments in a record. Computed once per function from its row, for both
 * the spec and the decoder, so they agree. Private to spec.c and value.c.
 */
#ifndef DECODE_PLAN_H
#define DECODE_PLAN_H

#include "value.h"

/* Maximum number of arguments: cublasGemmStridedBatchedEx has 23. */
#define PLAN_ARGS API_ARGS_MAX

/* Marks an argument that is not in the argument words: a float (vector register), or beyond the
 * recorded words. */
#define PLAN_NO_WORD 0xff

struct plan {
	bool ready;
	uint8_t word_cnt, cap_cnt, skip, skip_at;
	uint8_t word[PLAN_ARGS]; /* first word of each argument, or PLAN_NO_WORD */
	int8_t cap[PLAN_ARGS];	 /* pointee of each argument, or -1 */
	/* Number of arguments, from each one on, whose values are consecutive words. */
	uint8_t numbers[PLAN_ARGS];
	struct ct_cap caps[CT_MAX_CAPS];
};

/* Returns the cached plan of a row of the table; for any other function it is built in *tmp. */
const struct plan *api_plan(const struct api_fn *fn, struct plan *tmp);

/* CUlaunchConfig: offsets of the pointer to launch attributes, and of their number. */
#define LAUNCH_ATTRS_OFF     40
#define LAUNCH_ATTRS_CNT_OFF 48
#define LAUNCH_ATTR_SZ	     72
bool api_type_has_attrs(const struct api_type *type);

#endif /* DECODE_PLAN_H */
