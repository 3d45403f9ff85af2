/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/spool.h"
#include "daemon/rotate.h"
#include "daemon/runner.h"
#include "util/log.h"
#include "util/out.h"
#include "util/zframe.h"

#define SEC  1000000000ull
#define LINE "{\"n\":\"0123456789012345678901234567890123456789\"}\n"

static char base[64], dir[128];

static void put_header(void *ctx, struct out *o)
{
	out_lit(o, "{\"type\":\"header\"}\n");
}

static void put_end(void *ctx, struct out *o)
{
	out_lit(o, "{\"type\":\"end\"}\n");
}

static struct rotate_opts opts(void)
{
	return (struct rotate_opts){.dir = dir,
				    .size = 1 << 20,
				    .total = 1 << 30,
				    .header = put_header,
				    .end = put_end};
}

/* Returns the number that a shell command prints. */
static long sh(const char *fmt, const char *path)
{
	char cmd[512], text[64] = "";
	FILE *f;

	snprintf(cmd, sizeof(cmd), fmt, path);
	f = popen(cmd, "r");
	assert_non_null(f);
	if (!fgets(text, sizeof(text), f))
		text[0] = '\0';
	pclose(f);
	return strtol(text, NULL, 10);
}

static struct metrics_files stats(const struct rotate *r)
{
	struct metrics_files s;

	rotate__stats(r, &s);
	return s;
}

static int setup(void **state)
{
	log_set_level(LOG_ERR);
	strcpy(base, "/tmp/cudatrace-rotate-XXXXXX");
	assert_non_null(mkdtemp(base));
	snprintf(dir, sizeof(dir), "%s/d", base);
	return 0;
}

static int teardown(void **state)
{
	sh("rm -rf %s", base);
	return 0;
}

static void files_are_whole(void **state)
{
	static const char *const count[] = {
		[COMPRESS_NONE] = "cat %s/*.jsonl | grep -c .",
		[COMPRESS_GZIP] = "gzip -dc %s/*.gz | grep -c .",
		[COMPRESS_ZSTD] = "zstd -qdc %s/*.zst | grep -c .",
	};

	for (int c = 0; c < COMPRESS_CNT; c++) {
		struct rotate_opts o = opts();
		struct rotate *r;

		o.compress = c;
		o.size = 100000;
		r = rotate__new(&o);
		assert_non_null(r);
		for (int i = 0; i < 20000; i++) {
			char line[128];
			int len = snprintf(line, sizeof(line), "{\"n\":\"%08x%08x%08x\"}\n",
					   (unsigned)rand(), (unsigned)rand(), (unsigned)rand());

			rotate__line(r, line, len, SEC);
			if (i % 1000 == 999)
				rotate__tick(r, SEC * (2 + i / 1000));
		}
		assert_int_equal(stats(r).dropped, 0);
		assert_int_equal(stats(r).lines, 20000);
		rotate__free(r, SEC);
		assert_int_equal(sh("ls %s | grep -c part", dir), 0);
		if (c == COMPRESS_ZSTD && access("/usr/bin/zstd", X_OK)) {
			sh("rm -rf %s", dir);
			continue;
		}
		/* a header and an end for each file */
		assert_int_equal(sh(count[c], dir), 20000 + 2 * sh("ls %s | wc -l", dir));
		assert_true(sh("ls %s | wc -l", dir) > 1);
		sh("rm -rf %s", dir);
	}
}

static void give(struct rotate *r, unsigned cnt)
{
	for (unsigned i = 0; i < cnt; i++)
		rotate__line(r, LINE, strlen(LINE), SEC);
}

