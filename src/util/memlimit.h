/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Limits the memory of reports. Saved traces are untrusted, and which table will be the largest is
 * unknown beforehand. So all tables of all reports in this process share one amount of memory, and
 * each table also has a maximum number of rows. Rows beyond a limit are counted by table.
 *
 * One process gets at most what is left for others (ct_limit.h), both of the memory and of each
 * table's rows: a later process can have as much as the first. The reader of a trace sets the owner
 * once per event by memlimit_set_owner(); everything allocated meanwhile is charged to this owner.
 */
#ifndef UTIL_MEMLIMIT_H
#define UTIL_MEMLIMIT_H

#include "limits.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Maximum number of bytes in use; one process may have half of them. Other memory of a report (the
 * current line, its output text) is listed in docs/LIMITS.md. */
#define MEMLIMIT_SZ (384ull << 20)

/* Sets the owner of later allocations: a process of the trace that `at` reads, or the trace as a
 * whole. */
#define MEMLIMIT_TRACE UINT64_MAX
void memlimit_set_owner(const void *at, uint64_t pid);
/* Sets no owner, which has no share: for final results about all processes. */
void memlimit_no_owner(void);
/* Sets the owner of a block of memlimit_new(); NULL: no owner. Returns the argument for
 * memlimit_pop_owner(). */
uint32_t memlimit_push_owner(const void *block);
void memlimit_pop_owner(uint32_t was);

/* Like calloc(1, size) and realloc(). Returns NULL, and counts it, when the limit is reached or
 * memory is out. */
void *memlimit_new(enum limit_table t, size_t size);
void *memlimit_resize(enum limit_table t, void *p, size_t size);
/* Frees only what these two returned. */
void memlimit_free(void *p);

/* Rows or bytes of a table: in all, and by process. Zeroed is empty. */
struct memlimit_share {
	uint32_t *of; /* by owner number */
	unsigned cap;
	uint64_t used;
};
/* Maximum of a table in all, where one process may have `one`. */
#define MEMLIMIT_ALL(one) (2 * (one))
/* Returns whether n more fit for the current owner. A single owner gets at most `one`. */
bool memlimit_has(const struct memlimit_share *s, uint64_t n, uint64_t one);
/* Charges n to the current owner; false, and counted: it does not fit. */
bool memlimit_charge(struct memlimit_share *s, uint64_t n, uint64_t one, enum limit_table t);
/* Uncharges n from the owner of block; NULL: from the current owner. */
void memlimit_uncharge(struct memlimit_share *s, const void *block, uint64_t n);
void memlimit_share_free(struct memlimit_share *s);
/* For callers that count themselves: whether n more fit for an owner that has `mine` of `used`. */
static inline bool memlimit_leaves(uint64_t mine, uint64_t n, uint64_t used, uint64_t one)
{
	return ct_limit_fits(mine, n, CT_LIMIT_NO_SHARE, ct_limit_left(MEMLIMIT_ALL(one), used));
}

/* Counts a row rejected by a limit of the table's own. */
void memlimit_reject(enum limit_table t);
void memlimit_reject_cnt(enum limit_table t, uint64_t n);
/* The quota of a table of the model, whose rows do not count into the sum. */
struct quota *memlimit_quota(enum limit_table t);
uint64_t memlimit_rejected(enum limit_table t);
uint64_t memlimit_used(void);
/* For tests: sets another limit, and resets all counters. */
void memlimit_set(uint64_t size);

#endif /* UTIL_MEMLIMIT_H */
