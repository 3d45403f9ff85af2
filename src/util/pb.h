/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Writes the wire format of protocol buffers to a struct out: numbers as varints, and
 * variable-length values after their length. https://protobuf.dev/programming-guides/encoding/
 */
#ifndef UTIL_PB_H
#define UTIL_PB_H

#include "out.h"
#include "plain.h"

#define PB_VARINT_MAX 10

enum pb_wire {
	PB_VARINT = 0,
	PB_FIXED64 = 1,
	PB_BYTES = 2,
};

static inline char *pb_fmt(char *p, uint64_t x)
{
	for (; x >= 0x80; x >>= 7)
		*p++ = (char)(x | 0x80);
	*p++ = (char)x;
	return p;
}

static inline void pb_varint(struct out *o, uint64_t x)
{
	o->len = pb_fmt(out_reserve(o, PB_VARINT_MAX), x) - o->buf;
}

/* Writes also a negative int64 (as the uint64 with its bits), an enum or a bool. */
static inline void pb_u64(struct out *o, unsigned field, uint64_t x)
{
	char *p = pb_fmt(out_reserve(o, 2 * PB_VARINT_MAX), field << 3 | PB_VARINT);

	o->len = pb_fmt(p, x) - o->buf;
}

static inline void pb_f64(struct out *o, unsigned field, double x)
{
	pb_varint(o, field << 3 | PB_FIXED64);
	out_bytes(o, (const char *)&x, sizeof(x)); /* little endian, as on all supported machines */
}

static inline void pb_fixed64(struct out *o, unsigned field, uint64_t x)
{
	pb_varint(o, field << 3 | PB_FIXED64);
	out_bytes(o, (const char *)&x, sizeof(x));
}

static inline void pb_bytes(struct out *o, unsigned field, const void *s, size_t n)
{
	pb_varint(o, field << 3 | PB_BYTES);
	pb_varint(o, n);
	out_bytes(o, s, n);
}

/* Begins a nested message; returns its start for pb_close(). */
static inline size_t pb_open(struct out *o, unsigned field)
{
	pb_varint(o, field << 3 | PB_BYTES);
	out_char(o, 0);
	return o->len;
}

/* One byte was reserved for the length. */
static inline void pb_close(struct out *o, size_t at)
{
	char len[PB_VARINT_MAX];
	size_t n = o->len - at, more = pb_fmt(len, n) - len - 1;

	if (more) {
		out_reserve(o, more);
		memmove(o->buf + at + more, o->buf + at, n);
		o->len += more;
	}
	memcpy(o->buf + at - 1, len, more + 1);
}

/* Any bytes: invalid UTF-8 becomes U+FFFD. */
static inline void pb_text(struct out *o, unsigned field, const char *s, size_t len)
{
	size_t at = pb_open(o, field);

	for (size_t i = 0, n; i < len; i += n) {
		for (n = 0; i + n < len && !(s[i + n] & 0x80); n++)
			;
		if (!n)
			n = utf8_len((const unsigned char *)s + i, len - i);
		if (n)
			out_bytes(o, s + i, n);
		else
			out_lit(o, "\xef\xbf\xbd");
		n += !n;
	}
	pb_close(o, at);
}

#endif /* UTIL_PB_H */
