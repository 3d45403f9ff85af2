// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Answers of the reading process, which looks at what hostile programs make: numbers, descriptors
 * of anything, as many as there are. What is taken is a regular file or an error, and nothing of
 * what came along stays open.
 */
#include "fuzz.h"

#include <assert.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/reader_priv.h"

#define FDS_MAX 8

static int things[4]; /* to be sent: a regular file first */
static int pair[2];

static void open_things(void)
{
	int ends[2];

	assert(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair));
	assert(!pipe2(ends, O_CLOEXEC));
	things[0] = memfd_create("file", MFD_CLOEXEC);
	things[1] = ends[0];
	things[2] = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	things[3] = open("/dev/null", O_RDWR | O_CLOEXEC);
}

/* The lowest that is free: goes up with each that is left. */
static int free_fd(void)
{
	int fd = dup(things[0]);

	close(fd);
	return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char room[CMSG_SPACE(FDS_MAX * sizeof(int))] __attribute__((aligned(8))) = {0};
	struct input in = {data, size};
	unsigned how = take8(&in), cnt = how % (FDS_MAX + 1);
	struct cmsghdr *head = (struct cmsghdr *)room;
	struct iovec iov;
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	int fds[FDS_MAX], fd = -1, before;
	struct stat st;

	if (!things[0])
		open_things();
	before = free_fd();
	for (unsigned i = 0; i < cnt; i++)
		fds[i] = things[take8(&in) % 4];
	if (cnt) {
		msg.msg_control = room;
		msg.msg_controllen = CMSG_SPACE(cnt * sizeof(int));
		head->cmsg_level = SOL_SOCKET;
		head->cmsg_type = SCM_RIGHTS;
		head->cmsg_len = CMSG_LEN(cnt * sizeof(int));
		memcpy(CMSG_DATA(head), fds, cnt * sizeof(int));
	}
	iov = (struct iovec){(void *)in.p, in.left};
	assert(sendmsg(pair[1], &msg, 0) == (ssize_t)in.left);
	if (reader_take_fd(pair[0], S_IFREG, &fd)) {
		assert(fd >= 0 ? !fstat(fd, &st) && S_ISREG(st.st_mode) && cnt == 1 : fd >= -4095);
		if (fd >= 0)
			close(fd);
	}
	assert(free_fd() == before);
	assert(recv(pair[0], room, 1, 0) < 0);
	return 0;
}
