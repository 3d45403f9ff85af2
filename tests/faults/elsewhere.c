/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * elsewhere LIBRARY WHAT...: a target that switches stacks during calls, and leaves calls from far
 * below. Prints the number of its calls of cuDriverGetVersion, which all must succeed.
 *
 *   up-WHERE, down-WHERE  two coroutines whose calls interleave; the first one's stack is below or
 *               above the other's. WHERE: mapped, small (16 KiB each), local (arrays of a function)
 *   above, below, local  signal handlers on a separate stack, which lies above or below that of the
 *               call that they interrupt, or is an array of a function
 *   gone        a coroutine that is abandoned during a call, its stack unmapped
 *   far         callbacks that call the driver 256 KiB farther down
 *   left        siglongjmp() from there
 *   deep        callbacks in callbacks, 20 of them
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#define STACK_SZ (1 << 20)
#define FAR_SZ	 (256 << 10)

typedef int (*fn_t)();

static fn_t version, call_back;
static long calls;
static ucontext_t back, co[2];
static int ended[2];
static sigjmp_buf env;

static void call(void)
{
	int v = 0;

	if (version(&v) || v < 1000)
		_exit(3);
	calls++;
}

static void *map(size_t size)
{
	return mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void run_on(ucontext_t *c, char *stack, size_t size, void (*fn)(void), int arg)
{
	getcontext(c);
	c->uc_stack.ss_sp = stack;
	c->uc_stack.ss_size = size;
	c->uc_link = &back;
	makecontext(c, fn, 1, arg);
}

static void in_between(void *arg)
{
	int i = (intptr_t)arg;

	call();
	swapcontext(&co[i], &back);
	call();
}

static void body(int i)
{
	for (int n = 0; n < 3; n++)
		if (call_back(in_between, (void *)(intptr_t)i))
			_exit(4);
	ended[i] = 1;
}

static void coroutines(char *stacks, size_t size, int first_is_below)
{
	ended[0] = ended[1] = 0;
	for (int i = 0; i < 2; i++)
		run_on(&co[i], stacks + (i == first_is_below ? size : 0), size,
		       (void (*)(void))body, i);
	for (int i = 0; !ended[0] || !ended[1]; i ^= 1)
		if (!ended[i])
			swapcontext(&back, &co[i]);
}

static void pair(const char *where, int first_is_below)
{
	static char small[2 * 16384];
	char local[2 * 65536];

	if (!strcmp(where, "small"))
		coroutines(small, sizeof(small) / 2, first_is_below);
	else if (!strcmp(where, "local"))
		coroutines(local, sizeof(local) / 2, first_is_below);
	else
		coroutines(map(2 * STACK_SZ), STACK_SZ, first_is_below);
}

static void on_signal(int sig)
{
	(void)sig;
	call();
}

static void interrupted(void *arg)
{
	(void)arg;
	raise(SIGUSR1);
	call();
}

static void loop(int arg)
{
	(void)arg;
	for (int i = 0; i < 50; i++)
		call_back(interrupted, NULL);
}

static void handlers(const char *where)
{
	char *stacks = map(4 * STACK_SZ), local[16384];
	stack_t alt = {.ss_sp = stacks, .ss_size = STACK_SZ};
	struct sigaction sa = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};

	if (!strcmp(where, "above"))
		alt.ss_sp = stacks + 3 * STACK_SZ;
	if (!strcmp(where, "local"))
		alt.ss_sp = local, alt.ss_size = sizeof(local);
	sigaltstack(&alt, NULL);
	sigaction(SIGUSR1, &sa, NULL);
	if (strcmp(where, "above")) {
		loop(0);
	} else {
		run_on(&co[0], stacks, STACK_SZ, (void (*)(void))loop, 0);
		swapcontext(&back, &co[0]);
	}
}

static void gone(void)
{
	char *stack = map(STACK_SZ);

	run_on(&co[0], stack, STACK_SZ, (void (*)(void))body, 0);
	swapcontext(&back, &co[0]);
	munmap(stack, STACK_SZ);
	for (int i = 0; i < 50; i++)
		call();
}

static __attribute__((noinline)) void far_below(void (*fn)(void *), void *arg)
{
	char room[FAR_SZ];

	__asm__ volatile("" : : "r"(room) : "memory");
	fn(arg);
	__asm__ volatile("" : : "r"(room) : "memory");
}

static void call_far(void *arg)
{
	far_below((void (*)(void *))call, arg);
}

static void leave(void *arg)
{
	(void)arg;
	call();
	siglongjmp(env, 1);
}

static void call_and_leave(void *arg)
{
	(void)arg;
	call_back(leave, NULL);
}

static void left(void)
{
	for (volatile int i = 0; i < 20; i++) {
		if (!sigsetjmp(env, 1))
			far_below(call_and_leave, NULL);
		call();
	}
}

static void deeper(void *arg)
{
	intptr_t n = (intptr_t)arg;

	if (n)
		call_back(deeper, (void *)(n - 1));
	else
		call();
}

static void run(const char *what)
{
	if (!strncmp(what, "up-", 3))
		pair(what + 3, 1);
	else if (!strncmp(what, "down-", 5))
		pair(what + 5, 0);
	else if (!strcmp(what, "gone"))
		gone();
	else if (!strcmp(what, "far"))
		for (int i = 0; i < 20; i++)
			call_back(call_far, NULL);
	else if (!strcmp(what, "left"))
		left();
	else if (!strcmp(what, "deep"))
		for (int i = 0; i < 20; i++)
			call_back(deeper, (void *)19);
	else
		handlers(what);
}

int main(int argc, char **argv)
{
	void *lib = dlopen(argv[1], RTLD_NOW);

	version = (fn_t)dlsym(lib, "cuDriverGetVersion");
	call_back = (fn_t)dlsym(lib, "cuFakeCallback");
	for (int i = 2; i < argc; i++)
		run(argv[i]);
	printf("%ld\n", calls);
	return 0;
}
