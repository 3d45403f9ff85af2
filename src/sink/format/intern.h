/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Numbers for repeated byte strings: from 1 for each kind, in the order of first use. The table is
 * limited; the caller empties it when it is full. */
#ifndef SINK_FORMAT_INTERN_H
#define SINK_FORMAT_INTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define INTERN_KINDS 32

struct intern;

/* NULL when there is no memory. */
struct intern *intern__new(void);
void intern__free(struct intern *t);
/* kind: below INTERN_KINDS. *is_new: it was added. */
uint64_t intern__get(struct intern *t, unsigned kind, const void *key, size_t len, bool *is_new);
/* Returns whether there is no space for a few hundred more. */
bool intern__full(const struct intern *t);
/* again: numbers begin at 1 again, otherwise they continue. */
void intern__empty(struct intern *t, bool again);

#endif /* SINK_FORMAT_INTERN_H */
