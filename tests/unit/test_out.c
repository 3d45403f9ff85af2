/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
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
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <string.h>
#include <unistd.h>

#include "util/out.h"

static char dir[64];

static const char *path(const char *name)
{
	static char p[128];

	snprintf(p, sizeof(p), "%s/%s", dir, name);
	return p;
}

/* Returns the file's text, NUL-terminated. */
static char *slurp(const char *p, size_t *size)
{
	FILE *f = fopen(p, "r");
	struct stat st;
	char *s;

	assert_non_null(f);
	assert_int_equal(fstat(fileno(f), &st), 0);
	s = calloc(1, st.st_size + 1);
	*size = fread(s, 1, st.st_size, f);
	fclose(f);
	return s;
}

/* "N text\n", so that gaps show. */
static void put_line(struct out *o, unsigned n)
{
	out_u64(o, n);
	out_lit(o, " all of this line or nothing of it\n");
	out__commit(o);
}

/* The file must have lines 0 to N without a gap and nothing else; returns N + 1. */
static unsigned count_whole(const char *s, size_t size)
{
	unsigned n = 0;
	char want[64];

	for (const char *p = s; p < s + size; n++) {
		int len = snprintf(want, sizeof(want), "%u all of this line or nothing of it\n", n);

		assert_memory_equal(p, want, len);
		p += len;
	}
	return n;
}

