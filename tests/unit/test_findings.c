/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The report's findings: for each rule a program that triggers it, with the loss worked out by
 * hand, and a similar one that must not. Calls of the factory: a launch begins 1000 ns after the
 * previous call and takes 4000.
 */
#include "findings_check.h"

static void wait_for(uint64_t ns)
{
	struct trace_event ev = factory_on_stream(&f, "cuStreamSynchronize", 0, ns);

	send(&ev);
}

static void call(const char *symbol, uint64_t gap, uint64_t ns)
{
	struct trace_event ev = factory_call(&f, symbol, gap, ns);

	send(&ev);
}

static void launches(int cnt)
{
	for (int i = 0; i < cnt; i++) {
		struct trace_event ev = factory_launch(&f, i % 2 ? "odd" : "even", 0);

		send(&ev);
	}
}

/* 10 iterations of 102,500 ns, but the first has no gap before it; 2000 of each are waits. */
static void test_launch_bound(void **state)
{
	for (int i = 0; i < 10; i++) {
		launches(20);
		wait_for(2000);
	}
	loses("launch-bound", 10 * (102500 - 2000) - 1000);
}

/* The GPU lags: a third of the time is spent waiting for it. */
static void test_not_launch_bound(void **state)
{
	for (int i = 0; i < 10; i++) {
		launches(20);
		wait_for(50000);
	}
	finds_no("launch-bound");
}

/* The host waits in async copies to pageable memory. */
static void test_not_launch_bound_copy(void **state)
{
	for (int i = 0; i < 10; i++) {
		struct trace_event ev;

		launches(20);
		ev = factory_copy(&f, "cuMemcpyDtoHAsync_v2", COPY_DIR_DTOH, 8, 50000);
		send(&ev);
		wait_for(2000);
	}
	finds_no("launch-bound");
}

/* 30,000 of each 172,500 ns, while three other changes would save more. */
static void test_plans(void **state)
{
	for (int i = 0; i < 10; i++) {
		call("cuMemAlloc_v2", 500, 39500);
		call("cuMemAllocHost_v2", 500, 39500);
		call("cuMemAllocManaged", 500, 39500);
		call("cudnnBackendFinalize", 0, 30000);
		launches(4);
		wait_for(2000);
	}
	finish();
	assert_non_null(found("plans-in-loop"));
	assert_in_range(found("plans-in-loop")->lost_ns, 9 * 30000, 10 * 30000);
	says("plans-in-loop", "cudnnBackendFinalize takes 30.0 µs of a step of 172 µs");
}

/* Plans before the loop, and plans that take 1 % of it. */
static void test_no_plans(void **state)
{
	call("cudnnBackendFinalize", 0, 50000000);
	for (int i = 0; i < 10; i++) {
		call("cudnnBackendFinalize", 0, 1000);
		launches(20);
		wait_for(2000);
	}
	finds_no("plans-in-loop");
}

/* An execution on the GPU of the given length, this long after the end of the last call. */
static void executed_as(const char *op, const char *kernel, uint64_t after, uint64_t ns)
{
	struct trace_event ev = {.kind = EVENT_GPU, .type = TYPE_GPU, .op = op, .name = op};

	ev.pid = ev.tid = f.pid;
	ev.comm = "";
	ev.start_ns = f.now_ns + after;
	ev.end_ns = ev.start_ns + ns;
	ev.gpu.kernel = kernel;
	send(&ev);
}

static void executed(const char *op, uint64_t after, uint64_t ns)
{
	executed_as(op, *op == 'k' ? "even" : NULL, after, ns);
}

static void executed_kernel(const char *kernel, uint64_t after, uint64_t ns)
{
	executed_as("kernel", kernel, after, ns);
}

/* 10 iterations in which the GPU is busy for 41,000 of 102,500 ns (the first begins later). It is
 * measured, so waits do not matter. */
static void test_host_bound(void **state)
{
	for (int i = 0; i < 10; i++) {
		launches(20);
		executed("kernel", 1000, 41000);
		wait_for(50000);
	}
	finish();
	assert_non_null(found("launch-bound"));
	says("launch-bound", "10 of 10 iterations");
	says("launch-bound", "busy for 27");
}

/* The same, in a trace of a minute: bins of the GPU's time are longer than an iteration, so they
 * cannot describe one. */
