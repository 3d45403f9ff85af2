/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Simulates a full disk: no file can grow beyond a size, and no messages are printed. */
#ifndef FULL_DISK_H
#define FULL_DISK_H

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

struct full_disk {
	struct rlimit old;
	int err;
};

static inline struct full_disk full_disk_begin(rlim_t size)
{
	struct full_disk d = {.err = dup(STDERR_FILENO)};
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	struct rlimit lim;

	dup2(null, STDERR_FILENO);
	close(null);
	getrlimit(RLIMIT_FSIZE, &d.old);
	lim = d.old;
	lim.rlim_cur = size;
	setrlimit(RLIMIT_FSIZE, &lim);
	return d;
}

static inline void full_disk_end(const struct full_disk *d)
{
	setrlimit(RLIMIT_FSIZE, &d->old);
	dup2(d->err, STDERR_FILENO);
	close(d->err);
}

#endif /* FULL_DISK_H */