/* Other threads may neither open a file nor end one that is full or fails. */
static void lines_of_threads(void **state)
{
	struct rotate_opts o = opts();
	bool written = true;
	struct rotate *r;

	o.size = 10 * strlen(LINE);
	r = rotate__new(&o);
	assert_false(rotate__try_line(r, LINE, strlen(LINE), SEC, &written));
	assert_false(written);
	give(r, 1);
	for (unsigned i = 0; i < 9; i++)
		assert_true(rotate__try_line(r, LINE, strlen(LINE), SEC, &written) && written);
	assert_false(rotate__try_line(r, LINE, strlen(LINE), SEC, &written));
	assert_int_equal(stats(r).lines, 10);
	give(r, 1);
	assert_int_equal(stats(r).files, 1);
	assert_int_equal(stats(r).lines, 11);
	rotate__free(r, SEC);
	assert_int_equal(sh("cat %s/*.jsonl | wc -l", dir), 11 + 2 * 2);
	sh("rm -rf %s", dir);
	/* No file can be opened, and it is too early for a retry: lines are dropped. */
	sh("touch %s", dir);
	r = rotate__new(&o);
	give(r, 1);
	written = true;
	assert_true(rotate__try_line(r, LINE, strlen(LINE), SEC, &written) && !written);
	assert_int_equal(stats(r).dropped, 2);
	assert_false(rotate__try_line(r, LINE, strlen(LINE), 20 * SEC, &written));
	rotate__free(r, SEC);
}

/* Frames and lines in turn; no frames where they do not fit. */
static void frames(void **state)
{
	static char text[100 * sizeof(LINE)], frame[sizeof(text)];
	struct rotate_opts o = opts();
	struct zframe *z = zframe__new();
	size_t len = 0, n;
	struct rotate *r;

	if (access("/usr/bin/zstd", X_OK))
		skip();
	while (len < 100 * strlen(LINE))
		len += sprintf(text + len, LINE);
	n = zframe__make(z, text, len, frame, sizeof(frame));
	assert_true(n > 0);
	assert_int_equal(zframe__make(z, text, len, frame, n - 1), 0);
	n = zframe__make(z, text, len, frame, sizeof(frame));
	r = rotate__new(&o);
	give(r, 1);
	/* That file is not compressed. */
	assert_false(rotate__try_frame(r, frame, n, len, 100));
	o.compress = COMPRESS_ZSTD;
	o.size = 64 << 10;
	rotate__reload(r, &o, SEC);
	sh("rm -rf %s/*", dir);
	assert_false(rotate__try_frame(r, frame, n, len, 100));
	for (unsigned i = 0; i < 5; i++) {
		give(r, 3);
		assert_true(rotate__try_frame(r, frame, n, len, 100));
		rotate__tick(r, SEC * (2 + i));
		assert_int_equal(sh("zstd -qdc %s/*.part 2>&1 | wc -l", dir), 1 + 103 * (i + 1));
	}
	assert_false(rotate__try_frame(r, frame, 1 << 20, len, 100));
	assert_int_equal(stats(r).lines, 1 + 5 * 103);
	rotate__free(r, SEC);
	assert_int_equal(sh("zstd -qdc %s/*.zst | wc -l", dir), 5 * 103 + 2);
	zframe__free(z);
}

static void age(void **state)
{
	struct rotate_opts o = opts();
	struct rotate *r;

	o.age_ns = 60 * SEC;
	r = rotate__new(&o);
	rotate__line(r, LINE, strlen(LINE), SEC);
	rotate__tick(r, 60 * SEC);
	assert_int_equal(stats(r).files, 0);
	rotate__tick(r, 61 * SEC);
	assert_int_equal(stats(r).files, 1);
	/* no lines: no file */
	rotate__tick(r, 200 * SEC);
	assert_int_equal(stats(r).files, 1);
	rotate__free(r, 200 * SEC);
	assert_int_equal(sh("ls %s | wc -l", dir), 1);
}

