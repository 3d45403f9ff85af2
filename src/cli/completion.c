/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Completion scripts, generated from the option table. The values of -e come from `cudatrace list
 * --names` at run time, so a script need not change with the API table.
 */
#include "opts_priv.h"

#include <string.h>

/* Text inside single quotes of any of the three shells. No text has a quote or a backslash (a unit
 * test checks it); zsh's _arguments needs its special characters escaped. */
static void put_zsh(FILE *f, const char *s)
{
	for (; *s; s++) {
		if (strchr("[]:", *s))
			fputc('\\', f);
		fputc(*s, f);
	}
}

/* The options that require a value, as alternatives of a shell pattern. */
static void put_value_options(FILE *f, const char *sep)
{
	const struct opt_row *rows;
	const char *between = "";
	unsigned cnt;

	rows = opt_rows(&cnt);
	for (unsigned i = 0; i < cnt; i++) {
		if (!opt_needs_value(&rows[i]) || rows[i].show == HIDDEN)
			continue;
		if (rows[i].letter)
			fprintf(f, "%s-%c%s--%s", between, rows[i].letter, sep, rows[i].name);
		else
			fprintf(f, "%s--%s", between, rows[i].name);
		between = sep;
	}
}

/* The arguments of `cudatrace help`, separated by blanks. */
static void print_topics(FILE *f)
{
	fputs("which all", f);
	for (enum opt_group g = 0; g < GROUP_CNT; g++)
		if (!verb_by_name(opt_group_row(g)->topic))
			fprintf(f, " %s", opt_group_row(g)->topic);
	fputs(" ", f);
	verbs__print(f, " ", " ");
}

/* bash */

static void bash_words(FILE *f, enum verb verb)
{
	const struct opt_row *rows;
	const char *between = "";
	unsigned cnt;

	rows = opt_rows(&cnt);
	for (unsigned i = 0; i < cnt; i++) {
		if (rows[i].show == HIDDEN || !(rows[i].verbs >> verb & 1))
			continue;
		fputs(between, f);
		if (rows[i].letter)
			fprintf(f, "-%c ", rows[i].letter);
		fprintf(f, "--%s", rows[i].name);
		between = " ";
	}
}

static void bash_values(FILE *f)
{
	static const char *const actions[] = {
		[COMP_NONE] = "COMPREPLY=()",
		[COMP_FILE] =
			"compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")",
		[COMP_PID] = "_cudatrace_list \"$(cd /proc && echo [0-9]*)\"",
		[COMP_USER] = "mapfile -t COMPREPLY < <(compgen -u -- \"$cur\")",
		[COMP_SET] = "_cudatrace_list \"$(cudatrace list --names 2>/dev/null)\"",
	};
	const struct opt_row *rows;
	unsigned cnt;

	rows = opt_rows(&cnt);
	for (unsigned i = 0; i < cnt; i++) {
		if (!opt_needs_value(&rows[i]) || rows[i].show == HIDDEN)
			continue;
		fputs("\t", f);
		if (rows[i].letter)
			fprintf(f, "-%c|", rows[i].letter);
		fprintf(f, "--%s) ", rows[i].name);
		if (rows[i].complete == COMP_WORDS)
			fprintf(f, "mapfile -t COMPREPLY < <(compgen -W '%s' -- \"$cur\")",
				rows[i].words);
		else
			fputs(actions[rows[i].complete], f);
		fputs("; return ;;\n", f);
	}
}

