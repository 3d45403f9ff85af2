/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* `cudatrace help`: the short help, and help on a topic, a verb or an option. */
#include "opts_priv.h"

#include <stdlib.h>
#include <string.h>

#define COMMAND_COLUMNS 44

struct choose_row {
	const char *question, *command, *root, *attach, *cost;
};

static const struct choose_row choose_rows[] = {
#define CHOOSE(...) {__VA_ARGS__},
#include "choose.def"
#undef CHOOSE
};

static const unsigned choose_cnt = sizeof(choose_rows) / sizeof(choose_rows[0]);

void opts__print_short(FILE *f)
{
	const struct opt_row *rows;
	char text[512] = "";
	unsigned cnt;
	FILE *mem;

	fputs("cudatrace records the calls that CUDA programs make into the NVIDIA driver.\n\n", f);
	for (enum verb v = 0; v < VERB_CNT; v++)
		verb__print_first(f, v);
	fputs("\n", f);
	rows = opt_rows(&cnt);
	for (unsigned i = 0; i < cnt; i++)
		if (rows[i].show == FIRST)
			opts__print_row(f, &rows[i], VERB_TRACE, true);
	fputs("\n", f);
	mem = fmemopen(text, sizeof(text), "w");
	if (!mem)
		return;
	fputs("cudatrace help TOPIC (a topic, a command or an option): ", mem);
	opts__print_topics(mem);
	fclose(mem);
	opts__print_wrapped(f, text, strlen(text), 0);
}

static void print_which(FILE *f)
{
	fprintf(f, "QUESTION\n  %-*s ROOT -p  COST\n", COMMAND_COLUMNS, "COMMAND");
	for (const struct choose_row *c = choose_rows; c < choose_rows + choose_cnt; c++)
		fprintf(f, "%s\n  %-*s %-4s %-3s %s\n", c->question, COMMAND_COLUMNS, c->command,
			c->root, c->attach, c->cost);
	fputs("\nROOT: whether the command needs root. -p: whether it also works with -p PID,\n"
	      "which always needs root. COST: time added to the traced program; without root a\n"
	      "call costs less than 0.1 µs. A trace is written to traces/trace_TIME.jsonl;\n"
	      "cudatrace report FILE analyses it.\n",
	      f);
}

static void print_which_json(FILE *f)
{
	fputs("[", f);
	for (unsigned i = 0; i < choose_cnt; i++) {
		const struct choose_row *c = &choose_rows[i];

		/* The texts need no escapes (a unit test checks it). */
		fprintf(f,
			"%s\n{\"question\": \"%s\", \"command\": \"%s\", \"needs_root\": \"%s\", "
			"\"works_with_p\": \"%s\", \"cost\": \"%s\"}",
			i ? "," : "", c->question, c->command, c->root, c->attach, c->cost);
	}
	fputs("\n]\n", f);
}

static bool print_topic(FILE *f, const char *word)
{
	enum verb verb = verb_by_name(word);
	const struct opt_row *row = opt_row_by_name(word + 2 * !strncmp(word, "--", 2));

	if (verb || !strcmp(word, "all") || !strcmp(word, verb_row(VERB_TRACE)->name)) {
		opts__print_help(verb, f);
		return true;
	}
	for (enum opt_group g = 0; g < GROUP_CNT; g++) {
		const struct opt_group_row *group = opt_group_row(g);

		if (strcmp(group->topic, word))
			continue;
		fputs(group->text, f);
		opts__print_group(f, g, VERB_TRACE);
		return true;
	}
	if (!row)
		return false;
	opts__print_row(f, row, VERB_TRACE, false);
	return true;
}

void opts__help_topic(const char *word, bool json)
{
	bool is_which = !strcmp(word, "which");
	char topics[512] = "";
	FILE *mem;

	if (json && !is_which)
		opts__die("help: only help which can be printed as JSON; leave out --json");
	if (is_which && json)
		print_which_json(stdout);
	else if (is_which)
		print_which(stdout);
	if (is_which || print_topic(stdout, word))
		exit(0);
	mem = fmemopen(topics, sizeof(topics), "w");
	if (mem) {
		opts__print_topics(mem);
		fclose(mem);
	}
	opts__die("help: unknown topic '%s'; give an option or one of: %s", word, topics);
}
