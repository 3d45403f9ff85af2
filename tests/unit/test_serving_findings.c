/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Serving: findings about slow steps. */
#include "serving_steps.h"

/* The loss; -1: there is no such finding. */
static int64_t lost(const char *id)
{
	const struct finding *x = found(id);

	return x ? (int64_t)x->lost_ns : -1;
}

static void test_host_bound(void **state)
{
	step(30, 3, 1000);
	decode(10, 3, 1000);
	finish();
	/* No step follows the last one. */
	assert_int_equal(lost("decode-host-bound"), 10 * STEP_NS + 9 * 1000);
	assert_int_equal(lost("prefill-blocks-decode"), -1);
	assert_int_equal(lost("graphs-not-used"), -1);
}

/* Only of steps between these times, so that a gain is not larger than the steady state. */
static void test_idle_between_times(void **state)
{
	const struct findings *x = r->an[AN_FINDINGS];
	const struct serving_step *steps;

	step(30, 3, 1000);
	decode(10, 3, 1000);
	finish();
	steps = serving_main(serving())->steps;
	assert_int_equal(serving_decode_idle(r, 0, UINT64_MAX), lost("decode-host-bound"));
	assert_int_equal(serving_decode_idle(r, steps[3].begin_ns, steps[6].end_ns),
			 4 * STEP_NS + 3 * 1000);
	assert_true(finding_steady_ns(found("decode-host-bound")) <= x->run_ns);
}

/* So many launches that it is launch-bound, too: reported once. */
static void test_said_once(void **state)
{
	for (int i = 0; i < 12; i++) {
		for (int n = 0; n < 5; n++) {
			struct trace_event ev = factory_launch(&f, "k", 0);

			send(&ev);
		}
		step(i ? 3 : 30, 3, 1000);
	}
	finish();
	assert_true(lost("decode-host-bound") > 0);
	assert_int_equal(lost("launch-bound"), -1);
	assert_int_equal(lost("idle-between"), -1);
}

static void test_waits_for_gpu(void **state)
{
	step(30, 3, 1000);
	decode(10, 3, 40000);
	finish();
	assert_int_equal(lost("decode-host-bound"), -1);
}

static void gpu_work(uint64_t ns)
{
	struct trace_event ev = {
		.kind = EVENT_GPU, .type = TYPE_GPU, .op = "kernel", .pid = 100, .tid = 100};

	ev.name = "kernel";
	ev.gpu.call = "cuLaunchKernel";
	ev.gpu.kernel = "gemm";
	/* in the step's wait, of a call in the step */
	ev.start_ns = prev_end_ns - 900;
	ev.end_ns = ev.start_ns + ns;
	ev.gpu.queue_ns = 1000;
	send(&ev);
}

/* Measured: three quarters of the time, and nearly all. */
static void test_measured(void **state)
{
	step(30, 3, 1000);
	for (int i = 0; i < 12; i++) {
		step(3, 3, 1000);
		gpu_work(27000);
	}
	finish();
	assert_int_equal(serving()->res.decode.gpu_ns, 12 * 27000);
	assert_int_equal(lost("decode-host-bound"), 12 * (STEP_NS + 1000) + 11 * 1000 - 12 * 27000);
}

static void test_measured_busy(void **state)
{
	step(30, 3, 1000);
	for (int i = 0; i < 12; i++) {
		step(3, 3, 1000);
		gpu_work(34000);
	}
	finish();
	assert_int_equal(lost("decode-host-bound"), -1);
}

static void prefill_between(uint64_t ns)
{
	step(30, 3, 1000);
	decode(10, 3, 1000);
	step(900, 4, ns);
	decode(10, 4, 1000);
	finish();
}

static void test_blocks(void **state)
{
	prefill_between(1000000);
	assert_int_equal(lost("prefill-blocks-decode"), 999000);
}

