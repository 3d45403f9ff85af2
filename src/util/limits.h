/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Limits of all tables that traced programs or saved traces fill: one row each in limits.def, one
 * rule for their owners in ct_limit.h. A struct quota limits one table of the tracer: it has a
 * limit for all owners, a share for one owner (a process; for libraries a user, for functions a
 * library), and a counter of rejected rows. util/memlimit.h limits the tables of a report;
 * bpf/memlimit.bpf.h and src/inject/inject_priv.h limit those of the recorders.
 */
#ifndef UTIL_LIMITS_H
#define UTIL_LIMITS_H

#include "ct_limit.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hash_table.h"

enum limit_table {
#define KERNEL_LIMIT(ID, ...)
#define TRACE_LIMIT(ID, ...) QUOTA_##ID,
#define REPORT_LIMIT(ID, ...)
#include "limits.def"
	QUOTA_CNT, /* tables of the tracer */
	MEMLIMIT_BEFORE = QUOTA_CNT - 1,
#define KERNEL_LIMIT(ID, ...)
#define TRACE_LIMIT(ID, ...)
#define REPORT_LIMIT(ID, ...) MEMLIMIT_##ID,
#include "limits.def"
	LIMIT_TABLE_CNT
};

/* Numbers of the rows: memory of a row, and what one process may have in a report. */
enum {
#define KERNEL_LIMIT(ID, row_sz, ...)		       KERNEL_##ID##_SZ = row_sz,
#define TRACE_LIMIT(ID, name, max, share, row_sz, ...) QUOTA_##ID##_SZ = row_sz,
#define REPORT_LIMIT(ID, name, max, ...)	       MEMLIMIT_##ID##_MAX = max,
#include "limits.def"
};

/* Name in the trace, the report and metrics. */
const char *limit_name(enum limit_table t);
/* Plural noun for the rows of the table: "thread names". */
const char *limit_text(enum limit_table t);

/* Memory that malloc() (glibc) uses for n bytes. */
static inline size_t quota_malloc_sz(size_t n)
{
	return n <= 24 ? 32 : (n + 8 + 15) & ~(size_t)15;
}

struct quota {
	enum limit_table table;
	uint64_t max, share, used;
	uint64_t full_cnt; /* number of times that something did not fit */
};

/* One owner's use of a table. */
struct quota_share {
	uint64_t used;
};

struct quotas {
	struct quota of[QUOTA_CNT];
};

/* stacks, driver: whether these are traced; else their tables have no space. */
void quotas__init(struct quotas *q, bool stacks, bool driver);
/* Enables the tables of stacks. */
void quotas__with_stacks(struct quotas *q);
/* Enables the table of an optional family. */
void quotas__with(struct quotas *q, enum limit_table t);
/* Bytes of memory for a row, or for a byte of content with its overhead. */
uint64_t quota_row_sz(enum limit_table t);
/* Bytes of memory of all tables when they are full. */
uint64_t quotas__max_bytes(const struct quotas *q);

/* The quota of a table; NULL: no limit. */
static inline struct quota *quotas__get(struct quotas *q, enum limit_table t)
{
	return q ? &q->of[t] : NULL;
}

/* Charges n. Returns false when it does not fit, counts that, and prints a warning the first time.
 * q NULL: no limit. */
bool quota__take(struct quota *q, struct quota_share *s, uint64_t n);
/* Charges n whether it fits or not. */
void quota__force(struct quota *q, struct quota_share *s, uint64_t n);
void quota__give(struct quota *q, struct quota_share *s, uint64_t n);
/* Counts something dropped for lack of space, without a charge. */
void quota__full(struct quota *q);

/* Shares by number, of users or processes. Owners with nothing are not kept. */
HASH_TABLE_TYPE(quota_owner);
struct quota_owners {
	struct quota_owner_table by_id;
};
/* Like quota__take(); also false when out of memory. */
bool quota_owners__take(struct quota_owners *os, struct quota *q, uint32_t id, uint64_t n);
/* Returns one owner's use. */
uint64_t quota_owners__used(const struct quota_owners *os, uint32_t id);
void quota_owners__give(struct quota_owners *os, struct quota *q, uint32_t id, uint64_t n);

#endif /* UTIL_LIMITS_H */
