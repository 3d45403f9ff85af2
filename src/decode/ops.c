/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "ops.h"

#include <stddef.h>

/* Short names for the table. */
enum {
	LAUNCHES = DOES_LAUNCH,
	LAUNCHES_GRAPH = DOES_LAUNCH_GRAPH,
	COPIES = DOES_COPY,
	SUBMITS = DOES_SUBMIT,
	WAITS = DOES_WAIT,
	PTR = HAS_PTR_ARG,
	KEPT = IS_KEPT,
	STATE = SETS_STATE,
	COLLECTIVE = DOES_COLLECTIVE,
	PEER = DOES_PEER,
};
#define MAKES(kind) 1, BLOCK_##kind
#define FREES(kind) -1, BLOCK_##kind
#define NOTHING	    0, 0

const struct op_desc op_desc[OP_CNT] = {
#define OP(id, name, does, dir, memory) {name, does, COPY_##dir, memory},
#include "cuda_ops.def"
#undef OP
};

enum { LIVES_IN_DEVICE, LIVES_IN_CONTEXT };

const struct block_desc block_desc[BLOCK_KIND_CNT] = {
#define BLOCK(id, name, counted, space, home) {name, MEM_##counted, SPACE_##space, LIVES_IN_##home},
#include "blocks.def"
#undef BLOCK
};

const char *copy_dir_name(enum copy_dir d)
{
	static const char *const names[] = {
		[COPY_DIR_HTOD] = "HtoD", [COPY_DIR_DTOH] = "DtoH", [COPY_DIR_DTOD] = "DtoD",
		[COPY_DIR_HTOH] = "HtoH", [COPY_DIR_PEER] = "peer",
	};

	return d < sizeof(names) / sizeof(names[0]) ? names[d] : NULL;
}

const char *mem_kind_name(enum mem_kind k)
{
	static const char *const names[MEM_KIND_CNT] = {
		[MEM_DEVICE] = "device", [MEM_HOST] = "host", [MEM_MANAGED] = "managed"};

	return names[k];
}
