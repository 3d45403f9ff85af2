/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Prints what is missing from a trace (model/losses.h), at the start of every view. */
#ifndef TEXT_LOSSES_TEXT_H
#define TEXT_LOSSES_TEXT_H

#include "model/losses.h"
#include "term.h"

/* Appended to conclusions from an incomplete trace. */
#define LOSSES_MARK " (from an incomplete trace)"

/* Explains the mark of struct term's is_partial. */
#define LOSSES_STAR "a * marks shares of what was recorded"

/* Data that the user excluded, and by which option. */
extern const struct chosen_text {
	const char *what, *why;
} chosen_text[CHOSEN_CNT];
/* Prints the losses under title; nothing if the trace is complete. */
void losses_print(const struct losses *l, const struct term *term, const char *title);
/* Prints at most max losses. Returns how many more there are. */
unsigned losses_print_first(const struct losses *l, const struct term *term, const char *title,
			    unsigned max);
/* Prints data that the user excluded, if any; where: "in the old trace", or NULL. */
void losses_print_chosen(const struct losses *l, const struct term *term, const char *where);
/* Writes data that the user excluded as one line. Returns false if there is none. */
bool losses_chosen_line(const struct losses *l, char *text, size_t size);
/* Writes "1,360 lines, ...", as much as fits. Returns false if nothing is missing. */
bool losses_line(const struct losses *l, char *text, size_t size);

#endif /* TEXT_LOSSES_TEXT_H */
