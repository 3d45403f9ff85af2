/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The short summary: its text, and that it always fits. The expected texts are
 * tests/golden/summary-short-*.txt; UPDATE_GOLDEN=1 writes them anew. Runs in the top-level folder.
 */
#include "summary_check.h"

#include <string.h>

#include "text/term.h"

static const struct summary_file files[] = {
	{"jsonl", "traces/a.jsonl", 1140000, 0},
	{"chrome", "traces/a.json", 1110000, 2},
	{"perfetto", "traces/a.pftrace", 0, 0},
	{"report", "traces/a.html", 5000, 0},
	{"jsonl", "-", 0, 0},
};

static char *print_files(struct run *r, int width, unsigned file_cnt)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	summary__print_short(r->s, f, &r->info, &r->end, files, file_cnt, width, false);
	fclose(f);
	return text;
}

static char *print_short(struct run *r, int width)
{
	return print_files(r, width, 2);
}

static unsigned lines(const char *text)
{
	unsigned n = 0;

	for (; *text; text++)
		n += *text == '\n';
	return n;
}

static void golden(struct run *r, int width)
{
	char path[64], *text = print_short(r, width), want[8192] = "";
	FILE *f;

	snprintf(path, sizeof(path), "tests/golden/summary-short-%d.txt", width);
	if (getenv("UPDATE_GOLDEN")) {
		f = fopen(path, "w");
		assert_non_null(f);
		fputs(text, f);
		fclose(f);
	}
	f = fopen(path, "r");
	assert_non_null(f);
	assert_true(fread(want, 1, sizeof(want) - 1, f));
	fclose(f);
	assert_string_equal(text, want);
	free(text);
}

static void golden_80(void **state)
{
	golden(*state, 80);
}

static void golden_120(void **state)
{
	golden(*state, 120);
}

static void put_xid(struct run *r, uint32_t number)
{
	struct trace_event ev = {.kind = EVENT_XID, .name = "xid", .op = "xid"};

	ev.xid.xid = number;
	ev.xid.gpu = "0000:3b:00.0";
	ev.xid.message = "GPU has fallen off the bus, and a long text about it that takes a line";
	put(r, ev);
}

/* Everything that can be shown, and more than fits. */
static void everything_fits(void **state)
{
	static const char *const more[] = {"cuGraphCreate", "cuArrayCreate_v2", "cuMemHostAlloc",
					   "cuStreamUpdateCaptureDependencies_v2"};
	static const int widths[] = {72, 80, 81, 99, 100, 120, 200};
	static struct trace_count counts[] = {
		{.calls = 5}, {.calls = 4}, {.calls = 3}, {.calls = 2}};
	static char name[400];
	struct run *r = *state;
	char *text;

	for (unsigned i = 0; i < 4; i++)
		counts[i].fn = api_fn_by_symbol(more[i]);
	memset(name, 'k', sizeof(name) - 1);
	for (int i = 0; i < 9000; i++)
		put(r, factory_launch(&r->f, name, 1));
	for (int code = 1; code < 900; code += 100)
		for (unsigned i = 0; i < 4; i++)
			put_error(r, more[i], code);
	for (uint32_t i = 31; i < 80; i++)
		put_xid(r, i);
	for (int i = 0; i < 4; i++)
		put(r, factory_process(&r->f, "exec"));
	for (unsigned i = 0; i < CT_DROP_CNT; i++)
		r->end.drops[i] = 123456789012;
	for (unsigned i = 0; i < QUOTA_CNT; i++)
		r->end.full[i] = 123456789;
	r->end.end_ns = r->f.now_ns;
	r->end.bad_record_cnt = r->end.lines_lost = 77;
	r->end.write_error = "No space left on device";
	r->end.cost_share = 0.5;
	r->end.costly[0] = (struct trace_fn_cost){api_fn_by_symbol("cuEventRecord"), 4000000};
	r->end.costly_cnt = 1;
	r->end.gpu.on = true;
	r->end.torch.on = true;
	r->end.counts = counts;
	r->end.count_cnt = 4;
	r->end.stats[CT_STAT_COUNTED] = 14;
	r->end.stats[CT_STAT_FILTERED] = 99;
	r->end.not_traced =
		"query (61 functions), and a list that somebody gave with -e that is so "
		"long that no terminal would show it on a single line, whatever its size";
	for (unsigned i = 0; i < sizeof(widths) / sizeof(widths[0]); i++) {
		text = print_files(r, widths[i], 5);
		assert_true(lines(text) <= SUMMARY_LINES_MAX);
		assert_true(widest(text) <= widths[i]);
		assert_int_equal(strncmp(text, "\nINCOMPLETE: ", 13), 0);
		assert_non_null(strstr(text, "ERROR"));
		assert_non_null(strstr(text, "XID"));
		assert_non_null(strstr(text, "UNFINISHED"));
		assert_non_null(strstr(text, "Host time in CUDA"));
		assert_non_null(strstr(text, "cudatrace report traces/a.jsonl"));
		/* No share is above 100 %. */
		for (const char *at = text; (at = strstr(at, " %")); at += 2) {
			const char *from = at;

			while (from > text && strchr("0123456789.", from[-1]))
				from--;
			assert_true(strtod(from, NULL) <= 100);
		}
		free(text);
	}
	for (int i = -10; i < 60; i++)
		free(print_files(r, i, 5));
}

