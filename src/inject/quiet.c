/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Detects seccomp filters that a process installs later: the library then makes no system call. */
#include "inject_priv.h"

#include <stdio.h>
#include <string.h>

#define LOOK_NS 1000000000ull

/* Linux 5.9 and later report the number of filters; before, only whether there is one. */
unsigned inject__filters(pid_t pid)
{
	unsigned cnt = 0, mode = 0;
	char path[64], line[256];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "Seccomp:\t%u", &mode) == 1)
			cnt = mode == 2;
		else if (sscanf(line, "Seccomp_filters:\t%u", &cnt) == 1)
			break;
	}
	if (f)
		fclose(f);
	return cnt;
}

void quiet__look(struct inject *in, uint64_t now)
{
	if (now - in->quiet_ns < LOOK_NS)
		return;
	in->quiet_ns = now;
	for (unsigned i = 0; i < in->client_cnt; i++) {
		struct client *p = in->clients[i];

		if (p->pidfd >= 0 && p->shm.mem && !p->shm.mem->quiet &&
		    inject__filters(p->pid) > p->filters)
			__atomic_store_n(&p->shm.mem->quiet, 1, __ATOMIC_RELAXED);
	}
}
