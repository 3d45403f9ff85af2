/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "brief.h"

#include <stdlib.h>
#include <string.h>

#include "report/advice/failures.h"
#include "report/advice/findings_priv.h"
#include "report/advice/verdict.h"
#include "report/failure/failure.h"
#include "report/step/step.h"
#include "report/time/overview.h"
#include "saved/reader.h"
#include "text/command.h"
#include "text/losses_text.h"
#include "util/plain.h"

#define CAUSES_MAX    2
#define FAILURES_MAX  4
#define FINDINGS_MAX  5
#define ADVICE_INDENT 5
#define COMMAND_SZ    160

/* Returns the number of all calls or lines, including the lost ones. A double, because a damaged
 * end line may hold any number. 0: unknown, because the file lacks recorded ones, too. */
static double whole_of(const struct report *r, const struct loss_row *row)
{
	bool are_calls = !strcmp(row->id, "calls");
	struct overview_totals t;
	double whole = 0;

	/* A report's own table of calls has the same name. */
	if (*row->prefix || !row->cnt || (!are_calls && strcmp(row->id, "lines") != 0))
		return 0;
	for (enum loss i = LOSS_NO_END; i < LOSS_CNT; i++)
		if (r->lost.cnt[i])
			return 0;
	if (are_calls && (r->lost.cnt[LOSS_LINES] || r->lost.write_error))
		return 0;
	overview_totals(r, &t);
	for (unsigned i = 0; i < r->file_cnt; i++)
		whole += r->files[i].lines;
	return (are_calls ? t.call_cnt : whole) + row->cnt;
}

/* "129,393 of 265,881 CUDA calls (48.7 %)" if the whole is known. */
static void count_of(const struct report *r, const struct loss_row *row, char *text, size_t size)
{
	double whole = whole_of(r, row);

	if (whole)
		snprintf(text, size, "%s of %s %s (%s) are missing", HUMAN_COUNT(row->cnt),
			 HUMAN_COUNT(whole), row->what, HUMAN_SHARE(row->cnt, whole));
	else
		snprintf(text, size, "%s %s %s missing", HUMAN_COUNT(row->cnt), row->what,
			 noun(row->cnt, "is", "are"));
}

static void print_losses(const struct report *r, const struct term *term)
{
	struct loss_row row;
	char text[256], all[1024];
	unsigned n = 0, more = 0;

	for (unsigned i = 0; losses__next(&r->lost, &i, &row); n++) {
		count_of(r, &row, text, sizeof(text));
		if (!n) {
			fputs(term->color ? "\033[1;31m" : "", term->f);
			snprintf(all, sizeof(all), "INCOMPLETE: %s: %s. To avoid it: %s.", text,
				 row.why, row.how_to_avoid);
			term_text(term, all, 2);
			fputs(term->color ? "\033[0m" : "", term->f);
		} else if (n == 1) {
			term_para(term, "%s: %s. To avoid it: %s", text, row.why, row.how_to_avoid);
		} else {
			more++;
		}
	}
	if (more)
		term_para(term, "and %u more kinds of data (--full lists them)", more);
	if (n)
		term_para(term, "Below, " LOSSES_STAR);
}

/* "Of python3 train.py, on NVIDIA H200" */
static void print_target(const struct report *r, const struct term *term)
{
	const char *gpu = overview_gpu(r);
	char command[COMMAND_SZ];

	if (r->info && (r->info->argc || r->info->pid_cnt || gpu)) {
		command_text(r->info, command, sizeof(command));
		term_para(term, "Of %s%s%s", command, gpu ? ", on " : "", gpu ? gpu : "");
	}
}

void brief_print_extent(const struct report *r, const struct term *term)
{
	bool has_cost = r->end && r->end->cost_ns;
	char procs[96];
	struct overview_totals t;
	char text[320];

	overview_totals(r, &t);
	overview_callers(r, procs, sizeof(procs));
	snprintf(text, sizeof(text), "%s: %s, %s, %s, %s%s%s%s",
		 report_is_incomplete(r) ? "Recorded" : "Complete",
		 HUMAN_NOUNS(t.call_cnt, "CUDA call"),
		 HUMAN_NOUNS(t.launch_cnt + t.graph_launch_cnt, "launch"), procs,
		 HUMAN_TIME(report_wall_ns(r)), has_cost ? "; tracing overhead " : "",
		 has_cost ? HUMAN_SHARE(r->end->cost_share, 1) : "",
		 has_cost ? " of a thread's time" : "");
	fputs(term->color ? "\033[1m" : "", term->f);
	term_text(term, text, 2);
	fputs(term->color ? "\033[0m" : "", term->f);
	print_target(r, term);
}

/* Length of the first part of an advice. */
static size_t first_advice(const char *text)
{
	const char *end = strstr(text, ". "), *part = strstr(text, "; ");
	size_t len = strlen(text);

	if (end)
		len = end - text;
	if (part && (size_t)(part - text) < len)
		len = part - text;
	return len && text[len - 1] == '.' ? len - 1 : len;
}