/* Functions and kernels keep 40 columns. */
static void names_are_whole(void **state)
{
	static const char name[] = "a_kernel_whose_name_has_just_40_columns_";
	struct run *r = *state;
	char *text;

	for (int i = 0; i < 9000; i++)
		put(r, factory_launch(&r->f, name, 1));
	put(r, factory_call(&r->f, "cuStreamUpdateCaptureDependencies_v2", 1, 9000000000));
	for (int width = 80; width < 130; width++) {
		text = print_short(r, width);
		assert_non_null(strstr(text, name));
		assert_non_null(strstr(text, "cuStreamUpdateCaptureDependencies "));
		free(text);
	}
}

/* Clean-up at exit, polling and lookups are no failures; the same code from another API is one. */
static void expected_errors(void **state)
{
	struct run r = {.s = summary__new(), .f = factory(1), .info = factory_info()};
	struct trace_event ev;
	char *text;

	put(&r, factory_call(&r.f, "cuInit", 1, 1000));
	put_error(&r, "cuMemFree_v2", 4);
	put_error(&r, "cuModuleGetFunction", 500);
	put_error(&r, "cuDeviceGetAttribute", 1);
	r.end = factory_end(&r.f, 4);
	text = print_short(&r, 80);
	assert_non_null(strstr(text, ", 3 failed (all as expected), complete"));
	assert_null(strstr(text, "ERROR"));
	free(text);
	ev = factory_call(&r.f, "ncclAllReduce", 1, 1000);
	ev.result = 4;
	ev.is_error = true;
	put(&r, ev);
	put_error(&r, "cuMemAlloc_v2", 2);
	put_error(&r, "cuMemAlloc_v2", 2);
	/* A query's result that shows that a kernel failed. */
	put_error(&r, "cuEventQuery", 700);
	text = print_short(&r, 80);
	assert_non_null(strstr(text, ", 7 failed (3 as expected), complete"));
	assert_non_null(strstr(text, "ERROR      cuEventQuery at "));
	assert_non_null(strstr(text, "ERROR      ncclAllReduce at "));
	assert_non_null(strstr(text, "ERROR      cuMemAlloc, 2 times, first at "));
	free(text);
	summary__free(r.s);
	(void)state;
}

/* A share refers to the time of all threads. */
static void threads_share(void **state)
{
	struct run r = {.s = summary__new(), .f = factory(1), .info = factory_info()};
	struct trace_event ev;
	char *text;

	for (uint32_t i = 0; i < 8; i++) {
		ev = factory_call(&r.f, "cuCtxSynchronize", 0, 1000000);
		ev.tid += i;
		ev.start_ns = FACTORY_BASE_NS;
		ev.end_ns = FACTORY_BASE_NS + 1000000;
		put(&r, ev);
	}
	r.end = factory_end(&r.f, 8);
	r.end.end_ns = FACTORY_BASE_NS + 2000000;
	text = print_short(&r, 120);
	assert_non_null(
		strstr(text, "Host time in CUDA: 8.00 ms, 50.0 % of the time of 8 threads"));
	assert_non_null(
		strstr(text, "8.00 ms in 8 calls, 50.0 % of the time of 8 threads; most in cuCtx"));
	free(text);
	summary__free(r.s);
	(void)state;
}

