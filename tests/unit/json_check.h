/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A strict JSON validator (RFC 8259, with UTF-8 checked), for tests that a line is JSON. */
#ifndef TESTS_JSON_CHECK_H
#define TESTS_JSON_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct json_check {
	const unsigned char *p, *end;
	int depth;
	bool blanks; /* blanks between tokens are allowed */
};

static bool jc_value(struct json_check *c);

static inline bool jc_lit(struct json_check *c, const char *s)
{
	size_t n = strlen(s);

	if ((size_t)(c->end - c->p) < n || memcmp(c->p, s, n))
		return false;
	c->p += n;
	return true;
}

static inline void jc_blanks(struct json_check *c)
{
	while (c->blanks && c->p < c->end && *c->p && strchr(" \t\r\n", *c->p))
		c->p++;
}

static inline bool jc_is(struct json_check *c, char ch)
{
	if (c->p == c->end || *c->p != (unsigned char)ch)
		return false;
	c->p++;
	return true;
}

static inline bool jc_hex4(struct json_check *c)
{
	for (int i = 0; i < 4; i++, c->p++)
		if (c->p == c->end || !*c->p || !strchr("0123456789abcdefABCDEF", *c->p))
			return false;
	return true;
}

/* Decodes a multi-byte sequence; its value must be at least the smallest one of its length. */
static inline bool jc_utf8(struct json_check *c)
{
	static const unsigned least[] = {0, 0, 0x80, 0x800, 0x10000};
	unsigned b = *c->p, n = b >= 0xf0 ? 4 : b >= 0xe0 ? 3 : 2;
	unsigned x = b & (0x7f >> n);

	if (b < 0xc0 || b > 0xf7 || (size_t)(c->end - c->p) < n)
		return false;
	for (unsigned i = 1; i < n; i++) {
		if ((c->p[i] & 0xc0) != 0x80)
			return false;
		x = x << 6 | (c->p[i] & 0x3f);
	}
	c->p += n;
	return x >= least[n] && x <= 0x10ffff && (x < 0xd800 || x > 0xdfff);
}

static inline bool jc_string(struct json_check *c)
{
	if (!jc_is(c, '"'))
		return false;
	while (c->p < c->end) {
		unsigned char ch = *c->p;

		if (ch == '"') {
			c->p++;
			return true;
		}
		if (ch < 0x20)
			return false;
		if (ch >= 0x80) {
			if (!jc_utf8(c))
				return false;
			continue;
		}
		c->p++;
		if (ch != '\\')
			continue;
		if (c->p == c->end || !*c->p || !strchr("\"\\/bfnrtu", *c->p))
			return false;
		if (*c->p++ == 'u' && !jc_hex4(c))
			return false;
	}
	return false;
}

static inline bool jc_digits(struct json_check *c)
{
	const unsigned char *begin = c->p;

	while (c->p < c->end && *c->p >= '0' && *c->p <= '9')
		c->p++;
	return c->p > begin;
}

static inline bool jc_number(struct json_check *c)
{
	jc_is(c, '-');
	if (!jc_is(c, '0') && !jc_digits(c))
		return false;
	if (jc_is(c, '.') && !jc_digits(c))
		return false;
	if (jc_is(c, 'e') || jc_is(c, 'E')) {
		if (!jc_is(c, '+'))
			jc_is(c, '-');
		return jc_digits(c);
	}
	return true;
}

static inline bool jc_members(struct json_check *c, char close, bool named)
{
	c->p++;
	jc_blanks(c);
	if (jc_is(c, close))
		return true;
	do {
		jc_blanks(c);
		if (named && !jc_string(c))
			return false;
		jc_blanks(c);
		if (named && !jc_is(c, ':'))
			return false;
		if (!jc_value(c))
			return false;
	} while (jc_is(c, ','));
	return jc_is(c, close);
}

static bool jc_value(struct json_check *c)
{
	bool ok;

	jc_blanks(c);
	if (c->p == c->end || c->depth > 64)
		return false;
	c->depth++;
	switch (*c->p) {
	case '{':
		ok = jc_members(c, '}', true);
		break;
	case '[':
		ok = jc_members(c, ']', false);
		break;
	case '"':
		ok = jc_string(c);
		break;
	case 't':
		ok = jc_lit(c, "true");
		break;
	case 'f':
		ok = jc_lit(c, "false");
		break;
	case 'n':
		ok = jc_lit(c, "null");
		break;
	default:
		ok = jc_number(c);
	}
	c->depth--;
	jc_blanks(c);
	return ok;
}

static inline bool jc_all(const char *s, size_t n, bool blanks)
{
	struct json_check c = {(const unsigned char *)s, (const unsigned char *)s + n, 0, blanks};

	return jc_value(&c) && c.p == c.end;
}

/* Returns whether the n bytes at s are exactly one JSON value, without white space. */
static inline bool json_valid(const char *s, size_t n)
{
	return jc_all(s, n, false);
}

/* Like json_valid(), but white space is allowed, for JSON of other programs. */
static inline bool json_valid_loose(const char *s, size_t n)
{
	return jc_all(s, n, true);
}

#endif /* TESTS_JSON_CHECK_H */
