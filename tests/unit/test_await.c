/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The time in which a process waits for a processor does not count as time in which it does not
 * answer. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "util/await.h"
#include "util/clock.h"

#define LIMIT_MS 200
/* Longer than the limit, shorter than the maximum. */
#define STARVED_US 800000

static int fds[2];

/* Runs in a child that answers when it returns. */
static pid_t child(void (*does)(int arg), int arg)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	does(arg);
	(void)!write(fds[1], "", 1);
	_exit(0);
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static int setup(void **state)
{
	return pipe(fds);
}

static int teardown(void **state)
{
	close(fds[0]);
	close(fds[1]);
	return 0;
}

static bool answers(pid_t pid, uint64_t *counted_ms)
{
	uint64_t starved_ns, begin = now_ns(), all;
	bool answered = await_answer(fds[0], pid, LIMIT_MS, &starved_ns);

	all = now_ns() - begin;
	assert_true(starved_ns <= all);
	*counted_ms = (all - starved_ns) / 1000000;
	return answered;
}

static void at_once(int arg)
{
}

static void sleeps(int arg)
{
	for (;;)
		pause();
}

static void spins(int arg)
{
	for (;;)
		;
}

static void stops(int arg)
{
	raise(SIGSTOP);
}

static void continues(int pid)
{
	usleep(STARVED_US);
	kill(pid, SIGCONT);
	sleeps(0);
}

static void pin(int policy)
{
	struct sched_param none = {0};
	cpu_set_t cpus;
	int cpu = 0;

	sched_getaffinity(0, sizeof(cpus), &cpus);
	while (!CPU_ISSET(cpu, &cpus))
		cpu++;
	CPU_ZERO(&cpus);
	CPU_SET(cpu, &cpus);
	sched_setaffinity(0, sizeof(cpus), &cpus);
	sched_setscheduler(0, policy, &none);
}

/* Uses its processor until it has been starved for long enough. */
static void hogs(int arg)
{
	uint64_t until = now_ns() + STARVED_US * UINT64_C(1000);

	pin(SCHED_OTHER);
	while (now_ns() < until)
		;
	sleeps(0);
}

/* Needs little processor time, which it gets when the processor is free. */
static void yields(int arg)
{
	uint64_t until;

	pin(SCHED_IDLE);
	until = clock_ns(CLOCK_PROCESS_CPUTIME_ID) + 50000000;
	while (clock_ns(CLOCK_PROCESS_CPUTIME_ID) < until)
		;
}

static void test_answers(void **state)
{
	pid_t pid = child(at_once, 0);
	uint64_t ms;

	assert_true(answers(pid, &ms));
	end(pid);
}

/* As at a file that never answers. */
static void test_sleeps(void **state)
{
	pid_t pid = child(sleeps, 0);
	uint64_t ms;

	assert_false(answers(pid, &ms));
	assert_true(ms >= LIMIT_MS);
	assert_false(answers(0, &ms));
	assert_true(ms >= LIMIT_MS);
	end(pid);
}

/* Processor time counts: a file may take long to read. */
static void test_spins(void **state)
{
	pid_t pid = child(spins, 0);
	uint64_t ms, begin = now_ns();

	assert_false(answers(pid, &ms));
	assert_true(ms >= LIMIT_MS || now_ns() - begin >= AWAIT_MAX_MS * UINT64_C(1000000));
	end(pid);
}

static void test_stopped(void **state)
{
	pid_t pid = child(stops, 0), waker;
	uint64_t ms;

	assert_int_equal(waitpid(pid, NULL, WUNTRACED), pid);
	waker = child(continues, pid);
	assert_true(answers(pid, &ms));
	end(waker);
	end(pid);
}

static void test_starved(void **state)
{
	pid_t hog = child(hogs, 0), pid = child(yields, 0);
	uint64_t ms;

	assert_true(answers(pid, &ms));
	end(hog);
	end(pid);
}

/* A process that is never continued: there is a limit to everything. */
static void test_limit(void **state)
{
	pid_t pid = child(stops, 0);
	uint64_t ms, begin = now_ns();

	assert_int_equal(waitpid(pid, NULL, WUNTRACED), pid);
	assert_false(answers(pid, &ms));
	assert_true(now_ns() - begin >= AWAIT_MAX_MS * UINT64_C(1000000));
	end(pid);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_answers, setup, teardown),
		cmocka_unit_test_setup_teardown(test_sleeps, setup, teardown),
		cmocka_unit_test_setup_teardown(test_spins, setup, teardown),
		cmocka_unit_test_setup_teardown(test_stopped, setup, teardown),
		cmocka_unit_test_setup_teardown(test_starved, setup, teardown),
		cmocka_unit_test_setup_teardown(test_limit, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
