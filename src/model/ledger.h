/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The memory of one process: blocks, mappings, references, pools, contexts. It is the only model of
 * it: live sums (model/mem.c: summary, Chrome, metrics, top) and the report's analysis
 * (report/memory/) hang their numbers on its blocks.
 */
#ifndef MODEL_LEDGER_H
#define MODEL_LEDGER_H

#include "contexts.h"
#include "event.h"

#include "util/quota.h"

/* First member of what a user keeps for a block. */
struct block {
	uint64_t key, size; /* address or handle; bytes */
	uint64_t born_ns;   /* when the call that made it returned */
	uint64_t ctx;	    /* that it goes with; 0: none, or not known */
	struct block *phys; /* of a mapping; NULL: not known */
	struct block *next; /* in a list of ledger__list() */
	uint32_t maps;	    /* mappings, which keep it when refs is 0 */
	uint16_t refs;	    /* frees that it takes; the highest number: nobody knows */
	uint8_t kind;	    /* enum block_kind */
	uint8_t space;	    /* enum block_space */
};

struct ledger;
struct ledger_ops {
	/* It is live no more: frees it. */
	void (*gone)(struct ledger *l, struct block *b, uint64_t ns);
	/* Its free was not seen yet, or never will be: by lies in its place now. */
	void (*lost)(struct ledger *l, struct block *b, const struct block *by);
};

struct ledger_pool;

struct ledger {
	const struct ledger_ops *ops;
	void *trees[SPACE_MAPPED]; /* tsearch; mappings are in that of SPACE_ADDR */
	struct contexts ctx;
	struct ledger_pool *pools;
	struct quota *quota;	  /* of contexts and pools; NULL: fixed bounds alone */
	struct quota_share share; /* the user's blocks, too */
};

/* What a call does to memory, whether it went well or not. */
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
	bool in_context; /* it goes with its context */
	bool is_placed;	 /* device is that of a location or a pool, not of the context */
	int device;	 /* -1: not known, or none */
};

/* Of a call of class memory or interop. */
void ledger__read(const struct ledger *l, const struct trace_event *ev, struct mem_act *a);
/* The context that what the call makes lives in; 0: in none, or it is not known. */
uint64_t ledger__home(struct ledger *l, const struct trace_event *ev, const struct mem_act *a);

struct block *ledger__at(const struct ledger *l, enum block_space space, uint64_t key);
/* The block or mapping that the address lies in. */
struct block *ledger__around(const struct ledger *l, uint64_t addr);
/* The same memory of another process, once more: cuIpcOpenMemHandle() counts how often it was
 * opened and returns the same address (cuda.h). false: it is another block. */
bool ledger__again(struct ledger *l, const struct block *b);
/* What overlaps b was freed. */
void ledger__evict(struct ledger *l, const struct block *b);
/* The same, and puts b there, which belongs to the ledger until gone() is called. false: no memory.
 */
bool ledger__put(struct ledger *l, struct block *b);
/* b, of SPACE_MAPPED, maps the physical memory with the handle. */
bool ledger__map(struct ledger *l, struct block *b, uint64_t handle);
void ledger__unmap(struct ledger *l, uint64_t addr, uint64_t size, uint64_t ns);
/* A further handle of what has one, or of what is mapped at addr (0: nothing). */
void ledger__retain(struct ledger *l, uint64_t handle, uint64_t addr);
/* One reference less; it goes with the last, or with its last mapping. */
void ledger__release(struct ledger *l, struct block *b, uint64_t ns);
/* It goes, but for what is mapped: that goes with its last mapping. */
void ledger__take(struct ledger *l, struct block *b, uint64_t ns);
/* A call of MEM_POOLS that went well; false: there is no room for the pool. */
bool ledger__pool(struct ledger *l, const struct trace_event *ev);
/* Blocks of a space in the order of their keys; those of SPACE_ADDR with the mappings. */
struct block *ledger__list(const struct ledger *l, enum block_space space);
/* All that lives in the context goes; left() is told before (NULL: nobody). */
void ledger__context_gone(struct ledger *l, uint64_t ctx, uint64_t ns,
			  void (*left)(struct ledger *l, struct block *b));
/* All goes, contexts and pools too. */
void ledger__clear(struct ledger *l, uint64_t ns, void (*left)(struct ledger *l, struct block *b));

#endif /* MODEL_LEDGER_H */
