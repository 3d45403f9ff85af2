/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "mmap_lock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* The process that examines another for us exits after this time. */
#define LOOK_MS	   200
#define WAITER_MAX 1024

/* Neither stat nor status waits for locks of the process. */
static bool read_proc(pid_t pid, pid_t tid, const char *name, char *buf, size_t size)
{
	char path[96];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/%s", (int)pid, (int)tid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, buf, size - 1);
	if (fd >= 0)
		close(fd);
	buf[n > 0 ? n : 0] = '\0';
	return n > 0;
}

static char read_state(pid_t pid, pid_t tid)
{
	char buf[512], *state;

	if (!read_proc(pid, tid, "stat", buf, sizeof(buf)))
		return 'X';
	/* The name before it may contain any character. */
	state = strrchr(buf, ')');
	return state && state[1] == ' ' ? state[2] : 'X';
}

static bool read_switches(pid_t pid, pid_t tid, unsigned long *cnt)
{
	static const char name[] = "\nvoluntary_ctxt_switches:";
	char buf[4096], *at;

	if (!read_proc(pid, tid, "status", buf, sizeof(buf)) || !(at = strstr(buf, name)))
		return false;
	*cnt = strtoul(at + sizeof(name) - 1, NULL, 10);
	return true;
}

static bool look_at(struct waiter *w, pid_t pid, pid_t tid)
{
	*w = (struct waiter){.pid = pid, .tid = tid};
	return read_state(pid, tid) == 'D' && read_switches(pid, tid, &w->switches);
}

bool mmap_waiter__is_still(struct waiter *w)
{
	unsigned long before = w->switches;
	char state = read_state(w->pid, w->tid);

	return read_switches(w->pid, w->tid, &w->switches) && w->switches == before &&
	       (state == 'D' || state == 'T');
}

static void look_at_thread(struct mmap_waiters *w, pid_t pid, pid_t tid)
{
	struct waiter new, *v;

	if (w->cnt == WAITER_MAX || !look_at(&new, pid, tid))
		return;
	v = realloc(w->v, (w->cnt + 1) * sizeof(*v));
	if (!v)
		return;
	w->v = v;
	w->v[w->cnt++] = new;
}

/* Calls fn for each number in a folder of /proc. */
static void each_number(const char *path,
			void (*fn)(struct mmap_waiters *w, pid_t pid, pid_t number),
			struct mmap_waiters *w, pid_t pid)
{
	DIR *dir = opendir(path);
	struct dirent *e;

	while (dir && (e = readdir(dir)))
		if (*e->d_name >= '1' && *e->d_name <= '9')
			fn(w, pid, atoi(e->d_name));
	if (dir)
		closedir(dir);
}

static void look_at_process(struct mmap_waiters *w, pid_t none, pid_t pid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	if (pid != getpid() && pid != getppid())
		each_number(path, look_at_thread, w, pid);
}

void mmap_waiters__look(struct mmap_waiters *w)
{
	w->cnt = 0;
	each_number("/proc", look_at_process, w, 0);
}

void mmap_waiters__look_again(struct mmap_waiters *w)
{
	for (unsigned i = w->cnt; i-- > 0;) {
		struct waiter now;

		if (!look_at(&now, w->v[i].pid, w->v[i].tid) || now.switches != w->v[i].switches)
			w->v[i] = w->v[--w->cnt];
	}
}

void mmap_waiters__free(struct mmap_waiters *w)
{
	free(w->v);
	*w = (struct mmap_waiters){0};
}

/* Returns whether it is a system call that changes mappings, or a page fault (-1): these may hold
 * the lock. */
static bool is_of_memory(const char *line)
{
	static const long calls[] = {
		SYS_mmap,    SYS_munmap, SYS_mremap,	       SYS_mprotect, SYS_brk,
		SYS_madvise, SYS_shmdt,	 SYS_remap_file_pages, SYS_mlock,    SYS_mlockall,
		SYS_mbind,   SYS_shmat,	 SYS_execve,	       SYS_execveat, -1,
	};
	char *end;
	long nr = strtol(line, &end, 10);

	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]) && end != line; i++)
		if (nr == calls[i])
			return true;
	return false;
}

/* Uses the thread: the main one may have ended, and then shows nothing. */
static bool maps_file(pid_t tid, const struct stat *st)
{
	unsigned dev_major, dev_minor;
	bool found = false;
	char path[64], *line = NULL;
	size_t size = 0;
	uint64_t ino;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)tid);
	f = fopen(path, "re");
	while (f && !found && getline(&line, &size, f) >= 0)
		found = sscanf(line, "%*s %*s %*s %x:%x %" SCNu64, &dev_major, &dev_minor, &ino) ==
				3 &&
			ino == st->st_ino;
	free(line);
	if (f)
		fclose(f);
	/* Devices are not compared: on btrfs and overlayfs maps and stat differ. */
	return found;
}

/* These files wait for locks of the process, until a signal kills the reader. */
static void __attribute__((noreturn)) judge(const struct waiter *w, const struct stat *st)
{
	struct sigaction dfl = {.sa_handler = SIG_DFL};
	const struct itimerspec in = {.it_value.tv_nsec = LOOK_MS * 1000000l};
	struct sigevent ev = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
	sigset_t alarms;
	timer_t timer;
	char line[256];

	sigaction(SIGALRM, &dfl, NULL);
	sigemptyset(&alarms);
	sigaddset(&alarms, SIGALRM);
	sigprocmask(SIG_UNBLOCK, &alarms, NULL);
	if (timer_create(CLOCK_MONOTONIC, &ev, &timer) || timer_settime(timer, 0, &in, NULL))
		_exit(1);
	if (!read_proc(w->pid, w->tid, "syscall", line, sizeof(line)) || !is_of_memory(line))
		_exit(0);
	_exit(maps_file(w->tid, st));
}

bool mmap_waiter__holds(const struct waiter *w, int fd)
{
	struct stat st;
	int status = 0;
	pid_t pid;

	if (fstat(fd, &st))
		return false;
	pid = fork();
	if (!pid)
		judge(w, &st);
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	/* A process that cannot be examined may hold the lock. */
	return pid > 0 && (WIFSIGNALED(status) || WEXITSTATUS(status));
}

/* Every fork() of the machine, and cudatrace itself, wait behind such a process. */
static bool waits_for_probes(const struct waiter *w)
{
	char where[128];

	return read_proc(w->pid, w->tid, "wchan", where, sizeof(where)) &&
	       (strstr(where, "percpu_") || strstr(where, "uprobe") ||
		strstr(where, "for_each_vma"));
}

pid_t mmap_waiters__suspect(pid_t links)
{
	const struct timespec wait = {.tv_nsec = 50000000};
	struct mmap_waiters w = {0};
	pid_t pid = 0;

	mmap_waiters__look(&w);
	if (w.cnt)
		nanosleep(&wait, NULL);
	mmap_waiters__look_again(&w);
	for (unsigned i = 0; i < w.cnt && !pid; i++)
		if (w.v[i].pid != links && !waits_for_probes(&w.v[i]))
			pid = w.v[i].pid;
	mmap_waiters__free(&w);
	return pid;
}
