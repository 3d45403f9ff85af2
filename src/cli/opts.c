/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Reads the command line with argp; options.def defines the options. argp's own messages take
 * several lines and suggest nothing, so they are suppressed. When argp fails, explain() parses the
 * words again to find the wrong one.
 */
#include "opts_priv.h"
#include "report_budget.h"
#include "report_tables.h"
#include "trace_folder.h"

#include <argp.h>
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "util/log.h"
#include "util/segment.h"
#include "util/same_file.h"
#include "util/strdist.h"

/* argp keys of options without a letter. */
#define KEY_FIRST 256

struct parse {
	struct opts *o;
	bool seen[OPTS_MAX]; /* rows, by index: an option may precede the verb that refuses it */
	bool has_trace_word;
};

void opts__die(const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	err("%s", text);
	exit(EXIT_USAGE);
}

static int row_key(const struct opt_row *row, unsigned idx)
{
	return row->letter ? row->letter : KEY_FIRST + (int)idx;
}

static const struct opt_row *row_by_letter(char letter)
{
	const struct opt_row *rows;
	unsigned cnt;

	if (letter == '?')
		letter = 'h';
	rows = opt_rows(&cnt);
	for (unsigned i = 0; i < cnt; i++) {
		if (letter && rows[i].letter == letter)
			return &rows[i];
	}
	return NULL;
}

/* Counts rows whose name begins with name; *row is the exact one or the first. An exact match
 * counts 1. */
static unsigned rows_by_prefix(const char *name, size_t len, const struct opt_row **row)
{
	const struct opt_row *rows;
	unsigned cnt, found = 0;

	rows = opt_rows(&cnt);
	for (unsigned i = 0; i < cnt; i++) {
		if (strncmp(rows[i].name, name, len))
			continue;
		if (!found++ || !rows[i].name[len])
			*row = &rows[i];
		if (!rows[i].name[len])
			return 1;
	}
	return found;
}

static void __attribute__((noreturn)) die_unknown(const char *name, size_t len)
{
	const struct opt_row *rows, *best = NULL;
	unsigned cnt, best_dist = str_distance_limit(len) + 1;

	rows = opt_rows(&cnt);
	for (unsigned i = 0; i < cnt; i++) {
		unsigned dist = str_distance(name, len, rows[i].name, strlen(rows[i].name));

		/* Most letters must agree. */
		if (rows[i].show != HIDDEN && dist < best_dist && 2 * dist < len) {
			best_dist = dist;
			best = &rows[i];
		}
	}
	if (best)
		opts__die("unknown option --%.*s; did you mean --%s?", (int)len, name, best->name);
	opts__die("unknown option --%.*s; cudatrace --help=all prints them all", (int)len, name);
}

static void __attribute__((noreturn)) die_ambiguous(const char *name, size_t len)
{
	const struct opt_row *rows;
	char list[256] = "";
	unsigned cnt;
	size_t n = 0;

	rows = opt_rows(&cnt);
	for (unsigned i = 0; i < cnt && n < sizeof(list); i++) {
		if (!strncmp(rows[i].name, name, len))
			n += (size_t)snprintf(list + n, sizeof(list) - n, "%s--%s", n ? ", " : "",
					      rows[i].name);
	}
	opts__die("option --%.*s could be any of: %s", (int)len, name, list);
}

static void __attribute__((noreturn)) die_no_value(const struct opt_row *row)
{
	opts__die("--%s: %s is missing; write it as in --%s %s", row->name, row->arg, row->name,
		  row->arg);
}

/* Each of these checks one word and returns how many words the option takes: 1, or 2 when its value
 * is the next one. They end the program on an error. */
