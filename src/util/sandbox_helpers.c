/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Sandboxes of the helper processes: cudatrace-read, cudatrace-open, signal-witness and others. */
#include "sandbox_priv.h"

#include <linux/bpf.h>
#include <linux/capability.h>
#include <linux/nsfs.h>
#include <linux/sched.h>
#include <sys/prctl.h>

static const int reader_kept[] = {CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH, CAP_CHECKPOINT_RESTORE};

/* Other users' processes: their memory, and the files that they map. */
#define LATE_KEPT CAP_SYS_PTRACE, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_CHECKPOINT_RESTORE
static const int late_kept[] = {LATE_KEPT};
static const int late_server_kept[] = {LATE_KEPT, CAP_SYS_ADMIN, CAP_BPF, CAP_KILL};

/* To read processes, and to act as their owners. */
static const int dossiers_kept[] = {CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH, CAP_SETUID, CAP_SETGID,
				    CAP_KILL};

/* Stopped processes of any user, and a map of the tracer's. */
static const int guard_kept[] = {CAP_KILL, CAP_BPF};

/* To act as the owner of files; root's own rights for root's files. */
static const int opener_kept[] = {CAP_SETUID, CAP_SETGID, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH};

/* Of all but the witness, also with AddressSanitizer. */
static const char *const common_calls[] = {
	"brk",	       "mmap",	       "munmap",	  "mprotect", "madvise",    "futex",
	"sigaltstack", "rt_sigreturn", "restart_syscall", "exit",     "exit_group",
};

/* cudatrace-read: opens for reading, copies to memory, passes descriptors. */
static const char *const reader_calls[] = {
	"mremap",
	/* files; only what memfd_create() makes can be written */
	"read",
	"pread64",
	"write",
	"lseek",
	"close",
	"memfd_create",
	"fstat",
	"newfstatat",
	"stat",
	"statx",
	"fstatfs",
	"getdents64", /* util/task.h */
	"readlink",
	"readlinkat",
	/* its client, and timeouts */
	"poll",
	"ppoll",
	"sendmsg",
	"alarm",
	"setitimer",
	"geteuid",
	"getrandom",
	"set_robust_list",
	"rseq",
	"rt_sigprocmask",
};

/* The maker also creates readers, and installs a filter of its own in each. */
static const char *const maker_calls[] = {"socketpair", "seccomp"};

/* cudatrace-open */
static const char *const opener_calls[] = {
	"read",
	"sendmsg",
	"openat",
	"close",
	"fcntl",
	"ftruncate",
	"fstat",
	"newfstatat",
	"readlinkat",
	/* changing users: util/safe_open.h, util/privs.h */
	"geteuid",
	"getegid",
	"getgroups",
	"setgroups",
	"setfsuid",
	"setfsgid",
	"capget",
	"capset",
};

/* signal-witness, of src/trace/witness.c */
static const char *const witness_calls[] = {
	"read", "write", "poll", "ppoll", "restart_syscall", "exit", "exit_group",
};

/* cudatrace-guard: also bpf(), for the rows of a map */
static const char *const guard_calls[] = {
	"poll", "ppoll", "kill", "nanosleep", "clock_nanosleep", "clock_gettime",
};
static const int guard_bpf[] = {BPF_MAP_LOOKUP_BATCH, BPF_MAP_UPDATE_ELEM};

/* cudatrace-late: reads and writes memory of processes. */
static const char *const late_calls[] = {
	"read",
	"pread64",
	"pwrite64",
	"openat",
	"close",
	"lseek",
	"fcntl",
	"fstat",
	"newfstatat",
	"readlink",
	"readlinkat",
	"getdents64",
	/* the tracer, and waits */
	"sendto",
	"recvfrom",
	"poll",
	"ppoll",
	"nanosleep",
	"clock_nanosleep",
	"clock_gettime",
	"mremap",
};

