/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Similar names for a mistyped function or class. */
#ifndef DECODE_FNSET_SUGGEST_H
#define DECODE_FNSET_SUGGEST_H

#include <stddef.h>

/* Writes an error message for a name that is neither a function nor a class, with similar names. */
void fnset_suggest(const char *name, char *err, size_t err_size);

#endif /* DECODE_FNSET_SUGGEST_H */
