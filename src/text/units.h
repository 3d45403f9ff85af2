/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Strict readers of what people write: the whole text must be a value. 0, -EINVAL, or -ERANGE when
 * it is too large. */
#ifndef TEXT_UNITS_H
#define TEXT_UNITS_H

#include <stddef.h>
#include <stdint.h>

int opt_read_u64(const char *text, uint64_t *val);
/* A decimal number of units of unit_ns nanoseconds, or with a unit of its own: us, ms, s, m, h. */
int opt_read_time(const char *text, uint64_t unit_ns, uint64_t *ns);
/* A share of 1, from percent: "2", "0.5", "2%". */
int opt_read_percent(const char *text, double *share);
/* Bytes, or K, M, G (with iB or B after it, if one likes). */
int opt_read_size(const char *text, uint64_t *bytes);
/* Writes a size the way opt_read_size reads it. */
void opt_write_size(uint64_t bytes, char *buf, size_t buf_sz);

#endif /* TEXT_UNITS_H */
