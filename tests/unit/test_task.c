/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Processes without a main thread, and processes that are ending, as /proc shows them. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attach/find/target.h"
#include "util/reader.h"
#include "util/task.h"

static char folder[] = "/tmp/cudatrace-task-XXXXXX", lib[64];

/* A file that children map, too. */
static int setup(void **state)
{
	int fd;

	if (!mkdtemp(folder))
		return -1;
	snprintf(lib, sizeof(lib), "%s/libcuda.so.1", folder);
	fd = open(lib, O_RDWR | O_CREAT | O_CLOEXEC, 0700);
	if (fd < 0 || ftruncate(fd, 4096) ||
	    mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED)
		return -1;
	close(fd);
	return 0;
}

static int teardown(void **state)
{
	unlink(lib);
	return rmdir(folder);
}

static void await_state(pid_t pid, char want)
{
	while (target_state(pid) != want)
		usleep(1000);
}

static void *sleep_on(void *arg)
{
	for (;;)
		pause();
	return arg;
}

static void test_ids(void **state)
{
	pid_t tid = syscall(SYS_gettid);

	assert_int_equal(task_living(getpid()), getpid());
	assert_int_equal(task_process(getpid()), getpid());
	assert_int_equal(task_process(tid), getpid());
	assert_int_equal(task_living(0), 0);
	assert_int_equal(task_process(-1), -1);
	assert_false(task_is_kernel(getpid()));
	assert_false(task_is_kernel(-1));
	assert_false(target_has_ended(getpid()));
	assert_true(target_has_ended(-1));
}

/* Another thread's files show the data. */
static void test_main_thread_has_ended(void **state)
{
	struct target_libs list = {0};
	pid_t pid = fork(), tid;
	pthread_t other;
	char buf[4096], path[64];
	int fd;

	if (!pid) {
		pthread_create(&other, NULL, sleep_on, NULL);
		pthread_exit(NULL);
	}
	await_state(pid, 'Z');
	assert_false(target_has_ended(pid));
	tid = task_living(pid);
	assert_true(tid > 0 && tid != pid);
	assert_int_equal(task_process(tid), pid);
	assert_true(reader__take(reader__copy(pid, "maps", sizeof(buf)), buf, sizeof(buf)) > 0);
	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	assert_int_equal(target_is_64bit(pid), 1);
	fd = reader__open(pid, path, 0);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(target_libs__add_pid(&list, pid), 0);
	assert_int_equal(list.cnt, 1);
	assert_int_equal(list.libs[0].pid, pid);
	fd = target_lib__open(&list.libs[0]);
	assert_true(fd >= 0);
	close(fd);
	target_libs__clear(&list);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(task_living(pid), 0);
	assert_true(target_has_ended(pid));
}

/* The first process of a PID namespace cannot end before all others in it are reaped. It has no
 * memory any more, and is no zombie yet (Linux 6.18: zap_pid_ns_processes()). */
static void test_ending(void **state)
{
	struct target_libs list = {0};
	pid_t first, second;
	unsigned char byte;
	int go[2], own = open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC);

	if (own < 0 || unshare(CLONE_NEWPID))
		skip();
	assert_int_equal(pipe(go), 0);
	first = fork();
	if (!first) {
		close(go[1]);
		(void)!read(go[0], &byte, 1);
		_exit(0);
	}
	second = fork();
	if (!second) {
		close(go[1]);
		sleep_on(NULL);
	}
	assert_true(first > 0 && second > 0);
	assert_int_equal(target_libs__add_pid(&list, first), 0);
	assert_int_equal(list.cnt, 1);
	close(go[1]);
	close(go[0]);
	while (task_living(first))
		usleep(1000);
	/* Its memory is released right after that. */
	while (reader__take(reader__copy(first, "maps", 16), &byte, 1) > 0)
		usleep(1000);
	assert_non_null(strchr("SDR", target_state(first)));
	assert_true(target_exists(first));
	assert_int_equal(target_lib__open(&list.libs[0]), -ENOENT);
	assert_false(target_has_ended(first));
	target_libs__clear(&list);
	assert_int_equal(waitpid(second, NULL, 0), second);
	assert_int_equal(waitpid(first, NULL, 0), first);
	assert_true(target_has_ended(first));
	/* LeakSanitizer's own thread could not be in another namespace. */
	assert_int_equal(setns(own, CLONE_NEWPID), 0);
	close(own);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ids),
		cmocka_unit_test(test_main_thread_has_ended),
		cmocka_unit_test(test_ending),
	};

	return cmocka_run_group_tests_name("task", tests, setup, teardown);
}
