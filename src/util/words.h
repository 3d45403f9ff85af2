/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Copies structs of a few hundred bytes whose size is a compile-time constant. The compiler would
 * use `rep movs` and `rep stos`, whose startup takes longer than the whole copy; libc first has to
 * evaluate the size.
 */
#ifndef UTIL_WORDS_H
#define UTIL_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef uint64_t words16 __attribute__((vector_size(16)));

#define WORDS_FN static inline __attribute__((always_inline))

/* size is at least 16. The last words may overlap the ones before. */
WORDS_FN void words_copy(void *to, const void *from, size_t size)
{
#pragma GCC unroll 64
	for (size_t at = 0; at < size; at += sizeof(words16)) {
		size_t off = at + sizeof(words16) < size ? at : size - sizeof(words16);

		memcpy((char *)to + off, (const char *)from + off, sizeof(words16));
	}
}

WORDS_FN void words_clear(void *p, size_t size)
{
#pragma GCC unroll 64
	for (size_t at = 0; at < size; at += sizeof(words16)) {
		size_t off = at + sizeof(words16) < size ? at : size - sizeof(words16);

		memset((char *)p + off, 0, sizeof(words16));
	}
}

WORDS_FN bool words_empty(const void *p, size_t size)
{
	words16 all = {0}, w;

#pragma GCC unroll 64
	for (size_t at = 0; at < size; at += sizeof(words16)) {
		size_t off = at + sizeof(words16) < size ? at : size - sizeof(words16);

		memcpy(&w, (const char *)p + off, sizeof(w));
		all |= w;
	}
	return !(all[0] | all[1]);
}

#endif /* UTIL_WORDS_H */
