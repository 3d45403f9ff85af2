/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "late_filter.h"

#include "attach/attach.h"
#include "util/task.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#ifndef SYS_rseq
#define SYS_rseq 334
#endif
#define THREADS_MAX 4096
#define THREAD_FLAGS                                                                               \
	(CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM |        \
	 CLONE_SETTLS | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID)

#ifdef __x86_64__
#define ARCH AUDIT_ARCH_X86_64
#else
#define ARCH AUDIT_ARCH_AARCH64
#endif

/* Calls of the new thread: of late_code.c, of glibc's pthread_create() and dlopen(), and of the
 * library; and those of the library in the program's threads. */
static const struct need {
	const char *name;
	int nr;
	enum {
		MUST,	/* succeed */
		MAY,	/* fail: the caller does without */
		NO_SYS, /* may fail with ENOSYS: the caller has another way */
	} how;
	uint64_t args[6];
} needs[] = {
	{"rt_sigaction", SYS_rt_sigaction, MAY, {33, 0, 0, 8}},
	{"rt_sigprocmask", SYS_rt_sigprocmask, MUST, {SIG_SETMASK, 0, 0, 8}},
	{"mmap", SYS_mmap, MUST, {0, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1ull}},
	{"mmap",
	 SYS_mmap,
	 MUST,
	 {0, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1ull}},
	{"mmap", SYS_mmap, MUST, {0, 1 << 20, PROT_READ, MAP_PRIVATE, 5}},
	{"mmap", SYS_mmap, MUST, {0, 1 << 16, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, 5}},
	{"mmap", SYS_mmap, MUST, {0, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, 5}},
	{"mprotect", SYS_mprotect, MUST, {0, 1 << 20, PROT_READ | PROT_WRITE}},
	{"mprotect", SYS_mprotect, MUST, {0, 1 << 12, PROT_READ}},
	{"munmap", SYS_munmap, MUST, {0, 1 << 20}},
	{"munlock", SYS_munlock, MAY, {0, 1 << 20}},
	{"mremap", SYS_mremap, MAY, {0, 0, 1 << 16, 1 /* MREMAP_MAYMOVE */}},
	{"prlimit64", SYS_prlimit64, MAY, {0, 3 /* RLIMIT_STACK */}},
	{"tgkill", SYS_tgkill, MAY, {2, 2, 0}},
	{"ioctl", SYS_ioctl, MAY, {5, 0xc0686611 /* PROCMAP_QUERY */}},
	{"madvise", SYS_madvise, MAY, {0, 1 << 16, MADV_DONTNEED}},
	{"madvise", SYS_madvise, MUST, {0, 1 << 16, 18 /* MADV_WIPEONFORK */}},
	{"brk", SYS_brk, MUST, {0}},
	{"clone3", SYS_clone3, NO_SYS, {0, 88}},
	{"clone", SYS_clone, MUST, {THREAD_FLAGS}},
	{"set_robust_list", SYS_set_robust_list, MAY, {0, 24}},
	{"rseq", SYS_rseq, MAY, {0, 32}},
	{"sched_setscheduler", SYS_sched_setscheduler, MAY, {0, SCHED_OTHER}},
	{"sched_setaffinity", SYS_sched_setaffinity, MAY, {0, 128}},
	{"sched_getaffinity", SYS_sched_getaffinity, MAY, {0, 128}},
	{"nanosleep", SYS_nanosleep, MUST, {0}},
	{"clock_nanosleep", SYS_clock_nanosleep, MAY, {0}},
	{"clock_gettime", SYS_clock_gettime, MUST, {1}},
	{"prctl", SYS_prctl, MUST, {PR_GET_NAME}},
	{"prctl", SYS_prctl, MUST, {PR_SET_NAME}},
	{"prctl", SYS_prctl, MAY, {PR_GET_TSC}},
	{"getpid", SYS_getpid, MUST, {0}},
	{"gettid", SYS_gettid, MUST, {0}},
	{"getresuid", SYS_getresuid, MAY, {0}},
	{"futex", SYS_futex, MUST, {0, 128}},
	{"futex", SYS_futex, MUST, {0, 129}},
	{"exit", SYS_exit, MUST, {0}},
	{"openat", SYS_openat, MUST, {(uint64_t)AT_FDCWD, 0, O_RDONLY | O_CLOEXEC}},
	{"openat", SYS_openat, MAY, {(uint64_t)AT_FDCWD, 0, O_PATH | O_CLOEXEC}},
	{"openat", SYS_openat, MAY, {(uint64_t)AT_FDCWD, 0, O_WRONLY | O_APPEND | O_CLOEXEC}},
	{"read", SYS_read, MUST, {5, 0, 832}},
	{"write", SYS_write, MAY, {5, 0, 64}},
	{"pread64", SYS_pread64, MUST, {5, 0, 64}},
	{"lseek", SYS_lseek, MAY, {5}},
	{"close", SYS_close, MUST, {5}},
	{"newfstatat", SYS_newfstatat, MUST, {5, 0, 0, AT_EMPTY_PATH}},
	{"fstat", SYS_fstat, MAY, {5}},
	{"faccessat", SYS_faccessat, MAY, {(uint64_t)AT_FDCWD}},
	{"readlinkat", SYS_readlinkat, MAY, {(uint64_t)AT_FDCWD}},
	{"fcntl", SYS_fcntl, MAY, {5, 1034 /* F_GET_SEALS */}},
	{"memfd_create", SYS_memfd_create, MAY, {0, 9}},
	{"memfd_create", SYS_memfd_create, MAY, {0, 3}},
	{"socket", SYS_socket, MUST, {AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC}},
	{"socket", SYS_socket, MUST, {AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK}},
	{"connect", SYS_connect, MUST, {5, 0, 110}},
	{"setsockopt", SYS_setsockopt, MAY, {5, SOL_SOCKET, SO_RCVTIMEO, 0, 16}},
	{"getsockopt", SYS_getsockopt, MAY, {5, SOL_SOCKET, SO_PEERCRED}},
	{"sendto", SYS_sendto, MUST, {5, 0, 544, MSG_NOSIGNAL}},
	{"recvmsg", SYS_recvmsg, MUST, {5, 0, MSG_CMSG_CLOEXEC}},
	{"process_vm_readv", SYS_process_vm_readv, MAY, {0, 0, 1, 0, 1}},
};

