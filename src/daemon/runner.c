/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "runner.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "util/inherited.h"
#include "util/log.h"
#include "util/privs.h"

#define NAME_SZ 128
/* A message to the runner: a file name, or this. */
#define RELOAD "/"

struct runner {
	int fd;		  /* -1: it has ended */
	bool must_reload; /* a reload did not fit into the socket while a command runs */
};

/* Runs the shell, without descriptors or privileges of ours. */
static void exec_command(const struct runner_what *what, const char *file)
{
	int null = open("/dev/null", O_RDONLY);
	char *path;

	inherited_restore();
	if (null >= 0)
		dup2(null, STDIN_FILENO);
	if (asprintf(&path, "%s/%s", what->folder, file) >= 0)
		execl("/bin/sh", "sh", "-c", what->command, "on_rotate", path, (char *)NULL);
	_exit(127);
}

static int run(const struct runner_what *what, const char *file)
{
	int status = 127 << 8;
	pid_t pid = -1;

	if (what->command && *what->command && what->folder && !strchr(file, '/'))
		pid = fork();
	if (!pid)
		exec_command(what, file);
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return status;
}

/* Runs until the daemon has ended, in whatever way. Signals to the whole group are for the
 * command. */
static void serve(int fd, runner_read_fn fn, void *ctx)
{
	struct runner_what what = {0};
	char text[NAME_SZ + 1];
	sigset_t all;
	int status;
	ssize_t n;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	prctl(PR_SET_NAME, "cudatrace-run");
	privs_drop();
	fn(ctx, &what);
	while ((n = recv(fd, text, NAME_SZ, 0)) > 0) {
		text[n] = '\0';
		if (!strcmp(text, RELOAD)) {
			fn(ctx, &what);
			continue;
		}
		status = run(&what, text);
		if (send(fd, &status, sizeof(status), MSG_NOSIGNAL) != sizeof(status))
			break;
	}
	_exit(0);
}

struct runner *runner__new(runner_read_fn fn, void *ctx)
{
	struct runner *r = calloc(1, sizeof(*r));
	int fds[2] = {-1, -1};
	pid_t pid = -1;

	if (r && !socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds))
		pid = fork();
	if (!pid) {
		close(fds[0]);
		serve(fds[1], fn, ctx);
	}
	if (fds[1] >= 0)
		close(fds[1]);
	if (pid > 0) {
		r->fd = fds[0];
		return r;
	}
	err("cannot start the process for files.on_rotate: %s: raise the limits of processes and "
	    "open files (ulimit -u, -n)",
	    strerror(errno));
	if (fds[0] >= 0)
		close(fds[0]);
	free(r);
	return NULL;
}

static void is_gone(struct runner *r)
{
	if (r->fd >= 0)
		close(r->fd);
	r->fd = -1;
}

static bool say(struct runner *r, const char *text)
{
	ssize_t len = strlen(text);

	if (r->fd >= 0 && len < NAME_SZ &&
	    send(r->fd, text, len, MSG_NOSIGNAL | MSG_DONTWAIT) == len)
		return true;
	if (r->fd < 0 || len >= NAME_SZ || errno != EAGAIN)
		is_gone(r);
	return false;
}

bool runner__start(struct runner *r, const char *file)
{
	if (r->must_reload && !say(r, RELOAD))
		return false;
	r->must_reload = false;
	return say(r, file);
}

bool runner__ended(struct runner *r, int *status)
{
	ssize_t n = r->fd < 0 ? 0 : recv(r->fd, status, sizeof(*status), MSG_DONTWAIT);

	if (n == sizeof(*status))
		return true;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	is_gone(r);
	*status = 127 << 8;
	return true;
}

void runner__reload(struct runner *r)
{
	if (r)
		r->must_reload = !say(r, RELOAD);
}

void runner__free(struct runner *r)
{
	if (!r)
		return;
	is_gone(r);
	free(r);
}
