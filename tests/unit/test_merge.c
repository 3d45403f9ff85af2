/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Several traces as one: their order, times and processes. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "saved/reader.h"
#include "util/log.h"

#define MS 1000000ull

/* base: ms of CLOCK_MONOTONIC. wall: second and ms of an hour. */
#define HEADER(boot, base, wall)                                                                   \
	"{\"ts\":0,\"type\":\"header\",\"name\":\"cudatrace\",\"schema\":2,\"host\":\"h\","        \
	"\"clock_base_ns\":" #base "000000,\"wall_time\":\"2026-01-01T00:00:" wall                 \
	"000000Z\",\"boot_id\":\"" boot "\"}\n"
#define PIECE(boot, base, wall, n)                                                                 \
	"{\"ts\":0,\"type\":\"header\",\"name\":\"cudatrace\",\"schema\":2,\"host\":\"h\","        \
	"\"clock_base_ns\":" #base "000000,\"wall_time\":\"2026-01-01T00:00:" wall                 \
	"000000Z\",\"boot_id\":\"" boot "\",\"segment\":" #n "}\n"
#define CALL(ts, id)                                                                               \
	"{\"ts\":" #ts ",\"type\":\"sync\",\"op\":\"sync\",\"name\":\"cuCtxSynchronize\","         \
	"\"symbol\":\"cuCtxSynchronize\",\"pid\":7,\"tid\":8,\"comm\":\"x\",\"id\":" #id           \
	",\"duration_us\":1000,\"result\":0,\"stack\":1,\"args\":{}}\n"
#define STACK(symbol)                                                                              \
	"{\"ts\":0,\"type\":\"stack\",\"op\":\"stack\",\"name\":\"stack\",\"pid\":7,\"tid\":8,"    \
	"\"comm\":\"x\",\"id\":1,\"frames\":[{\"ip\":\"0x1\",\"symbol\":\"" symbol "\"}]}\n"
#define END(ts) "{\"ts\":" #ts ",\"type\":\"end\",\"name\":\"cudatrace\",\"reason\":\"done\"}\n"
#define SPLIT(ts)                                                                                  \
	"{\"ts\":" #ts ",\"type\":\"end\",\"name\":\"cudatrace\",\"reason\":\"max-file\"}\n"

static char folder[] = "/tmp/cudatrace-merge.XXXXXX";

/* The events in that order: b0 is the begin of trace 0, 17@5 a call with this id that ends at this
 * ms of the report, e0 an end. */
static struct {
	char said[1024];
	struct trace_info info[8];
	uint32_t pid[64];
	const char *symbol[64];
	const void *comm[64];
	unsigned call_cnt;
	uint64_t first_ns;
} got;

static void __attribute__((format(printf, 1, 2))) say(const char *fmt, ...)
{
	size_t len = strlen(got.said);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(got.said + len, sizeof(got.said) - len, fmt, ap);
	va_end(ap);
}

static int on_begin(void *ctx, const char *path, const struct trace_info *info)
{
	assert_true(info->number < 8);
	got.info[info->number] = *info;
	if (!info->number)
		got.first_ns = info->base_ns;
	say("b%u ", info->number);
	return 0;
}

static void on_event(void *ctx, const struct trace_event *ev)
{
	assert_int_equal(ev->clock, got.info[ev->trace].clock);
	got.pid[got.call_cnt] = ev->pid;
	got.comm[got.call_cnt] = ev->comm;
	got.symbol[got.call_cnt++] = ev->stack ? ev->stack->frames[0].symbol : NULL;
	say("%d@%d ", (int)ev->id, (int)((int64_t)(ev->end_ns - got.first_ns) / (int64_t)MS));
}

static void on_end(void *ctx, const struct trace_info *info, const struct trace_end *end)
{
	say("e%u ", info->number);
}

/* Pairs of name and text, NULL at the end. Each is written to a file; the reader does not get one
 * whose name begins with "-". */
static const char *merged(const char *name, ...)
{
	static const struct reader_ops ops = {.begin = on_begin, .event = on_event, .end = on_end};
	struct reader *r = reader__new(&ops, NULL);
	struct saved_file files[64];
	const char *paths[64];
	unsigned cnt = 0;
	va_list ap;

	memset(&got, 0, sizeof(got));
	va_start(ap, name);
	for (; name; name = va_arg(ap, const char *)) {
		const char *text = va_arg(ap, const char *);
		bool is_named = *name != '-';
		char *path;
		FILE *f;

		assert_true(asprintf(&path, "%s/%s", folder, name + !is_named) > 0);
		f = fopen(path, "w");
		assert_non_null(f);
		fputs(text, f);
		fclose(f);
		if (is_named)
			paths[cnt++] = path;
		else
			free(path);
	}
	va_end(ap);
	assert_int_equal(reader__files(r, paths, cnt, files), 0);
	for (unsigned i = 0; i < cnt; i++) {
		assert_int_equal(files[i].bad_lines, 0);
		free((char *)paths[i]);
	}
	reader__free(r);
	return got.said;
}

