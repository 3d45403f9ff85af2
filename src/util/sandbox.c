/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "sandbox_priv.h"

#include <linux/bpf.h>
#include <linux/capability.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <termios.h>
#include <ucontext.h>
#include <unistd.h>

#include "log.h"

static const int kept[] = {
	CAP_BPF, CAP_SYS_PTRACE, /* memory, maps and root of other users' processes */
	CAP_DAC_READ_SEARCH,	 /* their libraries */
	CAP_CHECKPOINT_RESTORE,	 /* /proc/PID/map_files */
};

bool sandbox_drop_caps(const bool keep[64])
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct now[2], less[2] = {0};

	if (syscall(SYS_capget, &head, now))
		return false;
	/* Fails without CAP_SETPCAP: the following steps do not need it then. */
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

/* Grouped by purpose. Calls allowed only with certain arguments are below. */
static const char *const calls[] = {
	/* memory */
	"brk",
	"mmap",
	"munmap",
	"mremap",
	"mprotect",
	"madvise",
	/* open descriptors */
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
	"poll",
	"ppoll",
	"epoll_create1",
	"epoll_ctl",
	"epoll_wait",
	"epoll_pwait",
	"eventfd2",
	"timerfd_create",
	"timerfd_settime",
	"timer_create", /* time limit for demangling a name */
	"timer_settime",
	"signalfd4",
	"inotify_add_watch",
	"inotify_rm_watch",
	/* util/reader.h, attach/probe/links.h: no socket can be created */
	"sendto",
	"sendmsg",
	"recvfrom",
	"recvmsg",
	"shutdown",
	/* inspecting files */
	"newfstatat",
	"fstatfs",
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
	"pidfd_open",
	"pidfd_send_signal",
	"kill",
	"tgkill",
	"rt_sigqueueinfo",
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
	"getpgid",
	"getuid",
	"geteuid",
	"getgid",
	"getegid",
	"getrusage",
	"getrlimit",
	"sysinfo",
	"uname",
	"times",
	"sched_yield",
	"sched_getaffinity",
	"getcpu",
	"membarrier",
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

/* Additional calls for the daemon */
static const char *const daemon_calls[] = {
	/* sockets that it created, see allow_for_daemon() */
	"bind",
	"listen",
	"accept",
	"accept4",
	"connect",
	"getsockname",
	"getpeername",
	"getsockopt",
	"setsockopt",
	"sendmmsg",
	/* files in its directory */
	"mkdir",
	"mkdirat",
	"sync_file_range",
	"rename",
	"renameat",
	"renameat2",
	"unlink",
	"unlinkat",
	/* util/privs.h */
	"capget",
	"capset",
};

/* Programs that connect receive memory (src/inject/). */
static const char *const inject_calls[] = {"accept4", "getsockopt", "memfd_create"};

/* For the attaching process: it inspects other processes in a child (attach/probe/mmap_lock.h). */
static const char *const links_calls[] = {"clone", "clone3", "fork", "vfork"};

static const uint32_t families[] = {AF_UNIX, AF_INET, AF_INET6};

/* Our programs are loaded by now: no others can be loaded, and objects of others cannot be
 * opened. */
static const uint32_t bpf_commands[] = {
	BPF_MAP_LOOKUP_ELEM,  BPF_MAP_UPDATE_ELEM, BPF_MAP_DELETE_ELEM,	   BPF_MAP_GET_NEXT_KEY,
	BPF_MAP_LOOKUP_BATCH, BPF_LINK_DETACH,	   BPF_OBJ_GET_INFO_BY_FD, BPF_ITER_CREATE,
};
static const uint32_t links_bpf_commands[] = {BPF_LINK_CREATE};

/* TIOCSTI would type into the terminal that we share with a shell. */
static const uint32_t ioctls[] = {
	TCGETS,
	TIOCGWINSZ,
};

/* Sets the input mode of the terminal, and restores it. */
static const uint32_t screen_ioctls[] = {
	TCSETS,
	TCSETSW,
	TCSETSF,
};

/* Returns our process id for a thread of another PID namespace (PIDFD_GET_PID_NAMESPACE and
 * NS_GET_PID_FROM_PIDNS, Linux 6.11). */
static const uint32_t inject_ioctls[] = {0xff05, 0x8004b706};

/* Requests of gpu/rm.h after the start. They include any RM control of our own clients, since the
 * filter cannot see which. */
static const uint32_t gpu_log_ioctls[] = {
	0xc020462a, /* RM_REQUEST_CONTROL */
	0xc0104629, /* RM_REQUEST_FREE */
};

int sandbox_allow(scmp_filter_ctx ctx, const char *call)
{
	int nr = seccomp_syscall_resolve_name(call);

	/* Some calls do not exist on every architecture, or in an older libseccomp. */
	return nr == __NR_SCMP_ERROR ? 0 : seccomp_rule_add(ctx, SCMP_ACT_ALLOW, nr, 0);
}

int sandbox_allow_calls(scmp_filter_ctx ctx, const char *const *allowed, size_t cnt)
{
	int ret = 0;

	for (size_t i = 0; i < cnt && !ret; i++)
		ret = sandbox_allow(ctx, allowed[i]);
	return ret;
}

int sandbox_allow_if(scmp_filter_ctx ctx, int nr, unsigned arg, uint32_t mask, uint32_t value)
{
	return seccomp_rule_add(ctx, SCMP_ACT_ALLOW, nr, 1,
				SCMP_CMP(arg, SCMP_CMP_MASKED_EQ, mask, value));
}

static int allow_bpf(scmp_filter_ctx ctx, const uint32_t *commands, size_t cnt)
{
	int ret = 0;

	for (size_t i = 0; i < cnt && !ret; i++)
		ret = sandbox_allow_if(ctx, SCMP_SYS(bpf), 0, UINT32_MAX, commands[i]);
	return ret;
}

static int allow_for_links(scmp_filter_ctx ctx, const struct sandbox_needs *needs)
{
	int ret = allow_bpf(ctx, links_bpf_commands, COUNT(links_bpf_commands));

	ret = ret ?: sandbox_allow_calls(ctx, links_calls, COUNT(links_calls));
	ret = ret ?: sandbox_allow_if(ctx, SCMP_SYS(prctl), 0, UINT32_MAX, PR_SET_NAME);
	if (needs->perf_probes)
		ret = ret	  ?: sandbox_allow(ctx, "perf_event_open")
				  ?: sandbox_allow_if(ctx, SCMP_SYS(ioctl), 1, UINT32_MAX,
					      PERF_EVENT_IOC_ENABLE);
	return ret;
}

static int allow_ioctls(scmp_filter_ctx ctx, const uint32_t *requests, size_t cnt)
{
	int ret = 0;

	for (size_t i = 0; i < cnt && !ret; i++)
		ret = sandbox_allow_if(ctx, SCMP_SYS(ioctl), 1, UINT32_MAX, requests[i]);
	return ret;
}

static int allow_for_inject(scmp_filter_ctx ctx)
{
	int ret = sandbox_allow_calls(ctx, inject_calls, COUNT(inject_calls));

	/* The exit status of a process (PIDFD_GET_INFO, whose size may grow). */
	ret = ret ?: sandbox_allow_if(ctx, SCMP_SYS(ioctl), 1, 0xffff, 0xff0b);
	return ret ?: allow_ioctls(ctx, inject_ioctls, COUNT(inject_ioctls));
}

static int allow_in_part(scmp_filter_ctx ctx)
{
	int ret = sandbox_allow_if(ctx, SCMP_SYS(openat), 2, WRITES, O_RDONLY);

	/* Only limits of this process. */
	if (!ret)
		ret = sandbox_allow_if(ctx, SCMP_SYS(prlimit64), 0, UINT32_MAX, 0);
	return ret ?: allow_ioctls(ctx, ioctls, COUNT(ioctls));
}

struct rule {
	const char *call;
	unsigned arg;
	uint32_t mask, value;
};

static int allow_rule(scmp_filter_ctx ctx, const struct rule *r)
{
	int nr = seccomp_syscall_resolve_name(r->call);

	return nr == __NR_SCMP_ERROR ? 0 : sandbox_allow_if(ctx, nr, r->arg, r->mask, r->value);
}

/*
 * Files can only be created, not opened for writing: existing ones include the memory of other
 * processes (/proc/PID/mem). None can be setuid, and none can be given to a user other than root
 * (ctl.group changes the group). netlink: glibc's getaddrinfo() uses it to list addresses, and
 * works without it.
 */
static int allow_for_daemon(scmp_filter_ctx ctx)
{
	static const struct rule rules[] = {
		{"chmod", 1, 07000, 0},		{"fchmod", 1, 07000, 0},
		{"fchmodat", 2, 07000, 0},	{"chown", 1, UINT32_MAX, 0},
		{"fchownat", 2, UINT32_MAX, 0},
	};
	const uint32_t how = O_ACCMODE | O_CREAT | O_EXCL | O_TRUNC;
	int ret = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(openat), 2,
				   SCMP_A2(SCMP_CMP_MASKED_EQ, how, O_WRONLY | O_CREAT | O_EXCL),
				   SCMP_A3(SCMP_CMP_MASKED_EQ, 07000, 0));

	/* daemon/http.c; its priority was limited before. */
	ret = ret ?: sandbox_allow_if(ctx, SCMP_SYS(sched_setscheduler), 0, UINT32_MAX, 0);
	/* libevent queries the number of readable bytes. */
	ret = ret ?: sandbox_allow_if(ctx, SCMP_SYS(ioctl), 1, UINT32_MAX, FIONREAD);
	ret = ret ?: sandbox_allow_if(ctx, SCMP_SYS(ioctl), 1, UINT32_MAX, FIONBIO);
	ret = ret ?: sandbox_allow_calls(ctx, daemon_calls, COUNT(daemon_calls));
	for (size_t i = 0; i < COUNT(rules) && !ret; i++)
		ret = allow_rule(ctx, &rules[i]);
	for (size_t i = 0; i < COUNT(families) && !ret; i++)
		ret = sandbox_allow_if(ctx, SCMP_SYS(socket), 0, UINT32_MAX, families[i]);
	ret = ret
		      ?: seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EAFNOSUPPORT), SCMP_SYS(socket), 1,
					  SCMP_CMP(0, SCMP_CMP_MASKED_EQ, UINT32_MAX, AF_NETLINK));
	/* libnss_systemd uses it in getpwuid() if /etc/nsswitch.conf names it, and works without
	 * it. */
	return ret ?: seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EINVAL), SCMP_SYS(prctl), 0);
}

