/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Hardware counters as text and JSON. */
#include "gpu_metrics.h"

#include "report/section.h"
#include "text/numbers.h"

#include <inttypes.h>
#include <stdio.h>

/* Below this share of attributed samples, a higher rate is worth trying. */
#define FEW_ATTRIBUTED 0.5

static double mean_of(const struct pm_value *v)
{
	return v->ns ? v->sum / v->ns : 0;
}

static double busy_mean_of(const struct pm_value *v)
{
	return v->busy_ns ? v->busy_sum / v->busy_ns : 0;
}

static bool has_samples(const struct gpu_metrics *m)
{
	for (unsigned i = 0; i < m->gpu_cnt; i++)
		if (m->gpus[i]->samples)
			return true;
	return false;
}

static const char *gpu_text(char buf[SECTION_BUF], const struct pm_gpu *g)
{
	snprintf(buf, SECTION_BUF, "%" PRIu64 " %s", g->number, g->model);
	return buf;
}

#define SECTION_STATE struct gpu_metrics
#define SECTION_ROWS  "report/gpu/gpu_metrics.section"
#include "report/section_rows.h"

void gpu_metrics_print(const void *a, const struct term *term)
{
	const struct gpu_metrics *m = a;
	uint64_t samples = 0, attributed = 0;

	if (!has_samples(m))
		return;
	for (unsigned i = 0; i < m->gpu_cnt; i++) {
		samples += m->gpus[i]->samples;
		attributed += m->gpus[i]->mostly_one;
	}
	term_section(term, "Hardware counters",
		     "%s samples; SMs to L2: while the GPU was active, of the maximum",
		     HUMAN_COUNT(samples));
	section_print(m->r, &gpu_metrics_table, m, m, "gpus", TABLE_ROWS, term);
	if (m->kernel_cnt)
		term_gap(term);
	section_print(m->r, &gpu_metrics_table, m, m, "kernels", 10, term);
	if (m->kernel_cnt && attributed < FEW_ATTRIBUTED * samples)
		term_para(term,
			  "%s of %s samples belong to one kernel; the others are idle or mixed. "
			  "A higher rate (--gpu-metrics=HZ) separates shorter kernels.",
			  HUMAN_COUNT(attributed), HUMAN_COUNT(samples));
}
