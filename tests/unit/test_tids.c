/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Thread ids of a process in another PID namespace. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "inject/inject_priv.h"
#include "util/clock.h"
#include "util/time_budget.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 200

static void *idle(void *arg)
{
	for (;;)
		pause();
	return arg;
}

static void start_threads(void)
{
	pthread_attr_t attr;
	pthread_t t;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 64 << 10);
	for (unsigned i = 0; i < THREADS; i++)
		if (pthread_create(&t, &attr, idle, NULL))
			_exit(1);
}

/* Starts process 1 of its own namespace, with threads 2 to THREADS + 1; returns its pid here. 0:
 * not permitted. */
static pid_t start(int depth)
{
	int ready[2];
	char c = 0;
	pid_t pid, helper;

	assert_int_equal(pipe(ready), 0);
	helper = fork();
	if (!helper) {
		setpgid(0, 0);
		for (; depth-- > 0; pid = 0) {
			if (unshare(CLONE_NEWPID))
				_exit(1);
			pid = fork();
			if (pid) {
				close(ready[1]);
				waitpid(pid, NULL, 0);
				_exit(0);
			}
		}
		start_threads();
		(void)!write(ready[1], "x", 1);
		pause();
		_exit(0);
	}
	close(ready[1]);
	pid = read(ready[0], &c, 1) == 1 ? helper : 0;
	close(ready[0]);
	return pid;
}

static pid_t only_child(pid_t pid)
{
	char path[64];
	pid_t child = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", pid, pid);
	f = fopen(path, "re");
	if (f && fscanf(f, "%d", &child) != 1)
		child = 0;
	if (f)
		fclose(f);
	return child;
}

/* Searches for unknown ids are limited; they use up the process's time. */
static void flood(struct client *p)
{
	struct work w;

	time_budget__start();
	for (unsigned i = 0; i < 1000; i++) {
		uint64_t begin = now_ns();

		assert_int_equal(own_tid(p, (1 << 22) + i), p->pid);
		assert_true(now_ns() - begin < 2000000000ull);
	}
	assert_int_not_equal(time_budget__begin(&w, p->uid, WORK_TASKS), 0);
}

static void look_at(int depth, void (*then)(struct client *p))
{
	pid_t helper = start(depth), pid = helper;
	struct client p = {.other_ns = true, .ns_fd = -1};
	uint32_t tid;

	if (!pid) {
		waitpid(-1, NULL, 0);
		skip();
	}
	for (int i = 0; i < depth; i++)
		pid = only_child(pid);
	assert_true(pid > 0);
	p.pid = pid;
	p.pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	assert_int_equal(own_tid(&p, 1), pid);
	tid = own_tid(&p, 2);
	assert_int_not_equal(tid, pid);
	assert_int_equal(syscall(SYS_tgkill, pid, tid, 0), 0);
	assert_int_equal(own_tid(&p, 1 << 22), pid);
	/* As in older kernels. */
	assert_int_equal(tid_search(pid, 2), tid);
	assert_int_equal(tid_search(pid, 1 << 22), 0);
	p.ns_fd = -2;
	assert_int_equal(own_tid(&p, 2), tid);
	assert_int_equal(own_tid(&p, 1 << 22), pid);
	if (then)
		then(&p);
	kill(pid, SIGKILL);
	kill(-helper, SIGKILL);
	waitpid(helper, NULL, 0);
	close(p.pidfd);
}

static void test_namespace(void **state)
{
	look_at(1, NULL);
}

static void test_nested(void **state)
{
	look_at(2, flood);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_namespace),
		cmocka_unit_test(test_nested),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
