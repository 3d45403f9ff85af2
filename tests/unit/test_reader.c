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
#include <zlib.h>
#include <zstd.h>

#include "decode/nv/nv_decode.h"
#include "saved/reader.h"
#include "sink/sink.h"
#include "util/log.h"

#define HEADER                                                                                     \
	"{\"ts\":0.000000,\"type\":\"header\",\"name\":\"cudatrace\",\"schema\":2,"                \
	"\"version\":\"1.2\",\"command\":[\"a\",\"b \\\"c\\\"\"],\"host\":\"h\",\"kernel\":\"6\"," \
	"\"machine\":\"x86_64\",\"driver_version\":null,\"cuda_version\":\"12.4\",\"libraries\":"  \
	"[{\"path\":\"/l\",\"build_id\":\"ab\",\"id\":1,\"functions\":7},{\"path\":\"/m\"}],"      \
	"\"traced\":\"t\",\"not_traced\":\"l\",\"mechanism\":\"m\",\"degraded\":[\"d\"],"          \
	"\"probe_cost_ns\":12.5,\"clock\":\"CLOCK_MONOTONIC\",\"clock_base_ns\":5000000000,"       \
	"\"wall_time\":\"2026-01-01T00:00:00.123456789Z\"}\n"
#define END                                                                                        \
	"{\"ts\":9.5,\"type\":\"end\",\"name\":\"cudatrace\",\"reason\":\"r\",\"events\":"         \
	"{\"memory\":2,\"from the future\":1},\"calls\":2,\"drops\":{\"calls\":3,\"driver\":4},"   \
	"\"unfinished\":5,\"bad_records\":6,\"wall_ms\":9.5,\"cost_ms\":0.000025,"                 \
	"\"max_thread_overhead\":0.5,\"max_overhead_tid\":7,"                                      \
	"\"costs\":{\"cuInit\":0.000020},\"detail_low_saving_ms\":0.000021}\n"
#define CALL(rest) CALL_AT("1.234567", rest)
#define CALL_AT(ts, rest)                                                                          \
	"{\"ts\":" ts ",\"type\":\"memory\",\"op\":\"alloc\",\"name\":\"cuMemAlloc\","             \
	"\"symbol\":\"cuMemAlloc_v2\",\"pid\":10,\"tid\":11,\"comm\":\"py\",\"id\":7," rest "}\n"
#define ALLOC(ptr, size) ALLOC_AT("1.234567", ptr, size)
#define ALLOC_AT(ts, ptr, size)                                                                    \
	CALL_AT(ts, "\"duration_us\":1.501,\"result\":0,\"size\":" size ",\"ptr\":\"" ptr          \
		    "\",\"args\":"                                                                 \
		    "{\"dptr\":\"" ptr "\",\"bytesize\":" size "}")

/* Events read; strings stay valid, the rest is copied. */
static struct {
	struct reader *reader;
	struct saved_file file;
	int ret;
	struct trace_info info;
	struct trace_end end;
	unsigned begin_cnt, end_cnt, cnt;
	struct trace_event ev[64];
	char fields[64][256], args[64][256];
	struct sink *copy; /* the events are written again */
} got;

static char path[64], copy_path[64];

static int on_begin(void *ctx, const char *name, const struct trace_info *info)
{
	got.begin_cnt++;
	got.info = *info;
	return 0;
}

static void on_event(void *ctx, const struct trace_event *ev)
{
	if (got.copy)
		sink__event(got.copy, ev);
	if (got.cnt == 64)
		return;
	got.ev[got.cnt] = *ev;
	snprintf(got.fields[got.cnt], 256, "%.*s", (int)ev->text->fields_len, ev->text->fields);
	snprintf(got.args[got.cnt], 256, "%.*s", (int)ev->text->args_len, ev->text->args);
	got.cnt++;
}

static void on_end(void *ctx, const struct trace_info *info, const struct trace_end *end)
{
	got.end_cnt++;
	got.end = *end;
}

static const struct reader_ops ops = {.begin = on_begin, .event = on_event, .end = on_end};

