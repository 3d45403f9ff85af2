/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Formats numbers and strings into a struct out. */
#include "out.h"

#include <math.h>
#include <stdio.h>

#include "fmt.h"
#include "plain.h"

#define D1(a) #a "0" #a "1" #a "2" #a "3" #a "4" #a "5" #a "6" #a "7" #a "8" #a "9"
#define H1(a) D1(a) #a "a" #a "b" #a "c" #a "d" #a "e" #a "f"

/* Without terminating NULs, which gcc accepts in C for exact lengths. */
const char fmt_dec2[200] = D1(0) D1(1) D1(2) D1(3) D1(4) D1(5) D1(6) D1(7) D1(8) D1(9);
const char fmt_hex2[512] = H1(0) H1(1) H1(2) H1(3) H1(4) H1(5) H1(6) H1(7) H1(8) H1(9) H1(a) H1(b)
	H1(c) H1(d) H1(e) H1(f);

const uint64_t fmt_pow10[20] = {
	1ULL,
	10ULL,
	100ULL,
	1000ULL,
	10000ULL,
	100000ULL,
	1000000ULL,
	10000000ULL,
	100000000ULL,
	1000000000ULL,
	10000000000ULL,
	100000000000ULL,
	1000000000000ULL,
	10000000000000ULL,
	100000000000000ULL,
	1000000000000000ULL,
	10000000000000000ULL,
	100000000000000000ULL,
	1000000000000000000ULL,
	10000000000000000000ULL,
};

void out_str(struct out *o, const char *s)
{
	out_bytes(o, s, strlen(s));
}

static inline void put_bytes(char *p, uint64_t w)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	w = __builtin_bswap64(w);
#endif
	memcpy(p, &w, sizeof(w));
}

/* The eight decimal digits of x < 10^8, one per byte, the first in the lowest: splits into halves,
 * quarters, digits. Multiplying by 10486 / 2^20, or by 103 / 2^10, is a division by 100, or by
 * 10. */
static inline uint64_t dec8(uint32_t x)
{
	uint64_t w = x / 10000 | (uint64_t)(x % 10000) << 32, q;

	q = (w * 10486 >> 20) & 0x7f0000007fULL;
	w = q | (w - 100 * q) << 16;
	q = (w * 103 >> 10) & 0x000f000f000f000fULL;
	return q | (w - 10 * q) << 8;
}

#define ZEROS ('0' * 0x0101010101010101ULL)

/* After a first digit other than 0, or as eight digits. */
static inline char *put_8(char *p, uint32_t x)
{
	put_bytes(p, dec8(x) + ZEROS);
	return p + 8;
}

/* For 0 < x < 10^8. Always writes eight bytes. */
static inline char *put_to8(char *p, uint32_t x)
{
	uint64_t w = dec8(x);
	unsigned zeros = __builtin_ctzll(w) / 8;

	put_bytes(p, (w + ZEROS) >> 8 * zeros);
	return p + 8 - zeros;
}

char *fmt_u64_long(char *p, uint64_t x)
{
	if (x < 100000000)
		return put_to8(p, x);
	if (x < 10000000000000000)
		return put_8(put_to8(p, x / 100000000), x % 100000000);
	p = put_to8(p, x / 10000000000000000);
	x %= 10000000000000000;
	return put_8(put_8(p, x / 100000000), x % 100000000);
}

#define PUT(o, fmt, x) ((o)->len = fmt(out_reserve(o, FMT_MAX), x) - (o)->buf)

void out_u64(struct out *o, uint64_t x)
{
	PUT(o, fmt_u64, x);
}

void out_hex(struct out *o, uint64_t x)
{
	PUT(o, fmt_hex, x);
}

void out_milli(struct out *o, uint64_t x)
{
	PUT(o, fmt_milli, x);
}

/* %.6g for 1e-3 <= x < 1e6, where it never has an exponent. The product is exact to 64 bits, so
 * ties are rounded as printf does. */
