/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "report_budget.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "budget/perf_budget.h"
#include "opts_priv.h"
#include "saved/parse.h"
#include "text/json.h"
#include "util/log.h"
#include "util/out.h"
#include "util/plural.h"

static const struct {
	const char *name;
	budget_print_fn print;
	bool of_report; /* a format of reports, too */
} formats[] = {
	{"ascii", budget_text, true},	  {"json", budget_json, true},
	{"junit", budget_junit, false},	  {"markdown", budget_markdown, true},
	{"github", budget_github, false}, {"gitlab", budget_gitlab, false},
};
#define FORMAT_CNT (sizeof(formats) / sizeof(formats[0]))

static unsigned format_of(const struct opts *o)
{
	unsigned i = 0;

	while (i < FORMAT_CNT && strcmp(formats[i].name, o->format))
		i++;
	return i;
}

/* Ends with a message if an option of budgets lacks another one, or does not fit the verb. */
static void check_verb(const struct opts *o)
{
	if (o->verb == VERB_RUN && !o->budget)
		opts__die("run compares with a budget: add --budget FILE");
	if (o->verb == VERB_RUN && !o->trace.argv)
		opts__die("COMMAND is missing; give a program to run, as in cudatrace run --budget "
			  "FILE -- python x.py");
	if (o->verb == VERB_RUN && o->trace.outputs[SINK_JSONL].cnt > 1)
		opts__die("run keeps its traces once: give --jsonl once");
	if (o->verb == VERB_RUN && o->trace.outputs[SINK_JSONL].cnt &&
	    !strcmp(o->trace.outputs[SINK_JSONL].v[0], "-"))
		opts__die("run makes a file of each trace: give --jsonl the name of a file");
	if (o->verb == VERB_DIFF && !o->budget && strcmp(o->format, "ascii"))
		opts__die("--format of diff is for --budget: add --budget FILE, or write --json");
	if (o->verb == VERB_DIFF && !o->budget && o->output)
		opts__die("-o of diff is for --budget: add --budget FILE, or redirect stdout");
	if (o->runs && !o->budget && !o->make_budget)
		opts__die("--runs is for budgets: add --budget FILE or --make-budget");
	if (o->verb == VERB_REPORT && o->runs && o->files.cnt != o->runs)
		opts__die("--runs %u: give %u trace%s, one of each run", o->runs, o->runs,
			  plural(o->runs));
}

void report_budget_check(const struct opts *o)
{
	unsigned i = format_of(o);

	check_verb(o);
	if (!o->budget && i < FORMAT_CNT && !formats[i].of_report)
		opts__die("--format=%s is a result of --budget: add --budget FILE", o->format);
	if (!o->budget && !o->make_budget)
		return;
	if (o->budget && o->make_budget)
		opts__die("--make-budget writes a budget, and --budget reads one; leave one out");
	if (o->sections || o->map || o->serving || o->full)
		opts__die(
			"--%s prints no sections: leave out --section, --map, --serving, --what-if and "
			"--full",
			o->budget ? "budget" : "make-budget");
	if (o->make_budget && strcmp(o->format, "ascii"))
		opts__die("--make-budget writes YAML: leave out --format");
	if (i == FORMAT_CNT)
		opts__die(
			"--budget has no --format=%s; choose one of: ascii json junit markdown github "
			"gitlab",
			o->format);
}

/* One report of the files, as text for the parser. NULL: reported. */
static struct out *report_text(const struct opts *o, const struct strv *files)
{
	struct out *text = out__memory();

	if (!text) {
		err("out of memory: close other programs");
		return NULL;
	}
	text->is_checked = true;
	if (report_as_json(o, files, text)) {
		out__close(text);
		return NULL;
	}
	return text;
}

/* With --runs, each file is a run of its own. */
static struct strv files_of_run(const struct opts *o, const struct strv *files, unsigned run)
{
	return o->runs ? (struct strv){.v = files->v + run, .cnt = 1} : *files;
}

