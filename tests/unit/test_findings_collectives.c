/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The findings about collectives: for each rule ranks that trigger it, and some that must not. */
#include "findings_check.h"

/* A collective of a rank, which is a process, on a communicator of two. */
static void collective_in(uint32_t trace, uint32_t rank, uint64_t seq, uint64_t start_ns,
			  uint64_t bytes)
{
	struct trace_event ev = factory_call(&f, "ncclAllReduce", 0, 1000);

	ev.pid = 100 + rank;
	ev.trace = trace;
	ev.start_ns = FACTORY_BASE_NS + start_ns;
	ev.end_ns = ev.start_ns + 1000;
	ev.has = HAS_COMM | HAS_BYTES;
	ev.coll = (struct collective_info){
		.hash = 0xabc, .rank = rank, .nranks = 2, .seq = seq, .bytes = bytes};
	send(&ev);
}

static void collective(uint32_t rank, uint64_t seq, uint64_t start_ns, uint64_t bytes)
{
	collective_in(0, rank, seq, start_ns, bytes);
}

static void test_late_rank(void **state)
{
	for (int i = 0; i < 4; i++) {
		collective(0, i + 1, i * 10000000ull, 1 << 20);
		collective(1, i + 1, i * 10000000ull + 4000000, 1 << 20);
	}
	loses("late-rank", 16000000);
	says("late-rank",
	     "Rank 1 was the last to begin 4 of 4 collectives, by 16.0 ms in total and 4.00 ms");
	assert_null(found("hanging-collective"));
	assert_null(found("small-collectives"));
}

/* Each rank has a trace of its own; that of rank 0 is not the first. */
static void test_late_of_two_traces(void **state)
{
	for (int i = 0; i < 4; i++) {
		collective_in(0, 1, i + 1, i * 10000000ull + 4000000, 1 << 20);
		collective_in(1, 0, i + 1, i * 10000000ull, 1 << 20);
	}
	loses("late-rank", 16000000);
}

/* Rank 0 submits 100 collectives ahead of a rank that comes 50 ms later: the wait is counted once,
 * not a hundred times. */
static void test_late_once(void **state)
{
	for (uint64_t seq = 1; seq <= 100; seq++)
		collective(0, seq, seq * 10000, 1 << 20);
	for (uint64_t seq = 1; seq <= 100; seq++)
		collective(1, seq, 50000000 + seq * 10000, 1 << 20);
	loses("late-rank", 50990000);
	says("late-rank",
	     "Rank 1 was the last to begin 100 of 100 collectives, by 51.0 ms in total");
}

/* The same, beside two ranks in another communicator: the ranks of the job are unknown. They are
 * known if all four share one communicator. */
static void late_in_pair(bool job, const char *want)
{
	for (uint32_t pid = 100; pid < 104; pid++) {
		struct trace_event ev = factory_call(&f, "ncclCommInitRank", 0, 1000);

		ev.pid = pid;
		ev.has = HAS_COMM;
		ev.coll = (struct collective_info){.hash = job ? 0x7 : 0xd00 + pid / 102,
						   .rank = job ? 103 - pid : pid % 2,
						   .nranks = job ? 4 : 2};
		send(&ev);
	}
	for (uint64_t seq = 1; seq <= 4; seq++) {
		collective(0, seq, seq * 10000000, 1 << 20);
		collective(1, seq, seq * 10000000 + 4000000, 1 << 20);
	}
	finish();
	says("late-rank", want);
}

static void test_late_in_a_pair(void **state)
{
	late_in_pair(false, "Process 101 was the last to begin 4 of 4 collectives");
}

static void test_late_in_the_job(void **state)
{
	late_in_pair(true, "Rank 2 was the last to begin 4 of 4 collectives");
}

/* Ranks less than a millisecond apart are not late; different collectives are not joined. */
static void test_no_late_rank(void **state)
{
	for (int i = 0; i < 100; i++) {
		collective(0, i + 1, i * 10000000ull, 1 << 20);
		collective(1, i + 1, i * 10000000ull + (i % 2 ? 900000 : 5000000),
			   i % 2 ? 1 << 20 : 1);
	}
	finds_no("late-rank");
}

static void test_hanging(void **state)
{
	collective(0, 1, 0, 1 << 20);
	collective(1, 1, 10, 1 << 20);
	collective(0, 2, 1000000, 1 << 20);
	collective(0, 3, 1500001000000 / 1000, 1 << 20);
	loses("hanging-collective", 1500002000 - 1000000);
	says("hanging-collective",
	     "1 rank has been in collective 2 of a communicator for 1.50 s, and rank 1");
}

/* A rank that is only slightly behind will come. */
static void test_not_hanging(void **state)
{
	collective(0, 1, 0, 1 << 20);
	collective(1, 1, 10, 1 << 20);
	collective(0, 2, 1000000, 1 << 20);
	finds_no("hanging-collective");
}

/* --min-duration left out a line: its rank has gone on. */
static void test_gap_is_no_hang(void **state)
{
	for (int i = 0; i < 4; i++) {
		collective(0, i + 1, i * 1000000000ull, 1 << 20);
		if (i != 1)
			collective(1, i + 1, i * 1000000000ull, 1 << 20);
	}
	finds_no("hanging-collective");
}

/* Rank 1 began it, and the call was lost. */
static void test_lost_is_no_hang(void **state)
{
	struct trace_event lost = {
		.kind = EVENT_TRACER, .op = "lost", .start_ns = FACTORY_BASE_NS + 900000};

	collective(0, 1, 0, 1 << 20);
	collective(1, 1, 10, 1 << 20);
	collective(0, 2, 1000000, 1 << 20);
	collective(0, 3, 1500001000, 1 << 20);
	send(&lost);
	finds_no("hanging-collective");
}

static void test_small_collectives(void **state)
{
	for (int i = 0; i < 100; i++)
		collective(0, i + 1, i * 2000, 65535);
	loses("small-collectives", 100 * 1000);
}

static void test_no_small_collectives(void **state)
{
	for (int i = 0; i < 100; i++)
		collective(0, i + 1, i * 2000, i < 99 ? 65535 : 65536);
	finds_no("small-collectives");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_late_rank),	      TEST(test_late_of_two_traces),
		TEST(test_no_late_rank),      TEST(test_late_once),
		TEST(test_late_in_a_pair),    TEST(test_late_in_the_job),
		TEST(test_hanging),	      TEST(test_not_hanging),
		TEST(test_gap_is_no_hang),    TEST(test_lost_is_no_hang),
		TEST(test_small_collectives), TEST(test_no_small_collectives),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