static void print_finding(const struct term *term, unsigned n, const struct finding *x)
{
	struct term inner = *term;

	inner.width -= ADVICE_INDENT;
	fputs(term->is_markdown ? "\n" : "  ", term->f);
	/* Assistants refer to a finding by its id. */
	term_words(&inner, ADVICE_INDENT, term->is_markdown ? "%u. %s: %s (%s)" : "%u. %s: %s", n,
		   x->rule->title, x->brief, x->rule->id);
}

static void print_advice(const struct term *term, const struct finding *x)
{
	struct term inner = *term;
	char text[sizeof(x->advice) + sizeof(x->gain) + 16];

	snprintf(text, sizeof(text), "%.*s%s%s", (int)first_advice(x->advice), x->advice,
		 *x->gain ? ": gains " : "", x->gain);
	fprintf(term->f, "%*s", ADVICE_INDENT, "");
	inner.width -= ADVICE_INDENT;
	term_text(&inner, text, ADVICE_INDENT);
}

/* Only costs that would be shown as 0.0 %. */
static bool gains_nothing(const struct report *r, const struct findings *f, const struct finding *x)
{
	return x->rule->severity == SEVERITY_COST && !x->is_limit &&
	       finding_steady_share(f, x) < 0.0005 && x->lost_ns < 0.0005 * report_wall_ns(r);
}

/* How much is shown, so that all of it fits. */
struct brief {
	unsigned failures, findings;
	bool is_short; /* without what a section has, too, and without explanations */
	bool no_blank;
};

static void print_findings(const struct report *r, const struct term *term, const struct brief *b)
{
	const struct findings *f = r->an[AN_FINDINGS];
	unsigned n = 0, skipped = 0;

	for (unsigned i = 0; i < f->list_cnt; i++) {
		const struct finding *x = &f->list[i];

		if (n == b->findings || gains_nothing(r, f, x)) {
			skipped++;
			continue;
		}
		if (!n++)
			term_section(term, "Do next", "%s", FINDINGS_ORDER);
		print_finding(term, n, x);
		print_advice(term, x);
	}
	if (skipped)
		term_para(term,
			  n ? "and %u more (--section=findings)"
			    : "Findings: %u, which gain less than 0.1 %% (--section=findings)",
			  skipped);
	if (n && term->is_markdown)
		term_para(term, "Evidence and calls of each: --section=findings");
}

static void print_next(const struct report *r, const struct term *term, const struct brief *b)
{
	const char *path = r->file_cnt ? r->files[0].path : "FILE";

	fputs("\nNext: cudatrace report --full ", term->f);
	term_escaped(term, path, strlen(path));
	fputs(r->file_cnt > 1 ? " ...\n" : "\n", term->f);
	if (b->is_short)
		return;
	term_para(term,
		  "Instead of --full: --section=NAME (--list-sections), --map, --format=html");
}

static void print_parts(const struct report *r, const struct term *term, const struct brief *b)
{
	struct term body = *term;

	print_losses(r, term);
	brief_print_extent(r, term);
	losses_print_chosen(&r->lost, term, NULL);
	report_print_redacted(r, term);
	body.is_partial = report_is_incomplete(r);
	failure_print_verdicts(r, &body, b->failures < CAUSES_MAX ? b->failures : CAUSES_MAX);
	failures_print_some(r, &body, b->failures);
	verdict_print_sentence(r, &body);
	verdict_print_time(r, &body, b->is_short);
	/* Its readers may be unable to ask for another section. */
	if (term->is_markdown)
		step_print_parts(r, &body);
	print_findings(r, &body, b);
	print_next(r, term, b);
}

/* Returns whether there is less to show. */
static bool shorten(struct brief *b)
{
	if (b->findings > 1)
		b->findings--;
	else if (b->failures > 1)
		b->failures--;
	else if (!b->is_short)
		b->is_short = true;
	else if (!b->no_blank)
		b->no_blank = true;
	else
		return false;
	return true;
}

static void remove_blank_lines(char *text)
{
	char *to = text;

	for (const char *c = text; *c; c++)
		if (*c != '\n' || c == text || c[-1] != '\n')
			*to++ = *c;
	*to = '\0';
}

/* Shows as many findings, then failures, as fit. */
void brief_print(const struct report *r, const struct term *term)
{
	struct brief b = {.failures = FAILURES_MAX, .findings = FINDINGS_MAX};
	struct term mem = *term;
	bool fits;

	do {
		char *text = NULL;
		size_t len = 0;

		mem.f = open_memstream(&text, &len);
		if (!mem.f)
			return;
		print_parts(r, &mem, &b);
		fits = fclose(mem.f) || term->is_markdown;
		if (text && b.no_blank)
			remove_blank_lines(text);
		fits |= text && term_lines(text) <= BRIEF_LINES;
		fits |= !shorten(&b);
		if (fits && text)
			fputs(text, term->f);
		free(text);
	} while (!fits);
}