static void test_too_coarse(void **state)
{
	for (int i = 0; i < 10; i++) {
		launches(20);
		executed("kernel", 1000, 41000);
		wait_for(50000);
	}
	executed("kernel", 60000000000, 1000);
	finds_no("launch-bound");
	check_json("'iterations_unknown':'the trace is too long for iterations as short as these");
}

static void test_gpu_bound(void **state)
{
	for (int i = 0; i < 10; i++) {
		executed("kernel", 1000, 101000);
		launches(20);
		wait_for(2000);
	}
	finds_no("launch-bound");
}

/* 10 of 30 us, none while it computes. */
static void test_copies_alone(void **state)
{
	for (int i = 0; i < 10; i++) {
		executed("kernel", 0, 20000);
		executed("copy", 20000, 10000);
		call("cuCtxGetDevice", 20000, 10000);
	}
	loses("copies-alone", 100000);
	says("copies-alone", "33.3 %");
}

static void test_copies_beside(void **state)
{
	for (int i = 0; i < 10; i++) {
		executed("kernel", 0, 20000);
		executed("copy", 5000, 10000);
		call("cuCtxGetDevice", 10000, 10000);
	}
	finds_no("copies-alone");
}

/* In each iteration a kernel of NCCL runs alone for 10 of 51 us. */
static void test_comm_alone(void **state)
{
	for (int i = 0; i < 10; i++) {
		launches(20);
		executed("kernel", 0, 20000);
		executed_kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 10000, 20000);
		wait_for(41000);
	}
	finish();
	assert_non_null(found("communication-alone"));
	says("communication-alone",
	     "ran for 200 µs in the whole trace, 100 µs of that while the GPU did nothing else");
}

/* All of it runs beside other work. */
static void test_comm_beside(void **state)
{
	for (int i = 0; i < 10; i++) {
		launches(20);
		executed("kernel", 0, 30000);
		executed_kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 10000, 20000);
		wait_for(41000);
	}
	finds_no("communication-alone");
}

/* From each of 29 waits to the next launch: 1000 ns. */
static void test_small_syncs(void **state)
{
	for (int i = 0; i < 30; i++) {
		launches(1);
		wait_for(50000);
	}
	loses("small-syncs", 29 * 1000);
}

static void test_no_small_syncs(void **state)
{
	for (int i = 0; i < 30; i++) {
		launches(5);
		wait_for(50000);
	}
	finds_no("small-syncs");
}

static void test_no_small_syncs_large_copies(void **state)
{
	for (int i = 0; i < 30; i++) {
		copy("cuMemcpyHtoDAsync_v2", COPY_DIR_HTOD, MIB, "'srcHost':'0x20000'");
		wait_for(50000);
	}
	finds_no("small-syncs");
}

static void big_copy(void)
{
	struct trace_event ev =
		factory_copy(&f, "cuMemcpyHtoD_v2", COPY_DIR_HTOD, 100 * MIB, 20000000);

	call_args(&ev, "'srcHost':'0x20000'");
}

/* 100 MiB at 25 bytes a nanosecond: 4,194,304 ns. */
static void test_pageable(void **state)
{
	process("exec");
	big_copy();
	loses("pageable-copies", 20000000 - 4194304);
}

static void test_pinned(void **state)
{
	process("exec");
	alloc("cuMemAllocHost_v2", 0x20000, 100 * MIB);
	big_copy();
	finds_no("pageable-copies");
}

static void test_small_copies(void **state)
{
	for (int i = 0; i < 60; i++)
		copy("cuMemcpyHtoDAsync_v2", COPY_DIR_HTOD, 100, "'srcHost':'0x20000'");
	loses("small-copies", 59 * 1000);
}

static void test_no_small_copies(void **state)
{
	for (int i = 0; i < 60; i++) {
		copy("cuMemcpyHtoDAsync_v2", COPY_DIR_HTOD, 100, "'srcHost':'0x20000'");
		launches(1);
		copy("cuMemcpyHtoDAsync_v2", COPY_DIR_HTOD, 65536, "'srcHost':'0x20000'");
	}
	finds_no("small-copies");
}

static void allocate(void)
{
	struct trace_event ev = factory_alloc(&f, 4096, 4096);

	call_args(&ev, "'dptr':'0x7f%010llx','bytesize':4096", (unsigned long long)ev.id << 12);
}

