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

static int teardown(void **state)
{
	capture_range__free(&c);
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

/* Each process has its own switch; it ends with the process. */
static void test_processes(void **state)
{
	struct trace_event ev = {.kind = EVENT_PROCESS, .op = "exit"};

	call("cuProfilerStart", false);
	call("cuProfilerStart", false);
	f.pid = 2;
	call("cuProfilerStop", false);
	assert_true(has_launch());
	call("cuProfilerStart", false);
	f.pid = 1;
	call("cuProfilerStop", false);
	assert_true(has_launch());
	ev.pid = 2;
	ev.end_ns = f.now_ns;
	capture_range__event(&c, &ev);
	assert_false(has_launch());
	/* Another program, with its own driver. */
	call("cuProfilerStart", false);
	ev.op = "fork";
	ev.pid = f.pid;
	capture_range__event(&c, &ev);
	assert_true(has_launch());
	ev.op = "exec";
	capture_range__event(&c, &ev);
	assert_false(has_launch());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_parts, setup, teardown),
		cmocka_unit_test_setup_teardown(test_errors, setup, teardown),
		cmocka_unit_test_setup_teardown(test_processes, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
