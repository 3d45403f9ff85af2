/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Opening the next files of outputs: with a separate process and without. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/opener.h"

static char folder[64], path[96];

static int setup(void **state)
{
	strcpy(folder, "/tmp/cudatrace-opener-XXXXXX");
	if (!mkdtemp(folder))
		return -1;
	snprintf(path, sizeof(path), "%s/out.jsonl", folder);
	return 0;
}

static int teardown(void **state)
{
	char command[128];

	opener__end();
	snprintf(command, sizeof(command), "rm -r %s", folder);
	return system(command);
}

/* Opens the next file and writes its name into it. */
static void check_next(unsigned output, const char *want)
{
	char name[128], got[8] = "";
	const char *said;
	struct stat st;
	int fd = opener__next(output, &said);

	assert_true(fd >= 0);
	snprintf(name, sizeof(name), "%s/%s", folder, want);
	assert_string_equal(said, name);
	assert_int_equal(write(fd, "written", 7), 7);
	close(fd);
	fd = open(name, O_RDONLY);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_size, 7);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(read(fd, got, sizeof(got)), 7);
	close(fd);
}

static void check_files(void)
{
	char other[128];
	const char *said;

	snprintf(other, sizeof(other), "%s/b.pftrace", folder);
	assert_int_equal(opener__add(path), 0);
	assert_int_equal(opener__add(other), 1);
	opener__close_names();
	check_next(0, "out.1.jsonl");
	check_next(1, "b.1.pftrace");
	check_next(0, "out.2.jsonl");
	assert_int_equal(opener__next(7, &said), -EINVAL);
}

static void test_without(void **state)
{
	check_files();
}

static void test_process(void **state)
{
	assert_int_equal(opener__start(false), 0);
	check_files();
}

static void test_sandboxed(void **state)
{
	assert_int_equal(opener__start(true), 0);
	check_files();
}

/* Existing files: a regular file is emptied, nothing else is opened. */
static void test_in_the_way(void **state)
{
	char name[128];
	const char *said;
	int fd;

	assert_int_equal(opener__start(true), 0);
	assert_int_equal(opener__add(path), 0);
	snprintf(name, sizeof(name), "%s/out.1.jsonl", folder);
	fd = open(name, O_WRONLY | O_CREAT, 0600);
	assert_int_equal(write(fd, "a long old text", 15), 15);
	close(fd);
	check_next(0, "out.1.jsonl");
	snprintf(name, sizeof(name), "%s/out.2.jsonl", folder);
	assert_int_equal(mkdir(name, 0700), 0);
	assert_int_equal(opener__next(0, &said), -EISDIR);
	assert_string_equal(said, name);
	snprintf(name, sizeof(name), "%s/out.3.jsonl", folder);
	assert_int_equal(mkfifo(name, 0600), 0);
	assert_true(opener__next(0, &said) < 0);
	snprintf(name, sizeof(name), "%s/out.4.jsonl", folder);
	assert_int_equal(symlink("/dev/null", name), 0);
	assert_int_equal(opener__next(0, &said), -EEXIST);
}

/* Relative to our working directory, not to that of the process. */
static void test_relative(void **state)
{
	char old[4096];
	const char *said;
	struct stat st;
	int fd;

	assert_non_null(getcwd(old, sizeof(old)));
	assert_int_equal(chdir(folder), 0);
	assert_int_equal(opener__start(true), 0);
	assert_int_equal(opener__add("here.json"), 0);
	fd = opener__next(0, &said);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(stat("here.1.json", &st), 0);
	assert_int_equal(chdir(old), 0);
}

/* If a name is sent after all, the process ends. */
static void test_sealed(void **state)
{
	char other[128], name[128];
	const char *said;

	assert_int_equal(opener__start(true), 0);
	assert_int_equal(opener__add(path), 0);
	opener__close_names();
	check_next(0, "out.1.jsonl");
	snprintf(other, sizeof(other), "%s/late", folder);
	opener__add(other);
	assert_int_equal(opener__next(1, &said), -EPIPE);
	assert_int_equal(opener__next(0, &said), -EPIPE);
	snprintf(name, sizeof(name), "%s/late.1", folder);
	assert_int_equal(access(name, F_OK), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_without, setup, teardown),
		cmocka_unit_test_setup_teardown(test_process, setup, teardown),
		cmocka_unit_test_setup_teardown(test_sandboxed, setup, teardown),
		cmocka_unit_test_setup_teardown(test_in_the_way, setup, teardown),
		cmocka_unit_test_setup_teardown(test_relative, setup, teardown),
		cmocka_unit_test_setup_teardown(test_sealed, setup, teardown),
	};

	/* A system call that is missing in the sandbox kills the process. */
	setenv("CUDATRACE_SANDBOX", "kill", 1);
	return cmocka_run_group_tests_name("opener", tests, NULL, NULL);
}
