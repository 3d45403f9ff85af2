/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* attributes FILE: writes all attributes that a program inherits, one per line, for comparison. */
#define _GNU_SOURCE
#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

static FILE *to;

static void limits(void)
{
	struct rlimit lim;

	for (int i = 0; i < RLIM_NLIMITS; i++)
		if (!getrlimit(i, &lim))
			fprintf(to, "limit %d: %llu %llu\n", i, (unsigned long long)lim.rlim_cur,
				(unsigned long long)lim.rlim_max);
}

/* Lines of a file in /proc/self; without the lines of status that always differ. */
static void file(const char *name)
{
	static const char *const own[] = {
		"Name",	  "Pid",	 "Tgid",	 "Ngid",       "PPid",
		"NStgid", "NSpid",	 "Vm",		 "Rss",	       "Threads",
		"SigQ",	  "voluntary",	 "nonvoluntary", "x86_Thread", "Hugetlb",
		"State",  "Speculation", "FDSize"}; /* room for descriptors, and not which: follows
						       the parent's */
	char path[64], line[65536];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/%s", name);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f)) {
		int skip = 0;

		for (unsigned i = 0; i < sizeof(own) / sizeof(own[0]) && !strcmp(name, "status");
		     i++)
			skip |= !strncmp(line, own[i], strlen(own[i]));
		if (!skip)
			fprintf(to, "%s: %s", name, line);
	}
	if (f)
		fclose(f);
}

static void links(const char *folder)
{
	char path[512], text[512];
	struct dirent *de;
	DIR *dir;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/self/%s", folder);
	dir = opendir(path);
	while (dir && (de = readdir(dir))) {
		if (!strcmp(folder, "fd") &&
		    (atoi(de->d_name) == dirfd(dir) || atoi(de->d_name) == fileno(to)))
			continue;
		snprintf(path, sizeof(path), "/proc/self/%s/%s", folder, de->d_name);
		n = readlink(path, text, sizeof(text) - 1);
		if (n > 0)
			fprintf(to, "%s/%s: %.*s\n", folder, de->d_name, (int)n, text);
	}
	if (dir)
		closedir(dir);
}

int main(int argc, char **argv)
{
	extern char **environ;
	char cwd[4096];
	int n = 0;

	to = argc > 1 ? fopen(argv[1], "we") : NULL;
	if (!to)
		return 1;
	limits();
	file("status"); /* ids, groups, umask, signals, capabilities, no_new_privs, seccomp,
			   processors */
	file("oom_score_adj");
	file("coredump_filter");
	file("cgroup");
	file("timerslack_ns");
	file("autogroup");
	links("fd");
	links("ns");
	for (char **e = environ; *e; e++)
		fprintf(to, "environment: %s\n", *e);
	fprintf(to, "cwd: %s\n", getcwd(cwd, sizeof(cwd)) ? cwd : "?");
	fprintf(to, "group, session, terminal's: %d %d %d\n", getpgrp(), getsid(0), tcgetpgrp(0));
	fprintf(to, "nice %d, policy %d, io %ld\n", getpriority(PRIO_PROCESS, 0),
		sched_getscheduler(0), syscall(SYS_ioprio_get, 1, 0));
	fprintf(to, "personality %x, secure %lu, securebits %d, keepcaps %d\n",
		personality(0xffffffff), getauxval(AT_SECURE), prctl(PR_GET_SECUREBITS),
		prctl(PR_GET_KEEPCAPS));
	fprintf(to, "dumpable %d, huge pages %d, slack %d\n", prctl(PR_GET_DUMPABLE),
		prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0), prctl(PR_GET_TIMERSLACK));
	prctl(PR_GET_PDEATHSIG, &n);
	fprintf(to, "death signal %d\n", n);
	prctl(PR_GET_CHILD_SUBREAPER, &n);
	fprintf(to, "subreaper %d\n", n);
	return fclose(to) != 0;
}
