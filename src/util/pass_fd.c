/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "pass_fd.h"

#include "safe_close.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_ERRNO 4095
#define NO_FD	  -1
#define BAD_FD	  -2

/* One number, and a descriptor if the number is not negative. */
union room {
	struct cmsghdr head;
	char bytes[CMSG_SPACE(sizeof(int))];
};

bool pass_fd__send(int sock, int fd)
{
	int ret = fd < 0 ? fd : 0;
	struct iovec iov = {&ret, sizeof(ret)};
	union room room = {0};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	if (fd >= 0) {
		msg.msg_control = room.bytes;
		msg.msg_controllen = sizeof(room.bytes);
		room.head.cmsg_level = SOL_SOCKET;
		room.head.cmsg_type = SCM_RIGHTS;
		room.head.cmsg_len = CMSG_LEN(sizeof(fd));
		memcpy(CMSG_DATA(&room.head), &fd, sizeof(fd));
	}
	return sendmsg(sock, &msg, MSG_NOSIGNAL) == sizeof(ret);
}

/* Returns whether it is a file of that type. Does not involve its server. */
static bool is_a(int fd, mode_t type)
{
	struct statx st;

	return !statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &st) &&
	       (st.stx_mode & S_IFMT) == type;
}

/* Returns the descriptor that was received; NO_FD: none; BAD_FD: it has another type, or there are
 * several, and all were closed. */
static int take_one(struct msghdr *msg, mode_t type)
{
	struct cmsghdr *head = CMSG_FIRSTHDR(msg);
	int fds[2] = {-1, -1}, cnt = 0; /* space for one, aligned, is enough for two */

	if (head && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS) {
		cnt = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		memcpy(fds, CMSG_DATA(head), cnt * sizeof(int));
	}
	if (cnt == 1 && !(msg->msg_flags & MSG_CTRUNC) && is_a(fds[0], type))
		return fds[0];
	for (int i = 0; i < cnt; i++)
		safe_close(fds[i]);
	return cnt ? BAD_FD : NO_FD;
}

bool pass_fd__take(int sock, mode_t type, int *fd)
{
	int ret, got;
	struct iovec iov = {&ret, sizeof(ret)};
	union room room = {0};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = room.bytes,
			     .msg_controllen = sizeof(room.bytes)};
	ssize_t n = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);

	if (n < 0)
		return false;
	got = take_one(&msg, type);
	if (n == sizeof(ret) && !(msg.msg_flags & MSG_TRUNC) && ret <= 0 && ret >= -MAX_ERRNO) {
		/* It was sent, but our descriptor table was full. */
		*fd = ret ? ret : got == NO_FD ? -EMFILE : got;
		if (got == NO_FD || (!ret && got >= 0))
			return true;
	}
	if (got >= 0)
		close(got);
	return false;
}
