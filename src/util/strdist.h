/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* How far apart two words are, for "did you mean" in messages. */
#ifndef UTIL_STRDIST_H
#define UTIL_STRDIST_H

#include <stddef.h>

/* Longer words are compared by their first 64 bytes, and what is left counts as one edit a byte. */
#define STR_DISTANCE_MAX 64

/*
 * Edits (insert, delete, replace, swap of two neighbours) that make b from a, without regard to the
 * case of ASCII letters.
 */
unsigned str_distance(const char *a, size_t alen, const char *b, size_t blen);

/* The largest distance at which a suggestion for a word of this length still helps. */
unsigned str_distance_limit(size_t len);

#endif /* UTIL_STRDIST_H */
