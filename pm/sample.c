/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Reads what a GPU's counters sampled. */
#include "sampler.h"

#include <math.h>
#include <time.h>

/* Readings of a GPU at a time, so that the others have their turn. */
#define READINGS_MAX 4
/* Failed readings in a row after which a GPU is given up. */
#define FAILURES_MAX 20
/* The newest samples cannot be read yet. */
#define LATE_NS 100000000ull
/* More than the age of samples in a full buffer. */
#define SKEW_NS 30000000000ll

static const bool is_milli[CT_PM_VALUE_CNT] = {
#define opt_milli				 true
#define opt_u64					 false
#define VALUE(ID, id, form, unit, metrics, text) [CT_PM_##ID] = form,
#include "ct_pm.def"
#undef opt_milli
#undef opt_u64
};

/* Values that are not plausible are left out. */
static void put(struct ct_gpu *rec, enum ct_pm_value v, double x)
{
	if (!isfinite(x) || x < 0 || x > (is_milli[v] ? 101 : 1e15))
		return;
	rec->known |= 1ull << v;
	rec->values[v] = (uint64_t)(is_milli[v] ? x * 1000 + 0.5 : x + 0.5);
}

/* Samples that are missing between the newest one and ns. */
static void count_gap(struct sampler *s, struct gpu *g, uint64_t ns)
{
	uint64_t gap = g->last_end && ns > g->last_end ? ns - g->last_end : 0;

	s->lost_cnt += (gap + s->interval_ns / 2) / s->interval_ns;
}

void count_end(struct sampler *s, struct gpu *g)
{
	uint64_t now = clock_ns(CLOCK_REALTIME);

	if (!g->last_end || g->has_wrong_clock)
		g->last_end = g->last_read;
	if (now > g->last_end + LATE_NS + 2 * s->interval_ns)
		count_gap(s, g, now);
}

/* The GPU's clock shows the time of day, unless that was set after the driver was loaded. */
static void check_clock(struct sampler *s, struct gpu *g, uint64_t end)
{
	int64_t behind = clock_ns(CLOCK_REALTIME) - end;

	if (g->has_wrong_clock || (behind > -SKEW_NS && behind < SKEW_NS))
		return;
	g->has_wrong_clock = true;
	send_missing(s, g,
		     "the GPU's clock differs from the time of day by %.0f s: the times of "
		     "samples are wrong",
		     behind / 1e9);
}

/* A GPU's clock may be wrong, but not faster than time. */
static bool is_absurd(const struct gpu *g, uint64_t end)
{
	uint64_t passed = clock_ns(CLOCK_REALTIME) - g->last_read;

	return end > INT64_MAX || (g->last_end && end - g->last_end > passed + SKEW_NS);
}

/* offset: the GPU's clock, which shows the time of day, less CLOCK_MONOTONIC. */
static void send_sample(struct sampler *s, struct gpu *g, size_t i, int64_t offset, uint64_t cost)
{
	struct pm_sample t = {
		.object = g->object, .data = s->data, .data_size = g->data_size, .index = i};
	double x[CT_PM_VALUE_CNT] = {0};
	struct pm_values v = {
		.host = g->host,
		.data = s->data,
		.data_size = g->data_size,
		.index = i,
		.names = g->metrics,
		.cnt = g->metric_cnt,
		.values = x,
	};
	struct ct_gpu rec = record_of(g, CT_GPU_PM_SAMPLE);
	uint64_t begin = clock_ns(CLOCK_MONOTONIC);
	bool is_long;

	/* A sample without a valid time leaves a gap. */
	if (CALL(s, PmSamplingCounterDataGetSampleInfo, &t))
		return;
	/* The first one began with the configuration. */
	is_long = g->is_first && t.end > t.start + 2 * s->interval_ns;
	g->is_first = false;
	if (is_long)
		return;
	if (t.end <= t.start || t.start < g->last_end || is_absurd(g, t.end))
		return;
	count_gap(s, g, t.start);
	g->last_end = t.end;
	g->last_read = clock_ns(CLOCK_REALTIME);
	if (CALL(s, ProfilerHostEvaluateToGpuValues, &v)) {
		s->lost_cnt++;
		return;
	}
	check_clock(s, g, t.end);
	for (unsigned k = 0; k < g->metric_cnt; k++)
		put(&rec, g->values[k], x[k]);
	rec.rec.ts_ns = t.start - offset;
	rec.end_ns = t.end - offset;
	rec.cost_ns = cost + clock_ns(CLOCK_MONOTONIC) - begin;
	send_record(s, &rec);
}

/* After a full buffer nothing can be read until sampling is enabled again. */
static void start_again(struct sampler *s, struct gpu *g, int ret)
{
	const char *step = "DecodeData";

	if (++g->failed_cnt == 1 && (!ret || ret == CUPTI_ERROR_OUT_OF_MEMORY))
		send_missing(s, g, "samples were dropped: a buffer was full; use a lower rate");
	else if (g->failed_cnt == 1)
		send_missing(s, g, "%.120s (%s: %d)", error_text(s, ret), step, ret);
	stop_gpu(s, g);
	if (g->failed_cnt < FAILURES_MAX)
		ret = start_gpu(s, g, &step);
	if (g->object)
		return;
	send_missing(s, g, "sampling has ended: %.120s (%s: %d)", error_text(s, ret), step, ret);
}

/* Returns whether there may be more. */
static bool read_once(struct sampler *s, struct gpu *g)
{
	struct pm_data_init init = {
		.object = g->object, .data_size = g->data_size, .data = s->data};
	struct pm_decode d = {.size = PM_DECODE_SZ,
			      .object = g->object,
			      .data = s->data,
			      .data_size = g->data_size};
	struct pm_info info = {.data = s->data, .data_size = g->data_size};
	uint64_t begin = clock_ns(CLOCK_MONOTONIC), cost;
	int64_t offset = clock_ns(CLOCK_REALTIME) - begin;
	int ret = CALL(s, PmSamplingCounterDataImageInitialize, &init);

	if (!ret)
		ret = CALL(s, PmSamplingDecodeData, &d);
	if (!ret)
		ret = CALL(s, PmSamplingGetCounterDataInfo, &info);
	if (!ret && info.completed > g->sample_max)
		ret = CUPTI_ERROR_UNKNOWN;
	if (!ret) {
		cost = (clock_ns(CLOCK_MONOTONIC) - begin) / (info.completed ?: 1);
		for (size_t i = 0; i < info.completed; i++)
			send_sample(s, g, i, offset, cost);
	}
	if (ret || d.overflow) {
		start_again(s, g, ret);
		return false;
	}
	g->failed_cnt = 0;
	return d.stop == CUPTI_DECODE_STOP_COUNTER_DATA_FULL;
}

void read_gpu(struct sampler *s, struct gpu *g)
{
	for (int i = 0; i < READINGS_MAX && g->object && read_once(s, g); i++)
		;
}
