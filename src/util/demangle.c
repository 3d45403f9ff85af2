/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "demangle.h"

#include "clock.h"

#include <libiberty/demangle.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "log.h"
#include "stray.h"

/* libiberty rejects longer names: it allows itself 2048 parts of a name, two per byte, and as much
 * recursion. This limits the stack. */
#define MANGLED_MAX 1024

#define MSEC	       1000000ull
#define NAME_NS	       (3 * MSEC)
#define CHECK_NS       (1 * MSEC)
#define SHARE_NS       (300 * MSEC)
#define SHARE_PART     10 /* a share is refilled by 1/10 of the elapsed time */
#define SHARES_AT_ONCE 2

/* LIMIT: of time or output. BAD: it is not a mangled name. */
enum outcome { DONE, LIMIT, BAD };

struct text {
	char buf[DEMANGLED_MAX];
	size_t len;
};

/* The signal goes to the thread that created the timer. */
static __thread struct {
	timer_t timer;
	bool made;
	uint64_t begin_ns;
	volatile sig_atomic_t running;
	sigjmp_buf leave;
} own;

static struct demangle_share everyone;
static uint64_t given_up;

/* Checks processor time, so that results do not depend on load. It is checked every CHECK_NS,
 * because processor timers have the resolution of the kernel's tick, which may be 10 ms. The
 * library holds no lock and no heap memory, so it may be left by siglongjmp at any point. */
static void on_timer(int sig, siginfo_t *si, void *ctx)
{
	if (si->si_code != SI_TIMER)
		stray_note(sig, si->si_pid);
	else if (own.running && clock_ns(CLOCK_THREAD_CPUTIME_ID) - own.begin_ns >= NAME_NS)
		siglongjmp(own.leave, LIMIT);
}

static bool make_timer(void)
{
	struct sigaction sa = {.sa_sigaction = on_timer,
			       .sa_flags = SA_RESTART | SA_NODEFER | SA_SIGINFO};
	struct sigevent ev = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGVTALRM};
	sigset_t set;

	ev._sigev_un._tid = gettid();
	sigemptyset(&set);
	sigaddset(&set, SIGVTALRM);
	if (sigaction(SIGVTALRM, &sa, NULL) || pthread_sigmask(SIG_UNBLOCK, &set, NULL))
		return false;
	own.made = !timer_create(CLOCK_MONOTONIC, &ev, &own.timer);
	return own.made;
}

static bool set_timer(uint64_t ns)
{
	struct itimerspec its = {{0, ns}, {0, ns}};

	return !timer_settime(own.timer, 0, &its, NULL);
}

static bool start_timer(void)
{
	static bool registered;

	if (own.made && set_timer(CHECK_NS))
		return true;
	/* Creates it again in a child, which does not inherit timers. */
	if (make_timer() && set_timer(CHECK_NS))
		return true;
	if (!registered)
		warn("cannot set a timer: mangled names are not demangled");
	registered = true;
	return false;
}

/* Stops when the output exceeds the buffer. */
static void on_text(const char *s, size_t len, void *ctx)
{
	struct text *t = ctx;

	if (len > sizeof(t->buf) - t->len)
		siglongjmp(own.leave, LIMIT);
	memcpy(t->buf + t->len, s, len);
	t->len += len;
}

static enum outcome run(const char *mangled, struct text *t)
{
	enum outcome o = sigsetjmp(own.leave, 0);

	if (o == DONE) {
		own.running = true;
		if (!cplus_demangle_v3_callback(mangled, DMGL_PARAMS | DMGL_TYPES, on_text, t))
			o = BAD;
	}
	own.running = false;
	return o;
}

static bool has_time(struct demangle_share *s, unsigned shares, uint64_t ns)
{
	uint64_t back = (ns - s->at_ns) * shares / SHARE_PART;

	s->used_ns -= back < s->used_ns ? back : s->used_ns;
	s->at_ns = ns;
	return s->used_ns < shares * SHARE_NS;
}

static bool may_run(struct demangle_share *share)
{
	uint64_t ns = clock_ns(CLOCK_MONOTONIC);

	return has_time(share, 1, ns) && has_time(&everyone, SHARES_AT_ONCE, ns);
}

static char *run_timed(const char *mangled, struct demangle_share *share)
{
	struct text t;
	enum outcome o;
	uint64_t used_ns;

	if (!start_timer())
		return NULL;
	t.len = 0;
	own.begin_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	o = run(mangled, &t);
	set_timer(0);
	used_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - own.begin_ns;
	if (share) {
		share->used_ns += used_ns;
		everyone.used_ns += used_ns;
	}
	given_up += o == LIMIT;
	return o == DONE ? strndup(t.buf, t.len) : NULL;
}

char *demangle(const char *mangled, struct demangle_share *share)
{
	if (strncmp(mangled, "_Z", 2) != 0)
		return NULL;
	if (strnlen(mangled, MANGLED_MAX + 1) <= MANGLED_MAX && (!share || may_run(share)))
		return run_timed(mangled, share);
	given_up++;
	return NULL;
}

uint64_t demangle_given_up(void)
{
	return given_up;
}
