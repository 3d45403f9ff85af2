/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Modified times neither hang a report nor make it write past its memory. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "report/report.h"
#include "saved/reader.h"

#define HEADER(base)                                                                               \
	"{\"ts\":0,\"type\":\"header\",\"name\":\"cudatrace\",\"schema\":2,"                       \
	"\"clock_base_ns\":" base "}\n"
#define CALL(ts, duration)                                                                         \
	"{\"ts\":" ts ",\"type\":\"sync\",\"op\":\"sync\",\"name\":\"cuCtxSynchronize\","          \
	"\"symbol\":\"cuCtxSynchronize\",\"pid\":1,\"tid\":1,\"comm\":\"x\",\"id\":7,"             \
	"\"duration_us\":" duration ",\"result\":0,\"args\":{}}\n"
#define END(ts) "{\"ts\":" ts ",\"type\":\"end\",\"name\":\"cudatrace\"}\n"

#define LEAST                                                                                      \
	"{\"ts\":2,\"type\":\"kernel\",\"op\":\"mmap\",\"name\":\"mmap\",\"pid\":1,\"tid\":1,"     \
	"\"comm\":\"x\",\"duration_us\":1,\"device\":\"nvidiactl\",\"fd\":8,"                      \
	"\"result\":-9223372036854775808}\n"

static void on_event(void *ctx, const struct trace_event *ev)
{
	assert_true(ev->start_ns <= ev->end_ns && ev->end_ns <= 1ull << 62);
	report__event(ctx, ev);
}

/* Bad lines of a trace that a report reads. */
static uint64_t bad_lines(const char *text)
{
	static const struct reader_ops ops = {.event = on_event};
	char path[] = "/tmp/cudatrace-time.XXXXXX";
	int fd = mkstemp(path);
	const struct trace_info info = {0};
	struct report *report = report__new(&(struct report_opts){.top = 10}, &info);
	struct reader *r = reader__new(&ops, report);
	struct saved_file f;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
	alarm(20);
	assert_int_equal(reader__file(r, path, &f), 0);
	alarm(0);
	unlink(path);
	report__free(report);
	reader__free(r);
	return f.bad_lines;
}

static void times_are_bounded(void **state)
{
	assert_int_equal(bad_lines(HEADER("1000") CALL("1", "1") CALL("2", "1") END("3")), 0);
	/* 2^63 and 2^64 ns */
	assert_int_equal(bad_lines(HEADER("1000") CALL("1", "1") CALL("9223372036854.775808", "1")),
			 1);
	assert_int_equal(
		bad_lines(HEADER("1000") CALL("1", "1") CALL("18446744073709.551614", "1")), 1);
	assert_int_equal(bad_lines(HEADER("1000") CALL("1", "1") CALL("2", "9223372036854775.808")),
			 1);
	assert_int_equal(bad_lines(HEADER("1000") CALL("1", "1") CALL("1e300", "1e300")), 1);
	assert_int_equal(bad_lines(HEADER("1000") CALL("1", "1") CALL("-1e300", "1")), 1);
	assert_int_equal(bad_lines(HEADER("18446744073709551615") CALL("0", "0") CALL("1", "1")),
			 1);
	/* Traces behind one another: the second begins where the first ends. */
	assert_int_equal(bad_lines(HEADER("1000") CALL("2305843009213", "1") HEADER("7")
					   CALL("1", "1") CALL("2305843009300", "1") END("1e300")),
			 1);
}

/* -2^63 has no positive counterpart. */
static void the_least_number_is_read(void **state)
{
	assert_int_equal(bad_lines(HEADER("1000") CALL("1", "1") LEAST END("3")), 0);
}

/* The longest possible trace: steps double up to it. */
static void the_longest_is_whole(void **state)
{
	assert_int_equal(bad_lines(HEADER("0") CALL("0", "1") CALL("4611686018426", "1")), 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(times_are_bounded),
		cmocka_unit_test(the_least_number_is_read),
		cmocka_unit_test(the_longest_is_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
