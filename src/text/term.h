/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Text for a terminal: names, sentences, sections. */
#ifndef TEXT_TERM_H
#define TEXT_TERM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Where and how lines are written. */
struct term {
	FILE *f;
	int width;
	bool color;
};

/* At most width columns of s, cut in the middle; what a terminal could obey becomes '?'. */
void term_name(const struct term *term, const char *s, int width);
/* Words of s, broken at the width; lines after the first begin with indent spaces. */
void term_text(const struct term *term, const char *s, int indent);
void term_bold(const struct term *term, const char *s);

/* An empty line, a title in bold and a sentence. */
void term_section(const struct term *term, const char *title, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* A sentence with an indent of two. */
void term_para(const struct term *term, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* How many columns so many bytes of UTF-8 take. */
int term_columns(const char *s, size_t len);

#endif /* TEXT_TERM_H */
