/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Ranks that wait for other ranks, while they wait. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "factory.h"
#include "model/ranks.h"

#define SEC 1000000000ull

static struct ranks rs;
static struct rank_wait last;
static unsigned logged_cnt;

static int clear(void **state)
{
	ranks__free(&rs);
	rs = (struct ranks){0};
	logged_cnt = 0;
	return 0;
}

static void on_wait(void *ctx, const struct rank_wait *w)
{
	last = *w;
	logged_cnt++;
}

/* The number of reports at this second. */
static unsigned look(uint64_t sec)
{
	unsigned before = logged_cnt;

	ranks__look(&rs, FACTORY_BASE_NS + sec * SEC, on_wait, NULL);
	return logged_cnt - before;
}

static void call(const char *symbol, uint64_t hash, uint32_t rank, uint64_t seq, uint64_t sec)
{
	struct factory f = factory(100 + rank);
	struct trace_event ev = factory_call(&f, symbol, sec * SEC, 1000);

	ev.has = HAS_COMM;
	ev.coll = (struct collective_info){.hash = hash, .rank = rank, .nranks = 3, .seq = seq};
	ranks__event(&rs, &ev);
}

static void reduce(uint32_t rank, uint64_t seq, uint64_t sec)
{
	call("ncclAllReduce", 0xabc, rank, seq, sec);
}

static void test_waits(void **state)
{
	char text[256];

	for (uint32_t i = 0; i < 3; i++)
		reduce(i, 1, 0);
	assert_int_equal(look(100), 0);
	reduce(0, 2, 101);
	reduce(2, 2, 103);
	assert_int_equal(look(105), 0);
	assert_int_equal(look(106), 1);
	assert_int_equal(last.seq, 2);
	assert_string_equal(last.in, "0, 2");
	assert_string_equal(last.missing, "1");
	rank_wait_text(&last, text, sizeof(text));
	assert_string_equal(
		text, "collective 2 (all_reduce) of communicator 0xabc waits for 5.0 s: begun "
		      "by rank 0, 2, not by rank 1");
	/* Reported once, and again when it is over. */
	assert_int_equal(look(200), 0);
	reduce(1, 2, 200);
	assert_int_equal(look(201), 1);
	assert_true(last.over && last.seq == 2);
	rank_wait_text(&last, text, sizeof(text));
	assert_string_equal(text, "collective 2 of communicator 0xabc has begun on all ranks");
	assert_int_equal(look(300), 0);
}

/* A rank lags because its call was dropped: earlier collectives are no longer reported. */
static void test_lost(void **state)
{
	char text[768];

	for (uint32_t i = 0; i < 3; i++)
		reduce(i, 1, 0);
	reduce(0, 2, 1);
	reduce(2, 2, 1);
	assert_int_equal(look(10), 1);
	ranks__lost(&rs, 0);
	assert_int_equal(look(11), 1);
	assert_true(last.over);
	rank_wait_text(&last, text, sizeof(text));
	assert_string_equal(text, "collective 2 of communicator 0xabc may have begun on all ranks: "
				  "calls were dropped");
	assert_int_equal(look(100), 0);
	/* No report while the number of one rank is unknown. */
	reduce(0, 3, 100);
	reduce(2, 3, 100);
	assert_int_equal(look(110), 0);
	reduce(1, 2, 110);
	assert_int_equal(look(111), 1);
	assert_int_equal(last.seq, 3);
	assert_string_equal(last.missing, "1");
	/* Another communicator is reported. */
	call("ncclCommInitRank", 0xdef, 1, 0, 100);
	call("ncclAllReduce", 0xdef, 0, 1, 100);
	assert_int_equal(look(110), 1);
	assert_int_equal(last.hash, 0xdef);
}

/* The process of the dropped call is known: other processes' ranks are still waited for. */
static void test_lost_of_another(void **state)
{
	for (uint32_t i = 0; i < 3; i++)
		reduce(i, 1, 0);
	reduce(0, 2, 1);
	ranks__lost(&rs, 4711);
	assert_int_equal(look(10), 1);
	ranks__lost(&rs, 101);
	assert_int_equal(look(11), 1);
	assert_true(last.over);
}

static uid_t uid_of(pid_t pid)
{
	return pid >= 1000 ? pid / 1000 : 0;
}

static void invent(uint32_t user, uint64_t hash)
{
	ranks__begun(&rs, &(struct rank_begun){
				  .hash = hash, .rank = 0, .pid = user * 1000 + hash % 100});
}

/* Invented communicators displace only those of that user, or of the user with most. */
static void test_shares(void **state)
{
	rs.user_of = uid_of;
	call("ncclCommInitRank", 0xabc, 1, 0, 0);
	for (uint64_t i = 0; i < 1000; i++)
		invent(1, 0x100000 + i);
	for (uint64_t i = 0; i < 1000; i++)
		for (uint32_t user = 2; user < 5; user++)
			invent(user, user * 0x100000 + i);
	reduce(0, 1, 0);
	assert_int_equal(look(10), 1);
	assert_int_equal(last.hash, 0xabc);
	assert_string_equal(last.missing, "1");
}