/* Reads a word of the call's description. A filter that depends on the instruction pointer cannot
 * be simulated. */
static bool load(const struct seccomp_data *d, uint32_t at, uint32_t *to)
{
	if (at % 4 || at > sizeof(*d) - 4 ||
	    (at >= offsetof(struct seccomp_data, instruction_pointer) &&
	     at < offsetof(struct seccomp_data, args)))
		return false;
	memcpy(to, (const char *)d + at, 4);
	return true;
}

static uint32_t alu(uint16_t op, uint32_t a, uint32_t v)
{
	switch (op) {
	case BPF_ADD:
		return a + v;
	case BPF_SUB:
		return a - v;
	case BPF_MUL:
		return a * v;
	case BPF_DIV:
		return v ? a / v : 0;
	case BPF_OR:
		return a | v;
	case BPF_AND:
		return a & v;
	case BPF_XOR:
		return a ^ v;
	case BPF_LSH:
		return a << (v & 31);
	case BPF_RSH:
		return a >> (v & 31);
	default:
		return -a;
	}
}

static bool jumps(uint16_t op, uint32_t a, uint32_t v)
{
	switch (op) {
	case BPF_JEQ:
		return a == v;
	case BPF_JGT:
		return a > v;
	case BPF_JGE:
		return a >= v;
	default:
		return a & v;
	}
}

/* Classic BPF, as in seccomp_check_filter() of the kernel: jumps lead forward only. Returns the
 * filter's answer; SECCOMP_RET_KILL_PROCESS if it is unknown. */
static uint32_t run(const struct sock_filter *code, unsigned len, const struct seccomp_data *d)
{
	uint32_t a = 0, x = 0, mem[BPF_MEMWORDS] = {0};

	for (uint64_t i = 0; i < len; i++) {
		const struct sock_filter *s = &code[i];
		uint16_t class = BPF_CLASS(s->code), op = BPF_OP(s->code);
		uint32_t v = BPF_SRC(s->code) == BPF_X ? x : s->k, *to = class == BPF_LD ? &a : &x;

		if (class == BPF_LD || class == BPF_LDX) {
			if (BPF_MODE(s->code) == BPF_IMM)
				*to = s->k;
			else if (BPF_MODE(s->code) == BPF_LEN)
				*to = sizeof(*d);
			else if (BPF_MODE(s->code) == BPF_MEM)
				*to = mem[s->k % BPF_MEMWORDS];
			else if (BPF_MODE(s->code) != BPF_ABS || !load(d, s->k, to))
				break;
		} else if (class == BPF_ST || class == BPF_STX) {
			mem[s->k % BPF_MEMWORDS] = class == BPF_ST ? a : x;
		} else if (class == BPF_ALU) {
			a = alu(op, a, v);
		} else if (class == BPF_JMP) {
			i += op == BPF_JA ? s->k : jumps(op, a, v) ? s->jt : s->jf;
		} else if (class == BPF_RET) {
			return BPF_RVAL(s->code) == BPF_A ? a : s->k;
		} else if (BPF_MISCOP(s->code) == BPF_TAX) {
			x = a;
		} else {
			a = x;
		}
	}
	return SECCOMP_RET_KILL_PROCESS;
}

