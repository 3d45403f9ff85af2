/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "brief.h"

#include <stdlib.h>
#include <string.h>

#include "report/advice/failures.h"
#include "report/advice/findings_priv.h"
#include "report/advice/verdict.h"
#include "report/time/overview.h"
#include "saved/reader.h"
#include "text/losses_text.h"
#include "util/plain.h"

#define FAILURES_MAX  4
#define FINDINGS_MAX  5
#define ADVICE_INDENT 5

/* "129,393 of 265,881 CUDA calls (48.7 %)" if the whole is known. */
static void count_of(const struct report *r, const struct loss_row *row, char *text, size_t size)
{
	char cnt[CELL_SZ], all[CELL_SZ], share[CELL_SZ];
	struct overview_totals t;
	double whole = 0; /* with the lost ones, whose number may be any in a damaged end line */

	overview_totals(r, &t);
	/* A report's own table of calls has the same name. */
	if (!*row->prefix && !strcmp(row->id, "calls"))
		whole = t.call_cnt;
	for (unsigned i = 0; !*row->prefix && !strcmp(row->id, "lines") && i < r->file_cnt; i++)
		whole += r->files[i].lines;
	human_count(cnt, row->cnt);
	human_count(all, whole + row->cnt);
	human_share(share, row->cnt, whole + row->cnt);
	if (whole && row->cnt)
		snprintf(text, size, "%s of %s %s (%s) are missing", cnt, all, row->what, share);
	else
		snprintf(text, size, "%s %s %s missing", cnt, row->what,
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
			term_para(term, "%s: %s", text, row.why);
		} else {
			more++;
		}
	}
	if (more)
		term_para(term, "and %u more kinds of data (--full lists them)", more);
	if (n)
		term_para(term, "* a share of what was recorded: the true one may differ");
}

/* Shows if records are missing, and the content of the trace. */
static void print_trust(const struct report *r, const struct term *term)
{
	char calls[CELL_SZ], wall[CELL_SZ], launches[CELL_SZ], share[CELL_SZ];
	struct overview_totals t;
	struct overview_exit e;
	unsigned procs = 0;
	char text[256];

	print_losses(r, term);
	overview_totals(r, &t);
	for (unsigned i = 0; overview_exit(r, i, &e); i++)
		procs += e.call_cnt != 0;
	human_count(calls, t.call_cnt);
	human_count(launches, t.launch_cnt + t.graph_launch_cnt);
	human_time(wall, report_wall_ns(r));
	human_share(share, r->end ? r->end->cost_share : 0, 1);
	snprintf(text, sizeof(text), "%s: %s CUDA call%s, %s launch%s, %u process%s, %s%s%s",
		 report_is_incomplete(r) ? "Recorded" : "Complete", calls, plural(t.call_cnt),
		 launches, plural_es(t.launch_cnt + t.graph_launch_cnt), procs, plural_es(procs),
		 wall, r->end && r->end->cost_ns ? "; tracing overhead " : "",
		 r->end && r->end->cost_ns ? share : "");
	fputs(term->color ? "\033[1m" : "", term->f);
	term_text(term, text, 2);
	fputs(term->color ? "\033[0m" : "", term->f);
	losses_print_chosen(&r->lost, term);
	report_print_redacted(r, term);
}

/* The possible gain of a finding, as far as it is known. */
static void gain_of(const struct findings *f, const struct finding *x, char *text, size_t size)
{
	uint64_t run_ns = f->run_to_ns - f->run_from_ns, steady_ns = finding_steady_ns(x);
	char time[CELL_SZ], share[CELL_SZ];

	*text = '\0';
	if (!x->lost_ns || x->rule->severity != SEVERITY_COST)
		return;
	if (!strcmp(finding_severity(x), "steady")) {
		human_time(time, steady_ns);
		human_share(share, steady_ns, run_ns);
		snprintf(text, size, ": gains at most %s, %s of %s", time, share,
			 verdict_scope(f->r));
		return;
	}
	human_time(time, x->lost_ns);
	snprintf(text, size, ": gains at most %s at start-up", time);
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

static void print_advice(const struct term *term, const struct finding *x, const char *gain)
{
	struct term inner = *term;
	char text[sizeof(x->advice) + 128];

	snprintf(text, sizeof(text), "%.*s%s", (int)first_advice(x->advice), x->advice, gain);
	fprintf(term->f, "%*s", ADVICE_INDENT, "");
	inner.width -= ADVICE_INDENT;
	term_text(&inner, text, ADVICE_INDENT);
}

static void print_findings(const struct report *r, const struct term *term, unsigned max)
{
	const struct findings *f = r->an[AN_FINDINGS];
	unsigned n = 0, skipped = 0;
	char gain[128];

	for (unsigned i = 0; i < f->list_cnt; i++) {
		const struct finding *x = &f->list[i];

		if (n == max) {
			skipped++;
			continue;
		}
		if (!n++)
			term_section(term, "Do next", "what is wrong first, then the largest gain");
		gain_of(f, x, gain, sizeof(gain));
		term_para(term, "%u. %s: %s", n, x->rule->title, x->brief);
		print_advice(term, x, gain);
	}
	if (skipped)
		term_para(term, "and %u more (--section=findings)", skipped);
}

static void print_next(const struct report *r, const struct term *term)
{
	const char *path = r->file_cnt ? r->files[0].path : "FILE";

	fputs("\nNext: cudatrace report --full ", term->f);
	plain_print(term->f, path, strlen(path));
	fputs(r->file_cnt > 1 ? " ...\n" : "\n", term->f);
	term_para(term,
		  "Instead of --full: --section=NAME (--list-sections), --map, --format=html");
}

static void print_parts(const struct report *r, const struct term *term, unsigned failures,
			unsigned findings)
{
	struct term body = *term;

	print_trust(r, term);
	body.is_partial = report_is_incomplete(r);
	failures_print_some(r, &body, failures);
	verdict_print_sentence(r, &body);
	verdict_print_time(r, &body);
	print_findings(r, &body, findings);
	print_next(r, term);
}

static unsigned lines_of(const char *text)
{
	unsigned n = 0;

	for (; *text; text++)
		n += *text == '\n';
	return n;
}

/* Shows as many findings, then failures, as fit. */
void brief_print(const struct report *r, const struct term *term)
{
	unsigned failures = FAILURES_MAX, findings = FINDINGS_MAX;
	struct term mem = *term;
	bool fits;

	do {
		char *text = NULL;
		size_t len = 0;

		mem.f = open_memstream(&text, &len);
		if (!mem.f)
			return;
		print_parts(r, &mem, failures, findings);
		fits = !fclose(mem.f) && lines_of(text) <= BRIEF_LINES;
		if (fits || (failures == 1 && findings == 1)) {
			fwrite(text, 1, len, term->f);
			fits = true;
		}
		free(text);
		if (findings > 1)
			findings--;
		else if (failures > 1)
			failures--;
	} while (!fits);
}
