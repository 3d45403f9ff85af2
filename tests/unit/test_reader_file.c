/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Files of a process with another root, which tries to make us open our own files. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "util/reader.h"

static char top[64], ours[96];
static pid_t target;

static void put(const char *folder, const char *name, const char *text)
{
	char path[256];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s/%s", top, folder, name);
	f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void put_link(const char *name, const char *to)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/root/%s", top, name);
	assert_int_equal(symlink(to, path), 0);
}

static void folder(const char *name)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", top, name);
	assert_int_equal(mkdir(path, 0755), 0);
}

/* The first word of the file at the path in the target's root; else errno's text. */
static const char *got(const char *path, bool nofollow)
{
	static char text[64];
	char full[512];
	struct stat st;
	ssize_t n;
	int fd;

	snprintf(full, sizeof(full), "/proc/%d/root%s", target, path);
	fd = reader__open(target, full, nofollow ? O_NOFOLLOW : 0);
	if (fd < 0)
		return strerror(-fd);
	assert_true(!fstat(fd, &st) && S_ISREG(st.st_mode));
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[n > 0 ? n : 0] = '\0';
	return text;
}

static void make_target(void)
{
	char root[96];
	int fds[2];
	char byte;

	snprintf(root, sizeof(root), "%s/root", top);
	assert_int_equal(pipe(fds), 0);
	target = fork();
	assert_true(target >= 0);
	if (!target) {
		if (chroot(root) || chdir("/"))
			_exit(1);
		(void)!write(fds[1], "", 1);
		pause();
		_exit(0);
	}
	assert_int_equal(read(fds[0], &byte, 1), 1);
	close(fds[0]);
	close(fds[1]);
}

static int setup(void **state)
{
	strcpy(top, "/tmp/cudatrace-foreign-XXXXXX");
	assert_non_null(mkdtemp(top));
	snprintf(ours, sizeof(ours), "%s/ours", top);
	put(".", "ours", "ours");
	folder("root");
	folder("root/dir");
	folder("root/dir/deep");
	put("root", "file", "theirs");
	put("root/dir", "file", "in dir");
	if (!geteuid())
		make_target();
	return 0;
}

static int teardown(void **state)
{
	char cmd[128], path[128];

	/* If a test failed, nothing of the machine must be removed through this mount. */
	snprintf(path, sizeof(path), "%s/root/proc", top);
	umount2(path, MNT_DETACH);
	if (target > 0) {
		kill(target, SIGKILL);
		waitpid(target, NULL, 0);
	}
	snprintf(cmd, sizeof(cmd), "rm -rf %s", top);
	return system(cmd);
}

static void test_inside(void **state)
{
	char up[128];

	if (target <= 0)
		skip();
	assert_string_equal(got("/file", false), "theirs");
	assert_string_equal(got("//dir/./deep/..//file", false), "in dir");
	assert_string_equal(got("/dir/../../../file", false), "theirs");
	put_link("abs", "/dir/file");
	put_link("rel", "dir/deep/../file");
	put_link("chain", "abs");
	put_link("folder", "/dir/deep/..");
	assert_string_equal(got("/abs", false), "in dir");
	assert_string_equal(got("/rel", false), "in dir");
	assert_string_equal(got("/chain", false), "in dir");
	assert_string_equal(got("/folder/file", false), "in dir");
	/* Our file by name, by many "..", through a folder. */
	put_link("ours", ours);
	snprintf(up, sizeof(up), "../../../../..%s", ours);
	put_link("up", up);
	put_link("dir/up", "../../ours");
	assert_string_equal(got("/ours", false), "No such file or directory");
	assert_string_equal(got("/up", false), "No such file or directory");
	assert_string_equal(got("/dir/up", false), "No such file or directory");
	assert_string_equal(got("/../ours", false), "No such file or directory");
	put_link("tmp", top);
	assert_string_equal(got("/tmp/ours", false), "Too many levels of symbolic links");
}

