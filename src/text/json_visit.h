/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* JSON that was checked already, as calls of a visitor. */
#ifndef TEXT_JSON_VISIT_H
#define TEXT_JSON_VISIT_H

#include "decode/value.h"

struct out;

/* Members or elements, commas between, as a visitor's raw() gets them. A string is hex() when it
 * looks like that; a number is u64() when it can be, else i64(), else f64(). scratch: in memory,
 * for strings. What lies too deep is left out. */
void json_visit(const char *text, size_t len, struct out *scratch, struct visitor *v);
/* The number at s, of len bytes. */
void json_visit_number(const char *s, size_t len, const char *name, struct visitor *v);
/* Is it 0x and a number? */
bool json_is_hex(const char *s, size_t len, uint64_t *x);

#endif /* TEXT_JSON_VISIT_H */
