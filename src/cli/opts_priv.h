/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The rows of options.def, shared by the files that parse (opts*.c) and print (opts_print.c,
 * man.c). */
#ifndef CLI_OPTS_PRIV_H
#define CLI_OPTS_PRIV_H

#include <stdio.h>

#include "opts.h"
#include "text/units.h"
#include "verbs.h"

enum opt_group {
	GROUP_TARGET,
	GROUP_OUTPUT,
	GROUP_TRACE,
	GROUP_LIMITS,
	GROUP_TOP,
	GROUP_REPORT,
	GROUP_DAEMON,
	GROUP_TUNING,
	GROUP_OTHER,
	GROUP_CNT
};

/* What the verbs of a row have a bit of each. */
enum {
#define VERB(id, name, flags, brief, usages, help, man) FOR_##id = 1u << VERB_##id,
#include "verbs.def"
#undef VERB
	FOR_ALL = (1u << VERB_CNT) - 1
};

/* What a shell offers for an option's value. */
enum opt_complete { COMP_NONE, COMP_FILE, COMP_PID, COMP_USER, COMP_SET, COMP_WORDS };

#define OPTS_MAX 96

/* One option. Help, man page, completion and argp's own table are made from these rows. */
struct opt_row {
	const char *name;  /* long, without -- */
	char letter;	   /* short, or 0 */
	bool hidden;	   /* for packaging and completion scripts */
	uint8_t group;	   /* enum opt_group */
	unsigned verbs;	   /* FOR_* */
	uint8_t complete;  /* enum opt_complete */
	const char *arg;   /* what its value is called; NULL: none; with a [: may be left out */
	const char *words; /* COMP_WORDS: the possible values, blanks between */
	const char *help;
	/* Stores a value or exits; arg is NULL for an option without value. */
	void (*set)(struct opts *o, const struct opt_row *row, const char *arg);
	size_t at;  /* of a member of struct opts, for setters that many rows have */
	bool value; /* what it gets, when it is a bool */
};

static inline bool opt_needs_value(const struct opt_row *row)
{
	return row->arg && row->arg[0] != '[';
}

const struct opt_row *opt_rows(unsigned *cnt);
const char *opt_group_name(enum opt_group g);

/* One line to stderr, then exit with EXIT_USAGE. */
void opts__die(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));

/* opts_table.c */
void strv_add(struct strv *v, const char *s);

/* opts_print.c, man.c */
void opts__print_help(enum verb verb, FILE *f);
void opts__print_version(FILE *f);
void opts__print_man(FILE *f);
void opts__print_completion(const char *shell, FILE *f);

#endif /* CLI_OPTS_PRIV_H */
