/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Energy as text and JSON. */
#include "energy.h"

#include <inttypes.h>
#include <stdio.h>

#include "report/section.h"
#include "text/numbers.h"
#include "report/collect.h"
#include "util/plural.h"

#define JOULES_PER_KWH 3.6e6
#define NS_PER_HOUR    3.6e12

static const char *const source_names[] = {
	[ENERGY_SWITCHES] = "context-switches",
	[ENERGY_EXECUTIONS] = "executions",
	[ENERGY_NVML] = "nvml",
};

static uint64_t sampled_ns(const struct energy_gpu *g)
{
	return g->samples[g->cnt - 1].ns - g->samples[0].ns;
}

static bool has_energy(const struct energy *e)
{
	for (unsigned i = 0; i < e->gpu_cnt; i++)
		if (e->gpus[i]->cnt > 1)
			return true;
	return false;
}

static double total(const struct energy *e, bool idle)
{
	double joules = 0;

	for (unsigned i = 0; i < e->gpu_cnt; i++)
		joules += idle ? e->gpus[i]->idle_joules : e->gpus[i]->joules;
	return joules;
}

static const char *watts_text(char buf[SECTION_BUF], double watts)
{
	snprintf(buf, SECTION_BUF, "%.0f W", watts);
	return buf;
}

static const char *price_text(char buf[SECTION_BUF], double price)
{
	snprintf(buf, SECTION_BUF, "%.3g", price);
	return buf;
}

static const char *gpu_text(char buf[SECTION_BUF], const struct energy_gpu *g)
{
	snprintf(buf, SECTION_BUF, "%" PRIu64 " %s", g->number, g->model);
	return buf;
}

static const char *process_text(char buf[SECTION_BUF], const struct energy_worker *w)
{
	if (w->pid)
		snprintf(buf, SECTION_BUF, "%u %s", w->pid, w->comm);
	else
		snprintf(buf, SECTION_BUF, "(other users)");
	return buf;
}

#define energy_cost(joules) ((joules) / JOULES_PER_KWH * s->r->opts.kwh_price)
#define million_energy(x)   (energy_cost((x)->joules + (x)->idle_joules) / (x)->tokens * 1e6)
#define million_gpus(x)                                                                            \
	((x)->gpus * ((x)->ns / NS_PER_HOUR) * s->r->opts.gpu_hour_price / (x)->tokens * 1e6)

#define SECTION_STATE struct energy
#define SECTION_ROWS  "report/gpu/energy.section"
#include "report/section_rows.h"

void energy_print(const void *a, const struct term *term)
{
	static const char *const lists[] = {"gpus", "processes", "parts", "serving"};
	const struct energy *e = a;
	char all[CELL_SZ];

	if (!has_energy(e))
		return;
	term_section(term, "Energy", "%s; a process has no idle power",
		     human_joules(all, total(e, false)));
	for (unsigned i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		if (i)
			term_gap(term);
		section_print(e->r, &energy_table, e, e, lists[i], 0, term);
	}
	if (e->rejected_cnt)
		term_para(term, "%" PRIu64 " %s missing: too many GPUs or processes",
			  e->rejected_cnt, noun(e->rejected_cnt, "value is", "values are"));
}