/* Redacted values are neither shown nor shown as 0, in both summaries. */
static void redacted(void **state)
{
	struct run *r = *state;
	char *text;

	r->info.redacted = "arguments";
	text = print_short(r, 80);
	assert_null(strstr(text, "Launched"));
	assert_null(strstr(text, "Memory "));
	assert_null(strstr(text, "requested"));
	free(text);
	text = print(r, 80, false);
	assert_null(strstr(text, "Kernels"));
	assert_null(strstr(text, "bandwidth"));
	free(text);
}

/* The text for steps of host time, four launches of 10 us and a wait, in us; slow: start-up. */
static char *verdict_of(unsigned step_cnt, uint64_t host, uint64_t wait, uint64_t slow, bool two)
{
	struct run r = {.s = summary__new(), .f = factory(1), .info = factory_info()};
	struct trace_event ev;
	char *text;

	put(&r, factory_call(&r.f, "cuDevicePrimaryCtxRetain", 0, slow * 1000));
	for (unsigned i = 0; i < step_cnt; i++) {
		for (int k = 0; k < 4; k++)
			put(&r, factory_call(&r.f, "cuLaunchKernel", k ? 0 : host * 1000, 10000));
		ev = factory_sync(&r.f, 0);
		ev.end_ns = ev.start_ns + wait * 1000;
		r.f.now_ns = ev.end_ns;
		put(&r, ev);
	}
	if (two) {
		ev = factory_call(&r.f, "cuInit", 0, 1000);
		ev.pid++;
		put(&r, ev);
	}
	r.end = factory_end(&r.f, 39);
	r.end.end_ns = r.f.now_ns;
	/* Of a call that has not returned. */
	r.end.end_ns -= two ? 0 : 10000;
	text = print_short(&r, 400);
	summary__free(r.s);
	return text;
}

static void verdicts(void **state)
{
	static const struct {
		unsigned step_cnt;
		uint64_t host, wait, slow;
		bool two;
		const char *text;
	} rows[] = {
		/* of 1,000 us in each step */
		{20, 940, 20, 500, false,
		 "The host is the limit: it waits for the GPU for only 2.0 % of the 12.0 ms up to "
		 "the last wait; the host spends 94.0 % of it outside CUDA calls. Less work for the "
		 "host gains at most 11.8 ms of 12.0 ms.\n"},
		{20, 0, 960, 500, false,
		 "The GPU seems to be the limit: the host waits for it for 96.0 % of the 12.0 ms up "
		 "to the last wait; --gpu-time measures it. Less work for the GPU gains at most "
		 "11.5 ms of 12.0 ms.\n"},
		{20, 660, 300, 500, false,
		 "Not known: the host waits for the GPU for 30.0 % of the 12.0 ms up to the last "
		 "wait, and works otherwise. Trace with --gpu-time to measure the GPU.\n"},
		/* A few percent decide. */
		{20, 440, 520, 500, false, "Not known: the host waits for the GPU for 52.0 %"},
		{20, 0, 960, 25000, false,
		 "11.5 ms of 12.0 ms. Start-up, paid once, takes at least 55.5 % of the trace, of "
		 "that 25.0 ms from the first call to the first context.\n"},
		{20, 0, 960, 200000, false,
		 "Start-up, paid once, takes at least 90.9 % of the trace, of that 200 ms from the "
		 "first call to the first context.\n"},
		/* Too few waits for a steady state. */
		{2, 0, 960, 500, false,
		 "Not known: the host waits for the GPU for 96.0 % of the time after start-up"},
		{2, 0, 960, 3000, false, "Start-up is the limit: it takes at least 60.0 % of"},
		{20, 0, 960, 500, true,
		 "Not known: 2 processes made CUDA calls, whose iterations "},
	};
	char *text;

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		text = verdict_of(rows[i].step_cnt, rows[i].host, rows[i].wait, rows[i].slow,
				  rows[i].two);
		if (!strstr(text, rows[i].text))
			fail_msg("%u: %s is not in %s", i, rows[i].text, text);
		free(text);
	}
	(void)state;
}

/* The last waits are in a part with another limit than the ones before. */
static void later_part_differs(void **state)
{
	struct run r = {.s = summary__new(), .f = factory(1), .info = factory_info()};
	struct trace_event ev;
	char *text;

	put(&r, factory_call(&r.f, "cuDevicePrimaryCtxRetain", 0, 1000));
	for (int i = 0; i < 40; i++) {
		put(&r, factory_call(&r.f, "cuLaunchKernel", i < 31 ? 0 : 980000, 10000));
		ev = factory_sync(&r.f, 0);
		ev.end_ns = r.f.now_ns = ev.start_ns + (i < 31 ? 990000 : 10000);
		put(&r, ev);
	}
	r.end = factory_end(&r.f, 81);
	r.end.end_ns = r.f.now_ns;
	text = print_short(&r, 400);
	assert_non_null(strstr(text, "Not known: the host waits for the GPU for 62.2 % of the "));
	free(text);
	summary__free(r.s);
	(void)state;
}

