/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The first start of CUPTI in a running program may crash it, if another thread is in a call of the
 * driver at that moment. So:
 *
 * 1. The gate is armed before functions are hooked: thunks then count threads in calls.
 * 2. When no thread is in an earlier call (gate_threads.c), a thread that comes while no other is
 *    in the driver starts CUPTI, at the entry of its call. Meanwhile all others wait at the entry.
 * 3. If no thread comes at such a moment, our thread closes the gate: threads wait at the entry
 *    until the last one is out, which takes at most CLOSED_MAX_NS; then it is opened, and closed
 *    again later.
 *
 * At the exit it is closed for good, see gate_close().
 *
 * Nobody waits without a limit. A child of fork() has the gate open (MADV_WIPEONFORK).
 */
#include "gate.h"

#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <time.h>

/* Threads in a call that began before: they are given this time to return. */
#define OUT_MAX_NS 5000000000ull
#define OUT_NAP_NS 2000000
/* Until the gate is closed; while it is closed; until it is closed again. */
#define COME_NS	      100000000ull
#define CLOSED_MAX_NS 100000000ull
#define AGAIN_NS      400000000ull
#define TRIES_MAX     10
/* At the exit: until no more threads come, the limit of that, and how long the gate is closed. */
#define EXIT_CALM_NS 50000000
#define EXIT_COME_NS 250000000
#define EXIT_MAX_NS  1000000000
/* Limit of a wait at the entry. CUPTI's start takes 17 to 130 ms. */
#define ENTRY_MAX_NS   3000000000ull
#define WAKE_NS	       1000000
#define STARTED_MAX_NS 10000000000ull
/* CUPTI has been stopped many times without harm while threads were in the driver. */
#define STOP_MAX_NS 1500000000ull
/* CUPTI's start needs some of the stack. */
#define STACK_MIN (512u << 10)

/* Identifies a process in thread-local memory. A child of fork() has another one. */
static uint32_t id_of(const struct process *p)
{
	return (uint32_t)((uintptr_t)p >> 6) | 1;
}

static gate_start_fn *start_fn;

static void wake(struct gate *g)
{
	sys(SYS_futex, &g->closed, FUTEX_WAKE_PRIVATE, 1 << 30);
}

static void await(uint32_t *word, uint32_t value, long ns)
{
	struct timespec t = {.tv_nsec = ns};

	sys(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, &t);
}

static void pause_ns(long ns)
{
	sys(SYS_nanosleep, &(struct timespec){.tv_nsec = ns}, NULL);
}

static bool none_inside(struct gate *g)
{
	return !__atomic_load_n(&g->inside, __ATOMIC_SEQ_CST);
}

static bool has_stack(uint64_t sp)
{
	const struct thread *t = inject_me.gen == inject_process->alive ? inject_me.t : NULL;

	return t && t->stack_hi && sp - t->stack_lo < t->stack_hi - t->stack_lo &&
	       sp - t->stack_lo >= STACK_MIN;
}

/* Runs with all signals blocked but those of libc, and without cancellation. */
static enum ct_cupti_state run_start(void)
{
	int (*cancel)(int, int *) = libc_symbol("pthread_setcancelstate");
	uint64_t mask = ~(3ull << 31), before;
	enum ct_cupti_state state;
	int err = errno, old = 0;

	sys(SYS_rt_sigprocmask, SIG_SETMASK, &mask, &before, 8);
	if (cancel)
		cancel(PTHREAD_CANCEL_DISABLE, &old);
	inject_me.gate_starts = 1;
	state = start_fn();
	inject_me.gate_starts = 0;
	if (cancel)
		cancel(old, NULL);
	sys(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, 8);
	errno = err;
	return state;
}

