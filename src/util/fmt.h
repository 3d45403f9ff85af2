/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Numbers as text, written to a pointer with enough space: printf would cost more than the rest of
 * a trace line. Each function returns the end of what it wrote, without a NUL.
 */
#ifndef UTIL_FMT_H
#define UTIL_FMT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Longest result: 20 digits and a sign or a point. */
#define FMT_MAX 24

extern const char fmt_dec2[200]; /* "00" to "99" */
extern const char fmt_hex2[512]; /* "00" to "ff" */
extern const uint64_t fmt_pow10[20];

static inline char *fmt_2(char *p, unsigned x)
{
	memcpy(p, fmt_dec2 + 2 * x, 2);
	return p + 2;
}

/* x >= 100 */
char *fmt_u64_long(char *p, uint64_t x);

static inline char *fmt_u64(char *p, uint64_t x)
{
	if (x >= 100)
		return fmt_u64_long(p, x);
	if (x >= 10)
		return fmt_2(p, x);
	*p = '0' + x;
	return p + 1;
}

static inline char *fmt_i64(char *p, int64_t x)
{
	if (x >= 0)
		return fmt_u64(p, x);
	*p++ = '-';
	return fmt_u64(p, 0 - (uint64_t)x);
}

typedef uint8_t fmt_bytes __attribute__((vector_size(16)));
typedef uint64_t fmt_words __attribute__((vector_size(16)));

/* The sixteen hexadecimal digits of x, the most significant first. */
static inline fmt_bytes fmt_hex16(uint64_t x)
{
	fmt_bytes b;

#if __BYTE_ORDER__ != __ORDER_BIG_ENDIAN__
	x = __builtin_bswap64(x);
#endif
	b = (fmt_bytes)(fmt_words){x};
	b = __builtin_shufflevector(b >> 4, b & 15, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22,
				    7, 23);
	return b + '0' + ((fmt_bytes)(b > 9) & ('a' - '0' - 10));
}

/* Always writes 18 bytes; returns the end of the digits. */
static inline char *fmt_hex(char *p, uint64_t x)
{
	unsigned n = (67 - __builtin_clzll(x | 1)) / 4;
	fmt_bytes digits;

	/* The significant digits first; the zeros after them are not counted. */
	digits = fmt_hex16(x << (64 - 4 * n));
	memcpy(p, "0x", 2);
	memcpy(p + 2, &digits, sizeof(digits));
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

/* Shortest form of %.6g; null for values that JSON cannot represent. At most 32 bytes. */
char *fmt_f64(char *p, double x);

#endif /* UTIL_FMT_H */
