/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The critical path of a step, for events with a path that was worked out by hand. tests/oracle has
 * whole programs.
 */
#include "findings_check.h"
#include "report/step/step_priv.h"

#define ROUNDS 10

/* An execution of the call that was made last, this long after its end. */
static void ran(uint64_t after, uint64_t ns, uint64_t stream)
{
	struct trace_event ev = {.kind = EVENT_GPU, .type = TYPE_GPU, .op = "kernel"};

	ev.name = "kernel";
	ev.pid = ev.tid = f.pid;
	ev.comm = "";
	ev.start_ns = f.now_ns + after;
	ev.end_ns = ev.start_ns + ns;
	ev.gpu.kernel = "k";
	ev.gpu.call_id = f.next_id - 1;
	ev.gpu.gpu_stream = stream;
	send(&ev);
}

static void launch(void)
{
	struct trace_event ev = factory_launch(&f, "k", 0xa);

	send(&ev);
}

static void wait_for(uint64_t ns)
{
	struct trace_event ev = factory_on_stream(&f, "cuStreamSynchronize", 0xa, ns);

	send(&ev);
}

static void call(const char *symbol, uint64_t ns)
{
	struct trace_event ev = factory_call(&f, symbol, 500, ns);

	send(&ev);
}

static const struct step *median(void)
{
	const struct step_result *res;

	finish();
	res = step_result(r);
	assert_non_null(res);
	return &res->steps[STEP_MEDIAN];
}

/* Time of this kind; the parts of each step add up to it. */
static uint64_t part(const struct step *step, enum step_kind kind)
{
	uint64_t ns = 0, sum = 0;

	for (unsigned i = 0; i < step->part_cnt; i++) {
		ns += step->parts[i].kind == kind ? step->parts[i].ns : 0;
		sum += step->parts[i].ns;
	}
	assert_int_equal(sum, step->end_ns - step->begin_ns);
	return ns;
}

/* Two launches of 5,000 ns with their pauses; the first kernel starts 1,000 after its call, takes
 * 50,000, and the second follows after 500. The wait returns 3,000 after it. */
static void test_gpu_bound(void **state)
{
	const struct step *x;

	for (int i = 0; i < ROUNDS; i++) {
		launch();
		ran(1000, 50000, 1);
		launch();
		ran(1000 + 50000 + 500 - 5000, 20000, 1);
		wait_for(66000 + 3000); /* the work ends 66,000 after its begin */
	}
	x = median();
	assert_int_equal(part(x, STEP_BETWEEN), 1000);
	assert_int_equal(part(x, STEP_LAUNCH), 4000);
	assert_int_equal(part(x, STEP_LATENCY), 1000);
	assert_int_equal(part(x, STEP_KERNEL), 70000);
	assert_int_equal(part(x, STEP_GAP), 500);
	assert_int_equal(part(x, STEP_RETURN), 3000);
	assert_int_equal(x->busy_ns, 70000);
}

/* The work has ended when the wait begins. */
static void test_host_bound(void **state)
{
	const struct step *x;

	for (int i = 0; i < ROUNDS; i++) {
		launch();
		ran(0, 200, 1);
		wait_for(2000);
	}
	x = median();
	assert_int_equal(part(x, STEP_KERNEL), 0);
	assert_int_equal(part(x, STEP_LAUNCH), 4000);
	assert_int_equal(part(x, STEP_BETWEEN), 1500);
	assert_int_equal(part(x, STEP_RETURN), 2000);
	assert_int_equal(x->blocked_ns, 0);
}

/* Without GPU times all of a wait counts as one. */
static void test_no_gpu_times(void **state)
{
	const struct step *x;

	for (int i = 0; i < ROUNDS; i++) {
		launch();
		wait_for(9000);
	}
	x = median();
	assert_int_equal(part(x, STEP_WAIT), 9000);
	assert_int_equal(x->blocked_ns, 9000);
	assert_false(step_result(r)->has_gpu_times);
}

/* Executions without a call, and one that starts before its call (its clock is wrong). */
static void test_odd_executions(void **state)
{
	for (int i = 0; i < ROUNDS; i++) {
		struct trace_event ev = factory_launch(&f, "k", 0xa);

		f.next_id += 1000000;
		ran(0, 3000, 1);
		f.next_id -= 1000000;
		send(&ev);
		ran(-9000, 8000, 2);
		ran(500, 8000, 1);
		wait_for(20000);
	}
	part(median(), STEP_KERNEL);
}

