/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The rule of all tables that several owners fill: afterwards, an owner has at most as much as is
 * left for others, or one more. A newcomer can have as much as the largest owner, however many try.
 * A single owner gets half of a table, and the first row of a table with one row.
 *
 * src/util/limits.def has the tables. The BPF programs, the tracer's tables, the rings of
 * in-process libraries and the report apply the rule.
 */
#ifndef CT_LIMIT_H
#define CT_LIMIT_H

#include "ct_types.h"

static inline __u64 ct_limit_left(__u64 max, __u64 used)
{
	return used < max ? max - used : 0;
}

/* Returns whether n more fit for an owner that has `mine`. left: unused rows before; share: the
 * most that an owner may have. */
static inline int ct_limit_fits(__u64 mine, __u64 n, __u64 share, __u64 left)
{
	return n <= left && n <= share && mine <= share - n && mine + n <= left - n + 1;
}

#define CT_LIMIT_NO_SHARE (~0ull)

/* Second rule, for programs within their user's share: everybody may have `least`, and more only
 * while half of the table is free. */
static inline int ct_limit_more(__u64 mine, __u64 n, __u64 least, __u64 used, __u64 max)
{
	return mine + n <= least || used + n <= max / 2;
}

#endif /* CT_LIMIT_H */
