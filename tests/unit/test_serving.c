/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Serving: steps and their properties. */
#include "serving_steps.h"

static void check_steps(const char *phases)
{
	const struct serving_thread *t = serving_main(serving());
	char got[256] = "";

	assert_non_null(t);
	for (unsigned i = 0; i < t->cnt && i < sizeof(got) - 1; i++)
		got[i] = ".pd"[t->steps[i].phase];
	assert_string_equal(got, phases);
}

static void test_steps(void **state)
{
	const struct serving_result *res = &serving()->res;
	const struct serving_thread *t;

	step(30, 3, 1000);
	decode(4, 3, 1000);
	step(202, 4, 91000);
	decode(5, 4, 1000);
	finish();
	check_steps("pddddpddddd");
	t = serving_main(serving());
	assert_true(res->found);
	assert_int_equal(serving()->axis, AXIS_N);
	assert_true(serving()->axis_confidence > 0.9);
	assert_int_equal(res->prefill.cnt, 2);
	assert_int_equal(res->prefill.tokens, 232);
	assert_int_equal(res->prefill.max_ns, STEP_NS + 91000);
	assert_int_equal(res->decode.cnt, 9);
	assert_int_equal(res->decode.tokens, 4 * 3 + 5 * 4);
	assert_int_equal(res->decode.ns, 9 * (STEP_NS + 1000));
	assert_int_equal(res->decode.sync_ns, 9 * 1000);
	assert_int_equal(res->decode.launches, 9 * 7);
	assert_int_equal(res->decode.launch_ns, 9 * 7 * 4000);
	assert_int_equal(res->batch_median, 4);
	assert_int_equal(serving()->requests_min, 4);
	assert_int_equal(serving()->rows_made, 3 + 12 + 4 + 20);
	assert_int_equal(t->weight_cnt, 2 * LAYERS + 1);
	assert_int_equal(t->weight_bytes, 4 * (LAYERS * 2 * 3 * HIDDEN * HIDDEN + VOCAB * HIDDEN));
	/* A step begins 1000 ns after the previous one. */
	assert_int_equal(serving()->between_ns, 10 * 1000);
	check_json("'tokens_are':'n'");
}

static void load_code(void)
{
	struct trace_event ev = factory_call(&f, "cuModuleLoadData", 0, 9000000);

	send(&ev);
}

/* A step in which code is loaded is not a usual one; loading between two affects neither. */
static void test_setup_steps(void **state)
{
	step(30, 3, 1000);
	layers(30, false);
	load_code();
	gemm(HEAD, VOCAB, 3, HIDDEN, false);
	wait_ns(1000);
	load_code();
	decode(9, 3, 1000);
	finish();
	check_steps("ppddddddddd");
	assert_int_equal(serving()->setup.cnt, 1);
	assert_true(serving()->setup.ns > 9000000);
	assert_int_equal(serving()->res.prefill.cnt, 1);
	assert_int_equal(serving()->res.prefill.ns, STEP_NS + 1000);
	assert_int_equal(serving()->res.decode.cnt, 9);
	check_json("'setup':{'count':1");
}

static void test_rows(void **state)
{
	by_rows = true;
	step(30, 3, 1000);
	decode(9, 3, 1000);
	step(11, 4, 1000);
	decode(9, 4, 1000);
	finish();
	by_rows = false;
	assert_true(serving()->res.found);
	assert_int_equal(serving()->axis, AXIS_M);
	assert_int_equal(serving()->res.prefill.tokens, 41);
	check_json("'tokens_are':'m'");
}

/* A wait in the middle, and none at the end. */
static void test_waits(void **state)
{
	alloc("cuMemAlloc_v2", 0x1000, 0x8000 + HEAD);
	for (int i = 0; i < 12; i++) {
		layers(i % 4 ? 3 : 20, false);
		if (i % 3)
			wait_ns(2000);
		gemm(HEAD, VOCAB, 3, HIDDEN, false);
		if (i % 2)
			wait_ns(1000);
	}
	finish();
	check_steps("pdddpdddpddd");
}

