/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Untrusted text on a terminal: what the terminal would interpret is shown as '?'. */
#ifndef UTIL_PLAIN_H
#define UTIL_PLAIN_H

#include <stddef.h>
#include <stdio.h>

struct out;

/* Length of the UTF-8 sequence at s; 0 when it is invalid. Rejects what RFC 3629 rejects: overlong
 * forms, surrogates, and values above U+10FFFF. */
unsigned utf8_len(const unsigned char *s, size_t left);

/* Length of the character at s; 0 for invalid UTF-8 and for characters that a terminal interprets:
 * control characters (C0, DEL, C1) and those that change the direction of text. */
unsigned plain_len(const char *s, size_t left);
/* Replaces each byte of these by '?', in place. */
void plain_text(char *s, size_t len);
void plain_print(FILE *f, const char *s, size_t len);
void plain_put(struct out *o, const char *s);
/*
 * Writes a name that identifies something: valid UTF-8, without characters that a terminal
 * interprets, and different for different names. Such bytes become \xNN; so does a backslash that
 * begins a text of this form. Needs PLAIN_NAME_MAX(strlen(s)) bytes at to. Returns the length
 * without the NUL.
 */
#define PLAIN_NAME_MAX(len) (4 * (len) + 1)
size_t plain_name(char *to, const char *s);
/* Prints several lines, and ends each. */
void plain_lines(FILE *f, const char *text);

#endif /* UTIL_PLAIN_H */
