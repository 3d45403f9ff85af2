/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "mmap_lock.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "util/clock.h"
#include "util/task.h"

/* The process that examines others for us waits for one of them for this time before it is ended.
 */
#define WAIT_MS 20
/* Time of one round: the caller must not look as if it hung. The next round continues. */
#define ROUND_NS 400000000ull

/* Returns the thread's state; 'X': it has ended. */
static char look_at(struct waiter *w, pid_t pid, pid_t tid)
{
	static const char state[] = "\nState:\t", switches[] = "\nvoluntary_ctxt_switches:";
	char buf[4096], *at, *cnt;

	*w = (struct waiter){.pid = pid, .tid = tid};
	if (!task_read(pid, tid, "status", buf, sizeof(buf)))
		return 'X';
	at = strstr(buf, state);
	cnt = strstr(buf, switches);
	if (!at || !cnt)
		return 'X';
	w->switches = strtoul(cnt + sizeof(switches) - 1, NULL, 10);
	return at[sizeof(state) - 1];
}

/* A holder may wait interruptibly too, as FUSE does for its server. A stopped thread (T, t) is
 * about to return from its system call and holds no lock. */
static bool is_asleep(char state)
{
	return state == 'S' || state == 'D';
}

bool mmap_waiter__is_still(struct waiter *w)
{
	unsigned long before = w->switches;
	char state = look_at(w, w->pid, w->tid);

	/* A process of ours that was stopped makes no progress either. */
	return (is_asleep(state) || state == 'T' || state == 't') && w->switches == before;
}

static void look_at_thread(struct mmap_waiters *w, pid_t pid, pid_t tid)
{
	struct waiter new, *v;

	if (!is_asleep(look_at(&new, pid, tid)))
		return;
	if (!(w->cnt & (w->cnt - 1))) {
		v = reallocarray(w->v, w->cnt ? 2 * w->cnt : 1, sizeof(*v));
		w->partial |= !v;
		if (!v)
			return;
		w->v = v;
	}
	w->v[w->cnt++] = new;
}

/* Calls fn for each number in a directory of /proc. */
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

static int compare(const void *a, const void *b)
{
	const struct waiter *x = a, *y = b;

	return x->tid < y->tid ? -1 : x->tid > y->tid;
}

/* Copies the known data of threads that have not run since. */
static void take_known(struct mmap_waiters *w, const struct mmap_waiters *known)
{
	for (unsigned i = 0; i < w->cnt && known->cnt; i++) {
		const struct waiter *k =
			bsearch(&w->v[i], known->v, known->cnt, sizeof(*k), compare);

		w->v[i].harmless = k && k->harmless && k->pid == w->v[i].pid &&
				   k->switches == w->v[i].switches;
	}
}

void mmap_waiters__look(struct mmap_waiters *w)
{
	struct mmap_waiters known = *w;

	*w = (struct mmap_waiters){0};
	each_number("/proc", look_at_process, w, 0);
	if (w->cnt)
		qsort(w->v, w->cnt, sizeof(*w->v), compare);
	take_known(w, &known);
	mmap_waiters__free(&known);
}

void mmap_waiters__look_again(struct mmap_waiters *w)
{
	unsigned cnt = 0;

	for (unsigned i = 0; i < w->cnt; i++) {
		struct waiter *v = &w->v[i];

		if (v->harmless || mmap_waiter__is_still(v))
			w->v[cnt++] = *v;
	}
	w->cnt = cnt;
}

void mmap_waiters__free(struct mmap_waiters *w)
{
	free(w->v);
	*w = (struct mmap_waiters){0};
}

/* Numbers of system calls that may hold the lock; -1: a page fault. */
static const long native[] = {
	SYS_mmap,	   SYS_munmap,	SYS_mremap,	      SYS_mprotect, SYS_brk,
	SYS_madvise,	   SYS_shmdt,	SYS_remap_file_pages, SYS_mlock,    SYS_mlock2,
	SYS_mlockall,	   SYS_munlock, SYS_munlockall,	      SYS_mbind,    SYS_shmat,
	SYS_pkey_mprotect, SYS_execve,	SYS_execveat,	      -1,
};

/*
 * A 64-bit thread can make 32-bit system calls, too (int 0x80), and /proc has only the number. So
 * these count for all threads. Numbers of 64-bit calls in which threads usually sleep are told by
 * the arguments (may_be_compat()).
 */
