/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Findings as text and JSON; fills the templates of findings.def. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "findings_priv.h"
#include "verdict.h"
#include "report/section.h"
#include "report/step/step.h"
#include "text/losses_text.h"

/* Minimum share of a loss outside the steady state that is mentioned. */
#define OUTSIDE_MIN 0.05

void finding_value(enum value_kind kind, double v, char cell[CELL_SZ])
{
	switch (kind) {
	case VALUE_CODE:
		snprintf(cell, CELL_SZ, "%.0f", v);
		return;
	case VALUE_TIME:
		human_time(cell, v);
		return;
	case VALUE_BYTES:
		human_bytes(cell, v);
		return;
	case VALUE_SHARE:
		human_share(cell, v, 1);
		return;
	case VALUE_RATE:
		human_rate(cell, v, 1);
		return;
	default:
		human_count(cell, v);
	}
}

/* Writes the value for a template's braces, from name to end, to text. */
static bool put_value(const struct finding *x, const char *name, const char *end, char *text,
		      size_t size)
{
	size_t len = strcspn(name, "|}");
	const char *this = name + len + 1, *that;
	const struct finding_value *v = x->rule->values;
	char cell[CELL_SZ];
	bool is_replayed;
	double number;

	while (v->kind && (strlen(v->name) != len || strncmp(v->name, name, len)))
		v++;
	if (!v->kind && len == 2 && !strncmp(name, "fn", len))
		return snprintf(text, size, "%s", x->fn ? x->fn->name : "?") > 0;
	if (!v->kind && len == 5 && !strncmp(name, "place", len))
		return snprintf(text, size, "%s%s", x->place[0] ? " in " : "", x->place) >= 0;
	if (!v->kind && len == 4 && !strncmp(name, "such", len))
		return snprintf(text, size, "%s%s%s%s", x->fn ? ", such as " : "",
				x->fn ? x->fn->name : "", x->place[0] ? " in " : "", x->place) >= 0;
	if (!v->kind && len == 5 && !strncmp(name, "other", len))
		return snprintf(text, size, "%s", x->other) >= 0;
	if (!v->kind && len == 6 && !strncmp(name, "period", len))
		return snprintf(text, size, "%s", x->period) >= 0;
	is_replayed = !v->kind && len == 8 && !strncmp(name, "replayed", len);
	if (!v->kind && !is_replayed)
		return false;
	number = is_replayed ? x->is_replayed : x->v.all[v - x->rule->values];
	finding_value(v->kind, number, cell);
	/* A result code is shown by its name, if it has one. */
	if (name + len == end && v->kind == VALUE_CODE && !strncmp(name, "result", len) && x->fn &&
	    fn_result_name(x->fn, (int32_t)number))
		return snprintf(text, size, "%s", fn_result_name(x->fn, (int32_t)number)) > 0;
	if (name + len == end)
		return snprintf(text, size, "%s", cell) >= 0;
	that = memchr(this, '|', end - this);
	if (!that)
		return false;
	if (number == 1)
		end = that;
	else
		this = that + 1;
	return snprintf(text, size, "%.*s", (int)(end - this), this) >= 0;
}

bool finding_fill(const struct finding *x, const char *template, char *text, size_t size)
{
	size_t used = 0;

	*text = '\0';
	while (*template) {
		size_t len = strcspn(template, "{");
		const char *end = strchr(template, '}');

		snprintf(text + used, size - used, "%.*s", (int)len, template);
		used += strlen(text + used);
		template += len;
		if (!*template)
			break;
		if (!end || end < template ||
		    !put_value(x, template + 1, end, text + used, size - used))
			return false;
		used += strlen(text + used);
		template = end + 1;
	}
	return used + 1 < size;
}