static int check_long(const char *word, bool is_last)
{
	const char *name = word + 2;
	size_t len = strcspn(name, "=");
	const struct opt_row *row = NULL;
	unsigned found = rows_by_prefix(name, len, &row);

	if (!found || !len)
		die_unknown(name, len);
	if (found > 1)
		die_ambiguous(name, len);
	if (name[len] == '=' && !row->arg)
		opts__die("--%s takes no value; leave out '%s'", row->name, name + len);
	if (opt_needs_value(row) && name[len] != '=' && is_last)
		die_no_value(row);
	return opt_needs_value(row) && name[len] != '=' ? 2 : 1;
}

static int check_letters(const char *word, bool is_last)
{
	for (const char *c = word + 1; *c; c++) {
		const struct opt_row *row = row_by_letter(*c);

		if (!row && c == word + 1 && c[1] && isalpha((unsigned char)c[1])) {
			const struct opt_row *meant = NULL;

			if (rows_by_prefix(word + 1, strlen(word + 1), &meant) == 1)
				opts__die("unknown option -%c; did you mean --%s?", *c,
					  meant->name);
		}
		if (!row)
			opts__die("unknown option -%c; cudatrace --help=all prints them all", *c);
		if (opt_needs_value(row) && !c[1] && is_last)
			die_no_value(row);
		if (row->arg)
			return c[1] || !opt_needs_value(row) ? 1 : 2;
	}
	return 1;
}

static void __attribute__((noreturn)) explain(int argc, char **argv)
{
	enum verb verb = VERB_TRACE;
	int i = 1;

	while (i < argc && strcmp(argv[i], "--")) {
		bool is_last = i + 1 == argc;

		if (argv[i][0] == '-' && argv[i][1] == '-')
			i += check_long(argv[i], is_last);
		else if (argv[i][0] == '-' && argv[i][1])
			i += check_letters(argv[i], is_last);
		else if (!(verb_row(verb)->flags & VERB_WORDS) && !(verb = verb_by_name(argv[i])))
			break;
		else
			i++;
	}
	opts__die("cannot parse the command line; see cudatrace --help");
}

/* getopt accepts any next word as the value: `--jsonl --chrome x` would create a file
 * "--chrome". */
static void check_value(const struct opt_row *row, const char *arg)
{
	if (arg[0] == '-' && (arg[1] == '-' || isalpha((unsigned char)arg[1])))
		opts__die("--%s: %s is missing: '%s' looks like an option", row->name, row->arg,
			  arg);
}

/* `cudatrace help [TOPIC] [--json]` */
static void __attribute__((noreturn)) help(struct parse *p, char **words, int cnt)
{
	const char *topic = NULL;

	for (int i = 0; i < cnt; i++) {
		if (!strcmp(words[i], "--json"))
			p->o->trace.json = true;
		else if (topic)
			opts__die("help: only one topic can be printed; leave out '%s'", words[i]);
		else
			topic = words[i];
	}
	if (topic)
		opts__help_topic(topic, p->o->trace.json);
	opts__print_short(stdout);
	exit(0);
}

/* A verb, or a word that is a verb in other programs. To run a program of such a name: -- NAME. */
static bool take_first_word(struct parse *p, struct argp_state *state, const char *word)
{
	if (!strcmp(word, "help"))
		help(p, state->argv + state->next, state->argc - state->next);
	p->o->verb = verb_by_name(word);
	/* The verb that needs no name. */
	if (!p->o->verb && !p->has_trace_word)
		return p->has_trace_word = !strcmp(word, verb_row(VERB_TRACE)->name);
	return p->o->verb;
}

static void take_word(struct parse *p, struct argp_state *state, char *word)
{
	const struct verb_row *verb = verb_row(p->o->verb);

	if (verb->flags & VERB_WORDS) {
		if (!*word && p->o->verb != VERB_CTL)
			opts__die(
				"FILE is empty; give a trace, as in cudatrace report trace.jsonl");
		strv_add(&p->o->files, word);
		return;
	}
	if (p->o->verb && !(verb->flags & VERB_COMMAND))
		opts__die("%s takes no arguments: '%s'; to run a program called %s: "
			  "cudatrace -- %s",
			  verb->name, word, verb->name, verb->name);
	if (!state->quoted && !p->o->verb && take_first_word(p, state, word))
		return;
	if (!*word)
		opts__die(
			"COMMAND is empty; give a program to run, as in cudatrace -- python x.py");
	p->o->trace.argv = &state->argv[state->next - 1];
	p->o->trace.argc = state->argc - state->next + 1;
	state->next = state->argc;
}