static void read_path(const char *file)
{
	reader__free(got.reader);
	memset(&got, 0, sizeof(got));
	got.reader = reader__new(&ops, NULL);
	assert_non_null(got.reader);
	got.ret = reader__file(got.reader, file, &got.file);
}

static void write_bytes(const void *data, size_t len)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	assert_int_equal(fwrite(data, 1, len, f), len);
	assert_int_equal(fclose(f), 0);
}

static void read_text(const char *text)
{
	write_bytes(text, strlen(text));
	read_path(path);
}

static void test_header(void **state)
{
	read_text(HEADER END);
	assert_int_equal(got.ret, 0);
	assert_int_equal(got.begin_cnt, 1);
	assert_int_equal(got.end_cnt, 1);
	assert_string_equal(got.info.version, "1.2");
	assert_int_equal(got.info.argc, 2);
	assert_string_equal(got.info.argv[1], "b \"c\"");
	assert_string_equal(got.info.hostname, "h");
	assert_string_equal(got.info.driver_version, "");
	assert_int_equal(got.info.cuda_version, 12040);
	assert_int_equal(got.info.lib_cnt, 2);
	assert_string_equal(got.info.libs[0].build_id, "ab");
	assert_int_equal(got.info.libs[0].attached_cnt, 7);
	assert_string_equal(got.info.libs[1].path, "/m");
	assert_string_equal(got.info.libs[1].build_id, "");
	assert_null(got.info.kernel_probe);
	assert_int_equal(got.info.degraded_cnt, 1);
	assert_true(got.info.probe_cost_ns == 12.5);
	assert_int_equal(got.info.base_ns, 5000000000);
	assert_int_equal(got.info.wall_ns, 1767225600123456789);
	assert_int_equal(got.end.end_ns, 5009500000);
	assert_string_equal(got.end.reason, "r");
	assert_int_equal(got.end.event_cnt, 3);
	assert_int_equal(got.end.type_cnt[TYPE_MEMORY], 2);
	assert_int_equal(got.end.call_cnt, 2);
	assert_int_equal(got.end.drops[CT_DROP_CALL], 3);
	assert_int_equal(got.end.drops[CT_DROP_NV], 4);
	assert_int_equal(got.end.stats[CT_STAT_UNFINISHED], 5);
	assert_int_equal(got.end.bad_record_cnt, 6);
	assert_int_equal(got.end.cost_ns, 25);
	assert_true(got.end.max_thread_overhead == 0.5);
	assert_int_equal(got.end.max_overhead_tid, 7);
	assert_int_equal(got.end.costly_cnt, 1);
	assert_int_equal(got.end.costly[0].ns, 20);
	assert_int_equal(got.end.detail_low_saving_ns, 21);
}

static void test_call(void **state)
{
	const struct trace_event *ev = got.ev;

	read_text(HEADER ALLOC("0x7f00", "1024") ALLOC("0x9f00", "4") END);
	assert_int_equal(got.cnt, 2);
	assert_int_equal(ev->kind, EVENT_CALL);
	assert_int_equal(ev->type, TYPE_MEMORY);
	assert_ptr_equal(ev->fn, api_fn_by_symbol("cuMemAlloc_v2"));
	assert_string_equal(ev->op, "alloc");
	assert_string_equal(ev->name, "cuMemAlloc");
	assert_ptr_equal(ev[0].name, ev[1].name);
	assert_ptr_equal(ev[0].comm, ev[1].comm);
	assert_string_equal(ev->comm, "py");
	assert_int_equal(ev->pid, 10);
	assert_int_equal(ev->tid, 11);
	assert_int_equal(ev->id, 7);
	assert_int_equal(ev->lib_id, 1);
	assert_int_equal(ev->start_ns, 5001234567);
	assert_int_equal(ev->end_ns, 5001236068);
	assert_int_equal(ev->has, HAS_SIZE | HAS_PTR);
	assert_int_equal(ev->size, 1024);
	assert_int_equal(ev->ptr, 0x7f00);
	assert_true(ev->has_mem);
	assert_int_equal(ev[0].mem.bytes[MEM_DEVICE], 1024);
	assert_int_equal(ev[1].mem.bytes[MEM_DEVICE], 1028);
	assert_string_equal(got.fields[0], "\"size\":1024,\"ptr\":\"0x7f00\"");
	assert_string_equal(got.args[0], "\"dptr\":\"0x7f00\",\"bytesize\":1024");
	assert_int_equal(got.file.events, 2);
	assert_int_equal(got.file.lines, 4);
	assert_int_equal(got.file.bad_lines, 0);
}