static void never_more_than_total(void **state)
{
	struct rotate_opts o = opts();
	struct rotate *r;

	o.size = 200000;
	o.total = 1000000;
	r = rotate__new(&o);
	for (int i = 0; i < 200000; i++) {
		rotate__line(r, LINE, strlen(LINE), SEC);
		if (i % 2000)
			continue;
		rotate__tick(r, SEC * (2 + i));
		assert_true(sh("cat %s/* | wc -c", dir) <= 1000000);
	}
	assert_int_equal(stats(r).dropped, 0);
	assert_true(stats(r).removed > 10);
	rotate__free(r, SEC);
	assert_true(sh("cat %s/* | wc -c", dir) <= 1000000);
}

/* Waits for the command, which tick starts and checks. */
static void wait_taken(struct rotate *r, uint64_t *now, uint64_t taken, uint64_t failed)
{
	for (int i = 0; i < 2000 && (stats(r).taken < taken || stats(r).failed < failed); i++) {
		rotate__tick(r, *now += SEC / 10);
		usleep(2000);
	}
	assert_int_equal(stats(r).taken, taken);
	assert_int_equal(stats(r).failed, failed);
}

static void what_to_run(void *cmd, struct runner_what *what)
{
	free(what->command);
	what->command = strdup(cmd);
	if (!what->folder && asprintf(&what->folder, "%s/" ROTATE_PENDING, dir) < 0)
		what->folder = NULL;
}

static void command_takes_files(void **state)
{
	struct rotate_opts o = opts();
	struct runner *runner;
	uint64_t now = SEC;
	char cmd[256];
	struct rotate *r;

	snprintf(cmd, sizeof(cmd), "test -e %s/go && cp \"$1\" %s/", base, base);
	runner = runner__new(what_to_run, cmd);
	assert_non_null(runner);
	o.on_rotate = cmd;
	o.runner = runner;
	o.size = 25000;
	o.total = 200000;
	r = rotate__new(&o);
	for (int i = 0; i < 750; i++)
		rotate__line(r, LINE, strlen(LINE), now);
	rotate__finish_file(r, now);
	assert_int_equal(stats(r).files, 2);
	wait_taken(r, &now, 0, 2);
	assert_int_equal(sh("ls %s/pending | wc -l", dir), 2);
	/* Files that the command did not handle stay: new lines are dropped. */
	for (int i = 0; i < 10000; i++)
		rotate__line(r, LINE, strlen(LINE), now);
	assert_true(stats(r).dropped > 5000);
	assert_int_equal(stats(r).removed, 0);
	assert_true(sh("cat %s/pending/* | wc -c", dir) <= 200000);
	sh("touch %s/go", base);
	wait_taken(r, &now, stats(r).files, stats(r).failed);
	assert_int_equal(sh("ls %s/pending | wc -l", dir), 0);
	assert_int_equal(sh("ls %s/*.jsonl | wc -l", base), stats(r).files);
	/* Waiting files are kept after the command is gone. */
	sh("rm %s/go", base);
	rotate__line(r, LINE, strlen(LINE), now += 20 * SEC);
	rotate__finish_file(r, now);
	assert_int_equal(sh("ls %s/pending | wc -l", dir), 1);
	o.on_rotate = NULL;
	rotate__reload(r, &o, now);
	rotate__line(r, LINE, strlen(LINE), now);
	assert_int_equal(sh("ls %s/pending | wc -l", dir), 0);
	rotate__line(r, LINE, strlen(LINE), now += 20 * SEC);
	assert_null(stats(r).error);
	rotate__free(r, now);
	runner__free(runner);
}

/* Only the name of a file in the folder is accepted. */
static void runner_runs_one_command(void **state)
{
	struct runner *runner;
	char cmd[256];
	int status = 0;

	sh("mkdir -p %s/pending", dir);
	sh("echo >%s/pending/a", dir);
	sh("echo >%s/b", base);
	snprintf(cmd, sizeof(cmd), "echo $1 >>%s/got; cat $1", base);
	runner = runner__new(what_to_run, cmd);
	assert_non_null(runner);
	assert_true(runner__start(runner, "a"));
	while (!runner__ended(runner, &status))
		usleep(1000);
	assert_int_equal(status, 0);
	assert_true(runner__start(runner, "../../b"));
	while (!runner__ended(runner, &status))
		usleep(1000);
	assert_int_equal(WEXITSTATUS(status), 127);
	assert_int_equal(sh("cat %s/got | wc -l", base), 1);
	runner__free(runner);
}

