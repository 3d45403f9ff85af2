/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The limit of a program as text and JSON. */
#include "verdict_priv.h"

#include <stdio.h>

#include "report/collect.h"
#include "report/section.h"

const char *verdict_phase(const struct verdict *v, enum phase phase, char *text, size_t size)
{
	static const char *const names[PHASE_CNT] = {
		[PHASE_BEFORE] = "before the first CUDA call",
		[PHASE_INIT] = "from the first call to the first context",
		[PHASE_LOAD] = "loading",
		[PHASE_WARMUP] = "warm-up",
		[PHASE_AFTER] = "after the last iteration",
		[PHASE_END] = "after the last launch, copy or wait",
	};

	if (phase != PHASE_RUN) {
		snprintf(text, size, "%s", names[phase]);
		return text;
	}
	if (v->it.count)
		snprintf(text, size, "%s", HUMAN_NOUNS(v->it.count - v->it.warmup, "iteration"));
	else
		snprintf(text, size, "no iterations were found");
	return text;
}

static const char *group_of(const struct verdict *v, enum phase p)
{
	if (p < PHASE_RUN)
		return "start-up";
	return p > PHASE_RUN ? "end" : v->it.count ? "steady state" : "run";
}

static const char *part_text(char buf[SECTION_BUF], const struct verdict *v, enum phase p)
{
	int n = snprintf(buf, SECTION_BUF, "%s: ", group_of(v, p));

	/* At most 40 columns, so that a terminal of 80 does not cut it. */
	if (p == PHASE_INIT)
		snprintf(buf + n, SECTION_BUF - n, "up to the first context");
	else
		verdict_phase(v, p, buf + n, SECTION_BUF - n);
	return buf;
}

#define SECTION_STATE struct verdict
#define SECTION_ROWS  "report/advice/verdict.section"
#include "report/section_rows.h"

static void print_host(const struct verdict *v, const struct term *term)
{
	static const char *const names[PART_CNT] = {
		[PART_LAUNCH] = "in launches",
		[PART_TRANSFER] = "in copies",
		[PART_SYNC] = "in waits",
		[PART_MEMORY] = "in memory calls",
		[PART_MODULE] = "loading code",
		[PART_OTHER] = "in other CUDA calls",
		[PART_OUTSIDE] = "outside CUDA calls",
	};
	char text[512];
	size_t n = 0;

	for (unsigned i = 0; i < PART_CNT && n < sizeof(text); i++) {
		/* time outside calls first */
		enum stage_part p = (i + PART_OUTSIDE) % PART_CNT;

		if (v->stages.steady.ns[p] * 1000 < v->run_ns)
			continue;
		n += snprintf(text + n, sizeof(text) - n, "%s%s %s", n ? ", " : "",
			      HUMAN_SHARE(v->stages.steady.ns[p], v->run_ns), names[p]);
	}
	if (n)
		term_para(term, "Host in %s: %s", v->scope, text);
}

static void print_idle(const struct verdict *v, const struct term *term)
{
	const struct {
		uint64_t ns;
		const char *what;
	} parts[] = {{v->gpu.idle_ns, "idle"},
		     {v->gpu.compute_ns, "computing"},
		     {v->gpu.copy_alone_ns, "only copying"},
		     {v->gpu.comm_alone_ns, "only communicating"}};
	char text[256];
	size_t n = 0;

	if (v->idle.known && !v->idle.measured)
		term_para(term,
			  "GPU in %s: idle at least %s (a lower bound from the host's calls; "
			  "--gpu-time measures it)",
			  v->scope, HUMAN_SHARE(v->idle.ns, v->idle.of_ns));
	if (!v->gpu.whole_ns)
		return;
	for (unsigned i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		if (i && parts[i].ns * 1000 < v->gpu.whole_ns)
			continue;
		n += snprintf(text + n, sizeof(text) - n, "%s%s %s", n ? ", " : "",
			      HUMAN_SHARE(parts[i].ns, v->gpu.whole_ns), parts[i].what);
	}
	term_para(term, "GPU in %s, measured: %s", v->scope, text);
}

void verdict_print_time(const struct report *r, const struct term *term, bool is_short)
{
	const struct verdict *v = r->an[AN_VERDICT];
	char text[96];

	if (!v->whole_ns || r->args_redacted)
		return;
	term_section(term, "Time", "%s, by part of the run", HUMAN_TIME(v->whole_ns));
	section_print(r, &verdict_table, v, v, "time", PHASE_CNT, term);
	if (!v->run_ns)
		return;
	if (v->not_recorded)
		term_para(term, "Host in %s: not known: %s", v->scope,
			  verdict_not_recorded_text(v, text, sizeof(text)));
	else if (!is_short)
		print_host(v, term);
	print_idle(v, term);
}

void verdict_print_sentence(const struct report *r, const struct term *term)
{
	const struct verdict *v = r->an[AN_VERDICT];

	term_section(term, "Verdict", "%s", v->sentence);
}

void verdict_print(const void *a, const struct term *term)
{
	const struct verdict *v = a;

	verdict_print_sentence(v->r, term);
	verdict_print_time(v->r, term, false);
}