/* Functions in no table, calls that did not return, times before the start. */
static void test_odd_calls(void **state)
{
	read_text(
		HEADER
		"{\"ts\":-0.000042,\"type\":\"other\",\"op\":\"other\",\"name\":\"cuWhat\",\"symbol\":"
		"\"cuWhat_v3\",\"pid\":1,\"tid\":1,\"comm\":null,\"id\":1,\"parent\":2,\"depth\":3,"
		"\"lib\":4,\"abandoned\":true,\"elapsed_us\":2.000,\"args\":{}}\n"
		"{\"ts\":1.5,\"type\":\"other\",\"op\":\"other\",\"name\":\"cuWhat\",\"symbol\":"
		"\"cuWhat_v3\",\"pid\":1,\"tid\":1,\"comm\":\"\\u0001\\\"\xc3\xa4\",\"id\":2,"
		"\"duration_us\":1e3,\"result\":-3,\"error\":\"-3\",\"args\":{}}\n");
	assert_int_equal(got.cnt, 2);
	assert_false(got.ev[0].fn->known);
	assert_string_equal(got.ev[0].fn->symbol, "cuWhat_v3");
	assert_ptr_equal(got.ev[0].fn, got.ev[1].fn);
	assert_int_equal(got.ev[0].start_ns, 5000000000 - 42);
	assert_int_equal(event_duration_ns(&got.ev[0]), 2000);
	assert_true(got.ev[0].abandoned);
	assert_null(got.ev[0].comm);
	assert_int_equal(got.ev[0].parent_id, 2);
	assert_int_equal(got.ev[0].depth, 3);
	assert_int_equal(got.ev[0].lib_id, 4);
	assert_string_equal(got.ev[1].comm, "\001\"\xc3\xa4");
	assert_int_equal(event_duration_ns(&got.ev[1]), 1000000);
	assert_int_equal(got.ev[1].result, -3);
	assert_true(got.ev[1].is_error);
}

static void test_launch(void **state)
{
	const struct launch_info *l = &got.ev[0].launch;

	read_text(
		HEADER
		"{\"ts\":1,\"type\":\"kernel\",\"op\":\"launch\",\"name\":\"cuLaunchKernelEx\","
		"\"symbol\":\"cuLaunchKernelEx\",\"pid\":1,\"tid\":1,\"comm\":\"c\",\"id\":1,"
		"\"duration_us\":1.000,\"result\":0,\"ioctls\":2,\"ioctl_us\":1.5,\"off_cpu_us\":0.5,"
		"\"stream\":\"0xabc\",\"kernel\":\"k<\\\"x\\\">()\",\"kernel_mangled\":\"_Zk\","
		"\"kernel_source\":\"handle\",\"func\":\"0xf\",\"grid\":[1,2,3],\"block\":[4,5,6],"
		"\"shared_mem\":7,\"cluster\":[1,1,2],\"cooperative\":true,\"capturing\":true,"
		"\"args\":{\"f\":\"0xf\"}}\n"
		"{\"ts\":2,\"type\":\"kernel\",\"op\":\"launch\",\"name\":\"cuLaunchKernel\","
		"\"symbol\":\"cuLaunchKernel\",\"pid\":1,\"tid\":1,\"comm\":\"c\",\"id\":2,"
		"\"duration_us\":1.000,\"result\":0,\"stream\":\"0x0\",\"kernel\":\"k<\\\"x\\\">()\","
		"\"func\":\"0xf\",\"args\":{}}\n");
	assert_int_equal(got.cnt, 2);
	assert_int_equal(got.ev[0].has,
			 HAS_LAUNCH | HAS_KERNEL | HAS_STREAM | HAS_IOCTLS | HAS_OFF_CPU);
	assert_int_equal(got.ev[0].ioctl_cnt, 2);
	assert_int_equal(got.ev[0].ioctl_ns, 1500);
	assert_int_equal(got.ev[0].off_cpu_ns, 500);
	assert_int_equal(got.ev[0].stream, 0xabc);
	assert_string_equal(l->kernel, "k<\"x\">()");
	assert_ptr_equal(l->kernel, got.ev[1].launch.kernel);
	assert_string_equal(l->kernel_mangled, "_Zk");
	assert_true(l->kernel_guessed && l->cooperative && got.ev[0].capturing && l->has_config);
	assert_int_equal(l->func, 0xf);
	assert_int_equal(l->grid[0] * 100 + l->grid[1] * 10 + l->grid[2], 123);
	assert_int_equal(l->block[0] * 100 + l->block[1] * 10 + l->block[2], 456);
	assert_int_equal(l->cluster[2], 2);
	assert_int_equal(l->shared_mem_sz, 7);
	assert_false(got.ev[1].launch.has_config);
}

