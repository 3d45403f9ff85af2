/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "opener.h"

#include "child.h"
#include "log.h"
#include "pass_fd.h"
#include "segment.h"
#include "safe_open.h"
#include "sandbox.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define OUTPUTS_MAX 16

struct request {
	enum { ADD, SEAL, NEXT } what;
	unsigned output;
	char path[PATH_MAX]; /* for ADD */
};

/* Both sides count segments, so that no name is sent. */
static struct {
	pid_t pid;
	int sock; /* -1: no such process */
	struct {
		char path[PATH_MAX];
		unsigned segments;
	} of[OUTPUTS_MAX];
	unsigned cnt;
	char name[PATH_MAX]; /* name of the last requested file */
} opener = {.sock = -1};

static int add(const char *path)
{
	if (opener.cnt == OUTPUTS_MAX)
		return -E2BIG;
	if (strlen(path) >= sizeof(opener.of[0].path))
		return -ENAMETOOLONG;
	strcpy(opener.of[opener.cnt].path, path);
	opener.of[opener.cnt].segments = 0;
	return opener.cnt++;
}

static int next_name(unsigned output)
{
	if (output >= opener.cnt)
		return -EINVAL;
	return segment_path(opener.name, sizeof(opener.name), opener.of[output].path,
			    ++opener.of[output].segments);
}

/* Refuses an existing FIFO, device, or file of another user. */
static int open_named(void)
{
	enum safe_open_why why;
	int fd = safe_open(opener.name, &why);
	struct stat st;

	if (fd < 0)
		return why == SAFE_OPEN_ERRNO ? -errno : -EPERM;
	if (!fstat(fd, &st) && S_ISREG(st.st_mode))
		return fd;
	close(fd);
	return -EEXIST;
}

static void __attribute__((noreturn)) serve(int sock, bool sandbox)
{
	static struct request r;
	bool sealed = false;
	sigset_t all;

	/* Stopping a service signals all its processes: this one ends after the tracer. */
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	child_begin(sock, "cudatrace-open");
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (sandbox)
		sandbox__enter_opener();
	while (read(CHILD_SOCK, &r, sizeof(r)) == sizeof(r)) {
		int fd;

		r.path[sizeof(r.path) - 1] = '\0';
		if (r.what == ADD && !sealed && add(r.path) >= 0)
			continue;
		if (r.what == SEAL) {
			sealed = true;
			continue;
		}
		if (r.what != NEXT)
			break;
		fd = next_name(r.output) ?: open_named();
		if (!pass_fd__send(CHILD_SOCK, fd))
			break;
		if (fd >= 0)
			close(fd);
	}
	_exit(0);
}

int opener__start(bool sandbox)
{
	int pair[2], ret = 0;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair)) {
		ret = -errno;
		goto out;
	}
	opener.pid = fork();
	if (!opener.pid)
		serve(pair[1], sandbox);
	if (opener.pid < 0)
		ret = -errno;
	close(pair[1]);
	opener.sock = pair[0];
	if (ret)
		opener__end();
out:
	if (ret)
		err("cannot start cudatrace-open: %s: raise the limits of processes and open files "
		    "(ulimit -u, -n)",
		    strerror(-ret));
	return ret;
}

static bool ask(const struct request *r)
{
	return send(opener.sock, r, sizeof(*r), MSG_NOSIGNAL) == sizeof(*r);
}

int opener__add(const char *path)
{
	static struct request r = {.what = ADD};
	int ret = add(path);

	if (ret >= 0 && opener.sock >= 0) {
		strcpy(r.path, path);
		if (!ask(&r))
			ret = -errno;
	}
	if (ret < 0)
		err("cannot split %s: %s", path, strerror(-ret));
	return ret;
}

void opener__close_names(void)
{
	static const struct request r = {.what = SEAL};

	if (opener.sock >= 0)
		ask(&r);
}

int opener__next(unsigned output, const char **name)
{
	static struct request r = {.what = NEXT};
	int ret = next_name(output), fd;

	*name = opener.name;
	if (ret || opener.sock < 0)
		return ret ?: open_named();
	r.output = output;
	/* It was killed by another process. */
	if (!ask(&r) || !pass_fd__take(opener.sock, S_IFREG, &fd))
		return -EPIPE;
	return fd;
}

void opener__end(void)
{
	if (opener.sock >= 0)
		close(opener.sock);
	opener.sock = -1;
	while (opener.pid > 0 && waitpid(opener.pid, NULL, 0) < 0 && errno == EINTR)
		;
	opener.pid = 0;
	opener.cnt = 0;
}