/* With -v: reports a refused call. */
static void on_refused(int sig, siginfo_t *si, void *ctx)
{
	mcontext_t *regs = &((ucontext_t *)ctx)->uc_mcontext;

	dbg("the sandbox refuses system call %d: try --no-sandbox, and report it", si->si_syscall);
#ifdef __aarch64__
	regs->regs[0] = -EPERM;
#else
	regs->gregs[REG_RAX] = -EPERM;
#endif
}

/* EPERM for everything else. Tests need to see what is missing. */
static uint32_t refusal(void)
{
	static bool has_handler;
	const char *how = getenv("CUDATRACE_SANDBOX");
	struct sigaction sa = {.sa_sigaction = on_refused, .sa_flags = SA_SIGINFO};

	if (how && !strcmp(how, "kill"))
		return SCMP_ACT_KILL_PROCESS;
	/* A process that is forked in the sandbox has the handler, and may not set one. */
	if (log_level() >= LOG_DEBUG && !has_handler)
		has_handler = !sigaction(SIGSYS, &sa, NULL);
	return has_handler ? SCMP_ACT_TRAP : SCMP_ACT_ERRNO(EPERM);
}

int sandbox_begin(scmp_filter_ctx *ctx, const char *const *allowed, size_t cnt)
{
	*ctx = seccomp_init(refusal());
	return *ctx ? sandbox_allow_calls(*ctx, allowed, cnt) : -ENOMEM;
}

