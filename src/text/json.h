/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * JSON into a struct out: puts commas and names, so that a caller only says what comes next. It is
 * a visitor too. Names and json_sym() are written as they are: they come from our own tables.
 * Whatever comes from the target goes through json_text().
 */
#ifndef TEXT_JSON_H
#define TEXT_JSON_H

#include "decode/value.h"
#include "util/fmt.h"
#include "util/out.h"

struct json {
	struct visitor v;
	struct out *o;
	bool comma;	  /* something stands before the next value */
	bool fixed_names; /* the names that come are of our tables: they stay what they are */
};

extern const struct visitor_ops json_visitor_ops;

static inline void json__init(struct json *j, struct out *o)
{
	j->v.ops = &json_visitor_ops;
	j->o = o;
	j->comma = j->fixed_names = false;
}

/* name is NULL inside of arrays and at the top. */
void json_open(struct json *j, const char *name);
void json_close(struct json *j);
void json_open_array(struct json *j, const char *name);
void json_close_array(struct json *j);
void json_u64(struct json *j, const char *name, uint64_t x);
void json_i64(struct json *j, const char *name, int64_t x);
void json_f64(struct json *j, const char *name, double x);
/* A string: JSON numbers have 53 bits. */
void json_hex(struct json *j, const char *name, uint64_t x);
void json_sym(struct json *j, const char *name, const char *s);
void json_text(struct json *j, const char *name, const char *s, size_t len);
/* NULL is null. */
void json_str(struct json *j, const char *name, const char *s);
void json_bool(struct json *j, const char *name, bool x);
void json_null(struct json *j, const char *name);
/* Nanoseconds as microseconds with three decimals, and as milliseconds with six. */
void json_milli(struct json *j, const char *name, uint64_t x);
void json_micro(struct json *j, const char *name, uint64_t x);

#endif /* TEXT_JSON_H */
