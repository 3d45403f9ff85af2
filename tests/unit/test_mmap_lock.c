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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_suspect),
	};

	return cmocka_run_group_tests_name("holders", tests, NULL, NULL);
}