/* An allocation takes 90,000 ns, a free 40,000. */
static void test_hot_allocations(void **state)
{
	for (int i = 0; i < 10; i++) {
		struct trace_event ev;

		launches(2);
		allocate();
		ev = factory_free(&f, 0);
		send(&ev);
		launches(2);
		wait_for(2000);
	}
	loses("hot-allocations", 10 * (90000 + 40000));
}

static void test_no_hot_allocations(void **state)
{
	for (int i = 0; i < 10; i++)
		allocate();
	wait_for(2000);
	for (int i = 0; i < 10; i++) {
		launches(4);
		wait_for(2000);
	}
	finds_no("hot-allocations");
}

static void loads_module_in(int iteration)
{
	for (int i = 0; i < 10; i++) {
		launches(2);
		if (i == iteration)
			call("cuModuleLoadData", 500, 7000);
		launches(2);
		wait_for(2000);
	}
}

/* It costs less than 1 % of the steps. */
static void test_fast_module(void **state)
{
	for (int i = 0; i < 10; i++) {
		launches(20);
		if (i == 6)
			call("cuModuleLoadData", 500, 7000);
		wait_for(2000);
	}
	finds_no("hot-modules");
}

static void test_hot_modules(void **state)
{
	loads_module_in(6);
	loses("hot-modules", 7000);
}

static void test_no_hot_modules(void **state)
{
	loads_module_in(0);
	finds_no("hot-modules");
}

static void builds_graph_in(int first, int step, uint64_t ns)
{
	for (int i = 0; i < 10; i++) {
		launches(2);
		if (i >= first && !((i - first) % step))
			call("cuGraphInstantiateWithFlags", 500, ns);
		launches(2);
		wait_for(2000);
	}
}

static void test_hot_graphs(void **state)
{
	builds_graph_in(0, 1, 7000);
	loses("graphs-in-loop", 10 * 7000);
}

static void test_graph_at_first(void **state)
{
	builds_graph_in(0, 10, 7000);
	finds_no("graphs-in-loop");
}

static void test_graphs_at_times(void **state)
{
	builds_graph_in(1, 4, 7000);
	finds_no("graphs-in-loop");
}

static void test_graphs_in_no_time(void **state)
{
	builds_graph_in(0, 1, 10);
	finds_no("graphs-in-loop");
}

static void ask(int cnt)
{
	for (int i = 0; i < 10; i++) {
		launches(4);
		for (int n = 0; n < cnt; n++)
			call("cuPointerGetAttribute", 100, 300);
		wait_for(2000);
	}
}

static void test_chatty(void **state)
{
	ask(25);
	loses("chatty-queries", 10 * 25 * 300);
	says("chatty-queries",
	     "250 queries (of attributes, states, events) in the iterations took");
}

static void test_chatty_without_iterations(void **state)
{
	for (int i = 0; i < 1100; i++)
		call("cuPointerGetAttribute", 100, 300);
	loses("chatty-queries", 1100 * 300);
	says("chatty-queries", "1,100 queries (of attributes, states, events) in total took");
}

static void test_not_chatty(void **state)
{
	ask(10);
	finds_no("chatty-queries");
}

static void idle_for(uint64_t ns)
{
	for (int i = 0; i < 10; i++) {
		launches(20);
		wait_for(2000);
		f.now_ns += ns;
	}
}

/* 9 gaps from the end of the wait to the next launch, which begins 1000 ns later. Only the finding
 * with most of the host's delay is reported. */
static void test_idle(void **state)
{
	idle_for(200000);
	loses("idle-between", 9 * (200000 + 1000));
	assert_null(found("launch-bound"));
}

static void test_idle_less(void **state)
{
	idle_for(20000);
	finish();
	assert_non_null(found("launch-bound"));
	assert_null(found("idle-between"));
}

static void test_not_idle(void **state)
{
	idle_for(0);
	finds_no("idle-between");
}

static void fail_with(int32_t result)
{
	struct trace_event ev = begin("cuMemAlloc_v2");

	ev.is_error = true;
	ev.result = result;
	send(&ev);
}

static void test_errors(void **state)
{
	fail_with(2);
	fail_with(2);
	launches(1);
	loses("ignored-errors", 0);
	says("ignored-errors",
	     "2 calls failed and the program continued. The first is cuMemAlloc, which returned "
	     "CUDA_ERROR_OUT_OF_MEMORY.");
}