/* Backward passes have the tokens as inner dimension. */
static void test_training(void **state)
{
	for (int i = 0; i < 40; i++) {
		uint64_t tokens = 100 + i % 3;

		layers(tokens, false);
		for (int l = 0; l < 2 * LAYERS; l++) {
			gemm(0x1000 + l * 0x100, HIDDEN, tokens, 3 * HIDDEN, false);
			gemm(0x77777, HIDDEN, 3 * HIDDEN, tokens, false);
		}
		wait_ns(1000);
	}
	finish();
	assert_false(serving()->res.found);
	assert_null(serving_main(serving()));
}

/* The same number of tokens each time could be anything. */
static void test_same_tokens(void **state)
{
	decode(40, 8, 1000);
	finish();
	assert_false(serving()->res.found);
}

/* Logits of all tokens: more than the previous step, then parts of a long prompt. */
static void test_by_tokens(void **state)
{
	step(30, 30, 1000);
	decode(6, 3, 1000);
	step(512, 512, 1000);
	step(512, 512, 1000);
	step(300, 300, 1000);
	decode(6, 4, 1000);
	step(6, 6, 1000);
	decode(3, 5, 1000);
	finish();
	check_steps("pddddddpppddddddpddd");
	assert_string_equal(serving()->phase_by, "tokens");
}

/* The first is the first part of long prompts; the next ones are the rest. */
static void test_rest_of_prompts(void **state)
{
	step(256, 256, 1000);
	step(106, 106, 1000);
	decode(8, 8, 1000);
	step(107, 107, 1000);
	decode(8, 4, 1000);
	finish();
	check_steps("ppddddddddpdddddddd");
}

/* As seen on an H100 (docs/measured/serving.md): prompts come in parts of 256 tokens, the limit of
 * a step, and the rest. */
static void test_full_pieces(void **state)
{
	for (int i = 0; i < 3; i++)
		step(256, 256, 1000);
	step(106, 106, 1000);
	decode(20, 8, 1000);
	step(256, 256, 1000);
	step(200, 200, 1000);
	decode(20, 8, 1000);
	step(256, 256, 1000);
	step(107, 107, 1000);
	decode(5, 4, 1000);
	decode(5, 3, 1000);
	finish();
	check_steps("ppppddddddddddddddddddddppddddddddddddddddddddppdddddddddd");
}

/* Attached after the last prompt. */
static void test_no_prompts(void **state)
{
	for (int i = 8; i > 2; i--)
		decode(4, i, 1000);
	finish();
	check_steps("dddddddddddddddddddddddd");
}

/* The runs of an engine before it captures a graph are as large as the graph. Rotary angles are not
 * a layer. */
static void test_padded_engine(void **state)
{
	const struct serving_thread *t;

	step(256, 256, 1000);
	for (unsigned i = 0; i < 2; i++) {
		gemm(0x5000, 8, 32, 1, false);
		step(64, 64, 1000);
	}
	capture(0xa0, 64);
	for (unsigned i = 0; i < 8; i++) {
		struct trace_event ev = factory_on_stream(&f, "cuGraphLaunch", 0, 4000);

		call_args(&ev, "'hGraphExec':'0xa1'");
		wait_ns(1000);
	}
	finish();
	check_steps("pdddddddddd");
	t = serving_main(serving());
	assert_true(t->steps[1].at_most && t->steps[5].at_most && !t->steps[0].at_most);
	assert_int_equal(serving()->requests_min, 0);
	assert_true(serving()->rows_at_most);
	assert_int_equal(t->weight_cnt, 2 * LAYERS + 1);
}

static void test_marks(void **state)
{
	for (int i = 0; i < 10; i++) {
		struct trace_event ev = factory_launch(&f, "k", 0);

		ev.range_text = i % 5 ? "a Decode step" : "PREFILL";
		send(&ev);
		step(i % 5 ? 2 : 40, i % 5 ? 2 : 40, 1000);
	}
	finish();
	check_steps("pddddpdddd");
	assert_string_equal(serving()->phase_by, "ranges");
}

