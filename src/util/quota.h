/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How large the tables may become that traced programs fill. Each has a bound for all, a share for
 * one owner (a process; of libraries a user, of functions a library) and a counter of what did not
 * fit. No owner gets more than what is left over for others: whoever comes last finds as much room
 * as the largest has taken, however many try.
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
	QUOTA_LIB_KEYS, /* of libraries that are known by more than one */
	QUOTA_FUNCTIONS,
	QUOTA_LABELS,  /* of processes; its bound is the caller's */
	QUOTA_OBJECTS, /* of the driver */
	QUOTA_ITERATIONS,
	QUOTA_NVTX, /* bytes */
	QUOTA_CNT
};

/* What malloc() takes for so many bytes (glibc), and uthash for an entry besides its handle. */
static inline size_t quota_malloc_sz(size_t n)
{
	return n <= 24 ? 32 : (n + 8 + 15) & ~(size_t)15;
}
#define QUOTA_HASH_SZ 16
/* A row of QUOTA_LABELS. */
#define QUOTA_LABELS_SZ 9216

struct quota {
	enum quota_table table;
	uint64_t max, share, used;
	uint64_t full_cnt; /* times that something did not fit */
};

/* What one owner has of it. */
struct quota_share {
	uint64_t used;
};

struct quotas {
	struct quota of[QUOTA_CNT];
};

/* Whether there are stacks, and the driver's objects: else their tables have no room. */
void quotas__init(struct quotas *q, bool stacks, bool driver);
/* Those of stacks have room, too. */
void quotas__with_stacks(struct quotas *q);
/* That of a family that is asked for has room, too. */
void quotas__with(struct quotas *q, enum quota_table t);
const char *quota_name(enum quota_table t);
/* What the table has: "names of threads". */
const char *quota_text(enum quota_table t);
/* Bytes that a row takes, or a byte with what lies around it. */
uint64_t quota_row_sz(enum quota_table t);
/* Bytes that all tables take when they are full. */
uint64_t quotas__most(const struct quotas *q);

/* One of the table, or NULL: no bounds then. */
static inline struct quota *quotas__get(struct quotas *q, enum quota_table t)
{
	return q ? &q->of[t] : NULL;
}

/* false: it does not fit, which is counted and, the first time, said. q NULL: no bound. */
bool quota__take(struct quota *q, struct quota_share *s, uint64_t n);
/* Counted as used whether it fits or not. */
void quota__force(struct quota *q, struct quota_share *s, uint64_t n);
void quota__give(struct quota *q, struct quota_share *s, uint64_t n);
/* Something was given up for lack of room, without a take. */
void quota__full(struct quota *q);

/* Shares by number: of users, of processes. Those that have nothing are not kept. */
struct quota_owner;
struct quota_owners {
	struct quota_owner *by_id;
};
/* As quota__take(); false also when there is no memory. */
bool quota_owners__take(struct quota_owners *os, struct quota *q, uint32_t id, uint64_t n);
/* What one has. */
uint64_t quota_owners__used(const struct quota_owners *os, uint32_t id);
void quota_owners__give(struct quota_owners *os, struct quota *q, uint32_t id, uint64_t n);

#endif /* UTIL_QUOTA_H */
