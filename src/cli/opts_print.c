/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Prints help and version from the option table. */
#include "opts_priv.h"

#include <string.h>

#include "version.h"

#define HELP_COLUMNS	 80
#define HELP_TEXT_COLUMN 27

static void pad(FILE *f, size_t col)
{
	fprintf(f, "%*s", (int)col, "");
}

void opts__print_wrapped(FILE *f, const char *text, size_t text_len, size_t indent)
{
	const char *end = text + text_len;
	size_t col = indent;
	bool is_first = true;

	while (text < end) {
		size_t len = strcspn(text, " ");

		if (len > (size_t)(end - text))
			len = (size_t)(end - text);

		if (!is_first && col + 1 + len >= HELP_COLUMNS) {
			fputc('\n', f);
			pad(f, indent);
			col = indent;
		} else if (!is_first) {
			fputc(' ', f);
			col++;
		}
		fwrite(text, 1, len, f);
		col += len;
		is_first = false;
		text += len + strspn(text + len, " ");
	}
	fputc('\n', f);
}

/* The general help prefixes options with their verb; the help of a verb need not. */
static const char *help_of(const struct opt_row *row, enum verb verb)
{
	const char *name = verb_row(verb)->name;
	size_t len = strlen(name);

	return strncmp(row->help, name, len) || strncmp(row->help + len, ": ", 2)
		       ? row->help
		       : row->help + len + 2;
}

void opts__print_row(FILE *f, const struct opt_row *row, enum verb verb, bool brief)
{
	const char *help = help_of(row, verb);
	char left[64];
	int len;

	if (row->letter)
		len = snprintf(left, sizeof(left), "  -%c, --%s", row->letter, row->name);
	else
		len = snprintf(left, sizeof(left), "      --%s", row->name);
	if (row->arg)
		len += snprintf(left + len, sizeof(left) - (size_t)len, "%s%s",
				opt_needs_value(row) ? " " : "", row->arg);
	fputs(left, f);
	if (len + 2 > HELP_TEXT_COLUMN) {
		fputc('\n', f);
		len = 0;
	}
	pad(f, HELP_TEXT_COLUMN - (size_t)len);
	opts__print_wrapped(f, help, brief ? strcspn(help, ":;") : strlen(help), HELP_TEXT_COLUMN);
}

void opts__print_group(FILE *f, enum opt_group group, enum verb verb)
{
	const struct opt_row *rows;
	bool has_head = false;
	unsigned cnt;

	rows = opt_rows(&cnt);
	for (unsigned i = 0; i < cnt; i++) {
		/* The general help has the options of all verbs. */
		bool is_for = verb == VERB_TRACE || rows[i].verbs >> verb & 1;

		if (rows[i].show == HIDDEN || rows[i].group != group || !is_for)
			continue;
		if (!has_head)
			fprintf(f, "\n%s:\n", opt_group_row(group)->title);
		has_head = true;
		opts__print_row(f, &rows[i], verb, false);
	}
}

/* Prints only the brief ones in the general help. */
static void print_usages(FILE *f, enum verb v, bool in_general)
{
	const struct verb_row *verb = verb_row(v);
	char form[128];

	if (in_general && verb->brief) {
		fprintf(f, "       cudatrace %s %s\n", verb->name, verb->brief);
		return;
	}
	for (int i = 0; i < VERB_USAGES && verb->usages[i].args; i++) {
		fputs(i || (in_general && v) ? "       " : "Usage: ", f);
		snprintf(form, sizeof(form), "cudatrace %s%s%s", v ? verb->name : "", v ? " " : "",
			 verb->usages[i].args);
		if (verb->usages[i].note)
			fprintf(f, "%-43s%s\n", form, verb->usages[i].note);
		else
			fprintf(f, "%s\n", form);
	}
}

/* Commands cannot have the names of verbs. */
static void print_verbs(FILE *f)
{
	char text[512];
	FILE *mem = fmemopen(text, sizeof(text), "w");

	if (!mem)
		return;
	fputs("The -- may be left out when COMMAND is not called ", mem);
	verbs__print(mem, ", ", " or ");
	fputc('.', mem);
	fclose(mem);
	opts__print_wrapped(f, text, strlen(text), 0);
}

void opts__print_help(enum verb verb, FILE *f)
{
	print_usages(f, verb, verb == VERB_TRACE);
	for (enum verb v = VERB_TRACE + 1; verb == VERB_TRACE && v < VERB_CNT; v++)
		print_usages(f, v, true);
	if (verb == VERB_TRACE)
		fputs("       cudatrace help [TOPIC]\n", f);
	fprintf(f, "\n%s", verb_row(verb)->help);
	if (verb == VERB_TRACE)
		print_verbs(f);
	for (enum opt_group g = 0; g < GROUP_CNT; g++)
		opts__print_group(f, g, verb);
	if (verb == VERB_TRACE)
		fprintf(f, "\n%s\n%s", opt_group_row(GROUP_FUNCTIONS)->text,
			opt_group_row(GROUP_OTHER)->text);
}

void opts__print_topics(FILE *f)
{
	fputs("which (which option do I need?), all, ", f);
	for (enum opt_group g = 0; g < GROUP_CNT; g++)
		if (!verb_by_name(opt_group_row(g)->topic))
			fprintf(f, "%s, ", opt_group_row(g)->topic);
	verbs__print(f, ", ", ", ");
}

void opts__print_version(FILE *f)
{
	fprintf(f, "cudatrace %s\n", CUDATRACE_VERSION);
}
