/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The rows of options.def, shared by the files that parse them (opts*.c) and print them
 * (opts_print.c, man.c). */
#ifndef CLI_OPTS_PRIV_H
#define CLI_OPTS_PRIV_H

#include <stdio.h>

#include "opts.h"
#include "text/units.h"
#include "verbs.h"

enum opt_group {
#define GROUP(id, topic, title, text) GROUP_##id,
#include "groups.def"
#undef GROUP
	GROUP_CNT
};

struct opt_group_row {
	const char *topic, *title, *text; /* groups.def */
};

enum opt_show {
	SHOWN,
	FIRST, /* also in the short help */
	HIDDEN /* for packaging and completion scripts */
};

/* Bits for the verbs of a row. */
enum {
#define VERB(id, name, flags, brief, usages, help, man) FOR_##id = 1u << VERB_##id,
#include "verbs.def"
#undef VERB
	FOR_ALL = (1u << VERB_CNT) - 1
};

/* Kinds of values that a shell completes for an option. */
enum opt_complete { COMP_NONE, COMP_FILE, COMP_PID, COMP_USER, COMP_SET, COMP_WORDS };

#define OPTS_MAX 96

/* One option. Help, man page, completion and argp's own table are generated from these rows. */
struct opt_row {
	const char *name;  /* long name, without -- */
	char letter;	   /* short name, or 0 */
	uint8_t show;	   /* enum opt_show */
	uint8_t group;	   /* enum opt_group */
	unsigned verbs;	   /* FOR_* */
	uint8_t complete;  /* enum opt_complete */
	const char *arg;   /* name of its value; NULL: none; with a [: optional */
	const char *words; /* COMP_WORDS: the possible values, separated by blanks */
	const char *help;
	/* Stores a value or exits; arg is NULL for an option without a value. */
	void (*set)(struct opts *o, const struct opt_row *row, const char *arg);
	size_t at;  /* offset of a member of struct opts, for setters shared by rows */
	bool value; /* value for a bool */
};

static inline bool opt_needs_value(const struct opt_row *row)
{
	return row->arg && row->arg[0] != '[';
}

const struct opt_row *opt_rows(unsigned *cnt);
const struct opt_group_row *opt_group_row(enum opt_group g);
/* The row with exactly this name; NULL: none. */
const struct opt_row *opt_row_by_name(const char *name);

/* Prints one line to stderr, then exits with EXIT_USAGE. */
void opts__die(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));

/* opts_table.c */
void strv_add(struct strv *v, const char *s);
/* Refuses an empty argument. */
void need_text(const struct opt_row *row, const char *arg);

/* opts_report.c */
void set_format(struct opts *o, const struct opt_row *row, const char *arg);
void set_top(struct opts *o, const struct opt_row *row, const char *arg);
void set_runs(struct opts *o, const struct opt_row *row, const char *arg);
void set_map(struct opts *o, const struct opt_row *row, const char *arg);
void set_section(struct opts *o, const struct opt_row *row, const char *arg);
void set_what_if(struct opts *o, const struct opt_row *row, const char *arg);
void set_list_sections(struct opts *o, const struct opt_row *row, const char *arg);
void set_width(struct opts *o, const struct opt_row *row, const char *arg);
void set_marker(struct opts *o, const struct opt_row *row, const char *arg);
void set_iterations(struct opts *o, const struct opt_row *row, const char *arg);
void set_price(struct opts *o, const struct opt_row *row, const char *arg);
void set_gap(struct opts *o, const struct opt_row *row, const char *arg);

/* opts_print.c, man.c. brief: only the help up to the first ; or :. */
void opts__print_row(FILE *f, const struct opt_row *row, enum verb verb, bool brief);
/* Prints words up to the last column; continuation lines begin at column indent. */
void opts__print_wrapped(FILE *f, const char *text, size_t text_len, size_t indent);
void opts__print_group(FILE *f, enum opt_group group, enum verb verb);
/* VERB_TRACE: help of all verbs. */
void opts__print_help(enum verb verb, FILE *f);
/* "target, output, ... or which": the topics of `cudatrace help`. */
void opts__print_topics(FILE *f);
void opts__print_version(FILE *f);
void opts__print_man(FILE *f);
void opts__print_completion(const char *shell, FILE *f);

/* help.c: help that fits a screen; help on a topic, a verb or an option. */
void opts__print_short(FILE *f);
/* Prints and ends the program; an unknown word is a usage error. */
void opts__help_topic(const char *word, bool json) __attribute__((noreturn));

#endif /* CLI_OPTS_PRIV_H */
