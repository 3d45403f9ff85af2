/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "json_check.h"
#include "sink/sink.h"
#include "util/out.h"

#define BASE_NS 5000000000ULL

static char path[64];
static struct sink *sink;

static const struct trace_info plain = {.version = "1.2.3", .base_ns = BASE_NS};

static void begin(const struct trace_info *info)
{
	sink = sink__open(SINK_JSONL, path, info);
	assert_non_null(sink);
}

/* Reads the file; each line must be JSON. */
static char *slurp(void)
{
	FILE *f = fopen(path, "r");
	char *s = calloc(1, 1 << 20);
	size_t n;

	assert_non_null(f);
	n = fread(s, 1, (1 << 20) - 1, f);
	fclose(f);
	assert_true(n == 0 || s[n - 1] == '\n');
	for (char *p = s, *nl; *p; p = nl + 1) {
		nl = strchr(p, '\n');
		if (!json_valid(p, nl - p))
			fail_msg("no JSON: %.*s", (int)(nl - p), p);
	}
	return s;
}

/* What the sink wrote for one event. */
static void check_event(const struct trace_event *ev, const char *want)
{
	char *s, *line;

	begin(&plain);
	sink__event(sink, ev);
	assert_int_equal(sink__close(sink, NULL), 0);
	s = slurp();
	line = strchr(s, '\n') + 1;
	assert_non_null(strchr(line, '\n'));
	*strchr(line, '\n') = 0;
	assert_string_equal(line, want);
	free(s);
}

static struct trace_event call(const char *symbol, enum event_type type, const uint64_t *words)
{
	const struct api_fn *fn = api_fn_by_symbol(symbol);

	assert_non_null(fn);
	return (struct trace_event){.kind = EVENT_CALL,
				    .type = type,
				    .op = api_op_name(fn->op),
				    .name = fn->name,
				    .pid = 100,
				    .tid = 101,
				    .comm = "python3",
				    .start_ns = BASE_NS + 1234567,
				    .end_ns = BASE_NS + 1236068,
				    .fn = fn,
				    .id = 7,
				    .lib_id = 1,
				    .words = words,
				    .word_cnt = fn->arg_cnt};
}

static void test_alloc(void **state)
{
	static const uint64_t words[] = {0x7ffc00, 1024};
	static const uint64_t ptr = 0x7f0000000000;
	struct trace_event ev = call("cuMemAlloc_v2", TYPE_MEMORY, words);

	ev.caps[0] = (struct pointee){(const uint8_t *)&ptr, 8};
	ev.cap_cnt = 1;
	ev.has = HAS_SIZE | HAS_PTR;
	ev.size = 1024;
	ev.ptr = ptr;
	check_event(&ev,
		    "{\"ts\":1.234567,\"type\":\"memory\",\"op\":\"alloc\",\"name\":\"cuMemAlloc\","
		    "\"symbol\":\"cuMemAlloc_v2\",\"pid\":100,\"tid\":101,\"comm\":\"python3\","
		    "\"id\":7,\"duration_us\":1.501,\"result\":0,\"size\":1024,"
		    "\"ptr\":\"0x7f0000000000\",\"args\":{\"dptr\":\"0x7f0000000000\","
		    "\"bytesize\":1024}}");
	ev.cap_cnt = 0;
	ev.has = HAS_SIZE;
	ev.result = 2;
	ev.is_error = true;
	ev.parent_id = 6;
	ev.depth = ev.api_depth = 1;
	ev.lib_id = 2;
	check_event(&ev,
		    "{\"ts\":1.234567,\"type\":\"memory\",\"op\":\"alloc\",\"name\":\"cuMemAlloc\","
		    "\"symbol\":\"cuMemAlloc_v2\",\"pid\":100,\"tid\":101,\"comm\":\"python3\","
		    "\"id\":7,\"parent\":6,\"depth\":1,\"lib\":2,\"duration_us\":1.501,"
		    "\"result\":2,\"error\":\"CUDA_ERROR_OUT_OF_MEMORY\",\"size\":1024,"
		    "\"args\":{\"dptr\":null,\"bytesize\":1024}}");
}

