/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "metrics/metrics.h"
#include "metrics/table.h"
#include "factory.h"
#include "otlp/message.h"
#include "metrics_check.h"
#include "util/out.h"
#include "util/plain.h"

#define POD "namespace=\"llm\",pod=\"vllm-0\",container=\"server\",command=\"python3\""

static void events(void **state)
{
	const struct labels l = {.namespace = "llm", .pod = "vllm-0", .container_name = "server"};
	struct metrics *m = metrics__new(10000);
	struct metrics_target *t = metrics__get(m, &l, "python3");
	struct trace_event ev = {.kind = EVENT_CALL, .type = TYPE_KERNEL, .has = HAS_LAUNCH};

	ev.fn = api_fn_by_symbol("cuLaunchKernel");
	for (int i = 0; i < 3; i++) {
		ev.start_ns = 1000;
		ev.end_ns = 1000 + (1024ull << 2 * i); /* on a limit: in its bucket */
		metrics__event(m, t, &ev);
	}
	ev.capturing = true;
	metrics__event(m, t, &ev);
	ev.is_error = true;
	ev.result = 719;
	metrics__event(m, t, &ev);
	ev = (struct trace_event){.kind = EVENT_CALL,
				  .type = TYPE_TRANSFER,
				  .has = HAS_SIZE | HAS_DIR,
				  .size = 4096,
				  .dir = COPY_DIR_HTOD,
				  .fn = api_fn_by_symbol("cuMemcpyHtoD_v2")};
	metrics__event(m, t, &ev);
	metrics__event(m, t, &ev);
	has(m, "cudatrace_calls_total{" POD ",function=\"cuLaunchKernel\",class=\"launch\"} 5");
	has(m, "cudatrace_launches_total{" POD "} 3");
	has(m, "cudatrace_graph_nodes_captured_total{" POD "} 1");
	has(m, "cudatrace_errors_total{" POD
	       ",function=\"cuLaunchKernel\",error=\"CUDA_ERROR_LAUNCH_FAILED\"} 1");
	has(m, "cudatrace_transfer_bytes_total{" POD ",direction=\"HtoD\"} 8192");
	has(m,
	    "cudatrace_call_duration_seconds_bucket{" POD ",class=\"launch\",le=\"1.024e-06\"} 1");
	has(m,
	    "cudatrace_call_duration_seconds_bucket{" POD ",class=\"launch\",le=\"4.096e-06\"} 2");
	has(m, "cudatrace_call_duration_seconds_bucket{" POD ",class=\"launch\",le=\"+Inf\"} 5");
	has(m, "cudatrace_call_duration_seconds_count{" POD ",class=\"launch\"} 5");
	has(m, "cudatrace_target_processes{" POD "} 1");
	metrics__put(m, t);
	has(m, "cudatrace_target_processes{" POD "} 0");
	/* the values continue */
	assert_ptr_equal(metrics__get(m, &l, "python3"), t);
	metrics__free(m);
}

static void add_up(void *ctx, const struct api_fn *fn, const struct metrics_fn *f)
{
	struct metrics_fn *sum = ctx;

	assert_string_equal(fn->symbol, "cuMemcpyHtoD_v2");
	*sum = *f;
}

/* Recorded calls and counted calls of a function are added up. */
static void by_function(void **state)
{
	const struct api_fn *fn = api_fn_by_symbol("cuMemcpyHtoD_v2");
	struct metrics *m = metrics__new(1000);
	struct metrics_target *t = metrics__get(m, &(struct labels){0}, "x");
	struct trace_event ev = {.kind = EVENT_CALL, .fn = fn, .end_ns = 700};
	struct ct_count c = {.errors = 1, .total_ns = 3000, .max_ns = 2000, .bytes = 64};
	struct metrics_fn sum = {0};

	ev.has = HAS_SIZE | HAS_DIR;
	ev.dir = COPY_DIR_HTOD;
	ev.size = 100;
	metrics__event(m, t, &ev);
	ev.is_error = true;
	metrics__event(m, t, &ev);
	ev.unfinished = true;
	metrics__event(m, t, &ev);
	c.hist[ct_hist_index(1000)] = 2;
	c.entered = 4;
	c.abandoned = 1;
	metrics__counts(m, t, fn, &c);
	metrics__each_fn(t, add_up, &sum);
	assert_int_equal(sum.calls, 10);
	assert_int_equal(sum.timed, 4);
	assert_int_equal(sum.total_ns, 4400);
	assert_int_equal(sum.max_ns, 2000);
	assert_int_equal(sum.errors, 2);
	assert_int_equal(metrics__copied(t), 164);
	assert_int_equal(metrics__launches(t), 0);
	assert_int_equal(metrics__rejected(m), 0);
	metrics__free(m);
}

