/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Numbers against printf, strings against a JSON validator. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "json_check.h"
#include "random.h"
#include "util/fmt.h"
#include "util/out.h"

static void reset(struct out *o)
{
	o->len = o->mark = 0;
}

static void check(struct out *o, const char *want)
{
	out_char(o, 0);
	assert_string_equal(o->buf, want);
	reset(o);
}

static void check_number(struct out *o, uint64_t x)
{
	char want[64];

	out_u64(o, x);
	snprintf(want, sizeof(want), "%" PRIu64, x);
	check(o, want);
	o->len = fmt_i64(o->buf, (int64_t)x) - o->buf;
	snprintf(want, sizeof(want), "%" PRId64, (int64_t)x);
	check(o, want);
	out_hex(o, x);
	snprintf(want, sizeof(want), "0x%" PRIx64, x);
	check(o, want);
	out_milli(o, x);
	snprintf(want, sizeof(want), "%" PRIu64 ".%03u", x / 1000, (unsigned)(x % 1000));
	check(o, want);
	o->len = fmt_micro(o->buf, x) - o->buf;
	snprintf(want, sizeof(want), "%" PRIu64 ".%06u", x / 1000000, (unsigned)(x % 1000000));
	check(o, want);
}

static void test_numbers(void **state)
{
	struct out *o = out__memory();

	for (uint64_t p = 1;; p *= 10) {
		for (int d = -1; d <= 1; d++)
			check_number(o, p + d);
		if (p > UINT64_MAX / 10)
			break;
	}
	for (int b = 0; b < 64; b++)
		for (int d = -1; d <= 1; d++)
			check_number(o, (1ULL << b) + d);
	/* Eight digits consist of two halves. */
	for (uint64_t half = 0; half < 10000; half++) {
		check_number(o, half);
		check_number(o, half * 10000 + half);
		check_number(o, half * 1000000000000 + half * 10000);
	}
	for (int i = 0; i < 100000; i++)
		check_number(o, rnd() >> (rnd() % 64));
	out__close(o);
}

static void check_f64(struct out *o, double x)
{
	char want[64];

	snprintf(want, sizeof(want), "%.6g", x == 0 ? 0 : x);
	out_f64(o, x);
	if (!json_valid(o->buf, o->len))
		fail_msg("%.17g is written as %.*s", x, (int)o->len, o->buf);
	check(o, want);
}

static void test_f64(void **state)
{
	static const double some[] = {
		0,	  -0.0,	  1,	 -1,	   0.5,	      0.1,	0.001,	 0.01,
		0.0001,	  1e-10,  10,	 9.999999, 9.9999949, 99999.95, 999999,	 999999.5,
		999998.5, 1e6,	  1e300, 1e-300,   123456.5,  100000.5, 123.456, -0.00099999999,
		5e-324,	  1.0 / 3};
	struct out *o = out__memory();

	for (size_t i = 0; i < sizeof(some) / sizeof(some[0]); i++)
		check_f64(o, some[i]);
	for (int i = 0; i < 200000; i++) {
		uint64_t bits = rnd();
		double any;

		memcpy(&any, &bits, sizeof(any));
		if (isfinite(any))
			check_f64(o, any);
		check_f64(o, ldexp((double)(rnd() >> 11), -(int)(rnd() % 70)));
		check_f64(o, (double)(rnd() % 100000000) / 1000);
	}
	out_f64(o, NAN);
	check(o, "null");
	out_f64(o, -INFINITY);
	check(o, "null");
	out__close(o);
}

static void test_str(void **state)
{
	struct out *o = out__memory();

#define STR(in, want)                                                                              \
	do {                                                                                       \
		out_json_str(o, in, sizeof(in) - 1);                                               \
		check(o, want);                                                                    \
	} while (0)
	STR("", "\"\"");
	STR("plain text of more than eight bytes", "\"plain text of more than eight bytes\"");
	STR("a\"b\\c/", "\"a\\\"b\\\\c/\"");
	STR("\0\n\x1f\x20\x7f", "\"\\u0000\\u000a\\u001f \x7f\"");
	STR("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"");
#define FFFD "\xef\xbf\xbd"
	STR("a\xff"
	    "b",
	    "\"a" FFFD "b\"");
	STR("\xc0\xaf", "\"" FFFD FFFD "\"");			/* overlong */
	STR("\xe0\x80\xaf", "\"" FFFD FFFD FFFD "\"");		/* overlong */
	STR("\xed\xa0\x80", "\"" FFFD FFFD FFFD "\"");		/* surrogate */
	STR("\xf4\x90\x80\x80", "\"" FFFD FFFD FFFD FFFD "\""); /* above U+10FFFF */
	STR("\xe2\x82", "\"" FFFD FFFD "\"");			/* cut */
	STR("1234567\"", "\"1234567\\\"\"");
	STR("12345678\n", "\"12345678\\u000a\"");
	out__close(o);
}

/* A character that needs an escape, at each position of strings of each length. */
static void test_str_places(void **state)
{
	static const char text[] = "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMN";
	struct out *o = out__memory();
	char s[64], want[80];

	for (size_t n = 1; n < sizeof(text); n++) {
		for (size_t at = 0; at <= n; at++) {
			bool has = at < n;

			memcpy(s, text, n);
			if (has)
				s[at] = '"';
			snprintf(want, sizeof(want), "\"%.*s%s%.*s\"", (int)at, text,
				 has ? "\\\"" : "", has ? (int)(n - at - 1) : 0, text + at + has);
			out_json_str(o, s, n);
			check(o, want);
		}
	}
	out__close(o);
}

static void check_valid(struct out *o, const char *s, size_t n)
{
	out_json_str(o, s, n);
	if (!json_valid(o->buf, o->len))
		fail_msg("no JSON: %.*s", (int)o->len, o->buf);
	reset(o);
}

static void test_str_any(void **state)
{
	struct out *o = out__memory();
	char s[64];

	/* Every sequence of three bytes, and with a fourth at random. */
	for (unsigned x = 0; x < 1 << 24; x += 1 + (x & 7) * 3) {
		s[0] = x >> 16;
		s[1] = x >> 8;
		s[2] = x;
		s[3] = 0x80 + (rnd() & 0x3f);
		check_valid(o, s, 3 + (x & 1));
	}
	for (int i = 0; i < 300000; i++) {
		size_t n = rnd() % sizeof(s);

		for (size_t k = 0; k < n; k++)
			s[k] = rnd() % 3 ? 'a' + rnd() % 26 : rnd();
		check_valid(o, s, n);
	}
	out__close(o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_numbers), cmocka_unit_test(test_f64),
		cmocka_unit_test(test_str),	cmocka_unit_test(test_str_places),
		cmocka_unit_test(test_str_any),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
