/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "child.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

void child_begin(int sock, const char *name)
{
	int nowhere;

	if (dup2(sock, CHILD_SOCK) < 0 || syscall(SYS_close_range, CHILD_SOCK + 1u, ~0u, 0u))
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