static void counts(void **state)
{
	const struct labels l = {0};
	struct metrics *m = metrics__new(10000);
	struct metrics_target *t = metrics__get(m, &l, "a\"b\\c\n\x1b");
	struct ct_count c = {.errors = 1, .total_ns = 3000000};

	c.hist[ct_hist_index(1000000)] = 3;
	metrics__counts(m, t, api_fn_by_symbol("cuLaunchKernel"), &c);
	metrics__errors(m, t, api_fn_by_symbol("cuLaunchKernel"), 719, 1);
	has(m,
	    "cudatrace_launches_total{namespace=\"\",pod=\"\",container=\"\",command=\"a\\\"b\\\\"
	    "c\\\\x0a\\\\x1b\"} 2");
	has(m, "cudatrace_call_duration_seconds_sum{namespace=\"\",pod=\"\",container=\"\",command="
	       "\"a\\\"b\\\\c\\\\x0a\\\\x1b\",class=\"launch\"} 0.003");
	has(m,
	    "cudatrace_errors_total{namespace=\"\",pod=\"\",container=\"\",command=\"a\\\"b\\\\c"
	    "\\\\x0a\\\\x1b\",function=\"cuLaunchKernel\",error=\"CUDA_ERROR_LAUNCH_FAILED\"} 1");
	metrics__free(m);
}

/* Names that collided when non-ASCII bytes became '?', and names that look escaped. */
static const struct {
	const char *name, *label;
} names[] = {
	{"训练任务", "训练任务"},
	{"推理服务", "推理服务"},
	{"обучение", "обучение"},
	{"học máy", "học máy"},
	{"🔥🔥", "🔥🔥"},
	{"????????????", "????????????"},
	{"\xff\xfe", "\\\\xff\\\\xfe"},
	{"\xfe\xff", "\\\\xfe\\\\xff"},
	{"\xff", "\\\\xff"},
	{"\\xff", "\\\\x5cxff"},
	{"\\x5cxff", "\\\\x5cx5cxff"},
	{"\\\xff", "\\\\\\\\xff"},
	{"\\xfg", "\\\\xfg"},
	{"\xef\xbf\xbd", "\xef\xbf\xbd"},		    /* U+FFFD itself */
	{"训练任务训\xe7\xbb", "训练任务训\\\\xe7\\\\xbb"}, /* cut within a character */
	{"\xc0\x80", "\\\\xc0\\\\x80"},
	{"\xed\xa0\x80", "\\\\xed\\\\xa0\\\\x80"},
	{"a\nb", "a\\\\x0ab"},
	{"a\rb", "a\\\\x0db"},
	{"a\xe2\x80\xa8"
	 "b",
	 "a\\\\xe2\\\\x80\\\\xa8b"},
	{"\"", "\\\""},
	{"(others)", "(others)"},
	{"", ""},
};
#define NAME_CNT (sizeof(names) / sizeof(names[0]))

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* No series occurs twice; the page is UTF-8. */
static void check_series(char *page)
{
	static char *series[16384];
	unsigned cnt = 0;

	for (size_t i = 0, n; page[i]; i += n) {
		n = page[i] & 0x80 ? utf8_len((unsigned char *)page + i, 4) : 1;
		assert_int_not_equal(n, 0);
	}
	for (char *line = strtok(page, "\n"); line; line = strtok(NULL, "\n")) {
		if (*line == '#')
			continue;
		assert_non_null(strrchr(line, ' '));
		*strrchr(line, ' ') = 0;
		assert_true(cnt < sizeof(series) / sizeof(series[0]));
		series[cnt++] = line;
	}
	assert_true(cnt > NAME_CNT);
	qsort(series, cnt, sizeof(*series), by_text);
	for (unsigned i = 1; i < cnt; i++)
		if (!strcmp(series[i - 1], series[i]))
			fail_msg("twice: %s", series[i]);
}