/* Lines of a damaged trace overlap. */
static void test_overlapping(void **state)
{
	for (int i = 0; i < ROUNDS; i++) {
		launch();
		f.now_ns -= 3000;
		call("cuMemAlloc_v2", 50000);
		f.now_ns -= 20000;
		launch();
		ran(1000, 70000, 1);
		wait_for(80000);
	}
	part(median(), STEP_MEMORY);
}

/* A call of a library has the time that no driver call inside it has; a plan has all. */
static void nested(const char *symbol, uint64_t library, uint64_t memory, enum step_kind kind)
{
	const struct step *x;

	for (int i = 0; i < ROUNDS; i++) {
		struct trace_event outer = factory_call(&f, symbol, 500, 30000), inner;

		f.now_ns -= 20000;
		inner = factory_call(&f, "cuMemAlloc_v2", 0, 5000);
		f.now_ns += 15000;
		send(&inner);
		send(&outer);
		launch();
		ran(0, 200, 1);
		wait_for(2000);
	}
	x = median();
	assert_int_equal(part(x, kind), library);
	assert_int_equal(part(x, STEP_MEMORY), memory);
}

static void test_nested_library(void **state)
{
	nested("cublasGemmEx", 25000, 5000, STEP_LIBRARY);
}

static void test_nested_plan(void **state)
{
	nested("cudnnBackendFinalize", 30000, 0, STEP_PLAN);
}

/* Another thread launches while this one is outside calls: the path goes through it. */
static void test_alternating(void **state)
{
	const struct step *x;

	for (int i = 0; i < ROUNDS; i++) {
		launch();
		ran(0, 200, 1);
		f.tid++;
		launch();
		call("cuMemAlloc_v2", 7000);
		f.tid--;
		wait_for(2000);
	}
	x = median();
	assert_int_equal(part(x, STEP_MEMORY), 7000);
	assert_int_equal(part(x, STEP_LAUNCH), 8000);
	assert_int_equal(part(x, STEP_BETWEEN), 1000 + 1000 + 500 + 500);
}

/* More threads than are kept. */
static void test_many_threads(void **state)
{
	for (int i = 0; i < ROUNDS; i++) {
		for (unsigned t = 0; t < STEP_THREADS + 9; t++) {
			f.tid = f.pid + 1 + t;
			call("cuMemsetD8Async", 900);
			ran(0, 200, 1);
		}
		f.tid = f.pid;
		launch();
		ran(0, 200, 1);
		wait_for(2000);
	}
	part(median(), STEP_LAUNCH);
	assert_in_range(step_result(r)->unchanged.total_ns, step_result(r)->total_ns - ROUNDS * 100,
			step_result(r)->total_ns + ROUNDS * 100);
}

/* The last call has not returned. */
static void test_unfinished(void **state)
{
	struct trace_event ev;

	for (int i = 0; i < ROUNDS; i++) {
		launch();
		ran(0, 200, 1);
		wait_for(2000);
	}
	launch();
	ev = factory_on_stream(&f, "cuStreamSynchronize", 0xa, 5000000);
	ev.unfinished = true;
	send(&ev);
	assert_int_equal(part(median(), STEP_RETURN), 2000);
}

/* Only steps whose events were kept count. */
static void test_full_ring(void **state)
{
	const struct step *x;
	uint64_t steps = 0;

	for (uint32_t i = 0; i < STEP_KEPT + 3000; i += 101, steps++) {
		for (int n = 0; n < 100; n++)
			launch();
		wait_for(2000);
	}
	x = median();
	assert_int_equal(part(x, STEP_LAUNCH), 400000);
	assert_in_range(step_result(r)->step_cnt, STEP_KEPT / 101 - 2, STEP_KEPT / 101);
	assert_true(step_result(r)->step_cnt < steps);
	assert_int_equal(step_result(r)->steps[STEP_FIRST].part_cnt, 0);
}

/* A graph of the launches between two waits: 6,000 and 125 for each node, instead of the launches
 * and the pauses between them. */
static void test_graph(void **state)
{
	const struct step_result *res;
	const struct step_what_if *graph = NULL;

	for (int i = 0; i < ROUNDS; i++) {
		for (int n = 0; n < 40; n++) {
			launch();
			ran(1000, 100, 1);
		}
		wait_for(2000);
	}
	median();
	res = step_result(r);
	for (unsigned i = 0; i < res->what_if_cnt; i++)
		if (res->what_ifs[i].change.kind == CHANGE_GRAPH)
			graph = &res->what_ifs[i];
	assert_non_null(graph);
	assert_int_equal(res->unchanged.step_ns, 40 * 5000 + 2500);
	/* The launch, 40 nodes of 100 ns that are 300 apart at most, the wait's return. */
	assert_in_range(graph->step_ns, 6000 + 40 * 125 + 40 * 100,
			6000 + 40 * 125 + 40 * 400 + 6000);
}