static error_t parse_one(int key, char *arg, struct argp_state *state)
{
	struct parse *p = state->input;
	const struct opt_row *rows, *row;
	unsigned cnt;

	rows = opt_rows(&cnt);
	if (key == ARGP_KEY_ARG) {
		take_word(p, state, arg);
		return 0;
	}
	if (key == ARGP_KEY_END && state->quoted && !p->o->trace.argv &&
	    (!p->o->verb || verb_row(p->o->verb)->flags & VERB_COMMAND))
		opts__die("COMMAND is missing after --; give a program to run, as in cudatrace -- "
			  "python x.py");
	row = key >= KEY_FIRST && key < KEY_FIRST + (int)cnt ? &rows[key - KEY_FIRST]
	      : key > 0 && key < KEY_FIRST		     ? row_by_letter((char)key)
							     : NULL;
	if (!row)
		return ARGP_ERR_UNKNOWN;
	if (arg)
		check_value(row, arg);
	p->seen[row - rows] = true;
	row->set(p->o, row, arg);
	return 0;
}

/* Two outputs must not write to one file. */
static void check_outputs(const struct opts *o)
{
	const char *names[64];
	unsigned cnt = 0;

	for (const struct strv *list = o->trace.outputs; list < o->trace.outputs + SINK_CNT;
	     list++) {
		for (unsigned i = 0; i < list->cnt; i++) {
			for (unsigned k = 0; k < cnt; k++) {
				bool same = !strcmp(names[k], list->v[i]);

				if (same && !strcmp(names[k], "-"))
					opts__die("two outputs to stdout; only one may be -, give "
						  "the other a file");
				if (same)
					opts__die("two outputs to '%s'; give each its own file",
						  names[k]);
				if (same_file(names[k], list->v[i]))
					opts__die("'%s' and '%s' are one file; give each output "
						  "its own",
						  names[k], list->v[i]);
			}
			if (cnt == sizeof(names) / sizeof(names[0]))
				opts__die("more than %u outputs; give fewer", cnt);
			names[cnt++] = list->v[i];
		}
	}
}