/* More reloads than fit into the socket while a command runs are no failure. */
static void runner_reloads_often(void **state)
{
	struct runner *runner;
	int status = 0;

	sh("mkdir -p %s/pending", dir);
	sh("echo >%s/pending/a", dir);
	runner = runner__new(what_to_run, "sleep 0.3");
	assert_non_null(runner);
	for (unsigned i = 0; i < 2; i++) {
		assert_true(runner__start(runner, "a"));
		for (unsigned k = 0; k < 3000 * !i; k++)
			runner__reload(runner);
		while (!runner__ended(runner, &status))
			usleep(1000);
		assert_int_equal(status, 0);
		/* It reads the queued ones. */
		usleep(200000);
	}
	runner__free(runner);
}

/* A user who can replace a file of that name decides what the command gets. */
static void command_needs_own_folder(void **state)
{
	static const char *const bad[] = {"chmod 777 %s", "chmod 775 %s", "chown 12345 %s",
					  "chmod 1777 %s/pending", "chown 12345 %s/pending"};
	struct rotate_opts o = opts();
	struct runner *runner;
	struct rotate *r;

	if (geteuid())
		skip();
	runner = runner__new(what_to_run, "exit 0");
	o.on_rotate = "exit 0";
	o.runner = runner;
	sh("mkdir -p %s/pending", dir);
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		sh("chmod 755 %s", dir);
		sh("chown 0 %s", dir);
		sh(bad[i], dir);
		r = rotate__new(&o);
		rotate__line(r, LINE, strlen(LINE), 20 * SEC);
		assert_non_null(stats(r).error);
		assert_string_equal(stats(r).error, "Operation not permitted");
		assert_int_equal(stats(r).lines, 0);
		rotate__free(r, 20 * SEC);
	}
	sh("chmod 755 %s/pending", dir);
	sh("chown 0 %s/pending", dir);
	sh("chmod 1777 %s", dir);
	r = rotate__new(&o);
	rotate__line(r, LINE, strlen(LINE), 20 * SEC);
	assert_null(stats(r).error);
	rotate__free(r, 20 * SEC);
	runner__free(runner);
}

/* A user who can replace the directory or a link to it decides which files are removed. */
static void folder_of_another_user(void **state)
{
	static const char *const bad[] = {"chmod 777 %s", "chown 12345 %s", "chown 12345 %s/..",
					  "chown -h 12345 %s-link"};
	struct rotate_opts o = opts();
	char link[256];
	struct rotate *r;

	if (geteuid())
		skip();
	snprintf(link, sizeof(link), "%s-link", dir);
	o.dir = link;
	for (unsigned i = 0; i <= sizeof(bad) / sizeof(bad[0]); i++) {
		sh("mkdir -p %s", dir);
		sh("rm -f %s-link", dir);
		assert_int_equal(symlink(dir, link), 0);
		sh("chmod 755 %s", dir);
		sh("chown 0 %s/.. ", dir);
		sh("chown 0 %s", dir);
		if (i < sizeof(bad) / sizeof(bad[0]))
			sh(bad[i], dir);
		r = rotate__new(&o);
		rotate__line(r, LINE, strlen(LINE), 20 * SEC);
		if (i < sizeof(bad) / sizeof(bad[0]))
			assert_string_equal(stats(r).error, "Operation not permitted");
		else
			assert_null(stats(r).error);
		rotate__free(r, 20 * SEC);
	}
}

