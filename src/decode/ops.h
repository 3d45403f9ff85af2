/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What ops do, as data (cuda_ops.def), and the kinds of memory that they make and free
 * (blocks.def). */
#ifndef DECODE_OPS_H
#define DECODE_OPS_H

#include <stdbool.h>
#include <stdint.h>

/* What a call does: model/ works from this, and "op" in JSONL is its name. */
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
	DOES_SUBMIT = 1 << 3,	  /* gives the GPU something to do */
	DOES_WAIT = 1 << 4,	  /* by its nature */
	MAY_WAIT = 1 << 5,	  /* until what goes is no longer in use */
	HAS_PTR_ARG = 1 << 6,	  /* its first argument says where */
	IS_KEPT = 1 << 7,	  /* the model needs it, however short it is */
	SETS_STATE = 1 << 8,	  /* again and again */
	DOES_COLLECTIVE = 1 << 9, /* with all ranks of a communicator */
	DOES_PEER = 1 << 10,	  /* with one of them */
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

/* What live memory is counted as. */
enum mem_kind { MEM_DEVICE, MEM_HOST, MEM_MANAGED, MEM_KIND_CNT, MEM_NONE = MEM_KIND_CNT };
const char *mem_kind_name(enum mem_kind k); /* "device", "host", "managed" */

/* What calls make and free. */
enum block_kind {
#define BLOCK(id, ...) BLOCK_##id,
#include "blocks.def"
#undef BLOCK
	BLOCK_KIND_CNT
};

/* Addresses and handles may be equal numbers. */
enum block_space {
	SPACE_ADDR,
	SPACE_HANDLE,	/* arrays, cuMemCreate, external memory */
	SPACE_RESERVED, /* what is mapped into a reserved range begins where it does */
	SPACE_MAPPED,	/* a mapping of physical memory */
	SPACE_CNT
};

struct block_desc {
	const char *name;
	uint8_t counted; /* enum mem_kind */
	uint8_t space;	 /* enum block_space */
	bool in_context; /* goes with it */
};
extern const struct block_desc block_desc[BLOCK_KIND_CNT];

struct op_desc {
	const char *name;
	uint16_t does; /* enum op_does */
	uint8_t dir;   /* enum copy_dir; COPY_NONE: its arguments say */
	int8_t makes;  /* memory: 1; frees: -1; neither: 0 */
	uint8_t block; /* enum block_kind of that */
};
extern const struct op_desc op_desc[OP_CNT];

static inline bool op_does(enum api_op op, unsigned what)
{
	return op_desc[op].does & what;
}

#endif /* DECODE_OPS_H */
