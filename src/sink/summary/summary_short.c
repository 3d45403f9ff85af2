/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The short summary: completeness, failures, verdict, time, what to look at first, files. It is
 * printed with ever fewer rows until it fits SUMMARY_LINES_MAX.
 */
#include "summary_short.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/command.h"
#include "text/losses_text.h"
#include "util/plain.h"
#include "util/order.h"

/* Amounts of detail, largest first. The last one always fits. */
static const struct {
	uint8_t row_max;
	bool no_blank, no_extra, no_advice;
} levels[] = {
	{5, false, false, false}, {4, false, false, false}, {3, false, false, false},
	{5, true, false, false},  {3, true, false, false},  {2, true, false, false},
	{1, true, true, false},	  {1, true, true, true},
};

void short_blank(const struct short_summary *x)
{
	if (!x->no_blank)
		putc('\n', x->term->f);
}

/* ", 8 failed (7 as expected)": failure_matters(), and calls within others. */
static void put_failed(const struct summary *s, char *text, size_t size)
{
	*text = '\0';
	if (!s->error_cnt)
		return;
	if (s->error_cnt == s->failure_cnt)
		snprintf(text, size, ", %s failed", HUMAN_COUNT(s->error_cnt));
	else
		snprintf(text, size, ", %s failed (%s as expected)", HUMAN_COUNT(s->error_cnt),
			 s->failure_cnt ? HUMAN_COUNT(s->error_cnt - s->failure_cnt) : "all");
}

static void put_left_out(const struct short_summary *x, struct losses *lost)
{
	const struct trace_end *end = x->end;
	const char *not_traced = end->not_traced ? end->not_traced : x->info->not_traced;
	char text[512];

	if (x->no_extra)
		return;
	if (not_traced && *not_traced && strcmp(not_traced, "nothing") != 0) {
		snprintf(text, sizeof(text), SUMMARY_NOT_TRACED, not_traced);
		term_label(x->term, "Left out");
		putc(' ', x->term->f);
		term_name(x->term, text, x->term->width - TERM_LABEL);
		putc('\n', x->term->f);
	}
	/* They have a row of their own. */
	lost->chosen[CHOSEN_COUNTED] = 0;
	if (losses_chosen_line(lost, text, sizeof(text)))
		term_row(x->term, "Left out", "%s", text);
	if (x->info->redacted)
		term_row(x->term, "Hidden", "%s", x->info->redacted);
}

void short_trust(const struct short_summary *x)
{
	struct losses lost = x->v.lost;
	char procs[112] = "";
	char more_calls[64] = "";
	char target[44], failed[128], added[96] = "", all[96];
	const char *state = losses__any(&lost) ? "INCOMPLETE" : "complete";
	struct term bold = *x->term;
	unsigned more;

	more = losses_print_first(&lost, x->term, "something is missing; " LOSSES_STAR, x->row_max);
	if (more)
		term_para(x->term, "%u more kind%s of losses: --summary=full lists them.", more,
			  plural(more));
	command_text(x->info, target, sizeof(target));
	put_failed(x->s, failed, sizeof(failed));
	human_processes(all, sizeof(all), x->s->proc_cnt, x->s->rank_cnt);
	if (x->end->stats[CT_STAT_COUNTED]) {
		snprintf(more_calls, sizeof(more_calls), " and %s counted",
			 HUMAN_COUNT(x->end->stats[CT_STAT_COUNTED]));
	}
	if (x->s->proc_cnt > 1)
		snprintf(procs, sizeof(procs), " by %s", all);
	if (x->end->cost_ns)
		snprintf(added, sizeof(added), "; tracing overhead %s of a thread's time",
			 HUMAN_SHARE(x->end->cost_share, 1));
	short_blank(x);
	fputs(bold.color ? "\033[1m" : "", bold.f);
	term_words(&bold, 2, "%s: %s, %s%s%s%s, %s%s", target, HUMAN_TIME(x->wall_ns),
		   HUMAN_NOUNS(x->s->call_cnt, "CUDA call"), more_calls, procs, failed, state,
		   added);
	fputs(bold.color ? "\033[0m" : "", bold.f);
	put_left_out(x, &lost);
}

static void print_failure(const struct short_summary *x, const struct failure *f)
{
	const char *name = fn_result_name(f->fn, f->code);
	uint64_t at = f->first_ns > x->info->base_ns ? f->first_ns - x->info->base_ns : 0;
	char code[32], asked[64] = "", times[64] = "";

	snprintf(code, sizeof(code), "error %d", f->code);
	if (f->has_size && !x->no_args)
		snprintf(asked, sizeof(asked), " (%s requested)", HUMAN_BYTES(f->size));
	if (f->cnt > 1)
		snprintf(times, sizeof(times), ", %s times, first", HUMAN_COUNT(f->cnt));
	term_row(x->term, "ERROR", "%s%s at %s: %s%s", f->fn->name, times, HUMAN_TIME(at),
		 name ? name : code, asked);
}

/* After a GPU error, results may be wrong. */
static void print_xids(const struct short_summary *x)
{
	const struct driver_stat *d = &x->s->driver;
	unsigned max = d->xid_kinds < x->row_max ? d->xid_kinds : x->row_max;
	char more[64] = "", text[256];

	for (unsigned i = 0; i < max; i++) {
		if (i + 1 == max && d->xid_kinds > max)
			snprintf(more, sizeof(more), "; %u more kinds", d->xid_kinds - max);
		summary_xid_text(text, sizeof(text), &d->xids[i]);
		term_row(x->term, "XID", "%s%s", text, more);
	}
}

static int failure_by_time(const void *a, const void *b)
{
	const struct failure *x = a, *y = b;

	return ASCENDING(x->first_ns, y->first_ns);
}

