/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Signals of a trace. All are blocked and read in the main loop. With a command, signals are passed
 * on to it, and the trace continues until the command has ended. Without one, signals that end
 * programs end the trace.
 */
#include "session.h"

#include "util/clock.h"
#include "util/inherited.h"
#include "util/log.h"
#include "util/out.h"
#include "util/relay.h"
#include "util/stray.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

/* Write timeout of outputs with slow readers once a signal has ended the trace. */
#define OUTPUT_MS 2000
/* Signals handled between reads of records; each may take a few milliseconds. */
#define AT_ONCE 8
/* Delay until the tracer reports what it waits for after a signal. */
#define REPORT_NS 1000000000ull

/* Signals that end a trace without a command. asks: the signal also ends the command, so the
 * trace does not wait for its children. */
static const struct {
	int signo;
	bool asks;
	const char *reason;
} ends[] = {
	{SIGINT, true, "interrupted"},
	{SIGTERM, true, "terminated"},
	{SIGHUP, true, "hangup"},
	{SIGQUIT, false, "interrupted"},
};
#define END_CNT (sizeof(ends) / sizeof(ends[0]))

/* Reading and writing in the background raises these; the sandbox raises SIGSYS. */
static const int left_alone[] = {SIGTTIN, SIGTTOU, SIGSYS};
/* The kernel ends a program at a fault even if the signal is blocked. But AddressSanitizer then
 * reports nothing, so these are blocked only where they are passed on. */
static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP};
/* See deadman.h. */
static const int of_deadman[] = {SIGALRM};
/* Handled by src/top/screen.c and curses. */
static const int of_screen[] = {SIGTSTP, SIGWINCH};
#ifdef __SANITIZE_ADDRESS__
#define HAS_REPORT true
#else
#define HAS_REPORT false
#endif

static void leave(sigset_t *set, const int *list, unsigned cnt, bool really)
{
	for (unsigned i = 0; i < cnt && really; i++)
		sigdelset(set, list[i]);
}
#define LEAVE(set, list, really) leave(set, list, sizeof(list) / sizeof((list)[0]), really)

/* SIGPIPE: a closed pipe is an error of that output alone. SIGXFSZ: so is a file over its size
 * limit, and memory is a file (src/inject/shm.c). */
int session__open_signals(struct session *s)
{
	struct signals *g = &s->signals;
	sigset_t quit;

	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	g->is_leader = getsid(0) == getpid();
	sigemptyset(&quit);
	for (unsigned i = 0; i < END_CNT; i++)
		if (ends[i].asks && !inherited_ignores(ends[i].signo))
			sigaddset(&quit, ends[i].signo);
	g->quit_fd = signalfd(-1, &quit, SFD_CLOEXEC | SFD_NONBLOCK);
	out__set_write_timeout(g->quit_fd, -1);
	sigfillset(&g->taken);
	LEAVE(&g->taken, left_alone, true);
	LEAVE(&g->taken, of_deadman, s->o->collect);
	LEAVE(&g->taken, faults, HAS_REPORT || !s->o->argv || s->o->view);
	LEAVE(&g->taken, of_screen, s->o->view);
	sigprocmask(SIG_BLOCK, &g->taken, NULL);
	if (s->o->argv)
		witness__start(&g->witness, s->o->argv, s->o->argc, s->o->sandbox);
	/* src/attach/find/watch.h reads SIGIO; src/util/demangle.c handles SIGVTALRM. */
	if (s->probe != PROBE_INJECT)
		sigdelset(&g->taken, SIGIO);
	g->fd = signalfd(-1, &g->taken, SFD_CLOEXEC | SFD_NONBLOCK);
	if (g->fd >= 0 && g->quit_fd >= 0)
		return 0;
	err("cannot set up signal handling: %s", strerror(errno));
	return -EMFILE;
}

void session__close_signals(struct session *s)
{
	witness__end(&s->signals.witness);
	if (s->signals.fd >= 0)
		close(s->signals.fd);
	if (s->signals.quit_fd >= 0)
		close(s->signals.quit_fd);
}

static bool command_runs(struct session *s)
{
	return s->cmd.pid && !command__ended(&s->cmd);
}

static void end_by(struct session *s, int signo, bool runs)
{
	for (unsigned i = 0; i < END_CNT; i++) {
		if (ends[i].signo != signo || (runs && !ends[i].asks))
			continue;
		out__set_write_timeout(s->signals.quit_fd, OUTPUT_MS);
		if (!runs) {
			s->hurry = s->stopping; /* second signal: end at once */
			s->stopping = true;
		} else if (signo == SIGINT && ++s->signals.interrupt_cnt > 1) {
			s->stopping = true;
		}
		if (!s->end.reason) {
			s->end.reason = ends[i].reason;
			s->signals.requested_ns = now_ns();
		}
	}
}

static void take(struct session *s, const siginfo_t *si)
{
	bool runs = command_runs(s);

	/* The kernel reports the end of a child. Signals that the command sends to its parent are
	 * not for the command. */
	if ((si->si_signo == SIGCHLD && si->si_code > 0) ||
	    (runs && si->si_code <= 0 && si->si_pid == s->cmd.pid))
		return;
	if (runs)
		witness__relay(&s->signals.witness, si, s->cmd.pid, s->signals.is_leader);
	if (si->si_signo == SIGTSTP)
		relay_stop_too();
	else if (!inherited_ignores(si->si_signo))
		end_by(s, si->si_signo, runs);
}

void session__take_signals(struct session *s)
{
	static const int shared[] = {SIGIO, SIGVTALRM, SIGSTKFLT};
	const struct timespec now = {0};
	siginfo_t si;

	/* The limit keeps a flood of signals from blocking records. */
	for (int i = 0; i < AT_ONCE && sigtimedwait(&s->signals.taken, &si, &now) > 0; i++)
		take(s, &si);
	for (unsigned i = 0; i < sizeof(shared) / sizeof(shared[0]); i++)
		if (stray_take(shared[i], &si))
			take(s, &si);
}

void session__report_signals(struct session *s, uint64_t now)
{
	struct signals *g = &s->signals;

	if (g->reported || !g->requested_ns || now - g->requested_ns < REPORT_NS ||
	    !command_runs(s))
		return;
	g->reported = true;
	info("%s: waiting for %s to end: Ctrl-C %sends the trace, not the command", s->end.reason,
	     s->o->argv[0], g->interrupt_cnt ? "again " : "twice ");
}

void session__await_command(struct session *s)
{
	struct pollfd fd = {.fd = s->signals.fd, .events = POLLIN};
	bool may_leave = s->signals.interrupt_cnt > 1;

	if (!command_runs(s))
		return;
	info("the trace has ended; waiting for %s, which continues untraced%s", s->o->argv[0],
	     may_leave ? ": Ctrl-C again stops waiting" : "");
	while (command_runs(s) && !(may_leave && s->signals.interrupt_cnt > 2)) {
		poll(&fd, 1, -1);
		session__take_signals(s);
	}
}