/* Where calls are made in Python. */
struct one_stack {
	struct stack stack;
	struct stack_frame frames[2];
};
static struct one_stack in_loop = {
	.stack = {.id = 1, .frame_cnt = 1},
	.frames = {{.symbol = "main", .module = "/app/train.py", .python = 1, .line = 15}},
};
static struct one_stack in_loader = {
	.stack = {.id = 2, .frame_cnt = 2},
	.frames = {{.symbol = "__next__",
		    .module = "/x/torch/utils/data/dataloader.py",
		    .python = 1,
		    .line = 730},
		   {.symbol = "main", .module = "/app/train.py", .python = 1, .line = 14}},
};
static struct one_stack in_thread = {
	.stack = {.id = 3, .frame_cnt = 1},
	.frames = {{.symbol = "run", .module = "/app/other.py", .python = 1, .line = 3}},
};

/* A step: a pause, then this call, a launch and a wait until the kernel has ended. */
static void step_after(uint64_t pause_ns, const char *symbol, const struct one_stack *at)
{
	struct trace_event ev;

	f.now_ns += pause_ns;
	ev = !strncmp(symbol, "cuMemcpy", 8) ? factory_copy(&f, symbol, COPY_DIR_HTOD, 4096, 3000)
					     : factory_call(&f, symbol, 700, 3000);
	ev.stack = at ? &at->stack : NULL;
	send(&ev);
	launch();
	ran(1000, 50000, 1);
	wait_for(1000 + 50000 - 500 + 2000);
}

static const struct step_gap *gaps_of(enum step_gap_kind kind)
{
	const struct step_result *res;

	finish();
	res = step_result(r);
	assert_non_null(res);
	/* A time is of one kind. */
	assert_false(res->gaps[STEP_GAP_INPUT].cnt && res->gaps[STEP_GAP_THREAD].cnt);
	return &res->gaps[kind];
}

/* 2,000,700 before each copy, and each step without it 61,500 + 3,000. The first call has nothing
 * before it. */
static void test_gap_before_copy(void **state)
{
	const struct step_gap *x;

	for (int i = 0; i < ROUNDS; i++)
		step_after(2000000, "cuMemcpyHtoDAsync_v2", &in_loop);
	x = gaps_of(STEP_GAP_INPUT);
	assert_in_range(x->cnt, ROUNDS - 2, ROUNDS - 1);
	assert_int_equal(x->step_cnt, x->cnt);
	assert_int_equal(x->typical_ns, 2000700);
	assert_int_equal(x->ns, x->cnt * 2000700);
	assert_int_equal(x->saved_ns, x->ns);
	assert_int_equal(x->after_id, x->before_id + 1);
	assert_null(x->loader);
	assert_null(x->before);
	assert_string_equal(x->fn->name, "cuMemcpyHtoDAsync");
	says("data-loading", "before cuMemcpyHtoDAsync in train.py:15 main. That");
	says("data-loading", "probably prepares");
	assert_true(found("data-loading")->confidence < 0.7);
}

/* The call after it is in the library. */
static void test_gap_in_loader(void **state)
{
	for (int i = 0; i < ROUNDS; i++)
		step_after(2000000, "cuCtxGetDevice", &in_loader);
	assert_ptr_equal(gaps_of(STEP_GAP_INPUT)->loader, &in_loader.frames[0]);
	says("data-loading", "before cuCtxGetDevice in dataloader.py:730 __next__. That");
	says("data-loading",
	     "loads data then: dataloader.py:730 __next__, called from train.py:14 main.");
}

static void test_short_gap(void **state)
{
	for (int i = 0; i < ROUNDS; i++)
		step_after(499000, "cuMemcpyHtoDAsync_v2", &in_loop);
	assert_int_equal(gaps_of(STEP_GAP_INPUT)->cnt, 0);
}

/* Two slow batches of ten steps. */
static void test_gap_in_few(void **state)
{
	for (int i = 0; i < ROUNDS; i++)
		step_after(i == 4 || i == 7 ? 2000000 : 0, "cuMemcpyHtoDAsync_v2", &in_loop);
	assert_int_equal(gaps_of(STEP_GAP_INPUT)->cnt, 0);
}