/* An exec, an exit and a fork start from nothing; frees refer to existing memory. */
static void test_memory(void **state)
{
	static const char exec[] =
		"{\"ts\":4,\"type\":\"process\",\"op\":\"exec\",\"name\":\"exec\","
		"\"pid\":10,\"tid\":10,\"comm\":\"c\"}\n";
	char text[4096];

	snprintf(text, sizeof(text), "%s%s%s%s%s", HEADER ALLOC("0x100", "16"),
		 "{\"ts\":2,\"type\":\"memory\",\"op\":\"free\",\"name\":\"cuMemFree\",\"symbol\":"
		 "\"cuMemFree_v2\",\"pid\":10,\"tid\":11,\"comm\":\"c\",\"id\":8,\"duration_us\":1,"
		 "\"result\":0,\"ptr\":\"0x100\",\"args\":{}}\n",
		 ALLOC_AT("3", "0x100", "16"), exec, ALLOC_AT("5", "0x200", "1"));
	read_text(text);
	assert_int_equal(got.cnt, 5);
	assert_true(got.ev[1].has_mem);
	assert_int_equal(got.ev[1].mem.bytes[MEM_DEVICE], 0);
	assert_int_equal(got.ev[1].size, 16);
	assert_int_equal(got.ev[2].mem.bytes[MEM_DEVICE], 16);
	assert_int_equal(got.ev[3].kind, EVENT_PROCESS);
	assert_int_equal(got.ev[4].mem.bytes[MEM_DEVICE], 1);
}

static void test_processes(void **state)
{
	read_text(
		HEADER
		"{\"ts\":1,\"type\":\"process\",\"op\":\"fork\",\"name\":\"fork\",\"pid\":12,\"tid\":12,"
		"\"comm\":\"c\",\"parent_pid\":11}\n"
		"{\"ts\":2,\"type\":\"process\",\"op\":\"exit\",\"name\":\"exit\",\"pid\":12,\"tid\":12,"
		"\"comm\":\"c\",\"exit_code\":3}\n"
		"{\"ts\":3,\"type\":\"process\",\"op\":\"exit\",\"name\":\"exit\",\"pid\":12,\"tid\":12,"
		"\"comm\":\"c\",\"signal\":9}\n"
		"{\"ts\":4,\"type\":\"library\",\"op\":\"attach\",\"name\":\"libcuda\",\"pid\":12,"
		"\"tid\":12,\"comm\":\"c\",\"lib\":2,\"path\":\"/l\",\"build_id\":\"ab\","
		"\"note\":\"n\"}\n");
	assert_int_equal(got.cnt, 4);
	assert_int_equal(got.ev[0].process.parent_pid, 11);
	assert_int_equal(got.ev[1].process.exit_code, 3);
	assert_int_equal(got.ev[2].process.signal, 9);
	assert_int_equal(got.ev[3].kind, EVENT_LIBRARY);
	assert_int_equal(got.ev[3].lib_id, 2);
	assert_string_equal(got.ev[3].library.path, "/l");
	assert_string_equal(got.ev[3].library.note, "n");
}

