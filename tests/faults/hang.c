/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A program of user 65534 with a FUSE mount of its own, made as fusermount3 does it (in the initial
 * user namespace). Its server answers only this program: any other process that reads the
 * program's mappings waits until the connection is aborted.
 *
 *   hang WHAT FOLDER LIBRARY    run as root; it mounts on FOLDER, in its own mount namespace
 *
 *   handle  the pages of a CUfunction and of its name are in the mount
 *   args    its arguments and environment are in the mount
 *   perf    its perf map is in the mount, and the calls come from code without a file
 *   lib     its libcuda is in the mount
 *   maps    one of its threads holds the lock of its memory and waits for the server
 *   waits   the same, but its sleep can be interrupted (state S), and no thread waits behind it
 *   waits32 like waits, but the system call is a 32-bit one (x86)
 *   forks   like maps, without the library; the thread behind it waits in fork()
 *   exec    from the line on stdin on, it is in execve() and waits for the server
 *   later   like maps, but from the line on stdin on
 *
 * Prints "ready MINOR PID" (MINOR: of /sys/fs/fuse/connections), waits for a line, makes its calls,
 * prints "made", and stays until its stdin ends.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define NOBODY	   65534
#define HELD_MAX_S 40
#if defined(__x86_64__)
#define MAP_LOW MAP_32BIT
#else
#define MAP_LOW 0
#endif

static const char *what, *folder, *library;
static int fuse_fd, lib_fd;
static void *lib; /* the program's libcuda */
static pid_t client;
static uint64_t lib_size;

static bool is(const char *name)
{
	return !strcmp(what, name);
}

static bool is_waits(void)
{
	return is("waits") || is("waits32");
}

static bool is_held(void)
{
	return is("maps") || is("forks") || is_waits();
}

static void die(const char *why)
{
	fprintf(stderr, "hang: %s: %s\n", why, strerror(errno));
	exit(2);
}

/* The server */

static void reply(uint64_t id, int error, const void *data, size_t size)
{
	static char buf[(1 << 20) + 64];
	struct fuse_out_header *h = (void *)buf;

	*h = (struct fuse_out_header){.len = sizeof(*h) + size, .error = -error, .unique = id};
	if (size)
		memcpy(h + 1, data, size);
	(void)!write(fuse_fd, buf, h->len);
}

static struct fuse_attr attr(uint64_t node)
{
	return (struct fuse_attr){
		.ino = node,
		.nlink = 1,
		.blksize = 4096,
		.uid = NOBODY,
		.gid = NOBODY,
		.mode = node == 1 ? S_IFDIR | 0755 : S_IFREG | 0644,
		.size = node == 1 ? 0 : lib_size,
	};
}

static void serve_read(const struct fuse_in_header *h)
{
	const struct fuse_read_in *in = (const void *)(h + 1);
	static char data[1 << 20];
	ssize_t n =
		pread(lib_fd, data, in->size < sizeof(data) ? in->size : sizeof(data), in->offset);

	reply(h->unique, n < 0 ? EIO : 0, data, n < 0 ? 0 : n);
}

static void serve_one(const struct fuse_in_header *h)
{
	struct fuse_entry_out entry = {.nodeid = 2, .attr = attr(2)};
	struct fuse_attr_out got = {.attr = attr(h->nodeid)};
	struct fuse_open_out opened = {0};
	struct fuse_init_out init = {
		.major = 7,
		.minor = 31,
		.max_write = 4096,
		.flags = is_waits() ? FUSE_WRITEBACK_CACHE : 0,
	};
	struct fuse_write_out written = {.size = 4096};

	switch (h->opcode) {
	case FUSE_INIT:
		reply(h->unique, 0, &init, sizeof(init));
		return;
	case FUSE_LOOKUP:
		reply(h->unique, 0, &entry, sizeof(entry));
		return;
	case FUSE_GETATTR:
		reply(h->unique, 0, &got, sizeof(got));
		return;
	case FUSE_OPEN:
	case FUSE_OPENDIR:
		reply(h->unique, 0, &opened, sizeof(opened));
		return;
	case FUSE_READ:
		/* These pages are never delivered. */
		if (!is("handle") && !is("args"))
			serve_read(h);
		return;
	case FUSE_WRITE:
		if (is_waits())
			reply(h->unique, 0, &written, sizeof(written));
		return;
	case FUSE_SETATTR:
		/* Last of all: the times of the page's file. */
		if (is_waits())
			(void)!write(1, "held\n", 5);
		else
			reply(h->unique, ENOSYS, NULL, 0);
		return;
	case FUSE_FORGET:
	case FUSE_BATCH_FORGET:
	case FUSE_INTERRUPT:
		return;
	case FUSE_FLUSH:
		if (!is("exec"))
			reply(h->unique, 0, NULL, 0);
		return;
	case FUSE_RELEASE:
	case FUSE_ACCESS:
		reply(h->unique, 0, NULL, 0);
		return;
	default:
		reply(h->unique, ENOSYS, NULL, 0);
	}
}

