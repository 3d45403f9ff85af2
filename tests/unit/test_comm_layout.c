/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Position of the rank in communicators: displacements in machine code. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "attach/find/comm_layout.h"
#include "random.h"

#define LOADS(code, disps) code_loads((const uint8_t *)(code), sizeof(code) - 1, disps, 8)

static void test_loads(void **state)
{
	uint32_t d[8];

	/* mov 0x1044d0(%r13),%eax; as in 2.28.9 */
	assert_int_equal(LOADS("\x90\x41\x8b\x85\xd0\x44\x10\x00", d), 1);
	assert_int_equal(d[0], 0x1044d0);
	/* mov 0x34250(%rdi),%ecx */
	assert_int_equal(LOADS("\x8b\x8f\x50\x42\x03\x00\x90", d), 1);
	assert_int_equal(d[0], 0x34250);
	/* mov 0x34250(%r12),%eax: with a SIB byte */
	assert_int_equal(LOADS("\x41\x8b\x84\x24\x50\x42\x03\x00", d), 1);
	assert_int_equal(d[0], 0x34250);
	/* 64 bits; a displacement of 8 bits; relative to the program counter; cut */
	assert_int_equal(LOADS("\x48\x8b\x85\xd0\x44\x10\x00", d), 0);
	assert_int_equal(LOADS("\x8b\x45\x10\x90\x90\x90\x90", d), 0);
	assert_int_equal(LOADS("\x8b\x05\xd0\x44\x10\x00\x90", d), 0);
	assert_int_equal(LOADS("\x41\x8b\x85\xd0\x44", d), 0);
}

static uint32_t stored(const char *code, size_t len)
{
	return code_stored((const uint8_t *)code, len);
}

static void test_stored(void **state)
{
	/* movl $22809,(%rdi), (%rax) */
	assert_int_equal(stored("\x31\xc0\xc7\x07\x19\x59\x00\x00\xc3", 9), 22809);
	assert_int_equal(stored("\xc7\x00\x19\x59\x00\x00\xc3", 7), 22809);
	/* 0x8(%rdi), no version, two of them, cut */
	assert_int_equal(stored("\xc7\x47\x08\x19\x59\x00\x00", 7), 0);
	assert_int_equal(stored("\xc7\x07\x01\x00\x00\x00\xc3", 7), 0);
	assert_int_equal(stored("\xc7\x07\x19\x59\x00\x00\xc7\x07\x18\x59\x00\x00", 12), 0);
	assert_int_equal(stored("\xc7\x07\x19\x59", 4), 0);
}

static void test_common(void **state)
{
	uint32_t rank[] = {8, 0x500, 0x2000}, count[] = {0x504, 0x2004, 7},
		 device[] = {0x2008, 0x600}, both[] = {0x2008, 0x508}, low[] = {16, 20},
		 next[] = {20, 24};

	assert_int_equal(code_common(rank, 3, count, 3, device, 2), 0x2000);
	/* two that match, none, one too near the beginning */
	assert_int_equal(code_common(rank, 3, count, 3, both, 2), 0);
	assert_int_equal(code_common(rank, 3, count, 1, device, 2), 0);
	assert_int_equal(code_common(low, 1, next, 1, next + 1, 1), 0);
	assert_int_equal(code_common(rank, 0, count, 3, device, 2), 0);
}

static uint32_t counters(const char *code, size_t len)
{
	uint32_t found = 0;

	return code_counters((const uint8_t *)code, len, 0x100000, 0x110000, &found) ? found : 1;
}
#define COUNTERS(code) counters(code, sizeof(code) - 1)

static void test_counters(void **state)
{
	/* add $0x20d42,%rax; lock addq $1,(%rdx,%rax,8): 2.28.9 */
	assert_int_equal(COUNTERS("\x48\x05\x42\x0d\x02\x00\xf0\x48\x83\x04\xc2\x01"), 0x106a10);
	/* add $0x20d42,%rcx; lock addq $1,(%rdx,%rcx,8) */
	assert_int_equal(COUNTERS("\x48\x81\xc1\x42\x0d\x02\x00\xf0\x48\x83\x04\xca\x01"),
			 0x106a10);
	/* addq $1,0x106a10(%rax,%rdx,8), also locked: 2.26 */
	assert_int_equal(COUNTERS("\x90\x48\x83\x84\xd0\x10\x6a\x10\x00\x01"), 0x106a10);
	assert_int_equal(COUNTERS("\x90\xf0\x48\x83\x84\xd0\x10\x6a\x10\x00\x01"), 0x106a10);
	/* adds 2; subtracts; of 4 bytes each; 32 bits; not locked and no displacement; too near;
	 * cut */
	assert_int_equal(COUNTERS("\x90\x48\x83\x84\xd0\x10\x6a\x10\x00\x02"), 0);
	assert_int_equal(COUNTERS("\x90\x48\x83\xac\xd0\x10\x6a\x10\x00\x01"), 0);
	assert_int_equal(COUNTERS("\x90\x48\x83\x84\x90\x10\x6a\x10\x00\x01"), 0);
	assert_int_equal(COUNTERS("\x90\x90\x83\x84\xd0\x10\x6a\x10\x00\x01"), 0);
	assert_int_equal(COUNTERS("\x48\x05\x42\x0d\x02\x00\x90\x48\x83\x04\xc2\x01"), 0);
	assert_int_equal(COUNTERS("\x90\x48\x83\x84\xd0\x10\x6a\x00\x00\x01"), 0);
	assert_int_equal(COUNTERS("\x90\x48\x83\x84\xd0\x10\x6a\x10\x00"), 0);
	/* the same twice, two that differ */
	assert_int_equal(COUNTERS("\x48\x83\x84\xd0\x10\x6a\x10\x00\x01"
				  "\x48\x83\x84\xd1\x10\x6a\x10\x00\x01"),
			 0x106a10);
	assert_int_equal(COUNTERS("\x48\x83\x84\xd0\x10\x6a\x10\x00\x01"
				  "\x48\x83\x84\xd0\x18\x6a\x10\x00\x01"),
			 1);
}

/* Any code: nothing past its end is read (the sanitizers check). */
static void test_random(void **state)
{
	uint32_t d[8] = {0};

	for (int i = 0; i < 100000; i++) {
		size_t len = rnd() % 64;
		uint8_t code[64];

		for (size_t k = 0; k < len; k++)
			code[k] = rnd() % 3 ? (char)rnd()
					    : "\x8b\xc7\x48\x83\x84\x04\xd0\x01"[rnd() % 8];
		assert_true(code_loads(code, len, d, 8) <= 8);
		code_stored(code, len);
		code_counters(code, len, 0, UINT32_MAX, d);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_loads),  cmocka_unit_test(test_stored),
		cmocka_unit_test(test_common), cmocka_unit_test(test_counters),
		cmocka_unit_test(test_random),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