static void check_whole(const struct parse *p)
{
	const struct opts *o = p->o;
	const struct opt_row *rows;
	unsigned cnt;

	rows = opt_rows(&cnt);
	for (unsigned i = 0; i < cnt; i++) {
		if (!p->seen[i] || rows[i].verbs >> o->verb & 1)
			continue;
		if (o->verb == VERB_TRACE)
			opts__die("--%s belongs to cudatrace %s; leave it out", rows[i].name,
				  verb_row(__builtin_ctz(rows[i].verbs))->name);
		opts__die("--%s has no meaning for cudatrace %s; leave it out", rows[i].name,
			  verb_row(o->verb)->name);
	}
	if (o->trace.pid_cnt && o->trace.argv &&
	    !o->trace.argv[0][strspn(o->trace.argv[0], "0123456789")])
		opts__die("-p: several process ids need commas between them: -p %d,%s",
			  o->trace.pids[0], o->trace.argv[0]);
	if (o->trace.pid_cnt && o->trace.argv)
		opts__die("both -p and a command ('%s'); trace running processes or start one, not "
			  "both",
			  o->trace.argv[0]);
	if (o->system && (o->trace.pid_cnt || o->trace.argv))
		opts__die("--system traces every process; leave it out, or leave out %s",
			  o->trace.pid_cnt ? "-p" : "the command");
	if (o->trace.stop_on_load && !o->trace.pid_cnt)
		opts__die("--stop-on-load needs -p: %s",
			  o->trace.argv ? "a command's processes are stopped anyway"
					: "only named processes are stopped");
	if (o->trace.capture == CAPTURE_PROFILER &&
	    (o->trace.min_duration_ns || o->trace.max_overhead))
		opts__die(
			"--capture-range=cudaProfilerApi needs each call of cuProfilerStart; leave out "
			"--%s",
			o->trace.min_duration_ns ? "min-duration" : "max-overhead");
	if (o->trace.capture == CAPTURE_NVTX && o->trace.redact)
		opts__die("--capture-range=nvtx needs the texts of ranges; leave out --no-%s",
			  o->trace.redact == CT_REDACT_ARGS ? "args" : "strings");
	if (o->trace.wait_ns != UINT64_MAX && !o->trace.argv)
		opts__die("--wait needs a COMMAND: cudatrace --wait=main -- COMMAND");
	if (o->verb == VERB_DIFF && o->runs && o->files.cnt != 2 * o->runs)
		opts__die("diff --runs %u: give %u old traces, then %u new ones", o->runs, o->runs,
			  o->runs);
	if (o->verb == VERB_DIFF && !o->runs && o->files.cnt != 2)
		opts__die(
			"diff: give two traces, the old one and the new one, as in cudatrace diff "
			"old.jsonl new.jsonl");
	if (o->verb == VERB_REPORT && !o->files.cnt)
		opts__die(
			"FILE is missing; give a trace that cudatrace --jsonl wrote, as in cudatrace "
			"report trace.jsonl, or - for stdin");
	if (o->verb == VERB_MCP && !o->files.cnt)
		opts__die("mcp: FILE is missing; give traces, as in cudatrace mcp trace.jsonl");
	if (o->verb == VERB_REPORT && o->trace.json && strcmp(o->format, "ascii") &&
	    strcmp(o->format, "json"))
		opts__die(
			"--json means --format=json, which contradicts --format=%s; leave one out",
			o->format);
	if (o->width && (o->trace.json || (strcmp(o->format, "ascii") && strcmp(o->format, "all"))))
		opts__die("--width is for text; leave it out, or leave out %s%s",
			  o->trace.json ? "--json" : "--format=", o->trace.json ? "" : o->format);
	if (o->verb == VERB_REPORT && o->full && (o->sections || o->map || o->serving))
		opts__die("--full prints all sections; leave it out, or leave out --section, --map "
			  "and --serving");
	if (o->verb == VERB_REPORT && o->sections && strcmp(o->format, "ascii") &&
	    strcmp(o->format, "json") && strcmp(o->format, "csv") && strcmp(o->format, "markdown"))
		opts__die("--section is for text, Markdown, JSON and CSV; leave it out, or leave "
			  "out --format=%s",
			  o->format);
	if (o->verb == VERB_REPORT || o->verb == VERB_DIFF || o->verb == VERB_RUN)
		report_budget_check(o);
	if (o->verb == VERB_REPORT)
		report_tables_check(o);
	if (o->verb == VERB_CTL && !o->files.cnt)
		opts__die(
			"ctl: a command is missing; give status, level, burst, dump, dossier or reload, as in "
			"cudatrace ctl status");
	if (o->verb == VERB_CTL && !verb__has_word(VERB_CTL, o->files.v[0]))
		opts__die(
			"ctl: there is no command %s; give status, level, burst, dump, dossier or reload",
			o->files.v[0]);
	if (o->ctl_at && strcmp(o->files.v[0], "burst"))
		opts__die("--at is for ctl burst; leave it out");
	if (o->verb == VERB_CTL && o->trace.gpu_time) {
		if (strcmp(o->files.v[0], "burst"))
			opts__die("--gpu-time is for ctl burst; leave it out");
		if (o->trace.gpu_time != CT_GPU_TIME_GRAPHS)
			opts__die(
				"ctl burst: --gpu-time takes no value; set trace.gpu_burst: nodes");
	}
	check_outputs(o);
}