static void test_refused(void **state)
{
	char path[256];

	if (target <= 0)
		skip();
	put_link("loop", "loop");
	assert_string_equal(got("/loop", false), "Too many levels of symbolic links");
	assert_string_equal(got("/file/x", false), "Not a directory");
	assert_string_equal(got("/dir", false), "Is a directory");
	assert_string_equal(got("/", false), "Is a directory");
	snprintf(path, sizeof(path), "%s/root/fifo", top);
	assert_int_equal(mkfifo(path, 0666), 0);
	assert_string_equal(got("/fifo", false), "Invalid argument");
	put_link("last", "/file");
	assert_string_equal(got("/last", false), "theirs");
	assert_string_equal(got("/last", true), "Invalid argument");
	assert_string_equal(got("/file", true), "theirs");
	/* A link to a folder is not the last component. */
	assert_string_equal(got("/folder/file", true), "in dir");
}

/* Files of /proc that depend on the reader. */
static void test_proc(void **state)
{
	char path[256];

	if (target <= 0)
		skip();
	folder("root/proc");
	snprintf(path, sizeof(path), "%s/root/proc", top);
	if (mount("proc", path, "proc", 0, ""))
		skip();
	assert_string_equal(got("/proc/self/environ", false), "Object is remote");
	assert_string_equal(got("/proc/self/root/etc/passwd", false), "Object is remote");
	assert_string_equal(got("/proc/version", false), "Object is remote");
	assert_int_equal(umount(path), 0);
}

static void test_plain(void **state)
{
	assert_int_equal(reader__open(0, "/dev/null", 0), -EINVAL);
	assert_int_equal(reader__open(0, top, 0), -EISDIR);
	assert_int_equal(reader__open(0, "/none/there", 0), -ENOENT);
	assert_true(reader__open(0, ours, 0) >= 0);
}

/* Where a link of a process leads, with a NUL, cut to the buffer. */
static void test_link(void **state)
{
	char name[32], buf[4096];
	int fd = open(ours, O_RDONLY | O_CLOEXEC), pipes[2];

	assert_true(fd >= 0 && !pipe(pipes));
	snprintf(name, sizeof(name), "fd/%d", fd);
	assert_int_equal(reader__link(getpid(), name, buf, sizeof(buf)), strlen(ours));
	assert_string_equal(buf, ours);
	assert_int_equal(reader__link(getpid(), name, buf, 5), 4);
	assert_int_equal(strlen(buf), 4);
	/* Opens nothing: a pipe has no other end here. */
	snprintf(name, sizeof(name), "fd/%d", pipes[0]);
	assert_true(reader__link(getpid(), name, buf, sizeof(buf)) > 0);
	assert_int_equal(strncmp(buf, "pipe:[", 6), 0);
	assert_int_equal(reader__link(getpid(), "fd/-1", buf, sizeof(buf)), -ENOENT);
	assert_string_equal(buf, "");
	assert_int_equal(reader__link(getpid(), "maps", buf, sizeof(buf)), -EINVAL);
	close(pipes[0]);
	close(pipes[1]);
	close(fd);
}

/* The kernel does not return a path of more than a page. */
static void test_long_link(void **state)
{
	int before = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	char part[201] = "", buf[4096];

	memset(part, 'd', sizeof(part) - 1);
	assert_int_equal(chdir(top), 0);
	for (int i = 0; i < 21; i++)
		assert_true(!mkdir(part, 0755) && !chdir(part));
	assert_int_equal(reader__link(getpid(), "cwd", buf, sizeof(buf)), -ENAMETOOLONG);
	for (int i = 0; i < 21; i++)
		assert_true(!chdir("..") && !rmdir(part));
	assert_int_equal(fchdir(before), 0);
	close(before);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_inside), cmocka_unit_test(test_refused),
		cmocka_unit_test(test_proc),   cmocka_unit_test(test_plain),
		cmocka_unit_test(test_link),   cmocka_unit_test(test_long_link),
	};

	return cmocka_run_group_tests_name("reader_file", tests, setup, teardown);
}
