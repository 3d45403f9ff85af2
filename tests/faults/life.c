/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * life LIBRARY WHAT [N]: a target with unusual starts and ends. Prints the number of its calls of
 * cuDriverGetVersion, which all succeeded.
 *
 *   threads N   N threads at once, called "life 0" and so on, each with ten calls
 *   short N     N threads in 8 chains, each with one call: often no other thread has made one
 *   procs N     N processes, one after another, each with three calls
 *   leave N     the same with two threads each, which exit at the same time
 *   reload N    N times dlopen(), a call, dlclose()
 *   vfork N     N times a child that execs while its parent waits in vfork(), and a call
 *   cancel N    N threads that are cancelled in cuFakeSleep, each after a call
 *   kill N      N children that are killed while a thread of theirs is in cuFakeSleep, each
 *               after a call
 *   jump N      N times siglongjmp() out of cuFakeSleep from a signal handler, each after a call
 *   crash       a call, then SIGSEGV in a callback of a driver call
 *   exec        a call, then /bin/true from a callback of a driver call
 *   wait        a call for each line on stdin
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

typedef int (*fn_t)();

static const char *path;
static fn_t version, sleep_us, call_back;
static long calls;
static sigjmp_buf env;
static pthread_barrier_t barrier;

static void open_lib(void **lib)
{
	*lib = dlopen(path, RTLD_NOW);
	if (!*lib) {
		fprintf(stderr, "life: %s\n", dlerror());
		exit(1);
	}
	version = (fn_t)dlsym(*lib, "cuDriverGetVersion");
	sleep_us = (fn_t)dlsym(*lib, "cuFakeSleep");
	call_back = (fn_t)dlsym(*lib, "cuFakeCallback");
}

static void call(long n)
{
	int v = 0;

	while (n-- > 0) {
		if (version(&v) || v < 1000)
			_exit(3);
		__atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED);
	}
}

static void *ten(void *arg)
{
	char name[16];

	snprintf(name, sizeof(name), "life %ld", (long)arg);
	pthread_setname_np(pthread_self(), name);
	call(5);
	pthread_barrier_wait(&barrier);
	call(5);
	return arg;
}

static void threads(long n)
{
	pthread_t *t = calloc(n, sizeof(*t));
	pthread_attr_t attr;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 65536);
	pthread_barrier_init(&barrier, NULL, n);
	for (long i = 0; i < n; i++)
		if (pthread_create(&t[i], &attr, ten, (void *)i))
			exit(4);
	for (long i = 0; i < n; i++)
		pthread_join(t[i], NULL);
}

#define CHAINS 8

static void *one(void *arg)
{
	call(1);
	return arg;
}

static void *chain(void *arg)
{
	for (long i = 0; i < (long)arg / CHAINS; i++) {
		pthread_t t;

		if (pthread_create(&t, NULL, one, NULL))
			exit(4);
		pthread_join(t, NULL);
	}
	return NULL;
}

static void short_threads(long n)
{
	pthread_t t[CHAINS];

	for (int i = 0; i < CHAINS; i++)
		if (pthread_create(&t[i], NULL, chain, (void *)n))
			exit(4);
	for (int i = 0; i < CHAINS; i++)
		pthread_join(t[i], NULL);
}

/* Unlike a process exit, which ends the other threads first. */
static void *leave(void *unused)
{
	static int there;

	__atomic_add_fetch(&there, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&there, __ATOMIC_SEQ_CST) < 2)
		;
	syscall(SYS_exit, 0);
	return NULL;
}

static void procs(long n, int leaves)
{
	for (long i = 0; i < n; i++) {
		int status;
		pid_t pid = fork();

		if (!pid) {
			pthread_t t;

			call(3);
			if (leaves && !pthread_create(&t, NULL, leave, NULL))
				leave(NULL);
			_exit(0);
		}
		if (waitpid(pid, &status, 0) != pid || status)
			exit(5);
		calls += 3;
	}
}

static void reload(long n)
{
	void *lib;

	while (n-- > 0) {
		open_lib(&lib);
		call(1);
		dlclose(lib);
	}
}

static void with_vfork(long n)
{
	for (long i = 0; i < n; i++) {
		int status;
		pid_t pid = vfork();

		if (!pid) {
			execl("/bin/true", "true", (char *)NULL);
			_exit(127);
		}
		if (waitpid(pid, &status, 0) != pid || status)
			exit(6);
		call(1);
	}
}

static void *cancelled(void *arg)
{
	call(1);
	sleep_us(20000000);
	return arg;
}

static void cancel(long n)
{
	for (long i = 0; i < n; i++) {
		pthread_t t;
		void *r;

		if (pthread_create(&t, NULL, cancelled, NULL))
			exit(7);
		usleep(20000);
		pthread_cancel(t);
		pthread_join(t, &r);
		if (r != PTHREAD_CANCELED)
			exit(8);
	}
}

static void kill_in_call(long n)
{
	for (long i = 0; i < n; i++) {
		int status, fd[2];
		char c;
		pid_t pid;

		if (pipe(fd))
			exit(10);
		pid = fork();
		if (!pid) {
			pthread_t t;

			pthread_create(&t, NULL, cancelled, NULL);
			usleep(20000);
			if (write(fd[1], "x", 1) == 1)
				pause();
			_exit(11);
		}
		if (read(fd[0], &c, 1) != 1 || kill(pid, SIGKILL) ||
		    waitpid(pid, &status, 0) != pid || !WIFSIGNALED(status))
			exit(12);
		close(fd[0]);
		close(fd[1]);
		calls++;
	}
}

static void on_alarm(int sig)
{
	(void)sig;
	siglongjmp(env, 1);
}

static void jump(long n)
{
	struct itimerval it = {.it_value.tv_usec = 5000};

	signal(SIGALRM, on_alarm);
	for (volatile long i = 0; i < n; i++) {
		if (!sigsetjmp(env, 1)) {
			setitimer(ITIMER_REAL, &it, NULL);
			sleep_us(20000000);
			exit(9);
		}
		call(1);
	}
}

static void say(void)
{
	printf("%ld\n", calls);
	fflush(stdout);
}

static void crash(void *arg)
{
	say();
	*(volatile int *)arg = 0;
}

static void exec_true(void *arg)
{
	(void)arg;
	say();
	execl("/bin/true", "true", (char *)NULL);
}

int main(int argc, char **argv)
{
	const char *what = argc > 2 ? argv[2] : "";
	long n = argc > 3 ? atol(argv[3]) : 1;
	void *lib;

	path = argv[1];
	if (!strcmp(what, "reload")) {
		reload(n);
		say();
		return 0;
	}
	open_lib(&lib);
	if (!strcmp(what, "threads"))
		threads(n);
	else if (!strcmp(what, "short"))
		short_threads(n);
	else if (!strcmp(what, "procs"))
		procs(n, 0);
	else if (!strcmp(what, "leave"))
		procs(n, 1);
	else if (!strcmp(what, "vfork"))
		with_vfork(n);
	else if (!strcmp(what, "cancel"))
		cancel(n);
	else if (!strcmp(what, "kill"))
		kill_in_call(n);
	else if (!strcmp(what, "jump"))
		jump(n);
	else if (!strcmp(what, "wait"))
		for (int c; (c = getchar()) != EOF;)
			call(c == '\n');
	else
		call(1);
	if (!strcmp(what, "crash"))
		call_back(crash, NULL);
	if (!strcmp(what, "exec"))
		call_back(exec_true, NULL);
	say();
	return 0;
}
