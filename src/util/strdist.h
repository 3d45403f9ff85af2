/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Edit distance of two words, for "did you mean" in messages. */
#ifndef UTIL_STRDIST_H
#define UTIL_STRDIST_H

#include <stddef.h>

/* Only the first 64 bytes of longer words are compared; each further byte counts as one edit. */
#define STR_DISTANCE_MAX 64

/*
 * Number of edits (insert, delete, replace, swap of two neighbours) from a to b, ignoring the case
 * of ASCII letters.
 */
unsigned str_distance(const char *a, size_t alen, const char *b, size_t blen);

/* The largest distance at which a suggestion for a word of this length still helps. */
unsigned str_distance_limit(size_t len);

#endif /* UTIL_STRDIST_H */
