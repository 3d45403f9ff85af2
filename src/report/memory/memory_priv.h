/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The state of the analysis of memory. memory.c: calls that make and free it; block.c: live blocks;
 * leak.c: leaks; frag.c: holes; ctx.c: contexts, threads, devices; time.c: bytes over time;
 * print.c: output.
 *
 * Live blocks are kept, and little else: lists of leaks and bad frees are limited.
 */
#ifndef REPORT_MEMORY_MEMORY_PRIV_H
#define REPORT_MEMORY_MEMORY_PRIV_H

#include "memory.h"

#include "model/ledger.h"
#include "util/hash_table.h"
#include "util/memlimit.h"

struct mem_block {
	struct hash_link link;
	uint64_t key, size;
	uint64_t id, parent_id, start_ns;
	uint64_t born_ns; /* when the call that made it returned */
	const char *call;
	const struct stack *stack;
	uint64_t ctx;		/* 0: not known */
	struct mem_block *phys; /* of a mapping */
	struct dev_row *dev;
	uint32_t refs, maps; /* physical memory lives while one is not zero */
	uint8_t kind, space;
	bool size_known, counted;
	bool too_late; /* it was freed after the driver's end */
};
HASH_TABLE(mem_block, key);

/* A device of a process. The row outlives the process. */
struct dev_row {
	int device; /* -1: not known */
	uint32_t pid;
	uint64_t live, kept, peak, peak_ns;
	struct dev_row *next; /* of the same process */
};

struct mem_proc {
	struct hash_link link;
	uint32_t pid;
	uint32_t generation; /* distinguishes programs with the same pid */
	struct mem_block_table blocks[SPACE_CNT];
	void *tree;			/* tsearch: blocks with an address, and mappings */
	size_t gpu_range_cnt, snap_cnt; /* now, and at the latest measurement of holes */
	unsigned block_cnt;
	struct ledger ledger; /* contexts and pools; blocks are in this struct instead */
	struct dev_row *devs;
};
HASH_TABLE(mem_proc, pid);

struct kind_stat {
	uint64_t allocs, frees, alloc_bytes, alloc_ns, free_ns;
	uint64_t live, kept, peak, peak_ns; /* kept: still live at the end of its process */
	uint64_t leaks;
};

struct mem_count {
	uint64_t cnt, bytes;
};

/* Memory that was not freed. */
enum leak_end { LEAK_EXIT, LEAK_EXEC, LEAK_CONTEXT, LEAK_END_CNT };
extern const char *const leak_end_name[LEAK_END_CNT];

struct leak {
	uint64_t ptr, size, start_ns, id;
	const char *call;
	const struct stack *stack; /* of the call; NULL: none */
	uint32_t pid;
	int device;
	uint8_t kind, end;
	bool size_known;
};

enum bad_free_what { BAD_DOUBLE, BAD_UNKNOWN, BAD_FUNCTION };
extern const char *const bad_free_name[];

struct bad_free {
	enum bad_free_what what;
	uint64_t ptr, start_ns, id, parent_id;
	uint64_t freed_ns; /* BAD_DOUBLE */
	uint64_t inside;   /* start of the live block that ptr points into; 0: none */
	const char *call;
	uint32_t pid;
	int32_t error;
	double confidence;
};

/* Remembers the latest frees: a table in which a new one overwrites an old one. */
#define FREED_BITS 14

struct free_record {
	uint64_t key, start_ns, parent_id;
	uint32_t generation;
	uint8_t space, kind;
};

#define LEAKS_MAX 1000
#define PROCS_MAX 65536
/* Limits for a process. */
#define BAD_FREES_MAX 1000
#define SIZE_BITS     64

#define TIME_STEPS   512
#define TIME_STEP_NS 1000000 /* at first */

struct mem_time {
	uint64_t step_ns;
	unsigned last; /* step that is being filled */
	uint64_t max[BLOCK_KIND_CNT][TIME_STEPS];
	uint64_t allocs[TIME_STEPS];
};

struct fragmentation {
	uint32_t pid;
	uint64_t ts_ns, ranges, regions, holes, largest_hole, hole_bytes, span;
};

struct memory {
	const struct report *r;
	struct mem_proc_table procs;
	struct mem_proc *last_proc;
	uint32_t lives;
	struct kind_stat kinds[BLOCK_KIND_CNT];
	struct mem_count sizes[SIZE_BITS + 1], leak_ends[LEAK_END_CNT];
	uint64_t device_bytes, device_peak, device_peak_ns;
	uint64_t first_ns, last_ns, alloc_cnt; /* from the first to the last allocation */
	uint64_t failed_cnt, failed_largest, failed_first_ns;
	uint64_t late_free_cnt;	     /* frees recorded after their address was reused */
	uint64_t unseen_free_cnt;    /* blocks that must have been freed: others replaced them */
	uint64_t unmatched_free_cnt; /* of pointers whose allocation was not seen */
	uint64_t too_late_cnt; /* frees after the driver's end; not leaks, because that end frees
				  all */
	unsigned block_cnt;
	uint64_t rejected_cnt; /* allocations beyond MEMLIMIT_ALLOCATIONS_MAX: in none of the other
				  numbers */
	uint64_t pool_made_cnt, pool_gone_cnt, pool_trim_cnt;
	bool reset_unknown; /* a context was released, but perhaps not destroyed */