#define DRIVER(op, name, rest)                                                                     \
	"{\"ts\":1,\"type\":\"kernel\",\"op\":\"" op "\",\"name\":\"" name "\",\"pid\":1,"         \
	"\"tid\":2,\"comm\":\"c\"," rest "}\n"

static void test_driver(void **state)
{
	/* Its drv is valid only during the event. */
	read_text(HEADER DRIVER(
		"ioctl", "NV_ESC_RM_ALLOC",
		"\"duration_us\":2.5,\"device\":\"nvidiactl\",\"fd\":8,\"cmd\":\"0xc0\","
		"\"class\":\"X\",\"parent\":\"0x5c\",\"status\":\"NV_OK\",\"result\":0,"
		"\"call_id\":30,\"call\":\"cuInit\""));
	assert_int_equal(got.cnt, 1);
	assert_int_equal(got.ev[0].kind, EVENT_DRIVER);
	assert_int_equal(got.ev[0].parent_id, 0);
	assert_int_equal(event_duration_ns(got.ev), 2500);
	assert_false(got.ev[0].is_error);
	assert_string_equal(got.ev[0].drv->device, "nvidiactl");
	assert_string_equal(got.ev[0].drv->io->class->name, "X");
	assert_int_equal(got.ev[0].drv->call_id, 30);
	assert_string_equal(got.ev[0].drv->call, "cuInit");
	assert_int_equal(got.ev[0].drv->fd, 8);
	assert_true(nv_has(got.ev[0].drv->io, NV_R_PARENT));
	read_text(HEADER DRIVER("ioctl", "NV_ESC_RM_FREE",
				"\"duration_us\":2.5,\"device\":\"nvidiactl\",\"cmd\":\"0xc0\","
				"\"status\":\"NV_ERR_INVALID_OBJECT\",\"result\":0"));
	assert_true(got.ev[0].is_error);
	assert_int_equal(got.ev[0].drv->fd, -1);
	assert_string_equal(got.ev[0].drv->io->status_name, "NV_ERR_INVALID_OBJECT");
	read_text(HEADER DRIVER("mmap", "mmap",
				"\"duration_us\":2.5,\"device\":\"nvidia0\",\"size\":"
				"4096,\"ptr\":\"0x7000\""));
	assert_false(got.ev[0].is_error);
	assert_int_equal(got.ev[0].has, 0);
	assert_int_equal(got.ev[0].drv->length, 4096);
	assert_int_equal(got.ev[0].drv->address, 0x7000);
	read_text(HEADER
		  "{\"ts\":1,\"type\":\"uvm\",\"op\":\"migration\",\"name\":\"migration\","
		  "\"pid\":1,\"tid\":2,\"comm\":\"\",\"ptr\":\"0x10\",\"size\":4096,\"from\":"
		  "\"CPU\",\"to\":\"GPU2\",\"cause\":\"prefetch\"}\n");
	assert_int_equal(got.ev[0].kind, EVENT_UVM);
	assert_int_equal(got.ev[0].uvm.from, 0);
	assert_int_equal(got.ev[0].uvm.to, 3);
	assert_int_equal(got.ev[0].uvm.cause, 3);
	assert_int_equal(got.ev[0].size, 4096);
	read_text(HEADER "{\"ts\":1,\"type\":\"xid\",\"op\":\"xid\",\"name\":\"xid\",\"pid\":0,"
			 "\"tid\":0,\"comm\":\"\",\"xid\":79,\"gpu\":\"0:1\",\"message\":\"m\"}\n");
	assert_int_equal(got.ev[0].xid.xid, 79);
	assert_string_equal(got.ev[0].xid.gpu, "0:1");
	assert_string_equal(got.ev[0].xid.message, "m");
}

