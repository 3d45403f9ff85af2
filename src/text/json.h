/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Writes JSON into a struct out, including commas and names. It is a visitor too. Names and
 * json_sym() are written without escaping: they come from cudatrace's own tables. All text from the
 * target must go through json_text().
 */
#ifndef TEXT_JSON_H
#define TEXT_JSON_H

#include "decode/value.h"
#include "util/fmt.h"
#include "util/out.h"

struct json {
	struct visitor v;
	struct out *o;
	bool comma;	  /* a comma is needed before the next value */
	bool fixed_names; /* names come from constant tables and may be cached */
};

extern const struct visitor_ops json_visitor_ops;

static inline void json__init(struct json *j, struct out *o)
{
	j->v.ops = &json_visitor_ops;
	j->o = o;
	j->comma = j->fixed_names = false;
}

/* name is NULL inside arrays and at the top. */
void json_open(struct json *j, const char *name);
void json_close(struct json *j);
void json_open_array(struct json *j, const char *name);
void json_close_array(struct json *j);
void json_u64(struct json *j, const char *name, uint64_t x);
void json_i64(struct json *j, const char *name, int64_t x);
void json_f64(struct json *j, const char *name, double x);
/* Writes a string, because JSON numbers have 53 bits. */
void json_hex(struct json *j, const char *name, uint64_t x);
void json_sym(struct json *j, const char *name, const char *s);
void json_text(struct json *j, const char *name, const char *s, size_t len);
/* Writes null for NULL. */
void json_str(struct json *j, const char *name, const char *s);
void json_bool(struct json *j, const char *name, bool x);
void json_null(struct json *j, const char *name);
/* Write nanoseconds as microseconds with three decimals, and as milliseconds with six. */
void json_milli(struct json *j, const char *name, uint64_t x);
void json_micro(struct json *j, const char *name, uint64_t x);

#endif /* TEXT_JSON_H */
