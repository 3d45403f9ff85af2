/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The summary: its counts and its text. The expected texts are tests/golden/summary-*.txt;
 * UPDATE_GOLDEN=1 writes them anew. Runs in the top-level folder.
 */
#include "summary_check.h"

static char *read_all(const char *path)
{
	char *text = calloc(1, 65536);
	FILE *f = fopen(path, "r");

	if (f) {
		if (!fread(text, 1, 65535, f))
			text[0] = '\0';
		fclose(f);
	}
	return text;
}

static void golden(struct run *r, int width)
{
	char path[64], *text = print(r, width, false), *want;
	FILE *f;

	snprintf(path, sizeof(path), "tests/golden/summary-%d.txt", width);
	if (getenv("UPDATE_GOLDEN")) {
		f = fopen(path, "w");
		assert_non_null(f);
		fputs(text, f);
		fclose(f);
	}
	want = read_all(path);
	assert_string_equal(text, want);
	free(want);
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

/* All waits of the run again, in a second thread: too many for one thread. The share refers to the
 * time of both. */
static void waits_of_threads(void **state)
{
	struct run *r = *state;
	char *text, share[64];
	double wall = r->end.end_ns - r->info.base_ns;

	for (int i = 0; i < 10; i++) {
		struct trace_event ev = factory_sync(&r->f, 0);

		ev.tid++;
		ev.end_ns = ev.start_ns + wall / 10;
		put(r, ev);
	}
	snprintf(share, sizeof(share), "by 2 threads, %.1f %% of their time",
		 100 * r->s->wait_ns / (2 * wall));
	text = print(r, 120, false);
	assert_non_null(strstr(text, share));
	free(text);
}

static void fits_its_width(void **state)
{
	static const int widths[] = {72, 80, 99, 100, 120, 200};
	struct run *r = *state;
	size_t i;
	char *text;

	r->end.not_traced =
		"query (61 functions), and a list that somebody gave with -e that is so "
		"long that no terminal that I know of would show it on a single line";
	for (i = 0; i < sizeof(widths) / sizeof(widths[0]); i++) {
		text = print(r, widths[i], false);
		assert_true(widest(text) <= widths[i]);
		free(text);
	}
	/* absurd widths must not crash */
	for (i = 0; i < 40; i++)
		free(print(r, (int)i - 10, true));
}

static void colours_only_on_request(void **state)
{
	char *text = print(*state, 80, false);

	assert_null(strchr(text, '\033'));
	free(text);
	text = print(*state, 80, true);
	assert_non_null(strstr(text, "\033[1m"));
	assert_non_null(strstr(text, "\033[31m"));
	free(text);
}

static void losses_are_loud(void **state)
{
	struct run *r = *state;
	char *text = print(r, 80, false);

	assert_null(strstr(text, "INCOMPLETE"));
	free(text);
	r->end.drops[CT_DROP_CALL] = 12345;
	r->end.bad_record_cnt = 1;
	text = print(r, 80, true);
	assert_non_null(strstr(text, "\033[1;31m"));
	/* first of all */
	assert_true(strstr(text, "INCOMPLETE: ") < strstr(text, "Summary: "));
	assert_non_null(strstr(text, "  12,345 CUDA calls: the ring buffer was full. To avoid it"));
	assert_non_null(strstr(text, "  1 record: the records are invalid."));
	free(text);
}

/* A level is proposed only if it saves more than any one function. */
static void advice_names_what_saves_most(void **state)
{
	struct run *r = *state;
	char *text;

	r->end.cost_ns = 100000000;
	r->end.costly[0] = (struct trace_fn_cost){api_fn_by_symbol("cuEventRecord"), 40000000};
	r->end.costly_cnt = 1;
	r->end.detail_low_saving_ns = 40000000;
	text = print(r, 80, false);
	assert_non_null(strstr(text, "saved by -e '!NAME'\n"));
	assert_null(strstr(text, "--detail"));
	free(text);
	r->end.detail_low_saving_ns = 70000000;
	text = print(r, 80, false);
	assert_non_null(strstr(text, "saved by --detail=low, or by -e '!NAME'\n"));
	assert_non_null(strstr(text, "70.0 ms  70.0 %  --detail=low\n"));
	assert_non_null(strstr(text, "40.0 ms  40.0 %  cuEventRecord\n"));
	free(text);
	/* C++ names are shown as in the source. */
	r->end.costly[0].fn =
		api_fn_by_symbol("_ZN2at27getStepCallbacksUnlessEmptyENS_11RecordScopeE");
	assert_non_null(r->end.costly[0].fn);
	text = print(r, 80, false);
	assert_non_null(strstr(text, "at::getStepCallbacks"));
	assert_null(strstr(text, "_ZN"));
	free(text);
	/* None of many functions saves much alone. */
	r->end.costly_cnt = 0;
	text = print(r, 80, false);
	assert_non_null(strstr(text, "70.0 ms  70.0 %  --detail=low\n"));
	free(text);
}

/* Kernel names come from the target: a terminal must not obey them. */
static void hostile_kernel_name(void **state)
{
	struct run *r = *state;
	char *text;
	int i;

	for (i = 0; i < 9000; i++)
		put(r, factory_launch(&r->f, "\033]0;owned\a\xff\n\r", 1));
	text = print(r, 80, false);
	assert_null(strchr(text, '\033'));
	assert_null(strchr(text, '\r'));
	assert_non_null(strstr(text, "?]0;owned????"));
	free(text);
}

static void counts(void **state)
{
	struct run *r = *state;
	struct summary_totals t;
	struct summary *s = r->s;

	summary__totals(s, &t);
	assert_int_equal(t.call_cnt, r->cnt - 1);
	assert_int_equal(t.event_cnt, r->cnt);
	assert_int_equal(t.launch_cnt, 4401);
	assert_int_equal(t.graph_launch_cnt, 1);
	assert_int_equal(t.error_cnt, 4);
	assert_int_equal(t.device_bytes, 0); /* the process has ended */
	assert_int_equal(t.device_peak, 100 * (20 << 20));
	assert_int_equal(s->launch_node_cnt, 1);
	assert_int_equal(s->launch_unnamed_cnt, 1);
	assert_int_equal(s->stream_cnt, 2);
	assert_int_equal(s->mem[MEM_DEVICE].alloc_cnt, 100);
	assert_int_equal(s->mem[MEM_DEVICE].free_cnt, 1);
	assert_int_equal(s->mem[MEM_DEVICE].kept, 99 * (20 << 20));
	assert_int_equal(s->mem[MEM_MANAGED].alloc_cnt, 1);
	assert_int_equal(s->mem[MEM_MANAGED].free_cnt, 1);
	assert_int_equal(s->transfers[COPY_DIR_HTOD].cnt, 200);
	assert_int_equal(s->transfers[COPY_DIR_HTOD].sync_cnt, 100);
	assert_int_equal(s->transfers[COPY_DIR_DTOH].bytes, 22 * 4096);
	assert_int_equal(s->transfers[TRANSFER_MEMSET].cnt, 1);
	assert_int_equal(s->wait_cnt, 100 + 22 + 22);
	assert_int_equal(s->unfinished_cnt, 1);
	assert_int_equal(s->abandoned_cnt, 1);
	assert_int_equal(s->proc_cnt, 1);
}

/* A nested call counts as a call, but its time is already in its parent's. */
static void nested_time_counts_once(void **state)
{
	struct run *r = *state;
	uint64_t before = r->s->call_ns, classes = 0;
	struct trace_event ev = factory_call(&r->f, "cuCtxGetCurrent", 10, 100);
	int i;

	ev.depth = ev.api_depth = 1;
	put(r, ev);
	assert_int_equal(r->s->call_ns, before);
	for (i = 0; i < CLASS_CNT; i++)
		classes += r->s->classes[i].total_ns;
	assert_int_equal(classes, r->s->call_ns);
}

/* The same name at two addresses: one kernel. Names above the limit: one row for the rest. */
static void kernels_are_bounded(void **state)
{
	struct run *r = *state;
	static char names[70000][16];
	char copy[] = ADD_KERNEL;
	const struct kernel_stat **list;
	size_t cnt;
	int i;

	put(r, factory_launch(&r->f, copy, 1));
	list = summary_kernels(r->s, &cnt);
	assert_int_equal(cnt, 3);
	assert_string_equal(list[0]->name, ADD_KERNEL);
	assert_int_equal(list[0]->cnt, 2933 + 1);
	free(list);
	/* Another name at the same address. */
	strcpy(copy, "other");
	put(r, factory_launch(&r->f, copy, 1));
	put(r, factory_launch(&r->f, copy, 1));
	list = summary_kernels(r->s, &cnt);
	assert_int_equal(cnt, 4);
	assert_int_equal(list[0]->cnt, 2933 + 1);
	free(list);
	for (i = 0; i < 70000; i++) {
		snprintf(names[i], sizeof(names[i]), "k%d", i);
		put(r, factory_launch(&r->f, names[i], 1));
		put(r, factory_launch(&r->f, names[i], 1));
	}
	list = summary_kernels(r->s, &cnt);
	assert_int_equal(cnt, SUMMARY_KERNELS_MAX + 1);
	assert_string_equal(list[0]->name, "(others)");
	assert_int_equal(list[0]->cnt, 2 * (70000 + 4 - SUMMARY_KERNELS_MAX));
	free(list);
}

/* All versions of a function are one row. */
static void versions_are_one(void **state)
{
	struct run *r = *state;
	struct fn_row *rows;
	size_t cnt, i, seen = 0;

	put(r, factory_call(&r->f, "cuMemAlloc", 1, 1));
	rows = summary_fns(r->s, &cnt);
	for (i = 0; i < cnt; i++) {
		if (strcmp(rows[i].name, "cuMemAlloc"))
			continue;
		seen++;
		assert_int_equal(rows[i].st.cnt, 102);
		assert_int_equal(rows[i].st.error_cnt, 1);
		assert_int_equal(rows[i].st.max_ns, 90000);
	}
	assert_int_equal(seen, 1);
	free(rows);
}

static void empty(void **state)
{
	struct run r = {.s = summary__new(), .f = factory(1), .info = factory_info()};
	char *text;

	r.end = factory_end(&r.f, 0);
	text = print(&r, 80, false);
	assert_non_null(strstr(text, "Summary: 0 CUDA calls in 0 ns by 0 processes"));
	assert_null(strstr(text, "Kernels"));
	assert_null(strstr(text, "nan"));
	free(text);
	summary__free(r.s);
}

/* The record of an unfinished call may come after its process's exit. A later process may have the
 * same id. */
static void a_process_counts_once(void **state)
{
	struct run r = {.s = summary__new(), .f = factory(1), .info = factory_info()};
	struct trace_event hangs = factory_call(&r.f, "cuCtxSynchronize", 10, 100);

	hangs.unfinished = true;
	for (unsigned i = 1; i <= 2 * SUMMARY_PROCS_MAX; i++) {
		if (i > 3)
			r.f.pid++;
		put(&r, factory_call(&r.f, "cuInit", 10, 100));
		put(&r, factory_process(&r.f, "exit"));
		hangs.pid = r.f.pid;
		hangs.end_ns = r.f.now_ns;
		hangs.start_ns = hangs.end_ns - 100;
		put(&r, hangs);
		assert_int_equal(r.s->proc_cnt, i);
	}
	summary__free(r.s);
	(void)state;
}

static void json_is_json(void **state)
{
	static const char check[] = "python3 tests/helpers/says.py - '"
				    "(d[\"launches\"][\"total\"]==4401 and d[\"failed\"]==4 and "
				    "d[\"memory\"][0][\"at_end\"]==99*(20<<20) and "
				    "sum(c[\"calls\"] for c in d[\"classes\"])==d[\"calls\"] and "
				    "sum(f[\"calls\"] for f in d[\"functions\"])==d[\"calls\"] and "
				    "d[\"errors\"][1][\"error\"]==\"CUDA_ERROR_NOT_FOUND\" and "
				    "d[\"errors\"][2][\"error\"] is None)'";
	struct run *r = *state;
	struct out *o = out__memory();
	FILE *p;

	summary__json(r->s, o, &r->info, &r->end);
	assert_int_equal(memchr(o->buf, '\n', o->len) - (void *)o->buf, o->len - 1);
	p = popen(check, "w");
	assert_non_null(p);
	assert_int_equal(fwrite(o->buf, 1, o->len, p), o->len);
	assert_int_equal(pclose(p), 0);
	out__close(o);
}

/* Two of three processes use a communicator: the text must not leave the third unexplained. */
static void ranks_are_distinguished(void **state)
{
	struct run *r = *state;
	char *text;

	for (uint32_t rank = 0; rank < 4; rank++) {
		struct trace_event ev = factory_call(&r->f, "ncclAllReduce", 0, 1000);

		ev.pid += 1 + rank % 2;
		ev.has = HAS_COMM;
		ev.coll = (struct collective_info){.hash = 0xabc, .rank = rank % 2, .nranks = 2};
		put(r, ev);
	}
	text = print(r, 120, false);
	assert_non_null(strstr(text, " by 3 processes, 2 of them ranks"));
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_RUN(golden_80),
		WITH_RUN(golden_120),
		WITH_RUN(waits_of_threads),
		WITH_RUN(fits_its_width),
		WITH_RUN(colours_only_on_request),
		WITH_RUN(losses_are_loud),
		WITH_RUN(advice_names_what_saves_most),
		WITH_RUN(hostile_kernel_name),
		WITH_RUN(counts),
		WITH_RUN(nested_time_counts_once),
		WITH_RUN(kernels_are_bounded),
		WITH_RUN(versions_are_one),
		WITH_RUN(json_is_json),
		WITH_RUN(ranks_are_distinguished),
		cmocka_unit_test(empty),
		cmocka_unit_test(a_process_counts_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