/* Only one thread at a time may start CUPTI or open the gate. */
static bool starter_take(struct gate *g)
{
	uint32_t none = 0;

	return __atomic_compare_exchange_n(&g->starter, &none, (uint32_t)sys(SYS_gettid), false,
					   __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

static void open_gate(struct gate *g)
{
	uint64_t began = inject_now();
	bool is_own;

	while (!(is_own = starter_take(g)) && inject_now() - began < STARTED_MAX_NS)
		pause_ns(WAKE_NS / 10);
	__atomic_store_n(&g->closed, 0, __ATOMIC_SEQ_CST);
	if (is_own)
		__atomic_store_n(&g->starter, 0, __ATOMIC_SEQ_CST);
	wake(g);
}

/* Returns false if the gate is open, or another thread is in the driver, starts CUPTI, or forks. */
static bool try_start(struct gate *g)
{
	bool is_alone;

	if (!starter_take(g))
		return false;
	is_alone = __atomic_load_n(&g->closed, __ATOMIC_SEQ_CST) &&
		   __atomic_load_n(&g->ready, __ATOMIC_SEQ_CST) && none_inside(g) && guard_take(0);
	if (is_alone) {
		g->state = run_start();
		guard_release();
		__atomic_store_n(&g->ready, 0, __ATOMIC_SEQ_CST);
		__atomic_store_n(&g->started, 1, __ATOMIC_SEQ_CST);
	}
	__atomic_store_n(&g->starter, 0, __ATOMIC_SEQ_CST);
	return is_alone;
}

/* At an entry, while no thread is in the driver. */
static void come(struct gate *g, uint64_t sp)
{
	uint32_t open = 0;

	if (!has_stack(sp)) {
		__atomic_store_n(&g->small, 1, __ATOMIC_RELAXED);
		return;
	}
	if (!__atomic_compare_exchange_n(&g->closed, &open, 1, false, __ATOMIC_SEQ_CST,
					 __ATOMIC_SEQ_CST))
		return;
	try_start(g);
	open_gate(g);
}

/* At an entry, while the gate is closed. */
static void wait_outside(struct gate *g, uint64_t sp)
{
	if (__atomic_load_n(&g->ready, __ATOMIC_SEQ_CST) && none_inside(g)) {
		if (!has_stack(sp))
			__atomic_store_n(&g->small, 1, __ATOMIC_RELAXED);
		else if (try_start(g))
			return;
	}
	await(&g->closed, 1, WAKE_NS);
}

static cold void enter_slow(struct gate *g, uint64_t sp)
{
	uint64_t began = inject_now();

	__atomic_add_fetch(&g->came, 1, __ATOMIC_RELAXED);
	for (;;) {
		if (inject_now() > (g->exit_ns ?: began + ENTRY_MAX_NS) || is_quiet())
			return;
		__atomic_sub_fetch(&g->inside, 1, __ATOMIC_SEQ_CST);
		wait_outside(g, sp);
		__atomic_add_fetch(&g->inside, 1, __ATOMIC_SEQ_CST);
		if (!__atomic_load_n(&g->closed, __ATOMIC_SEQ_CST))
			return;
	}
}

static void first_call(struct process *p)
{
	struct gate *g = &p->gate;
	uint32_t i = __atomic_fetch_add(&g->passed_cnt, 1, __ATOMIC_RELAXED);

	/* Its outermost call, if any, is still counted. */
	if (inject_me.gate_of != id_of(p))
		inject_me.gate_depth = 0;
	inject_me.gate_of = id_of(p);
	inject_me.gate_epoch = (uint16_t)g->epoch;
	if (i < GATE_THREADS && !is_quiet())
		__atomic_store_n(&g->passed[i], (uint32_t)sys(SYS_gettid), __ATOMIC_RELEASE);
}

static bool has_left(uint64_t sp)
{
	const struct thread *t = inject_me.t;

	return sp >= inject_me.gate_sp && !(t && inject_on_other_stack(t, sp, inject_me.gate_sp));
}

cold bool gate_enter(uint64_t sp)
{
	struct process *p = inject_process;
	struct gate *g = &p->gate;

	if (inject_me.gate_starts)
		return false;
	if (inject_me.gate_exits)
		return true;
	if (inject_me.gate_of != id_of(p) ||
	    (!inject_me.gate_depth && inject_me.gate_epoch != (uint16_t)g->epoch))
		first_call(p);
	/* The outermost call was left without a return. */
	if (inject_me.gate_depth && has_left(sp)) {
		inject_me.gate_depth = 0;
		__atomic_sub_fetch(&g->inside, 1, __ATOMIC_SEQ_CST);
	}
	if (inject_me.gate_depth++)
		return true;
	inject_me.gate_sp = sp;
	if (__atomic_load_n(&g->ready, __ATOMIC_RELAXED) && none_inside(g) && !is_quiet())
		come(g, sp);
	__atomic_add_fetch(&g->inside, 1, __ATOMIC_SEQ_CST);
	if (unlikely(__atomic_load_n(&g->closed, __ATOMIC_SEQ_CST)))
		enter_slow(g, sp);
	return true;
}

cold void gate_leave(void)
{
	struct gate *g;

	/* A child of fork() has no gate: its count of threads is 0 and unused. */
	if (!inject_me.gate_depth || --inject_me.gate_depth)
		return;
	if (inject_me.gate_of != id_of(inject_process))
		return;
	g = &inject_process->gate;
	if (!__atomic_sub_fetch(&g->inside, 1, __ATOMIC_SEQ_CST) &&
	    __atomic_load_n(&g->closed, __ATOMIC_SEQ_CST) && !is_quiet())
		wake(g);
}

void gate_arm(struct process *p)
{
	__atomic_store_n(&p->gate.armed, 1, __ATOMIC_SEQ_CST);
}

void gate_disarm(struct process *p)
{
	__atomic_store_n(&p->gate.armed, 0, __ATOMIC_SEQ_CST);
	for (uint32_t i = 0; i < CT_MAX_FUNCS; i++)
		__atomic_and_fetch(&inject_hooks[i].role, ~(uint32_t)HOOK_GATED, __ATOMIC_SEQ_CST);
}

/* Returns whether CUPTI was started before this time. */
static bool await_start(struct gate *g, bool (*goes_on)(void), uint64_t ns)
{
	uint64_t began = inject_now();

	while (!__atomic_load_n(&g->started, __ATOMIC_SEQ_CST)) {
		if (inject_now() - began >= ns || !goes_on())
			return false;
		await(&g->started, 0, WAKE_NS);
	}
	return true;
}

/* Returns whether CUPTI was started meanwhile. */
static bool close_for_a_while(struct gate *g, bool (*goes_on)(void))
{
	uint64_t began = inject_now();
	bool done = false;

	__atomic_store_n(&g->closed, 1, __ATOMIC_SEQ_CST);
	while (!done && goes_on() && inject_now() - began < CLOSED_MAX_NS) {
		done = await_start(g, goes_on, WAKE_NS);
		/* The threads that wait have small stacks. */
		if (!done && __atomic_load_n(&g->small, __ATOMIC_RELAXED) && none_inside(g))
			done = try_start(g);
	}
	open_gate(g);
	return done || __atomic_load_n(&g->started, __ATOMIC_SEQ_CST);
}

/* No thread may start it from now on. Returns whether one has. */
static bool withdraw(struct gate *g)
{
	uint64_t began = inject_now();

	__atomic_store_n(&g->ready, 0, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&g->starter, __ATOMIC_SEQ_CST) &&
	       inject_now() - began < STARTED_MAX_NS)
		pause_ns(WAKE_NS);
	return __atomic_load_n(&g->started, __ATOMIC_SEQ_CST);
}

static void say(char *why, size_t size, const char *what, const char *who)
{
	size_t len = strlen(what), more = strlen(who);

	if (len + more + 1 > size)
		return;
	memcpy(why, what, len);
	memcpy(why + len, who, more + 1);
}

static bool await_out(struct process *p, bool (*goes_on)(void), char who[16])
{
	uint64_t began = inject_now();

	while (goes_on()) {
		if (gate_threads_are_out(p, who))
			return true;
		if (inject_now() - began >= OUT_MAX_NS)
			return false;
		pause_ns(OUT_NAP_NS);
	}
	return false;
}

static bool try_often(struct gate *g, bool (*goes_on)(void))
{
	bool done = await_start(g, goes_on, COME_NS);

	for (unsigned tries = 0; !done && tries < TRIES_MAX && goes_on();) {
		/* The program makes no calls now: the next one starts it. */
		if (none_inside(g) && !__atomic_load_n(&g->small, __ATOMIC_RELAXED)) {
			done = await_start(g, goes_on, WAKE_NS);
			continue;
		}
		done = close_for_a_while(g, goes_on) || await_start(g, goes_on, AGAIN_NS);
		tries++;
	}
	return done;
}

bool gate_arm_again(struct process *p)
{
	struct gate *g = &p->gate;

	g->started = g->small = 0;
	g->passed_cnt = 0;
	__atomic_add_fetch(&g->epoch, 1, __ATOMIC_SEQ_CST);
	__atomic_store_n(&g->armed, 1, __ATOMIC_SEQ_CST);
	return hooks_gate();
}

static bool goes_always(void)
{
	return true;
}

void gate_stop(struct process *p, gate_start_fn *stop)
{
	struct gate *g = &p->gate;
	uint64_t began = inject_now();
	bool done = false;
	char who[16];

	gate_arm_again(p);
	start_fn = stop;
	while (!is_quiet() && !gate_threads_are_out(p, who) &&
	       inject_now() - began < STOP_MAX_NS / 2)
		pause_ns(OUT_NAP_NS);
	__atomic_store_n(&g->ready, 1, __ATOMIC_SEQ_CST);
	/* Threads of a program that is not recorded any more have no known stack: ours stops it. */
	__atomic_store_n(&g->small, 1, __ATOMIC_SEQ_CST);
	while (!done && !is_quiet() && inject_now() - began < STOP_MAX_NS)
		done = close_for_a_while(g, goes_always) ||
		       await_start(g, goes_always, CLOSED_MAX_NS);
	if (!withdraw(g))
		stop();
	gate_disarm(p);
}

/* Whether another thread has made calls. */
static bool has_others(const struct process *p)
{
	uint32_t own = (uint32_t)sys(SYS_gettid);

	for (unsigned i = 0; i < CT_SHM_SLOTS && p->slots[i]; i++)
		if (p->slots[i]->state == CT_SLOT_LIVE && p->slots[i]->tid != own)
			return true;
	return false;
}

void gate_close(struct process *p)
{
	struct gate *g = &p->gate;
	uint64_t began = inject_now(), now = began, changed = began;
	uint32_t came = g->came;
	char who[16];

	inject_me.gate_exits = 1;
	if (is_quiet() || !p->alive || !has_others(p))
		return;
	hooks_rest();
	gate_arm_again(p);
	g->exit_ns = began + EXIT_MAX_NS;
	__atomic_store_n(&g->closed, 1, __ATOMIC_SEQ_CST);
	for (; now - began < EXIT_COME_NS; now = inject_now()) {
		if (now - changed >= EXIT_CALM_NS && none_inside(g) && gate_threads_are_out(p, who))
			return;
		pause_ns(OUT_NAP_NS);
		if (came != __atomic_load_n(&g->came, __ATOMIC_RELAXED)) {
			came = g->came;
			changed = now;
		}
	}
}

enum ct_cupti_state gate_run(struct process *p, gate_start_fn *start, bool (*goes_on)(void),
			     char *why, size_t why_sz)
{
	enum ct_cupti_state state = CT_CUPTI_BUSY;
	struct gate *g = &p->gate;
	char who[16] = "";

	start_fn = start;
	if (!await_out(p, goes_on, who)) {
		say(why, why_sz, "may be in a CUDA call since before: thread ", who);
	} else {
		__atomic_store_n(&g->ready, 1, __ATOMIC_SEQ_CST);
		try_often(g, goes_on);
		if (withdraw(g))
			state = g->state;
		else
			say(why, why_sz, "a thread was always in a CUDA call", "");
	}
	gate_disarm(p);
	return state == CT_CUPTI_BUSY && !goes_on() ? CT_CUPTI_NONE : state;
}