int sandbox_load(scmp_filter_ctx ctx, int ret)
{
	if (!ret)
		ret = seccomp_load(ctx);
	if (ctx)
		seccomp_release(ctx);
	return ret;
}

static int filter_calls(const struct sandbox_needs *needs)
{
	scmp_filter_ctx ctx;
	int ret = sandbox_begin(&ctx, calls, COUNT(calls));

	if (!ret && needs->links)
		ret = allow_for_links(ctx, needs);
	else if (!ret)
		ret = allow_bpf(ctx, bpf_commands, COUNT(bpf_commands));
	if (!ret && needs->inject)
		ret = allow_for_inject(ctx);
	if (!ret && needs->daemon)
		ret = allow_for_daemon(ctx);
	if (!ret && needs->gpu_log)
		ret = allow_ioctls(ctx, gpu_log_ioctls, COUNT(gpu_log_ioctls));
	if (!ret && needs->screen)
		ret = allow_ioctls(ctx, screen_ioctls, COUNT(screen_ioctls));
	if (!ret)
		ret = allow_in_part(ctx);
	/* The filter applies also to existing threads, which have no capabilities by then. */
	if (!ret)
		ret = seccomp_attr_set(ctx, SCMP_FLTATR_CTL_TSYNC, 1);
	return sandbox_load(ctx, ret);
}

void sandbox__enter(const struct sandbox_needs *needs)
{
	bool keep[64] = {false};
	int ret;

	for (size_t i = 0; i < COUNT(kept); i++)
		keep[kept[i]] = true;
	keep[CAP_LEASE] = !needs->links; /* src/attach/find/watch.h */
	keep[CAP_PERFMON] = needs->links;
	keep[CAP_SYS_ADMIN] = needs->perf_probes;
	/* SIGCONT for stopped processes, whatever user they run as by then */
	keep[CAP_KILL] = !needs->daemon && !needs->links;
	/* The socket, when a reload changes ctl.group. Owners are fixed above. */
	keep[CAP_CHOWN] = needs->daemon;
	if (!sandbox_drop_caps(keep))
		warn("cannot drop capabilities: %s: tracing continues with all of them",
		     strerror(errno));
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) {
		warn("cannot set no_new_privs: %s: tracing continues without it", strerror(errno));
		return;
	}
	ret = filter_calls(needs);
	if (ret)
		warn("cannot install the seccomp filter: %s: tracing continues without it",
		     strerror(-ret));
}