/* Other order of members, another program, blanks: still the same event. */
static void test_other_order(void **state)
{
	read_text("{\"schema\": 2, \"name\": \"cudatrace\", \"type\": \"header\", \"ts\": 0, "
		  "\"clock_base_ns\": 5e9}\r\n"
		  " {\"args\": {\"a\": [1, {\"b\": 2}]}, \"size\": 5, \"pid\": 1, \"new\": null, "
		  "\"symbol\": \"cuMemAlloc_v2\", \"ptr\": \"0x1\", \"tid\": 1, \"id\": 3, "
		  "\"result\": 0, \"duration_us\": 1.5, \"comm\": \"c\", \"name\": \"cuMemAlloc\", "
		  "\"op\": \"alloc\", \"type\": \"memory\", \"ts\": 1.2345670000000001}\r\n\r\n");
	assert_int_equal(got.ret, 0);
	assert_int_equal(got.cnt, 1);
	assert_int_equal(got.ev[0].start_ns, 5001234567);
	assert_int_equal(event_duration_ns(got.ev), 1500);
	assert_int_equal(got.ev[0].mem.bytes[MEM_DEVICE], 5);
	assert_string_equal(got.fields[0], "\"size\":5,\"ptr\":\"0x1\",\"new\":null");
	assert_string_equal(got.args[0], "\"a\":[1,{\"b\":2}]");
	assert_int_equal(got.file.bad_lines, 0);
}

/* Reading and writing an event again does not change it. */
static void test_again(void **state)
{
	static const char golden[] = "tests/golden/h200-triton.jsonl";
	char *a = NULL, *b = NULL;
	size_t a_sz = 0, b_sz = 0;
	unsigned lines = 0;
	FILE *fa, *fb;

	reader__free(got.reader);
	memset(&got, 0, sizeof(got));
	got.reader = reader__new(&ops, NULL);
	got.copy = sink__open(SINK_JSONL, copy_path,
			      &(struct trace_info){.version = "x", .base_ns = 100000000000});
	assert_int_equal(reader__file(got.reader, golden, &got.file), 0);
	assert_int_equal(sink__close(got.copy, NULL), 0);
	fa = fopen(golden, "r");
	fb = fopen(copy_path, "r");
	assert_true(getline(&a, &a_sz, fa) > 0 && getline(&b, &b_sz, fb) > 0);
	while (getline(&b, &b_sz, fb) > 0) {
		assert_true(getline(&a, &a_sz, fa) > 0);
		/* Another base: times differ. */
		assert_string_equal(strchr(a, ','), strchr(b, ','));
		lines++;
	}
	assert_int_equal(lines, got.file.events);
	assert_true(lines > 100);
	free(a);
	free(b);
	fclose(fa);
	fclose(fb);
}

static void test_bad(void **state)
{
	static const char nul[] = HEADER "{\"ts\":1\0}\n" ALLOC("0x1", "1");

	read_text("");
	assert_int_not_equal(got.ret, 0);
	read_text("\n \n");
	assert_int_not_equal(got.ret, 0);
	read_text("hello\n[]\n{}\n17\n\"\"\n");
	assert_int_not_equal(got.ret, 0);
	assert_int_equal(got.file.bad_lines, 5);
	read_text("[\n{\"name\":\"x\"},\n");
	assert_int_not_equal(got.ret, 0);
	read_path("/nonexistent/file");
	assert_int_not_equal(got.ret, 0);
	read_path("/");
	assert_int_not_equal(got.ret, 0);
	read_text("{\"ts\":0,\"type\":\"header\",\"name\":\"cudatrace\",\"schema\":3}\n" ALLOC(
		"0x1", "1"));
	assert_int_not_equal(got.ret, 0);
	assert_int_equal(got.cnt, 0);
	/* Lines without required members, and one with an unprintable name. */
	read_text(HEADER
		  "{\"ts\":1,\"type\":\"memory\"}\n"
		  "{\"ts\":\"1\",\"type\":\"memory\"}\n"
		  "{\"ts\":1,\"type\":\"memory\",\"id\":1,\"op\":\"a\\\"b\",\"name\":\"x\"}\n"
		  "{\"ts\":1,\"type\":\"memory\",\"id\":1,\"op\":\"a\",\"name\":7}\n");
	assert_int_equal(got.ret, 0);
	assert_int_equal(got.cnt, 0);
	assert_int_equal(got.file.bad_lines, 4);
	write_bytes(nul, sizeof(nul) - 1);
	read_path(path);
	assert_int_equal(got.file.bad_lines, 1);
	assert_int_equal(got.cnt, 1);
	/* Not UTF-8. */
	read_text(HEADER CALL("\"result\":0,\"x\":\"\xff\",\"args\":{}") ALLOC("0x1", "1"));
	assert_int_equal(got.file.bad_lines, 1);
	assert_int_equal(got.cnt, 1);
}

