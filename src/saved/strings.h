/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Strings that stay: the same text has the same address, so they are compared and hashed by it. */
#ifndef SAVED_STRINGS_H
#define SAVED_STRINGS_H

#include <stddef.h>
#include <stdint.h>

struct strings;

struct string {
	const void *tag; /* the owner's; NULL at first */
	uint32_t hash, len;
	char text[]; /* ends with a NUL */
};

struct strings *strings__new(void);
void strings__free(struct strings *t);
/* Any bytes but NUL: a text ends there. Never NULL: beyond STRINGS_MAX bytes of texts, or without
 * room, a string that says so. */
struct string *strings__get(struct strings *t, const char *s, size_t len);

/* Names are thousands; this much of one process only a file that is made to be a burden has. */
#define STRINGS_MAX (32ull << 20)
/* Longer ones are cut: a report says a name again and again. No name of cudatrace's is. */
#define STRING_MAX (8u << 10)

static inline const char *strings__text(struct strings *t, const char *s, size_t len)
{
	return strings__get(t, s, len)->text;
}

#endif /* SAVED_STRINGS_H */
