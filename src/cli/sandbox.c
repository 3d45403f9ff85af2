// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <seccomp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "util/log.h"

/* Linux 5.8 and 5.9: an older header does not know them. */
#ifndef CAP_PERFMON
#define CAP_PERFMON 38
#endif
#ifndef CAP_BPF
#define CAP_BPF 39
#endif
#ifndef CAP_CHECKPOINT_RESTORE
#define CAP_CHECKPOINT_RESTORE 40
#endif

static const int kept[] = {
	CAP_BPF,
	CAP_PERFMON,		/* links to libraries that come later */
	CAP_SYS_PTRACE,		/* memory, maps and root of other users' processes */
	CAP_DAC_READ_SEARCH,	/* their libraries */
	CAP_CHECKPOINT_RESTORE, /* /proc/PID/map_files */
	CAP_KILL,		/* SIGCONT to what was stopped, whoever it runs as by then */
};

static bool drop_caps(bool keep_admin)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct now[2], less[2] = {0};
	unsigned char keep[64] = {0};

	for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++)
		keep[kept[i]] = 1;
	keep[CAP_SYS_ADMIN] = keep_admin;
	if (syscall(SYS_capget, &head, now))
		return false;
	/* Fails without CAP_SETPCAP: nothing is in the way of what follows then. */
	for (int cap = 0; cap < 64; cap++) {
		if (!keep[cap])
			prctl(PR_CAPBSET_DROP, cap);
	}
	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	for (int cap = 0; cap < 64; cap++) {
		if (keep[cap]) {
			less[cap / 32].effective |= now[cap / 32].effective & (1u << cap % 32);
			less[cap / 32].permitted |= now[cap / 32].permitted & (1u << cap % 32);
		}
	}
	return !syscall(SYS_capset, &head, less);
}

/* By what they are for. openat is below: only to read. */
static const char *const calls[] = {
	/* memory */
	"brk",
	"mmap",
	"munmap",
	"mremap",
	"mprotect",
	"madvise",
	/* what is open already */
	"read",
	"pread64",
	"readv",
	"write",
	"writev",
	"pwrite64",
	"lseek",
	"close",
	"fstat",
	"ftruncate",
	"fsync",
	"fdatasync",
	"fcntl",
	"dup",
	"dup2",
	"dup3",
	"ioctl",
	"poll",
	"ppoll",
	"epoll_create1",
	"epoll_ctl",
	"epoll_wait",
	"epoll_pwait",
	"eventfd2",
	"timerfd_create",
	"timerfd_settime",
	"signalfd4",
	"memfd_create",
	/* looking at files */
	"newfstatat",
	"stat",
	"lstat",
	"statx",
	"access",
	"faccessat",
	"faccessat2",
	"readlink",
	"readlinkat",
	"getdents64",
	"getcwd",
	/* tracing */
	"bpf",
	"perf_event_open",
	"process_vm_readv",
	"pidfd_open",
	"pidfd_send_signal",
	"kill",
	"tgkill",
	/* the command */
	"wait4",
	"waitid",
	/* this process */
	"rt_sigaction",
	"rt_sigprocmask",
	"rt_sigreturn",
	"rt_sigtimedwait",
	"rt_sigpending",
	"sigaltstack",
	"getpid",
	"gettid",
	"getppid",
	"getuid",
	"geteuid",
	"getgid",
	"getegid",
	"getrusage",
	"getrlimit",
	"prlimit64",
	"sysinfo",
	"uname",
	"times",
	"sched_yield",
	"sched_getaffinity",
	"getcpu",
	"futex",
	"set_robust_list",
	"rseq",
	"restart_syscall",
	"getrandom",
	"exit",
	"exit_group",
	/* time */
	"clock_gettime",
	"clock_getres",
	"clock_nanosleep",
	"nanosleep",
	"gettimeofday",
	"time",
};

/* EPERM for everything else. Tests would rather see what is missing. */
static uint32_t refusal(void)
{
	const char *how = getenv("CUDATRACE_SANDBOX");

	return how && !strcmp(how, "kill") ? SCMP_ACT_KILL_PROCESS : SCMP_ACT_ERRNO(EPERM);
}

static int filter_calls(void)
{
	const unsigned writes = O_WRONLY | O_RDWR | O_CREAT | O_TRUNC;
	scmp_filter_ctx ctx = seccomp_init(refusal());
	int ret = ctx ? 0 : -ENOMEM;

	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]) && !ret; i++) {
		int nr = seccomp_syscall_resolve_name(calls[i]);

		/* Not every architecture has all of them, and libseccomp may be older. */
		if (nr != __NR_SCMP_ERROR)
			ret = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, nr, 0);
	}
	if (!ret)
		ret = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(openat), 1,
				       SCMP_A2(SCMP_CMP_MASKED_EQ, writes, O_RDONLY));
	if (!ret)
		ret = seccomp_load(ctx);
	if (ctx)
		seccomp_release(ctx);
	return ret;
}

void sandbox__enter(const struct sandbox_needs *needs)
{
	int ret;

	if (!drop_caps(needs->perf_probes))
		warn("cannot give up capabilities: %s: tracing goes on with all of them",
		     strerror(errno));
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) {
		warn("cannot give up new privileges: %s", strerror(errno));
		return;
	}
	ret = filter_calls();
	if (ret)
		warn("cannot filter our own system calls: %s: tracing goes on without",
		     strerror(-ret));
}
