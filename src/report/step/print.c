/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The critical path as JSON and as text. */
#include "step_priv.h"

#include <stdio.h>
#include <string.h>

#include "report/section.h"
#include "text/kernel_name.h"

const char *step_kind_name(enum step_kind k)
{
	static const char *const names[] = {
#define STEP_KIND(ID, name, label) name,
#include "kinds.def"
	};

	return names[k];
}

const char *step_kind_label(enum step_kind k)
{
	static const char *const labels[] = {
#define STEP_KIND(ID, name, label) label,
#include "kinds.def"
	};

	return labels[k];
}

static const char *which_name(enum step_which w)
{
	static const char *const names[STEP_WHICH_CNT] = {
		[STEP_MEDIAN] = "median",
		[STEP_P95] = "p95",
		[STEP_SLOWEST] = "slowest",
		[STEP_FIRST] = "first",
	};

	return names[w];
}

/* The next of the steps that there are. */
static const struct step *next_step(const struct steps *s, const struct step *prev)
{
	const struct step *step = prev ? prev + 1 : s->res.steps;

	while (step < s->res.steps + STEP_WHICH_CNT && !step->part_cnt)
		step++;
	return step < s->res.steps + STEP_WHICH_CNT ? step : NULL;
}

static double saved_share(const struct steps *s, const struct step_what_if *w)
{
	uint64_t all = s->res.unchanged.total_ns;

	return w->total_ns < all ? ratio_of(all - w->total_ns, all) : 0;
}

void step_frame(const struct stack_frame *f, char *buf, size_t size)
{
	const char *slash = f->module ? strrchr(f->module, '/') : NULL;

	snprintf(buf, size, "%s:%u %s",
		 slash	     ? slash + 1
		 : f->module ? f->module
			     : "?",
		 f->line, f->symbol);
}

void step_place(const struct step_part *p, char *buf, size_t size)
{
	size_t n;

	snprintf(buf, size, "%s", p->operator ? p->operator : "");
	n = strlen(buf);
	if (!p->frame || n + 3 >= size)
		return;
	if (n)
		n += sprintf(buf + n, ", ");
	step_frame(p->frame, buf + n, size - n);
}

/* "cudnnBackendFinalize in aten::addmm, model.py:39 forward" */
static const char *what_text(char buf[SECTION_BUF], const struct step_part *p)
{
	const char *name = p->name && p->kind != STEP_BETWEEN ? p->name : "";
	size_t len = 0, n;

	if (*name)
		name = kernel_short_name(name, &len);
	n = snprintf(buf, SECTION_BUF, "%.*s", (int)len, name);
	if (!p->operator&& !p->frame)
		return buf;
	if (n && n + 4 < SECTION_BUF)
		n += sprintf(buf + n, " in ");
	if (n < SECTION_BUF)
		step_place(p, buf + n, SECTION_BUF - n);
	return buf;
}

static const char *between_text(char buf[SECTION_BUF], const struct step_what_if *w)
{
	snprintf(buf, SECTION_BUF, "%s to %s", HUMAN_TIME(w->low_ns), HUMAN_TIME(w->high_ns));
	return buf;
}

static const char *change_text(char buf[SECTION_BUF], const struct step_what_if *w)
{
	snprintf(buf, SECTION_BUF, "%s%s", w->change.text,
		 w->is_unmatched ? ": nothing to change" : "");
	return buf;
}

/* Kinds of parts of a step that is not the median. */
#define OTHER_PARTS 3

#define SECTION_STATE struct steps
#define SECTION_ROWS  "report/step/step.section"
#include "report/section_rows.h"

static void print_replays(const struct step_result *res, const struct term *term)
{
	if (res->has_gpu_times)
		term_para(term, "If the host cost nothing: %s; if the GPU cost nothing: %s",
			  HUMAN_TIME(res->no_host.step_ns), HUMAN_TIME(res->no_gpu.step_ns));
	else
		term_para(
			term,
			"If the GPU cost nothing: %s; the host's part is only known with --gpu-time",
			HUMAN_TIME(res->no_gpu.step_ns));
}

/* How far the replay of the unchanged steps is off. */
static void print_error(const struct step_result *res, const struct term *term)
{
	double error = ratio_of(res->unchanged.total_ns, res->total_ns) - 1;

	term_para(term, "These are replays of the trace; unchanged, the replay is %s off",
		  HUMAN_SHARE(error < 0 ? -error : error, 1));
}

void step_print_parts(const struct report *r, const struct term *term)
{
	const struct steps *s = r->an[AN_STEP];
	const struct step *m = &s->res.steps[STEP_MEDIAN];

	if (!m->part_cnt)
		return;
	term_section(term, "Step", "%s, the critical path of the median of %s iterations",
		     HUMAN_TIME(m->end_ns - m->begin_ns), HUMAN_COUNT(s->res.step_cnt));
	section_print(r, &step_steps_table, s, m, "parts", STEP_PARTS, term);
}

/* Writes the kinds that take most of a step: "waiting for rank 3 5.44 ms, kernel 198 us". */
static void kinds_text(char buf[SECTION_BUF], const struct step *x)
{
	uint64_t ns[STEP_KIND_CNT] = {0};
	const char *rank = NULL;
	size_t n = 0;

	*buf = '\0';
	for (unsigned i = 0; i < x->part_cnt; i++) {
		ns[x->parts[i].kind] += x->parts[i].ns;
		if (x->parts[i].kind == STEP_RANK && !rank)
			rank = x->parts[i].name;
	}
	for (unsigned i = 0; i < OTHER_PARTS; i++) {
		unsigned most = 0;

		for (unsigned k = 1; k < STEP_REST; k++)
			most = ns[k] > ns[most] ? k : most;
		if (!ns[most])
			break;
		n += snprintf(buf + n, SECTION_BUF - n, "%s%s %s", i ? ", " : "",
			      most == STEP_RANK && rank ? "waiting for" : step_kind_label(most),
			      most == STEP_RANK && rank ? rank : HUMAN_TIME(ns[most]));
		if (most == STEP_RANK && rank)
			n += snprintf(buf + n, SECTION_BUF - n, " %s", HUMAN_TIME(ns[most]));
		ns[most] = 0;
	}
}

static void print_others(const struct steps *s, const struct term *term)
{
	static const char *const names[STEP_WHICH_CNT] = {
		[STEP_P95] = "95th percentile", [STEP_SLOWEST] = "Slowest", [STEP_FIRST] = "First"};

	for (const struct step *x = next_step(s, s->res.steps); x; x = next_step(s, x)) {
		char text[SECTION_BUF];

		kinds_text(text, x);
		term_para(term, "%s (iteration %s): %s; %s", names[x - s->res.steps],
			  HUMAN_COUNT(x->number), HUMAN_TIME(x->end_ns - x->begin_ns), text);
	}
}

void step_print(const void *a, const struct term *term)
{
	const struct steps *s = a;

	if (!s->res.steps[STEP_MEDIAN].part_cnt)
		return;
	step_print_parts(s->r, term);
	print_others(s, term);
	if (!s->res.unchanged.step_ns)
		return;
	print_replays(&s->res, term);
	section_print(s->r, &step_table, s, s, "what_if", STEP_WHAT_IFS, term);
	print_error(&s->res, term);
}
