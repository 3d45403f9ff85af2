/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Sockets in network namespaces of other processes. Links to namespaces can be opened without
 * waiting for the process. */
#include "late_net.h"

#include "inject_priv.h"

#include "util/safe_close.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* Further connect() calls wait. */
#define WAITING_MAX 1024

/* Returns a socket of that network namespace. */
static int socket_in(int ns)
{
	int own = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC), fd = -EPERM;

	if (own < 0)
		return -errno;
	if (!setns(ns, CLONE_NEWNET)) {
		fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		if (fd < 0)
			fd = -errno;
		/* As entering the other one worked, this does, too. */
		if (setns(own, CLONE_NEWNET))
			_exit(1);
	} else {
		fd = -errno;
	}
	close(own);
	return fd;
}

static int listen_at(const char *name, int fd)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	size_t len = strlen(name);

	/* "@name" is abstract. */
	memcpy(sa.sun_path + 1, name + 1, len - 1);
	safe_recv__refuse_fds(fd);
	return bind(fd, (void *)&sa, offsetof(struct sockaddr_un, sun_path) + len) ||
			       listen(fd, WAITING_MAX)
		       ? -errno
		       : 0;
}

int late_net__socket(const struct inject *in, pid_t pid, uint64_t *ino)
{
	char path[40];
	struct stat st;
	int ns, fd, ret;

	snprintf(path, sizeof(path), "/proc/%d/ns/net", pid);
	ns = open(path, O_RDONLY | O_CLOEXEC);
	if (ns < 0)
		return -errno;
	fd = fstat(ns, &st) ? -errno : socket_in(ns);
	*ino = st.st_ino;
	close(ns);
	ret = fd < 0 ? fd : listen_at(in->socket_name, fd);
	if (ret && fd >= 0)
		close(fd);
	return ret ?: fd;
}

int late_net__add(struct inject *in, pid_t pid)
{
	char path[40];
	struct stat own, its;
	uint64_t ino;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/ns/net", pid);
	if (stat(path, &its) || stat("/proc/self/ns/net", &own) || its.st_ino == own.st_ino ||
	    listener__is_in(in, its.st_ino))
		return 0;
	fd = late_net__socket(in, pid, &ino);
	return fd < 0 ? fd : listener__take_net(in, fd, ino);
}