static unsigned run_cnt(const struct opts *o, const struct strv *files)
{
	return o->runs || !files->cnt ? files->cnt : 1;
}

/* The parser needs zeros after the text. Returns its length; 0: out of memory. */
static size_t end_text(struct out *text)
{
	size_t len = text->len;

	memset(out_reserve(text, PARSE_SLACK + 1), 0, PARSE_SLACK + 1);
	return text->failed ? 0 : len;
}

static int measure(const struct opts *o, struct perf_budget *b, enum budget_side side,
		   const struct strv *files)
{
	for (unsigned i = 0; i < run_cnt(o, files); i++) {
		struct strv run = files_of_run(o, files, i);
		struct out *text = report_text(o, &run);
		size_t len = text ? end_text(text) : 0;
		int ret = len ? perf_budget__measure(b, side, text->buf, len) : -ENOMEM;

		out__close(text);
		if (!text)
			return -1;
		if (ret) {
			err("cannot compare the report of %s with a budget: %s", run.v[0],
			    strerror(-ret));
			return -1;
		}
	}
	return 0;
}

int budget_of_runs(const struct opts *o, struct perf_budget *b, const struct strv *old,
		   const struct strv *new)
{
	struct out *to;

	if (b->change_line && !old->cnt) {
		err("%s:%u: a limit on a change compares with older traces: use cudatrace diff "
		    "--budget, or run with --baseline",
		    b->path, b->change_line);
		return EXIT_USAGE;
	}
	if (measure(o, b, BUDGET_OLD, old) || measure(o, b, BUDGET_NEW, new))
		return EXIT_FAILURE;
	perf_budget__judge(b);
	to = out__open(o->output ?: "-");
	if (!to)
		return EXIT_FAILURE;
	formats[format_of(o)].print(b, to);
	out__commit(to);
	if (out__close(to))
		return EXIT_FAILURE;
	return b->broken_cnt ? EXIT_BROKEN : EXIT_SUCCESS;
}

/* texts: the reports of the runs, to be closed by the caller. */
static int make_of(const struct opts *o, struct out **texts, struct budget_report *runs,
		   unsigned cnt)
{
	struct out *to;
	int ret;

	for (unsigned i = 0; i < cnt; i++) {
		struct strv run = files_of_run(o, &o->files, i);

		texts[i] = report_text(o, &run);
		if (!texts[i])
			return EXIT_FAILURE;
		runs[i].len = end_text(texts[i]);
		runs[i].json = texts[i]->buf;
	}
	to = out__open(o->output ?: "-");
	if (!to)
		return EXIT_FAILURE;
	ret = budget_make(runs, cnt, o->files.v[0], to);
	if (ret)
		err("cannot make a budget: %s", strerror(-ret));
	out__commit(to);
	return out__close(to) || ret ? EXIT_FAILURE : EXIT_SUCCESS;
}

static int make(const struct opts *o)
{
	unsigned cnt = run_cnt(o, &o->files);
	struct out **texts = calloc(cnt, sizeof(*texts));
	struct budget_report *runs = calloc(cnt, sizeof(*runs));
	int status = EXIT_FAILURE;

	if (texts && runs)
		status = make_of(o, texts, runs, cnt);
	else
		err("out of memory: close other programs");
	for (unsigned i = 0; texts && i < cnt; i++)
		out__close(texts[i]);
	free(texts);
	free(runs);
	return status;
}

static int compare(const struct opts *o, const struct strv *old, const struct strv *new)
{
	struct perf_budget *b = perf_budget__read(o->budget);
	int status = b ? budget_of_runs(o, b, old, new) : EXIT_USAGE;

	perf_budget__free(b);
	return status;
}

int report_budget(const struct opts *o)
{
	static const struct strv none;

	return o->make_budget ? make(o) : compare(o, &none, &o->files);
}

int diff_budget(const struct opts *o)
{
	unsigned half = o->files.cnt / 2;
	struct strv old = {.v = o->files.v, .cnt = half};
	struct strv new = {.v = o->files.v + half, .cnt = half};

	return compare(o, &old, &new);
}
