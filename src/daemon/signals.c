/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Signals of the daemon: those that end it, SIGHUP, and the rest. */
#include "daemon_priv.h"

#include <errno.h>
#include <event2/event.h>
#include <signal.h>

#include "util/clock.h"
#include "util/inherited.h"

static const int handled[DAEMON_SIGNALS] = {SIGTERM, SIGINT, SIGQUIT, SIGHUP};

/* These keep their default action: none, or reporting a fault. systemd's watchdog sends SIGABRT.
 * SIGIO: src/attach/find/watch.h. */
static const int left_alone[] = {
	SIGCHLD, SIGCONT, SIGSTOP, SIGURG,  SIGWINCH, SIGKILL, SIGSEGV,
	SIGBUS,	 SIGFPE,  SIGILL,  SIGTRAP, SIGSYS,   SIGABRT, SIGIO,
};

static void on_signal(evutil_socket_t signo, short what, void *ctx)
{
	struct daemon *d = ctx;

	d->now = turn__begin(&d->turn);
	if (signo == SIGHUP)
		daemon__hangup(d);
	else
		event_base_loopbreak(d->base);
}

static bool is_in(const int *list, unsigned cnt, int signo)
{
	for (unsigned i = 0; i < cnt; i++)
		if (list[i] == signo)
			return true;
	return false;
}

void daemon__ignore_signals(void)
{
	for (int signo = 1; signo <= SIGRTMAX; signo++)
		if (!is_in(handled, DAEMON_SIGNALS, signo) &&
		    !is_in(left_alone, sizeof(left_alone) / sizeof(left_alone[0]), signo))
			signal(signo, SIG_IGN);
}

/* A shell without job control makes background programs ignore SIGINT and SIGQUIT. SIGHUP under
 * nohup still reads the configuration. */
int daemon__handle_signals(struct daemon *d)
{
	for (unsigned i = 0; i < DAEMON_SIGNALS; i++) {
		if (handled[i] != SIGHUP && inherited_ignores(handled[i]))
			continue;
		d->signal_evs[i] = evsignal_new(d->base, handled[i], on_signal, d);
		if (!d->signal_evs[i] || event_add(d->signal_evs[i], NULL))
			return -ENOMEM;
	}
	return 0;
}
