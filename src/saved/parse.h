/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * One line of JSON, one level deep: the members of an object, or the elements of an array, as
 * slices of the line. What lies deeper is checked and handed out as text. The parser is RapidJSON
 * (parse.cc, the only C++ here); the text may come from anywhere.
 */
#ifndef SAVED_PARSE_H
#define SAVED_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A member's name as a number, of those that events have: the first row of event_fields[] with it,
 * from 1. Members of the header and the end are asked for by name. */
#define KEY_OTHER 0
unsigned parse_key(const char *name);
/* saved_field.c: NULL behind the last */
const char *parse_key_name(unsigned key);

enum parse_val { VAL_NULL, VAL_FALSE, VAL_TRUE, VAL_NUMBER, VAL_STRING, VAL_OBJECT, VAL_ARRAY };

struct member {
	uint8_t key;	   /* parse_key() */
	uint8_t val;	   /* enum parse_val */
	uint32_t from, to; /* with its name and value, in the line */
	uint32_t name_len, len;
	const char *name; /* NULL in an array */
	/* String: decoded. Number: as written. Object, array: what lies between its brackets. */
	const char *text;
};

struct json_value {
	bool is_object; /* else an array */
	struct member *m;
	unsigned cnt;
	/* On error: what is wrong, and at which byte. */
	const char *why;
	size_t at;
};

/* Of one object: the widest has a row for each function. */
#define PARSE_MEMBERS_MAX 65536u
/* What may be read behind the NUL of a line: the parser looks at 16 bytes at a time. */
#define PARSE_SLACK 32

struct parser;
/* NULL when there is no memory. */
struct parser *parser__new(void);
void parser__free(struct parser *p);
/* text[len] is 0. The result is valid until the next line; its strings are slices of text, or, with
 * escapes in them, of the parser. 0 or -EINVAL. */
int parser__line(struct parser *p, const char *text, size_t len, struct json_value *out);
/* A slice that a parser gave, as a value of its own: nested objects and arrays. Needs no NUL. */
int parser__slice(struct parser *p, const struct member *m, struct json_value *out);

#ifdef __cplusplus
}
#endif

#endif /* SAVED_PARSE_H */