/* A thread waits while another one launches: its time is a wait, not time outside of calls. */
static void threads_share_moments(void **state)
{
	struct run r = {.s = summary__new(), .f = factory(1), .info = factory_info()};
	struct trace_event ev;
	char *text;

	put(&r, factory_call(&r.f, "cuDevicePrimaryCtxRetain", 0, 1000));
	for (int i = 0; i < 20; i++) {
		uint64_t begin_ns = r.f.now_ns, end_ns;

		for (int k = 0; k < 10; k++)
			put(&r, factory_call(&r.f, "cuLaunchKernel", 90000, 10000));
		end_ns = r.f.now_ns;
		ev = factory_sync(&r.f, 0);
		ev.tid++;
		ev.start_ns = begin_ns;
		ev.end_ns = r.f.now_ns = end_ns;
		put(&r, ev);
	}
	r.end = factory_end(&r.f, 221);
	r.end.end_ns = r.f.now_ns;
	text = print_short(&r, 400);
	assert_non_null(strstr(text, "the host waits for it for 90.0 % of the 12.0 ms up to"));
	free(text);
	summary__free(r.s);
	(void)state;
}

/* Each piece of advice, at its limit and below. */
static void advice(void **state)
{
	struct run r = {.s = summary__new(), .f = factory(1), .info = factory_info()};
	char *text;

	put(&r, factory_call(&r.f, "cuInit", 0, 1000000));
	for (int i = 0; i < 19; i++) {
		put(&r, factory_launch(&r.f, "k", 1));
		put(&r, factory_sync(&r.f, 0));
	}
	r.end = factory_end(&r.f, 39);
	r.end.end_ns = FACTORY_BASE_NS + 6000000;
	text = print_short(&r, 80);
	assert_null(strstr(text, "Look first"));
	free(text);
	put(&r, factory_launch(&r.f, "k", 1));
	put(&r, factory_sync(&r.f, 0));
	r.end.end_ns = FACTORY_BASE_NS + 5000000;
	text = print_short(&r, 120);
	assert_non_null(strstr(
		text,
		"Look first 1. one cuInit took 1.00 ms, 20.0 % of the run, at 0 ns, before the first launch\n"));
	assert_non_null(
		strstr(text, "           2. 20 of 20 waits follow at most 4 launches or copies"));
	free(text);
	/* Its functions have mangled names, which are not shown. */
	r.end.cost_share = 0.051;
	r.end.cost_ns = 1000000;
	r.end.costly_cnt = 1;
	r.end.costly[0] = (struct trace_fn_cost){
		api_fn_by_symbol("_ZN2at27getStepCallbacksUnlessEmptyENS_11RecordScopeE"), 900000};
	text = print_short(&r, 120);
	assert_non_null(
		strstr(text, "           3. tracing overhead 5.1 %: trace without --torch\n"));
	free(text);
	r.end.costly[0].fn = api_fn_by_symbol("cuEventRecord");
	text = print_short(&r, 120);
	assert_non_null(strstr(text, "5.1 %: -e '!cuEventRecord' saves 90.0 % of that\n"));
	free(text);
	r.end.cost_share = 0.049;
	text = print_short(&r, 120);
	assert_null(strstr(text, "tracing overhead 4.9 %:"));
	free(text);
	/* More than a tenth of the waits follow much work. */
	for (int n = 0; n < 3; n++) {
		for (int i = 0; i < 5; i++)
			put(&r, factory_launch(&r.f, "k", 1));
		put(&r, factory_sync(&r.f, 0));
	}
	text = print_short(&r, 120);
	assert_null(strstr(text, "waits follow"));
	free(text);
	summary__free(r.s);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_RUN(golden_80),
		WITH_RUN(golden_120),
		WITH_RUN(everything_fits),
		WITH_RUN(names_are_whole),
		WITH_RUN(redacted),
		cmocka_unit_test(expected_errors),
		cmocka_unit_test(threads_share),
		cmocka_unit_test(advice),
		cmocka_unit_test(verdicts),
		cmocka_unit_test(threads_share_moments),
		cmocka_unit_test(later_part_differs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
