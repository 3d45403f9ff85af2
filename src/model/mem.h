/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Live memory of one process, by what it is counted as: sums of its ledger. */
#ifndef MODEL_MEM_H
#define MODEL_MEM_H

#include "ledger.h"

struct mem {
	struct ledger ledger; /* the first member; its quota is of blocks, too */
	uint64_t bytes[MEM_KIND_CNT];
	/* Blocks that had to make room for younger ones, whose free is still to come: its call has
	 * begun before superseded_ns. */
	uint64_t superseded_cnt, superseded_ns;
	/* What there was no room for: it is in bytes, and a free of an unknown address takes away
	 * what one of them has on average. */
	struct {
		uint64_t cnt, bytes;
	} loose[MEM_KIND_CNT];
};

/* A copy of b lives from now on: counted as its kind is. */
void mem__add(struct mem *m, const struct block *b);
/* Forgets the block at key, of which *was is a copy; false when there is none, or when it is
 * younger than the call that frees, which began at start_ns: threads race, and another may have
 * been given the address before this call's record came. */
bool mem__free(struct mem *m, enum block_space space, uint64_t key, uint64_t start_ns,
	       struct block *was);
/* A call of another class than memory that may return an address of device memory that is not
 * counted here: imported, or a variable of a module. It is remembered for mem__kind_at(). */
void mem__learn(struct mem *m, const struct trace_event *ev);
/* What memory at addr is counted as (MEM_NONE: of a device, and not this process's own), or -1: not
 * known. */
int mem__kind_at(const struct mem *m, uint64_t addr);
/* What a call of type init, context or memory, live or saved, does to it: fills ev->mem, ev->made
 * and the size of what it frees. */
void mem__event(struct mem *m, struct trace_event *ev);
void mem__totals(const struct mem *m, struct mem_totals *out);
void mem__clear(struct mem *m);

#endif /* MODEL_MEM_H */