static void names_stay_apart(void **state)
{
	struct trace_event ev = {.kind = EVENT_CALL, .fn = api_fn_by_symbol("cuInit")};
	struct metrics *m = metrics__new(100000);
	char line[256];

	/* Others have a series, too. */
	metrics__event(m, metrics__others(m), &ev);
	for (unsigned i = 0; i < NAME_CNT; i++) {
		struct labels in = {0}, none = {0};

		for (unsigned k = 0; k <= i; k++)
			metrics__event(m, metrics__get(m, &none, names[i].name), &ev);
		/* LXC accepts any name for a container. */
		snprintf(in.container, sizeof(in.container), "%s", names[i].name);
		metrics__event(m, metrics__get(m, &in, "lxc"), &ev);
	}
	for (unsigned i = 0; i < NAME_CNT; i++) {
		unsigned more = !strcmp(names[i].name, "(others)");

		snprintf(
			line, sizeof(line),
			"cudatrace_calls_total{namespace=\"\",pod=\"\",container=\"\",command=\"%s\",function=\"cuInit\",class=\"init\"} %u",
			names[i].label, i + 1 + more);
		has(m, line);
		snprintf(line, sizeof(line),
			 "cudatrace_calls_total{namespace=\"\",pod=\"\",container=\"%s\",command="
			 "\"lxc\",function=\"cuInit\",class=\"init\"} 1",
			 names[i].label);
		has(m, line);
	}
	char *page = print(m);

	check_series(page);
	free(page);
	metrics__free(m);
}

/* Names of commands and GPUs that are longer than the limit. */
static void long_names(void **state)
{
	struct metrics *m = metrics__new(10000);
	struct metrics_target *t = metrics__get(m, &(struct labels){0}, "x");
	struct trace_event ev = {.kind = EVENT_DRIVER, .op = "ioctl"};
	char name[200], *page;

	memset(name, 'N', sizeof(name) - 1);
	name[sizeof(name) - 1] = 0;
	ev.name = name;
	metrics__event(m, t, &ev);
	metrics__event(m, t, &ev);
	ev = (struct trace_event){.kind = EVENT_CTXSW, .ctxsw.gpu = name};
	metrics__event(m, t, &ev);
	metrics__event(m, t, &ev);
	page = print(m);
	check_series(page);
	free(page);
	metrics__free(m);
}

/* Functions of two libraries, also of one class. */
static void families(void **state)
{
	const struct api_fn cu = {.symbol = "cuNew", .api = API_CUDA, .class = CLASS_OTHER};
	const struct api_fn nccl = {.symbol = "ncclNew", .api = API_NCCL, .class = CLASS_OTHER};
	const struct labels l = {0};
	struct metrics *m = metrics__new(1000);
	struct metrics_target *t = metrics__get(m, &l, "x");
	struct trace_event ev = {.kind = EVENT_CALL, .fn = &cu, .end_ns = 1000};
	struct ct_count c = {.total_ns = 2000};

	metrics__event(m, t, &ev);
	ev.fn = &nccl;
	ev.is_error = true;
	ev.result = 3;
	metrics__event(m, t, &ev);
	c.hist[ct_hist_index(2000)] = 1;
	metrics__counts(m, t, &nccl, &c);
	has(m, "cudatrace_calls_total{" X ",function=\"cuNew\",class=\"other\"} 1");
	has(m, "cudatrace_calls_total{" X ",function=\"ncclNew\",class=\"other\",api=\"nccl\"} 2");
	has(m, "cudatrace_errors_total{" X
	       ",function=\"ncclNew\",error=\"ncclInternalError\",api=\"nccl\"} 1");
	has(m, "cudatrace_call_duration_seconds_count{" X ",class=\"other\"} 1");
	has(m, "cudatrace_call_duration_seconds_sum{" X ",class=\"other\",api=\"nccl\"} 3e-06");
	metrics__free(m);
}

/* Every way to launch counts as one, with its return traced or not. */
static void launches(void **state)
{
	const struct labels l = {0};
	struct metrics *m = metrics__new(1000);
	struct metrics_target *t = metrics__get(m, &l, "x");
	struct trace_event ev = {.kind = EVENT_CALL,
				 .type = TYPE_KERNEL,
				 .fn = api_fn_by_symbol("cuLaunchCooperativeKernelMultiDevice")};

	metrics__event(m, t, &ev);
	ev.fn = api_fn_by_symbol("cuLaunchKernel");
	ev.entry_only = true;
	metrics__event(m, t, &ev);
	ev.abandoned = true;
	metrics__event(m, t, &ev);
	has(m, "cudatrace_launches_total{namespace=\"\",pod=\"\",container=\"\",command=\"x\"} 2");
	has(m, "cudatrace_call_duration_seconds_count{namespace=\"\",pod=\"\",container=\"\","
	       "command=\"x\",class=\"launch\"} 1");
	metrics__free(m);
}

