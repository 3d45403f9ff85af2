/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Gets one argument of a call by its name, for live calls and for those read from a file. */
#include "event.h"

#include <string.h>

/* Live: a visitor that stores one value and ignores the others. */
struct finder {
	struct visitor v;
	const char *name;
	unsigned depth;
	bool found;
	uint64_t val;
};

static void keep(struct visitor *v, const char *name, uint64_t x)
{
	struct finder *f = (struct finder *)v;

	if (f->depth || f->found || !name || strcmp(name, f->name))
		return;
	f->found = true;
	f->val = x;
}

static void keep_i64(struct visitor *v, const char *name, int64_t x)
{
	keep(v, name, x);
}

static void pass_f64(struct visitor *v, const char *name, double x)
{
}

static void pass_sym(struct visitor *v, const char *name, const char *s)
{
}

static void pass_text(struct visitor *v, const char *name, const char *s, size_t len, bool cut)
{
}

static void pass_bytes(struct visitor *v, const char *name, const uint8_t *p, size_t len)
{
}

static void pass_none(struct visitor *v, const char *name)
{
}

static void enter(struct visitor *v, const char *name)
{
	((struct finder *)v)->depth++;
}

static void leave(struct visitor *v)
{
	((struct finder *)v)->depth--;
}

static const struct visitor_ops finder_ops = {
	.u64 = keep,
	.i64 = keep_i64,
	.f64 = pass_f64,
	.hex = keep,
	.sym = pass_sym,
	.text = pass_text,
	.bytes = pass_bytes,
	.none = pass_none,
	.open = enter,
	.close = leave,
	.open_array = enter,
	.close_array = leave,
};

/* Saved: a parser has validated the JSON text. Each function returns the position after what it
 * read. */
static const char *skip_blank(const char *s, const char *end)
{
	while (s < end && strchr(" \t\r\n,:", *s))
		s++;
	return s;
}

/* s: after the opening quote. */
static const char *skip_string(const char *s, const char *end)
{
	for (; s < end && *s != '"'; s++)
		if (*s == '\\')
			s++;
	return s < end ? s + 1 : end;
}

static const char *skip_value(const char *s, const char *end)
{
	unsigned depth = 0;

	while (s < end) {
		char c = *s;

		if (c == '"') {
			s = skip_string(s + 1, end);
			continue;
		}
		if (c == '{' || c == '[')
			depth++;
		else if (c == '}' || c == ']')
			depth--;
		else if (c == ',' && !depth)
			break;
		s++;
	}
	return s;
}

static bool read_hex(const char *s, const char *end, uint64_t *val)
{
	uint64_t x = 0;

	if (end - s < 3 || end - s > 18 || s[0] != '0' || s[1] != 'x')
		return false;
	for (s += 2; s < end; s++) {
		unsigned d = *s >= '0' && *s <= '9'   ? *s - '0'
			     : *s >= 'a' && *s <= 'f' ? *s - 'a' + 10
						      : 16;

		if (d > 15)
			return false;
		x = x << 4 | d;
	}
	*val = x;
	return true;
}

/* Fractions are rejected. */
static bool read_number(const char *s, const char *end, uint64_t *val)
{
	bool minus = s < end && *s == '-';
	uint64_t x = 0;

	s += minus;
	if (s == end || *s < '0' || *s > '9')
		return false;
	for (; s < end && *s >= '0' && *s <= '9'; s++)
		x = x * 10 + (*s - '0');
	if (s < end && (*s == '.' || *s == 'e' || *s == 'E'))
		return false;
	*val = minus ? 0 - x : x;
	return true;
}

static bool find_in_text(const struct event_text *t, const char *name, uint64_t *val)
{
	const char *s = t->args, *end = s + t->args_len;
	size_t len = strlen(name);

	while ((s = skip_blank(s, end)) < end && *s == '"') {
		const char *key = s + 1, *key_end;
		bool match;

		s = skip_string(key, end);
		key_end = s - 1;
		match = (size_t)(key_end - key) == len && !memcmp(key, name, len);
		s = skip_blank(s, end);
		if (!match) {
			s = skip_value(s, end);
			continue;
		}
		if (s < end && *s == '"')
			return read_hex(s + 1, skip_string(s + 1, end) - 1, val);
		return read_number(s, end, val);
	}
	return false;
}

bool event_arg_u64(const struct trace_event *ev, const char *name, uint64_t *val)
{
	struct finder f = {.v.ops = &finder_ops, .name = name};

	if (ev->text)
		return ev->text->args_len && find_in_text(ev->text, name, val);
	event_visit_args(ev, &f.v);
	if (f.found)
		*val = f.val;
	return f.found;
}