static void folder_goes_away(void **state)
{
	struct rotate_opts o = opts();
	struct rotate *r = rotate__new(&o);

	rotate__line(r, LINE, strlen(LINE), SEC);
	sh("rm -rf %s", dir);
	rotate__tick(r, 3 * SEC);
	assert_int_equal(stats(r).dropped, 1);
	rotate__line(r, LINE, strlen(LINE), 4 * SEC);
	assert_null(stats(r).error);
	rotate__free(r, 5 * SEC);
	assert_int_equal(sh("cat %s/*.jsonl | grep -c .", dir), 3);
}

/* Another program deletes or truncates the current file: its lines count as dropped, and new lines
 * go to another file. */
static void test_file_gone(void **state)
{
	static const char *const how[] = {"rm %s/*.part", "truncate -s 0 %s/*.part",
					  "truncate -s 10 %s/*.part"};

	for (int i = 0; i < 12; i++) {
		struct rotate_opts o = opts();
		uint64_t now = SEC;
		struct rotate *r;

		o.compress = i / 3 % 2 ? COMPRESS_ZSTD : COMPRESS_NONE;
		r = rotate__new(&o);
		give(r, 100);
		rotate__tick(r, now += 20 * SEC);
		sh(how[i % 3], dir);
		give(r, 10);
		if (i < 6)
			rotate__tick(r, now += 20 * SEC);
		else
			rotate__finish_file(r, now);
		assert_int_equal(stats(r).dropped, 110);
		sh("rm -f %s/*.part", dir);
		rotate__line(r, LINE, strlen(LINE), now += 20 * SEC);
		rotate__free(r, now);
		assert_int_equal(sh("ls %s | wc -l", dir), 1);
		sh("rm -rf %s", dir);
	}
}

static void what_a_dead_daemon_left(void **state)
{
	struct rotate_opts o = opts();
	struct rotate *r;

	sh("mkdir %s", dir);
	sh("echo '{}' > %s/trace-20260101T000000Z-000007.jsonl.part", dir);
	r = rotate__new(&o);
	rotate__free(r, SEC);
	assert_int_equal(access(dir, F_OK), 0);
	assert_int_equal(sh("ls %s/trace-20260101T000000Z-000007.jsonl | wc -l", dir), 1);
}

/* A name later than now: the clock was wrong, or went back. */
static void clock_goes_back(void **state)
{
	struct rotate_opts o = opts();
	char stamp[ROTATE_STAMP_SZ];
	struct rotate *r;

	o.size = 50000;
	o.total = 300000;
	sh("mkdir %s", dir);
	sh("echo '{}' > %s/trace-20991231T235959Z-000041.jsonl", dir);
	sh("echo '{}' > %s/dump-20990101T000000Z-000001.jsonl.zst", dir);
	sh("echo '{}' > %s/mine.jsonl", dir);
	r = rotate__new(&o);
	rotate__line(r, LINE, strlen(LINE), SEC);
	rotate__finish_file(r, SEC);
	assert_int_equal(sh("ls %s | grep -c trace-20991231T235959Z-000042", dir), 1);
	/* A dump gets the next stamp, before the next file. */
	rotate__next_stamp(r, stamp);
	assert_string_equal(stamp, "20991231T235959Z-000043");
	for (int i = 0; i < 10000; i++)
		rotate__line(r, LINE, strlen(LINE), SEC);
	rotate__free(r, SEC);
	/* The dump is the oldest, then those two; the last ones are still there. */
	assert_int_equal(sh("ls %s | grep -c '^dump\\|-00004[12]'", dir), 0);
	assert_true(sh("ls %s/trace-* | wc -l", dir) >= 3);
	assert_int_equal(sh("ls %s | grep -c mine", dir), 1);
}

