/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "model/event.h"

static void test_live(void **state)
{
	static const uint64_t words[] = {0x7ffc00, 1024}, copy[] = {0x7000, 0x8000, 9, 0xabc};
	static const uint64_t ptr = 0x7f0000000000;
	struct trace_event ev = {.kind = EVENT_CALL, .words = words, .word_cnt = 2};
	uint64_t val = 42;

	ev.fn = api_fn_by_symbol("cuMemAlloc_v2");
	ev.caps[0] = (struct pointee){(const uint8_t *)&ptr, 8};
	ev.cap_cnt = 1;
	assert_true(event_arg_u64(&ev, "dptr", &val));
	assert_int_equal(val, ptr);
	assert_true(event_arg_u64(&ev, "bytesize", &val));
	assert_int_equal(val, 1024);
	assert_false(event_arg_u64(&ev, "nothing", &val));
	assert_int_equal(val, 1024);
	/* An output that the call did not write is unknown. */
	ev.cap_cnt = 0;
	assert_false(event_arg_u64(&ev, "dptr", &val));
	ev.fn = api_fn_by_symbol("cuMemcpyHtoDAsync_v2");
	ev.words = copy;
	ev.word_cnt = 4;
	assert_true(event_arg_u64(&ev, "hStream", &val));
	assert_int_equal(val, 0xabc);
}

static bool arg(const char *args, const char *name, uint64_t *val)
{
	struct event_text text = {.args = args, .args_len = strlen(args)};
	struct trace_event ev = {.kind = EVENT_CALL, .text = &text};

	return event_arg_u64(&ev, name, val);
}

static void test_saved(void **state)
{
	uint64_t val;

	assert_true(arg("\"a\":1,\"b\":\"0xff\",\"c\":18446744073709551615", "a", &val));
	assert_int_equal(val, 1);
	assert_true(arg("\"a\":1,\"b\":\"0xff\",\"c\":18446744073709551615", "b", &val));
	assert_int_equal(val, 255);
	assert_true(arg("\"a\":1,\"b\":\"0xff\",\"c\":18446744073709551615", "c", &val));
	assert_int_equal(val, UINT64_MAX);
	assert_true(arg("\"a\": -1 , \"b\" : 2", "b", &val));
	assert_int_equal(val, 2);
	assert_true(arg("\"a\":-1", "a", &val));
	assert_int_equal((int64_t)val, -1);
	/* Names only, and only at the top level. */
	assert_false(arg("\"s\":{\"a\":1},\"t\":[{\"a\":2}],\"u\":\"a\"", "a", &val));
	assert_true(arg("\"s\":{\"x\":\"}\\\"]\"},\"t\":[1,\"{\"],\"a\":3", "a", &val));
	assert_int_equal(val, 3);
	/* Values that are not numbers. */
	assert_false(arg("\"a\":null", "a", &val));
	assert_false(arg("\"a\":true", "a", &val));
	assert_false(arg("\"a\":1.5", "a", &val));
	assert_false(arg("\"a\":\"CU_X\"", "a", &val));
	assert_false(arg("\"a\":\"0x\"", "a", &val));
	assert_false(arg("\"a\":\"0x12345678123456789\"", "a", &val));
	assert_false(arg("\"a\":[1]", "a", &val));
	assert_false(arg("", "a", &val));
	/* Text that no parser has checked: no read goes past its end. */
	assert_false(arg("\"a", "a", &val));
	assert_false(arg("\"a\"", "a", &val));
	assert_false(arg("\"a\":", "a", &val));
	assert_false(arg("\"b\":\"\\", "a", &val));
	assert_false(arg("\"a\":\"", "a", &val));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_live),
		cmocka_unit_test(test_saved),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