static void serve(void)
{
	static char buf[1 << 20];
	const struct fuse_in_header *h = (const void *)buf;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* If anything waits for that lock in spite of all, every fork() of the machine waits, too.
	 * So the connection ends with this process, without starting another. */
	if (is_held() || is("later"))
		alarm(HELD_MAX_S);
	for (;;) {
		ssize_t n = read(fuse_fd, buf, sizeof(buf));

		if (n < 0 && errno != EINTR)
			_exit(0);
		if (n < 0)
			continue;
		/* 0: the kernel itself. A thread has its own number. */
		if (h->opcode == FUSE_INIT || !h->pid || h->pid == (uint32_t)client ||
		    !access((snprintf(buf + sizeof(buf) - 64, 64, "/proc/%d/task/%u", client,
				      h->pid),
			     buf + sizeof(buf) - 64),
			    F_OK))
			serve_one(h);
		else
			fprintf(stderr, "hang: request %u of process %u: never answered\n",
				h->opcode, h->pid);
	}
}

static void mount_it(void)
{
	char options[200];

	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
		die("unshare");
	fuse_fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	snprintf(options, sizeof(options),
		 "fd=%d,rootmode=40000,user_id=%d,group_id=%d,allow_other", fuse_fd, NOBODY,
		 NOBODY);
	if (mount("hang", folder, "fuse", MS_NOSUID | MS_NODEV, options))
		die("mount");
	/* The folder where perf maps are looked up. */
	if (is("perf") && mount(folder, "/tmp", NULL, MS_BIND, NULL))
		die("/tmp");
	if (is("perf"))
		folder = "/tmp";
	client = getpid();
	if (!fork()) {
		if (setresgid(NOBODY, NOBODY, NOBODY) || setresuid(NOBODY, NOBODY, NOBODY))
			_exit(2);
		serve();
	}
	if (setgroups(0, NULL) || setresgid(NOBODY, NOBODY, NOBODY) ||
	    setresuid(NOBODY, NOBODY, NOBODY))
		die("setuid");
	close(fuse_fd);
}

/* The client */

static int open_file(const char *name, int flags)
{
	char path[4096];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	fd = open(path, flags | O_CLOEXEC);
	if (fd < 0)
		die(path);
	return fd;
}

static void *map_page(void *at)
{
	int fd = open_file("page", O_RDONLY);
	void *page = mmap(at, 4096, PROT_READ, MAP_PRIVATE | (at ? MAP_FIXED : 0), fd, 0);

	if (page == MAP_FAILED)
		die("mmap");
	close(fd);
	return page;
}

typedef int (*call_fn)(void);

