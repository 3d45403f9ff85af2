/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include <stdio.h>
#include <string.h>

#include "findings_priv.h"
#include "text/losses_text.h"

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
	double number;

	while (v->kind && (strlen(v->name) != len || strncmp(v->name, name, len)))
		v++;
	if (!v->kind && len == 2 && !strncmp(name, "fn", len))
		return snprintf(text, size, "%s", x->fn ? x->fn->name : "?") > 0;
	if (!v->kind)
		return false;
	number = x->v.all[v - x->rule->values];
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
					    [SEVERITY_LEAK] = "leak"};

	if (x->rule->severity != SEVERITY_COST)
		return names[x->rule->severity];
	return x->steady > 0 || !x->lost_ns ? "steady" : "startup";
}

static void put_evidence(struct json *j, const struct finding *x)
{
	const struct finding_value *v = x->rule->values;
	char cell[CELL_SZ];

	json_open_array(j, "evidence");
	for (unsigned i = 0; v[i].kind; i++) {
		if (v[i].kind == VALUE_WORDS)
			continue;
		finding_value(v[i].kind, x->v.all[i], cell);
		json_open(j, NULL);
		json_sym(j, "what", v[i].what);
		json_str(j, "value", cell);
		json_f64(j, "number", x->v.all[i]);
		json_close(j);
	}
	json_close_array(j);
}

static void put(const struct findings *f, struct json *j, const struct finding *x)
{
	json_open(j, NULL);
	json_sym(j, "id", x->rule->id);
	json_sym(j, "title", x->rule->title);
	json_str(j, "text", x->text);
	json_str(j, "advice", x->advice);
	json_sym(j, "severity", finding_severity(x));
	json_u64(j, "lost_ns", x->lost_ns);
	json_u64(j, "steady_ns", finding_steady_ns(x));
	json_f64(j, "share", ratio_of(x->lost_ns, report_wall_ns(f->r)));
	if (x->clocks > 1) {
		json_open(j, "mean_of");
		json_sym(j, "what", x->clock);
		json_u64(j, "count", x->clocks);
		json_close(j);
	}
	json_f64(j, "confidence", x->confidence);
	json_str(j, "confidence_reason", x->confidence_reason);
	json_bool(j, "incomplete", report_is_incomplete(f->r));
	put_evidence(j, x);
	if (x->at_ns)
		report_json_ts(f->r, j, "ts", x->at_ns);
	json_close(j);
}

void findings_json(const void *a, struct json *j)
{
	const struct findings *f = a;

	json_open_array(j, "findings");
	for (unsigned i = 0; i < f->list_cnt; i++)
		put(f, j, &f->list[i]);
	json_close_array(j);
}

void findings_print(const void *a, const struct term *term)
{
	const struct findings *f = a;
	const char *mark = report_is_incomplete(f->r) ? LOSSES_MARK : "";
	char lost[CELL_SZ], share[CELL_SZ];

	if (!f->list_cnt)
		return;
	term_section(
		term, "Findings",
		"what is wrong first, then the largest loss in the steady state; losses may overlap");
	for (unsigned i = 0; i < f->list_cnt; i++) {
		const struct finding *x = &f->list[i];

		human_time(lost, x->lost_ns);
		human_share(share, x->lost_ns, report_wall_ns(f->r));
		if (x->lost_ns && x->clocks > 1)
			term_para(term, "%u. %s: about %s, %s of the trace, on average of %u %ss%s",
				  i + 1, x->rule->title, lost, share, x->clocks, x->clock, mark);
		else if (x->lost_ns)
			term_para(term, "%u. %s: about %s, %s of the trace%s", i + 1,
				  x->rule->title, lost, share, mark);
		else
			term_para(term, "%u. %s%s", i + 1, x->rule->title, mark);
		term_para(term, "%s %s Confidence: %.0f %%. %s", x->text, x->advice,
			  100 * x->confidence, x->confidence_reason);
	}
}
