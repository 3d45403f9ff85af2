/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Live memory of one process by kind: sums over its ledger. */
#ifndef MODEL_MEM_H
#define MODEL_MEM_H

#include "ledger.h"

/* A block that was freed, for addresses that are used later. */
struct mem_freed {
	uint64_t ptr, size;
	uint64_t id; /* of the call that freed it */
};
#define MEM_FREED_MAX  64
#define MEM_FREED_ROWS 16

struct mem {
	struct ledger ledger; /* must be first; its quota includes blocks */
	uint64_t bytes[MEM_KIND_CNT];
	/* Number of blocks replaced by newer ones at the same address, whose free is not recorded
	 * yet. The call that freed them began before superseded_ns. */
	uint64_t superseded_cnt, superseded_ns;
	/* Memory without a block, because the limit was reached: it is included in bytes. A free of
	 * an unknown address subtracts the average size of one. */
	struct {
		uint64_t cnt, bytes;
	} loose[MEM_KIND_CNT];
	bool keeps_freed; /* for mem__freed_at() */
	struct mem_freed
		*freed; /* ring of the latest; its memory counts as MEM_FREED_ROWS blocks */
	unsigned freed_cnt;
};

/* Adds a copy of b, and counts it by its kind. */
void mem__add(struct mem *m, const struct block *b);
/* Removes the block at key, and copies it to *was. Returns false if there is none, or if it is
 * newer than the call that frees, which began at start_ns. Threads race: another may have got the
 * address before this call's record arrived. */
bool mem__free(struct mem *m, enum block_space space, uint64_t key, uint64_t start_ns,
	       struct block *was);
/* Remembers, for mem__kind_at(), device memory that is not counted here: imported memory, or a
 * variable of a module. ev is a call of another class than memory that may return such an
 * address. */
void mem__learn(struct mem *m, const struct trace_event *ev);
/* Returns the kind that memory at addr is counted as, or -1 if unknown. MEM_NONE: device memory
 * that this process does not own. */
int mem__kind_at(const struct mem *m, uint64_t addr);
/* Returns the block at addr that was freed last, or NULL. Size 0: its size is not known. Only for
 * addresses in no live block. */
const struct mem_freed *mem__freed_at(const struct mem *m, uint64_t addr);
/* Applies a call of type init, context or memory, live or saved. Sets ev->mem, ev->made, and the
 * size of freed memory. */
void mem__event(struct mem *m, struct trace_event *ev);
void mem__totals(const struct mem *m, struct mem_totals *out);
void mem__clear(struct mem *m);

#endif /* MODEL_MEM_H */
