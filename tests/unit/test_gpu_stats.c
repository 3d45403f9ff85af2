/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Records of GPUs as events, and their sums, for any record contents. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "model/gpu_stats.h"
#include "record/check.h"
#include "report/gpu/gpu_sums.h"
#include "util/out.h"

static struct ct_gpu record(enum ct_gpu_op op)
{
	return (struct ct_gpu){
		.rec = {.size = sizeof(struct ct_gpu), .kind = CT_REC_GPU, .ts_ns = 1000},
		.op = op,
		.gpu = 3,
		.gpu_instance = CT_GPU_WHOLE,
		.compute_instance = CT_GPU_WHOLE,
		.minor = CT_GPU_NONE,
	};
}

/* Texts that fill their field have no NUL. */
static void no_end(void **state)
{
	struct ct_gpu rec = record(CT_GPU_DEVICE);
	struct gpu_stats_texts texts;
	struct trace_event ev;

	memset(rec.name, 'n', sizeof(rec.name));
	memset(rec.uuid, 'u', sizeof(rec.uuid));
	memset(rec.pci, 'p', sizeof(rec.pci));
	assert_int_equal(gpu_stats__event(&rec, &texts, &ev), 0);
	assert_int_equal(strlen(ev.gpu_stats.model), sizeof(rec.name));
	assert_int_equal(strlen(ev.gpu_stats.uuid), sizeof(rec.uuid));
	assert_int_equal(strlen(ev.gpu_stats.pci), sizeof(rec.pci));
	assert_null(ev.gpu_stats.why);
	assert_false(ev.gpu_stats.minor.known);
	assert_false(ev.gpu_stats.util.known);
}

static void known(void **state)
{
	struct ct_gpu rec = record(CT_GPU_SAMPLE);
	struct gpu_stats_texts texts;
	struct trace_event ev;

	rec.known = 1ull << CT_GPU_POWER | 1ull << CT_GPU_CLOCK_REASONS;
	rec.values[CT_GPU_POWER] = 0;
	rec.values[CT_GPU_UTIL] = 77;
	rec.values[CT_GPU_CLOCK_REASONS] = UINT64_MAX;
	assert_int_equal(gpu_stats__event(&rec, &texts, &ev), 0);
	assert_true(ev.gpu_stats.power_w.known);
	assert_false(ev.gpu_stats.util.known);
	assert_string_equal(ev.gpu_stats.throttle,
			    "sw_power_cap hw_slowdown sync_boost sw_thermal_slowdown "
			    "hw_thermal_slowdown hw_power_brake_slowdown board_limit reliability");
	rec.values[CT_GPU_CLOCK_REASONS] = 0x103;
	assert_int_equal(gpu_stats__event(&rec, &texts, &ev), 0);
	assert_null(ev.gpu_stats.throttle);
	for (uint32_t op = 0; op < 12; op++) {
		rec.op = op;
		assert_int_equal(!gpu_stats__event(&rec, &texts, &ev),
				 op >= CT_GPU_DEVICE && op <= CT_GPU_PM_MISSING);
	}
}

/* A sample has its own duration; a record that ends before it begins has none. */
static void metrics(void **state)
{
	struct ct_gpu rec = record(CT_GPU_PM_SAMPLE);
	struct gpu_stats_texts texts;
	struct trace_event ev;

	rec.known = 1ull << CT_PM_SM_ACTIVE;
	rec.values[CT_PM_SM_ACTIVE] = 50125;
	rec.values[CT_PM_DRAM_READ] = 7;
	rec.end_ns = 3000;
	assert_int_equal(gpu_stats__event(&rec, &texts, &ev), 0);
	assert_int_equal(ev.kind, EVENT_GPU_METRICS);
	assert_int_equal(ev.end_ns - ev.start_ns, 2000);
	assert_int_equal(ev.gpu_metrics.sm_active.v, 50125);
	assert_true(ev.gpu_metrics.sm_active.known && !ev.gpu_metrics.dram_read.known);
	assert_null(ev.gpu_metrics.why);
	rec.end_ns = 10;
	assert_int_equal(gpu_stats__event(&rec, &texts, &ev), 0);
	assert_int_equal(ev.end_ns, ev.start_ns);
	rec = record(CT_GPU_PM_MISSING);
	memset(rec.name, 'x', sizeof(rec.name));
	assert_int_equal(gpu_stats__event(&rec, &texts, &ev), 0);
	assert_int_equal(strlen(ev.gpu_metrics.why), sizeof(rec.name));
	assert_false(ev.gpu_metrics.sm_active.known);
}

static void check(void **state)
{
	struct ct_gpu rec = record(CT_GPU_SAMPLE);
	struct raw raw;

	assert_int_equal(raw_check(&rec, sizeof(rec), 3, &raw), 0);
	assert_int_not_equal(raw_check(&rec, sizeof(rec) - 1, 3, &raw), 0);
	rec.rec.size--;
	assert_int_not_equal(raw_check(&rec, sizeof(rec), 3, &raw), 0);
}

/* Any bytes; devices and processes above the limit are counted. */
static void any(void **state)
{
	struct gpu_sums *sums = gpu_sums__new();
	struct out *o = out__memory();
	struct gpu_stats_texts texts;
	struct trace_event ev;
	struct ct_gpu rec;
	struct json j;

	srand(1);
	for (int i = 0; i < 20000; i++) {
		for (size_t k = 0; k < sizeof(rec); k++)
			((char *)&rec)[k] = (char)(rand() >> 7);
		rec.op = rand() % 5;
		rec.gpu = rand() % 3 ? rec.gpu % 300 : CT_GPU_NONE;
		if (!gpu_stats__event(&rec, &texts, &ev))
			gpu_sums__event(sums, &ev);
	}
	json__init(&j, o);
	json_open(&j, NULL);
	gpu_sums__json(sums, &j, "gpu_stats");
	json_close(&j);
	out_char(o, 0);
	assert_non_null(strstr(o->buf, "\"rejected\":"));
	assert_null(strstr(o->buf, "\"rejected\":0"));
	out__close(o);
	gpu_sums__free(sums);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_end), cmocka_unit_test(known), cmocka_unit_test(metrics),
		cmocka_unit_test(check),  cmocka_unit_test(any),
	};

	return cmocka_run_group_tests_name("gpu_stats", tests, NULL, NULL);
}