/* A function is gone: its id and its row's address are reused. */
static void forgotten(void **state)
{
	const struct labels l = {0};
	struct metrics *m = metrics__new(1000);
	struct metrics_target *t = metrics__get(m, &l, "x"), *u = metrics__get(m, &l, "y");
	const struct api_fn *fn = api_fn_by_symbol("cuLaunchKernel");
	struct ct_count c = {.errors = 1};

	c.hist[0] = 3;
	metrics__counts(m, t, fn, &c);
	metrics__counts(m, u, fn, &c);
	metrics__errors(m, t, fn, 719, 1);
	metrics__errors(m, t, fn, 700, 1);
	metrics__counts(m, t, api_fn_by_symbol("cuInit"), &c);
	has(m, "cudatrace_series 305");
	metrics__forget_fn(m, fn);
	lacks(m, "cuLaunchKernel");
	has(m, "cudatrace_series 301");
	has(m,
	    "cudatrace_calls_total{namespace=\"\",pod=\"\",container=\"\",command=\"x\",function="
	    "\"cuInit\",class=\"init\"} 3");
	metrics__free(m);
}

static void bytes(void **state)
{
	const struct labels l = {0};
	struct metrics *m = metrics__new(10000);
	struct metrics_target *t = metrics__get(m, &l, "x");
	struct ct_count c = {.bytes = 4096};

	c.hist[0] = 1;
	metrics__counts(m, t, api_fn_by_symbol("cuMemcpyDtoH_v2"), &c);
	metrics__counts(m, t, api_fn_by_symbol("cuMemcpyDtoHAsync_v2"), &c);
	metrics__counts(m, t, api_fn_by_symbol("cuMemcpyAsync"), &c);
	/* its bytes are allocated, not copied */
	metrics__counts(m, t, api_fn_by_symbol("cuMemAlloc_v2"), &c);
	has(m, "cudatrace_transfer_bytes_total{" X ",direction=\"DtoH\"} 8192");
	has(m, "cudatrace_transfer_bytes_total{" X ",direction=\"unknown\"} 4096");
	lacks(m, "direction=\"HtoD\"");
	metrics__free(m);
}

static void memory(void **state)
{
	const struct labels l = {0};
	struct metrics *m = metrics__new(10000);
	struct metrics_target *t = metrics__get(m, &l, "x");
	const struct mem_totals none = {0}, a = {.bytes[MEM_DEVICE] = 100},
				b = {.bytes[MEM_DEVICE] = 30};

	/* two processes of one target */
	metrics__memory(t, &none, &a);
	metrics__memory(t, &none, &b);
	metrics__memory(t, &a, &none);
	has(m, "cudatrace_memory_bytes{namespace=\"\",pod=\"\",container=\"\",command=\"x\",kind="
	       "\"device\"} 30");
	has(m, "cudatrace_memory_peak_bytes{namespace=\"\",pod=\"\",container=\"\",command=\"x\","
	       "kind=\"device\"} 130");
	metrics__free(m);
}

static void bounded(void **state)
{
	struct metrics *m = metrics__new(1000);
	struct trace_event ev = {.kind = EVENT_CALL, .fn = api_fn_by_symbol("cuInit")};
	struct labels l = {0};

	for (int i = 0; i < 1000; i++) {
		char comm[16];

		snprintf(comm, sizeof(comm), "p%d", i);
		metrics__event(m, metrics__get(m, &l, comm), &ev);
	}
	has(m, "cudatrace_calls_total{namespace=\"\",pod=\"\",container=\"\",command=\"(others)\","
	       "function=\"cuInit\",class=\"init\"} 994");
	lacks(m, "command=\"p6\"");
	metrics__free(m);
}

/* A hostile name neither ends the label nor begins a line. */
static void hostile(void **state)
{
	const struct labels l = {.namespace = "a\"b\\}{,x=\"1\"",
				 .pod = "p\n# TYPE x gauge",
				 .container_name = "\033[2J"};
	struct metrics *m = metrics__new(10000);
	struct trace_event ev = {.kind = EVENT_CALL, .fn = api_fn_by_symbol("cuInit")};

	metrics__event(m, metrics__get(m, &l, "\"} 9\n"), &ev);
	has(m,
	    "cudatrace_calls_total{namespace=\"a\\\"b\\\\}{,x=\\\"1\\\"\",pod=\"p\\\\x0a# TYPE x "
	    "gauge\",container=\"\\\\x1b[2J\",command=\"\\\"} "
	    "9\\\\x0a\",function=\"cuInit\",class=\"init\"} 1");
	lacks(m, "\033");
	metrics__free(m);
}

