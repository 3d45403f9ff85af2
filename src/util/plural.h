/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Nouns that agree with a count. */
#ifndef UTIL_PLURAL_H
#define UTIL_PLURAL_H

#include <stdint.h>

/* Returns one for n = 1, else many: "event is", "events are". */
static inline const char *noun(uint64_t n, const char *one, const char *many)
{
	return n == 1 ? one : many;
}

/* The ending of a noun: "call" + plural(n), "launch" + plural_es(n). */
static inline const char *plural(uint64_t n)
{
	return noun(n, "", "s");
}

static inline const char *plural_es(uint64_t n)
{
	return noun(n, "", "es");
}

#endif /* UTIL_PLURAL_H */