/* fork(), and the filters of the readers. */
static int allow_for_maker(scmp_filter_ctx ctx)
{
	const uint32_t spaces = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC |
				CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;
	int ret = sandbox_allow_if(ctx, SCMP_SYS(clone), 0, spaces | CLONE_VM, 0);

	ret = ret ?: sandbox_allow_calls(ctx, maker_calls, COUNT(maker_calls));
	ret = ret ?: sandbox_allow_if(ctx, SCMP_SYS(prctl), 0, UINT32_MAX, PR_SET_NO_NEW_PRIVS);
	return ret ?: sandbox_allow_if(ctx, SCMP_SYS(prctl), 0, UINT32_MAX, PR_SET_SECCOMP);
}

/* Allows these calls and common_calls. */
static int begin(scmp_filter_ctx *ctx, const char *const *allowed, size_t cnt)
{
	int ret = sandbox_begin(ctx, allowed, cnt);

	return ret ?: sandbox_allow_calls(*ctx, common_calls, COUNT(common_calls));
}

static void drop_caps_but(const int *kept, size_t cnt)
{
	bool keep[64] = {false};

	for (size_t i = 0; i < cnt; i++)
		keep[kept[i]] = true;
	sandbox_drop_caps(keep);
}

static bool no_new_privs(void)
{
	return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

static int filter_reader(bool makes_readers)
{
	scmp_filter_ctx ctx;
	int ret = begin(&ctx, reader_calls, COUNT(reader_calls));

	if (!ret && makes_readers)
		ret = allow_for_maker(ctx);
	ret = ret ?: sandbox_allow_if(ctx, SCMP_SYS(openat), 2, WRITES, O_RDONLY);
	ret = ret ?: sandbox_allow_if(ctx, SCMP_SYS(ioctl), 1, UINT32_MAX, NS_GET_USERNS);
	return sandbox_load(ctx, ret);
}

/* Where this fails it also fails in the tracer, which reports it; a message here would not be seen.
 */
void sandbox__enter_reader(bool makes_readers)
{
	if (makes_readers)
		drop_caps_but(reader_kept, COUNT(reader_kept));
	if (no_new_privs())
		filter_reader(makes_readers);
}

void sandbox__enter_opener(void)
{
	scmp_filter_ctx ctx;
	int ret;

	drop_caps_but(opener_kept, COUNT(opener_kept));
	ret = begin(&ctx, opener_calls, COUNT(opener_calls));
	sandbox_load(ctx, ret);
}

void sandbox__enter_dossiers(void)
{
	drop_caps_but(dossiers_kept, COUNT(dossiers_kept));
	no_new_privs();
}

void sandbox__enter_late(void)
{
	scmp_filter_ctx ctx;
	int ret;

	if (!no_new_privs())
		return;
	drop_caps_but(late_kept, COUNT(late_kept));
	ret = begin(&ctx, late_calls, COUNT(late_calls));
	sandbox_load(ctx, ret);
}

void sandbox__enter_late_server(void)
{
	drop_caps_but(late_server_kept, COUNT(late_server_kept));
	no_new_privs();
}

void sandbox__enter_guard(void)
{
	scmp_filter_ctx ctx;
	int ret;

	drop_caps_but(guard_kept, COUNT(guard_kept));
	if (!no_new_privs())
		return;
	ret = begin(&ctx, guard_calls, COUNT(guard_calls));
	for (size_t i = 0; i < COUNT(guard_bpf); i++)
		ret = ret ?: sandbox_allow_if(ctx, SCMP_SYS(bpf), 0, UINT32_MAX, guard_bpf[i]);
	sandbox_load(ctx, ret);
}

void sandbox__enter_witness(void)
{
	scmp_filter_ctx ctx;
	int ret;

	drop_caps_but(NULL, 0);
	ret = sandbox_begin(&ctx, witness_calls, COUNT(witness_calls));
	sandbox_load(ctx, ret);
}
