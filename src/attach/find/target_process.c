/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Facts about a process from /proc. */
#include "target.h"
#include "util/reader.h"

#include <ctype.h>
#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* include/linux/proc_ns.h: the initial PID namespace, on every machine */
#define PROC_PID_INIT_INO 0xEFFFFFFCU

uint32_t target_own_pidns(void)
{
	struct stat st;

	if (stat("/proc/self/ns/pid", &st) || st.st_ino == PROC_PID_INIT_INO)
		return 0;
	return st.st_ino;
}

bool target_exists(pid_t pid)
{
	return pid > 0 && (!kill(pid, 0) || errno == EPERM);
}

int target_is_64bit(pid_t pid)
{
	unsigned char ident[EI_NIDENT];
	char path[64];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	n = reader__take(reader__open(pid, path, 0), ident, sizeof(ident));
	if (n < 0)
		return n;
	if (n != sizeof(ident) || memcmp(ident, ELFMAG, SELFMAG) != 0)
		return -ENOEXEC;
	return ident[EI_CLASS] == ELFCLASS64;
}

bool target_each(bool (*fn)(void *ctx, pid_t pid), void *ctx)
{
	DIR *dir = opendir("/proc");
	struct dirent *de;
	bool go_on = dir;

	while (go_on && (de = readdir(dir)))
		if (isdigit((unsigned char)de->d_name[0]))
			go_on = fn(ctx, atoi(de->d_name));
	if (dir)
		closedir(dir);
	return go_on;
}

/* A process's name cannot forge these lines: the kernel writes its newlines as \n. */
static char read_state(pid_t pid, unsigned *threads)
{
	char path[64], line[256], state = 0;
	FILE *f;

	*threads = 0;
	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	f = fopen(path, "re");
	while (f && !*threads && fgets(line, sizeof(line), f)) {
		if (!strncmp(line, "State:\t", 7))
			state = line[7];
		sscanf(line, "Threads:\t%u", threads);
	}
	if (f)
		fclose(f);
	return state;
}

char target_state(pid_t pid)
{
	unsigned threads;

	return read_state(pid, &threads);
}

bool target_has_ended(pid_t pid)
{
	unsigned threads;
	char state = read_state(pid, &threads);

	return !state || state == 'X' || (state == 'Z' && threads <= 1);
}

bool target_stat(pid_t pid, pid_t *parent, unsigned long long *start)
{
	/* The file waits for the process's execve(). */
	int fd = reader__copy(pid, "stat", 1023);
	char buf[1024];
	const char *at;
	ssize_t n = fd < 0 ? -1 : reader__take(fd, buf, sizeof(buf) - 1);

	if (n < 0)
		return false;
	buf[n] = 0;
	at = strrchr(buf, ')'); /* a name may contain any character */
	return at && sscanf(at + 1,
			    " %*c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d "
			    "%*d %*d %llu",
			    parent, start) == 2;
}