static char *fmt_6g(char *p, double x)
{
	unsigned decimals = 5, n;
	long double scaled;
	uint64_t digits;
	double bound;

	for (bound = 10; x >= bound; bound *= 10)
		decimals--;
	for (bound = 1; x < bound; bound /= 10)
		decimals++;
	scaled = (long double)x * fmt_pow10[decimals];
	digits = scaled;
	scaled -= digits;
	if (scaled > 0.5L || (scaled == 0.5L && digits % 2))
		digits++;
	p = fmt_u64(p, digits / fmt_pow10[decimals]);
	digits %= fmt_pow10[decimals];
	if (!digits)
		return p;
	*p++ = '.';
	for (n = decimals; n > 0 && digits; n--) {
		*p++ = '0' + digits / fmt_pow10[n - 1];
		digits %= fmt_pow10[n - 1];
	}
	return p;
}

char *fmt_f64(char *p, double x)
{
	if (!isfinite(x)) {
		memcpy(p, "null", 4);
		return p + 4;
	}
	if ((x > -0.001 && x < 0.001 && x != 0) || x <= -999999 || x >= 999999)
		return p + snprintf(p, 32, "%.6g", x);
	if (x < 0)
		*p++ = '-';
	return x == 0 ? fmt_u64(p, 0) : fmt_6g(p, fabs(x));
}

void out_f64(struct out *o, double x)
{
	o->len = fmt_f64(out_reserve(o, 32), x) - o->buf;
}

typedef int8_t bytes16 __attribute__((vector_size(16)));

/* Returns a value other than 0 if one of the sixteen bytes cannot simply be copied: below 0x20, a
 * quote, a backslash, or not ASCII. */
static inline uint64_t not_plain(bytes16 b)
{
	bytes16 bad = (b < 0x20) | (b == '"') | (b == '\\');
	uint64_t w[2];

	memcpy(w, &bad, sizeof(w));
	return w[0] | w[1];
}

static inline bool is_plain(unsigned char c)
{
	return c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
}

/* Escapes a character of n bytes, below U+10000, that a terminal would interpret. */
static char *escape_code(char *p, const unsigned char *s, unsigned n)
{
	unsigned code = n == 2 ? (s[0] & 0x1fu) << 6 | (s[1] & 0x3f)
			       : (s[0] & 0xfu) << 12 | (s[1] & 0x3fu) << 6 | (s[2] & 0x3f);

	memcpy(p, "\\u", 2);
	memcpy(p + 2, fmt_hex2 + 2 * (code >> 8), 2);
	memcpy(p + 4, fmt_hex2 + 2 * (code & 0xff), 2);
	return p + 6;
}

/* Writes one character that cannot be copied. Returns how many bytes of s it used. */
static unsigned escape(char **out, const unsigned char *s, size_t left)
{
	char *p = *out;
	unsigned n;

	if (*s == '"' || *s == '\\') {
		*p++ = '\\';
		*p++ = *s;
		n = 1;
	} else if (*s < 0x20) {
		memcpy(p, "\\u00", 4);
		memcpy(p + 4, fmt_hex2 + 2 * *s, 2);
		p += 6;
		n = 1;
	} else {
		n = utf8_len(s, left);
		if (n && !plain_len((const char *)s, left)) {
			p = escape_code(p, s, n);
		} else {
			memcpy(p, n ? (const char *)s : "\xef\xbf\xbd", n ? n : 3);
			p += n ? n : 3;
		}
		n += !n;
	}
	*out = p;
	return n;
}

char *fmt_json_str(char *p, const char *str, size_t len)
{
	const unsigned char *first = (const unsigned char *)str, *s = first, *end = s + len;
	bytes16 b;

	*p++ = '"';
	for (;;) {
		for (; end - s >= (long)sizeof(b); s += sizeof(b), p += sizeof(b)) {
			memcpy(&b, s, sizeof(b));
			if (not_plain(b))
				break;
			memcpy(p, &b, sizeof(b));
		}
		/* Handles the last bytes again together with the rest: they are copied if all of
		 * them are plain. */
		if (s < end && end - s < (long)sizeof(b) && end - first >= (long)sizeof(b)) {
			memcpy(&b, end - sizeof(b), sizeof(b));
			if (!not_plain(b)) {
				p += end - s;
				memcpy(p - sizeof(b), &b, sizeof(b));
				break;
			}
		}
		while (s < end && is_plain(*s))
			*p++ = *s++;
		if (s == end)
			break;
		s += escape(&p, s, end - s);
	}
	*p++ = '"';
	return p;
}

void out_json_str(struct out *o, const char *s, size_t len)
{
	o->len = fmt_json_str(out_reserve(o, FMT_JSON_STR_MAX(len)), s, len) - o->buf;
}
