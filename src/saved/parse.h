/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Parses one line of JSON, one level deep: the members of an object, or the elements of an array,
 * as slices of the line. Deeper values are checked and returned as text. The parser is RapidJSON
 * (parse.cc, the only C++ file here). The text is untrusted.
 */
#ifndef SAVED_PARSE_H
#define SAVED_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A member name of events as a number: the first row of event_fields[] with this name, counted from
 * 1. Members of the header and the end are looked up by name. */
#define KEY_OTHER 0
unsigned parse_key(const char *name);
/* Returns NULL after the last key (saved_field.c). */
const char *parse_key_name(unsigned key);

enum parse_val { VAL_NULL, VAL_FALSE, VAL_TRUE, VAL_NUMBER, VAL_STRING, VAL_OBJECT, VAL_ARRAY };

struct member {
	uint16_t key;	   /* parse_key() */
	uint8_t val;	   /* enum parse_val */
	uint32_t from, to; /* the member, with its name and value, in the line */
	uint32_t name_len, len;
	const char *name; /* NULL in an array */
	/* String: decoded. Number: as written. Object, array: the text between its brackets. */
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

/* Members of one object: the widest object has one for each function. */
#define PARSE_MEMBERS_MAX 65536u
/* Bytes that must be readable after the NUL of a line: the parser reads 16 bytes at a time. */
#define PARSE_SLACK 32

struct parser;
/* Returns NULL when out of memory. */
struct parser *parser__new(void);
void parser__free(struct parser *p);
/* text[len] must be 0. The result is valid until the next line. Its strings are slices of text, or,
 * if they have escapes, of the parser. Returns 0 or -EINVAL. */
int parser__line(struct parser *p, const char *text, size_t len, struct json_value *out);
/* Parses a slice that another parser returned: a nested object or array. It needs no NUL. */
int parser__slice(struct parser *p, const struct member *m, struct json_value *out);

#ifdef __cplusplus
}
#endif

#endif /* SAVED_PARSE_H */
