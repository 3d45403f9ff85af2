/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "json_visit.h"

#include <stdlib.h>
#include <string.h>

#include "util/out.h"

#define DEPTH_MAX  16
#define NUMBER_MAX 64

struct walk {
	const char *p, *end;
	struct out *scratch;
	struct visitor *v;
	unsigned depth;
};

static bool is_hex_digit(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

bool json_is_hex(const char *s, size_t len, uint64_t *x)
{
	if (len < 3 || len > 18 || s[0] != '0' || s[1] != 'x' || (s[2] == '0' && len > 3))
		return false;
	*x = 0;
	for (size_t i = 2; i < len; i++) {
		if (!is_hex_digit(s[i]))
			return false;
		*x = *x << 4 | (s[i] <= '9' ? s[i] - '0' : s[i] - 'a' + 10);
	}
	return true;
}

void json_visit_number(const char *s, size_t len, const char *name, struct visitor *v)
{
	bool minus = len && *s == '-';
	char buf[NUMBER_MAX];
	uint64_t x = 0;
	size_t i;

	for (i = minus; i < len && s[i] >= '0' && s[i] <= '9'; i++)
		if (__builtin_mul_overflow(x, 10, &x) || __builtin_add_overflow(x, s[i] - '0', &x))
			break;
	if (i == len && !minus) {
		v->ops->u64(v, name, x);
	} else if (i == len && x <= 1ULL << 63) {
		v->ops->i64(v, name, (int64_t)(0 - x));
	} else if (len < sizeof(buf)) {
		memcpy(buf, s, len);
		buf[len] = '\0';
		v->ops->f64(v, name, strtod(buf, NULL));
	} else {
		v->ops->none(v, name);
	}
}

static unsigned hex4(const char *p)
{
	unsigned x = 0;

	for (int i = 0; i < 4; i++) {
		char c = p[i] | 0x20;

		x = x << 4 | (c <= '9' ? c - '0' : c - 'a' + 10);
	}
	return x & 0xffff;
}

static void put_utf8(struct out *o, unsigned c)
{
	char buf[4];
	unsigned n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;

	for (unsigned i = n; i > 1; i--, c >>= 6)
		buf[i - 1] = (char)(0x80 | (c & 0x3f));
	buf[0] = (char)(n == 1 ? c : (0xf00u >> n & 0xf0) | c);
	out_bytes(o, buf, n);
}

/* Reads a code point after "\u", including the second half of a surrogate pair. */
static void code_point(struct walk *w)
{
	unsigned c, low;

	if (w->end - w->p < 4) {
		w->p = w->end;
		return;
	}
	c = hex4(w->p);
	w->p += 4;
	if (c >= 0xd800 && c < 0xdc00 && w->end - w->p >= 6 && w->p[0] == '\\' && w->p[1] == 'u') {
		low = hex4(w->p + 2);
		if (low >= 0xdc00 && low < 0xe000) {
			c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
			w->p += 6;
		}
	}
	put_utf8(w->scratch, c >= 0xd800 && c < 0xe000 ? 0xfffd : c);
}

/* Reads a string after its quote. Appends to scratch. */
static void string(struct walk *w)
{
	static const char from[] = "bfnrt", to[] = "\b\f\n\r\t";
	const char *begin, *at;

	while (w->p < w->end && *w->p != '"') {
		for (begin = w->p; w->p < w->end && *w->p != '"' && *w->p != '\\'; w->p++)
			;
		out_bytes(w->scratch, begin, w->p - begin);
		if (w->end - w->p < 2 || *w->p != '\\')
			continue;
		w->p += 2;
		if (w->p[-1] == 'u') {
			code_point(w);
			continue;
		}
		at = w->p[-1] ? strchr(from, w->p[-1]) : NULL;
		out_char(w->scratch, at ? to[at - from] : w->p[-1]);
	}
	if (w->p < w->end)
		w->p++;
}

static void blanks(struct walk *w)
{
	while (w->p < w->end && strchr(" \t\r\n,:", *w->p) && *w->p)
		w->p++;
}

static void members(struct walk *w, char close);

static void nested(struct walk *w, const char *name)
{
	bool is_array = *w->p++ == '[', shown = w->depth < DEPTH_MAX;
	struct visitor *v = w->v;
	int depth = 1;

	if (shown) {
		w->depth++;
		(is_array ? v->ops->open_array : v->ops->open)(v, name);
		members(w, is_array ? ']' : '}');
		if (is_array)
			v->ops->close_array(v);
		else
			v->ops->close(v);
		w->depth--;
		return;
	}
	for (; w->p < w->end && depth; w->p++) {
		if (*w->p == '"') {
			size_t len = w->scratch->len;

			w->p++;
			string(w);
			w->scratch->len = len;
			w->p--;
		} else if (*w->p == '[' || *w->p == '{') {
			depth++;
		} else if (*w->p == ']' || *w->p == '}') {
			depth--;
		}
	}
}

/* name: offset in scratch, which may move. */
static void value(struct walk *w, bool named, size_t name)
{
	const char *begin = w->p;
	size_t at = w->scratch->len, len;
	uint64_t x;

#define NAME (named ? w->scratch->buf + name : NULL)
	switch (*w->p) {
	case '"':
		w->p++;
		string(w);
		len = w->scratch->len - at;
		if (json_is_hex(w->scratch->buf + at, len, &x))
			w->v->ops->hex(w->v, NAME, x);
		else
			w->v->ops->text(w->v, NAME, w->scratch->buf + at, len, false);
		return;
	case '{':
	case '[':
		nested(w, NAME);
		return;
	default:
		while (w->p < w->end && !strchr(",]} \t\r\n", *w->p))
			w->p++;
		if (w->p == begin)
			w->p++; /* cannot happen in validated text */
		else if (*begin == 't' || *begin == 'f')
			visit_bool(w->v, NAME, *begin == 't');
		else if (*begin == 'n')
			w->v->ops->none(w->v, NAME);
		else
			json_visit_number(begin, w->p - begin, NAME, w->v);
	}
#undef NAME
}

static void members(struct walk *w, char close)
{
	bool named = close == '}';
	size_t name;

	for (;;) {
		blanks(w);
		if (w->p >= w->end || *w->p == close)
			break;
		name = w->scratch->len;
		if (named && *w->p == '"') {
			w->p++;
			string(w);
			out_char(w->scratch, '\0');
			blanks(w);
			if (w->p >= w->end)
				break;
		}
		value(w, named, name);
		w->scratch->len = name;
	}
	if (w->p < w->end)
		w->p++;
}

void json_visit(const char *text, size_t len, struct out *scratch, struct visitor *v)
{
	struct walk w = {.p = text, .end = text + len, .scratch = scratch, .v = v};

	while (w.p < w.end)
		members(&w, '}');
}
