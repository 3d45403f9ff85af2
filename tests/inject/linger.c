/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Sends TCP sockets with SO_LINGER and unsent data to a UNIX socket, and closes its own copies:
 * the last close of each waits for 40 s.
 *
 *   linger SOCKET seqpacket|stream PROCESSES SECONDS
 *
 * Prints "ready" before the first message, and at the end "PROCESS SENT REFUSED" per process.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define HELD 8 /* open connections per process */

static struct sockaddr_in listener;

static void open_listener(void)
{
	socklen_t len = sizeof(listener);
	int fd = socket(AF_INET, SOCK_STREAM, 0), size = 4096;

	listener.sin_family = AF_INET;
	listener.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	if (bind(fd, (void *)&listener, sizeof(listener)) || listen(fd, 4096) ||
	    getsockname(fd, (void *)&listener, &len))
		exit(1);
}

/* A connection that is never read; -1: there are too many. */
static int lingering(void)
{
	static const char data[65536];
	const struct linger l = {1, 40};
	int fd = socket(AF_INET, SOCK_STREAM, 0), size = 4096;

	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	if (connect(fd, (void *)&listener, sizeof(listener))) {
		close(fd);
		return -1;
	}
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l));
	while (send(fd, data, sizeof(data), MSG_NOSIGNAL | MSG_DONTWAIT) > 0)
		;
	return fd;
}

static bool send_fd(int sock, int fd, size_t len, int flags)
{
	static char data[64];
	struct iovec iov = {data, len};
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(int))];
	} room = {.head = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
	struct msghdr msg = {NULL, 0, &iov, 1, room.bytes, sizeof(room.bytes), 0};

	memcpy(CMSG_DATA(&room.head), &fd, sizeof(fd));
	return sendmsg(sock, &msg, flags | MSG_NOSIGNAL | MSG_DONTWAIT) >= 0;
}

/* Closes without waiting for unsent data. */
static void drop(int fd)
{
	const struct linger none = {1, 0};

	setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
	close(fd);
}

/* In turn: the descriptor comes with a message; with the second message; with an empty message or
 * an urgent byte; in another socket, in an unread message. */
static bool attack(int sock, bool stream, unsigned i)
{
	int fd = lingering(), pair[2] = {-1, -1};
	bool sent = false;

	if (fd < 0)
		return false;
	switch (i % 4) {
	case 0:
		sent = send_fd(sock, fd, 8, 0);
		break;
	case 1:
		(void)!send(sock, "12345678", 8, MSG_NOSIGNAL | MSG_DONTWAIT);
		sent = send_fd(sock, fd, 64, 0);
		break;
	case 2:
		sent = send_fd(sock, fd, stream, stream ? MSG_OOB : 0);
		(void)!send(sock, "12345678", 8, MSG_NOSIGNAL | MSG_DONTWAIT);
		break;
	case 3:
		sent = !socketpair(AF_UNIX, SOCK_STREAM, 0, pair) && send_fd(pair[0], fd, 1, 0);
		/* Otherwise the kernel would drop it with ours. */
		if (sent && !send_fd(sock, pair[1], 8, 0)) {
			drop(fd);
			close(pair[0]);
			close(pair[1]);
			return false;
		}
		close(pair[0]);
		close(pair[1]);
	}
	if (sent)
		close(fd);
	else
		drop(fd);
	return sent;
}

static void on_alarm(int sig)
{
}

static void run(const struct sockaddr_un *to, socklen_t len, int type, time_t end)
{
	const struct itimerval often = {{0, 20000}, {0, 20000}};
	int held[HELD], sent = 0, refused = 0;

	/* Interrupts a close() of this process that waits. */
	signal(SIGALRM, on_alarm);
	setitimer(ITIMER_REAL, &often, NULL);
	memset(held, -1, sizeof(held));
	for (unsigned i = 0; time(NULL) < end; i++) {
		int fd = socket(AF_UNIX, type, 0);

		if (held[i % HELD] >= 0)
			close(held[i % HELD]);
		held[i % HELD] = fd;
		if (!connect(fd, (void *)to, len) && attack(fd, type == SOCK_STREAM, i))
			sent++;
		else
			refused++;
		usleep(10000);
	}
	printf("%d %d %d\n", getpid(), sent, refused);
}

int main(int argc, char **argv)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	socklen_t len;
	int type;

	if (argc != 5)
		return 2;
	type = strcmp(argv[2], "stream") ? SOCK_SEQPACKET : SOCK_STREAM;
	strncpy(to.sun_path, argv[1], sizeof(to.sun_path) - 1);
	len = offsetof(struct sockaddr_un, sun_path) + strlen(to.sun_path);
	if (*to.sun_path == '@')
		*to.sun_path = '\0';
	else
		len++;
	puts("ready");
	fflush(stdout);
	for (int i = 0; i < atoi(argv[3]); i++) {
		if (fork())
			continue;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		open_listener();
		run(&to, len, type, time(NULL) + atoi(argv[4]));
		return 0;
	}
	while (wait(NULL) > 0)
		;
	return 0;
}
