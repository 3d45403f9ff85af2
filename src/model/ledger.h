/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Memory of one process: blocks, mappings, references, pools, contexts. Both users attach their
 * data to its blocks: live sums (model/mem.c: summary, Chrome, metrics, top) and the report's
 * analysis (report/memory/).
 */
#ifndef MODEL_LEDGER_H
#define MODEL_LEDGER_H

#include "contexts.h"
#include "event.h"

#include "util/limits.h"

/* First member of the user's struct for a block. */
struct block {
	uint64_t key, size; /* address or handle; bytes */
	uint64_t born_ns;   /* when the call that made it returned */
	uint64_t ctx;	    /* context that it is freed with; 0: none or unknown */
	struct block *phys; /* physical memory of a mapping; NULL: unknown */
	struct block *next; /* next in the list of ledger__list() */
	uint32_t maps;	    /* number of mappings, which keep it when refs is 0 */
	uint16_t refs;	    /* number of frees until it is gone; UINT16_MAX: unknown */
	uint8_t kind;	    /* enum block_kind */
	uint8_t space;	    /* enum block_space */
};

struct ledger;
struct ledger_ops {
	/* The block is no longer live: frees it. */
	void (*removed)(struct ledger *l, struct block *b, uint64_t ns);
	/* Its free was not recorded, or not yet: block by is at its address now. */
	void (*lost)(struct ledger *l, struct block *b, const struct block *by);
};

HASH_TABLE_TYPE(ledger_pool);

struct ledger {
	const struct ledger_ops *ops;
	void *trees[SPACE_MAPPED]; /* tsearch; mappings are in the tree of SPACE_ADDR */
	struct contexts ctx;
	struct ledger_pool_table pools;
	struct quota *quota;	  /* for contexts and pools; NULL: only the fixed limits apply */
	struct quota_share share; /* includes the user's blocks */
};

/* The effect of a call on memory, if it succeeds. */
enum mem_act_what {
	MEM_NOTHING,
	MEM_MAKES,
	MEM_FREES,
	MEM_MAPS,
	MEM_UNMAPS,
	MEM_RETAINS,
	MEM_POOLS, /* makes, destroys or looks up a pool */
};

struct mem_act {
	enum mem_act_what what;
	enum block_kind kind;	/* MEM_MAKES */
	enum block_space space; /* MEM_MAKES, MEM_FREES */
	uint64_t key, size;
	bool has_key, has_size;
	bool in_context; /* it is freed with its context */
	bool is_placed;	 /* device is from a location or a pool, not from the context */
	int device;	 /* -1: unknown or none */
};

/* Fills *a from a call of class memory or interop. */
void ledger__read(const struct ledger *l, const struct trace_event *ev, struct mem_act *a);
/* Returns the context that owns the memory which the call makes; 0: none or unknown. */
uint64_t ledger__home(struct ledger *l, const struct trace_event *ev, const struct mem_act *a);

struct block *ledger__at(const struct ledger *l, enum block_space space, uint64_t key);
/* Returns the block or mapping that contains the address. */
struct block *ledger__around(const struct ledger *l, uint64_t addr);
/* Opens memory of another process once more: cuIpcOpenMemHandle() counts how often it was opened
 * and returns the same address (cuda.h). Returns false if it is another block. */
bool ledger__again(struct ledger *l, const struct block *b);
/* Removes blocks that overlap b: they must have been freed. */
void ledger__evict(struct ledger *l, const struct block *b);
/* As ledger__evict(), and adds b, which belongs to the ledger until removed() is called. Returns
 * false if out of memory. */
bool ledger__put(struct ledger *l, struct block *b);
/* Adds b, of SPACE_MAPPED, as a mapping of the physical memory with the handle. Returns false if
 * out of memory. */
bool ledger__map(struct ledger *l, struct block *b, uint64_t handle);
void ledger__unmap(struct ledger *l, uint64_t addr, uint64_t size, uint64_t ns);
/* Adds a reference to the memory with this handle, or to the memory mapped at addr (0: none). */
void ledger__retain(struct ledger *l, uint64_t handle, uint64_t addr);
/* Drops one reference. The block is freed with the last one, or with its last mapping. */
void ledger__release(struct ledger *l, struct block *b, uint64_t ns);
/* Frees the block whatever its references; mapped memory is freed with its last mapping. */
void ledger__take(struct ledger *l, struct block *b, uint64_t ns);
/* Handles a successful call of MEM_POOLS. Returns false if the limit of pools is reached. */
bool ledger__pool(struct ledger *l, const struct trace_event *ev);
/* Lists the blocks of a space in the order of their keys; SPACE_ADDR includes the mappings. */
struct block *ledger__list(const struct ledger *l, enum block_space space);
/* Frees all blocks of the context, after calling left() for each (NULL: not called). */
void ledger__context_gone(struct ledger *l, uint64_t ctx, uint64_t ns,
			  void (*left)(struct ledger *l, struct block *b));
/* Frees everything, including contexts and pools. */
void ledger__clear(struct ledger *l, uint64_t ns, void (*left)(struct ledger *l, struct block *b));

#endif /* MODEL_LEDGER_H */
