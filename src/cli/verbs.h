/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The rows of verbs.def. */
#ifndef CLI_VERBS_H
#define CLI_VERBS_H

#include <stdio.h>

#include "opts.h"

#define VERB_RIGHTS  (1u << 0)
#define VERB_WORDS   (1u << 1)
#define VERB_COMMAND (1u << 2)

#define VERB_USAGES 8

struct verb_row {
	const char *name;
	int (*run)(const struct opts *o); /* returns the exit status */
	unsigned flags;			  /* VERB_* */
	const char *brief;
	struct {
		const char *args, *note;
		bool first; /* also in the short help, with a note */
	} usages[VERB_USAGES];
	const char *help, *man;
};

const struct verb_row *verb_row(enum verb v);
/* Returns VERB_TRACE when no verb has that name. */
enum verb verb_by_name(const char *name);
/* Prints "list, check or report": the names that a command must not have. */
void verbs__print(FILE *f, const char *sep, const char *last_sep);
/* Prints the forms that are in the short help. */
void verb__print_first(FILE *f, enum verb v);
bool verb__has_words(enum verb v);
/* Returns whether word is a subcommand. */
bool verb__has_word(enum verb v, const char *word);
/* Prints the subcommands, each after a blank (" status level ..."); nothing if there are none. */
void verb__print_words(FILE *f, enum verb v);

#endif /* CLI_VERBS_H */