static void test_cut(void **state)
{
	read_text(HEADER ALLOC("0x1", "1") "{\"ts\":1.5,\"type\":\"mem");
	assert_int_equal(got.ret, 0);
	assert_int_equal(got.cnt, 1);
	assert_int_equal(got.file.cut_line, 3);
	/* Complete except for the newline. */
	read_text(HEADER CALL("\"result\":0,\"args\":{}"));
	assert_int_equal(truncate(path, got.file.bytes - 1), 0);
	read_path(path);
	assert_int_equal(got.cnt, 1);
	assert_int_equal(got.file.cut_line, 0);
	assert_int_equal(got.file.bad_lines, 0);
	/* In the middle: only that line is bad. */
	read_text(HEADER "{\"ts\":1.5,\"type\n" ALLOC("0x1", "1") END);
	assert_int_equal(got.cnt, 1);
	assert_int_equal(got.file.bad_lines, 1);
	assert_int_equal(got.file.cut_line, 0);
	assert_int_equal(got.end_cnt, 1);
}

static void test_no_header(void **state)
{
	read_text(ALLOC("0x1", "1") "{\"ts\":1,\"type\":\"from the future\",\"x\":1}\n" END);
	assert_int_equal(got.ret, 0);
	assert_int_equal(got.begin_cnt, 1);
	assert_int_equal(got.cnt, 1);
	assert_int_equal(got.ev[0].start_ns, 1234567);
	assert_int_equal(got.file.bad_lines, 0);
}

/* Deep nesting must not exhaust the stack, nor long lines the memory. */
static void test_deep_and_long(void **state)
{
	size_t len = READER_LINE_MAX + (1 << 20);
	char *text = malloc(len + 4096);
	size_t n;

	assert_non_null(text);
	n = sprintf(text, "%s{\"ts\":1,\"type\":", HEADER);
	memset(text + n, '[', len - n);
	sprintf(text + len, "\n%s", ALLOC("0x1", "1"));
	read_text(text);
	assert_int_equal(got.file.bad_lines, 1);
	assert_int_equal(got.file.lines, 3);
	assert_int_equal(got.cnt, 1);
	memset(text + n, '[', 100000);
	sprintf(text + n + 100000, "\n%s", ALLOC("0x1", "1"));
	read_text(text);
	assert_int_equal(got.file.bad_lines, 1);
	assert_int_equal(got.cnt, 1);
	/* Long, but within the limit. */
	n = sprintf(text, "%s{\"x\":\"", HEADER);
	memset(text + n, 'x', READER_LINE_MAX / 2);
	sprintf(text + n + READER_LINE_MAX / 2, "\",%s", &ALLOC("0x1", "1")[1]);
	read_text(text);
	assert_int_equal(got.file.bad_lines, 0);
	assert_int_equal(got.cnt, 1);
	free(text);
}

