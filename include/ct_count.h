/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Interface for calls that are counted and not recorded: levels of detail for functions and
 * processes, and the counters of a function. Levels may change while calls are made.
 */
#ifndef CT_COUNT_H
#define CT_COUNT_H

#include "ct_types.h"

/* Level of detail of a function: ct_spec.level. */
enum ct_level {
	CT_LEVEL_TRACE = 0,  /* each call is a record */
	CT_LEVEL_SAMPLE = 1, /* random calls are records; the others are counted */
	CT_LEVEL_COUNT = 2,  /* all calls are counted */
	CT_LEVEL_OFF = 3,    /* not traced */
	CT_LEVEL_GONE = 4,   /* the trace has ended, probes may remain: returns are ignored, too */
};

/* Level of detail of a process: ct_pid.level. */
enum ct_proc_level {
	CT_PROC_DEFAULT = 0, /* the default of processes without a level of their own */
	CT_PROC_TRACE = 1,   /* as the functions' levels */
	CT_PROC_METRICS = 2, /* all calls are counted; only CT_SPEC_F_ALWAYS makes records */
	CT_PROC_OFF = 3,     /* not traced */
};

/* Durations: one bucket up to 256 ns, then four per power of two up to 2^35 ns (34 s). A limit
 * itself belongs to the bucket below it, as with Prometheus's `le` and OTLP's explicit bounds. A
 * row of the `counts` map, with its key and the kernel's 48 bytes, then fits into a 1024-byte
 * allocation. The next size would be 2048. */
#define CT_HIST_LOG_MIN 8
#define CT_HIST_LOG_MAX 35
#define CT_HIST_CNT	(1 + 4 * (CT_HIST_LOG_MAX - CT_HIST_LOG_MIN))

/* Position of the highest bit. */
static inline __u32 ct_log2(__u64 x)
{
	__u32 log = 0;

#ifndef __bpf__
	return 63 - __builtin_clzll(x | 1);
#endif
	/* For BPF, clang has no instruction for this. */
	if (x >> 32)
		log += 32, x >>= 32;
	if (x >> 16)
		log += 16, x >>= 16;
	if (x >> 8)
		log += 8, x >>= 8;
	if (x >> 4)
		log += 4, x >>= 4;
	if (x >> 2)
		log += 2, x >>= 2;
	log += x >> 1;
	return log;
}

static inline __u32 ct_hist_index(__u64 ns)
{
	__u32 log, i;

	ns -= ns != 0;
	log = ct_log2(ns);
	if (log < CT_HIST_LOG_MIN)
		return 0;
	i = 1 + 4 * (log - CT_HIST_LOG_MIN) + ((ns >> (log - 2)) & 3);
	return i < CT_HIST_CNT ? i : CT_HIST_CNT - 1;
}

/* Shortest duration of a bucket, in nanoseconds. */
static inline __u64 ct_hist_floor(__u32 i)
{
	return i ? ((4ull + (i - 1) % 4) << (CT_HIST_LOG_MIN - 2 + (i - 1) / 4)) + 1 : 0;
}

/* Generation: distinguishes programs that follow each other under one process id. It is made of the
 * process's start time (ns since boot) and how often it and its ancestors ran exec. For one id,
 * later is larger; each exec adds one. Counts of a new program must not be added to those of the
 * previous one, whose end is read later. */
typedef __u64 ct_generation;

/* Threads that count the same function contend for one cache line. A thread gets rows of its own
 * once another thread counted in between this many times. */
#define CT_CONTENDED_MAX 256
/* Maximum threads of a process with rows of their own; beyond this, threads share rows. */
#define CT_SPREAD 64

/* Key of the `counts` map. */
struct ct_count_key {
	ct_generation generation;
	__u32 pid;
	__u16 func_id;
	__u16 thread; /* 0: shared row; n: threads whose number is n - 1 modulo CT_SPREAD */
};

/* Counted calls of one function by one process or one of its threads; value of the `counts` map.
 * Updated atomically. */
struct ct_count {
	__u64 last_tid; /* thread that counted last */
	__u64 errors;	/* calls that returned an error */
	__u64 entered;	/* entry-only calls: in none of the other members */
	__u64 unfinished, abandoned;
	__u64 total_ns, max_ns;
	__u64 bytes;		 /* successful calls: sum of the size argument */
	__u64 hist[CT_HIST_CNT]; /* their sum is the number of returned calls */
};
_Static_assert(sizeof(struct ct_count) == 64 + 8 * CT_HIST_CNT, "ct_count is part of the ABI");
_Static_assert(48 + sizeof(struct ct_count_key) + sizeof(struct ct_count) + 8 <= 1024,
	       "a row fits into 1 KB");

/* Key of the `errors` map. Its values are numbers of counted calls. */
struct ct_error_key {
	ct_generation generation;
	__u32 pid;
	__u32 func_id;
	__s32 result; /* or CT_RESULT_OTHER */
	__u32 zero;
};

/* All results without a name together: a library may return any value. */
#define CT_RESULT_OTHER -1
/* Words in the bitmap of results with a name. */
#define CT_RESULT_WORDS 16

/* Tables that all programs fill, with rows in src/util/limits.def. When all users are traced
 * (ct_cfg.fair), each user has a share by the rule of ct_limit.h. */
enum ct_table {
	CT_TABLE_COUNTS, /* the two maps above */
	CT_TABLE_ERRORS,
	CT_TABLE_THREADS,   /* ct_thread */
	CT_TABLE_DRIVER,    /* ct_nv_thread */
	CT_TABLE_PROCESSES, /* ct_pid */
	CT_TABLE_CNT
};

/* Maximum programs with rows in the first two tables. */
#define CT_SHARES_MAX 65536
/* Rows of the first two tables that each program may have, within its user's limit. Beyond these,
 * it gets rows only while half of the table is free; the rest is for programs with fewer rows. */
#define CT_SHARE_COUNTS 128
#define CT_SHARE_ERRORS 64
/* Threads get rows of their own only while less than 1/CT_OWN_ROWS_PART of the table is used. */
#define CT_OWN_ROWS_PART 4
/* A process may use at most 1/CT_SHARE_PARTS of the next two tables, and at most as many rows as
 * remain free. */
#define CT_SHARE_PARTS 4

/* Key of the `shares` map: a program with rows in the first two tables. */
struct ct_owner {
	ct_generation generation;
	__u32 pid;
	__u32 zero;
};

/* Its value: number of rows and their owner. Updated atomically, also when rows are deleted. */
struct ct_share {
	__u32 rows[CT_TABLE_ERRORS + 1]; /* shared rows */
	__u32 own_rows;			 /* CT_TABLE_COUNTS: rows of single threads */
	__u32 uid;
};

/* Value of the `usage` map, keyed by process id: rows of CT_TABLE_THREADS and CT_TABLE_DRIVER. */
struct ct_usage {
	__u32 rows[2];
};

/* Rows are added up in this many user slots. Users that `secret` (odd) hashes to the same slot
 * share it. A table keyed by user could be filled up. */
#define CT_USERS_LOG 10
#define CT_USERS     (1 << CT_USERS_LOG)

static inline __u32 ct_user_slot(__u32 uid, __u64 secret)
{
	return (uid + 1) * secret >> (64 - CT_USERS_LOG);
}

#endif /* CT_COUNT_H */