#define OF "cudatrace_calls_total{namespace=\"\",pod=\"\",container=\"\","

static void ended_make_room(void **state)
{
	struct metrics *m = metrics__new(1000);
	struct trace_event ev = {.kind = EVENT_CALL, .fn = api_fn_by_symbol("cuInit")};
	struct metrics_target *stays;
	struct labels l = {0};

	stays = metrics__get(m, &l, "stays");
	metrics__event(m, stays, &ev);
	for (int i = 0; i < 1000; i++) {
		struct metrics_target *t;
		char comm[16];

		snprintf(comm, sizeof(comm), "p%d", i);
		t = metrics__get(m, &l, comm);
		metrics__event(m, t, &ev);
		metrics__put(m, t);
	}
	lacks(m, "(others)");
	lacks(m, "command=\"p993\"");
	has(m, OF "command=\"p999\",function=\"cuInit\",class=\"init\"} 1");
	has(m, OF "command=\"stays\",function=\"cuInit\",class=\"init\"} 1");
	metrics__free(m);
}

/* Unlimited numbers of results make series, within the target's share. */
static void share(void **state)
{
	struct metrics *m = metrics__new(1000);
	struct metrics_target *greedy, *late;
	struct trace_event ev = {.kind = EVENT_CALL, .is_error = true};
	struct labels l = {0};
	unsigned cnt, series = 0;
	const struct api_fn *fns = api_fns(&cnt);
	char *text;

	greedy = metrics__get(m, &l, "greedy");
	for (unsigned i = 0; i < 1000; i++) {
		ev.fn = &fns[i % cnt];
		ev.result = 1 + i / cnt;
		metrics__event(m, greedy, &ev);
	}
	text = print(m);
	for (char *at = text; (at = strstr(at, "command=\"greedy\",function=")); at++)
		series++;
	free(text);
	assert_in_range(series, 400, 520);
	late = metrics__get(m, &l, "late");
	ev = (struct trace_event){.kind = EVENT_CALL, .fn = api_fn_by_symbol("cuInit")};
	metrics__event(m, late, &ev);
	has(m, OF "command=\"late\",function=\"cuInit\",class=\"init\"} 1");
	metrics__free(m);
}

/* Histograms are most of the lines: those of more classes than usual make series, too. */
static void histograms(void **state)
{
	const struct api_fn *fns, *of[CLASS_CNT] = {0};
	struct metrics *m = metrics__new(2000);
	unsigned cnt, lines = 0;
	struct labels l = {0};
	char *text;

	fns = api_fns(&cnt);
	for (unsigned i = 0; i < cnt; i++)
		of[fns[i].class] = &fns[i];
	for (int i = 0; i < 12; i++) {
		char comm[16];
		struct metrics_target *t;

		snprintf(comm, sizeof(comm), "p%d", i);
		t = metrics__get(m, &l, comm);
		for (unsigned c = 0; c < CLASS_CNT; c++)
			if (of[c])
				metrics__event(
					m, t,
					&(struct trace_event){.kind = EVENT_CALL, .fn = of[c]});
	}
	text = print(m);
	for (char *at = text; (at = strstr(at, "command=\"p")); at++)
		lines++;
	free(text);
	assert_in_range(lines, 1000, 2000);
	metrics__free(m);
}

/* Returns the first bucket with a call, as Prometheus and OTLP have it. */
static void bucket_in_outputs(const struct metrics *m, unsigned bucket[2])
{
	struct out *o = out__memory();
	char *text = print(m), *at = text;

	for (bucket[0] = 0; (at = strstr(at, "call_duration_seconds_bucket{")); bucket[0]++) {
		at = strstr(at, "} ") + 2;
		if (*at == '1')
			break;
	}
	free(text);
	otlp_put_metrics(o, m, &self, "node", 1);
	text = strndup(o->buf, o->len);
	at = strstr(text, "\"bucketCounts\":[\"");
	assert_non_null(at);
	at += strlen("\"bucketCounts\":[\"");
	for (bucket[1] = 0; *at == '0'; bucket[1]++)
		at += strlen("0\",\"");
	free(text);
	out__close(o);
}

