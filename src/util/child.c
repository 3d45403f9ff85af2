/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "child.h"

#include <fcntl.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool close_between(unsigned first, unsigned last)
{
	return first > last || !syscall(SYS_close_range, first, last, 0u);
}

void child_begin(int sock, const char *name)
{
	child_begin_with(sock, name, (int[]){-1, -1});
}

void child_begin_with(int sock, const char *name, const int keep[2])
{
	int low = keep[0] < keep[1] ? keep[0] : keep[1];
	int high = keep[0] < keep[1] ? keep[1] : keep[0], nowhere;

	if (low <= CHILD_SOCK)
		low = CHILD_SOCK;
	if (high <= low)
		high = low;
	if (dup2(sock, CHILD_SOCK) < 0 || !close_between(CHILD_SOCK + 1u, low - 1u) ||
	    !close_between(low + 1u, high - 1u) || !close_between(high + 1u, ~0u))
		_exit(1);
	for (int fd = 0; fd < CHILD_SOCK; fd++)
		close(fd);
	nowhere = open("/dev/null", O_RDWR);
	/* A container may have no /dev. */
	if (nowhere < 0)
		nowhere = memfd_create("nowhere", 0);
	if (nowhere != 0 || dup(0) != 1 || dup(0) != 2)
		_exit(1);
	setsid();
	prctl(PR_SET_NAME, name);
}
