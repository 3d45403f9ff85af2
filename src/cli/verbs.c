/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "verbs.h"

#include <string.h>

#include "cmd.h"

#define USAGES(...) __VA_ARGS__
#define VERB(id, name, flags, brief, usages, help, man)                                            \
	[VERB_##id] = {#name, cmd_##name, flags, brief, {usages}, help, man},
/* A usage may have no note. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
static const struct verb_row rows[] = {
#include "verbs.def"
};

const struct verb_row *verb_row(enum verb v)
{
	return &rows[v];
}

enum verb verb_by_name(const char *name)
{
	for (enum verb v = VERB_TRACE + 1; v < VERB_CNT; v++)
		if (!strcmp(name, rows[v].name))
			return v;
	return VERB_TRACE;
}

void verbs__print(FILE *f, const char *sep, const char *last_sep)
{
	for (enum verb v = VERB_TRACE + 1; v < VERB_CNT; v++)
		fprintf(f, "%s%s", rows[v].name,
			v + 2 < VERB_CNT   ? sep
			: v + 1 < VERB_CNT ? last_sep
					   : "");
}

void verb__print_first(FILE *f, enum verb v)
{
	char form[64];

	for (int i = 0; i < VERB_USAGES && rows[v].usages[i].args; i++) {
		if (!rows[v].usages[i].first)
			continue;
		snprintf(form, sizeof(form), "cudatrace %s%s%s", v ? rows[v].name : "",
			 v && *rows[v].usages[i].args ? " " : "", rows[v].usages[i].args);
		fprintf(f, "  %-42s  %s\n", form, rows[v].usages[i].note);
	}
}

bool verb__has_words(enum verb v)
{
	return rows[v].usages[0].args[0] >= 'a' && rows[v].usages[0].args[0] <= 'z';
}

bool verb__has_word(enum verb v, const char *word)
{
	for (int i = 0; i < VERB_USAGES && rows[v].usages[i].args; i++) {
		const char *args = rows[v].usages[i].args;

		if (!strncmp(args, word, strcspn(args, " ")) && !word[strcspn(args, " ")])
			return true;
	}
	return false;
}

void verb__print_words(FILE *f, enum verb v)
{
	const char *last = "";

	for (int i = 0; i < VERB_USAGES && rows[v].usages[i].args; i++) {
		const char *word = rows[v].usages[i].args;
		size_t len = strspn(word, "abcdefghijklmnopqrstuvwxyz");

		if (len && strncmp(word, last, len))
			fprintf(f, " %.*s", (int)len, word);
		last = word;
	}
}
