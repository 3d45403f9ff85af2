/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Limits the tables that traced programs fill. Each has a limit for all owners, a share for one
 * owner (a process; for libraries a user, for functions a library) and a counter of what did not
 * fit. An owner gets at most as much as is left for others: a newcomer can have as much as the
 * largest owner, however many try.
 */
#ifndef UTIL_QUOTA_H
#define UTIL_QUOTA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum quota_table {
	QUOTA_PROCESSES,
	QUOTA_THREADS,
	QUOTA_NAMES, /* bytes */
	QUOTA_HANDLES,
	QUOTA_RANGES,
	QUOTA_CAPTURES,
	QUOTA_COMMS,
	QUOTA_DESCRIPTORS, /* of cuDNN */
	QUOTA_STACKS,	   /* bytes */
	QUOTA_PERF_MAPS,   /* bytes */
	QUOTA_PATHS,	   /* bytes */
	QUOTA_SYMBOLS,	   /* bytes */
	QUOTA_LIBRARIES,
	QUOTA_LIB_KEYS, /* libraries known by more than one device number */
	QUOTA_FUNCTIONS,
	QUOTA_LABELS,  /* processes; the caller sets its limit */
	QUOTA_OBJECTS, /* of the driver */
	QUOTA_ITERATIONS,
	QUOTA_NVTX, /* bytes */
	QUOTA_CNT
};

/* Memory that malloc() (glibc) uses for n bytes, and that uthash uses for an entry in addition to
 * its handle. */
static inline size_t quota_malloc_sz(size_t n)
{
	return n <= 24 ? 32 : (n + 8 + 15) & ~(size_t)15;
}
#define QUOTA_HASH_SZ 16
/* Size of a row of QUOTA_LABELS. */
#define QUOTA_LABELS_SZ 9216

struct quota {
	enum quota_table table;
	uint64_t max, share, used;
	uint64_t full_cnt; /* number of times that something did not fit */
};

/* What one owner has of a table. */
struct quota_share {
	uint64_t used;
};

struct quotas {
	struct quota of[QUOTA_CNT];
};

/* stacks, driver: whether these are traced; else their tables have no room. */
void quotas__init(struct quotas *q, bool stacks, bool driver);
/* Enables the tables of stacks. */
void quotas__with_stacks(struct quotas *q);
/* Enables the table of an optional family. */
void quotas__with(struct quotas *q, enum quota_table t);
const char *quota_name(enum quota_table t);
/* Plural noun for the rows of the table: "thread names". */
const char *quota_text(enum quota_table t);
/* Bytes of memory for a row, or for a byte of content with its overhead. */
uint64_t quota_row_sz(enum quota_table t);
/* Bytes of memory of all tables when they are full. */
uint64_t quotas__most(const struct quotas *q);

/* The quota of a table; NULL: no limit. */
static inline struct quota *quotas__get(struct quotas *q, enum quota_table t)
{
	return q ? &q->of[t] : NULL;
}

/* Charges n. Returns false when it does not fit, counts that, and prints a warning the first time.
 * q NULL: no limit. */
bool quota__take(struct quota *q, struct quota_share *s, uint64_t n);
/* Charges n whether it fits or not. */
void quota__force(struct quota *q, struct quota_share *s, uint64_t n);
void quota__give(struct quota *q, struct quota_share *s, uint64_t n);
/* Counts something dropped for lack of room, without a charge. */
void quota__full(struct quota *q);

/* Shares by number, of users or processes. Owners with nothing are not kept. */
struct quota_owner;
struct quota_owners {
	struct quota_owner *by_id;
};
/* Like quota__take(); also false when out of memory. */
bool quota_owners__take(struct quota_owners *os, struct quota *q, uint32_t id, uint64_t n);
/* What one owner has. */
uint64_t quota_owners__used(const struct quota_owners *os, uint32_t id);
void quota_owners__give(struct quota_owners *os, struct quota *q, uint32_t id, uint64_t n);

#endif /* UTIL_QUOTA_H */
