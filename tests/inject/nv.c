/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Part of a mock for one of NVIDIA's libraries: makes system calls on files that tests use as
 * devices, at the worst moments. Prints the number of each.
 *
 *   nv PART FILE    FILE is called nvidiactl
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define CONTROL 0xc020462au /* NV_ESC_RM_CONTROL, 32 bytes */

int cuDriverGetVersion(int *version);
int cuInit(unsigned flags);

static const char *path;
static int dev;
static volatile sig_atomic_t of_handler;
static char block[32];

static void check(int is_so, const char *what)
{
	if (is_so)
		return;
	fprintf(stderr, "nv: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void call(void)
{
	int version;

	check(!cuDriverGetVersion(&version), "cuDriverGetVersion");
}

/* A regular file has no ioctls. */
static void control(void)
{
	check(ioctl(dev, CONTROL, block) == -1 && errno == ENOTTY, "ioctl");
}

static void on_alarm(int sig)
{
	int err = errno;

	control();
	of_handler++;
	errno = err;
}

static void alarms(int flags)
{
	struct sigaction sa = {.sa_handler = on_alarm, .sa_flags = SA_RESTART | flags};
	struct itimerval often = {{0, 50}, {0, 50}};

	sigaction(SIGALRM, &sa, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
}

/* Signal handlers run in the middle of everything. */
static long storm(int flags)
{
	struct itimerval never = {0};
	long cnt = 0;

	alarms(flags);
	while (cnt < 20000 || of_handler < 200) {
		control();
		cnt++;
		if (cnt % 4 == 0)
			call();
	}
	setitimer(ITIMER_REAL, &never, NULL);
	return cnt + of_handler;
}

static void *three(void *arg)
{
	for (int i = 0; i < 3; i++)
		control();
	return NULL;
}

static long threads(void)
{
	pthread_t t[8];

	for (int i = 0; i < 100; i++) {
		for (int k = 0; k < 8; k++)
			check(!pthread_create(&t[k], NULL, three, NULL), "thread");
		for (int k = 0; k < 8; k++)
			pthread_join(t[k], NULL);
	}
	return 100 * 8 * 3;
}

/* errno is unchanged, or set by libc. */
static long errnos(void)
{
	void *p;

	errno = 77;
	p = mmap(NULL, 4096, PROT_READ, MAP_SHARED, dev, 0);
	check(p != MAP_FAILED && errno == 77, "mmap");
	munmap(p, 4096);
	errno = 78;
	check(close(open(path, O_RDONLY)) == 0 && errno == 78, "open, close");
	check(close(-1) == -1 && errno == EBADF, "close of nothing");
	check(open((char *)8, O_RDONLY) == -1 && errno == EFAULT, "open of a bad path");
	check(open("/dev/nvidia-none", O_RDONLY) == -1 && errno == ENOENT, "open of nothing");
	check(ioctl(-1, CONTROL, block) == -1 && errno == EBADF, "ioctl of nothing");
	check(ioctl(dev, CONTROL, (void *)8) == -1 && errno == ENOTTY, "ioctl of a bad pointer");
	return 1;
}

static void in_child(int calls)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		if (calls)
			call();
		control();
		_exit(0);
	}
	waitpid(pid, &status, 0);
	check(!status, "child");
}

/* A child is traced from its first call on. */
static long forks(void)
{
	in_child(0);
	control();
	in_child(1);
	in_child(0);
	return 2;
}

static sigjmp_buf back;
static volatile sig_atomic_t may_leave;

static void on_leave(int sig)
{
	if (may_leave)
		siglongjmp(back, 1);
}

/* A handler leaves at any instruction. */
static long leaves(void)
{
	struct sigaction sa = {.sa_handler = on_leave};
	struct itimerval often = {{0, 70}, {0, 70}}, never = {0};
	volatile long cnt = 0, left = 0;

	sigaction(SIGALRM, &sa, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	while (left < 300) {
		if (sigsetjmp(back, 1)) {
			left++;
			continue;
		}
		may_leave = 1;
		for (int i = 0; i < 1000; i++, cnt++)
			control();
		may_leave = 0;
	}
	may_leave = 0;
	setitimer(ITIMER_REAL, &never, NULL);
	for (int i = 0; i < 100; i++, cnt++)
		control();
	return cnt;
}

static void *cancelled(void *arg)
{
	/* A FIFO without a writer. */
	(void)!open(path, O_RDONLY);
	return NULL;
}

/* Cancelled in the middle of open(), which is a cancellation point. */
static long cancel(void)
{
	pthread_t t;
	void *end;

	check(!pthread_create(&t, NULL, cancelled, NULL), "thread");
	pthread_cancel(t);
	pthread_join(t, &end);
	check(end == PTHREAD_CANCELED, "cancel");
	return 0;
}

/* Do this library's calls lead to the same place as before? */
static int is_direct(void)
{
	int (*volatile ours)(int, unsigned long, ...) = ioctl;

	return (void *)ours == dlsym(RTLD_DEFAULT, "ioctl");
}

/* For each line of stdin. */
static long answers(void)
{
	long cnt = 0;

	for (;; cnt++) {
		call();
		control();
		printf("%s\n", is_direct() ? "direct" : "hooked");
		fflush(stdout);
		if (getchar() != '\n')
			return cnt + 1;
	}
}

int main(int argc, char **argv)
{
	const char *part = argv[1];
	static char stack[64 << 10];
	stack_t alt = {.ss_sp = stack, .ss_size = sizeof(stack)};
	long cnt = -1;

	path = argv[2];
	sigaltstack(&alt, NULL);
	check(!cuInit(0), "cuInit");
	if (strcmp(part, "cancel")) {
		dev = open(path, O_RDWR | O_CREAT, 0600);
		check(dev >= 0 && !ftruncate(dev, 4096), path);
	}
	if (!strcmp(part, "storm"))
		cnt = storm(0);
	else if (!strcmp(part, "altstack"))
		cnt = storm(SA_ONSTACK);
	else if (!strcmp(part, "threads"))
		cnt = threads();
	else if (!strcmp(part, "errno"))
		cnt = errnos();
	else if (!strcmp(part, "forks"))
		cnt = forks();
	else if (!strcmp(part, "leaves"))
		cnt = leaves();
	else if (!strcmp(part, "cancel"))
		cnt = cancel();
	else if (!strcmp(part, "answers"))
		cnt = answers();
	printf("%ld\n", cnt);
	return 0;
}
