/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Processes that may hold the lock. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attach/probe/mmap_lock.h"

/* A process waits in vfork() uninterruptibly, except for SIGKILL. */
static pid_t waits(volatile pid_t *child)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	if (!vfork()) {
		*child = getpid();
		pause();
	}
	_exit(0);
}

static void test_suspect(void **state)
{
	volatile pid_t *child = mmap(NULL, sizeof(*child), PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pid = waits(child);

	while (!*child)
		usleep(1000);
	/* Other processes of the machine may wait, too. */
	for (unsigned i = 0; i < 100 && !mmap_waiters__suspect(0); i++)
		usleep(10000);
	assert_int_not_equal(mmap_waiters__suspect(0), 0);
	assert_int_not_equal(mmap_waiters__suspect(pid), pid);
	kill(pid, SIGKILL);
	kill(*child, SIGKILL);
	waitpid(pid, NULL, 0);
}

#if defined(__x86_64__)
static void test_calls(void **state)
{
	static const struct {
		const char *line;
		enum mmap_lock_call call;
	} rows[] = {
		{"running", MMAP_LOCK_NONE},
		{"", MMAP_LOCK_NONE},
		{"-1 0x7ffc0000 0x7f0000000000", MMAP_LOCK_MAPS},
		{"11 0x7f0000000000 0x1000 0x0", MMAP_LOCK_MAPS},
		{"25 0x0 0x0 0x0", MMAP_LOCK_MAPS},
		{"1073741835 0x7f000000 0x1000 0x0", MMAP_LOCK_MAPS},
		{"0 0x3 0x7ffc0000 0x1", MMAP_LOCK_NONE},
		{"7 0x7ffc0000 0x1 0xffffffff", MMAP_LOCK_NONE},
		{"202 0x7f0000001000 0x189 0x0", MMAP_LOCK_NONE},
		{"230 0x1 0x0 0x7ffc0000", MMAP_LOCK_NONE},
		{"232 0x4 0x7ffc0000 0x20", MMAP_LOCK_NONE},
		{"281 0x4 0x7ffc0000 0x20", MMAP_LOCK_NONE},
		/* by int 0x80 */
		{"91 0x41000000 0x1000 0x0", MMAP_LOCK_MAPS},
		{"90 0x7ffc0000 0x0 0x0", MMAP_LOCK_MAPS},
		{"163 0x41000000 0x1000 0x1000", MMAP_LOCK_MAPS},
		{"376 0x41000000 0x1000 0x0", MMAP_LOCK_MAPS},
		{"45 0x41000000 0x0 0x0", MMAP_LOCK_MAPS},
		{"45 0xdead000041000000 0x0 0x0", MMAP_LOCK_MAPS},
		{"219 0x41000000 0x1000 0x4", MMAP_LOCK_MAPS},
		{"257 0x41000000 0x1000 0xdead000000000000", MMAP_LOCK_MAPS},
		/* fork(), and threads */
		{"57 0x0 0x0 0x0", MMAP_LOCK_FORKS},
		{"56 0x1200011 0x0 0x0", MMAP_LOCK_FORKS},
		{"435 0x7ffc0000 0x58 0x0", MMAP_LOCK_FORKS},
		{"58 0x7ffc0000 0x0 0x0", MMAP_LOCK_NONE},
		{"2 0x0 0x0 0x0", MMAP_LOCK_FORKS},
		{"120 0x11 0x0 0x0", MMAP_LOCK_FORKS},
		/* 64-bit calls with these numbers */
		{"45 0x13 0x7f0000001000 0x1000", MMAP_LOCK_NONE},
		{"219 0x7ffc0678 0x1 0x3e8", MMAP_LOCK_NONE},
		{"219 0x0 0x0 0x7ffc0000", MMAP_LOCK_NONE},
		{"257 0xffffff9c 0x7ffc0000 0x80000", MMAP_LOCK_NONE},
		{"257 0x5 0x7ffc0000 0x0", MMAP_LOCK_NONE},
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (mmap_lock_call(rows[i].line) != rows[i].call)
			fail_msg("%s", rows[i].line);
}
#else
static void test_calls(void **state)
{
	skip();
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_suspect),
		cmocka_unit_test(test_calls),
	};

	return cmocka_run_group_tests_name("holders", tests, NULL, NULL);
}