/* Of one boot: CLOCK_MONOTONIC orders them, even if the wall clock was set meanwhile. */
static void same_clock(void **state)
{
	assert_string_equal(
		merged("a", HEADER("B", 1000, "10.000") CALL(10, 1) CALL(30, 2) CALL(50, 3) END(60),
		       "b", HEADER("B", 1020, "02.000") CALL(5, 1) CALL(20, 2) END(90), NULL),
		"b0 1@11 b1 1@26 2@31 2@41 3@51 e0 e1 ");
	assert_int_equal(got.info[1].place, TRACE_SAME_CLOCK);
	assert_int_equal(got.info[1].clock, got.info[0].clock);
	assert_int_equal(got.info[1].base_ns, 1020 * MS);
	/* The order of the names does not matter. */
	assert_string_equal(
		merged("b", HEADER("B", 1020, "02.000") CALL(5, 1) CALL(20, 2) END(90), "a",
		       HEADER("B", 1000, "01.000") CALL(10, 1) CALL(30, 2) CALL(50, 3) END(60),
		       NULL),
		"b0 1@11 b1 1@26 2@31 2@41 3@51 e0 e1 ");
}

/* The same number in two traces means two processes and two stacks; equal texts are one string. */
static void nothing_is_mixed_up(void **state)
{
	merged("a", HEADER("B", 1000, "01.000") STACK("in_a") CALL(10, 1) CALL(30, 1) END(60), "b",
	       HEADER("B", 1001, "01.000") STACK("in_b") CALL(10, 1) CALL(20, 1) END(60), NULL);
	assert_string_equal(got.said, "b0 b1 1@11 1@12 1@22 1@31 e0 e1 ");
	assert_int_equal(got.pid[0], 7);
	assert_int_equal(got.pid[1], 7 + TRACE_PID_STEP);
	assert_int_equal(got.pid[2], 7 + TRACE_PID_STEP);
	assert_int_equal(got.pid[3], 7);
	assert_ptr_equal(got.comm[0], got.comm[1]);
	assert_ptr_not_equal(got.symbol[0], got.symbol[1]);
	assert_ptr_equal(got.symbol[0], got.symbol[3]);
	assert_ptr_equal(got.symbol[1], got.symbol[2]);
}

/* Of two boots: wall clocks order them, and the clock differs. */
static void by_wall(void **state)
{
	assert_string_equal(
		merged("a", HEADER("A", 500000, "10.000") CALL(10, 1) CALL(30, 2) END(60), "b",
		       HEADER("B", 1000, "10.020") CALL(5, 1) CALL(20, 2) END(70), NULL),
		"b0 1@11 b1 1@26 2@31 2@41 e0 e1 ");
	assert_int_equal(got.info[1].place, TRACE_BY_WALL);
	assert_int_not_equal(got.info[1].clock, got.info[0].clock);
	/* A third on the clock of the second. */
	assert_string_equal(merged("a",
				   HEADER("A", 500000, "10.000") CALL(10, 1) CALL(90, 2) END(100),
				   "b", HEADER("B", 1000, "10.020") CALL(5, 1) END(70), "c",
				   HEADER("B", 1010, "33.000") CALL(5, 1) END(30), NULL),
			    "b0 1@11 b1 1@26 b2 1@36 e2 e1 2@91 e0 ");
	assert_int_equal(got.info[2].place, TRACE_SAME_CLOCK);
	assert_int_equal(got.info[2].clock, got.info[1].clock);
}