/* Nothing shows what it is. */
static void test_gap_of_unknown(void **state)
{
	for (int i = 0; i < ROUNDS; i++)
		step_after(2000000, "cuCtxGetDevice", &in_loop);
	assert_int_equal(gaps_of(STEP_GAP_INPUT)->cnt, 0);
}

/* The GPU has work meanwhile. */
static void test_gap_hidden(void **state)
{
	for (int i = 0; i < ROUNDS; i++) {
		struct trace_event ev;

		launch();
		ran(1000, 3000000, 1);
		f.now_ns += 2000000;
		ev = factory_copy(&f, "cuMemcpyHtoDAsync_v2", COPY_DIR_HTOD, 4096, 3000);
		send(&ev);
		wait_for(1000000);
	}
	assert_int_equal(gaps_of(STEP_GAP_INPUT)->cnt, 0);
}

/* Another thread makes two calls in each of these times. */
static void test_gap_of_thread(void **state)
{
	const struct step_gap *x;

	for (int i = 0; i < ROUNDS; i++) {
		uint64_t now = f.now_ns;

		f.tid++;
		for (unsigned n = 0; n < 2; n++) {
			struct trace_event ev = factory_call(&f, "cuCtxGetDevice", 500000, 1000);

			ev.stack = &in_thread.stack;
			send(&ev);
		}
		f.tid--;
		f.now_ns = now;
		step_after(1200000, "cuMemcpyHtoDAsync_v2", &in_loop);
	}
	x = gaps_of(STEP_GAP_THREAD);
	assert_in_range(x->cnt, ROUNDS - 2, ROUNDS - 1);
	assert_int_equal(x->call_cnt, 2 * x->cnt);
	assert_int_equal(x->tid, f.tid + 1);
	assert_ptr_equal(x->other, &in_thread.frames[0]);
	says("other-thread", "in other.py:3 run for example");
}

static void test_changes(void **state)
{
	static const char *const good[] = {"host=0.5",	  "gpu=0",     "kernel:a=b=2",
					   "plans",	  "graph",     "drop:cuMemAlloc",
					   "cache:x",	  "no-wait:x", "graph:a:b",
					   "fuse:x",	  "on-time:0", "on-time:999999999",
					   "overlap-comm"};
	static const char *const bad[] = {"",
					  "host",
					  "host=",
					  "host=-1",
					  "host=101",
					  "gpu=1x",
					  "gpu=nan",
					  "kernel:=1",
					  "kernel=1",
					  "drop",
					  "drop:",
					  "plans=1",
					  "graph:",
					  "fuse",
					  "on-time",
					  "on-time:",
					  "on-time:-1",
					  "on-time: 1",
					  "on-time:1x",
					  "on-time:1000000000",
					  "overlap-comm:x",
					  "other"};
	struct step_change c;

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		assert_true(step_change_read(good[i], strlen(good[i]), &c));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (step_change_read(bad[i], strlen(bad[i]), &c))
			fail_msg("%s", bad[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_gpu_bound, setup, teardown),
		cmocka_unit_test_setup_teardown(test_host_bound, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_gpu_times, setup, teardown),
		cmocka_unit_test_setup_teardown(test_odd_executions, setup, teardown),
		cmocka_unit_test_setup_teardown(test_overlapping, setup, teardown),
		cmocka_unit_test_setup_teardown(test_nested_library, setup, teardown),
		cmocka_unit_test_setup_teardown(test_nested_plan, setup, teardown),
		cmocka_unit_test_setup_teardown(test_alternating, setup, teardown),
		cmocka_unit_test_setup_teardown(test_many_threads, setup, teardown),
		cmocka_unit_test_setup_teardown(test_unfinished, setup, teardown),
		cmocka_unit_test_setup_teardown(test_full_ring, setup, teardown),
		cmocka_unit_test_setup_teardown(test_graph, setup, teardown),
		cmocka_unit_test_setup_teardown(test_gap_before_copy, setup, teardown),
		cmocka_unit_test_setup_teardown(test_gap_in_loader, setup, teardown),
		cmocka_unit_test_setup_teardown(test_short_gap, setup, teardown),
		cmocka_unit_test_setup_teardown(test_gap_in_few, setup, teardown),
		cmocka_unit_test_setup_teardown(test_gap_of_unknown, setup, teardown),
		cmocka_unit_test_setup_teardown(test_gap_hidden, setup, teardown),
		cmocka_unit_test_setup_teardown(test_gap_of_thread, setup, teardown),
		cmocka_unit_test(test_changes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
