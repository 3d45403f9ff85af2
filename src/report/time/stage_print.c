/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Stages as JSON and as text. */
#include "stage_priv.h"
#include "report/advice/verdict.h"
#include "report/section.h"

const char *stage_name(enum stage s)
{
	static const char *const names[STAGE_CNT] = {
		[STAGE_INIT] = "init",	   [STAGE_LOAD] = "load",	    [STAGE_INPUT] = "input",
		[STAGE_WARMUP] = "warmup", [STAGE_INFERENCE] = "inference", [STAGE_SYNC] = "sync",
		[STAGE_OUTPUT] = "output", [STAGE_CLEANUP] = "cleanup",	    [STAGE_OTHER] = "other",
	};

	return names[s];
}

double stage_part_share(const struct stage_parts *p, enum stage_part part)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < PART_OUTSIDE; i++)
		sum += p->ns[i];
	return ratio_of(p->ns[part], sum);
}

static const char *stage_text(unsigned stage)
{
	static const char *const what[STAGE_CNT] = {
		[STAGE_INIT] = "init",
		[STAGE_LOAD] = "load",
		[STAGE_INPUT] = "input (HtoD)",
		[STAGE_WARMUP] = "warm-up, modules",
		[STAGE_INFERENCE] = "inference",
		[STAGE_SYNC] = "sync",
		[STAGE_OUTPUT] = "output (DtoH)",
		[STAGE_CLEANUP] = "clean-up",
		[STAGE_OTHER] = "before, after",
	};

	return what[stage];
}

#define SECTION_STATE struct stages
#define SECTION_ROWS  "report/time/stage.section"
#include "report/section_rows.h"

void stages_print(const void *a, const struct term *term)
{
	const struct stages *s = a;

	if (!s->has_call)
		return;
	if (verdict_not_recorded(s->r))
		term_section(term, "Stages", "%s; time outside CUDA calls is not known: %s",
			     HUMAN_TIME(report_wall_ns(s->r)), verdict_not_recorded(s->r));
	else
		term_section(term, "Stages", "%s, of which %s outside CUDA calls",
			     HUMAN_TIME(report_wall_ns(s->r)),
			     HUMAN_SHARE(s->res.all.ns[PART_OUTSIDE], report_wall_ns(s->r)));
	section_print(s->r, &stages_table, s, s, "list", TABLE_ROWS, term);
}
