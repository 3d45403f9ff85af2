/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "witness.h"

#include "util/privs.h"
#include "util/relay.h"
#include "util/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* A sender that signals processes one after another has reached the witness by then. */
#define NEXT_NS 5000000l
/* The witness responds at once, unless it is stopped. */
#define ANSWER_MS  1000
#define SIGNAL_CNT 65

struct question {
	int signo;
	pid_t sender;
};

/*
 * A pattern for the command's line (pkill -f train.py) matches the command and our line, so it must
 * match the witness's, too. A pattern for our line (pkill -f cudatrace) must not match it. So the
 * witness's line is a name that pidof does not find, followed by the command's line, which is the
 * end of ours.
 */
static void take_command_line(char **argv, int argc)
{
	static const char name[] = "witness";
	char *begin = program_invocation_name, *from = argv[0];
	char *end = argv[argc - 1] + strlen(argv[argc - 1]) + 1;
	char *to = begin + sizeof(name);

	if (to > from || from >= end)
		return;
	memcpy(begin, name, sizeof(name));
	memmove(to, from, end - from);
	memset(to + (end - from), 0, from - to);
}

/* For each signal: its last sender, and how many have not been queried yet. */
static struct signal_stat {
	pid_t sender;
	unsigned cnt;
} seen[SIGNAL_CNT];

static void note_signals(int fd)
{
	struct signalfd_siginfo si;

	while (read(fd, &si, sizeof(si)) == sizeof(si)) {
		struct signal_stat *e = &seen[si.ssi_signo % SIGNAL_CNT];

		if (e->sender != (pid_t)si.ssi_pid)
			e->cnt = 0;
		e->sender = si.ssi_pid;
		e->cnt++;
	}
}

static bool answer(const struct question *q)
{
	struct signal_stat *e = &seen[(unsigned)q->signo % SIGNAL_CNT];

	if (!e->cnt || e->sender != q->sender)
		return false;
	e->cnt--;
	return true;
}

static void __attribute__((noreturn)) serve(int sock, char **argv, int argc, bool sandbox)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	struct question q;
	sigset_t all;
	int signals;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	if (argv) {
		take_command_line(argv, argc);
		/* The name lacks "cudatrace", so that pkill without -f does not find it either. */
		prctl(PR_SET_NAME, "signal-witness");
	}
	privs_drop();
	for (int fd = 0; null >= 0 && fd < 3; fd++)
		dup2(null, fd);
	if (dup2(sock, 3) < 0 || syscall(SYS_close_range, 4u, ~0u, 0u) || chdir("/"))
		_exit(1);
	signals = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (sandbox)
		sandbox__enter_witness();
	for (;;) {
		struct pollfd fds[] = {{.fd = 3, .events = POLLIN},
				       {.fd = signals, .events = POLLIN}};
		bool has_it;

		poll(fds, 2, -1);
		/* Must come first, so that the reply covers all signals sent before the request. */
		note_signals(signals);
		if (!fds[0].revents)
			continue;
		if (read(3, &q, sizeof(q)) != sizeof(q))
			_exit(0);
		has_it = answer(&q);
		(void)!write(3, &has_it, sizeof(has_it));
	}
}

void witness__start(struct witness *w, char **argv, int argc, bool sandbox)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return;
	w->pid = fork();
	if (!w->pid)
		serve(pair[1], argv, argc, sandbox);
	close(pair[1]);
	w->sock = pair[0];
	if (w->pid > 0)
		return;
	w->pid = 0;
	close(w->sock);
}

static bool ask(struct witness *w, const siginfo_t *si)
{
	const struct question q = {si->si_signo, si->si_pid};
	struct pollfd fd = {.fd = w->sock, .events = POLLIN};
	bool has_it = false;

	if (w->pid && send(w->sock, &q, sizeof(q), MSG_NOSIGNAL) == sizeof(q) &&
	    poll(&fd, 1, ANSWER_MS) > 0 &&
	    recv(w->sock, &has_it, sizeof(has_it), MSG_DONTWAIT) == sizeof(has_it))
		return has_it;
	witness__end(w);
	return false;
}

bool witness__saw(struct witness *w, const siginfo_t *si)
{
	const struct timespec next = {.tv_nsec = NEXT_NS};

	if (!w->pid)
		return false;
	if (ask(w, si))
		return true;
	nanosleep(&next, NULL);
	return ask(w, si);
}

/* timeout(1) sends one signal to us, then one to the whole group: the second is pending by now. */
static void drop_same(const siginfo_t *si)
{
	const struct timespec now = {0};
	siginfo_t other;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, si->si_signo);
	if (si->si_signo < SIGRTMIN)
		sigtimedwait(&set, &other, &now);
}

void witness__relay(struct witness *w, const siginfo_t *si, pid_t child, bool is_leader)
{
	bool has_it = witness__saw(w, si);

	if (has_it)
		drop_same(si);
	/* A child in another group has not received it. */
	if (has_it && getpgid(child) == getpgid(0))
		return;
	if (relay_is_for_us(si, is_leader))
		relay_signal(child, si);
}

void witness__end(struct witness *w)
{
	if (!w->pid)
		return;
	kill(w->pid, SIGKILL);
	while (waitpid(w->pid, NULL, 0) < 0 && errno == EINTR)
		;
	close(w->sock);
	w->pid = 0;
}
