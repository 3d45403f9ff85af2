/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What analyses keep numbers in: growing arrays, numbered keys, histograms; and how they print. */
#ifndef REPORT_COLLECT_H
#define REPORT_COLLECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/event.h"
#include "util/memlimit.h"

struct term;

/* Room for need elements of size bytes; new ones are zero. NULL when there is none: the old array
 * is as it was. It is given back by memlimit_free(). */
void *grow(void *array, unsigned *cap, unsigned need, size_t size, enum memlimit_table t);

/* Keys (pointers, thread ids) by the order in which they came. All zero is an empty one. */
#define KEYS_NONE UINT32_MAX
struct keys {
	uint64_t *keys;
	uint32_t *slots; /* number + 1; 0: free */
	uint32_t cnt, slot_cnt, key_cap;
	uint32_t last; /* the number that was asked for last */
	struct memlimit_share rows;
};
uint32_t keys__find(struct keys *k, uint64_t key);
/* Number of the key, a new one when it is new; KEYS_NONE, which is counted, when whose turn it is
 * (memlimit.h) has max, or there is no room. */
uint32_t keys__add(struct keys *k, uint64_t key, uint32_t max, enum memlimit_table t);
/* Number n has found no room elsewhere: the key goes again if it is the latest one, so that each
 * key that is there has what belongs to it. Nothing when n is KEYS_NONE. */
void keys__undo(struct keys *k, uint32_t n);
void keys__free(struct keys *k);

static inline uint32_t keys_get(struct keys *k, uint64_t key, uint32_t max, enum memlimit_table t)
{
	if (k->cnt && k->keys[k->last] == key)
		return k->last;
	return keys__add(k, key, max, t);
}

static inline uint64_t thread_key(uint32_t pid, uint32_t tid)
{
	return (uint64_t)pid << 32 | tid;
}

/* Two as one: addresses and small numbers do not meet by chance. */
static inline uint64_t pair_key(uint64_t a, uint64_t b)
{
	return a * 0x9e3779b97f4a7c15ull + b;
}

/* The order of lists of the longest or largest calls. Of two that are equal the one that began
 * first comes first, whichever returned first. */
static inline bool call_precedes(const struct trace_event *ev, uint64_t value, uint64_t other_value,
				 uint64_t other_start_ns, uint64_t other_id)
{
	if (value != other_value)
		return value > other_value;
	if (ev->start_ns != other_start_ns)
		return ev->start_ns < other_start_ns;
	return ev->id < other_id;
}

/* The latest rows by key. Rows begin with their key, a uint64_t; 0: none. A place has room for
 * RECENT_WAYS keys: so many processes whose calls have numbers that follow each other keep their
 * last RECENT_MAX / RECENT_WAYS. */
#define RECENT_WAYS 8u
#define RECENT_MAX  (1u << 18)
/* NULL: it is not there, or not any more. */
void *recent_find(void *rows, size_t row_sz, uint64_t key);
/* The row with that key. A new one is zeroed but for its key, and its place's oldest row goes. */
void *recent_get(void *rows, size_t row_sz, uint64_t key);

/* Durations in 16 steps per power of two: a percentile is off by at most 1/32 of itself. */
#define LOGHIST_SUB	16
#define LOGHIST_BUCKETS (61 * LOGHIST_SUB)
struct loghist {
	uint64_t n[LOGHIST_BUCKETS];
};

static inline void loghist_add(struct loghist *h, uint64_t v)
{
	unsigned e = v < LOGHIST_SUB ? 0 : 59 - (unsigned)__builtin_clzll(v);

	h->n[v < LOGHIST_SUB ? v : e * LOGHIST_SUB + (v >> e)]++;
}

/* The smallest value that at least this part (0..1) of cnt values does not exceed, and no more than
 * max. */
uint64_t loghist_percentile(const struct loghist *h, uint64_t cnt, double part, uint64_t max);
/* Time by when it was spent, in pieces that grow with the trace; all zero is an empty one. */
#define SPREAD_PIECES 256
struct spread {
	uint64_t origin_ns, piece_ns, total_ns;
	uint64_t ns[SPREAD_PIECES];
};
void spread__add(struct spread *s, uint64_t at_ns, uint64_t ns);
/* The part of it, 0 to 1, that was spent from from_ns to to_ns; off by a piece at either end. */
double spread__share(const struct spread *s, uint64_t from_ns, uint64_t to_ns);

/* The smallest first. */
void sort_values(uint64_t *v, size_t cnt);
/* loghist_percentile(), exact, of sorted values. */
uint64_t sorted_percentile(const uint64_t *v, size_t cnt, double part);

static inline double ratio_of(double part, double whole)
{
	return whole > 0 ? part / whole : 0;
}

/* How many rows of a long table a terminal of this width gets. */
unsigned report_rows(const struct term *term, unsigned top);

#endif /* REPORT_COLLECT_H */
