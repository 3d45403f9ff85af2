/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Interned strings: equal texts have the same address, so the address is compared and hashed. */
#ifndef SAVED_STRINGS_H
#define SAVED_STRINGS_H

#include <stddef.h>
#include <stdint.h>

#include "util/hash_table.h"

struct strings;

struct string {
	struct hash_link link;
	const void *tag; /* for the owner of the table; NULL at first */
	uint32_t len;
	char text[]; /* NUL-terminated */
};
HASH_TABLE_TYPE(string);

struct strings *strings__new(void);
void strings__free(struct strings *t);
/* Interns a text, which ends at len or at a NUL. Never returns NULL: beyond MEMLIMIT_TEXTS_MAX
 * bytes of texts, or when out of memory, it returns STRINGS_FULL. */
struct string *strings__get(struct strings *t, const char *s, size_t len);

#define STRINGS_FULL "(too many names)"
/* Longer texts are cut, since a report repeats names often. No name that cudatrace writes is
 * longer. */
#define STRING_MAX (8u << 10)

static inline const char *strings__text(struct strings *t, const char *s, size_t len)
{
	return strings__get(t, s, len)->text;
}

#endif /* SAVED_STRINGS_H */
