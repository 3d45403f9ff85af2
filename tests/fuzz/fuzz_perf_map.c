// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* /tmp/perf-PID.map: a program's own text about its own code, which it may change as it is read. */
#include "fuzz.h"

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "model/perf_map.h"

static char path[64];

static void remove_file(void)
{
	unlink(path);
}

static int open_file(void)
{
	int fd;

	snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	assert(fd >= 0);
	atexit(remove_file);
	return fd;
}

static void find(struct perf_map *m, uint64_t addr)
{
	const char *name;
	uint64_t start;

	name = perf_map__find(m, addr, &start);
	assert(!name || (*name && start <= addr));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t half = size ? data[0] * size / 256 : 0;
	static int fd = -1;
	struct perf_map *m;

	if (fd < 0)
		fd = open_file();
	m = perf_map__new(getpid(), NULL);
	assert(m && !ftruncate(fd, 0) && pwrite(fd, data, half, 0) == (ssize_t)half);
	find(m, 0x1000);
	/* The program has added to it. */
	assert(pwrite(fd, data + half, size - half, half) == (ssize_t)(size - half));
	find(m, 0x1000);
	find(m, 0xffffffffffffffff);
	find(m, 0);
	perf_map__free(m);
	return 0;
}
