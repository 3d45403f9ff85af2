/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * ranks N ROUNDS [WHAT...]: N processes, each a rank of one communicator of the mock libnccl,
 * that make ROUNDS all-reduces of 1024 floats together.
 *   late=RANK:MS   it enters each collective that much later
 *   stop=RANK:SEQ[:MS]  it makes none from that one on, and waits, as the others do; all are
 *                  ended after that time (1500)
 *   spin           that rank runs meanwhile, and does not wait
 *   threads        a rank's calls are made by a thread other than its process's first
 *   block=RANK:MS  each of its collectives takes that long in its call
 *   split          another communicator for each two ranks, with two broadcasts
 *   wait           after three more before these print "ready" and wait for the end of stdin; the
 *                  last rank makes its third after that
 *   begin          each rank prints its process id when it has a context, and waits for stdin's end
 *   other=RANK     its third collective differs from the others'
 * The real library's kernels wait for each other. Here the processes do, before each collective, so
 * that a rank is late by its own delay and not by earlier ones.
 */
#include "../cases/case.h"

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <signal.h>

struct unique_id {
	char internal[128];
};

static struct {
	unsigned arrived, go, stopped;
} * shared;
static unsigned rank_cnt;
static void *lib;
static unsigned late_rank = -1, late_ms, stop_rank = -1, stop_seq, other_rank = -1;
static unsigned block_rank = -1, block_ms;
static unsigned stop_ms = 1500;
static bool split, waits, begins, spins, threads;

static void *nccl(const char *name)
{
	void *p = dlsym(lib, name);

	if (!p)
		die("libnccl.so.2 has no %s", name);
	return p;
}
#define N(name) ((int (*)())nccl(#name))

/* All ranks are here. */
static void meet(unsigned nth)
{
	__atomic_add_fetch(&shared->arrived, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&shared->arrived, __ATOMIC_SEQ_CST) < nth * rank_cnt)
		sched_yield();
}

static __attribute__((noinline)) void spin(void)
{
	for (;;)
		__atomic_load_n(&shared->go, __ATOMIC_SEQ_CST);
}

static __attribute__((noinline)) void stop(bool missing)
{
	__atomic_add_fetch(&shared->stopped, 1, __ATOMIC_SEQ_CST);
	if (missing && spins)
		spin();
	for (;;)
		pause();
}

static void two_by_two(handle comm, dptr p, handle stream, unsigned rank)
{
	handle pair = NULL;

	must("ncclCommSplit", N(ncclCommSplit)(comm, (int)rank / 2, (int)rank % 2, &pair, NULL), 0);
	for (int i = 0; i < 2; i++)
		must("ncclBcast", N(ncclBcast)(p, (size_t)16, 7, 0, pair, stream), 0);
}

static void reduce(handle comm, dptr p, handle stream)
{
	must("ncclAllReduce", N(ncclAllReduce)(p, p, (size_t)1024, 7, 0, comm, stream), 0);
}

static __attribute__((noinline)) int be_rank(unsigned rank, unsigned rounds)
{
	struct unique_id id = {"ranks"};
	int (*init)(handle *, int, struct unique_id, int);
	handle comm = NULL, stream;
	unsigned met = 0;
	dptr p;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (rank == block_rank) {
		char ms[16];

		snprintf(ms, sizeof(ms), "%u", block_ms);
		setenv("FAKE_NCCL_BLOCK_MS", ms, 1);
	}
	case_open();
	lib = dlopen("libnccl.so.2", RTLD_NOW);
	if (!lib)
		die("%s", dlerror());
	case_context();
	stream = case_stream(0);
	p = case_alloc(1 << 20);
	if (begins) {
		char line[32];

		expect_line(line, snprintf(line, sizeof(line), "%d\n", getpid()));
		while (!__atomic_load_n(&shared->go, __ATOMIC_SEQ_CST))
			case_sleep_ms(1);
	}
	init = nccl("ncclCommInitRank");
	must("ncclCommInitRank", init(&comm, rank_cnt, id, rank), 0);
	if (waits) {
		for (int i = 0; i < 3 - (rank == rank_cnt - 1); i++)
			reduce(comm, p, stream);
		meet(++met);
		if (!rank)
			expect_line("ready\n", 6);
		while (!__atomic_load_n(&shared->go, __ATOMIC_SEQ_CST))
			case_sleep_ms(1);
		if (rank == rank_cnt - 1)
			reduce(comm, p, stream);
	}
	for (unsigned i = 1; i <= rounds; i++) {
		meet(++met);
		if (rank == late_rank)
			case_sleep_ms(late_ms);
		if (rank == stop_rank && i == stop_seq)
			stop(true);
		if (rank == other_rank && i == 3)
			must("ncclBroadcast",
			     N(ncclBroadcast)(p, p, (size_t)16, 7, 0, comm, stream), 0);
		else
			reduce(comm, p, stream);
		if (i == stop_seq)
			stop(false);
	}
	if (split)
		two_by_two(comm, p, stream, rank);
	case_stream_sync(stream);
	return 0;
}

static unsigned thread_rank, thread_rounds;

static void *be_rank_in_thread(void *arg)
{
	return (void *)(long)be_rank(thread_rank, thread_rounds);
}

static __attribute__((noinline)) int start_rank(unsigned rank, unsigned rounds)
{
	pthread_t thread;
	void *ret;

	if (!threads)
		return be_rank(rank, rounds);
	thread_rank = rank;
	thread_rounds = rounds;
	if (pthread_create(&thread, NULL, be_rank_in_thread, NULL))
		die("pthread_create");
	pthread_join(thread, &ret);
	return (int)(long)ret;
}

static void what(const char *arg)
{
	if (sscanf(arg, "late=%u:%u", &late_rank, &late_ms) == 2 ||
	    sscanf(arg, "stop=%u:%u:%u", &stop_rank, &stop_seq, &stop_ms) >= 2 ||
	    sscanf(arg, "block=%u:%u", &block_rank, &block_ms) == 2 ||
	    sscanf(arg, "other=%u", &other_rank) == 1)
		return;
	split |= !strcmp(arg, "split");
	waits |= !strcmp(arg, "wait");
	begins |= !strcmp(arg, "begin");
	spins |= !strcmp(arg, "spin");
	threads |= !strcmp(arg, "threads");
}

int main(int argc, char **argv)
{
	pid_t pids[64];
	unsigned rounds;
	int status, failed = 0;
	char c;

	if (argc < 3)
		die("usage: ranks N ROUNDS [WHAT...]");
	rank_cnt = atoi(argv[1]);
	if (rank_cnt > 64)
		die("too many");
	rounds = atoi(argv[2]);
	for (int i = 3; i < argc; i++)
		what(argv[i]);
	case_quiet = true;
	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		die("mmap");
	for (unsigned i = 0; i < rank_cnt; i++)
		if (!(pids[i] = fork()))
			return start_rank(i, rounds);
	if (waits || begins)
		(void)!read(STDIN_FILENO, &c, 1);
	__atomic_store_n(&shared->go, 1, __ATOMIC_SEQ_CST);
	while (stop_seq && __atomic_load_n(&shared->stopped, __ATOMIC_SEQ_CST) < rank_cnt)
		case_sleep_ms(1);
	if (stop_seq)
		case_sleep_ms(stop_ms);
	for (unsigned i = 0; stop_seq && i < rank_cnt; i++)
		kill(pids[i], SIGKILL);
	while (wait(&status) > 0)
		failed |= status != 0;
	return failed && !stop_seq;
}