/* Traces that do not overlap: one after the other, on one clock if they are of one boot. */
static void one_after_the_other(void **state)
{
	assert_string_equal(merged("b", HEADER("B", 5000, "15.000") CALL(10, 1) END(20), "a",
				   HEADER("B", 1000, "11.000") CALL(10, 1) END(60), NULL),
			    "b0 1@11 e0 b1 1@4011 e1 ");
	assert_int_equal(got.info[1].place, TRACE_SAME_CLOCK);
	assert_int_equal(got.info[1].pid_add, 0);
	assert_string_equal(merged("a", HEADER("A", 5000, "10.000") CALL(10, 1) END(20), "b",
				   HEADER("B", 1000, "40.000") CALL(10, 1) END(60), NULL),
			    "b0 1@11 e0 b1 1@32 e1 ");
	assert_int_equal(got.info[1].place, TRACE_BEHIND);
	assert_int_equal(got.pid[1], 7 + TRACE_PID_STEP);
	/* Two traces that overlap with each other, but not with the first. */
	assert_string_equal(merged("a", HEADER("A", 5000, "10.000") CALL(10, 1) END(20), "b",
				   HEADER("B", 1000, "40.000") CALL(10, 1) END(60), "c",
				   HEADER("C", 9000, "40.005") CALL(10, 1) END(60), NULL),
			    "b0 1@11 e0 b1 b2 1@32 1@37 e1 e2 ");
	/* The time is unknown. */
	assert_string_equal(merged("a", CALL(10, 1) END(20), "b",
				   HEADER("B", 1000, "40.000") CALL(10, 1) END(60), NULL),
			    "b0 1@11 e0 b1 1@72 e1 ");
	assert_int_equal(got.info[1].place, TRACE_BEHIND);
}

/* Traces in one file are read before it is known that they overlap. */
static void in_one_file(void **state)
{
	assert_string_equal(merged("a",
				   HEADER("B", 1000, "10.000") CALL(10, 1) CALL(30, 2) END(60)
					   HEADER("B", 1020, "10.020") CALL(5, 3) END(90),
				   NULL),
			    "b0 1@11 2@31 e0 b1 3@67 e1 ");
	assert_int_equal(got.info[1].place, TRACE_BEHIND);
	assert_int_not_equal(got.info[1].clock, got.info[0].clock);
	/* The second trace of one file beside that of another. */
	assert_string_equal(merged("a",
				   HEADER("B", 1000, "10.000") CALL(10, 1) END(20)
					   HEADER("B", 1040, "10.020") CALL(5, 3) END(90),
				   "b", HEADER("B", 1030, "10.030") CALL(5, 4) CALL(40, 5) END(50),
				   NULL),
			    "b0 1@11 e0 b1 4@36 b2 3@46 5@71 e1 e2 ");
}

/* Files of a split trace belong together, named or not, beside another. */
static void split(void **state)
{
	static const char *const files[] = {
		HEADER("B", 1000, "10.000") CALL(10, 1) SPLIT(20),
		PIECE("B", 1000, "10.000", 1) CALL(30, 2) SPLIT(35),
		PIECE("B", 1000, "10.000", 2) CALL(50, 3) END(60),
		HEADER("B", 1020, "10.020") CALL(5, 4) CALL(25, 5) END(90),
	};
	static const char said[] = "b0 1@11 b1 4@26 2@31 5@46 3@51 e0 e1 ";

	assert_string_equal(merged("a.jsonl", files[0], "a.1.jsonl", files[1], "a.2.jsonl",
				   files[2], "b.jsonl", files[3], NULL),
			    said);
	assert_string_equal(merged("a.jsonl", files[0], "-a.1.jsonl", files[1], "-a.2.jsonl",
				   files[2], "b.jsonl", files[3], NULL),
			    said);
	assert_string_equal(merged("b.jsonl", files[3], "a.jsonl", files[0], "-a.1.jsonl", files[1],
				   "a.2.jsonl", files[2], NULL),
			    said);
}

/* A pipe cannot be opened twice. */
static void pipes(void **state)
{
	static const struct reader_ops ops = {.begin = on_begin, .event = on_event, .end = on_end};
	static const char *const texts[] = {
		HEADER("B", 1020, "10.020") CALL(5, 4) CALL(25, 5) END(90),
		HEADER("B", 1000, "10.000") CALL(10, 1) CALL(30, 2) END(60),
	};
	struct reader *r = reader__new(&ops, NULL);
	char paths[2][32];
	const char *names[2] = {paths[0], paths[1]};
	struct saved_file files[2];
	int fds[2][2];

	memset(&got, 0, sizeof(got));
	for (int i = 0; i < 2; i++) {
		assert_int_equal(pipe2(fds[i], O_CLOEXEC), 0);
		assert_int_equal(write(fds[i][1], texts[i], strlen(texts[i])), strlen(texts[i]));
		close(fds[i][1]);
		snprintf(paths[i], sizeof(paths[i]), "/proc/self/fd/%d", fds[i][0]);
	}
	assert_int_equal(reader__files(r, names, 2, files), 0);
	assert_string_equal(got.said, "b0 1@11 b1 4@26 2@31 5@46 e0 e1 ");
	assert_int_equal(files[0].lines, 4);
	assert_int_equal(files[0].bytes, strlen(texts[0]));
	close(fds[0][0]);
	close(fds[1][0]);
	reader__free(r);
}