/* A call that takes exactly as long as a bucket's limit (le, explicitBounds) belongs to it: from
 * 4^5 to 4^17 ns. One that takes a nanosecond more belongs to the next. */
static void limits_of_buckets(void **state)
{
	const struct api_fn *fn = api_fn_by_symbol("cuLaunchKernel");

	for (unsigned i = 0; i < 13 * 4; i++) {
		uint64_t ns = (1024ull << 2 * (i / 4)) + i % 2;
		struct metrics *m = metrics__new(1000);
		struct metrics_target *t = metrics__get(m, &(struct labels){0}, "x");
		struct ct_count c = {.total_ns = ns, .max_ns = ns};
		unsigned bucket[2];

		c.hist[ct_hist_index(ns)] = 1;
		if (i % 4 < 2)
			metrics__counts(m, t, fn, &c);
		else
			metrics__event(
				m, t,
				&(struct trace_event){.kind = EVENT_CALL, .fn = fn, .end_ns = ns});
		bucket_in_outputs(m, bucket);
		assert_int_equal(bucket[0], i / 4 + i % 2);
		assert_int_equal(bucket[1], i / 4 + i % 2);
		metrics__free(m);
	}
}

#define TABLE                                                                                      \
	"| metric | kind | unit | labels | what it is |\n"                                         \
	"|---|---|---|---|---|\n"

static void put_row(struct out *o, const struct metric *metric)
{
	static const char *const kinds[] = {"counter", "gauge", "histogram", "info"};
	char name[64];

	metric_full_name(metric, name, sizeof(name));
	out_lit(o, "| `");
	out_str(o, name);
	out_lit(o, "` | ");
	out_str(o, kinds[metric->kind]);
	out_lit(o, " | ");
	out_str(o, metric->unit);
	out_lit(o, " | ");
	if (metric->of != METRIC_NODE)
		out_lit(o, "* ");
	for (int i = 0; i < METRIC_LABELS && metric->labels[i]; i++) {
		out_char(o, '`');
		out_str(o, metric->labels[i]);
		out_lit(o, "` ");
	}
	out_lit(o, "| ");
	out_str(o, metric->help);
	out_lit(o, " |\n");
}

/* The documents' table. UPDATE_GOLDEN=1 writes it. */
static void documented(void **state)
{
	static const char path[] = "docs/METRICS.md";
	struct out *o = out__memory();
	FILE *f = fopen(path, "r+");
	static char doc[1 << 17];
	const struct metric *table;
	unsigned cnt;
	char *from, *to;
	bool is_same;

	assert_non_null(f);
	doc[fread(doc, 1, sizeof(doc) - 1, f)] = '\0';
	assert_true(feof(f));
	from = strstr(doc, TABLE);
	assert_non_null(from);
	from += strlen(TABLE);
	to = strstr(from, "\n\n");
	assert_non_null(to);
	to++;
	table = metrics_table(&cnt);
	for (unsigned i = 0; i < cnt; i++)
		put_row(o, &table[i]);
	is_same = (size_t)(to - from) == o->len && !memcmp(from, o->buf, o->len);
	if (!is_same && getenv("UPDATE_GOLDEN")) {
		rewind(f);
		fprintf(f, "%.*s%.*s%s", (int)(from - doc), doc, (int)o->len, o->buf, to);
		assert_false(ftruncate(fileno(f), ftell(f)));
		is_same = true;
	}
	fclose(f);
	out__close(o);
	if (!is_same)
		fail_msg("the table of metrics in %s is not that of src/metrics/metrics.def: "
			 "UPDATE_GOLDEN=1 build/unit/test_metrics writes it",
			 path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(events),
		cmocka_unit_test(counts),
		cmocka_unit_test(names_stay_apart),
		cmocka_unit_test(long_names),
		cmocka_unit_test(by_function),
		cmocka_unit_test(launches),
		cmocka_unit_test(bytes),
		cmocka_unit_test(memory),
		cmocka_unit_test(forgotten),
		cmocka_unit_test(bounded),
		cmocka_unit_test(ended_make_room),
		cmocka_unit_test(hostile),
		cmocka_unit_test(share),
		cmocka_unit_test(histograms),
		cmocka_unit_test(limits_of_buckets),
		cmocka_unit_test(families),
		cmocka_unit_test(documented),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
