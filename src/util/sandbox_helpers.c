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
static const int late_kept[] = {CAP_SYS_PTRACE, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH,
				CAP_CHECKPOINT_RESTORE};

/* To read processes, and to act as their owners. */
static const int dossiers_kept[] = {CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH, CAP_SETUID, CAP_SETGID,
				    CAP_KILL};

/* Stopped processes of any user, and a map of the tracer's. */
static const int guard_kept[] = {CAP_KILL, CAP_BPF};

/* To act as the owner of files; root's own rights for root's files. */
static const int opener_kept[] = {CAP_SETUID, CAP_SETGID, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH};

/* cudatrace-read: opens for reading, copies to memory, passes descriptors. */
static const char *const reader_calls[] = {
	/* memory */
	"brk",
	"mmap",
	"munmap",
	"mremap",
	"mprotect",
	"madvise",
	"futex",
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
	"rt_sigreturn",
	"sigaltstack", /* AddressSanitizer */
	"restart_syscall",
	"exit",
	"exit_group",
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
	/* memory, AddressSanitizer */
	"brk",
	"mmap",
	"munmap",
	"mprotect",
	"madvise",
	"futex",
	"sigaltstack",
	"rt_sigreturn",
	"restart_syscall",
	"exit",
	"exit_group",
};

/* signal-witness, of src/trace/witness.c */
static const char *const witness_calls[] = {
	"read", "write", "poll", "ppoll", "restart_syscall", "exit", "exit_group",
};

/* cudatrace-guard: also bpf(), for the rows of a map */
static const char *const guard_calls[] = {
	"poll",
	"ppoll",
	"kill",
	"nanosleep",
	"clock_nanosleep",
	"clock_gettime",
	/* memory, AddressSanitizer */
	"brk",
	"mmap",
	"munmap",
	"mprotect",
	"madvise",
	"futex",
	"sigaltstack",
	"rt_sigreturn",
	"restart_syscall",
	"exit",
	"exit_group",
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
	/* memory, AddressSanitizer */
	"brk",
	"mmap",
	"munmap",
	"mremap",
	"mprotect",
	"madvise",
	"futex",
	"sigaltstack",
	"rt_sigreturn",
	"restart_syscall",
	"exit",
	"exit_group",
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

static int filter_reader(bool makes_readers)
{
	scmp_filter_ctx ctx;
	int ret = sandbox_begin(&ctx, reader_calls, COUNT(reader_calls));

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
	bool keep[64] = {false};

	for (size_t i = 0; i < COUNT(reader_kept); i++)
		keep[reader_kept[i]] = true;
	if (makes_readers)
		sandbox_drop_caps(keep);
	if (!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		filter_reader(makes_readers);
}

static void enter(const bool keep[64], const char *const *allowed, size_t cnt)
{
	scmp_filter_ctx ctx;
	int ret;

	sandbox_drop_caps(keep);
	ret = sandbox_begin(&ctx, allowed, cnt);
	sandbox_load(ctx, ret);
}

void sandbox__enter_opener(void)
{
	bool keep[64] = {false};

	for (size_t i = 0; i < COUNT(opener_kept); i++)
		keep[opener_kept[i]] = true;
	enter(keep, opener_calls, COUNT(opener_calls));
}

void sandbox__enter_dossiers(void)
{
	bool keep[64] = {false};

	for (size_t i = 0; i < COUNT(dossiers_kept); i++)
		keep[dossiers_kept[i]] = true;
	sandbox_drop_caps(keep);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

void sandbox__enter_late(void)
{
	bool keep[64] = {false};

	for (size_t i = 0; i < COUNT(late_kept); i++)
		keep[late_kept[i]] = true;
	if (!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		enter(keep, late_calls, COUNT(late_calls));
}

void sandbox__enter_late_server(void)
{
	bool keep[64] = {[CAP_SYS_ADMIN] = true, [CAP_BPF] = true, [CAP_KILL] = true};

	for (size_t i = 0; i < COUNT(late_kept); i++)
		keep[late_kept[i]] = true;
	sandbox_drop_caps(keep);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

void sandbox__enter_guard(void)
{
	bool keep[64] = {false};
	scmp_filter_ctx ctx;
	int ret;

	for (size_t i = 0; i < COUNT(guard_kept); i++)
		keep[guard_kept[i]] = true;
	sandbox_drop_caps(keep);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return;
	ret = sandbox_begin(&ctx, guard_calls, COUNT(guard_calls));
	for (size_t i = 0; i < COUNT(guard_bpf); i++)
		ret = ret ?: sandbox_allow_if(ctx, SCMP_SYS(bpf), 0, UINT32_MAX, guard_bpf[i]);
	sandbox_load(ctx, ret);
}

void sandbox__enter_witness(void)
{
	const bool keep[64] = {false};

	enter(keep, witness_calls, COUNT(witness_calls));
}
