/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How the arguments of a function lie in a record. Worked out once per function from its row, for
 * the spec and for the decoder, which so agree. Private to spec.c and value.c.
 */
#ifndef DECODE_PLAN_H
#define DECODE_PLAN_H

#include "value.h"

/* Arguments of a function that are looked at: cublasGemmStridedBatchedEx has 23. */
#define PLAN_ARGS API_ARGS_MAX

/* Not in the argument words: a float (vector register), or beyond the words that are kept. */
#define PLAN_NO_WORD 0xff

struct plan {
	bool ready;
	uint8_t word_cnt, cap_cnt, skip, skip_at;
	uint8_t word[PLAN_ARGS]; /* of each argument: first word, or PLAN_NO_WORD */
	int8_t cap[PLAN_ARGS];	 /* of each argument: pointee, or -1 */
	/* From each argument on: so many have words one behind the other that are their values. */
	uint8_t numbers[PLAN_ARGS];
	struct ct_cap caps[CT_MAX_CAPS];
};

/* The plan of a row of the table is kept; that of any other function is made in *tmp. */
const struct plan *api_plan(const struct api_fn *fn, struct plan *tmp);

/* CUlaunchConfig: attributes of a launch behind a pointer. */
#define LAUNCH_ATTRS_OFF     40
#define LAUNCH_ATTRS_CNT_OFF 48
#define LAUNCH_ATTR_SZ	     72
bool api_type_has_attrs(const struct api_type *type);

#endif /* DECODE_PLAN_H */
