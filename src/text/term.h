/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Text for a terminal: names, sentences, sections. */
#ifndef TEXT_TERM_H
#define TEXT_TERM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* The output of lines, and their format. */
struct term {
	FILE *f;
	int width;
	bool color;
	bool is_markdown; /* for a comment, an issue or an assistant: lines are not broken */
	bool is_uncut;	  /* a name in a table is not shortened; its line may exceed the width */
	bool is_partial;  /* of an incomplete trace: each "%" is followed by "*" */
};

/* Prints at most width columns of s, shortened in the middle, in its arguments if it is a function
 * of C++; control characters become '?'. */
void term_name(const struct term *term, const char *s, int width);
/* Prints s, with lines broken at the width; lines after the first begin with indent spaces. */
void term_text(const struct term *term, const char *s, int indent);
void term_bold(const struct term *term, const char *s);

/* Prints an empty line, a title in bold and a sentence. */
void term_section(const struct term *term, const char *title, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Prints an empty line and a title in bold. */
void term_heading(const struct term *term, const char *title);
/* Prints the empty line between two tables; in Markdown each table has one. */
void term_gap(const struct term *term);
/* Prints the line before or after lines that stay as they are: nothing except in Markdown. */
void term_fence(const struct term *term);
/* Prints a sentence with an indent of two. */
void term_para(const struct term *term, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Prints formatted words as term_text() does. */
void term_words(const struct term *term, int indent, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Prints a label (ASCII) in bold in a column of TERM_LABEL, in red if it is in capitals, then a
 * sentence. */
#define TERM_LABEL 11
void term_row(const struct term *term, const char *label, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Prints the label alone, without the last blank before the sentence. */
void term_label(const struct term *term, const char *label);
/* Prints text with the characters escaped that Markdown interprets. */
void term_escaped(const struct term *term, const char *s, size_t len);
/* Returns the number of columns of len bytes of UTF-8. */
int term_columns(const char *s, size_t len);
/* Number of line ends. */
unsigned term_lines(const char *text);

#endif /* TEXT_TERM_H */
