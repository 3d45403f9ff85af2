/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "collect.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "text/table.h"
#include "util/hash_table.h"
#include "util/order.h"

#define GROW_TWICE 1024

void *grow(void *array, unsigned *cap, unsigned need, size_t size, enum limit_table t)
{
	unsigned n = *cap ? *cap : 8;
	void *p;

	if (need <= *cap)
		return array;
	/* Small steps: the owner of one more row is charged for all spare rows. */
	while (n < need)
		n += n < GROW_TWICE ? n : n / 8;
	p = memlimit_resize(t, array, n * size);
	if (!p)
		return NULL;
	memset((char *)p + *cap * size, 0, (n - *cap) * size);
	*cap = n;
	return p;
}

static uint32_t slot_of(const struct keys *k, uint64_t key)
{
	uint32_t i = (uint32_t)hash_word(key) & (k->slot_cnt - 1);

	while (k->slots[i] && k->keys[k->slots[i] - 1] != key)
		i = (i + 1) & (k->slot_cnt - 1);
	return i;
}

static bool make_room(struct keys *k, enum limit_table t)
{
	uint32_t n = k->slot_cnt ? k->slot_cnt * 2 : 16;
	uint32_t *slots;
	uint64_t *keys = grow(k->keys, &k->key_cap, k->cnt + 1, sizeof(*keys), t);

	if (!keys)
		return false;
	k->keys = keys;
	if ((k->cnt + 1) * 2 <= k->slot_cnt)
		return true;
	slots = memlimit_resize(t, k->slots, n * sizeof(*slots));
	if (!slots)
		return false;
	memset(slots, 0, n * sizeof(*slots));
	k->slots = slots;
	k->slot_cnt = n;
	for (uint32_t i = 0; i < k->cnt; i++)
		slots[slot_of(k, keys[i])] = i + 1;
	return true;
}

uint32_t keys__find(struct keys *k, uint64_t key)
{
	return k->cnt ? k->slots[slot_of(k, key)] - 1 : KEYS_NONE;
}

uint32_t keys__add(struct keys *k, uint64_t key, uint32_t max, enum limit_table t)
{
	uint32_t n = keys__find(k, key);

	if (n == KEYS_NONE) {
		if (!memlimit_charge(&k->rows, 1, max, t))
			return KEYS_NONE;
		if (!make_room(k, t)) {
			memlimit_uncharge(&k->rows, NULL, 1);
			return KEYS_NONE;
		}
		n = k->cnt++;
		k->keys[n] = key;
		/* not in a slot yet: the search ends at the free one */
		k->slots[slot_of(k, key)] = n + 1;
	}
	k->last = n;
	return n;
}

void keys__undo(struct keys *k, uint32_t n)
{
	if (n == KEYS_NONE || n + 1 != k->cnt)
		return;
	/* No search continues past the slot of the latest key. */
	k->slots[slot_of(k, k->keys[n])] = 0;
	memlimit_uncharge(&k->rows, NULL, 1);
	k->cnt--;
	k->last = 0;
}

void keys__free(struct keys *k)
{
	memlimit_free(k->keys);
	memlimit_free(k->slots);
	memlimit_share_free(&k->rows);
}

static uint64_t rank_of(uint64_t cnt, double part)
{
	uint64_t rank = (uint64_t)ceil(part * (double)cnt);

	return rank ? rank : 1;
}

static unsigned char *recent_place(void *rows, size_t row_sz, uint64_t key)
{
	return (unsigned char *)rows + key % (RECENT_MAX / RECENT_WAYS) * RECENT_WAYS * row_sz;
}

void *recent_find(void *rows, size_t row_sz, uint64_t key)
{
	unsigned char *row = recent_place(rows, row_sz, key);

	for (unsigned i = 0; key && i < RECENT_WAYS; i++, row += row_sz)
		if (!memcmp(row, &key, sizeof(key)))
			return row;
	return NULL;
}

void *recent_get(void *rows, size_t row_sz, uint64_t key)
{
	unsigned char *place = recent_place(rows, row_sz, key);
	void *row = recent_find(rows, row_sz, key);

	if (row)
		return row;
	/* The latest row comes first. */
	memmove(place + row_sz, place, (RECENT_WAYS - 1) * row_sz);
	memset(place, 0, row_sz);
	memcpy(place, &key, sizeof(key));
	return place;
}

uint64_t loghist_percentile(const struct loghist *h, uint64_t cnt, double part, uint64_t max)
{
	uint64_t rank = rank_of(cnt, part), seen = 0, middle;
	unsigned i, e;

	for (i = 0; i < LOGHIST_BUCKETS; i++) {
		seen += h->n[i];
		if (seen >= rank)
			break;
	}
	if (rank == cnt)
		return max;
	if (i < LOGHIST_SUB)
		return i < max ? i : max;
	if (i >= LOGHIST_BUCKETS)
		return max;
	e = i / LOGHIST_SUB - 1;
	middle = (uint64_t)(LOGHIST_SUB + i % LOGHIST_SUB) << e;
	middle += e ? 1ull << (e - 1) : 0;
	return middle < max ? middle : max;
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return ASCENDING(x, y);
}

void sort_values(uint64_t *v, size_t cnt)
{
	qsort(v, cnt, sizeof(*v), by_value);
}

uint64_t sorted_percentile(const uint64_t *v, size_t cnt, double part)
{
	return cnt ? v[rank_of(cnt, part) - 1] : 0;
}

unsigned report_rows(const struct term *term, unsigned top)
{
	unsigned fit = term->width >= 100 ? 12 : 8;

	if (top && top < fit)
		return top;
	return top > fit && top <= TABLE_ROWS ? top : fit;
}

void spread__add(struct spread *s, uint64_t at_ns, uint64_t ns)
{
	if (!s->piece_ns) {
		s->origin_ns = at_ns;
		s->piece_ns = 1000000;
	}
	at_ns = at_ns > s->origin_ns ? at_ns - s->origin_ns : 0;
	for (; at_ns / s->piece_ns >= SPREAD_PIECES; s->piece_ns *= 2) {
		for (unsigned i = 0; i < SPREAD_PIECES / 2; i++)
			s->ns[i] = s->ns[2 * i] + s->ns[2 * i + 1];
		memset(s->ns + SPREAD_PIECES / 2, 0, sizeof(s->ns) / 2);
	}
	s->ns[at_ns / s->piece_ns] += ns;
	s->total_ns += ns;
}

double spread__share(const struct spread *s, uint64_t from_ns, uint64_t to_ns)
{
	double sum = 0;

	for (unsigned i = 0; i < SPREAD_PIECES; i++) {
		uint64_t begin = s->origin_ns + i * s->piece_ns, end = begin + s->piece_ns;
		uint64_t from = begin > from_ns ? begin : from_ns, to = end < to_ns ? end : to_ns;

		if (s->ns[i] && to > from)
			sum += (double)s->ns[i] * (to - from) / s->piece_ns;
	}
	return ratio_of(sum, s->total_ns);
}