static void room_for_another(void **state)
{
	struct rotate_opts o = opts();
	uint64_t removed;
	struct rotate *r;
	long left;

	o.size = 50000;
	o.total = 300000;
	r = rotate__new(&o);
	for (int i = 0; i < 10000; i++)
		rotate__line(r, LINE, strlen(LINE), SEC);
	rotate__tick(r, 3 * SEC);
	assert_int_equal(rotate__make_room(r, 150000, SEC), 0);
	assert_true(sh("cat %s/* | wc -c", dir) <= 150000);
	/* A request that cannot fit removes nothing. */
	left = sh("ls %s/trace-*l | wc -l", dir);
	removed = stats(r).removed;
	assert_true(left >= 1);
	assert_int_equal(rotate__make_room(r, 290000, SEC), -EDQUOT);
	assert_int_equal(sh("ls %s/trace-*l | wc -l", dir), left);
	assert_int_equal(stats(r).removed, removed);
	rotate__free(r, SEC);
}

static void names_of_dumps(void **state)
{
	char name[80];

	assert_int_equal(spool_dump_name_len("mine"), 4);
	assert_int_equal(spool_dump_name_len("mine.zst"), 4);
	assert_int_equal(spool_dump_name_len("mine.jsonl.zst"), 4);
	assert_int_equal(spool_dump_name_len("a.b_c-9.jsonl"), 7);
	assert_int_equal(spool_dump_name_len(""), -1);
	assert_int_equal(spool_dump_name_len("a/b"), -1);
	assert_int_equal(spool_dump_name_len("a b"), -1);
	assert_int_equal(spool_dump_name_len("\xc2\x9b"), -1);
	memset(name, 'x', sizeof(name));
	name[SPOOL_DUMP_NAME_MAX] = '\0';
	assert_int_equal(spool_dump_name_len(name), SPOOL_DUMP_NAME_MAX);
	name[SPOOL_DUMP_NAME_MAX] = 'x';
	name[SPOOL_DUMP_NAME_MAX + 1] = '\0';
	assert_int_equal(spool_dump_name_len(name), -1);
	/* Its suffix counts as part of the stamp. */
	assert_string_equal(spool_stamp("dump-20260101T000000Z-000001-mine.jsonl.zst"),
			    "20260101T000000Z-000001-mine.jsonl.zst");
}

static void full_disk(void **state)
{
	struct rotate_opts o = opts();
	uint64_t now = SEC;
	struct rotate *r;

	assert_int_equal(mkdir(dir, 0700), 0);
	if (mount("none", dir, "tmpfs", 0, "size=64k"))
		skip();
	r = rotate__new(&o);
	for (int i = 0; i < 20000; i++)
		rotate__line(r, LINE, strlen(LINE), now);
	rotate__tick(r, now += 2 * SEC);
	assert_true(stats(r).dropped > 0);
	assert_non_null(stats(r).error);
	sh("rm -f %s/*.jsonl", dir);
	rotate__line(r, LINE, strlen(LINE), now += 20 * SEC);
	assert_null(stats(r).error);
	rotate__free(r, now);
	assert_int_equal(sh("cat %s/*.jsonl | grep -c .", dir), 3);
	umount(dir);
}

/* Adds cnt frames of 100 lines, and lines between them; without z, lines alone within a second.
 * Returns the number of lines. */
static unsigned give_mixed(struct rotate *r, struct zframe *z, unsigned cnt, uint64_t now)
{
	static char text[8192], frame[8192];
	bool written;
	char line[64];

	for (unsigned i = 0; i < cnt; i++) {
		size_t len = 0, n;

		for (int k = 0; k < 100; k++)
			len += sprintf(text + len, "{\"n\":\"%08x%08x%08x\"}\n", (unsigned)rand(),
				       (unsigned)rand(), (unsigned)rand());
		n = z ? zframe__make(z, text, len, frame, sizeof(frame)) : 0;
		if (!n || !rotate__try_frame(r, frame, n, len, 100))
			for (char *p = text; p < text + len; p = strchr(p, '\n') + 1)
				rotate__line(r, p, strchr(p, '\n') + 1 - p, now);
		n = sprintf(line, "{\"n\":%d}\n", rand());
		if (!rotate__try_line(r, line, n, now, &written))
			rotate__line(r, line, n, now);
		/* Now and then, as a second passes. */
		if (z && i % 7 == 6)
			rotate__tick(r, now + 2 * SEC + i);
	}
	return cnt * 101;
}