#if defined(__x86_64__)
static const long compat[] = {
	11 /* execve */,    45 /* brk */,
	90 /* mmap */,	    91 /* munmap */,
	117 /* ipc */,	    125 /* mprotect */,
	150 /* mlock */,    151 /* munlock */,
	152 /* mlockall */, 153 /* munlockall */,
	163 /* mremap */,   192 /* mmap2 */,
	219 /* madvise */,  257 /* remap_file_pages */,
	274 /* mbind */,    358 /* execveat */,
	376 /* mlock2 */,   380 /* pkey_mprotect */,
	397 /* shmat */,    398 /* shmdt */,
};
#define X32 0x40000000l /* in the numbers of the x32 interface */
static const long forks[] = {
	SYS_fork,     SYS_clone,       SYS_clone3, /* also 32-bit */
	2 /* fork */, 120 /* clone */,
};
#elif defined(__aarch64__)
static const long compat[] = {
	11 /* execve */,    45 /* brk */,	  91 /* munmap */,
	125 /* mprotect */, 150 /* mlock */,	  151 /* munlock */,
	152 /* mlockall */, 153 /* munlockall */, 163 /* mremap */,
	192 /* mmap2 */,    220 /* madvise */,	  253 /* remap_file_pages */,
	305 /* shmat */,    306 /* shmdt */,	  319 /* mbind */,
	387 /* execveat */, 390 /* mlock2 */,	  394 /* pkey_mprotect */,
};
#define X32 0l
static const long forks[] = {
	SYS_clone,
	SYS_clone3, /* also 32-bit */
	2 /* fork */,
	120 /* clone */,
};
#else
#error "numbers of 32-bit system calls"
#endif

/* No memory is below this address (vm.mmap_min_addr), and hardly a descriptor above this number. */
#define MIN_ADDR 65536

/* Returns whether the arguments, of which the kernel uses 32 bits, fit the 32-bit call. */
static bool may_be_compat(long nr, const uint32_t args[3])
{
#if defined(__x86_64__)
	switch (nr) {
	case SYS_recvfrom: /* or brk(address) */
		return args[0] >= MIN_ADDR;
	case SYS_restart_syscall: /* or madvise(page, length, advice) */
		return args[0] >= MIN_ADDR && args[0] % 4096 == 0;
	case SYS_openat: /* or remap_file_pages(address, size, 0, ...) */
		return args[0] >= MIN_ADDR && !args[2];
	}
#endif
	return true;
}

static bool is_in(const long *calls, size_t cnt, long nr)
{
	for (size_t i = 0; i < cnt; i++)
		if (nr == calls[i])
			return true;
	return false;
}

#define IS_IN(calls, nr) is_in(calls, sizeof(calls) / sizeof((calls)[0]), nr)

enum mmap_lock_call mmap_lock_call(const char *line)
{
	uint32_t args[3] = {0};
	char *end;
	long nr = strtol(line, &end, 10);

