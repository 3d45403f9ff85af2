/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Containers for analyses: growing arrays, numbered keys, histograms; and their output. */
#ifndef REPORT_COLLECT_H
#define REPORT_COLLECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/event.h"
#include "util/memlimit.h"

struct term;

/* Grows the array to at least need elements of size bytes; new elements are zero. Returns NULL if
 * memory is short; the old array is then unchanged. Free it with memlimit_free(). */
void *grow(void *array, unsigned *cap, unsigned need, size_t size, enum limit_table t);

/* Numbers keys (pointers, thread ids) in order of arrival. A zeroed struct is empty. */
#define KEYS_NONE UINT32_MAX
struct keys {
	uint64_t *keys;
	uint32_t *slots; /* number + 1; 0: free */
	uint32_t cnt, slot_cnt, key_cap;
	uint32_t last; /* number that was found last */
	struct memlimit_share rows;
};
uint32_t keys__find(struct keys *k, uint64_t key);
/* Returns the number of the key; a new key gets a new number. Returns KEYS_NONE and counts it if
 * the current owner (memlimit.h) has max keys, or memory is short. */
uint32_t keys__add(struct keys *k, uint64_t key, uint32_t max, enum limit_table t);
/* Removes key n if it is the latest one. For callers that have no memory for its row: each key
 * that stays has its row. Does nothing if n is KEYS_NONE. */
void keys__undo(struct keys *k, uint32_t n);
void keys__free(struct keys *k);

static inline uint32_t keys_get(struct keys *k, uint64_t key, uint32_t max, enum limit_table t)
{
	if (k->cnt && k->keys[k->last] == key)
		return k->last;
	return keys__add(k, key, max, t);
}

/* As keys_get(); also grows the array `rows`, so that each key has its row, zero at first. Returns
 * KEYS_NONE if either fails. */
#define keys_row_max(k, key, max, t, rows, cap)                                                    \
	({                                                                                         \
		uint32_t i_ = keys_get(k, key, max, t);                                            \
		void *p_ =                                                                         \
			i_ == KEYS_NONE ? NULL : grow(rows, &(cap), i_ + 1, sizeof(*(rows)), t);   \
                                                                                                   \
		if (p_)                                                                            \
			(rows) = p_;                                                               \
		else                                                                               \
			keys__undo(k, i_);                                                         \
		p_ ? i_ : KEYS_NONE;                                                               \
	})
/* Like keys_row_max(), with the maximum of table t (util/limits.def). */
#define keys_row(k, key, t, rows, cap) keys_row_max(k, key, t##_MAX, t, rows, cap)

static inline uint64_t thread_key(uint32_t pid, uint32_t tid)
{
	return (uint64_t)pid << 32 | tid;
}

/* Combines two keys; addresses and small numbers do not collide by chance. */
static inline uint64_t pair_key(uint64_t a, uint64_t b)
{
	return a * 0x9e3779b97f4a7c15ull + b;
}

/* The order of lists of the longest or largest calls. If two calls are equal, the one that began
 * first comes first. */
static inline bool call_precedes(const struct trace_event *ev, uint64_t value, uint64_t other_value,
				 uint64_t other_start_ns, uint64_t other_id)
{
	if (value != other_value)
		return value > other_value;
	if (ev->start_ns != other_start_ns)
		return ev->start_ns < other_start_ns;
	return ev->id < other_id;
}

/* The latest rows by key. Each row begins with its key, a uint64_t; 0: none. A slot holds
 * RECENT_WAYS keys. If that many processes have consecutive call numbers, each keeps its last
 * RECENT_MAX / RECENT_WAYS rows. */
#define RECENT_WAYS 8u
#define RECENT_MAX  (1u << 18)
/* NULL: the key was not added, or was overwritten. */
void *recent_find(void *rows, size_t row_sz, uint64_t key);
/* The row with that key. A new row has only its key set; it replaces its slot's oldest row. */
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

/* The smallest value that is >= part (0..1) of the cnt values; at most max. */
uint64_t loghist_percentile(const struct loghist *h, uint64_t cnt, double part, uint64_t max);
/* Time spent, by pieces of the trace; pieces grow with it. A zeroed struct is empty. */
#define SPREAD_PIECES 256
struct spread {
	uint64_t origin_ns, piece_ns, total_ns;
	uint64_t ns[SPREAD_PIECES];
};
void spread__add(struct spread *s, uint64_t at_ns, uint64_t ns);
/* The share (0..1) spent from from_ns to to_ns; off by at most a piece at each end. */
double spread__share(const struct spread *s, uint64_t from_ns, uint64_t to_ns);

/* Sorts in ascending order. */
void sort_values(uint64_t *v, size_t cnt);
/* The exact percentile part (0..1) of sorted values. */
uint64_t sorted_percentile(const uint64_t *v, size_t cnt, double part);

static inline double ratio_of(double part, double whole)
{
	return whole > 0 ? part / whole : 0;
}

/* Number of rows of a long table for a terminal of this width. */
unsigned report_rows(const struct term *term, unsigned top);

#endif /* REPORT_COLLECT_H */
