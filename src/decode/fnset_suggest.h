/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef DECODE_FNSET_SUGGEST_H
#define DECODE_FNSET_SUGGEST_H

#include <stddef.h>

/* Writes what is wrong with a name that is neither a function nor a class, and which names are near
 * it. */
void fnset_suggest(const char *name, char *err, size_t err_size);

#endif /* DECODE_FNSET_SUGGEST_H */