static void test_file(void **state)
{
	struct out *o = out__open(path("file"));
	struct stat st;
	size_t size;
	char *s;

	assert_non_null(o);
	assert_true(fcntl(o->fd, F_GETFD) & FD_CLOEXEC);
	assert_int_equal(fstat(o->fd, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	for (unsigned i = 0; i < 100000; i++)
		put_line(o, i);
	out_lit(o, "half a li");
	out__flush(o);
	out__rollback(o);
	put_line(o, 100000);
	out_lit(o, "never committed");
	assert_int_equal(out__close(o), 0);
	s = slurp(path("file"), &size);
	assert_int_equal(count_whole(s, size), 100001);
	free(s);
}

static void test_big_unit(void **state)
{
	struct out *o = out__open(path("big"));
	size_t size, n = 5 << 20;
	char *big = malloc(n), *s;

	memset(big, 'x', n);
	put_line(o, 0);
	out_bytes(o, big, n);
	out_char(o, '\n');
	out__commit(o);
	assert_int_equal(out__close(o), 0);
	s = slurp(path("big"), &size);
	assert_int_equal(size, n + 1 + strlen("0 all of this line or nothing of it\n"));
	free(s);
	free(big);
}

static void test_open_errors(void **state)
{
	assert_null(out__open(path("no/such/folder")));
	assert_null(out__open(dir));
	assert_null(out__open(""));
}

static void test_dev_full(void **state)
{
	struct out *o = out__open("/dev/full");

	assert_non_null(o);
	put_line(o, 0);
	put_line(o, 1);
	out__flush(o);
	assert_true(o->failed);
	assert_int_equal(o->error, ENOSPC);
	assert_int_equal(o->lost, 2);
	put_line(o, 2);
	assert_true(out__make_room(o, 10) < 0);
	assert_int_equal(out__close(o), -ENOSPC);
}

static void test_closed_pipe(void **state)
{
	int fds[2], saved = dup(STDOUT_FILENO), ret;
	sigset_t pending;
	struct out *o;

	fflush(stdout);
	assert_int_equal(pipe(fds), 0);
	dup2(fds[1], STDOUT_FILENO);
	close(fds[1]);
	o = out__open("-");
	dup2(saved, STDOUT_FILENO);
	close(saved);
	assert_non_null(o);
	close(fds[0]);
	/* SIGPIPE would end the test here. */
	put_line(o, 0);
	out__flush(o);
	assert_true(o->failed);
	sigpending(&pending);
	assert_false(sigismember(&pending, SIGPIPE));
	ret = out__close(o);
	assert_int_equal(ret, -EPIPE);
}

/* A pipe with a slow reader that another program made non-blocking. */
static void test_slow_pipe(void **state)
{
	int fds[2], saved = dup(STDOUT_FILENO);
	unsigned n = 0;
	struct out *o;
	char buf[8192];
	size_t got = 0;
	ssize_t ret;
	pid_t pid;

	fflush(stdout);
	assert_int_equal(pipe2(fds, O_NONBLOCK), 0);
	pid = fork();
	if (!pid) {
		dup2(fds[1], STDOUT_FILENO);
		close(fds[0]);
		o = out__open("-");
		for (n = 0; n < 20000; n++)
			put_line(o, n);
		_exit(-out__close(o));
	}
	close(saved);
	close(fds[1]);
	fcntl(fds[0], F_SETFL, 0);
	n = 0;
	while ((ret = read(fds[0], buf, sizeof(buf))) > 0) {
		for (ssize_t i = 0; i < ret; i++)
			n += buf[i] == '\n';
		got += ret;
		if (got % 5 == 0)
			usleep(100);
	}
	assert_int_equal(n, 20000);
	close(fds[0]);
}

/* Standard output that is a pipe to *end. */
static struct out *out_to_pipe(int *end)
{
	int fds[2], saved = dup(STDOUT_FILENO);
	struct out *o;

	fflush(stdout);
	assert_int_equal(pipe(fds), 0);
	dup2(fds[1], STDOUT_FILENO);
	o = out__open("-");
	dup2(saved, STDOUT_FILENO);
	close(fds[1]);
	close(saved);
	*end = fds[0];
	return o;
}

/* Closing waits for the reader, which is this process. */
static void close_beside(struct out *o, int end)
{
	if (!fork()) {
		close(end);
		_exit(-out__close(o));
	}
	/* The child goes on alone with its own. */
	close(o->fd);
	o->fd = -1;
	out__close(o);
}

/* A reader that stops reading delays nothing, its memory is limited, and it gets whole lines later.
 * Dropped lines are counted. */
static void test_stuck_pipe(void **state)
{
	enum { LINES = 1000000 };
	unsigned whole = 0, n, last = 0;
	int end;
	struct out *o = out_to_pipe(&end);
	char line[128];
	FILE *f;

	for (n = 0; n < LINES; n++)
		put_line(o, n);
	assert_true(o->stuck && out__waits(o) && !o->failed);
	assert_true(o->lost > 0 && o->lost < LINES);
	assert_true(o->cap <= 64 << 20);
	assert_string_equal(out__why(o), "the reader was too slow");
	whole = LINES - o->lost;
	close_beside(o, end);
	f = fdopen(end, "r");
	for (n = 0; fgets(line, sizeof(line), f); n++) {
		unsigned long got = strtoul(line, NULL, 10);

		assert_true(!n || got > last);
		assert_non_null(strstr(line, " all of this line or nothing of it\n"));
		last = got;
	}
	fclose(f);
	assert_int_equal(n, whole);
}

/* Units that are not lines: their length, a number, and newlines. */
static size_t unit_len(const char *p, size_t n)
{
	uint16_t len;

	if (n < sizeof(len))
		return 0;
	memcpy(&len, p, sizeof(len));
	return len;
}

static void put_unit(struct out *o, uint32_t n)
{
	uint16_t len = sizeof(len) + sizeof(n) + n % 300;

	out_bytes(o, (const char *)&len, sizeof(len));
	out_bytes(o, (const char *)&n, sizeof(n));
	for (uint32_t i = 0; i < n % 300; i++)
		out_char(o, '\n');
	out__commit(o);
}

/* Counts units, whose numbers must grow; nothing else may be there. *gaps: any were dropped. */
static unsigned count_units(const char *s, size_t size, bool *gaps)
{
	uint32_t n, last = 0;
	unsigned cnt = 0;
	uint16_t len;

	*gaps = false;
	for (size_t at = 0; at < size; at += len, cnt++) {
		len = unit_len(s + at, size - at);
		assert_true(len >= 6 && len <= size - at);
		memcpy(&n, s + at + 2, sizeof(n));
		assert_int_equal(len, 6 + n % 300);
		assert_true(!cnt || n > last);
		*gaps |= n != (cnt ? last + 1 : 0);
		last = n;
	}
	return cnt;
}

static void test_stuck_units(void **state)
{
	enum { UNITS = 300000 };
	size_t size = 0, cap = 64 << 20;
	char *got = malloc(cap);
	int end;
	struct out *o = out_to_pipe(&end);
	unsigned lost;
	ssize_t ret;
	bool gaps;

	o->unit_len = unit_len;
	for (unsigned n = 0; n < UNITS; n++)
		put_unit(o, n);
	assert_true(o->stuck && o->lost > 0 && o->lost < UNITS);
	/* Reads a little at a time: writes end anywhere. */
	for (int i = 0; i < 200; i++) {
		ret = read(end, got + size, 4096 + 7 * i);
		assert_true(ret > 0);
		size += ret;
		out__flush(o);
		put_unit(o, UNITS + i);
	}
	lost = o->lost;
	close_beside(o, end);
	while ((ret = read(end, got + size, cap - size)) > 0)
		size += ret;
	close(end);
	assert_int_equal(count_units(got, size, &gaps), UNITS + 200 - lost);
	assert_true(gaps);
	free(got);
}

/* Closing waits for the reader as long as allowed. */
static void test_impatient(void **state)
{
	int fds[2], saved = dup(STDOUT_FILENO), err = dup(STDERR_FILENO);
	struct out *o;

	fflush(stdout);
	assert_int_equal(pipe(fds), 0);
	dup2(fds[1], STDOUT_FILENO);
	o = out__open("-");
	dup2(saved, STDOUT_FILENO);
	for (unsigned n = 0; n < 10000; n++)
		put_line(o, n);
	out__flush(o);
	assert_true(out__waits(o));
	out__set_write_timeout(-1, 200);
	close(STDERR_FILENO);
	assert_int_equal(out__close(o), -ENOBUFS);
	out__set_write_timeout(-1, -1);
	dup2(err, STDERR_FILENO);
	close(err);
	close(saved);
	close(fds[0]);
	close(fds[1]);
}

/* Fills the file until it fails, makes room and writes a last line. The close must return this
 * error. */
static void fill_and_close(const char *p, int want_error)
{
	struct out *o = out__open(p);
	size_t size, last;
	unsigned i, whole;
	long cut;
	char *s;

	assert_non_null(o);
	for (i = 0; i < 400000 && !o->failed; i++)
		put_line(o, i);
	assert_true(o->failed);
	assert_int_equal(o->error, want_error);
	s = slurp(p, &size);
	whole = count_whole(s, size);
	assert_int_equal(size, o->written);
	assert_int_equal(whole + o->lost, i - (o->len != 0));
	free(s);

	cut = out__make_room(o, 500);
	assert_true(cut > 0 && cut < 20);
	put_line(o, whole - cut);
	assert_int_equal(out__close(o), -want_error);
	s = slurp(p, &last);
	assert_true(last < size);
	assert_int_equal(count_whole(s, last), whole - cut + 1);
	free(s);
}

static struct rlimit old_limit;
static int old_stderr;

/* No file may grow beyond size. stderr may be such a file, and its writers do not expect that. */
static void limit_begin(rlim_t size)
{
	struct rlimit lim;
	int null = open("/dev/null", O_WRONLY);

	old_stderr = dup(STDERR_FILENO);
	dup2(null, STDERR_FILENO);
	close(null);
	getrlimit(RLIMIT_FSIZE, &old_limit);
	lim = old_limit;
	lim.rlim_cur = size;
	setrlimit(RLIMIT_FSIZE, &lim);
}

static void limit_end(void)
{
	setrlimit(RLIMIT_FSIZE, &old_limit);
	dup2(old_stderr, STDERR_FILENO);
	close(old_stderr);
}

static void test_file_size_limit(void **state)
{
	limit_begin(3000017);
	/* SIGXFSZ would end the test here. */
	fill_and_close(path("limit"), EFBIG);
	limit_end();
}

static void test_disk_full(void **state)
{
	char p[96];

	snprintf(p, sizeof(p), "%s/mnt", dir);
	mkdir(p, 0700);
	if (mount("none", p, "tmpfs", 0, "size=2560k")) {
		print_message("cannot mount a small file system: skipped\n");
		skip();
	}
	snprintf(p, sizeof(p), "%s/mnt/full", dir);
	fill_and_close(p, ENOSPC);
	snprintf(p, sizeof(p), "%s/mnt", dir);
	umount2(p, MNT_DETACH);
}

/* The first line is the header, without which a file is useless. */
static void test_room_keeps_first(void **state)
{
	struct out *o = out__open(path("first"));
	size_t size;
	char *s;

	put_line(o, 0);
	put_line(o, 1);
	out__flush(o);
	limit_begin(80);
	put_line(o, 2);
	out__flush(o);
	limit_end();
	assert_true(o->failed);
	assert_int_equal(out__make_room(o, 37), -ENOSPC);
	assert_int_equal(out__make_room(o, 36), 1);
	put_line(o, 1);
	assert_int_equal(out__close(o), -EFBIG);
	s = slurp(path("first"), &size);
	assert_int_equal(count_whole(s, size), 2);
	free(s);
}

/* Standard output that is a non-empty file: its contents stay. */
static void test_appended_stdout(void **state)
{
	int fd = open(path("app"), O_RDWR | O_CREAT | O_TRUNC, 0600), saved = dup(STDOUT_FILENO);
	struct out *o;
	size_t size;
	char *s;

	assert_int_equal(write(fd, "before\n", 7), 7);
	fflush(stdout);
	dup2(fd, STDOUT_FILENO);
	o = out__open("-");
	dup2(saved, STDOUT_FILENO);
	close(saved);
	limit_begin(1000);
	for (unsigned i = 0; i < 100; i++)
		put_line(o, i);
	out__flush(o);
	limit_end();
	assert_true(o->failed);
	assert_int_equal(out__make_room(o, 1000), -ENOSPC);
	out__close(o);
	close(fd);
	s = slurp(path("app"), &size);
	assert_memory_equal(s, "before\n", 7);
	assert_true(count_whole(s + 7, size - 7) > 20);
	free(s);
}

/* What another program did to the file after some lines; by_write: the next write detects it, else
 * only the end does. */
static void check_gone(const char *what, bool by_write)
{
	struct out *o = out__open(path("gone"));
	char cmd[256];

	put_line(o, 0);
	out__flush(o);
	put_line(o, 1);
	out__flush(o);
	assert_false(o->failed);
	snprintf(cmd, sizeof(cmd), "cd %s; %s", dir, what);
	assert_int_equal(system(cmd), 0);
	put_line(o, 2);
	out__flush(o);
	assert_int_equal(o->failed, by_write);
	assert_int_equal(out__make_room(o, 10) < 0, by_write);
	out__finish(o);
	assert_true(o->failed && o->external_change && out__why(o) == o->external_change);
	assert_int_equal(out__close(o), -ESTALE);
}

static void test_gone(void **state)
{
	check_gone("rm gone", true);
	check_gone("rm gone; echo >gone", true);
	check_gone(": >gone", true);
	check_gone("truncate -s 71 gone", true);
	check_gone("echo x >>gone", true);
	check_gone("seq 999 >gone", true);
	check_gone("touch x; mv x gone", true);
	check_gone("mv gone away", false);
	check_gone("mv gone away; touch gone", false);
}

static int setup(void **state)
{
	strcpy(dir, "/tmp/cudatrace-out.XXXXXX");
	return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
	char cmd[96];

	snprintf(cmd, sizeof(cmd), "rm -rf %s", dir);
	return system(cmd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_file),
		cmocka_unit_test(test_big_unit),
		cmocka_unit_test(test_open_errors),
		cmocka_unit_test(test_dev_full),
		cmocka_unit_test(test_closed_pipe),
		cmocka_unit_test(test_slow_pipe),
		cmocka_unit_test(test_stuck_pipe),
		cmocka_unit_test(test_stuck_units),
		cmocka_unit_test(test_impatient),
		cmocka_unit_test(test_file_size_limit),
		cmocka_unit_test(test_disk_full),
		cmocka_unit_test(test_room_keeps_first),
		cmocka_unit_test(test_appended_stdout),
		cmocka_unit_test(test_gone),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
