/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A process's mounts are cached, but not used after it mounts something else. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "util/reader_mounts.h"

static pid_t child;
static int to[2], from[2];

/* The mount that /mnt is in; 0: unknown (before Linux 5.8). */
static unsigned long long mount_id(void)
{
	struct statx st;

	if (statx(AT_FDCWD, "/mnt", 0, STATX_MNT_ID, &st) || !(st.stx_mask & STATX_MNT_ID))
		return 0;
	return st.stx_mnt_id;
}

/* In its own namespaces: at each byte it mounts or unmounts, and sends the mount's id. */
static void __attribute__((noreturn)) mount_for(void)
{
	unsigned long long id = 0;
	char byte;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL))
		_exit(0);
	while (read(to[0], &byte, 1) == 1) {
		int bad = byte == 't'	? mount("t", "/mnt", "tmpfs", 0, NULL)
			  : byte == 'p' ? mount("p", "/mnt", "proc", 0, NULL)
					: umount2("/mnt", MNT_DETACH);

		id = bad ? 0 : mount_id();
		if (write(from[1], &id, sizeof(id)) != sizeof(id))
			break;
	}
	_exit(0);
}

static int setup(void **state)
{
	if (pipe(to) || pipe(from))
		return -1;
	child = fork();
	if (!child) {
		close(to[1]);
		close(from[0]);
		mount_for();
	}
	close(from[1]);
	return child < 0;
}

static int teardown(void **state)
{
	reader_mounts__forget();
	close(to[1]);
	waitpid(child, NULL, 0);
	return 0;
}

static unsigned long long command(char what)
{
	unsigned long long id = 0;

	signal(SIGPIPE, SIG_IGN);
	if (write(to[1], &what, 1) != 1 || read(from[0], &id, sizeof(id)) != sizeof(id) || !id)
		skip(); /* not permitted here */
	return id;
}

static void test_changes_are_seen(void **state)
{
	unsigned long long tmpfs = command('t'), proc;

	assert_int_equal(reader_mounts__are_safe(child, tmpfs), 1);
	assert_int_equal(reader_mounts__are_safe(child, tmpfs), 1);
	command('u');
	assert_int_equal(reader_mounts__are_safe(child, tmpfs), -1);
	/* It usually has the other's number. */
	proc = command('p');
	assert_int_equal(reader_mounts__are_safe(child, proc), 0);
	command('u');
	tmpfs = command('t');
	assert_int_equal(reader_mounts__are_safe(child, tmpfs), 1);
	/* Not in our namespace. */
	assert_int_equal(reader_mounts__are_safe(0, tmpfs), -1);
}

static void test_ended(void **state)
{
	assert_int_equal(reader_mounts__are_safe(INT32_MAX, 1), -1);
}

static void test_ours(void **state)
{
	struct statx st;

	if (statx(AT_FDCWD, "/proc", 0, STATX_MNT_ID, &st) || !(st.stx_mask & STATX_MNT_ID))
		skip();
	assert_int_equal(reader_mounts__are_safe(0, st.stx_mnt_id), 0);
	reader_mounts__forget();
	assert_int_equal(reader_mounts__are_safe(0, st.stx_mnt_id), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_changes_are_seen),
		cmocka_unit_test(test_ended),
		cmocka_unit_test(test_ours),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