/* Each line is in a file that can be read to its end, or counted as dropped. */
static void full_disk_counts(void **state)
{
	static const char *const read[] = {
		[COMPRESS_NONE] = "cat %s/*.jsonl | grep '^{.*}$' | grep -c '\"n\"'",
		[COMPRESS_GZIP] = "gzip -dc %s/*.gz | grep -c '\"n\"'",
		[COMPRESS_ZSTD] = "zstd -qdc %s/*.zst | grep -c '\"n\"'",
	};
	static const char *const bad[] = {
		[COMPRESS_NONE] = "cat %s/*.jsonl | grep -vc '^{.*}$'",
		[COMPRESS_GZIP] = "gzip -t %s/*.gz >&2; echo $?",
		[COMPRESS_ZSTD] = "zstd -qt %s/*.zst >&2; echo $?",
	};
	struct zframe *z = zframe__new();

	if (access("/usr/bin/zstd", X_OK))
		skip();
	assert_int_equal(mkdir(dir, 0700), 0);
	for (unsigned i = 0; i < 4 * COMPRESS_CNT; i++) {
		struct rotate_opts o = opts();
		struct zframe *frames = i / COMPRESS_CNT % 2 ? z : NULL;
		unsigned given, readable;
		uint64_t now = SEC;
		struct rotate *r;
		char size[64];

		snprintf(size, sizeof(size), "size=%uk", 300 + 32 * (i / COMPRESS_CNT));
		if (mount("none", dir, "tmpfs", 0, size))
			skip();
		o.compress = i % COMPRESS_CNT;
		sh("head -c 100000 /dev/zero >%s/ballast", dir);
		r = rotate__new(&o);
		given = give_mixed(r, frames, 300, now);
		assert_true(stats(r).dropped > 0);
		/* There is room again. */
		sh("rm %s/ballast", dir);
		given += give_mixed(r, frames, 10, now += 20 * SEC);
		rotate__finish_file(r, now);
		readable = sh(read[o.compress], dir);
		/* Most of the lines that fit are in the file, too. */
		assert_true(readable > 2500);
		assert_int_equal(readable + stats(r).dropped, given);
		assert_int_equal(sh(bad[o.compress], dir), 0);
		rotate__free(r, now);
		umount(dir);
	}
	zframe__free(z);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(files_are_whole, setup, teardown),
		cmocka_unit_test_setup_teardown(lines_of_threads, setup, teardown),
		cmocka_unit_test_setup_teardown(frames, setup, teardown),
		cmocka_unit_test_setup_teardown(age, setup, teardown),
		cmocka_unit_test_setup_teardown(never_more_than_total, setup, teardown),
		cmocka_unit_test_setup_teardown(command_takes_files, setup, teardown),
		cmocka_unit_test_setup_teardown(runner_runs_one_command, setup, teardown),
		cmocka_unit_test_setup_teardown(runner_reloads_often, setup, teardown),
		cmocka_unit_test_setup_teardown(command_needs_own_folder, setup, teardown),
		cmocka_unit_test_setup_teardown(folder_of_another_user, setup, teardown),
		cmocka_unit_test_setup_teardown(folder_goes_away, setup, teardown),
		cmocka_unit_test_setup_teardown(test_file_gone, setup, teardown),
		cmocka_unit_test_setup_teardown(what_a_dead_daemon_left, setup, teardown),
		cmocka_unit_test_setup_teardown(clock_goes_back, setup, teardown),
		cmocka_unit_test_setup_teardown(room_for_another, setup, teardown),
		cmocka_unit_test(names_of_dumps),
		cmocka_unit_test_setup_teardown(full_disk, setup, teardown),
		cmocka_unit_test_setup_teardown(full_disk_counts, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
