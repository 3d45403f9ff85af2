/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The findings about collectives: for each rule ranks that trigger it, and some that must not. */
#include "findings_check.h"

/* A collective of a rank, which is a process, on a communicator of two. */
static void collective_of(uint64_t hash, uint32_t pid, uint32_t trace, uint32_t rank, uint64_t seq,
			  uint64_t start_ns, uint64_t bytes)
{
	struct trace_event ev = factory_call(&f, "ncclAllReduce", 0, 1000);

	ev.pid = pid;
	ev.trace = trace;
	ev.start_ns = FACTORY_BASE_NS + start_ns;
	ev.end_ns = ev.start_ns + 1000;
	ev.has = HAS_COMM | HAS_BYTES;
	ev.coll = (struct collective_info){
		.hash = hash, .rank = rank, .nranks = 2, .seq = seq, .bytes = bytes};
	send(&ev);
}

static void collective_in(uint32_t trace, uint32_t rank, uint64_t seq, uint64_t start_ns,
			  uint64_t bytes)
{
	collective_of(0xabc, 100 + rank, trace, rank, seq, start_ns, bytes);
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
	     "Global rank 1 was late 4 times, typically by 4.00 ms, at most by 4.00 ms, and 16.0 ms");
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
	loses("late-rank", 50000000);
	says("late-rank", "Global rank 1 was late 1 time, typically by 50.0 ms");
}

static void joins(uint64_t hash, uint32_t pid, uint32_t rank, uint32_t nranks)
{
	struct trace_event ev = factory_call(&f, "ncclCommInitRank", 0, 1000);

	ev.pid = pid;
	ev.has = HAS_COMM;
	ev.coll = (struct collective_info){.hash = hash, .rank = rank, .nranks = nranks};
	send(&ev);
}

/* The same, beside two ranks in another communicator: the ranks of the job are unknown. They are
 * known if all four share one communicator. */
static void late_in_pair(bool job, const char *want)
{
	for (uint32_t pid = 100; pid < 104; pid++)
		joins(job ? 0x7 : 0xd00 + pid / 102, pid, job ? 103 - pid : pid % 2, job ? 4 : 2);
	for (uint64_t seq = 1; seq <= 4; seq++) {
		collective(0, seq, seq * 10000000, 1 << 20);
		collective(1, seq, seq * 10000000 + 4000000, 1 << 20);
	}
	finish();
	says("late-rank", want);
}

static void test_late_in_a_pair(void **state)
{
	late_in_pair(false, "Process 101 was late 4 times");
}

static void test_late_in_the_job(void **state)
{
	late_in_pair(true, "Global rank 2 was late 4 times");
}

static void has_rank(uint32_t pid, uint32_t rank)
{
	struct trace_event ev = {.kind = EVENT_JOB, .op = "rank", .name = "rank", .pid = pid};

	ev.start_ns = ev.end_ns = FACTORY_BASE_NS;
	ev.job.global_rank = rank;
	send(&ev);
}

/* The environment has the numbers; the process that starts the ranks has one of them, too. */
static void test_rank_of_the_environment(void **state)
{
	has_rank(50, 7);
	has_rank(100, 6);
	has_rank(101, 7);
	late_in_pair(false, "Global rank 7 was late 4 times");
}

/* Rank 0 is late for longer in total, but in fewer than half of the cases: that is below
 * chance. Rank 1 is reported. */
static void test_late_by_chance(void **state)
{
	for (int i = 0; i < 12; i++) {
		bool is_first = i < 4;

		collective(is_first, i + 1, i * 100000000ull, 1 << 20);
		collective(!is_first, i + 1, i * 100000000ull + (is_first ? 9000000 : 4000000),
			   1 << 20);
	}
	finish();
	says("late-rank", "Global rank 1 was late 8 times, typically by 4.00 ms");
	says("late-rank", "All ranks together were late 12 times");
}

/* Tensor-parallel pairs times data-parallel pairs. The fourth process is 5 ms late in two of four
 * steps, each time in two collectives of the one pair and one of the other: it is late twice. */
static void test_late_in_two_pairs(void **state)
{
	for (uint32_t i = 0; i < 4; i++)
		joins(0x7, 100 + i, i, 4);
	for (uint64_t step = 0; step < 4; step++) {
		uint64_t at = step * 20000000;

		for (uint32_t i = 0; i < 4; i++) {
			uint64_t ns = at + (i == 3 && step % 2 ? 5000000 : 0);

			collective_of(0x10 + i / 2, 100 + i, 0, i % 2, 2 * step + 1, ns, 1 << 20);
			collective_of(0x10 + i / 2, 100 + i, 0, i % 2, 2 * step + 2, ns + 300000,
				      1 << 20);
			collective_of(0x20 + i % 2, 100 + i, 0, i / 2, step + 1, ns + 600000,
				      1 << 20);
		}
	}
	loses("late-rank", 10000000);
	says("late-rank", "Global rank 3 was late 2 times, typically by 5.00 ms, at most by 5.00");
	says("late-rank", "All ranks together were late 2 times");
}

/* Each rank is late as often as the other: none is reported. */
static void test_late_in_turn(void **state)
{
	for (int i = 0; i < 8; i++) {
		collective(i % 2, i + 1, i * 100000000ull, 1 << 20);
		collective(!(i % 2), i + 1, i * 100000000ull + 4000000, 1 << 20);
	}
	finds_no("late-rank");
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
	     "1 rank has been in collective 2 of a communicator for 1.50 s, and global rank 1");
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
		TEST(test_late_by_chance),    TEST(test_late_in_turn),
		TEST(test_late_in_a_pair),    TEST(test_late_in_the_job),
		TEST(test_late_in_two_pairs), TEST(test_rank_of_the_environment),
		TEST(test_hanging),	      TEST(test_not_hanging),
		TEST(test_gap_is_no_hang),    TEST(test_lost_is_no_hang),
		TEST(test_small_collectives), TEST(test_no_small_collectives),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
