/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Tracing overhead: instructions that cost more, and sums of measured times. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <elf.h>

#include "attach/find/code.h"
#include "ct_bpf.h"

#define X86(bytes)   code_is_stepped((const uint8_t *)bytes, sizeof(bytes) - 1, EM_X86_64)
#define ARM64(bytes) code_is_stepped((const uint8_t *)bytes, sizeof(bytes) - 1, EM_AARCH64)

static void test_emulated(void **state)
{
	assert_false(X86("\x55"));		       /* push %rbp */
	assert_false(X86("\x41\x57"));		       /* push %r15 */
	assert_false(X86("\x90"));		       /* nop */
	assert_false(X86("\x66\x90"));		       /* nop */
	assert_false(X86("\x74\x10"));		       /* je */
	assert_false(X86("\x0f\x84\x10\x00\x00\x00")); /* je */
	assert_false(X86("\xe8\x00\x00\x00\x00"));     /* call */
	assert_false(X86("\xe9\x00\x00\x00\x00"));     /* jmp */
	assert_false(X86("\xeb\x00"));		       /* jmp */
	assert_false(ARM64("\x1f\x20\x03\xd5"));       /* nop */
	assert_false(ARM64("\x01\x00\x00\x14"));       /* b */
	assert_false(ARM64("\x20\x00\x00\x54"));       /* b.eq */
	assert_false(ARM64("\xc0\x03\x5f\xd6"));       /* ret */
}

static void test_stepped(void **state)
{
	assert_true(X86("\xf3\x0f\x1e\xfa"));	      /* endbr64 */
	assert_true(X86("\x0f\x1f\x44\x00\x00"));     /* nopl */
	assert_true(X86("\x31\xc0"));		      /* xor %eax,%eax */
	assert_true(X86("\x48\x83\xec\x08"));	      /* sub $8,%rsp */
	assert_true(X86("\x81\x3d\x00\x00\x00\x00")); /* cmpl */
	assert_true(X86("\x41\xff\xe3"));	      /* jmp *%r11 */
	assert_true(X86("\xc3"));		      /* ret */
	assert_true(ARM64("\xfd\x7b\xbf\xa9"));	      /* stp x29, x30, [sp, #-16]! */
	assert_true(ARM64("\x3f\x23\x03\xd5"));	      /* paciasp */
	assert_true(ARM64("\x00\x00\x80\x52"));	      /* mov w0, #0 */
	assert_true(code_is_stepped((const uint8_t *)"", 0, EM_X86_64));
}

struct base {
	uint32_t kind, found_ns, ns;
};

static void check_base(const struct ct_cost_cfg *c, const struct base *of, unsigned cnt)
{
	for (unsigned i = 0; i < cnt; i++)
		assert_int_equal(ct_cost_base(c, of[i].kind, of[i].found_ns), of[i].ns);
}
#define BASES(c, ...)                                                                              \
	do {                                                                                       \
		const struct base of[] = {__VA_ARGS__};                                            \
		check_base(c, of, sizeof(of) / sizeof(*of));                                       \
	} while (0)

/* With cold caches the kernel's part grows in proportion, up to a limit. */
static void test_base(void **state)
{
	struct ct_cost_cfg c = {.base_ns = {1000, 600, 9000, 8000},
				.found_ns = 80,
				.found_more_ns = {0, 100},
				.away_ns = {{0}, {800, 400}}};

	BASES(&c, {CT_COST_PAIR, 80, 1000}, {CT_COST_PAIR, 50, 1000}, {CT_COST_PAIR, 130, 1400},
	      {CT_COST_PAIR, 180, 1800}, {CT_COST_PAIR, 100000, 2200}, {CT_COST_ENTRY, 180, 1000},
	      {CT_COST_STEPPED, 180, 9800}, {CT_COST_STEPPED + CT_COST_ENTRY, 180, 8400});
	/* The program also fills the first level: the overhead grows with the lookup time, up to
	 * 1.5 times the second level. */
	c.found_more_ns[0] = 20;
	c.away_ns[0][CT_COST_PAIR] = 400;
	BASES(&c, {CT_COST_PAIR, 80, 1000}, {CT_COST_PAIR, 90, 1200}, {CT_COST_PAIR, 100, 1400},
	      {CT_COST_PAIR, 140, 1600}, {CT_COST_PAIR, 180, 1800}, {CT_COST_PAIR, 230, 2050},
	      {CT_COST_PAIR, 100000, 2050});
	/* Not measured */
	c.found_more_ns[1] = 0;
	BASES(&c, {CT_COST_PAIR, 180, 1000});
}

/* Calls since the last measured one cost as much as the recent ones. */
static void test_thread(void **state)
{
	static struct ct_thread t;

	t.cost = (struct ct_cost){.ns = 5000, .entries = 10, .mean_16 = 16 * 700};
	t.stats[CT_STAT_ENTRIES] = 10;
	assert_int_equal(ct_cost_ns(&t), 5000);
	t.stats[CT_STAT_ENTRIES] = 13;
	assert_int_equal(ct_cost_ns(&t), 7100);
}

static void test_busiest(void **state)
{
	const uint64_t second = 1000000000;
	static struct ct_thread t;

	t.cost = (struct ct_cost){.ns = 300000000, .since_ns = 10 * second, .ns_then = 100000000};
	/* 0.2 s of one second, of two, and of half a second, which counts as a whole one. */
	assert_int_equal(ct_cost_busiest(&t, 7, 11 * second), 200000ull << 32 | 7);
	assert_int_equal(ct_cost_busiest(&t, 7, 12 * second), 100000ull << 32 | 7);
	assert_int_equal(ct_cost_busiest(&t, 7, 10 * second + second / 2), 200000ull << 32 | 7);
	/* An earlier one was busier. */
	t.cost.busiest = 300000ull << 32 | 7;
	assert_int_equal(ct_cost_busiest(&t, 7, 11 * second), 300000ull << 32 | 7);
	/* A clock reading from before the last second began */
	t.cost.busiest = 0;
	assert_int_equal(ct_cost_busiest(&t, 7, 9 * second), 200000ull << 32 | 7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_emulated), cmocka_unit_test(test_stepped),
		cmocka_unit_test(test_base),	 cmocka_unit_test(test_thread),
		cmocka_unit_test(test_busiest),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
