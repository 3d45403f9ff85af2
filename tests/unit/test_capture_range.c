/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Parts of a trace by cuProfilerStart() and cuProfilerStop(). */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "factory.h"
#include "trace/capture_range.h"

static struct capture_range c;
static struct factory f;

static void call(const char *symbol, bool is_error)
{
	struct trace_event ev = factory_call(&f, symbol, 1000, 1000);

	ev.is_error = is_error;
	ev.result = is_error;
	capture_range__event(&c, &ev);
}

static bool has_launch(void)
{
	struct trace_event ev = factory_launch(&f, "k", 0);

	capture_range__event(&c, &ev);
	return capture_range__has(&c, &ev);
}

static int setup(void **state)
{
	c = (struct capture_range){.kind = CAPTURE_PROFILER};
	f = factory(1);
	return 0;
}

static void test_parts(void **state)
{
	assert_false(has_launch());
	for (unsigned i = 0; i < 2 * CAPTURE_PARTS; i++) {
		call("cuProfilerStart", false);
		assert_true(has_launch());
		call("cuProfilerStop", false);
		assert_false(has_launch());
	}
}

/* As before cuInit(): nothing has begun or ended. */
static void test_errors(void **state)
{
	call("cuProfilerStart", true);
	assert_false(has_launch());
	call("cuProfilerStart", false);
	call("cuProfilerStop", true);
	assert_true(has_launch());
	call("cuProfilerStop", false);
	assert_false(has_launch());
}

static void process(uint32_t pid, const char *op)
{
	struct trace_event ev = {.kind = EVENT_PROCESS, .op = op, .pid = pid};

	ev.start_ns = ev.end_ns = f.now_ns += 1000;
	capture_range__event(&c, &ev);
}

static void call_of(uint32_t pid, const char *symbol)
{
	f.pid = pid;
	call(symbol, false);
}

/* A part ends with the process that began it, and another process cannot end it. */
static void test_processes(void **state)
{
	call_of(1, "cuProfilerStart");
	call_of(1, "cuProfilerStart");
	call_of(2, "cuProfilerStop");
	assert_true(has_launch());
	process(2, "exit");
	process(1, "fork");
	assert_true(has_launch());
	process(1, "exit");
	assert_false(has_launch());
	call_of(3, "cuProfilerStart");
	call_of(4, "cuProfilerStart");
	process(3, "exec");
	assert_true(has_launch());
	call_of(4, "cuProfilerStop");
	assert_false(has_launch());
}

/* More than the table holds: none is left open if all stop. */
static void test_many_processes(void **state)
{
	for (uint32_t pid = 1; pid <= 3 * CAPTURE_PROCS; pid++)
		call_of(pid, "cuProfilerStart");
	for (uint32_t pid = 1; pid <= 3 * CAPTURE_PROCS; pid++) {
		assert_true(has_launch());
		call_of(pid, "cuProfilerStop");
	}
	assert_false(has_launch());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_parts, setup),
		cmocka_unit_test_setup(test_errors, setup),
		cmocka_unit_test_setup(test_processes, setup),
		cmocka_unit_test_setup(test_many_processes, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
