/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A thread that adds events to a worker pool wakes exactly as many threads as the work needs. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "factory.h"
#include "sink/delivery/workers.h"
#include "sink/delivery/items.h"
#include "sink/sink.h"
#include "util/out.h"

/* A woken thread comes sooner. */
#define TIMEOUT_S 20
#define LINE_SZ	  400

static const struct timespec ms = {0, 1000000};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static pthread_t first;
static unsigned threads, wanted, lines, allowed;
static char path[64];

/* Called with the lock held. false: nothing changed in that time. */
static bool wait_change(void)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += TIMEOUT_S;
	return !pthread_cond_timedwait(&changed, &lock, &until);
}

/* After some lines it waits until so many threads do this. */
static void word(struct sink *s, const struct trace_event *ev)
{
	static const char line[LINE_SZ] = {[LINE_SZ - 1] = '\n'};

	pthread_mutex_lock(&lock);
	if (!threads)
		first = pthread_self();
	if (!threads || (threads == 1 && !pthread_equal(first, pthread_self())))
		threads++;
	lines++;
	pthread_cond_broadcast(&changed);
	while (lines > allowed && threads < wanted && wait_change())
		;
	pthread_mutex_unlock(&lock);
	out_bytes(s->out, line, sizeof(line));
	out__commit(s->out);
}

static int cloned(struct sink *s)
{
	return 0;
}

static bool all_others_sleep(void)
{
	DIR *tasks = opendir("/proc/self/task");
	bool sleep = true;
	struct dirent *e;

	assert_non_null(tasks);
	while ((e = readdir(tasks))) {
		char stat[300], state = 'R';
		FILE *f;

		if (atoi(e->d_name) == getpid() || !atoi(e->d_name))
			continue;
		snprintf(stat, sizeof(stat), "/proc/self/task/%s/stat", e->d_name);
		f = fopen(stat, "re");
		assert_non_null(f);
		assert_int_equal(fscanf(f, "%*d (%*[^)]) %c", &state), 1);
		fclose(f);
		sleep &= state == 'S';
	}
	closedir(tasks);
	return sleep;
}

static struct sink *begin(unsigned want)
{
	static const struct sink_ops ops = {
		.size = sizeof(struct sink), .event = word, .cloned = cloned};
	struct sink *s = calloc(1, sizeof(*s));

	assert_non_null(s);
	s->ops = &ops;
	s->out = out__open(path);
	assert_non_null(s->out);
	threads = lines = allowed = 0;
	wanted = want;
	s->workers = workers__new(s, 2, false);
	assert_non_null(s->workers);
	for (int i = 0; !all_others_sleep() && i < TIMEOUT_S * 1000; i++)
		nanosleep(&ms, NULL);
	return s;
}

static void finish(struct sink *s)
{
	workers__free(s->workers);
	out__close(s->out);
	free(s);
}

/* More than fits one batch, but less than two. */
#define BATCH (ITEMS_SZ / offsetof(struct trace_event, size) + 1)

static void give_batch(struct workers *c)
{
	struct trace_event ev = {.kind = EVENT_CALL,
				 .type = TYPE_SYNC,
				 .fn = api_fn_by_symbol("cuCtxSynchronize"),
				 .comm = "comm",
				 .start_ns = FACTORY_BASE_NS};

	for (unsigned i = 0; i < BATCH; i++)
		workers__event(c, &ev, NULL);
}

/* The first thread, woken by the caller, has more work than it takes: it wakes the second. */
static void test_second(void **state)
{
	struct sink *s = begin(2);

	for (int i = 0; i < 3; i++)
		give_batch(s->workers);
	pthread_mutex_lock(&lock);
	allowed = BATCH;
	pthread_cond_broadcast(&changed);
	while (threads < 2 && wait_change())
		;
	assert_int_equal(threads, 2);
	pthread_mutex_unlock(&lock);
	finish(s);
}

static void *read_all(void *fd)
{
	char buf[65536];

	while (read(*(int *)fd, buf, sizeof(buf)) > 0)
		;
	return NULL;
}

/* A writing thread does nothing else while the disk is slow: new work wakes another. */
static void test_slow_disk(void **state)
{
	struct sink *s = begin(0);
	unsigned before;
	pthread_t reader;
	int fds[2], waits = 0;

	assert_int_equal(pipe(fds), 0);
	assert_true(dup2(fds[1], s->out->fd) >= 0);
	close(fds[1]);
	give_batch(s->workers);
	/* Until it is full. */
	for (int i = 0; waits < 65536 && i < TIMEOUT_S * 1000; i++) {
		nanosleep(&ms, NULL);
		assert_int_equal(ioctl(fds[0], FIONREAD, &waits), 0);
	}
	assert_int_equal(waits, 65536);
	pthread_mutex_lock(&lock);
	before = lines;
	pthread_mutex_unlock(&lock);
	give_batch(s->workers);
	pthread_mutex_lock(&lock);
	while (lines == before && wait_change())
		;
	assert_true(lines > before);
	pthread_mutex_unlock(&lock);
	assert_int_equal(pthread_create(&reader, NULL, read_all, &fds[0]), 0);
	finish(s);
	pthread_join(reader, NULL);
	close(fds[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_second),
		cmocka_unit_test(test_slow_disk),
	};
	int fd, ret;

	snprintf(path, sizeof(path), "/tmp/cudatrace-test-workers-wake.XXXXXX");
	fd = mkstemp(path);
	if (fd < 0)
		return 1;
	close(fd);
	ret = cmocka_run_group_tests(tests, NULL, NULL);
	unlink(path);
	return ret;
}
