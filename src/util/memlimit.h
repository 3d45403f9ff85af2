/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How much reports keep. Saved traces are hostile, and what a trace has most of is not known before
 * it was read: so all tables of all reports of this process share one amount of memory, besides the
 * number of rows that each of them has at most. What finds no place is counted, by table.
 *
 * Of the memory and of the rows of each table no process gets more than what is left over for
 * others (quota.h): one that comes last finds as much as the first has taken. Whose something is
 * says who reads the trace, once for each event, by memlimit_set_owner(); all that is kept while it
 * is looked at is that process's.
 */
#ifndef UTIL_MEMLIMIT_H
#define UTIL_MEMLIMIT_H

#include "quota.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum memlimit_table {
#define MEMLIMIT(ID, name, text) MEMLIMIT_##ID,
#include "memlimit.def"
	MEMLIMIT_CNT
};

/* Bytes that may be in use; one process has half of them at most. What else a report takes (a line
 * of the trace, its text when it is written) is docs/LIMITS.md's. */
#define MEMLIMIT_SZ (384ull << 20)

/* Whose it is what is kept from now on: a process of the trace that at reads, or what is said of
 * that trace as a whole. */
#define MEMLIMIT_TRACE UINT64_MAX
void memlimit_set_owner(const void *at, uint64_t pid);
/* No process's, which has no share: what is made of it all at the end. */
void memlimit_no_owner(void);
/* The same for whoever block, of memlimit_new(), is of; NULL: for nobody. Returns what
 * memlimit_pop_owner() takes. */
uint32_t memlimit_push_owner(const void *block);
void memlimit_pop_owner(uint32_t was);

/* As calloc(1, size) and realloc(); NULL, which is counted, when there is no room or memory. */
void *memlimit_new(enum memlimit_table t, size_t size);
void *memlimit_resize(enum memlimit_table t, void *p, size_t size);
/* What came from these two, and only that. */
void memlimit_free(void *p);

/* Rows of a table, or bytes: all, and those of each process. All zero is an empty one. */
struct memlimit_share {
	uint32_t *of; /* by number of the process */
	unsigned cap;
	uint64_t used;
};
/* What a table has in all in which one process has so many. */
#define MEMLIMIT_ALL(one) (2 * (one))
/* Is there a place for n more of whose turn it is? One who is alone gets as many as one. */
bool memlimit_has(const struct memlimit_share *s, uint64_t n, uint64_t one);
/* Takes it; false, which is counted: there is none. */
bool memlimit_charge(struct memlimit_share *s, uint64_t n, uint64_t one, enum memlimit_table t);
/* Back from whoever block is of; NULL: from whose turn it is. */
void memlimit_uncharge(struct memlimit_share *s, const void *block, uint64_t n);
void memlimit_share_free(struct memlimit_share *s);
/* For who counts himself: mine of used in all. As much as is mine then is left. */
static inline bool memlimit_leaves(uint64_t mine, uint64_t n, uint64_t used, uint64_t one)
{
	return mine + 2 * n + used <= MEMLIMIT_ALL(one);
}

/* Something was left out for a bound of the table's own. */
void memlimit_reject(enum memlimit_table t);
void memlimit_reject_cnt(enum memlimit_table t, uint64_t n);
/* The same for what the model keeps: its rows are not in the sum. */
struct quota *memlimit_quota(enum quota_table t);
uint64_t memlimit_rejected(enum memlimit_table t);
const char *memlimit_name(enum memlimit_table t);
/* What the table has: "threads". */
const char *memlimit_text(enum memlimit_table t);
uint64_t memlimit_used(void);
/* For tests: another amount, and all counters at 0. */
void memlimit_set(uint64_t size);

#endif /* UTIL_MEMLIMIT_H */