/* The shares of GPU and host decide on the advice. */
static void check_blocks(uint64_t gpu_ns, const char *brief, const char *advice)
{
	const struct finding *x;

	step(30, 3, 1000);
	decode(10, 3, 1000);
	step(900, 4, 1000000 - STEP_NS);
	gpu_work(gpu_ns);
	decode(10, 4, 1000);
	finish();
	x = found("prefill-blocks-decode");
	assert_non_null(x);
	assert_non_null(strstr(x->brief, brief));
	assert_ptr_equal(strstr(x->advice, advice), x->advice);
}

static void test_blocks_by_host(void **state)
{
	check_blocks(100000,
		     "; in them the GPU works for 10.0 % of the time, the host alone for 90.0 %",
		     "Launch prompts with fewer calls");
}

static void test_blocks_by_gpu(void **state)
{
	check_blocks(900000,
		     "; in them the GPU works for 90.0 % of the time, the host alone for 10.0 %",
		     "Cut long prompts into chunks");
}

static void test_blocks_not(void **state)
{
	prefill_between(100000);
	assert_int_equal(lost("prefill-blocks-decode"), -1);
}

/* Ten times one sequence ends and another begins: at a varying limit, and at a fixed one. */
static void refill(unsigned vary)
{
	step(30, 6, 1000);
	for (unsigned i = 0; i < 10; i++) {
		decode(3, 6 + i % 3 * vary, 1000);
		step(40, 6, 1000);
	}
	decode(3, 6, 1000);
	finish();
}

static void test_cache(void **state)
{
	refill(1);
	assert_int_equal(lost("cache-too-small"), -1);
	assert_int_equal(serving()->res.admit_cnt, 10);
}

static void test_cache_small(void **state)
{
	const unsigned levels[] = {9, 9, 8, 8, 7, 7, 9, 9, 8, 8, 7, 7, 9, 9};

	step(30, 9, 1000);
	for (unsigned i = 0; i < 12; i++) {
		decode(2, levels[i], 1000);
		decode(1, levels[i + 1], 1000);
		step(60, levels[i + 1], 1000);
	}
	decode(3, 9, 1000);
	finish();
	assert_int_equal(lost("cache-too-small"), 0);
	assert_int_equal(found("cache-too-small")->v.cache_small.low, 7);
	assert_int_equal(found("cache-too-small")->v.cache_small.high, 9);
}

static void test_cache_fixed(void **state)
{
	refill(0);
	assert_int_equal(lost("cache-too-small"), -1);
	assert_int_equal(serving()->res.refill_cnt, 10);
}

static void test_graphs_unused(void **state)
{
	capture(0xa0, 4);
	step(30, 3, 1000);
	for (int i = 0; i < 20; i++)
		replay(0xa0, 4, 1000);
	decode(10, 9, 1000);
	finish();
	assert_int_equal(lost("graphs-not-used"), 10 * (STEP_NS - REPLAY_NS));
	assert_non_null(strstr(found("graphs-not-used")->text, "more sequences"));
	assert_int_equal(lost("graphs-padded"), -1);
}

static void test_graphs_used(void **state)
{
	capture(0xa0, 4);
	step(30, 3, 1000);
	for (int i = 0; i < 20; i++)
		replay(0xa0, 4, 1000);
	decode(1, 9, 1000);
	finish();
	assert_int_equal(lost("graphs-not-used"), -1);
}

static void test_padded(void **state)
{
	capture(0xa0, 8);
	step(30, 3, 1000);
	for (int i = 0; i < 20; i++)
		replay(0xa0, 5, 1000);
	finish();
	assert_int_equal(lost("graphs-padded"), 0);
	assert_non_null(strstr(found("graphs-padded")->text, "20 of 20"));
	assert_non_null(strstr(found("graphs-padded")->text, "37.5 %"));
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_host_bound),    T(test_idle_between_times),
		T(test_said_once),     T(test_waits_for_gpu),
		T(test_measured),      T(test_measured_busy),
		T(test_blocks),	       T(test_blocks_by_host),
		T(test_blocks_by_gpu), T(test_blocks_not),
		T(test_cache),	       T(test_cache_small),
		T(test_cache_fixed),   T(test_graphs_unused),
		T(test_graphs_used),   T(test_padded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
