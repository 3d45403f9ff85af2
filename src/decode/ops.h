/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Effects of ops, as data (cuda_ops.def), and the kinds of memory that they make and free
 * (blocks.def). */
#ifndef DECODE_OPS_H
#define DECODE_OPS_H

#include <stdbool.h>
#include <stdint.h>

/* The effect of a call: model/ uses it, and its name is "op" in JSONL. */
enum api_op {
#define OP(id, ...) OP_##id,
#include "cuda_ops.def"
#undef OP
	OP_CNT
};

enum op_does {
	DOES_LAUNCH = 1 << 0,	    /* a kernel */
	DOES_LAUNCH_GRAPH = 1 << 1, /* a graph */
	DOES_COPY = 1 << 2,
	DOES_SUBMIT = 1 << 3,	  /* submits work to the GPU */
	DOES_WAIT = 1 << 4,	  /* always waits */
	MAY_WAIT = 1 << 5,	  /* may wait until freed memory is no longer in use */
	HAS_PTR_ARG = 1 << 6,	  /* its first argument is the address */
	IS_KEPT = 1 << 7,	  /* kept regardless of --min-duration: the model needs it */
	SETS_STATE = 1 << 8,	  /* sets state for later calls, often */
	DOES_COLLECTIVE = 1 << 9, /* with all ranks of a communicator */
	DOES_PEER = 1 << 10,	  /* with one rank */
};

enum copy_dir {
	COPY_NONE,
	COPY_DIR_HTOD,
	COPY_DIR_DTOH,
	COPY_DIR_DTOD,
	COPY_DIR_HTOH,
	COPY_DIR_PEER
};
const char *copy_dir_name(enum copy_dir d); /* "HtoD", ...; NULL for COPY_NONE */

/* Categories of live memory. */
enum mem_kind { MEM_DEVICE, MEM_HOST, MEM_MANAGED, MEM_KIND_CNT, MEM_NONE = MEM_KIND_CNT };
const char *mem_kind_name(enum mem_kind k); /* "device", "host", "managed" */

/* Kinds of memory that calls make and free. */
enum block_kind {
#define BLOCK(id, ...) BLOCK_##id,
#include "blocks.def"
#undef BLOCK
	BLOCK_KIND_CNT
};

/* Key spaces: addresses and handles may be equal numbers. */
enum block_space {
	SPACE_ADDR,
	SPACE_HANDLE,	/* arrays, cuMemCreate, external memory */
	SPACE_RESERVED, /* reserved ranges: a mapping may begin at the same address */
	SPACE_MAPPED,	/* a mapping of physical memory */
	SPACE_CNT
};

struct block_desc {
	const char *name;
	uint8_t counted; /* enum mem_kind */
	uint8_t space;	 /* enum block_space */
	bool in_context; /* freed with its context */
};
extern const struct block_desc block_desc[BLOCK_KIND_CNT];

struct op_desc {
	const char *name;
	uint16_t does; /* enum op_does */
	uint8_t dir;   /* enum copy_dir; COPY_NONE: set by its arguments */
	int8_t makes;  /* 1: makes memory; -1: frees it; 0: neither */
	uint8_t block; /* enum block_kind of that memory */
};
extern const struct op_desc op_desc[OP_CNT];

static inline bool op_does(enum api_op op, unsigned what)
{
	return op_desc[op].does & what;
}

#endif /* DECODE_OPS_H */