#define INIT(ts, rest)                                                                             \
	"{\"ts\":" ts ",\"type\":\"init\",\"op\":\"init\",\"name\":\"cuInit\","                    \
	"\"symbol\":\"cuInit\",\"pid\":100,\"tid\":101,\"comm\":\"python3\",\"id\":7," rest        \
	",\"args\":{\"Flags\":0}}"

static void test_outcome(void **state)
{
	static const uint64_t words[] = {0};
	struct trace_event ev = call("cuInit", TYPE_INIT, words);

	check_event(&ev, INIT("1.234567", "\"duration_us\":1.501,\"result\":0"));
	ev.result = 12345;
	ev.is_error = true;
	check_event(&ev,
		    INIT("1.234567", "\"duration_us\":1.501,\"result\":12345,\"error\":\"12345\""));
	ev.result = -3;
	check_event(&ev, INIT("1.234567", "\"duration_us\":1.501,\"result\":-3,\"error\":\"-3\""));
	/* CUDA_ERROR_NOT_READY is not an error. */
	ev.result = 600;
	ev.is_error = false;
	check_event(&ev, INIT("1.234567", "\"duration_us\":1.501,\"result\":600"));
	ev.unfinished = true;
	check_event(&ev, INIT("1.234567", "\"unfinished\":true,\"elapsed_us\":1.501"));
	ev.unfinished = false;
	ev.entry_only = true;
	check_event(&ev, INIT("1.234567", "\"entry_only\":true"));
	ev.entry_only = false;
	ev.abandoned = true;
	check_event(&ev, INIT("1.234567", "\"abandoned\":true,\"elapsed_us\":1.501"));
	/* It began before the trace; the clock stood still. */
	ev.abandoned = false;
	ev.result = 0;
	ev.start_ns = ev.end_ns = BASE_NS - 42;
	check_event(&ev, INIT("-0.000042", "\"duration_us\":0.000,\"result\":0"));
	ev.start_ns = ev.end_ns = BASE_NS;
	check_event(&ev, INIT("0.000000", "\"duration_us\":0.000,\"result\":0"));
}

/* Text cached from the last call is not reused where this one differs: other texts at the same
 * address, ids with equal last bits. */
static void test_said_again(void **state)
{
	static const uint64_t words[] = {0};
	struct trace_event ev = call("cuInit", TYPE_INIT, words);
	char name[16] = "cuInit", comm[16], op[8] = "init";
	char want[512];

	for (int i = 0; i < 300; i++) {
		name[5] = i % 3 ? 't' : 'x';
		op[3] = i % 5 ? 't' : 'x';
		ev.name = i % 2 ? name : ev.fn->name;
		ev.op = i % 7 ? op : api_op_name(ev.fn->op);
		ev.type = i % 11 ? TYPE_INIT : TYPE_MODULE;
		ev.pid = 100 + i / 150;
		ev.tid = 1 + i % 2 * 64;
		ev.comm = comm;
		snprintf(comm, sizeof(comm), "\"%d", i / 20);
		snprintf(want, sizeof(want),
			 "{\"ts\":1.234567,\"type\":\"%s\",\"op\":\"%s\",\"name\":\"%s\","
			 "\"symbol\":\"cuInit\",\"pid\":%u,\"tid\":%u,\"comm\":\"\\\"%d\",\"id\":7,"
			 "\"duration_us\":1.501,\"result\":0,\"args\":{\"Flags\":0}}",
			 event_type_name(ev.type), ev.op, ev.name, ev.pid, ev.tid, i / 20);
		check_event(&ev, want);
	}
}

static struct trace_event launch(void)
{
	static const uint64_t words[] = {0xf00, 4, 2, 1, 128, 1, 1, 64, 0xabc, 0x7ffc0, 0};
	struct trace_event ev = call("cuLaunchKernel", TYPE_KERNEL, words);