static void test_errors_at_the_end(void **state)
{
	struct trace_event ev;

	ev = begin("cuModuleGetGlobal_v2"); /* looks up a missing symbol */
	ev.is_error = true;
	ev.result = 500;
	send(&ev);
	fail_with(4);
	launches(1);
	fail_with(2);
	finds_no("ignored-errors");
}

static void test_leak_of_context(void **state)
{
	struct trace_event ev;

	process("exec");
	ev = begin("cuCtxCreate_v2");
	call_args(&ev, "'pctx':'0xc1','flags':0,'dev':0");
	alloc("cuMemAlloc_v2", 0x10000, 4096);
	ev = begin("cuCtxDestroy_v2");
	call_args(&ev, "'ctx':'0xc1'");
	loses("leaks", 0);
	says("leaks", "1 allocation with 4.00 KiB was never freed. Their context was destroyed");
}

static void test_leak_of_few(void **state)
{
	process("exec");
	for (int i = 0; i < 9; i++) {
		alloc("cuMemAlloc_v2", 0x10000, 4096);
		release("cuMemFree_v2", 0x10000);
	}
	alloc("cuMemAlloc_v2", 0x10000, 4096);
	process("exit");
	loses("leaks", 0);
	says("leaks",
	     "1 allocation with 4.00 KiB was never freed. The program freed the rest of this kind.");
}

/* Each of 9 iterations after the warm-up leaves one block. */
static void test_leak_of_iterations(void **state)
{
	for (int i = 0; i < 10; i++) {
		launches(2);
		allocate();
		launches(2);
		wait_for(2000);
	}
	loses("leaks", 0);
	says("leaks", " more allocations than frees.");
}

/* A cache fills in the first of 40 iterations, with more blocks than there are iterations. */
static void test_no_leak_of_cache(void **state)
{
	for (int i = 0; i < 40; i++) {
		launches(2);
		for (int j = 0; j < 10 && i < 10; j++)
			allocate();
		launches(2);
		wait_for(2000);
	}
	finds_no("leaks");
}

/* A cache that is left to the exit, beside a library that frees its own kind of memory. */
static void test_no_leak_beside_frees(void **state)
{
	process("exec");
	alloc("cuMemAlloc_v2", 0x10000, 4096);
	for (int i = 0; i < 20; i++) {
		alloc("cuMemAllocHost_v2", 0x40000, 4096);
		release("cuMemFreeHost", 0x40000);
	}
	process("exit");
	finds_no("leaks");
}

/* Memory that ends with the process costs nothing: it comes behind what costs time. */
static void test_leak_of_few_is_last(void **state)
{
	process("exec");
	for (int i = 0; i < 20; i++) {
		alloc("cuMemAlloc_v2", 0x10000, 4096);
		release("cuMemFree_v2", 0x10000);
		launches(4);
		wait_for(2000);
	}
	alloc("cuMemAlloc_v2", 0x10000, 4096);
	process("exit");
	is_last("leaks");
}

/* All is freed by the exit only: on purpose. */
static void test_no_leak(void **state)
{
	process("exec");
	alloc("cuMemAlloc_v2", 0x10000, 4096);
	alloc("cuMemAlloc_v2", 0x20000, 4096);
	process("exit");
	finds_no("leaks");
}

static void test_dropped(void **state)
{
	struct trace_end end = factory_end(&f, 1);

	end.drops[0] = 7;
	report__finish(r, &end, NULL, 0);
	says("dropped-events", "1 kind of data is missing");
}

static void test_cut_off(void **state)
{
	report__finish(r, NULL, NULL, 0);
	says("dropped-events", "1 kind of data is missing");
}

static void test_not_dropped(void **state)
{
	finds_no("dropped-events");
	check_json("'findings':[]");
}

/* Errors come first, whatever their cost; then the findings with the highest cost in the steady
 * state. */
