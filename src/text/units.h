/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Strict parsers of option values: the whole text must be a value. Return 0, -EINVAL, or -ERANGE if
 * it is too large. */
#ifndef TEXT_UNITS_H
#define TEXT_UNITS_H

#include <stddef.h>
#include <stdint.h>

int opt_read_u64(const char *text, uint64_t *val);
/* Reads a decimal number, in units of unit_ns nanoseconds or with its own unit: us, ms, s, m, h. */
int opt_read_time(const char *text, uint64_t unit_ns, uint64_t *ns);
/* Reads a time of the wall clock in ns since 1970: 2026-01-31T12:00:00Z, or @ and seconds. */
int opt_read_moment(const char *text, uint64_t *ns);
/* Reads a percentage as a share of 1: "2", "0.5", "2%". */
int opt_read_percent(const char *text, double *share);
/* Reads bytes, or K, M, G (optionally followed by iB or B). */
int opt_read_size(const char *text, uint64_t *bytes);
/* Writes a size in the format of opt_read_size(). */
void opt_write_size(uint64_t bytes, char *buf, size_t buf_sz);

#endif /* TEXT_UNITS_H */
