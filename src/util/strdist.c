/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "strdist.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static unsigned char lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (unsigned char)(c - 'A' + 'a') : (unsigned char)c;
}

static unsigned min3(unsigned a, unsigned b, unsigned c)
{
	unsigned m = a < b ? a : b;

	return m < c ? m : c;
}

/* Three rows of the usual matrix are enough: a swap looks back two rows. */
static unsigned distance_bounded(const char *a, unsigned alen, const char *b, unsigned blen)
{
	uint16_t rows[3][STR_DISTANCE_MAX + 1];
	uint16_t *before = rows[0], *prev = rows[1], *cur = rows[2];

	for (unsigned j = 0; j <= blen; j++)
		prev[j] = (uint16_t)j;
	for (unsigned i = 1; i <= alen; i++) {
		uint16_t *oldest = before;

		cur[0] = (uint16_t)i;
		for (unsigned j = 1; j <= blen; j++) {
			bool same = lower(a[i - 1]) == lower(b[j - 1]);
			unsigned d = min3(prev[j] + 1u, cur[j - 1] + 1u, prev[j - 1] + !same);

			if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) &&
			    lower(a[i - 2]) == lower(b[j - 1]) && before[j - 2] + 1u < d)
				d = before[j - 2] + 1u;
			cur[j] = (uint16_t)d;
		}
		before = prev;
		prev = cur;
		cur = oldest;
	}
	return prev[blen];
}

unsigned str_distance(const char *a, size_t alen, const char *b, size_t blen)
{
	size_t am = alen < STR_DISTANCE_MAX ? alen : STR_DISTANCE_MAX;
	size_t bm = blen < STR_DISTANCE_MAX ? blen : STR_DISTANCE_MAX;
	size_t rest = (alen - am) + (blen - bm);

	return distance_bounded(a, (unsigned)am, b, (unsigned)bm) + (unsigned)rest;
}

unsigned str_distance_limit(size_t len)
{
	return len <= 2 ? 1 : len <= 5 ? 2 : len <= 12 ? 3 : 4;
}