/* A rank that made the communicator but no collective yet is waited for, too. */
static void test_first(void **state)
{
	call("ncclCommInitRank", 0xabc, 1, 0, 0);
	reduce(0, 1, 0);
	assert_int_equal(look(10), 1);
	assert_string_equal(last.missing, "1");
	/* Its process ends: it is still waited for, until all processes have ended. */
	ranks__ended(&rs, 101);
	assert_int_equal(look(11), 0);
	ranks__ended(&rs, 100);
	assert_null(rs.by_hash.first);
}

/* A rank whose process ended too early. */
static void test_ended(void **state)
{
	reduce(0, 1, 0);
	reduce(1, 1, 0);
	ranks__ended(&rs, 101);
	assert_int_equal(look(10), 0);
	reduce(0, 2, 10);
	assert_int_equal(look(20), 1);
	assert_string_equal(last.missing, "1 (ended)");
}

/* A rank far ahead: the start of the wait is approximate, but not too late. */
static void test_ahead(void **state)
{
	reduce(1, 1, 0);
	for (uint64_t i = 1; i <= 1000; i++)
		reduce(0, i, i);
	assert_int_equal(look(1001), 1);
	assert_int_equal(last.seq, 2);
	assert_true(last.since_ns <= FACTORY_BASE_NS + 940 * SEC);
}

/* Communicators from before the trace may have different numbers in each rank; a single rank waits
 * for no other. */
static void test_not_joined(void **state)
{
	struct factory f = factory(100);
	struct trace_event ev = factory_call(&f, "ncclAllReduce", 0, 1000);

	ev.has = HAS_COMM;
	ev.coll = (struct collective_info){.hash = 7, .nranks = 2, .seq = 5, .seq_partial = true};
	ranks__event(&rs, &ev);
	call("ncclAllReduce", 7, 1, 1, 0);
	call("ncclAllReduce", 8, 0, 1, 0);
	assert_int_equal(look(1000), 0);
}

/* More than the limit. */
static void test_many(void **state)
{
	for (uint64_t i = 1; i <= 2000; i++)
		call("ncclAllReduce", i, i % 70, i, 0);
	for (uint32_t i = 0; i < 100; i++)
		reduce(i, i, 0);
	look(100);
	assert_true(logged_cnt <= 257);
}

static void sized(const char *symbol, uint32_t rank, uint64_t seq, uint64_t bytes)
{
	struct factory f = factory(100 + rank);
	struct trace_event ev = factory_call(&f, symbol, SEC, 1000);

	ev.has = HAS_COMM | HAS_BYTES;
	ev.coll = (struct collective_info){
		.hash = 0xabc, .rank = rank, .nranks = 3, .seq = seq, .bytes = bytes};
	ranks__event(&rs, &ev);
}

/* Reported at once, and once for each communicator; the first rank's call is what all are compared
 * with. */
static void test_differs(void **state)
{
	char text[256];

	sized("ncclAllReduce", 0, 1, 4096);
	sized("ncclAllReduce", 1, 1, 4096);
	sized("ncclAllReduce", 2, 1, 4096);
	sized("ncclAllReduce", 0, 2, 4096);
	assert_int_equal(look(1), 0);
	sized("ncclAllReduce", 1, 2, 8192);
	sized("ncclBroadcast", 2, 2, 4096);
	assert_int_equal(look(1), 1);
	assert_true(last.differs && last.seq == 2 && last.who_cnt == 2 && !last.over);
	rank_wait_text(&last, text, sizeof(text));
	assert_non_null(strstr(text, "differs: rank 0 calls all_reduce of 4096 bytes, rank 1 calls "
				     "all_reduce of 8192 bytes."));
	sized("ncclAllReduce", 0, 3, 4096);
	sized("ncclBroadcast", 1, 3, 4096);
	assert_int_equal(look(2), 0);
	clear(NULL);

	sized("ncclAllReduce", 0, 1, 4096);
	call("ncclBroadcast", 0xabc, 1, 1, 1);
	assert_int_equal(look(1), 1);
	rank_wait_text(&last, text, sizeof(text));
	assert_non_null(strstr(text, "rank 0 calls all_reduce of 4096 bytes, rank 1 calls "
				     "broadcast."));
	clear(NULL);

	/* The size of a call in flight is not known, and calls were lost. */
	reduce(0, 1, 1);
	sized("ncclAllReduce", 1, 1, 4096);
	ranks__lost(&rs, 101);
	sized("ncclAllReduce", 0, 2, 4096);
	assert_int_equal(look(1), 0);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, clear, clear)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_waits),   TEST(test_lost),	   TEST(test_lost_of_another),
		TEST(test_shares),  TEST(test_first),	   TEST(test_ended),
		TEST(test_ahead),   TEST(test_not_joined), TEST(test_many),
		TEST(test_differs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
