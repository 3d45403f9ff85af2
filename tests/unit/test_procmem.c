/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Memory of a process, here our own: page boundaries, holes, strings. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "util/procmem.h"

#define PAGE 4096

/* Two pages that can be read and one that is not there. */
static char *pages;

static int setup(void **state)
{
	(void)state;
	pages = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (pages == MAP_FAILED)
		return -1;
	memset(pages, 'x', 2 * PAGE);
	return munmap(pages + 2 * PAGE, PAGE);
}

static int teardown(void **state)
{
	(void)state;
	return munmap(pages, 2 * PAGE);
}

static uint64_t at(size_t off)
{
	return (uintptr_t)pages + off;
}

static void test_read(void **state)
{
	char buf[2 * PAGE + 8];

	(void)state;
	strcpy(pages + PAGE - 3, "hello");
	assert_int_equal(procmem_read(getpid(), at(PAGE - 3), buf, 6), 0);
	assert_string_equal(buf, "hello");
	assert_int_equal(procmem_read(getpid(), at(0), buf, 2 * PAGE), 0);
	/* Exactly what was asked for, or nothing. */
	assert_int_equal(procmem_read(getpid(), at(1), buf, 2 * PAGE), -EFAULT);
	assert_int_equal(procmem_read(getpid(), at(2 * PAGE - 4), buf, 8), -EFAULT);
	assert_int_equal(procmem_read(getpid(), at(2 * PAGE), buf, 1), -EFAULT);
	assert_int_equal(procmem_read(getpid(), 0, buf, 8), -EFAULT);
	assert_int_equal(procmem_read(getpid(), 8, buf, 8), -EFAULT);
	assert_true(procmem_read(getpid(), UINT64_MAX, buf, 8) < 0);
	assert_true(procmem_read(getpid(), UINT64_MAX - 7, buf, 8) < 0);
	assert_true(procmem_read(getpid(), 1ull << 63, buf, 8) < 0);
}

static void test_string(void **state)
{
	char buf[2 * PAGE + 8];

	(void)state;
	memset(pages, 'x', 2 * PAGE);
	strcpy(pages + PAGE - 3, "hello");
	assert_int_equal(procmem_read_str(getpid(), at(PAGE - 3), buf, sizeof(buf)), 5);
	assert_string_equal(buf, "hello");
	assert_int_equal(procmem_read_str(getpid(), at(PAGE + 2), buf, sizeof(buf)), 0);
	assert_string_equal(buf, "");
	/* Its NUL is the last byte before the hole. */
	pages[2 * PAGE - 1] = 0;
	assert_int_equal(procmem_read_str(getpid(), at(2 * PAGE - 5), buf, sizeof(buf)), 4);
	assert_string_equal(buf, "xxxx");
	assert_int_equal(procmem_read_str(getpid(), at(PAGE + 3), buf, sizeof(buf)), PAGE - 4);
	/* No NUL before the hole. */
	pages[2 * PAGE - 1] = 'x';
	assert_int_equal(procmem_read_str(getpid(), at(2 * PAGE - 5), buf, sizeof(buf)), -EFAULT);
	assert_int_equal(procmem_read_str(getpid(), at(2 * PAGE), buf, sizeof(buf)), -EFAULT);
	assert_int_equal(procmem_read_str(getpid(), 0, buf, sizeof(buf)), -EFAULT);
	assert_true(procmem_read_str(getpid(), UINT64_MAX, buf, sizeof(buf)) < 0);
}

static void test_string_size(void **state)
{
	char buf[16];

	(void)state;
	memset(pages, 'x', 2 * PAGE);
	strcpy(pages + PAGE - 3, "hello");
	/* Room for all of it and its NUL, and one less. */
	memset(buf, '#', sizeof(buf));
	assert_int_equal(procmem_read_str(getpid(), at(PAGE - 3), buf, 7), 5);
	assert_string_equal(buf, "hello");
	memset(buf, '#', sizeof(buf));
	assert_int_equal(procmem_read_str(getpid(), at(PAGE - 3), buf, 5), -ENAMETOOLONG);
	assert_string_equal(buf, "hell");
	assert_int_equal(buf[5], '#');
	assert_int_equal(procmem_read_str(getpid(), at(PAGE - 3), buf, 1), -ENAMETOOLONG);
	assert_string_equal(buf, "");
}

static void test_other(void **state)
{
	char buf[8];
	pid_t pid;
	int st;

	(void)state;
	strcpy(pages, "parent");
	pid = fork();
	if (!pid) {
		strcpy(pages, "child");
		pause();
		_exit(0);
	}
	assert_true(pid > 0);
	for (int i = 0; i < 2000; i++) {
		if (procmem_read_str(pid, at(0), buf, sizeof(buf)) != 6)
			break;
		usleep(1000);
	}
	st = procmem_read_str(pid, at(0), buf, sizeof(buf));
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	if (st == -EPERM)
		skip(); /* ptrace is not allowed here */
	assert_int_equal(st, 5);
	assert_string_equal(buf, "child");
	/* Gone. */
	assert_int_equal(procmem_read(pid, at(0), buf, 1), -ESRCH);
	assert_int_equal(procmem_read_str(pid, at(0), buf, sizeof(buf)), -ESRCH);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_read),
		cmocka_unit_test(test_string),
		cmocka_unit_test(test_string_size),
		cmocka_unit_test(test_other),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
