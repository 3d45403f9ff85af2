/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Parameters of a launched kernel (--kernel-args), and the memory that they point to. */
#ifndef MODEL_PARAMS_H
#define MODEL_PARAMS_H

#include "ct_record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Words of the values that may be addresses. */
#define PARAMS_WORDS_MAX (CT_PARAMS_SZ_MAX / 8)

struct launch_param {
	uint16_t off, size; /* in the kernel's parameter buffer */
	uint16_t len;	    /* bytes of the value that are known: the first ones */
};

/* A word of a parameter is an address in a block of memory. */
struct param_memory {
	uint16_t param, at; /* index of the parameter; offset in it */
	bool freed;
	uint64_t ptr, size; /* of the block */
	uint64_t offset;    /* of the address in it */
	uint64_t freed_id;  /* freed: by this call */
};

struct launch_params {
	bool unknown; /* sizes are not known, or it has no parameters */
	bool more;    /* it has more than these */
	uint16_t cnt, memory_cnt;
	struct launch_param of[CT_PARAMS_MAX];
	uint8_t bytes[CT_PARAMS_SZ_MAX]; /* the values, without gaps */
	/* Copies end after memory_cnt. */
	struct param_memory memory[PARAMS_WORDS_MAX];
};

static inline size_t launch_params_sz(const struct launch_params *p)
{
	return offsetof(struct launch_params, memory) + p->memory_cnt * sizeof(p->memory[0]);
}

/* Reads a record's pointee; false: it is invalid, or nothing was recorded. */
bool launch_params_read(struct launch_params *to, const uint8_t *data, int len);
/* Calls fn for each word that may be an address: 8 bytes at a multiple of 8. */
void launch_params_words(const struct launch_params *p,
			 void (*fn)(void *ctx, unsigned param, unsigned at, uint64_t value),
			 void *ctx);

#endif /* MODEL_PARAMS_H */
