/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Text of others on a terminal: what the terminal would obey is shown as '?'. */
#ifndef UTIL_PLAIN_H
#define UTIL_PLAIN_H

#include <stddef.h>
#include <stdio.h>

/* Bytes of the UTF-8 sequence at s, 0 when it is none. Refuses what RFC 3629 refuses: overlong
 * forms, surrogates, and what is above U+10FFFF. */
unsigned utf8_len(const unsigned char *s, size_t left);

/* In place: control characters (C0, DEL, C1) and bytes that are no UTF-8. */
void plain_text(char *s, size_t len);
void plain_print(FILE *f, const char *s, size_t len);

#endif /* UTIL_PLAIN_H */