	ev.has = HAS_LAUNCH | HAS_STREAM;
	ev.stream = 0xabc;
	ev.launch = (struct launch_info){.grid = {4, 2, 1},
					 .block = {128, 1, 1},
					 .shared_mem_sz = 64,
					 .has_config = true,
					 .func = 0xf00,
					 .kernel = "add(float*)",
					 .kernel_mangled = "_Z3addPf"};
	return ev;
}

#define LAUNCH(rest)                                                                               \
	"{\"ts\":1.234567,\"type\":\"kernel\",\"op\":\"launch\",\"name\":\"cuLaunchKernel\","      \
	"\"symbol\":\"cuLaunchKernel\",\"pid\":100,\"tid\":101,\"comm\":\"python3\",\"id\":7,"     \
	"\"duration_us\":1.501,\"result\":0,\"stream\":\"0xabc\"" rest                             \
	",\"args\":{\"f\":\"0xf00\",\"gridDimX\":4,\"gridDimY\":2,\"gridDimZ\":1,"                 \
	"\"blockDimX\":128,\"blockDimY\":1,\"blockDimZ\":1,\"sharedMemBytes\":64,"                 \
	"\"hStream\":\"0xabc\",\"kernelParams\":\"0x7ffc0\",\"extra\":null}}"

static void test_launch(void **state)
{
	struct trace_event ev = launch();

	check_event(&ev, LAUNCH(",\"kernel\":\"add(float*)\",\"kernel_mangled\":\"_Z3addPf\","
				"\"func\":\"0xf00\",\"grid\":[4,2,1],\"block\":[128,1,1],"
				"\"shared_mem\":64"));
	ev.launch.kernel = ev.launch.kernel_mangled = "kernel\xff";
	ev.launch.kernel_guessed = true;
	ev.launch.cluster[0] = 2;
	ev.launch.cluster[1] = ev.launch.cluster[2] = 1;
	ev.launch.cooperative = ev.capturing = true;
	check_event(&ev, LAUNCH(",\"kernel\":\"kernel\xef\xbf\xbd\",\"kernel_source\":\"handle\","
				"\"func\":\"0xf00\",\"grid\":[4,2,1],\"block\":[128,1,1],"
				"\"shared_mem\":64,\"cluster\":[2,1,1],\"cooperative\":true,"
				"\"capturing\":true"));
	ev.capturing = false;
	ev.launch = (struct launch_info){.func = 0xf00};
	check_event(&ev, LAUNCH(",\"func\":\"0xf00\""));
}

static void test_copy(void **state)
{
	static const uint64_t words[] = {0x1000, 0x2000, 8};
	struct trace_event ev = call("cuMemcpyHtoD_v2", TYPE_TRANSFER, words);

	ev.has = HAS_SIZE | HAS_PTR | HAS_DIR | HAS_BANDWIDTH;
	ev.size = 8;
	ev.ptr = 0x1000;
	ev.dir = COPY_DIR_HTOD;
	ev.bandwidth_gbps = 12.3456789;
#define COPY(bw)                                                                                   \
	"{\"ts\":1.234567,\"type\":\"transfer\",\"op\":\"copy\",\"name\":\"cuMemcpyHtoD\","        \
	"\"symbol\":\"cuMemcpyHtoD_v2\",\"pid\":100,\"tid\":101,\"comm\":\"python3\",\"id\":7,"    \
	"\"duration_us\":1.501,\"result\":0,\"size\":8,\"ptr\":\"0x1000\","                        \
	"\"direction\":\"HtoD\",\"bandwidth_gbps\":" bw                                            \
	",\"args\":{\"dstDevice\":\"0x1000\",\"srcHost\":\"0x2000\",\"ByteCount\":8}}"
	check_event(&ev, COPY("12.3457"));
	ev.bandwidth_gbps = NAN;
	check_event(&ev, COPY("null"));
}