const char *late_filter__harms(const struct sock_filter *code, unsigned len)
{
	for (unsigned i = 0; i < sizeof(needs) / sizeof(needs[0]); i++) {
		const struct need *n = &needs[i];
		struct seccomp_data d = {.nr = n->nr, .arch = ARCH};
		uint32_t answer, action;

		memcpy(d.args, n->args, sizeof(d.args));
		answer = run(code, len, &d);
		action = answer & SECCOMP_RET_ACTION_FULL;
		if (action == SECCOMP_RET_ALLOW || action == SECCOMP_RET_LOG)
			continue;
		if (action != SECCOMP_RET_ERRNO || n->how == MUST ||
		    (n->how == NO_SYS && (answer & SECCOMP_RET_DATA) != ENOSYS))
			return n->name;
	}
	return NULL;
}

/* Of one thread. Strict mode has no filter that allows anything. Before Linux 5.9 the number is
 * missing. */
unsigned late_filter__in(const char *status)
{
	const char *at = strstr(status, "\nSeccomp:\t"), *cnt;

	cnt = strstr(status, "\nSeccomp_filters:\t");
	if (!at || at[10] == '0')
		return 0;
	return at[10] == '1' ? UINT32_MAX : cnt ? strtoul(cnt + 18, NULL, 10) : 1;
}

/* Calls fn for each thread, until it returns false. */
static void each_thread(pid_t pid, bool (*fn)(void *ctx, pid_t tid), void *ctx)
{
	char path[32];
	struct dirent *de;
	bool goes_on = true;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	dir = opendir(path);
	while (dir && goes_on && (de = readdir(dir)))
		if (isdigit((unsigned char)de->d_name[0]))
			goes_on = fn(ctx, atoi(de->d_name));
	if (dir)
		closedir(dir);
}

struct count_ctx {
	pid_t pid;
	unsigned max, min;
};

static bool add_count(void *ctx, pid_t tid)
{
	struct count_ctx *c = ctx;
	char text[4096];
	unsigned cnt;

	if (!task_read(c->pid, tid, "status", text, sizeof(text)))
		return true;
	cnt = late_filter__in(text);
	c->max = cnt > c->max ? cnt : c->max;
	c->min = cnt < c->min ? cnt : c->min;
	return true;
}

unsigned late_filter__count(pid_t pid, unsigned *least)
{
	struct count_ctx c = {.pid = pid, .min = UINT32_MAX};

	each_thread(pid, add_count, &c);
	*least = c.min;
	return c.max;
}

struct check_ctx {
	struct attach *a;
	struct ct_filter *f;
	unsigned thread_cnt;
	const char *why;
};

/* tid 0: any thread. *differ: others have other filters. */
static const char *check_chain(struct attach *a, struct ct_filter *f, pid_t tid, bool *differ)
{
	static char text[200];
	const char *call;

	f->tid = tid;
	for (f->nth = 0; f->nth < CT_FILTERS_MAX; f->nth++) {
		if (!attach__filter(a, f) || f->len == CT_FILTER_UNREADABLE)
			return "it filters system calls (seccomp), and this kernel does not let the "
			       "filters be read; use --probe=uprobe";
		*differ = f->differ;
		if (f->len == CT_FILTER_NONE)
			return NULL;
		call = late_filter__harms((const struct sock_filter *)f->code, f->len);
		if (!call)
			continue;
		snprintf(
			text, sizeof(text),
			"it filters system calls (seccomp) and forbids %s, which loading a library "
			"needs; use --probe=uprobe",
			call);
		return text;
	}
	return "it has too many system call filters (seccomp); use --probe=uprobe";
}

static bool check_thread(void *ctx, pid_t tid)
{
	struct check_ctx *c = ctx;
	bool differ;

	c->why = c->thread_cnt++ < THREADS_MAX
			 ? check_chain(c->a, c->f, tid, &differ)
			 : "its threads have different system call filters (seccomp); use "
			   "--probe=uprobe";
	return !c->why;
}

const char *late_filter__check(struct attach *a, pid_t pid, unsigned *cnt)
{
	struct check_ctx c = {.a = a};
	bool differ = false;
	unsigned least;

	*cnt = late_filter__count(pid, &least);
	if (!*cnt)
		return NULL;
	if (*cnt == UINT32_MAX)
		return "it is in seccomp's strict mode; use --probe=uprobe";
	c.f = calloc(1, sizeof(*c.f));
	if (!c.f)
		return "out of memory; close other programs";
	c.f->pid = pid;
	c.why = check_chain(a, c.f, 0, &differ);
	if (!c.why && differ)
		each_thread(pid, check_thread, &c);
	free(c.f);
	return c.why;
}