static void make_calls(void)
{
	int (*get_function)(uint64_t *, uint64_t, const char *) = dlsym(lib, "cuModuleGetFunction");
	int (*launch)(uint64_t, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
		      unsigned, void *, void **, void **) = dlsym(lib, "cuLaunchKernel");
	call_fn synchronize = (call_fn)dlsym(lib, "cuCtxSynchronize");
	uint64_t *next = dlsym(lib, "next_handle"), got;
	static struct {
		uint64_t what, name;
	} handle;

	synchronize();
	if (is("handle")) {
		handle.name = (uintptr_t)map_page(NULL);
		for (int i = 0; i < 2; i++) {
			*next = i ? (uintptr_t)&handle : (uintptr_t)map_page(NULL);
			get_function(&got, 1, "kernel");
			launch(*next, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
		}
	}
	if (is("perf")) {
		/* push %rbp; mov %rsp,%rbp; call *%rdi; pop %rbp; ret */
		static const uint8_t code[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3};
		void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
				  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		memcpy(page, code, sizeof(code));
		((int (*)(call_fn))page)(synchronize);
	}
	synchronize();
}

static char *args_page, *args_end;

static void cover_args(void)
{
	for (char *at = args_page; at < args_end; at += 4096)
		map_page(at);
}

static char *dirty;
static int later[2];

static void unmap(void *page)
{
#if defined(__x86_64__)
	/* The number of the 32-bit call is that of the 64-bit fchmod(). */
	long ret = 91;

	if (is("waits32")) {
		__asm__ volatile("int $0x80" : "+a"(ret) : "b"(page), "c"(4096l) : "memory");
		return;
	}
#endif
	munmap(page, 4096);
}

/* One thread waits in munmap() for the server to take a page, one behind it for the lock. */
static void *hold_lock(void *second)
{
	char byte;

	if (is("later") && read(later[0], &byte, 1) != 1)
		return NULL;
	if (second) {
		usleep(800000);
		if (is("forks") && !syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0))
			_exit(0);
		mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	} else {
		usleep(500000);
		unmap(dirty);
	}
	return NULL;
}

static void map_dirty(void)
{
	pthread_t t;

	dirty = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | (is("waits32") ? MAP_LOW : 0),
		     open_file("page", O_RDWR), 0);
	if (dirty == MAP_FAILED)
		die("mmap");
	*dirty = 1;
	/* No other thread can be made then either. */
	pthread_create(&t, NULL, hold_lock, NULL);
	if (!is_waits())
		pthread_create(&t, NULL, hold_lock, dirty);
}

static void *run(void *minor)
{
	char line[100], path[4096];
	int len = snprintf(line, sizeof(line), "ready %u %d\n", *(unsigned *)minor, getpid());

	snprintf(path, sizeof(path), "%s/libcuda.so.1", folder);
	if (is_held())
		usleep(1500000);
	/* Not dprintf(): it allocates, and no thread of "maps" can have memory now. */
	if (write(1, line, len) != len)
		die("write");
	if (read(0, line, 1) != 1)
		_exit(0);
	if (is("lib") && !(lib = dlopen(path, RTLD_NOW)))
		die("dlopen");
	if (is("args"))
		cover_args();
	if (is("exec") && write(later[1], "x", 1) == 1)
		pause();
	if (is("later"))
		(void)!write(later[1], "xx", 2);
	else if (!is_held())
		make_calls();
	if (write(1, "made\n", 5) != 5)
		die("write");
	while (read(0, line, sizeof(line)) > 0)
		;
	_exit(0);
}

/* The kernel closes the file in execve(). The main thread calls it: the server ends with it. */
static void run_another(void)
{
	char byte;

	if (read(later[0], &byte, 1) != 1)
		return;
	open_file("page", O_RDONLY);
	(void)!write(1, "made\n", 5);
	execlp("cat", "cat", NULL);
	die("cat");
}

int main(int argc, char **argv, char **envp)
{
	unsigned minor_nr;
	struct stat st;
	pthread_t t;

	if (argc != 4)
		return 2;
	what = strdup(argv[1]);
	folder = strdup(argv[2]);
	library = strdup(argv[3]);
	args_page = (char *)((uintptr_t)argv[0] & ~4095ul);
	while (*envp)
		args_end = *envp++;
	lib_fd = open(library, O_RDONLY | O_CLOEXEC);
	if (lib_fd < 0 || fstat(lib_fd, &st))
		die(library);
	lib_size = st.st_size;
	/* Under the mount it may not be found. */
	if (!is("lib") && !is("forks") && !(lib = dlopen(library, RTLD_NOW)))
		die("dlopen");
	mount_it();
	if (stat(folder, &st))
		die(folder);
	minor_nr = minor(st.st_dev);
	if (pipe(later))
		die("pipe");
	if (pthread_create(&t, NULL, run, &minor_nr))
		die("thread");
	if (is_held() || is("later"))
		map_dirty();
	if (is("exec"))
		run_another();
	for (;;)
		pause();
}