/* A symbol that is not in the table, from a hostile library. */
static void test_hostile_names(void **state)
{
	static const struct api_fn fn = {.symbol = "cu\"\n\xff_v2", .name = "cu\"\n\xff"};
	static const uint64_t words[] = {1, 2};
	struct trace_event ev = call("cuInit", TYPE_OTHER, words);
	char longest[4096];

	ev.fn = &fn;
	ev.name = fn.name;
	ev.op = "other";
	ev.word_cnt = 2;
	ev.comm = "\"\\\x01\xc3";
	check_event(&ev, "{\"ts\":1.234567,\"type\":\"other\",\"op\":\"other\","
			 "\"name\":\"cu\\\"\\u000a\xef\xbf\xbd\","
			 "\"symbol\":\"cu\\\"\\u000a\xef\xbf\xbd_v2\",\"pid\":100,\"tid\":101,"
			 "\"comm\":\"\\\"\\\\\\u0001\xef\xbf\xbd\",\"id\":7,\"duration_us\":1.501,"
			 "\"result\":0,\"args\":{\"arg0\":\"0x1\",\"arg1\":\"0x2\"}}");
	memset(longest, 1, sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = 0;
	ev.comm = ev.name = longest;
	begin(&plain);
	for (int i = 0; i < 10; i++)
		sink__event(sink, &ev);
	assert_int_equal(sink__close(sink, NULL), 0);
	free(slurp());
}

static void test_process(void **state)
{
	struct trace_event ev = {.kind = EVENT_PROCESS,
				 .type = TYPE_PROCESS,
				 .op = "fork",
				 .name = "fork",
				 .pid = 200,
				 .tid = 200,
				 .comm = "sh",
				 .start_ns = BASE_NS + 1000000,
				 .process.parent_pid = 100};

#define PROC(op, rest)                                                                             \
	"{\"ts\":1.000000,\"type\":\"process\",\"op\":\"" op "\",\"name\":\"" op "\",\"pid\":200," \
	"\"tid\":200,\"comm\":\"sh\"" rest "}"
	check_event(&ev, PROC("fork", ",\"parent_pid\":100"));
	ev.op = ev.name = "exec";
	check_event(&ev, PROC("exec", ""));
	ev.op = ev.name = "exit";
	ev.process.exit_code = 3;
	check_event(&ev, PROC("exit", ",\"exit_code\":3"));
	ev.process.signal = 9;
	check_event(&ev, PROC("exit", ",\"signal\":9"));
}

static void test_library(void **state)
{
	struct trace_event ev = {.kind = EVENT_LIBRARY,
				 .type = TYPE_LIBRARY,
				 .op = "attach",
				 .name = "libcuda",
				 .pid = 200,
				 .tid = 200,
				 .comm = "sh",
				 .start_ns = BASE_NS,
				 .lib_id = 1,
				 .library.path = "/lib/libcuda.so.1",
				 .library.build_id = "abcd",
				 .library.note = "682 functions"};

	check_event(&ev, "{\"ts\":0.000000,\"type\":\"library\",\"op\":\"attach\","
			 "\"name\":\"libcuda\",\"pid\":200,\"tid\":200,\"comm\":\"sh\",\"lib\":1,"
			 "\"path\":\"/lib/libcuda.so.1\",\"build_id\":\"abcd\","
			 "\"note\":\"682 functions\"}");
}

static void test_header(void **state)
{
	static const char *const argv[] = {"python3", "a \"b\".py", "\xff"};
	static const char *const degraded[] = {"no ring buffer"};
	static const struct trace_lib lib = {"/lib/libcuda.so.1", "abcd", 1, 682};
	struct trace_info info = {.version = "1.2.3",
				  .argv = argv,
				  .argc = 3,
				  .hostname = "node",
				  .kernel = "6.1.0",
				  .machine = "x86_64",
				  .driver_version = "580.159.04",
				  .cuda_version = 13000,
				  .libs = &lib,
				  .lib_cnt = 1,
				  .traced = "init",
				  .not_traced = "query (61 functions)",
				  .mechanism = "uprobe.multi",
				  .degraded = degraded,
				  .degraded_cnt = 1,
				  .probe_cost_ns = 1350.5,
				  .base_ns = 123456789,
				  .wall_ns = 1767225600123456789ULL};
	static const uint32_t pids[] = {10, 20};
	char *s;

	begin(&info);
	sink__close(sink, NULL);
	s = slurp();
#define AFTER                                                                                      \
	"\"host\":\"node\",\"kernel\":\"6.1.0\",\"machine\":\"x86_64\","                           \
	"\"driver_version\":\"580.159.04\",\"cuda_version\":\"13.0\",\"libraries\":[{\"path\":"    \
	"\"/lib/libcuda.so.1\",\"build_id\":\"abcd\",\"id\":1,\"functions\":682}],\"traced\":"     \
	"\"init\",\"not_traced\":\"query (61 functions)\",\"mechanism\":\"uprobe.multi\","         \
	"\"degraded\":[\"no ring buffer\"],\"probe_cost_ns\":1350.5,\"clock\":"                    \
	"\"CLOCK_MONOTONIC\",\"clock_base_ns\":123456789,\"wall_time\":"                           \
	"\"2026-01-01T00:00:00.123456789Z\"}\n"
	assert_string_equal(s, "{\"ts\":0.000000,\"type\":\"header\",\"name\":\"cudatrace\","
			       "\"schema\":2,\"version\":\"1.2.3\",\"command\":[\"python3\","
			       "\"a \\\"b\\\".py\",\"\xef\xbf\xbd\"]," AFTER);
	free(s);
	info.argv = NULL;
	info.pids = pids;
	info.pid_cnt = 2;
	begin(&info);
	sink__close(sink, NULL);
	s = slurp();
	assert_string_equal(s, "{\"ts\":0.000000,\"type\":\"header\",\"name\":\"cudatrace\","
			       "\"schema\":2,\"version\":\"1.2.3\",\"pids\":[10,20]," AFTER);
	free(s);
	/* System-wide, and nothing else is known. */
	begin(&plain);
	sink__close(sink, NULL);
	s = slurp();
	assert_false(strstr(s, "\"command\"") || strstr(s, "\"pids\""));
	free(s);
}

static void test_end(void **state)
{
	const struct trace_count counts[] = {
		{.fn = api_fn_by_symbol("cuInit"),
		 .calls = 5,
		 .errors = 1,
		 .unfinished = 2,
		 .total_ns = 7500,
		 .max_ns = 4000},
		{.fn = api_fn_by_symbol("cuLaunchKernel"), .entered = 9, .abandoned = 1},
	};
	struct trace_end end = {.end_ns = BASE_NS + 2000000001,
				.reason = "command exited",
				.type_cnt = {[TYPE_INIT] = 1, [TYPE_KERNEL] = 20},
				.event_cnt = 21,
				.call_cnt = 21,
				.drops = {1, 2, 3, 4, 5, 6, 12, 13},
				.stats = {[CT_STAT_ENTRIES] = 41,
					  [CT_STAT_UNFINISHED] = 6,
					  [CT_STAT_ABANDONED] = 7,
					  [CT_STAT_FILTERED] = 8,
					  [CT_STAT_ORPHANS] = 9,
					  [CT_STAT_DUPLICATES] = 10},
				.bad_record_cnt = 11,
				.probe_cost_ns = 1350,
				.cost_ns = 28350,
				.cost_share = 0.0000142,
				.max_thread_overhead = 0.125,
				.max_overhead_tid = 4711,
				.costly = {{counts[1].fn, 20000}, {counts[0].fn, 8000}},
				.costly_cnt = 2,
				.detail_low_saving_ns = 9000,
				.count_cost_ns = 620,
				.counts = counts,
				.count_cnt = 2,
				.not_traced = "nothing"};
	char *s;

	begin(&plain);
	assert_int_equal(sink__close(sink, &end), 0);
	s = slurp();
	assert_string_equal(
		strchr(s, '\n') + 1,
		"{\"ts\":2000.000001,\"type\":\"end\",\"name\":\"cudatrace\",\"reason\":"
		"\"command exited\",\"events\":{\"init\":1,\"kernel\":20},\"calls\":21,\"entries\":"
		"41,\"drops\":"
		"{\"calls\":1,\"tasks\":2,\"libraries\":3,\"threads\":4,\"depth\":5,\"driver\":6,"
		"\"counts\":12,\"errors\":13,\"threads_share\":0,\"driver_share\":0,\"processes\":0,\"ctxsw\":0,\"inproc\":0,\"begins\":0,\"gpu_metrics\":0},"
		"\"unfinished\":6,\"abandoned\":7,\"filtered\":8,\"orphans\":9,\"duplicates\":10,"
		"\"bad_records\":11,\"counted\":{\"cuInit\":{\"calls\":5,\"errors\":1,\"total_us\":7.500,"
		"\"max_us\":4.000,\"unfinished\":2},\"cuLaunchKernel\":{\"calls\":9,\"entry_only\":9,"
		"\"abandoned\":1}},\"wall_ms\":2000.000001,\"probe_cost_ns\":1350,\"count_cost_ns\":620,"
		"\"cost_ms\":0.028350,\"cost_share\":1.42e-05,\"max_thread_overhead\":0.125,"
		"\"max_overhead_tid\":4711,\"costs\":{\"cuLaunchKernel\":0.020000,\"cuInit\":0.008000},"
		"\"detail_low_saving_ms\":0.009000,\"not_traced\":\"nothing\"}\n");
	free(s);
}

/* The file cannot grow any more: whole lines, a header, and an end that counts the missing ones. */
static void test_full(void **state)
{
	struct trace_end end = {.end_ns = BASE_NS + 1, .reason = "interrupted"};
	int null = open("/dev/null", O_WRONLY), saved = dup(STDERR_FILENO), ret;
	struct trace_event ev = launch();
	struct rlimit old, lim;
	unsigned lines = 0, lost;
	bool failed;
	char *s, *p;

	begin(&plain);
	dup2(null, STDERR_FILENO);
	getrlimit(RLIMIT_FSIZE, &old);
	lim = old;
	lim.rlim_cur = 100000;
	setrlimit(RLIMIT_FSIZE, &lim);
	for (int i = 0; i < 5000; i++)
		sink__event(sink, &ev);
	sink__flush(sink);
	failed = sink__failed(sink);
	ret = sink__close(sink, &end);
	setrlimit(RLIMIT_FSIZE, &old);
	dup2(saved, STDERR_FILENO);
	close(saved);
	close(null);

	assert_true(failed);
	assert_int_equal(ret, -EFBIG);
	s = slurp();
	assert_memory_equal(s, "{\"ts\":0.000000,\"type\":\"header\"", 30);
	p = strstr(s, "\"type\":\"end\"");
	assert_non_null(p);
	p = strstr(p, ",\"write_error\":\"File too large\",\"lines_lost\":");
	assert_non_null(p);
	assert_int_equal(sscanf(strrchr(p, ':'), ":%u}", &lost), 1);
	for (p = s; (p = strchr(p, '\n')); p++)
		lines++;
	assert_int_equal(lines - 2 + lost, 5000);
	free(s);
}

static void test_no_such_file(void **state)
{
	assert_null(sink__open(SINK_JSONL, "/no/such/folder/x", &plain));
	assert_null(sink__open(SINK_JSONL, "/dev/full", &plain));
	assert_int_equal(sink__close(NULL, NULL), 0);
}

static int setup(void **state)
{
	int fd;

	strcpy(path, "/tmp/cudatrace-jsonl.XXXXXX");
	fd = mkstemp(path);
	return fd < 0 ? -1 : close(fd);
}

static int teardown(void **state)
{
	return unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_alloc),	   cmocka_unit_test(test_outcome),
		cmocka_unit_test(test_said_again), cmocka_unit_test(test_launch),
		cmocka_unit_test(test_copy),	   cmocka_unit_test(test_hostile_names),
		cmocka_unit_test(test_process),	   cmocka_unit_test(test_library),
		cmocka_unit_test(test_header),	   cmocka_unit_test(test_end),
		cmocka_unit_test(test_full),	   cmocka_unit_test(test_no_such_file),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