static void test_graphs(void **state)
{
	const struct serving_result *res = &serving()->res;
	const struct serving_thread *t;

	capture(0xa0, 4);
	capture(0xb0, 8);
	step(30, 3, 1000);
	for (int i = 0; i < 5; i++)
		replay(0xa0, 3, 1000);
	for (int i = 0; i < 5; i++)
		replay(0xb0, 5, 1000);
	decode(2, 9, 1000);
	finish();
	check_steps("pdddddddddddd");
	t = serving_main(serving());
	assert_int_equal(t->steps[1].tokens, 3);
	assert_int_equal(t->steps[1].padded_of[AXIS_N], 4);
	assert_int_equal(serving()->replay_cnt, 10);
	assert_int_equal(res->padded_rows, 20 + 40);
	assert_int_equal(res->padded_real_rows, 15 + 25);
	assert_int_equal(res->eager_cnt, 2);
	assert_int_equal(res->eager_batch_max, 9);
	assert_int_equal(res->graph_batch_max, 8);
	check_json("'sizes':[{'tokens':4,'replays':5},{'tokens':8,'replays':5}]");
}

/* A thread for each round, and one that works at the same time. */
static void test_threads(void **state)
{
	struct factory round;

	for (unsigned i = 0; i < 3; i++) {
		f.tid = 101 + i;
		step(30, 3, 1000);
		decode(9, 3, 1000);
	}
	round = f;
	f.now_ns = FACTORY_BASE_NS;
	f.tid = 200;
	for (unsigned i = 0; i < 5; i++)
		step(30 - i, 3, 1000);
	step(30, 3, 1000);
	decode(3, 3, 1000);
	f = round;
	finish();
	check_steps("pdddddddddpdddddddddpddddddddd");
	assert_int_equal(serving()->between_ns, 29 * 1000);
	check_json("'others':[{'pid':100,'tid':200,'steps':9}]");
	/* Calls in each of them make one row; there is no previous call across threads. */
	check_json("'functions':[{'from':'cuStreamSynchronize','to':'cuLaunchKernel','count':27,");
	assert_int_equal(serving()->pause_keys.cnt, 1);
}

/* Two processes, one of which makes more steps. */
static void test_ranks(void **state)
{
	struct factory other;

	step(30, 3, 1000);
	decode(20, 3, 1000);
	other = f;
	f.pid = f.tid = 200;
	step(30, 3, 1000);
	decode(10, 3, 1000);
	f.pid = f.tid = other.pid;
	finish();
	assert_int_equal(serving_main(serving())->pid, 100);
	check_json("'others':[{'pid':200,'tid':200,'steps':11}]");
}

/* Invalid numbers, more steps than the limit, more threads. */
static void test_hostile(void **state)
{
	const uint64_t odd[] = {0, 1, UINT64_MAX, 1ull << 63, UINT32_MAX, 7};
	struct serving *s = r->an[AN_SERVING];

	for (unsigned i = 0; i < 200; i++)
		gemm(odd[i % 6], odd[i % 5], odd[i % 6], odd[i % 4], i % 7 == 0);
	for (unsigned i = 0; i < 5000; i++) {
		f.tid = 1000 + i;
		step(odd[i % 6], odd[i % 5], 1);
	}
	f.tid = 100;
	for (unsigned i = 0; i < SERVING_STEPS_MAX; i++) {
		struct trace_event ev = factory_call(&f, "cublasSgemm_v2", 0, 10);

		ev.has = HAS_GEMM;
		ev.gemm = (struct gemm_info){
			.m = 5, .n = i % 9 + 1, .k = 5, .batch = 1, .flops = 1, .a_type = "x"};
		call_args(&ev, "'A':'0x1'");
		gemm(2, 9, i % 9 + 1, 9, false);
		wait_ns(1);
	}
	finish();
	assert_true(s->lost_calls > 0);
	assert_true(s->thread_keys.cnt <= SERVING_THREADS_MAX);
	assert_true(s->step_rows.used <= 2 * SERVING_STEPS_MAX);
	assert_true(s->lost_steps > 0);
	check_json("'serving':");
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_setup_steps), T(test_steps),	      T(test_rows),
		T(test_waits),	     T(test_training),	      T(test_same_tokens),
		T(test_by_tokens),   T(test_rest_of_prompts), T(test_full_pieces),
		T(test_no_prompts),  T(test_padded_engine),   T(test_marks),
		T(test_graphs),	     T(test_threads),	      T(test_ranks),
		T(test_hostile),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