/* A trace of the same boot keeps its place; processes of another boot are different ones. */
static void test_several(void **state)
{
	char text[8192];
	char *second;

	snprintf(text, sizeof(text), "%s%s%s%s", HEADER ALLOC("0x1", "1") END,
		 HEADER ALLOC("0x2", "2") END, "", "");
	second = strstr(text + 100, "\"type\":\"header\"");
	assert_non_null(second);
	/* The same clock again: it begins before the first has ended. */
	read_text(text);
	assert_int_equal(got.begin_cnt, 2);
	assert_int_equal(got.end_cnt, 2);
	assert_int_equal(got.cnt, 2);
	assert_int_equal(got.ev[1].start_ns, 5009500000 + 1000000 + 1234567);
	assert_int_equal(got.ev[1].pid, 10000010);
	assert_int_equal(got.ev[1].mem.bytes[MEM_DEVICE], 2);
	/* A second later on the same machine. */
	memcpy(strstr(second, "5000000000"), "6000000000", 10);
	memcpy(strstr(second, "00:00:00"), "00:00:01", 8);
	read_text(text);
	assert_int_equal(got.ev[1].start_ns, 6001234567);
	assert_int_equal(got.ev[1].pid, 10);
	assert_int_equal(got.ev[1].mem.bytes[MEM_DEVICE], 3);
}

#define BOOT(id) ",\"boot_id\":\"" id "\"}\n"

/* The clock may be set between two traces of one boot, and may be the same in two boots. */
static void test_boots(void **state)
{
	static const char *const ids[] = {BOOT("b"), BOOT("c")};
	char text[8192], first[1024], second[1024];

	for (int same = 0; same < 2; same++) {
		snprintf(first, sizeof(first), "%.*s%s", (int)strlen(HEADER) - 2, HEADER, ids[0]);
		snprintf(second, sizeof(second), "%.*s%s", (int)strlen(HEADER) - 2, HEADER,
			 ids[!same]);
		memcpy(strstr(second, "5000000000"), "6000000000", 10);
		memcpy(strstr(second, "00:00:00"), same ? "05:00:00" : "00:00:01", 8);
		snprintf(text, sizeof(text), "%s%s%s%s", first, ALLOC("0x1", "1") END, second,
			 ALLOC("0x2", "2") END);
		read_text(text);
		assert_int_equal(got.cnt, 2);
		assert_int_equal(got.ev[1].pid, same ? 10 : 10000010);
	}
}

static void check_packed(const void *data, size_t len, unsigned events, int error)
{
	write_bytes(data, len);
	read_path(path);
	assert_int_equal(got.cnt, events);
	assert_int_equal(!!got.ret, error);
}

static void test_packed(void **state)
{
	static const char text[] = HEADER ALLOC("0x1", "1") ALLOC("0x2", "2") END;
	unsigned char out[8192];
	z_stream z = {.next_in = (unsigned char *)text,
		      .avail_in = sizeof(text) - 1,
		      .next_out = out,
		      .avail_out = sizeof(out)};
	size_t n;

	assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY), Z_OK);
	assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
	n = z.total_out;
	deflateEnd(&z);
	check_packed(out, n, 2, 0);
	/* Truncated: the part before is read. */
	check_packed(out, n - 9, 2, 0);
	check_packed(out, 12, 0, 1);
	out[n / 2] ^= 0x55;
	write_bytes(out, n);
	read_path(path);
	n = ZSTD_compress(out, sizeof(out), text, sizeof(text) - 1, 3);
	assert_false(ZSTD_isError(n));
	check_packed(out, n, 2, 0);
	check_packed(out, 20, 0, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_header),	      cmocka_unit_test(test_call),
		cmocka_unit_test(test_odd_calls),     cmocka_unit_test(test_launch),
		cmocka_unit_test(test_memory),	      cmocka_unit_test(test_processes),
		cmocka_unit_test(test_driver),	      cmocka_unit_test(test_other_order),
		cmocka_unit_test(test_again),	      cmocka_unit_test(test_bad),
		cmocka_unit_test(test_cut),	      cmocka_unit_test(test_no_header),
		cmocka_unit_test(test_deep_and_long), cmocka_unit_test(test_several),
		cmocka_unit_test(test_boots),	      cmocka_unit_test(test_packed),
	};
	int ret;

	log_set_level(LOG_ERR);
	snprintf(path, sizeof(path), "/tmp/test_reader.%d", getpid());
	snprintf(copy_path, sizeof(copy_path), "/tmp/test_reader_copy.%d", getpid());
	ret = cmocka_run_group_tests(tests, NULL, NULL);
	reader__free(got.reader);
	unlink(path);
	unlink(copy_path);
	return ret;
}
