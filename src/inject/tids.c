/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Resolves the thread that a record names. */
#include "inject_priv.h"

#include "util/time_budget.h"

#include <dirent.h>
#include <errno.h>
#include <linux/nsfs.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Linux 6.11: the namespace of a pidfd's process, and our number of a task there. */
#define GET_PID_NS _IO(0xff, 5)
#ifndef NS_GET_PID_FROM_PIDNS
#define NS_GET_PID_FROM_PIDNS _IOR(NSIO, 0x6, int)
#endif

uint32_t innermost_id(const char *path)
{
	char line[512];
	uint32_t id = 0;
	FILE *f = fopen(path, "re");

	while (f && fgets(line, sizeof(line), f)) {
		if (strncmp(line, "NSpid:", 6))
			continue;
		id = strtoul(strrchr(line, '\t') + 1, NULL, 10);
		break;
	}
	if (f)
		fclose(f);
	return id;
}

uint32_t tid_search(pid_t pid, uint32_t inner)
{
	char path[80];
	uint32_t tid = 0;
	struct dirent *d;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	dir = opendir(path);
	while (dir && time_budget__has_time() && (d = readdir(dir))) {
		if (d->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/proc/%d/task/%.20s/status", pid, d->d_name);
		if (innermost_id(path) != inner)
			continue;
		tid = strtoul(d->d_name, NULL, 10);
		break;
	}
	if (dir)
		closedir(dir);
	return tid;
}

static bool is_thread_of(pid_t pid, uint32_t tid)
{
	return !syscall(SYS_tgkill, pid, tid, 0) || errno == EPERM;
}

/* Queries the kernel. -ENOTTY: not supported by it. 0: no such thread. */
static int query_kernel(struct client *p, uint32_t inner)
{
	int tid;

	if (p->ns_fd == -1)
		p->ns_fd = ioctl(p->pidfd, GET_PID_NS, 0);
	if (p->ns_fd < 0) {
		p->ns_fd = -2;
		return -ENOTTY;
	}
	tid = ioctl(p->ns_fd, NS_GET_PID_FROM_PIDNS, (int)inner);
	if (tid < 0)
		return errno == ESRCH ? 0 : -ENOTTY;
	return is_thread_of(p->pid, tid) ? tid : 0;
}

static uint32_t find_tid(struct client *p, uint32_t inner)
{
	int tid = query_kernel(p, inner);
	struct work w;

	if (tid == -ENOTTY && !time_budget__begin(&w, p->uid, WORK_TASKS)) {
		tid = tid_search(p->pid, inner);
		time_budget__end(&w);
	}
	return tid > 0 ? (uint32_t)tid : (uint32_t)p->pid;
}

uint32_t own_tid(struct client *p, uint32_t inner)
{
	char path[32];

	if (p->other_ns)
		return find_tid(p, inner);
	if (inner == (uint32_t)p->pid || is_thread_of(p->pid, inner))
		return inner;
	snprintf(path, sizeof(path), "/proc/%u", inner);
	return inner && access(path, F_OK) ? inner : (uint32_t)p->pid;
}