/* Explicit options keep their values. NCCL's calls are on by default. */
static void take_all_layers(struct session_opts *t)
{
	t->nvtx = t->torch = true;
	if (!t->python.cnt)
		strv_add(&t->python, "launch");
	if (t->select.cnt)
		return;
	if (!t->detail)
		t->detail = DETAIL_NORMAL;
	strv_add(&t->select, "cublas,cudnn");
}

/* A range begins with a call of the driver, which must be recorded. */
static void take_capture_range(struct session_opts *t)
{
	const char **last = t->select.cnt ? &t->select.v[t->select.cnt - 1] : NULL;
	char *more;

	if (t->capture == CAPTURE_PROFILER && !last && t->detail)
		strv_add(&t->select, "cuProfilerStart,cuProfilerStop");
	if (t->capture != CAPTURE_PROFILER || !last ||
	    asprintf(&more, "%s,cuProfilerStart,cuProfilerStop", *last) < 0)
		return;
	*last = more;
}

/* argp needs its own array. Letters of options are also their keys. */
static const struct argp_option *argp_table(void)
{
	static struct argp_option table[OPTS_MAX + 2]; /* plus -?, and an end */
	const struct opt_row *rows;
	unsigned cnt, n = 0;

	rows = opt_rows(&cnt);
	for (unsigned i = 0; i < cnt; i++) {
		table[n].name = rows[i].name;
		table[n].key = row_key(&rows[i], i);
		table[n].arg = rows[i].arg;
		table[n].flags = rows[i].show == HIDDEN ? OPTION_HIDDEN : 0;
		if (rows[i].arg && !opt_needs_value(&rows[i]))
			table[n].flags |= OPTION_ARG_OPTIONAL;
		table[n++].doc = rows[i].help;
		if (rows[i].letter == 'h')
			table[n++].key = '?';
	}
	return table;
}

void opts__parse(struct opts *o, int argc, char **argv)
{
	struct argp argp = {.options = argp_table(), .parser = parse_one};
	struct parse p = {.o = o};
	error_t ret;

	memset(o, 0, sizeof(*o));
	o->bare = argc == 1;
	o->trace.follow = true;
	o->trace.wait = true;
	o->trace.wait_ns = UINT64_MAX;
	o->trace.sandbox = true;
	o->trace.format_threads = -1;
	o->format = "ascii";
	o->top = REPORT_TOP_DEFAULT;
	o->top_opts.interval_ns = OPTS_INTERVAL_DEFAULT;
	/* In order: everything after the first word that is not an option belongs to the command.
	 */
	ret = argp_parse(&argp, argc, argv,
			 ARGP_IN_ORDER | ARGP_NO_ERRS | ARGP_NO_HELP | ARGP_NO_EXIT, NULL, &p);
	if (ret)
		explain(argc, argv);
	if ((o->verb == VERB_RUN || (o->verb == VERB_DIFF && o->budget)) && o->trace.json)
		o->format = "json";
	if (o->verb == VERB_REPORT)
		trace_folder__expand(&o->files);
	check_whole(&p);
	if ((o->verb == VERB_REPORT || o->verb == VERB_MCP) && !o->runs)
		segments_sort(o->files.v, o->files.cnt);
	if (o->verb == VERB_REPORT && o->trace.json)
		o->format = "json";
	if (o->verb == VERB_RUN && !o->runs)
		o->runs = RUNS_DEFAULT;
	if (o->all_layers)
		take_all_layers(&o->trace);
	take_capture_range(&o->trace);
	if (!o->trace.buffer_sz)
		o->trace.buffer_sz =
			o->trace.pid_cnt || o->trace.argv ? OPTS_BUFFER_DEFAULT : OPTS_BUFFER_ALL;
}
