/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Records of the driver's log of context switches: good ones give slices, bad ones are counted. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "gpu/fecs.h"
#include "random.h"

#define START 6
#define END   7
#define RESET 0xfe

static struct fecs log;
static struct fecs_slice slice;
static uint16_t seq;

/* The record is in a block of exactly its size. */
static bool put_of(uint16_t type, uint8_t tag, uint16_t number, uint32_t pid, uint32_t context,
		   uint64_t time)
{
	uint8_t *r = calloc(1, FECS_RECORD_SZ);
	bool ended;

	assert_non_null(r);
	memcpy(r, &type, sizeof(type));
	r[8] = tag;
	memcpy(r + 10, &number, sizeof(number));
	memcpy(r + 12, &context, sizeof(context));
	memcpy(r + 16, &pid, sizeof(pid));
	memcpy(r + 24, &time, sizeof(time));
	memset(&slice, 0xee, sizeof(slice));
	ended = fecs__record(&log, r, &slice);
	free(r);
	return ended;
}

static bool put(uint8_t tag, uint32_t pid, uint64_t time)
{
	return put_of(134, tag, ++seq, pid, pid * 10, time);
}

static int begin(void **state)
{
	fecs__init(&log, 1000);
	seq = 65530; /* will wrap through 0 */
	return 0;
}

static void check(uint32_t pid, uint64_t start, uint64_t end, uint64_t missed)
{
	assert_int_equal(slice.pid, pid);
	assert_int_equal(slice.context, pid * 10);
	assert_int_equal(slice.start, start);
	assert_int_equal(slice.end, end);
	assert_int_equal(slice.missed, missed);
}

static void check_counts(uint64_t missed, uint64_t bad, uint64_t unpaired)
{
	assert_int_equal(log.missed_cnt, missed);
	assert_int_equal(log.bad_cnt, bad);
	assert_int_equal(log.unpaired_cnt, unpaired);
}

static void in_turns(void **state)
{
	for (uint64_t t = 2000; t < 12000; t += 1000) {
		assert_false(put(START, 7 + (t / 1000 & 1), t));
		assert_true(put(END, 7 + (t / 1000 & 1), t + 900));
		check(7 + (t / 1000 & 1), t, t + 900, 0);
		assert_false(slice.before);
	}
	assert_int_equal(log.record_cnt, 20);
	assert_false(fecs__rest(&log, 20000, &slice));
	check_counts(0, 0, 0);
}

/* The context that ends first had the GPU when the log began; the clocks may differ slightly. */
static void truncated_start(void **state)
{
	assert_true(put(END, 7, 1500));
	check(7, 1000, 1500, 0);
	assert_true(slice.before);
	assert_false(put(START, 8, 1600));
	assert_true(put(END, 8, 1700));
	assert_false(slice.before);
	begin(NULL);
	assert_true(put(END, 7, 990));
	check(7, 990, 990, 0);
	begin(NULL);
	assert_false(put(START, 7, 990));
	assert_true(put(END, 7, 1200));
	check(7, 990, 1200, 0);
	check_counts(0, 0, 0);
}

static void still_there(void **state)
{
	assert_false(put(START, 7, 2000));
	assert_true(fecs__rest(&log, 9000, &slice));
	check(7, 2000, 9000, 0);
	assert_false(fecs__rest(&log, 9000, &slice));
	/* The clock of the end may lag. */
	assert_false(put(START, 8, 9500));
	assert_true(fecs__rest(&log, 9400, &slice));
	check(8, 9500, 9500, 0);
}

/* Without its own end a slice ends when the next begins or the engine is reset. */
static void other_ends(void **state)
{
	assert_false(put(START, 7, 2000));
	assert_true(put(START, 8, 3000));
	check(7, 2000, 3000, 0);
	assert_true(put(RESET, 0, 3500));
	check(8, 3000, 3500, 0);
	assert_false(put(RESET, 0, 3600));
	assert_false(put(END, 8, 3700));
	check_counts(0, 0, 1);
}