const char *finding_severity(const struct finding *x)
{
	static const char *const names[] = {[SEVERITY_INCOMPLETE] = "incomplete",
					    [SEVERITY_ERROR] = "error",
					    [SEVERITY_HANG] = "hang",
					    [SEVERITY_LEAK] = "leak",
					    [SEVERITY_MINOR] = "minor"};

	if (x->rule->severity != SEVERITY_COST)
		return names[x->rule->severity];
	return x->steady > 0 || !x->lost_ns ? "steady" : "startup";
}

/* Without GPU times, a later wait may take the time that a replay saves. */
static bool is_at_most(const struct findings *f, const struct finding *x)
{
	return !x->is_replayed || !step_result(f->r)->has_gpu_times;
}

void finding_format_gain(const struct findings *f, struct finding *x)
{
	uint64_t steady_ns = finding_steady_ns(x), rest_ns = x->lost_ns - steady_ns;
	const char *scope = verdict_scope(f->r);
	char time[CELL_SZ], share[CELL_SZ], mean[48] = "";
	size_t n = 0;

	if (!x->lost_ns || x->rule->severity != SEVERITY_COST)
		return;
	if (x->clocks > 1)
		snprintf(mean, sizeof(mean), " (mean of %u %ss)", x->clocks, x->clock);
	if (steady_ns) {
		human_time(time, steady_ns);
		human_share(share, finding_steady_share(f, x), 1);
		n = snprintf(x->gain, sizeof(x->gain), "%s%s, %s of %s",
			     is_at_most(f, x) ? "at most " : "", time, share, scope);
	}
	human_time(time, rest_ns);
	human_share(share, rest_ns, report_wall_ns(f->r));
	if (!n)
		n = snprintf(x->gain, sizeof(x->gain), "at most %s at start-up, %s of the trace",
			     time, share);
	else if (rest_ns >= OUTSIDE_MIN * x->lost_ns)
		n += snprintf(x->gain + n, sizeof(x->gain) - n, ", and at most %s outside of it",
			      time);
	snprintf(x->gain + n, sizeof(x->gain) - n, "%s", mean);
}

static const char *evidence_text(char buf[SECTION_BUF], const struct finding *x, unsigned i)
{
	finding_value(x->rule->values[i].kind, x->v.all[i], buf);
	return buf;
}

#define SECTION_STATE struct findings
#define SECTION_ROWS  "report/advice/findings.section"
#include "report/section_rows.h"

/* "Calls: cuLaunchKernel (id 12): 5 us, without work before its execution; ..." */
static void print_calls(const struct finding *x, const struct term *term)
{
	char text[512] = "";
	size_t n = 0;

	for (unsigned i = 0; i < x->examples.cnt && n < sizeof(text); i++) {
		const struct step_example *e = &x->examples.of[i];

		n += snprintf(text + n, sizeof(text) - n, "%s%s (id %" PRIu64 "): %s, %s",
			      i ? "; " : "", e->fn->name, e->call_id, HUMAN_TIME(e->ns), e->what);
	}
	if (x->examples.cnt)
		term_para(term, "Calls: %s.", text);
}

void findings_print(const void *a, const struct term *term)
{
	const struct findings *f = a;
	const char *mark = report_is_incomplete(f->r) ? LOSSES_MARK : "";

	if (!f->list_cnt)
		return;
	term_section(term, "Findings", FINDINGS_ORDER);
	for (unsigned i = 0; i < f->list_cnt; i++) {
		const struct finding *x = &f->list[i];

		if (*x->gain)
			term_para(term, "%u. %s: gains %s%s", i + 1, x->rule->title, x->gain, mark);
		else if (x->lost_ns)
			term_para(term, "%u. %s: %s, %s of the trace%s", i + 1, x->rule->title,
				  HUMAN_TIME(x->lost_ns),
				  HUMAN_SHARE(x->lost_ns, report_wall_ns(f->r)), mark);
		else
			term_para(term, "%u. %s%s", i + 1, x->rule->title, mark);
		term_para(term, "%s %s Confidence: %.0f %%. %s", x->text, x->advice,
			  100 * x->confidence, x->confidence_reason);
		print_calls(x, term);
	}
}