static void test_order(void **state)
{
	const struct findings *x = r->an[AN_FINDINGS];

	fail_with(2);
	for (int i = 0; i < 10; i++) {
		launches(20);
		if (i == 6)
			call("cuModuleLoadData", 500, 70000);
		wait_for(2000);
	}
	finish();
	assert_int_equal(x->list_cnt, 3);
	assert_string_equal(x->list[0].rule->id, "ignored-errors");
	assert_string_equal(x->list[1].rule->id, "launch-bound");
	assert_string_equal(x->list[2].rule->id, "hot-modules");
	check_json("{'id':'hot-modules','title':'Modules are loaded in the hot loop',");
	check_json("'severity':'error'");
	check_json("'severity':'steady','lost_ns':70000,'steady_ns':70000");
	check_json("{'what':'time in these calls','value':'70.0 µs','number':70000}");
}

/* The templates use only values of their rows. */
static void test_templates(void **state)
{
	char text[512];

	for (unsigned i = 0; i < FINDING_CNT; i++) {
		const struct rule *rule = &finding_rules[i];
		struct finding x = {.rule = rule};

		for (int one = 0; one < 2; one++) {
			for (unsigned v = 0; v < VALUES_MAX; v++)
				x.v.all[v] = one;
			assert_true(finding_fill(&x, rule->text, text, sizeof(text)));
			assert_null(strpbrk(text, "{|}"));
			assert_true(finding_fill(&x, rule->confidence_reason, x.confidence_reason,
						 sizeof(x.confidence_reason)));
			assert_null(strpbrk(x.confidence_reason, "{|}"));
			assert_true(finding_fill(&x, rule->advice, x.advice, sizeof(x.advice)));
			assert_null(strpbrk(x.advice, "{|}"));
		}
	}
}

static void fills(const struct finding *x, const char *template, const char *want)
{
	char text[24];

	assert_int_equal(finding_fill(x, template, text, sizeof(text)), want != NULL);
	if (want)
		assert_string_equal(text, want);
}

static void test_template(void **state)
{
	static const struct finding_value values[] = {
		{VALUE_COUNT, "n", "calls"},
		{VALUE_CODE, "code", "error"},
		{VALUE_END, NULL, NULL},
	};
	const struct rule rule = {.values = values};
	struct finding x = {.rule = &rule, .v.all = {1, 1234}};

	fills(&x, "", "");
	fills(&x, "{n} {n|call|calls}, {code}", "1 call, 1234");
	fills(&x, "{n}{code|a|}", "1");
	x.v.all[0] = 1234;
	fills(&x, "{n} {n|call: a|calls}", "1,234 calls");
	x.fn = begin("cuInit").fn;
	fills(&x, "{fn} failed", "cuInit failed");
	fills(&x, "{m}", NULL);
	fills(&x, "{nn}", NULL);
	fills(&x, "{n", NULL);
	fills(&x, "{n|call}", NULL);
	fills(&x, "more than there is room for", NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_launch_bound),
		TEST(test_not_launch_bound),
		TEST(test_not_launch_bound_copy),
		TEST(test_plans),
		TEST(test_no_plans),
		TEST(test_copies_beside),
		TEST(test_copies_alone),
		TEST(test_comm_alone),
		TEST(test_comm_beside),
		TEST(test_gpu_bound),
		TEST(test_too_coarse),
		TEST(test_host_bound),
		TEST(test_small_syncs),
		TEST(test_no_small_syncs),
		TEST(test_no_small_syncs_large_copies),
		TEST(test_pageable),
		TEST(test_pinned),
		TEST(test_small_copies),
		TEST(test_no_small_copies),
		TEST(test_hot_allocations),
		TEST(test_no_hot_allocations),
		TEST(test_hot_modules),
		TEST(test_fast_module),
		TEST(test_no_hot_modules),
		TEST(test_hot_graphs),
		TEST(test_graph_at_first),
		TEST(test_graphs_at_times),
		TEST(test_graphs_in_no_time),
		TEST(test_chatty),
		TEST(test_chatty_without_iterations),
		TEST(test_not_chatty),
		TEST(test_idle),
		TEST(test_idle_less),
		TEST(test_not_idle),
		TEST(test_errors),
		TEST(test_errors_at_the_end),
		TEST(test_leak_of_context),
		TEST(test_leak_of_few),
		TEST(test_leak_of_iterations),
		TEST(test_no_leak),
		TEST(test_no_leak_of_cache),
		TEST(test_no_leak_beside_frees),
		TEST(test_leak_of_few_is_last),
		TEST(test_dropped),
		TEST(test_cut_off),
		TEST(test_not_dropped),
		TEST(test_order),
		TEST(test_templates),
		TEST(test_template),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
