/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Numbers as text, at a pointer with enough room: printf costs more than the rest of a trace line.
 * Each returns the end of what it wrote; there is no NUL.
 */
#ifndef UTIL_FMT_H
#define UTIL_FMT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Longest results: 20 digits and a sign or a point. */
#define FMT_MAX 24

extern const char fmt_dec2[200]; /* "00" to "99" */
extern const char fmt_hex2[512]; /* "00" to "ff" */
extern const uint64_t fmt_pow10[20];

static inline char *fmt_2(char *p, unsigned x)
{
	memcpy(p, fmt_dec2 + 2 * x, 2);
	return p + 2;
}

static inline char *fmt_u64(char *p, uint64_t x)
{
	unsigned n;
	char *end, *q;

	if (x < 10) {
		*p = '0' + x;
		return p + 1;
	}
	if (x < 100)
		return fmt_2(p, x);
	/* log10 from log2: 1233 / 4096 is a little more than log10(2). */
	n = ((64 - __builtin_clzll(x)) * 1233) >> 12;
	n += x >= fmt_pow10[n];
	end = p + n;
	for (q = end; x >= 100; x /= 100) {
		q -= 2;
		fmt_2(q, x % 100);
	}
	if (x >= 10)
		fmt_2(q - 2, x);
	else
		q[-1] = '0' + x;
	return end;
}

static inline char *fmt_i64(char *p, int64_t x)
{
	if (x >= 0)
		return fmt_u64(p, x);
	*p++ = '-';
	return fmt_u64(p, 0 - (uint64_t)x);
}

/* The eight hexadecimal digits of x, the first in the lowest byte. */
static inline uint64_t fmt_hex8(uint32_t x)
{
	const uint64_t ones = 0x0101010101010101ULL;
	uint64_t w = x, letters;

	w = (w & 0xffff) << 32 | w >> 16;
	w = (w & 0xff000000ffULL) << 16 | (w >> 8 & 0xff000000ffULL);
	w = (w & 0x000f000f000f000fULL) << 8 | (w >> 4 & 0x000f000f000f000fULL);
	letters = (w + 6 * ones) >> 4 & ones;
	return w + '0' * ones + letters * ('a' - '0' - 10);
}

static inline void fmt_put8(char *p, uint64_t w)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	w = __builtin_bswap64(w);
#endif
	memcpy(p, &w, sizeof(w));
}

static inline char *fmt_hex(char *p, uint64_t x)
{
	unsigned n = x ? (67 - __builtin_clzll(x)) / 4 : 1;

	/* Those that count come first; behind them zeros, which are none. */
	x <<= 64 - 4 * n;
	memcpy(p, "0x", 2);
	fmt_put8(p + 2, fmt_hex8(x >> 32));
	if (n > 8)
		fmt_put8(p + 10, fmt_hex8(x));
	return p + 2 + n;
}

/* x / 1000 with three decimals. */
static inline char *fmt_milli(char *p, uint64_t x)
{
	unsigned r = x % 1000;

	p = fmt_u64(p, x / 1000);
	p[0] = '.';
	p[1] = '0' + r / 100;
	return fmt_2(p + 2, r % 100);
}

/* x / 1000000 with six decimals. */
static inline char *fmt_micro(char *p, uint64_t x)
{
	unsigned r = x % 1000000;

	p = fmt_u64(p, x / 1000000);
	*p++ = '.';
	p = fmt_2(p, r / 10000);
	p = fmt_2(p, r / 100 % 100);
	return fmt_2(p, r % 100);
}

/* A JSON string with its quotes; a control character takes six bytes. */
#define FMT_JSON_STR_MAX(len) (6 * (len) + 2)
char *fmt_json_str(char *p, const char *s, size_t len);

#endif /* UTIL_FMT_H */
