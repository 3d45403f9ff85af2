/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "tty.h"

#include "util/log.h"
#include "util/relay.h"
#include "util/privs.h"

#include <curses.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <term.h>
#include <termios.h>
#include <unistd.h>

/* Messages to the keeper: the terminal is in use by us, or released. */
#define TAKEN 't'
#define BACK  'b'

/* Prints the file from an offset on; returns the new offset. */
static long put_out(int file, long from)
{
	char buf[4096];
	ssize_t n, put;

	while ((n = pread(file, buf, sizeof(buf), from)) > 0) {
		for (ssize_t at = 0; at < n; at += put) {
			put = write(STDOUT_FILENO, buf + at, n - at);
			if (put <= 0)
				return from;
		}
		from += n;
	}
	return from;
}

struct keeper {
	pid_t tracer;
	int fd, behind;
	struct termios modes;
	char leave[256];
};

static void __attribute__((noreturn)) keep(const struct keeper *k)
{
	static const int ignored[] = {SIGQUIT, SIGTSTP, SIGTTOU, SIGPIPE};
	char what = BACK;
	int status;

	prctl(PR_SET_NAME, "cudatrace-tty");
	privs_drop();
	for (unsigned i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++)
		signal(ignored[i], SIG_IGN);
	/* Signals of keys also reach the tracer directly; signals sent by kill(2) are passed on to
	 * it. */
	status = relay_until_end(k->tracer);
	while (recv(k->fd, &what, 1, MSG_DONTWAIT) > 0)
		;
	if (what == TAKEN) {
		tcsetattr(STDIN_FILENO, TCSANOW, &k->modes);
		(void)!write(STDOUT_FILENO, k->leave, strlen(k->leave));
		put_out(k->behind, 0);
	}
	if (WIFSIGNALED(status)) {
		const struct rlimit none = {0};

		setrlimit(RLIMIT_CORE, &none);
		signal(WTERMSIG(status), SIG_DFL);
		sigprocmask(SIG_SETMASK, &(sigset_t){0}, NULL);
		kill(getpid(), WTERMSIG(status));
	}
	_exit(WEXITSTATUS(status));
}

/* The control sequences that restore the screen. */
static void how_to_leave(char *text, size_t size)
{
	static const char *const names[] = {"rmcup", "sgr0", "cnorm", "rmkx"};
	size_t n = 0;

	text[0] = '\0';
	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *s = tigetstr(names[i]);

		if (s && s != (char *)-1 && n + strlen(s) < size) {
			strcpy(text + n, s);
			n += strlen(s);
		}
	}
}

/* Returns only in the child. */
static int start_keeper(struct tty *t)
{
	struct keeper k = {.behind = fileno(t->behind)};
	sigset_t old, all;
	int fds[2];

	how_to_leave(k.leave, sizeof(k.leave));
	del_curterm(cur_term);
	if (tcgetattr(STDIN_FILENO, &k.modes) ||
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds))
		return -errno;
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &old);
	k.tracer = fork();
	if (k.tracer > 0) {
		k.fd = fds[0];
		close(fds[1]);
		keep(&k);
	}
	sigprocmask(SIG_SETMASK, &old, NULL);
	close(fds[0]);
	t->keeper_fd = fds[1];
	return k.tracer < 0 ? -EAGAIN : 0;
}

static FILE *other(int fd, const char *mode)
{
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	FILE *f = copy < 0 ? NULL : fdopen(copy, mode);

	if (!f && copy >= 0)
		close(copy);
	return f;
}

/* Redirects a standard descriptor to fd if it is a terminal. */
static void hide(struct tty *t, int std, int fd)
{
	if (!isatty(std))
		return;
	t->kept[std] = fcntl(std, F_DUPFD_CLOEXEC, 3);
	if (t->kept[std] >= 0)
		dup2(fd, std);
}

static int open_files(struct tty *t)
{
	int nowhere = open("/dev/null", O_RDONLY | O_CLOEXEC);

	t->in = other(STDIN_FILENO, "r");
	t->out = other(STDOUT_FILENO, "w");
	if (!t->in || !t->out || nowhere < 0) {
		if (nowhere >= 0)
			close(nowhere);
		return -errno;
	}
	hide(t, STDIN_FILENO, nowhere);
	hide(t, STDOUT_FILENO, fileno(t->behind));
	hide(t, STDERR_FILENO, fileno(t->behind));
	close(nowhere);
	return 0;
}

int tty__open(struct tty *t)
{
	int ret, why;

	*t = (struct tty){.kept = {-1, -1, -1}, .keeper_fd = -1};
	if (setupterm(NULL, STDOUT_FILENO, &why) != OK) {
		err("cannot draw on the terminal '%s' (TERM), which is unknown here: use "
		    "cudatrace top --once, which prints a table",
		    getenv("TERM") ?: "");
		return -ENOTTY;
	}
	t->behind = tmpfile();
	ret = t->behind ? 0 : -errno;
	if (!ret) {
		fcntl(fileno(t->behind), F_SETFD, FD_CLOEXEC);
		fcntl(fileno(t->behind), F_SETFL, O_APPEND);
		ret = start_keeper(t);
	}
	ret = ret ?: open_files(t);
	if (ret) {
		tty__close(t);
		err("cannot set up the terminal: %s: use cudatrace top --once, which prints a "
		    "table",
		    strerror(-ret));
	}
	return ret;
}

static void notify(struct tty *t, char what)
{
	if (t->keeper_fd >= 0)
		(void)!write(t->keeper_fd, &what, 1);
}

void tty__taken(struct tty *t)
{
	notify(t, TAKEN);
}

static void put_back(struct tty *t)
{
	for (int fd = 0; fd < 3; fd++) {
		if (t->kept[fd] < 0)
			continue;
		dup2(t->kept[fd], fd);
		close(t->kept[fd]);
		t->kept[fd] = -1;
	}
}

void tty__restore(struct tty *t)
{
	notify(t, BACK);
	put_back(t);
	t->shown = put_out(fileno(t->behind), t->shown);
}

long tty__waiting(struct tty *t)
{
	off_t end = lseek(fileno(t->behind), 0, SEEK_END);

	return end > t->shown ? end - t->shown : 0;
}

bool tty__is_lost(const struct tty *t)
{
	struct pollfd p[] = {{.fd = fileno(t->in)}, {.fd = t->keeper_fd}};
	const short ended = POLLHUP | POLLERR | POLLNVAL;

	return poll(p, 2, 0) > 0 && (p[0].revents | p[1].revents) & ended;
}

static void close_file(FILE **f)
{
	if (*f)
		fclose(*f);
	*f = NULL;
}

void tty__close(struct tty *t)
{
	if (t->behind)
		tty__restore(t);
	if (t->keeper_fd >= 0)
		close(t->keeper_fd);
	t->keeper_fd = -1;
	close_file(&t->in);
	close_file(&t->out);
	close_file(&t->behind);
}