/* A truncated trace delays no other, nor does a file that is not a trace. */
static void not_whole(void **state)
{
	static const struct reader_ops ops = {.begin = on_begin, .event = on_event, .end = on_end};
	struct reader *r;
	struct saved_file files[3];
	char a[64], b[64];
	const char *paths[3] = {a, "/none/there", b};

	merged("a", HEADER("B", 1000, "10.000") CALL(10, 1) CALL(30, 2), "b",
	       HEADER("B", 1020, "10.020") CALL(5, 4) CALL(25, 5) END(90), NULL);
	assert_string_equal(got.said, "b0 1@11 b1 4@26 2@31 5@46 e1 ");
	snprintf(a, sizeof(a), "%s/a", folder);
	snprintf(b, sizeof(b), "%s/b", folder);
	memset(&got, 0, sizeof(got));
	r = reader__new(&ops, NULL);
	assert_int_equal(reader__files(r, paths, 3, files), 0);
	assert_string_equal(got.said, "b0 1@11 b1 4@26 2@31 5@46 e1 ");
	assert_int_equal(files[1].lines, 0);
	assert_string_equal(files[1].path, "/none/there");
	reader__free(r);
}

/* More than are read side by side: the rest follows them. */
static void too_many(void **state)
{
	enum { CNT = READER_SIDES + 3 };
	static const struct reader_ops ops = {0};
	static const char text[] = HEADER("%u", 1000, "10.000") CALL(10, 1) CALL(30, 2) END(60);
	struct reader *r = reader__new(&ops, NULL);
	const char *paths[CNT];
	struct saved_file files[CNT];
	char path[CNT][64];

	for (unsigned i = 0; i < CNT; i++) {
		FILE *f;

		snprintf(path[i], sizeof(path[i]), "%s/many%u", folder, i);
		f = fopen(path[i], "w");
		fprintf(f, text, i);
		fclose(f);
		paths[i] = path[i];
	}
	assert_int_equal(reader__files(r, paths, CNT, files), 0);
	for (unsigned i = 0; i < CNT; i++)
		assert_int_equal(files[i].events, 2);
	reader__free(r);
}

/* Unpacking takes 16 MiB: the file is read alone, but not beside others. */
static void large_windows(void **state)
{
	static const struct reader_ops ops = {.begin = on_begin, .event = on_event, .end = on_end};
	static const char text[] = HEADER("B", 1020, "10.020") CALL(5, 4) CALL(25, 5) END(90);
	struct reader *r;
	struct saved_file files[2];
	char a[64], b[64], packed[1024];
	const char *paths[2] = {a, b};
	ZSTD_CCtx *z = ZSTD_createCCtx();
	ZSTD_outBuffer to = {packed, sizeof(packed), 0};
	ZSTD_inBuffer from = {text, strlen(text), 0};
	FILE *f;

	merged("a", HEADER("B", 1000, "10.000") CALL(10, 1) END(60), NULL);
	snprintf(a, sizeof(a), "%s/a", folder);
	snprintf(b, sizeof(b), "%s/b", folder);
	ZSTD_CCtx_setParameter(z, ZSTD_c_windowLog, 24);
	assert_int_equal(ZSTD_compressStream2(z, &to, &from, ZSTD_e_flush), 0);
	assert_int_equal(ZSTD_compressStream2(z, &to, &from, ZSTD_e_end), 0);
	ZSTD_freeCCtx(z);
	f = fopen(b, "w");
	assert_int_equal(fwrite(packed, 1, to.pos, f), to.pos);
	fclose(f);
	memset(&got, 0, sizeof(got));
	r = reader__new(&ops, NULL);
	assert_int_equal(reader__files(r, paths, 2, files), 0);
	assert_string_equal(got.said, "b0 1@11 e0 ");
	reader__free(r);
	memset(&got, 0, sizeof(got));
	r = reader__new(&ops, NULL);
	assert_int_equal(reader__files(r, paths + 1, 1, files), 0);
	assert_string_equal(got.said, "b0 4@6 5@26 e0 ");
	reader__free(r);
}

static int make_folder(void **state)
{
	log_set_level(LOG_ERR);
	return !mkdtemp(folder);
}

static int remove_folder(void **state)
{
	char cmd[64];

	snprintf(cmd, sizeof(cmd), "rm -r %s", folder);
	return system(cmd);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(same_clock),  cmocka_unit_test(nothing_is_mixed_up),
		cmocka_unit_test(by_wall),     cmocka_unit_test(one_after_the_other),
		cmocka_unit_test(in_one_file), cmocka_unit_test(split),
		cmocka_unit_test(pipes),       cmocka_unit_test(not_whole),
		cmocka_unit_test(too_many),    cmocka_unit_test(large_windows),
	};

	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
