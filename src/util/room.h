/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How much reports keep. Saved traces are hostile, and what a trace has most of is not known before
 * it was read: so all tables of all reports of this process share one amount of memory, besides the
 * number of rows that each of them has at most. What finds no place is counted, by table.
 */
#ifndef UTIL_ROOM_H
#define UTIL_ROOM_H

#include "quota.h"

#include <stddef.h>
#include <stdint.h>

enum room_table {
#define ROOM(ID, name, text) ROOM_##ID,
#include "room.def"
	ROOM_CNT
};

/* Bytes that may be in use. What else a report takes (a line of the trace, its text when it is
 * written) is docs/REPORT.md's. */
#define ROOM_SZ (384ull << 20)

/* As calloc(1, size) and realloc(); NULL, which is counted, when there is no room or memory. */
void *room_new(enum room_table t, size_t size);
void *room_resize(enum room_table t, void *p, size_t size);
/* What came from these two, and only that. */
void room_free(void *p);
/* Something was left out for a bound of the table's own. */
void room_full(enum room_table t);
/* The same for what the model keeps: its rows are not in the sum. */
struct quota *room_quota(enum quota_table t);
uint64_t room_left_out(enum room_table t);
const char *room_name(enum room_table t);
/* What the table has: "threads". */
const char *room_text(enum room_table t);
uint64_t room_used(void);
/* For tests: another amount, and all counters at 0. */
void room_set(uint64_t size);

#endif /* UTIL_ROOM_H */
