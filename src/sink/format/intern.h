/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Numbers for byte strings that come again and again: from 1 for each kind, in the order in which
 * they were first seen. Bounded; who finds it full empties it. */
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
/* kind: below INTERN_KINDS. *is_new: it was not there. */
uint64_t intern__get(struct intern *t, unsigned kind, const void *key, size_t len, bool *is_new);
/* Is there no room left for a few hundred more? */
bool intern__full(const struct intern *t);
/* Numbers begin at 1 again, or go on. */
void intern__empty(struct intern *t, bool again);

#endif /* SINK_FORMAT_INTERN_H */
