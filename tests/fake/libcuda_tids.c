/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Counts the calls that each thread entered, and those that returned: FAKE_TID_COUNTS=FILE. The
 * file is mapped and shared by all processes, so it is correct even if one is killed in a call.
 * tests/cases/per_thread.py reads it.
 */
#include "libcuda_tids.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ROWS_MAX 65535

struct tid_file {
	_Atomic uint64_t row_cnt; /* may exceed the capacity */
	uint64_t unused[2];
	struct tid_count rows[ROWS_MAX];
};

static struct tid_file *file;
static __thread struct tid_count *mine;

void tids_open(void)
{
	const char *name = getenv("FAKE_TID_COUNTS");
	int fd;

	if (!name || !*name)
		return;
	fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	if (fd >= 0 && !ftruncate(fd, sizeof(*file)))
		file = mmap(NULL, sizeof(*file), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (fd < 0 || !file || file == MAP_FAILED) {
		fprintf(stderr, "fake libcuda: cannot write %s: %s\n", name, strerror(errno));
		_exit(1);
	}
	close(fd);
}

bool tids_wanted(void)
{
	return file;
}

void tids_after_fork(void)
{
	mine = NULL;
}

struct tid_count *tids_mine(void)
{
	uint64_t n;

	if (mine || !file)
		return mine;
	n = file->row_cnt++;
	if (n >= ROWS_MAX)
		return NULL;
	mine = &file->rows[n];
	mine->pid = getpid();
	mine->tid = gettid();
	return mine;
}