/* The first failure is often the cause of the others, so they are listed by time. */
void short_failures(const struct short_summary *x)
{
	struct summary *s = x->s;
	uint64_t rest = s->failure_cnt;

	if (!s->failure_cnt && !s->unfinished_cnt && !s->abandoned_cnt && !s->driver.xid_cnt)
		return;
	short_blank(x);
	print_xids(x);
	qsort(s->failures, s->failure_kinds, sizeof(s->failures[0]), failure_by_time);
	for (unsigned i = 0; i < s->failure_kinds && i < x->row_max; i++) {
		print_failure(x, &s->failures[i]);
		rest -= s->failures[i].cnt;
	}
	if (rest)
		term_row(x->term, "", "%s: --summary=full", HUMAN_NOUNS(rest, "other failed call"));
	if (s->unfinished_cnt) {
		term_row(x->term, "UNFINISHED", SUMMARY_UNFINISHED,
			 HUMAN_NOUNS(s->unfinished_cnt, "call"), s->longest_unfinished,
			 HUMAN_TIME(s->longest_unfinished_ns));
	}
	if (s->abandoned_cnt)
		term_row(x->term, "Abandoned", SUMMARY_ABANDONED,
			 HUMAN_NOUNS(s->abandoned_cnt, "call"));
}

/* Names of outputs in the summary. Others have the name of the option. */
static const char *const file_labels[][3] = {
	{"jsonl", "Trace", ""},
	{"chrome", "Timeline", ", for ui.perfetto.dev"},
	{"perfetto", "Timeline", ", for ui.perfetto.dev"},
	{"report", "Report", ""},
};

/* rest: how many more files follow that are not shown. */
static void print_file(const struct short_summary *x, const struct summary_file *f, unsigned rest)
{
	const char *label = f->sink, *note = "";
	char more[64] = "", others[64] = "", path[PLAIN_NAME_MAX(4096)];
	bool is_stdout = !strcmp(f->path, "-");

	for (size_t i = 0; i < sizeof(file_labels) / sizeof(file_labels[0]); i++) {
		if (strcmp(f->sink, file_labels[i][0]) != 0)
			continue;
		label = file_labels[i][1];
		note = file_labels[i][2];
	}
	if (f->more_cnt)
		snprintf(more, sizeof(more), " and %u more", f->more_cnt);
	if (rest)
		snprintf(others, sizeof(others), "; and %u more", rest);
	plain_name(path, is_stdout ? "stdout" : f->path);
	term_label(x->term, label);
	fprintf(x->term->f, " %s%s%s%s%s%s%s\n", path, more, f->bytes ? " (" : "",
		f->bytes ? HUMAN_BYTES(f->bytes) : "", f->bytes ? ")" : "", note, others);
}

#define REPORT	   "cudatrace report "
#define ALL_TABLES "    all tables: --summary=full"

static void print_files(const struct short_summary *x)
{
	unsigned max = x->row_max > 3 ? 3 : x->row_max, i;
	const char *trace = NULL;
	bool is_long;
	char path[PLAIN_NAME_MAX(4096)];

	short_blank(x);
	for (i = 0; i < x->file_cnt; i++) {
		if (i < max)
			print_file(x, &x->files[i], i + 1 == max ? x->file_cnt - max : 0);
		if (!trace && !strcmp(x->files[i].sink, "jsonl") &&
		    strcmp(x->files[i].path, "-") != 0)
			trace = x->files[i].path;
	}
	term_label(x->term, "Next");
	if (!trace) {
		fputs(" --summary=full prints all tables\n", x->term->f);
		return;
	}
	plain_name(path, trace);
	is_long = TERM_LABEL + sizeof(REPORT ALL_TABLES) + strlen(path) > (size_t)x->term->width;
	fprintf(x->term->f, " " REPORT "%s", path);
	if (is_long && x->no_advice)
		putc('\n', x->term->f);
	else if (is_long)
		fprintf(x->term->f, "\n%*sall tables: --summary=full\n", TERM_LABEL, "");
	else
		fputs(ALL_TABLES "\n", x->term->f);
}

static void print_at(struct short_summary *x, unsigned level)
{
	x->row_max = levels[level].row_max;
	x->no_blank = levels[level].no_blank;
	x->no_extra = levels[level].no_extra;
	x->no_advice = levels[level].no_advice;
	summary_view__parts(&x->v, x->row_max);
	short_trust(x);
	short_failures(x);
	short_verdict(x);
	short_time(x);
	short_memory(x);
	short_advice(x);
	print_files(x);
}

void summary__print_short(struct summary *s, FILE *f, const struct trace_info *info,
			  const struct trace_end *end, const struct summary_file *files,
			  unsigned file_cnt, int width, bool color)
{
	struct short_summary x = {
		.s = s, .info = info, .end = end, .files = files, .file_cnt = file_cnt};
	unsigned level = 0, level_cnt = sizeof(levels) / sizeof(levels[0]);
	struct term term = {.width = width < 40 ? 40 : width, .color = color};
	char *text = NULL;
	size_t size;

	summary_view__init(&x.v, s, info, end);
	term.is_partial = losses__any(&x.v.lost);
	x.term = &term;
	x.wall_ns = summary_wall_ns(&x.v);
	x.no_args = summary_redacts_args(info);
	for (;;) {
		term.f = open_memstream(&text, &size);
		if (!term.f)
			break;
		print_at(&x, level);
		if (fclose(term.f) || !text)
			break;
		if (term_lines(text) <= SUMMARY_LINES_MAX || ++level == level_cnt) {
			fputs(text, f);
			break;
		}
		free(text);
		text = NULL;
	}
	free(text);
	summary_view__free(&x.v);
}
