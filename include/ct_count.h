/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The seam for calls that are counted and not recorded: how much of a function and of a process is
 * kept, and what is kept of a counted call. All of it may change while calls are made.
 */
#ifndef CT_COUNT_H
#define CT_COUNT_H

#include "ct_types.h"

/* How much is kept of a function's calls: ct_spec.level. */
enum ct_level {
	CT_LEVEL_TRACE = 0,  /* each is a record */
	CT_LEVEL_SAMPLE = 1, /* some are, by chance; the others are counted */
	CT_LEVEL_COUNT = 2,  /* all are counted */
	CT_LEVEL_OFF = 3,    /* not seen */
	CT_LEVEL_GONE = 4,   /* the trace has ended, probes may still be there: nor are returns */
};

/* How much is kept of a process: ct_pid.level. */
enum ct_proc_level {
	CT_PROC_DEFAULT = 0, /* as the processes that have no level of their own */
	CT_PROC_TRACE = 1,   /* what the functions' levels say */
	CT_PROC_METRICS = 2, /* all calls are counted, none is a record but CT_SPEC_F_ALWAYS */
	CT_PROC_OFF = 3,     /* not seen */
};

/* Durations: below 256 ns, then four buckets for each power of two up to 2^35 ns (34 s): a row of
 * the `counts` map with its key and the kernel's 48 bytes fits into the 1024 that are allocated for
 * it then, and not into the 2048 that come next. */
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
	/* clang has no instruction for this there. */
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
	__u32 log = ct_log2(ns), i;

	if (log < CT_HIST_LOG_MIN)
		return 0;
	i = 1 + 4 * (log - CT_HIST_LOG_MIN) + ((ns >> (log - 2)) & 3);
	return i < CT_HIST_CNT ? i : CT_HIST_CNT - 1;
}

/* Shortest duration of a bucket, in nanoseconds. */
static inline __u64 ct_hist_floor(__u32 i)
{
	return i ? (4ull + (i - 1) % 4) << (CT_HIST_LOG_MIN - 2 + (i - 1) / 4) : 0;
}

/* Which of the programs that one process id stands for, one after the other: when the process
 * began, in nanoseconds since boot, and how often it and its ancestors ran a program. Of the same
 * id the later one is larger, and larger by one after an exec. What is counted of a new program
 * must not be taken for the last one's, whose end is read later. */
typedef __u64 ct_generation;

/* Threads of a process that count the same function wait for each other's cache line: from so many
 * times on that another thread was there in between, a thread counts in rows of its own. */
#define CT_MET_MAX 256
/* So many threads of a process have rows of their own; of more, several share theirs. */
#define CT_SPREAD 64

/* Key of the `counts` map. */
struct ct_count_key {
	ct_generation generation;
	__u32 pid;
	__u16 func_id;
	__u16 thread; /* 0: row of all threads; n: of those whose number is n - 1 modulo CT_SPREAD
		       */
};

/* Counted calls of one function by one process, or by a thread of it; value of the `counts` map.
 * Added to atomically. */
struct ct_count {
	__u64 last_tid; /* who counted last */
	__u64 errors;	/* of the calls that returned, failed */
	__u64 entered;	/* whose return was not looked at: in none of the others */
	__u64 unfinished, abandoned;
	__u64 total_ns, max_ns;
	__u64 bytes;		 /* of the calls that went well: sum of the argument that says so */
	__u64 hist[CT_HIST_CNT]; /* their sum is the number of calls that returned */
};
_Static_assert(sizeof(struct ct_count) == 64 + 8 * CT_HIST_CNT, "ct_count is part of the ABI");
_Static_assert(48 + sizeof(struct ct_count_key) + sizeof(struct ct_count) + 8 <= 1024,
	       "a row fits into 1 KB");

/* Key of the `errors` map; its values are numbers of counted calls. */
struct ct_error_key {
	ct_generation generation;
	__u32 pid;
	__u32 func_id;
	__s32 result; /* or CT_RESULT_OTHER */
	__u32 zero;
};

/* All results together that have no name: a library may return what it likes. */
#define CT_RESULT_OTHER -1
/* Words of the bitmap of results that have one. */
#define CT_RESULT_WORDS 16

/* Tables that all programs fill. Where all of them are traced (ct_cfg.fair) no user gets more rows
 * than he leaves over, so that there is room for who comes last. */
enum ct_table {
	CT_TABLE_COUNTS, /* the two above */
	CT_TABLE_ERRORS,
	CT_TABLE_THREADS,   /* ct_thread */
	CT_TABLE_DRIVER,    /* ct_nv_thread */
	CT_TABLE_PROCESSES, /* ct_pid */
	CT_TABLE_CNT
};

/* Programs that have rows of the first two. */
#define CT_SHARES_MAX 65536
/* Rows of the first two that a program can have at any rate, as far as its user may. One that has
 * more gets them only while half of the table is free: that is for those who have fewer. */
#define CT_SHARE_COUNTS 128
#define CT_SHARE_ERRORS 64
/* Threads get rows of their own only while so many parts of the table are free but one. */
#define CT_OWN_ROWS_PART 4
/* Of the next two a process has one of so many parts, and no more than it leaves over. */
#define CT_SHARE_PARTS 4

/* Key of the `shares` map: a program that has rows of the first two. */
struct ct_owner {
	ct_generation generation;
	__u32 pid;
	__u32 zero;
};

/* Its value: how many, and whose they are. Added to atomically, taken away with the rows. */
struct ct_share {
	__u32 rows[CT_TABLE_ERRORS + 1]; /* of all threads */
	__u32 own_rows;			 /* of CT_TABLE_COUNTS: of single threads */
	__u32 uid;
};

/* Value of the `held` map, keyed by process id: rows of CT_TABLE_THREADS and CT_TABLE_DRIVER. */
struct ct_usage {
	__u32 rows[2];
};

/* Rows are added up for so many users, and for those together that secret (odd) gives the same
 * number: a table of users could be filled, too. */
#define CT_USERS_LOG 10
#define CT_USERS     (1 << CT_USERS_LOG)

static inline __u32 ct_user_slot(__u32 uid, __u64 secret)
{
	return (uid + 1) * secret >> (64 - CT_USERS_LOG);
}

#endif /* CT_COUNT_H */
