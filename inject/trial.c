/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A program that was started under a system call filter (seccomp), without a tracer that counts
 * filters: the filter may be a container's, which the library passes, or may kill the program. So
 * another process makes the library's calls first. It shares our memory, because copying that of a
 * large program takes long. (Before Linux 5.16, a core dump of it ends the program, too.)
 */
#include "inject.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#define NO_FD	    -1
#define STACK_SZ    (16 << 10)
#define LIMIT_S	    1
#define PROCMAP_GET 0xc0686611 /* PROCMAP_QUERY */

struct trial {
	char *page;
	bool passed;
	long newest; /* descriptor */
};

/* A filter may return 0 without making the call: the library would close stdin, for example. None
 * of the new descriptors is closed, so their numbers grow. */
static bool is_newest(struct trial *t, long fd)
{
	bool grows = fd > t->newest;

	if (fd >= 0)
		t->newest = fd;
	return fd < 0 || grows;
}

/* The calls have no effect, and those on descriptors fail. The dynamic loader has made those that
 * are missing here. Without some of them no tracer can be reached. */
static int make_calls(void *arg)
{
	const struct rlimit no_core = {1, 1};
	const struct sockaddr_un nobody = {.sun_family = AF_UNIX};
	const struct timespec none = {0};
	const struct itimerval limit = {.it_value.tv_sec = LIMIT_S};
	const uint64_t default_action[4] = {0}, alarms = 1ull << (SIGALRM - 1);
	struct trial *t = arg;
	char *page = t->page;
	struct iovec to = {page, 1}, from = {page + 1, 1};
	int size = inject_libc.page_size, pid, tid;
	long moved, fd;
	bool ok;

	/* A filter may pass a call to a process that does not answer. */
	sys(SYS_rt_sigaction, SIGALRM, &default_action, NULL, 8);
	sys(SYS_rt_sigprocmask, SIG_UNBLOCK, &alarms, NULL, 8);
	sys(SYS_setitimer, ITIMER_REAL, &limit, NULL);
	pid = sys(SYS_getpid);
	tid = sys(SYS_gettid);
	ok = pid > 0 && tid > 0;
	sys(SYS_prlimit64, 0, RLIMIT_CORE, &no_core, NULL);
	sys(SYS_prlimit64, 0, RLIMIT_STACK, NULL, page);
	ok &= !sys(SYS_getresuid, page, page + 4, page + 8);
	sys(SYS_tgkill, pid, tid, 0);
	sys(SYS_process_vm_readv, pid, &to, 1, &from, 1, 0);
	sys(SYS_clock_gettime, CLOCK_MONOTONIC, page);
	sys(SYS_nanosleep, &none, NULL);
	sys(SYS_futex, page, FUTEX_WAKE_PRIVATE, 1);
	sys(SYS_futex, page, FUTEX_WAIT_PRIVATE, ~*(uint32_t *)page, NULL);
	sys(SYS_prctl, PR_GET_NAME, page);
	sys(SYS_prctl, PR_GET_TSC, page);
	sys(SYS_sigaltstack, NULL, page);
	/* thread.c, gpu.c: a thread of the library's own */
	sys(SYS_prctl, PR_SET_NAME, page);
	sys(SYS_sched_setscheduler, 0, -1, NULL);
	sys(SYS_sched_setaffinity, 0, 0, NULL);
	/* Memory */
	ok &= sys(SYS_madvise, page, size, MADV_WIPEONFORK) == 0;
	sys(SYS_madvise, page, size, MADV_DONTNEED);
	sys(SYS_munlock, page, size);
	moved = sys(SYS_mremap, page, size, size, 0);
	ok &= moved < 0 || moved == (long)page;
	/* Files */
	sys(SYS_getcwd, page, size);
	ok &= is_newest(t, sys(SYS_openat, AT_FDCWD, "/", O_PATH | O_CLOEXEC));
	ok &= is_newest(t, sys(SYS_memfd_create, "", MFD_CLOEXEC));
	ok &= is_newest(t, sys(SYS_pidfd_open, pid, 0));
	sys(SYS_readlinkat, AT_FDCWD, "/", page, size);
	sys(SYS_faccessat, AT_FDCWD, "/", 0);
	sys(SYS_newfstatat, AT_FDCWD, "/", page, AT_SYMLINK_NOFOLLOW);
	sys(SYS_getdents64, NO_FD, page, size);
	sys(SYS_lseek, NO_FD, 0, 0);
	sys(SYS_ioctl, NO_FD, PROCMAP_GET, page);
	sys(SYS_write, NO_FD, page, 0);
	/* The tracer */
	sys(SYS_ppoll, NULL, 0, &none, NULL, 0);
	sys(SYS_setsockopt, NO_FD, SOL_SOCKET, SO_RCVTIMEO, page, sizeof(struct timeval));
	fd = sys(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	ok &= fd >= 0 && is_newest(t, fd);
	ok &= sys(SYS_connect, NO_FD, &nobody, sizeof(nobody)) == -EBADF;
	ok &= sys(SYS_getsockopt, NO_FD, SOL_SOCKET, SO_PEERCRED, page, page) == -EBADF;
	ok &= sys(SYS_sendto, NO_FD, page, 0, MSG_NOSIGNAL, NULL, 0) == -EBADF;
	ok &= sys(SYS_recvmsg, NO_FD, NULL, MSG_CMSG_CLOEXEC) == -EBADF;
	/* The collector */
	sys(SYS_setsid);
	sys(SYS_close_range, UINT_MAX, 0, 0);
	t->passed = ok;
	return 0;
}

bool trial_passes(void)
{
	size_t page_size = inject_libc.page_size, size = page_size + STACK_SZ;
	char *mem = sys_map(size, 0);
	struct trial t = {.page = mem, .newest = -1};
	uint64_t all = ~0ull, old;
	long pid;

	if (!mem)
		return true;
	/* No handler of the program may run in the process that shares its memory. */
	sys(SYS_rt_sigprocmask, SIG_SETMASK, &all, &old, 8);
	pid = sys_clone_vfork(make_calls, mem + size, &t);
	if (pid >= 0)
		while (sys(SYS_wait4, pid, NULL, __WALL, NULL) == -EINTR)
			;
	sys(SYS_rt_sigprocmask, SIG_SETMASK, &old, NULL, 8);
	sys(SYS_munmap, mem, size);
	/* A filter may return 0 for clone() without making a process. */
	return pid < 0 ? pid != -ENOSYS : t.passed;
}
