/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* How cudatrace-links closes links, and when it does not. */
#include "links_priv.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Maximum total time of yielding to others that create perf events. */
#define YIELD_NS 60000000000ull
/* Interval of updating links_shared.closer. */
#define LOOK_NS 100000000

static bool is_named(const char *pid, const char *name)
{
	char path[64], line[32] = "";
	struct stat st;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%.20s/comm", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	/* Any process can use the name. */
	n = fstat(fd, &st) || st.st_uid != geteuid() ? 0 : read(fd, line, sizeof(line) - 1);
	close(fd);
	return n > 0 && !strncmp(line, name, strlen(name));
}

/*
 * Creating and closing a perf event take the same lock (event_mutex), and closing holds it for 30
 * to 100 ms. On 6.1, a tracer that started while a thousand were closed needed a minute for its
 * own. So closing yields to attaching.
 */
bool links_yield(void)
{
	static uint64_t yielded_ns;
	DIR *dir = yielded_ns < YIELD_NS ? opendir("/proc") : NULL;
	bool found = false;
	struct dirent *e;

	while (dir && !found && (e = readdir(dir)))
		found = *e->d_name >= '1' && *e->d_name <= '9' &&
			is_named(e->d_name, LINKS_NAME_PERF);
	if (dir)
		closedir(dir);
	yielded_ns += found * LINKS_RETRY_MS * 1000000ull;
	return found;
}

struct closer {
	int fd;
	pthread_t thread;
	volatile pid_t tid; /* 0: not started yet */
};

static void *run(void *arg)
{
	struct closer *c = arg;

	c->tid = gettid();
	close(c->fd);
	return NULL;
}

/* Meanwhile the tracer observes that thread. */
static void join(struct closer *c, struct links_shared *shared)
{
	struct timespec until;

	do {
		shared->closer = c->tid;
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_nsec += LOOK_NS;
		until.tv_sec += until.tv_nsec / 1000000000;
		until.tv_nsec %= 1000000000;
	} while (pthread_timedjoin_np(c->thread, NULL, &until));
}

/* At the end of each link, the kernel waits for an RCU grace period of 40 to 60 ms (Linux 6.18:
 * uprobe_unregister_sync()). Links that are closed at the same time share one. */
void links_close(const int *fds, unsigned cnt, struct links_shared *shared)
{
	struct closer closers[LINKS_CLOSE_MAX];
	unsigned started = 0;

	for (; started + 1 < cnt; started++) {
		struct closer *c = &closers[started];

		*c = (struct closer){.fd = fds[started]};
		if (pthread_create(&c->thread, NULL, run, c))
			break;
	}
	for (unsigned i = started; i < cnt; i++)
		close(fds[i]);
	for (unsigned i = 0; i < started; i++)
		join(&closers[i], shared);
	shared->closer = 0;
}