static void print_bash(FILE *f)
{
	fputs("# bash completion for cudatrace; made by cudatrace --completion=bash\n\n"
	      "# Completes the last item of a list with commas; a ! may precede it.\n"
	      "_cudatrace_list() {\n"
	      "\tlocal last=${cur##*[,\\!]}\n"
	      "\tcompopt -o nospace\n"
	      "\tmapfile -t COMPREPLY < <(compgen -P \"${cur%\"$last\"}\" -W \"$1\" -- \"$last\")\n"
	      "}\n\n"
	      "_cudatrace() {\n"
	      "\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
	      "\tlocal verb=trace i\n"
	      "\tCOMPREPLY=()\n"
	      "\t# --option=value comes as three words.\n"
	      "\tif [[ $cur == = ]]; then\n"
	      "\t\tcur=\n"
	      "\telif [[ $prev == = ]]; then\n"
	      "\t\tprev=${COMP_WORDS[COMP_CWORD-2]}\n"
	      "\tfi\n"
	      "\tfor ((i = 1; i < COMP_CWORD; i++)); do\n"
	      "\t\tcase ${COMP_WORDS[i]} in\n"
	      "\t\t",
	      f);
	verbs__print(f, "|", "|");
	fputs("|help) verb=${COMP_WORDS[i]} ;;\n"
	      "\t\t--) ((i++)); break ;;\n"
	      "\t\t=) ((i++)) ;;\n\t\t",
	      f);
	put_value_options(f, "|");
	fputs(") [[ ${COMP_WORDS[i+1]} == = ]] || ((i++)) ;;\n"
	      "\t\t-*) ;;\n"
	      "\t\t*) [[ $verb != @(trace|top) ]] || break ;;\n"
	      "\t\tesac\n"
	      "\tdone\n"
	      "\tif ((i < COMP_CWORD)) || [[ ${COMP_WORDS[i-1]} == -- ]]; then\n"
	      "\t\tif declare -F _command_offset >/dev/null; then\n"
	      "\t\t\t_command_offset \"$i\"\n"
	      "\t\telif ((i == COMP_CWORD)); then\n"
	      "\t\t\tmapfile -t COMPREPLY < <(compgen -c -- \"$cur\")\n"
	      "\t\telse\n"
	      "\t\t\tcompopt -o default\n"
	      "\t\tfi\n"
	      "\t\treturn\n"
	      "\tfi\n"
	      "\tcase $prev in\n",
	      f);
	bash_values(f);
	fputs("\tesac\n\tcase $verb in\n\ttrace) mapfile -t COMPREPLY < <(compgen -W '", f);
	bash_words(f, VERB_TRACE);
	fputs(" ", f);
	verbs__print(f, " ", " ");
	fputs(" help' -- \"$cur\")\n"
	      "\t\t[[ $cur == -* || -z $cur ]] || mapfile -t -O ${#COMPREPLY[@]} COMPREPLY "
	      "< <(compgen -c -- \"$cur\") ;;\n",
	      f);
	for (enum verb v = VERB_TRACE + 1; v < VERB_CNT; v++) {
		fprintf(f, "\t%s) mapfile -t COMPREPLY < <(compgen -W '", verb_row(v)->name);
		bash_words(f, v);
		verb__print_words(f, v);
		fputs("' -- \"$cur\")", f);
		if (verb_row(v)->flags & VERB_WORDS)
			fputs("\n\t\t[[ $cur == -* ]] || { compopt -o filenames; mapfile -t -O "
			      "${#COMPREPLY[@]} COMPREPLY < <(compgen -f -- \"$cur\"); }",
			      f);
		fputs(" ;;\n", f);
	}
	fputs("\thelp) mapfile -t COMPREPLY < <(compgen -W '", f);
	print_topics(f);
	fputs("' -- \"$cur\") ;;\n\tesac\n}\n\ncomplete -F _cudatrace cudatrace\n", f);
}

/* zsh */

