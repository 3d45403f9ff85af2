/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "changed_code.h"

#include "mmap_lock.h"

#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "util/clock.h"

#define ALL_NS 1000000000ull
/* A process for which ours waits so long is left out. */
#define WAIT_MS 20
/* At least the longest instruction. */
#define CODE_SZ 16
#define INT3	0xcc
/* Bits of /proc/PID/pagemap. */
#define PAGE_PRESENT (1ull << 63 | 1ull << 62)
#define PAGE_OF_FILE (1ull << 61)

struct scan {
	int fd;
	const uint64_t *offs;
	unsigned cnt;
	struct stat st;
};

/* Shared with the process that examines. */
struct found {
	pid_t at; /* process being examined */
	pid_t by; /* the first that has changed code */
	bool changed[];
};

static int open_of(pid_t pid, const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	return open(path, O_RDONLY | O_CLOEXEC);
}

/* A breakpoint of the kernel or a debugger is not a change. */
static bool is_same(const uint8_t *now, const uint8_t *was)
{
	for (unsigned i = 0; i < CODE_SZ; i++)
		if (now[i] != was[i] && now[i] != INT3)
			return false;
	return true;
}

static void compare(const struct scan *s, pid_t pid, int mem, uint64_t begin, uint64_t end,
		    uint64_t off, volatile struct found *found)
{
	uint64_t page, page_sz = sysconf(_SC_PAGESIZE);
	uint8_t now[CODE_SZ], was[CODE_SZ];
	int pages = open_of(pid, "pagemap");

	for (unsigned i = 0; i < s->cnt && pages >= 0; i++) {
		uint64_t at = begin + s->offs[i] - off;

		if (s->offs[i] < off || at >= end)
			continue;
		/* Only pages that the process has changed: others are not read into memory. */
		if (pread(pages, &page, sizeof(page), at / page_sz * sizeof(page)) !=
			    sizeof(page) ||
		    !(page & PAGE_PRESENT) || page & PAGE_OF_FILE)
			continue;
		if (pread(mem, now, CODE_SZ, at) != CODE_SZ ||
		    pread(s->fd, was, CODE_SZ, s->offs[i]) != CODE_SZ || is_same(now, was))
			continue;
		found->changed[i] = true;
		found->by = found->by ?: pid;
	}
	if (pages >= 0)
		close(pages);
}

/* Returns whether the process executes a static program. */
static bool is_static(pid_t pid)
{
	int fd = open_of(pid, "exe");
	bool is_static = false;
	Elf64_Ehdr head;
	Elf64_Phdr ph;

	if (fd < 0)
		return false;
	if (pread(fd, &head, sizeof(head), 0) == sizeof(head) &&
	    !memcmp(head.e_ident, ELFMAG, SELFMAG) && head.e_phentsize == sizeof(ph)) {
		is_static = true;
		for (unsigned i = 0; is_static && i < head.e_phnum; i++)
			is_static = pread(fd, &ph, sizeof(ph), head.e_phoff + i * sizeof(ph)) ==
					    sizeof(ph) &&
				    ph.p_type != PT_INTERP;
	}
	close(fd);
	return is_static;
}

/* valgrind and DynamoRIO read the program's code and run a translation of it, also of a breakpoint.
 * The program that a process under valgrind executes is a tool of valgrind: static, which no other
 * program that maps libcuda is, and in a folder of that name, or it has made the program load its
 * library. Any other program may be in such a folder, or map such files. */
static bool is_valgrind(pid_t pid, bool has_preload)
{
	char path[64], exe[4096];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	n = readlink(path, exe, sizeof(exe) - 1);
	exe[n > 0 ? n : 0] = '\0';
	return (has_preload || strstr(exe, "/valgrind/")) && is_static(pid);
}

static bool is_dynamorio(const char *line, const char *perms)
{
	return perms[2] == 'x' && strstr(line, "/libdynamorio.so");
}

static void set_all(const struct scan *s, pid_t pid, volatile struct found *found)
{
	for (unsigned i = 0; i < s->cnt; i++)
		found->changed[i] = true;
	found->by = found->by ?: pid;
}

static void look_at(const struct scan *s, pid_t pid, volatile struct found *found)
{
	bool translated = false, has_preload = false;
	uint64_t begin, end, off, ino;
	char path[64], perms[5], *line = NULL;
	int mem = -1;
	size_t size = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	f = fopen(path, "re");
	/* Devices are not compared: on btrfs and overlayfs maps and stat differ. */
	while (f && getline(&line, &size, f) >= 0) {
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %*s %" SCNu64, &begin,
			   &end, perms, &off, &ino) != 5)
			continue;
		translated |= is_dynamorio(line, perms);
		has_preload |= strstr(line, "/vgpreload_core-") != NULL;
		if (ino != s->st.st_ino || perms[2] != 'x')
			continue;
		mem = mem < 0 ? open_of(pid, "mem") : mem;
		if (mem >= 0)
			compare(s, pid, mem, begin, end, off, found);
	}
	free(line);
	if (f)
		fclose(f);
	if (mem >= 0)
		close(mem);
	if (mem >= 0 && (translated || is_valgrind(pid, has_preload)))
		set_all(s, pid, found);
}

/* Continues behind the process found->at. */
static void __attribute__((noreturn))
look_at_all(const struct scan *s, pid_t ours, pid_t only, volatile struct found *found)
{
	pid_t after = found->at;
	DIR *dir = only ? NULL : opendir("/proc");
	struct dirent *e;

	if (only && only > after) {
		found->at = only;
		look_at(s, only, found);
	}
	/* In ascending order. */
	while (dir && (e = readdir(dir))) {
		pid_t pid = atoi(e->d_name);

		if (pid <= after || pid == ours || pid == getpid())
			continue;
		found->at = pid;
		look_at(s, pid, found);
	}
	if (dir)
		closedir(dir);
	_exit(0);
}

/* Returns whether the process that examines has ended by itself, or there is no more time. */
static bool await(pid_t pid, const volatile struct found *found, uint64_t end)
{
	const struct timespec pause = {.tv_nsec = 1000000};
	struct waiter w = {.pid = pid, .tid = pid};
	pid_t at = found->at;

	for (unsigned waits = 0; waits < WAIT_MS && now_ns() < end; at = found->at) {
		if (waitpid(pid, NULL, WNOHANG))
			return true;
		nanosleep(&pause, NULL);
		waits = mmap_waiter__is_still(&w) && found->at == at ? waits + 1 : 0;
	}
	kill(pid, SIGKILL);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return now_ns() >= end;
}

pid_t changed_code__find(int fd, pid_t pid, const uint64_t *offs, unsigned cnt, bool *changed)
{
	struct scan s = {.fd = fd, .offs = offs, .cnt = cnt};
	size_t size = sizeof(struct found) + cnt;
	uint64_t end = now_ns() + ALL_NS;
	struct found *found;
	pid_t by, child;

	memset(changed, 0, cnt);
	if (!cnt || fstat(fd, &s.st))
		return 0;
	found = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (found == MAP_FAILED)
		return 0;
	do {
		child = fork();
		if (!child)
			look_at_all(&s, getppid(), pid, found);
	} while (child > 0 && !await(child, found, end));
	memcpy(changed, found->changed, cnt);
	by = found->by;
	munmap(found, size);
	return by;
}
