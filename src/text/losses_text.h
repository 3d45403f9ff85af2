/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What is missing from a trace (model/losses.h), as every view begins with it. */
#ifndef TEXT_LOSSES_TEXT_H
#define TEXT_LOSSES_TEXT_H

#include "json.h"
#include "model/losses.h"
#include "term.h"

/* What conclusions of an incomplete trace carry. */
#define LOSSES_MARK " (from an incomplete trace)"

/* "complete", "lost" and "chosen". */
void losses_json(const struct losses *l, struct json *j);
/* Elements of "lost"; trace: a member that has whose they are, or NULL. */
void losses_json_rows(const struct losses *l, struct json *j, const char *trace);
/* Nothing when nothing is missing. */
void losses_print(const struct losses *l, const struct term *term, const char *title);
/* What the user did not want: nothing when that is nothing. */
void losses_print_chosen(const struct losses *l, const struct term *term);
/* "1,360 lines, ...": as much as fits. false: nothing is missing. */
bool losses_line(const struct losses *l, char *text, size_t size);

#endif /* TEXT_LOSSES_TEXT_H */