static void zsh_row(FILE *f, const struct opt_row *row)
{
	static const char *const actions[] = {
		[COMP_NONE] = " ",
		[COMP_FILE] = "_files",
		[COMP_PID] = "_sequence _pids",
		[COMP_USER] = "_users",
		[COMP_SET] = "_cudatrace_set",
	};
	bool value = opt_needs_value(row);
	const char *eq = value ? "=" : "", *plus = value ? "+" : "";

	fputs("\t\t'*'", f);
	if (row->letter)
		fprintf(f, "{-%c%s,--%s%s}", row->letter, plus, row->name, eq);
	else
		fprintf(f, "--%s%s", row->name, eq);
	fputs("'[", f);
	put_zsh(f, row->help);
	fputs("]", f);
	if (value) {
		fputs(":", f);
		put_zsh(f, row->arg);
		if (row->complete == COMP_WORDS)
			fprintf(f, ":(%s)", row->words);
		else
			fprintf(f, ":%s", actions[row->complete]);
	}
	fputs("'\n", f);
}

static void zsh_rows(FILE *f, enum verb verb)
{
	const struct opt_row *rows;
	unsigned cnt;

	rows = opt_rows(&cnt);
	for (unsigned i = 0; i < cnt; i++) {
		if (rows[i].show != HIDDEN && rows[i].verbs >> verb & 1)
			zsh_row(f, &rows[i]);
	}
}

/* Subcommands, if there are any, and files. */
static void zsh_words(FILE *f, enum verb v)
{
	if (verb__has_words(v)) {
		fputs(" '1:subcommand:(", f);
		verb__print_words(f, v);
		fputs(")'", f);
	}
	fputs(" '*:file:_files'", f);
}

static void print_zsh(FILE *f)
{
	fputs("#compdef cudatrace\n# zsh completion; made by cudatrace --completion=zsh\n\n"
	      "_cudatrace_set() {\n"
	      "\tlocal -a names=(${(f)\"$(cudatrace list --names 2>/dev/null)\"})\n"
	      "\tcompset -P '*[,!]'\n"
	      "\tcompset -S ',*'\n"
	      "\tcompadd -q -S , -a names\n"
	      "}\n\n"
	      "_cudatrace() {\n\tlocal -a options\n"
	      "\tcase $words[2] in\n",
	      f);
	for (enum verb v = VERB_TRACE + 1; v < VERB_CNT; v++) {
		fprintf(f, "\t%s) options=(\n", verb_row(v)->name);
		zsh_rows(f, v);
		fputs("\t\t)\n\t\t(( CURRENT > 2 )) && { shift words; (( CURRENT-- )); "
		      "_arguments -s $options",
		      f);
		if (verb_row(v)->flags & VERB_WORDS)
			zsh_words(f, v);
		fputs("; return } ;;\n", f);
	}
	fputs("\thelp) (( CURRENT > 2 )) && { shift words; (( CURRENT-- )); _arguments '1:topic:(",
	      f);
	print_topics(f);
	fputs(")'; return } ;;\n", f);
	fputs("\tesac\n\toptions=(\n", f);
	zsh_rows(f, VERB_TRACE);
	fputs("\t)\n"
	      "\t_arguments -s -S $options \\\n"
	      "\t\t'(-)1: : _alternative \"verbs:verb:(",
	      f);
	verbs__print(f, " ", " ");
	fputs(" help)\" "
	      "\"commands:command:_command_names -e\"' \\\n"
	      "\t\t'*::arguments:_normal'\n"
	      "}\n\n_cudatrace \"$@\"\n",
	      f);
}

/* fish */

static void fish_row(FILE *f, const struct opt_row *row)
{
	static const char *const actions[] = {
		[COMP_NONE] = " -x",
		[COMP_FILE] = " -r -F",
		[COMP_PID] = " -x -a '(__cudatrace_items (__fish_complete_pids))'",
		[COMP_USER] = " -x -a '(__fish_complete_users)'",
		[COMP_SET] = " -x -a '(__cudatrace_items (cudatrace list --names 2>/dev/null))'",
	};

	fputs("complete -c cudatrace -n '__cudatrace_at", f);
	for (enum verb v = 0; v < VERB_CNT; v++) {
		if (row->verbs >> v & 1)
			fprintf(f, " %s", verb_row(v)->name);
	}
	fputs("'", f);
	if (row->letter)
		fprintf(f, " -s %c", row->letter);
	fprintf(f, " -l %s", row->name);
	if (row->complete == COMP_WORDS)
		fprintf(f, " -x -a '%s'", row->words);
	else if (opt_needs_value(row))
		fputs(actions[row->complete], f);
	fprintf(f, " -d '%s'\n", row->help);
}