static void of_another_process(void **state)
{
	assert_false(put(START, 7, 2000));
	assert_false(put(END, 8, 3000));
	assert_false(put(END, 7, 3100));
	check_counts(0, 0, 2);
}

/* Channels of one context have their own numbers. */
static void another_channel(void **state)
{
	assert_false(put(START, 7, 2000));
	assert_true(put_of(134, END, ++seq, 7, 71, 3000));
	check(7, 2000, 3000, 0);
}

/* A slice during which records were lost has no known end. */
static void missing(void **state)
{
	assert_false(put(START, 7, 2000));
	seq += 4;
	assert_false(put(END, 7, 3000));
	assert_false(put(START, 8, 4000));
	seq += 2;
	assert_false(put(START, 9, 5000));
	assert_true(put(END, 9, 6000));
	check(9, 5000, 6000, 6);
	assert_false(put(START, 7, 7000));
	assert_true(put(END, 7, 8000));
	check(7, 7000, 8000, 0);
	check_counts(6, 0, 3);
}

static void other_steps(void **state)
{
	assert_false(put(START, 7, 2000));
	for (uint8_t tag = 0; tag <= 13; tag++)
		if (tag != 3 && (tag < 5 || tag > 7))
			assert_false(put(tag, 7, 2500));
	assert_true(put(END, 7, 3000));
	check(7, 2000, 3000, 0);
	/* With more detail. */
	assert_false(put(5, 7, 3500));
	assert_true(put(3, 7, 4000));
	check(7, 3500, 4000, 0);
	check_counts(0, 0, 0);
}

static void senseless(void **state)
{
	static const struct {
		uint16_t type;
		uint8_t tag;
		uint64_t time;
	} bad[] = {{0, END, 3000},    {1, END, 3000},	{133, END, 3000}, {134, 14, 3000},
		   {134, 0xff, 3000}, {134, END, 1999}, {134, START, 0},  {134, END, 10001}};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		begin(NULL);
		log.latest = 10000;
		assert_false(put(START, 7, 2000));
		assert_false(put_of(bad[i].type, bad[i].tag, ++seq, 7, 70, bad[i].time));
		check_counts(0, 1, 1);
		assert_false(put(END, 7, 4000));
		assert_false(put(START, 7, 5000));
		assert_true(put(END, 7, 6000));
		check(7, 5000, 6000, 0);
	}
}

static void any_bytes(void **state)
{
	uint8_t r[FECS_RECORD_SZ];
	uint64_t ended = 0, last = 0;

	log.latest = 201000;
	for (unsigned i = 0; i < 200000; i++) {
		for (size_t k = 0; k < sizeof(r); k++)
			r[k] = rnd();
		r[0] = i % 7 ? 134 : r[0];
		r[1] = 0;
		r[8] = i % 5 ? START + (r[8] & 1) : r[8];
		r[16] &= 1;
		memset(r + 17, 0, 3);
		if (i % 11)
			memcpy(r + 10, &(uint16_t){i}, 2);
		if (i % 9)
			memcpy(r + 24, &(uint64_t){1000 + i}, 8);
		if (!fecs__record(&log, r, &slice))
			continue;
		ended++;
		assert_true(slice.start <= slice.end);
		assert_true(slice.start >= last);
		last = slice.end;
	}
	assert_true(ended > 10000);
	assert_int_equal(log.record_cnt, 200000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(in_turns, begin),
		cmocka_unit_test_setup(truncated_start, begin),
		cmocka_unit_test_setup(still_there, begin),
		cmocka_unit_test_setup(other_ends, begin),
		cmocka_unit_test_setup(of_another_process, begin),
		cmocka_unit_test_setup(another_channel, begin),
		cmocka_unit_test_setup(missing, begin),
		cmocka_unit_test_setup(other_steps, begin),
		cmocka_unit_test_setup(senseless, begin),
		cmocka_unit_test_setup(any_bytes, begin),
	};

	return cmocka_run_group_tests_name("fecs", tests, NULL, NULL);
}