	if (end == line)
		return MMAP_LOCK_NONE;
	if (nr > 0)
		nr &= ~X32;
	for (size_t i = 0; i < sizeof(args) / sizeof(args[0]); i++)
		args[i] = strtoull(end, &end, 16);
	if (IS_IN(native, nr) || (IS_IN(compat, nr) && may_be_compat(nr, args)))
		return MMAP_LOCK_MAPS;
	return IS_IN(forks, nr) ? MMAP_LOCK_FORKS : MMAP_LOCK_NONE;
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

/* Returns whether a thread in such a call waits for its memory lock and holds dup_mmap_sem: the
 * kernel takes both in dup_mmap(), which it may have inlined (Linux 6.18). Elsewhere it waits for
 * its child to execute a program, or the number is that of another call. */
static bool holds_all_forks(pid_t pid, pid_t tid)
{
	char where[128];

	return task_read(pid, tid, "wchan", where, sizeof(where)) &&
	       (strstr(where, "dup_mm") || strstr(where, "copy_process"));
}

/* Shared with the process that examines. */
struct view {
	unsigned at; /* thread being examined */
	bool in_maps, holds;
	bool harmless[];
};

/* These files wait for locks of the process, until a signal kills the reader. */
static void __attribute__((noreturn))
judge(const struct mmap_waiters *w, const struct stat *st, volatile struct view *view)
{
	char line[256];

	for (unsigned i = view->at; i < w->cnt; i++) {
		enum mmap_lock_call call = MMAP_LOCK_NONE;

		if (view->harmless[i])
			continue;
		view->in_maps = false;
		view->at = i;
		if (task_read(w->v[i].pid, w->v[i].tid, "syscall", line, sizeof(line)))
			call = mmap_lock_call(line);
		if (call == MMAP_LOCK_FORKS && holds_all_forks(w->v[i].pid, w->v[i].tid)) {
			view->holds = true;
			break;
		}
		if (call != MMAP_LOCK_MAPS) {
			view->harmless[i] = true;
			continue;
		}
		view->in_maps = true;
		if (maps_file(w->v[i].tid, st)) {
			view->holds = true;
			break;
		}
	}
	_exit(0);
}

/* Returns whether our process waits for the execve() of another, and not for memory of its own:
 * these functions of Linux 6.18 take exec_update_lock. */
static bool waits_for_exec(pid_t pid)
{
	char where[128];

	return task_read(pid, pid, "wchan", where, sizeof(where)) &&
	       (strstr(where, "lock_trace") || strstr(where, "proc_pid_syscall"));
}

/* Returns true if the process ended by itself, false if it waits for the thread view->at, or if
 * the time is over. A process without a processor does not count as waiting. */
static bool await(pid_t pid, const volatile struct view *view, uint64_t end, bool *in_exec)
{
	const struct timespec pause = {.tv_nsec = 1000000};
	struct waiter w = {.pid = pid, .tid = pid};
	unsigned waits = 0, at = view->at;
	int status = 0;
	pid_t ended;

	while (!(ended = waitpid(pid, &status, WNOHANG)) && now_ns() < end && waits < WAIT_MS) {
		nanosleep(&pause, NULL);
		waits = mmap_waiter__is_still(&w) && view->at == at ? waits + 1 : 0;
		at = view->at;
	}
	if (ended)
		return ended == pid && WIFEXITED(status);
	*in_exec = !view->in_maps && waits_for_exec(pid);
	kill(pid, SIGKILL);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return false;
}

/*
 * A process that waits to read the system call of a thread waits for the thread's execve(), which
 * has exec_update_lock (6.18). The thread holds no memory lock that matters: its new memory is not
 * locked while it closes files, and the kernel visits only memory with users (mmget_not_zero()),
 * not the old one. Others that share the old one are threads of the list.
 */
static pid_t holder_of(const struct mmap_waiters *w, const struct stat *st, volatile struct view *v)
{
	uint64_t end = now_ns() + ROUND_NS;

	for (;;) {
		pid_t pid = fork();
		bool in_exec = false;

		if (!pid)
			judge(w, st, v);
		if (pid > 0 && await(pid, v, end, &in_exec))
			return v->holds ? w->v[v->at].pid : 0;
		/* A process that cannot be examined may hold the lock. */
		if (pid < 0 || !in_exec)
			return w->v[v->at].pid;
		v->harmless[v->at] = true;
	}
}

pid_t mmap_waiters__holder(struct mmap_waiters *w, int fd)
{
	size_t size = sizeof(struct view) + w->cnt;
	struct view *view;
	struct stat st;
	pid_t holder;

	/* The list lacks some threads. */
	if (w->partial)
		return getpid();
	if (!w->cnt || fstat(fd, &st))
		return 0;
	view = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (view == MAP_FAILED)
		return w->v[0].pid;
	for (unsigned i = 0; i < w->cnt; i++)
		view->harmless[i] = w->v[i].harmless;
	holder = holder_of(w, &st, view);
	for (unsigned i = 0; i < w->cnt; i++)
		w->v[i].harmless = view->harmless[i];
	munmap(view, size);
	return holder;
}

#define OURS "cudatrace-"

/* A process of another tracer waits for the same lock, and is not its holder. */
static bool is_tracer(pid_t pid)
{
	char path[32], comm[16] = "";
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	f = fopen(path, "re");
	if (f && !fgets(comm, sizeof(comm), f))
		comm[0] = '\0';
	if (f)
		fclose(f);
	return !strncmp(comm, OURS, sizeof(OURS) - 1);
}

pid_t mmap_waiters__suspect(pid_t links)
{
	const struct timespec wait = {.tv_nsec = 50000000};
	struct mmap_waiters w = {0};
	struct waiter now;
	pid_t pid = 0;

	mmap_waiters__look(&w);
	if (w.cnt)
		nanosleep(&wait, NULL);
	mmap_waiters__look_again(&w);
	for (unsigned i = 0; i < w.cnt && !pid; i++)
		if (w.v[i].pid != links && !is_tracer(w.v[i].pid) &&
		    look_at(&now, w.v[i].pid, w.v[i].tid) == 'D')
			pid = w.v[i].pid;
	mmap_waiters__free(&w);
	return pid;
}
