/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Samples of --gpu-stats as text and JSON. */
#include <inttypes.h>

#include "gpu_sums_priv.h"

#include "report/section.h"

static double mean_of(const struct gpu_value *v)
{
	return v->cnt ? v->sum / v->cnt : 0;
}

static const char *device_text(char buf[SECTION_BUF], const struct gpu_device *d)
{
	if (d->gpu_instance == UINT64_MAX)
		snprintf(buf, SECTION_BUF, "%" PRIu64 " %s", d->gpu, d->model);
	else
		snprintf(buf, SECTION_BUF, "%" PRIu64 "/%" PRIu64 "/%" PRIu64 " %s", d->gpu,
			 d->gpu_instance, d->compute_instance, d->model);
	return buf;
}

static const char *process_text(char buf[SECTION_BUF], const struct gpu_process *p)
{
	snprintf(buf, SECTION_BUF, "%u %s", p->pid, p->comm);
	return buf;
}

static const char *unit_text(char buf[SECTION_BUF], double x, const char *unit)
{
	snprintf(buf, SECTION_BUF, "%.0f %s", x, unit);
	return buf;
}

static bool any_device(const struct gpu_sums *g, enum ct_gpu_value id)
{
	for (unsigned i = 0; i < g->device_cnt; i++)
		if (g->devices[i].values[id].cnt)
			return true;
	return false;
}

/* Handles values near 2^64, which a saved trace may have. */
static uint64_t rounded(double mean)
{
	return mean < 0x1p64 - 0x1p12 ? (uint64_t)(mean + 0.5) : UINT64_MAX;
}

#define SECTION_STATE struct gpu_sums
#define SECTION_ROWS  "report/gpu/gpu_stats.section"
#include "report/section_rows.h"

/* Conditions that need attention. */
static void print_notes(const struct gpu_sums *g, const struct term *term)
{
	for (unsigned i = 0; i < g->device_cnt; i++) {
		const struct gpu_device *d = &g->devices[i];
		const struct gpu_value *v = d->values;

		if (d->throttled_ns)
			term_para(term, "GPU %" PRIu64 " was throttled for %s: %s", d->gpu,
				  HUMAN_TIME(d->throttled_ns), d->throttle);
		if (v[CT_GPU_XIDS].max)
			term_para(term, "GPU %" PRIu64 ": %" PRIu64 " Xids, the last was %" PRIu64,
				  d->gpu, v[CT_GPU_XIDS].max, v[CT_GPU_LAST_XID].last);
		if (v[CT_GPU_ECC_UNCORRECTED].max)
			term_para(term,
				  "GPU %" PRIu64 ": %" PRIu64
				  " uncorrected memory errors since the driver was loaded",
				  d->gpu, v[CT_GPU_ECC_UNCORRECTED].max);
	}
	for (unsigned i = 0; i < g->missing_cnt; i++)
		term_para(term, "missing: %s", g->missing[i]);
	if (g->rejected_cnt)
		term_para(term, "%" PRIu64 " %s missing: too many devices or processes",
			  g->rejected_cnt, noun(g->rejected_cnt, "sample is", "samples are"));
}

void gpu_sums__print(const struct gpu_sums *g, const struct term *term)
{
	double cost_ns = 0;
	uint64_t cnt = 0, samples = 0;

	if (!g || (!g->device_cnt && !g->missing_cnt))
		return;
	for (unsigned i = 0; i < g->device_cnt; i++) {
		cost_ns += g->devices[i].values[CT_GPU_COST].sum;
		cnt += g->devices[i].values[CT_GPU_COST].cnt;
		if (g->devices[i].sample_cnt > samples)
			samples = g->devices[i].sample_cnt;
	}
	if (cnt)
		term_section(term, "GPUs by NVML",
			     "%" PRIu64 " sample%s; each took %s of a separate process", samples,
			     plural(samples), HUMAN_TIME(cnt ? cost_ns / cnt : 0));
	else
		term_section(term, "GPUs by NVML", "no samples");
	if (cnt)
		section_print(NULL, &gpu_stats_table, g, g, "devices", TABLE_ROWS, term);
	if (g->process_cnt) {
		term_gap(term);
		section_print(NULL, &gpu_stats_table, g, g, "processes", 10, term);
	}
	print_notes(g, term);
}

void gpu_sums__json(const struct gpu_sums *g, struct json *j, const char *name)
{
	section_json(NULL, &gpu_stats_table, g, g, j, name);
}
