/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * In a running program: a lock that fork() takes by handlers, and the library while it loads CUPTI
 * and starts it, and while it uses the loader. Nobody waits for it longer than a second. The
 * handlers stay registered.
 */
#include "gate.h"

#include <time.h>

#define FORK_MAX_NS 1000000000ull
/* A thread that waits for this one may be in dlopen(). */
#define LOADER_MAX_NS 100000000ull
/* fork() in another thread that has passed the handlers ends within this time. */
#define PASSED_NS 50000000

static uint32_t owner; /* thread id; 0: free */
static bool is_set;

bool guard_take(uint64_t max_ns)
{
	uint64_t began = inject_now();
	uint32_t me = sys(SYS_gettid), none = 0;

	while (!__atomic_compare_exchange_n(&owner, &none, me, false, __ATOMIC_ACQUIRE,
					    __ATOMIC_RELAXED)) {
		if (none == me || inject_now() - began >= max_ns)
			return false;
		none = 0;
		nap();
	}
	return true;
}

void guard_release(void)
{
	uint32_t me = sys(SYS_gettid);

	__atomic_compare_exchange_n(&owner, &me, 0, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

static void before_fork(void)
{
	if (!is_quiet())
		guard_take(FORK_MAX_NS);
}

static void after_fork(void)
{
	if (!is_quiet())
		guard_release();
}

/* A child has another thread id, and no other thread. */
static void in_child(void)
{
	__atomic_store_n(&owner, 0, __ATOMIC_RELEASE);
}

bool guard_setup(void)
{
	int (*at_fork)(void (*)(void), void (*)(void), void (*)(void), void *) =
		libc_symbol("__register_atfork");

	if (is_set)
		return true;
	is_set = at_fork && !at_fork(before_fork, after_fork, in_child, NULL);
	sys(SYS_nanosleep, &(struct timespec){.tv_nsec = PASSED_NS}, NULL);
	return is_set;
}

bool guard_loader(void)
{
	return is_set && !is_quiet() && guard_take(LOADER_MAX_NS);
}