	struct dev_row *dev_rows[MEMLIMIT_ALL(MEMLIMIT_DEVICES_MAX)];
	unsigned dev_row_cnt;
	struct memlimit_share dev_row_rows, bad_free_rows;
	struct dev_row other_dev; /* used when dev_rows is full */
	struct leak leaks[LEAKS_MAX];
	unsigned leak_list_cnt;
	uint64_t leak_cnt, leak_bytes;
	struct bad_free bad_frees[MEMLIMIT_ALL(BAD_FREES_MAX)];
	unsigned bad_free_list_cnt;
	uint64_t bad_free_cnt;
	struct free_record freed[1 << FREED_BITS];
	struct fragmentation frag;
	struct mem_time time;
};

/* Returns whether memory of this kind is on a GPU. */
static inline bool on_gpu(enum block_kind k)
{
	return k == BLOCK_DEVICE || k == BLOCK_ARRAY || k == BLOCK_VMM || k == BLOCK_POOL;
}

/* Allocations per second, from the first to the last; a single one has no rate. */
static inline double memory_rate(const struct memory *m)
{
	return m->alloc_cnt > 1 ? m->alloc_cnt * 1e9 / (m->last_ns - m->first_ns + 1) : 0;
}

/* block.c */
struct mem_proc *memory__proc(struct memory *m, uint32_t pid);
struct mem_block *block_at(const struct mem_proc *p, enum block_space space, uint64_t key);
/* Adds a copy of block b, replacing blocks that it overlaps. NULL: the limit is reached, or out of
 * memory. */
struct mem_block *memory__add(struct memory *m, struct mem_proc *p, const struct mem_block *b);
/* Counts another import of the same memory of another process. false: the block differs. */
bool memory__again(struct memory *m, struct mem_proc *p, const struct mem_block *b);
/* The block or mapping that contains the address. */
struct mem_block *memory__around(const struct mem_proc *p, uint64_t addr);
/* Removes a block from the tables and the sums. */
void block__drop(struct memory *m, struct mem_proc *p, struct mem_block *b, uint64_t ns);
/* Drops a block that was freed unseen. */
void memory__lost(struct memory *m, struct mem_proc *p, struct mem_block *b, uint64_t ns);
/* Drops a mapping, and the memory if that was its last reference. */
void memory__unmap_block(struct memory *m, struct mem_proc *p, struct mem_block *b, uint64_t ns);
/* The program frees the block at key. */
void memory__free_at(struct memory *m, struct mem_proc *p, enum block_space space, uint64_t key,
		     const struct trace_event *ev);
void memory__map(struct memory *m, struct mem_proc *p, const struct trace_event *ev, uint64_t addr,
		 uint64_t size, uint64_t handle);
void memory__unmap(struct memory *m, struct mem_proc *p, const struct trace_event *ev,
		   uint64_t addr, uint64_t size);
/* Adds a new handle to physical memory that had only a mapping. */
void memory__revive(struct memory *m, struct mem_proc *p, struct mem_block *phys, uint64_t handle);
void memory__bad_free(struct memory *m, struct mem_proc *p, enum block_space space, uint64_t key,
		      const struct trace_event *ev);

/* leak.c */
/* Drops all blocks of a destroyed context. */
void memory__context_gone(struct memory *m, struct mem_proc *p, uint64_t ctx, uint64_t ns);
/* The process ended, or replaced its program. */
void memory__proc_gone(struct memory *m, struct mem_proc *p, enum leak_end end, uint64_t ns);
void memory__proc_free(struct memory *m, struct mem_proc *p);

/* frag.c */
/* Measures the holes; may drop blocks. */
void memory__snapshot(struct memory *m, struct mem_proc *p, uint64_t ns);

/* ctx.c */
void memory__context_event(struct memory *m, struct mem_proc *p, const struct trace_event *ev);
/* Current context of a thread; 0: not known. */
uint64_t memory__current(struct mem_proc *p, uint32_t tid);
/* Device of context ctx, or of any context if ctx is 0. Returns -1 if not known. */
int memory__device_of(const struct mem_proc *p, uint64_t ctx);
struct dev_row *memory__dev_row(struct memory *m, struct mem_proc *p, int device);

/* time.c */
void mem_time__init(struct mem_time *t);
/* Call it before live bytes change at ns: fills the steps up to ns with the live bytes. */
void mem_time__advance(struct mem_time *t, const struct memory *m, uint64_t ns);
void mem_time__alloc(struct mem_time *t, int sign);
void mem_time__max(struct mem_time *t, enum block_kind kind, uint64_t live);

/* print.c */
extern const struct section_table memory_table;
void memory__print(const void *a, const struct term *term);

#endif /* REPORT_MEMORY_MEMORY_PRIV_H */
