/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Calls of the driver that began before its functions were hooked are not counted. A thread is in
 * none if it has made a call since then, or if it waits in the kernel and its stack has no address
 * in the driver's code. The driver's own threads do not count.
 */
#include "gate.h"

#include <fcntl.h>
#include <string.h>
#include <sys/uio.h>

/* A call of the driver needs less of the stack. */
#define STACK_READ (64u << 10)
#define PART	   4096

static bool has_passed(const struct gate *g, uint32_t tid)
{
	uint32_t cnt = __atomic_load_n(&g->passed_cnt, __ATOMIC_ACQUIRE);

	for (uint32_t i = 0; i < cnt && i < GATE_THREADS; i++)
		if (__atomic_load_n(&g->passed[i], __ATOMIC_RELAXED) == tid)
			return true;
	return false;
}

static long read_file(uint32_t tid, const char *name, char *to, size_t size)
{
	char path[64] = "/proc/self/task/";
	size_t len = strlen(path);
	long n, fd;

	len += put_number(path + len, tid, 10);
	strcpy(path + len, name);
	fd = sys(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return fd;
	n = sys(SYS_read, fd, to, size - 1);
	sys(SYS_close, fd);
	to[n > 0 ? n : 0] = 0;
	return n;
}

static bool is_hex(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

/* "cuda-EvtHandlr", "cuda00001400006". */
static bool is_drivers(const char *name)
{
	size_t digits = 0;

	if (strncmp(name, "cuda", 4))
		return false;
	if (!strncmp(name + 4, "-Evt", 4))
		return true;
	while (is_hex(name[4 + digits]))
		digits++;
	return digits >= 8;
}

/* Returns whether a call instruction of the driver is before this address. */
static bool is_return(uint64_t addr)
{
	const uint8_t *at = (const uint8_t *)addr;

	if (!object_has(&inject_lib, at, true, false) ||
	    !object_has(&inject_lib, at - 8, true, false))
		return false;
#ifdef __x86_64__
	for (unsigned len = 2; len <= 7; len++)
		if (at[-(int)len] == 0xff && (at[1 - (int)len] & 0x38) == 0x10)
			return true;
	return at[-5] == 0xe8;
#else
	return true;
#endif
}

static bool stack_has_driver(uint64_t sp)
{
	uint64_t words[PART / 8];

	for (size_t off = 0; off < STACK_READ; off += PART) {
		uint64_t at = (sp & ~7ull) + off;
		struct iovec to = {words, PART}, from = {(void *)at, PART};
		long n = kernel_copy(&to, 1, &from, 1);

		for (long i = 0; i < n / 8; i++)
			if (is_return(words[i]))
				return true;
		if (n < PART)
			return false;
	}
	return false;
}

/* "NUMBER ARGUMENTS SP PC" of a thread in a system call. Returns 0 if it is in none. */
static uint64_t stack_of(const char *text)
{
	uint64_t before = 0, last = 0;

	for (const char *at = text; *at; at++) {
		uint64_t n = 0;

		if (at[0] != '0' || at[1] != 'x')
			continue;
		for (at += 2; is_hex(*at); at++)
			n = n << 4 | (*at <= '9' ? *at - '0' : *at - 'a' + 10);
		before = last;
		last = n;
		at--;
	}
	return before;
}

static bool is_out(uint32_t tid, char who[16])
{
	char text[256];
	uint64_t sp;
	long n = read_file(tid, "/comm", text, sizeof(text));

	if (n == -ENOENT || n == -ESRCH)
		return true;
	memset(who, 0, 16);
	for (unsigned i = 0; i < 15 && text[i] && text[i] != '\n'; i++)
		who[i] = text[i];
	if (is_drivers(who))
		return true;
	n = read_file(tid, "/syscall", text, sizeof(text));
	if (n == -ENOENT || n == -ESRCH)
		return true;
	sp = n > 0 ? stack_of(text) : 0;
	return sp && !stack_has_driver(sp);
}

/* Threads that are out are not looked at again, because their next calls are counted. */
static void pass(struct gate *g, uint32_t tid)
{
	uint32_t i = __atomic_fetch_add(&g->passed_cnt, 1, __ATOMIC_RELAXED);

	if (i < GATE_THREADS)
		__atomic_store_n(&g->passed[i], tid, __ATOMIC_RELEASE);
}

static bool look_at(struct gate *g, const char *name, uint32_t me, char who[16])
{
	uint32_t tid = 0;

	for (; *name >= '0' && *name <= '9'; name++)
		tid = tid * 10 + (*name - '0');
	if (!tid || tid == me || has_passed(g, tid))
		return true;
	if (!is_out(tid, who))
		return false;
	pass(g, tid);
	return true;
}

bool gate_threads_are_out(struct process *p, char who[16])
{
	struct entry {
		uint64_t ino, off;
		uint16_t size;
		uint8_t type;
		char name[];
	};
	char buf[4096] __attribute__((aligned(8)));
	long fd = sys(SYS_openat, AT_FDCWD, "/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	uint32_t me = sys(SYS_gettid);
	bool all = fd >= 0;
	char name[16];
	long n;

	while (fd >= 0 && (n = sys(SYS_getdents64, fd, buf, sizeof(buf))) > 0) {
		for (long at = 0; at < n; at += ((struct entry *)(buf + at))->size) {
			if (look_at(&p->gate, ((struct entry *)(buf + at))->name, me, name))
				continue;
			all = false;
			memcpy(who, name, 16);
		}
	}
	if (fd >= 0)
		sys(SYS_close, fd);
	return all;
}