static void print_fish(FILE *f)
{
	const struct opt_row *rows;
	unsigned cnt;

	fputs("# fish completion for cudatrace; made by cudatrace --completion=fish\n\n"
	      "# Where the cursor is: trace, ",
	      f);
	verbs__print(f, ", ", " or ");
	fputs(", or in a command's words.\n"
	      "function __cudatrace_where\n"
	      "\tset -l verb trace\n"
	      "\tset -l skip 0\n"
	      "\tset -l words (commandline -opc)\n"
	      "\tfor word in $words[2..-1]\n"
	      "\t\tif test $skip = 1\n"
	      "\t\t\tset skip 0\n"
	      "\t\t\tcontinue\n"
	      "\t\tend\n"
	      "\t\tswitch $word\n"
	      "\t\t\tcase ",
	      f);
	verbs__print(f, " ", " ");
	fputs(" help\n"
	      "\t\t\t\tset verb $word\n"
	      "\t\t\tcase --\n"
	      "\t\t\t\techo command\n"
	      "\t\t\t\treturn\n"
	      "\t\t\tcase ",
	      f);
	put_value_options(f, " ");
	fputs("\n"
	      "\t\t\t\tset skip 1\n"
	      "\t\t\tcase '-*'\n"
	      "\t\t\tcase '*'\n"
	      "\t\t\t\techo command\n"
	      "\t\t\t\treturn\n"
	      "\t\tend\n"
	      "\tend\n"
	      "\techo $verb\n"
	      "end\n\n"
	      "function __cudatrace_at\n"
	      "\tcontains -- (__cudatrace_where) $argv\n"
	      "end\n\n"
	      "# Items after the commas that were already typed.\n"
	      "function __cudatrace_items\n"
	      "\tset -l done (commandline -ct | string replace -r '^--[a-z-]+=' '' | "
	      "string match -r '^.*[,!]')\n"
	      "\tset -q done[1]; or set done ''\n"
	      "\tprintf '%s\\n' $done$argv\n"
	      "end\n\n"
	      "complete -c cudatrace -n '__cudatrace_at",
	      f);
	for (enum verb v = VERB_TRACE + 1; v < VERB_CNT; v++)
		if (!(verb_row(v)->flags & VERB_WORDS))
			fprintf(f, " %s", verb_row(v)->name);
	fputs("' -f\ncomplete -c cudatrace -n '__cudatrace_at trace' -f -a '", f);
	verbs__print(f, " ", " ");
	fputs(" help'\n", f);
	fputs("complete -c cudatrace -n '__cudatrace_at ctl' -a '", f);
	verb__print_words(f, VERB_CTL);
	fputs("'\ncomplete -c cudatrace -n '__cudatrace_at help' -f -a '", f);
	print_topics(f);
	fputs("'\n"
	      "complete -c cudatrace -n '__cudatrace_at trace command' -x "
	      "-a '(__fish_complete_subcommand ",
	      f);
	put_value_options(f, " ");
	fputs(")'\n", f);
	rows = opt_rows(&cnt);
	for (unsigned i = 0; i < cnt; i++) {
		if (rows[i].show != HIDDEN)
			fish_row(f, &rows[i]);
	}
}

void opts__print_completion(const char *shell, FILE *f)
{
	if (!strcmp(shell, "bash"))
		print_bash(f);
	else if (!strcmp(shell, "zsh"))
		print_zsh(f);
	else
		print_fish(f);
}
