/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A program that is expensive to inspect: stall WHAT FOLDER SECONDS [LIBRARY]
 *
 *   fds      40 libraries in the folder, the last with 20,000 descriptors, mapped again and again
 *   deleted  the same, of files that have been removed
 *   mounts   in a mount namespace with 8,192 mounts; needs a user namespace
 *   files    2,000 different libraries, each mapped
 *   threads  300 threads, each maps its own library
 *   forks    children that map their own library and exit, endlessly
 *   lines    LIBRARY is mapped 60,000 times, in 8 processes that have called it
 *   elf      LIBRARY is mapped
 *   hangs    250 threads in each of 4 such processes wait in a call
 *
 * Prints "ready" when it is done with what it does, and stays for the seconds.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *folder, *library;
static time_t end;

static void map(int fd, int prot)
{
	void *at = mmap(NULL, 4096, prot, MAP_PRIVATE, fd, 0);

	if (at != MAP_FAILED)
		munmap(at, 4096);
}

static int new_lib(long n, int deleted)
{
	char path[512];
	int fd;

	snprintf(path, sizeof(path), "%s/libcuda.so.%ld", folder, n);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	if (fd < 0 || ftruncate(fd, 4096)) {
		perror(path);
		exit(1);
	}
	if (deleted)
		unlink(path);
	return fd;
}

static void fds(int deleted)
{
	struct rlimit r;
	int fd = -1, n = 0;

	getrlimit(RLIMIT_NOFILE, &r);
	r.rlim_cur = r.rlim_max < 20000 ? r.rlim_max : 20000;
	setrlimit(RLIMIT_NOFILE, &r);
	for (int i = 0; i < 40; i++) {
		if (fd >= 0)
			close(fd);
		fd = new_lib(i, deleted);
		map(fd, PROT_READ);
		usleep(5000);
	}
	while (dup(fd) >= 0)
		n++;
	for (int i = 0; i < 100; i++)
		map(fd, PROT_READ);
}

static void put(const char *file, const char *text)
{
	int fd = open(file, O_WRONLY);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		perror(file);
	close(fd);
}

static void mounts(void)
{
	int uid = getuid(), gid = getgid();
	char text[64];

	if (unshare(CLONE_NEWUSER | CLONE_NEWNS)) {
		puts("none");
		exit(0);
	}
	put("/proc/self/setgroups", "deny");
	sprintf(text, "0 %d 1", uid);
	put("/proc/self/uid_map", text);
	sprintf(text, "0 %d 1", gid);
	put("/proc/self/gid_map", text);
	mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL);
	if (mount("t", "/mnt", "tmpfs", 0, NULL)) {
		puts("none");
		exit(0);
	}
	for (int i = 0; i < 13; i++) {
		sprintf(text, "/mnt/%d", i);
		mkdir(text, 0755);
		mount("/mnt", text, NULL, MS_BIND | MS_REC, NULL);
	}
	folder = "/mnt";
	for (int i = 0; i < 40; i++) {
		int fd = new_lib(i, 0);

		map(fd, PROT_READ);
		map(fd, PROT_READ | PROT_EXEC);
		close(fd);
	}
}

static void files(void)
{
	for (int i = 0; i < 2000; i++) {
		int fd = new_lib(i, 0);

		if (mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED)
			perror("mmap");
		close(fd);
	}
}

static void *one_thread(void *ctx)
{
	int fd = new_lib((long)ctx, 0);

	for (int i = 0; i < 20; i++)
		map(fd, PROT_READ | PROT_EXEC);
	sleep(30);
	return NULL;
}

static void threads(void)
{
	pthread_t id;

	for (long i = 0; i < 300; i++)
		pthread_create(&id, NULL, one_thread, (void *)i);
	sleep(1);
}

static void forks(void)
{
	for (long n = 0; time(NULL) < end; n++) {
		pid_t pid = fork();

		if (pid) {
			waitpid(pid, NULL, 0);
			continue;
		}
		map(new_lib(n, 0), PROT_READ | PROT_EXEC);
		usleep(1000);
		_exit(0);
	}
}

/* Returns the library, which is mapped many times. */
static void *map_often(void)
{
	void *lib = dlopen(library, RTLD_NOW);
	int fd = open(library, O_RDONLY);

	if (!lib || fd < 0) {
		fprintf(stderr, "%s: %s\n", library, dlerror());
		exit(1);
	}
	for (int i = 0; i < 60000; i++)
		if (mmap(NULL, 4096, i % 2 ? PROT_READ : PROT_READ | PROT_EXEC, MAP_PRIVATE, fd,
			 0) == MAP_FAILED)
			break;
	return lib;
}

static void lines(void)
{
	int (*fn)(int *) = (int (*)(int *))dlsym(map_often(), "cuDriverGetVersion"), version;

	for (int i = 0; i < 8; i++) {
		if (fork())
			continue;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		fn(&version);
		sleep(30);
		_exit(0);
	}
	fn(&version);
}

static void *wait_in_call(void *fn)
{
	((int (*)(void))fn)();
	return NULL;
}

static void hangs(void)
{
	void *lib = map_often(), *fn = dlsym(lib, "cuCtxSynchronize");
	pthread_attr_t small;
	pthread_t id;

	((int (*)(unsigned))dlsym(lib, "cuInit"))(0);
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 65536);
	for (int i = 0; i < 3 && fork(); i++)
		;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (int i = 0; i < 250; i++)
		pthread_create(&id, &small, wait_in_call, fn);
}

static void elf(void)
{
	int fd = open(library, O_RDONLY);

	if (fd < 0 || mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED)
		perror(library);
}

int main(int argc, char **argv)
{
	const char *what = argc > 3 ? argv[1] : "";

	if (!*what)
		return 2;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	folder = argv[2];
	end = time(NULL) + atoi(argv[3]);
	library = argc > 4 ? argv[4] : NULL;
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!strcmp(what, "fds") || !strcmp(what, "deleted"))
		fds(!strcmp(what, "deleted"));
	else if (!strcmp(what, "mounts"))
		mounts();
	else if (!strcmp(what, "files"))
		files();
	else if (!strcmp(what, "threads"))
		threads();
	else if (!strcmp(what, "forks"))
		forks();
	else if (!strcmp(what, "lines"))
		lines();
	else if (!strcmp(what, "hangs"))
		hangs();
	else
		elf();
	puts("ready");
	while (time(NULL) < end)
		usleep(50000);
	return 0;
}
