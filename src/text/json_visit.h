/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Passes validated JSON to a visitor. */
#ifndef TEXT_JSON_VISIT_H
#define TEXT_JSON_VISIT_H

#include "decode/value.h"

struct out;

/* text: members or elements, separated by commas, as in a visitor's raw(). A string in hexadecimal
 * form calls hex(). A number calls u64() if possible, else i64(), else f64(). scratch: buffer in
 * memory, for strings. Values nested too deeply are skipped. */
void json_visit(const char *text, size_t len, struct out *scratch, struct visitor *v);
/* Visits the number at s, of len bytes. */
void json_visit_number(const char *s, size_t len, const char *name, struct visitor *v);
/* Returns whether the text is 0x and a number. */
bool json_is_hex(const char *s, size_t len, uint64_t *x);

#endif /* TEXT_JSON_VISIT_H */
