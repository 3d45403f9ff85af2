/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Answers of the reading process, which handles files of hostile programs: numbers, and any number
 * of descriptors of any kind. The result is a regular file or an error, and no other received
 * descriptor stays open. Answers come from memory; one of every KERNEL_EVERY runs also uses a
 * socket, and must have the same result.
 */
#include "fuzz.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "util/pass_fd.h"

#define FDS_MAX	     8
#define KERNEL_EVERY 1024
/* A simulated socket; simulated descriptors follow it. */
#define MEMORY 512
#define FIRST  (MEMORY + 1)
/* An answer's descriptors, as the kernel delivers them to a receiver with room for one. */
#define OPEN_MAX_CNT 2

static const mode_t types[] = {S_IFREG, S_IFIFO, S_IFDIR, S_IFCHR};
static int things[4]; /* one of each kind, for the kernel */
static int pair[2];

static struct {
	const uint8_t *data;
	size_t len;
	unsigned cnt;
	unsigned kinds[FDS_MAX]; /* of types */
} sent;
static mode_t open_types[OPEN_MAX_CNT]; /* 0: closed */

ssize_t recvmsg(int fd, struct msghdr *msg, int flags)
{
	struct cmsghdr *head = msg->msg_control;
	size_t n = sent.len < msg->msg_iov->iov_len ? sent.len : msg->msg_iov->iov_len;
	unsigned cnt = sent.cnt < OPEN_MAX_CNT ? sent.cnt : OPEN_MAX_CNT;

	if (fd != MEMORY)
		return syscall(SYS_recvmsg, fd, msg, flags);
	assert(msg->msg_controllen == CMSG_SPACE(sizeof(int)) &&
	       CMSG_LEN(OPEN_MAX_CNT * sizeof(int)) == CMSG_SPACE(sizeof(int)));
	memcpy(msg->msg_iov->iov_base, sent.data, n);
	msg->msg_flags = (sent.len > n ? MSG_TRUNC : 0) | (sent.cnt > cnt ? MSG_CTRUNC : 0);
	msg->msg_controllen = cnt ? CMSG_SPACE(cnt * sizeof(int)) : 0;
	for (unsigned i = 0; i < cnt; i++) {
		int given = FIRST + i;

		open_types[i] = types[sent.kinds[i]];
		memcpy(CMSG_DATA(head) + i * sizeof(int), &given, sizeof(given));
	}
	if (cnt)
		*head = (struct cmsghdr){.cmsg_len = CMSG_LEN(cnt * sizeof(int)),
					 .cmsg_level = SOL_SOCKET,
					 .cmsg_type = SCM_RIGHTS};
	return n;
}

static mode_t *open_type(int fd)
{
	if (fd < FIRST || fd >= FIRST + OPEN_MAX_CNT)
		return NULL;
	assert(open_types[fd - FIRST]);
	return &open_types[fd - FIRST];
}

int statx(int fd, const char *restrict path, int flags, unsigned mask, struct statx *restrict st)
{
	const mode_t *type = open_type(fd);

	if (!type)
		return syscall(SYS_statx, fd, path, flags, mask, st);
	assert(!*path && flags & AT_EMPTY_PATH);
	memset(st, 0, sizeof(*st));
	st->stx_mode = *type | 0600;
	return 0;
}

int close(int fd)
{
	mode_t *type = open_type(fd);

	if (!type)
		return syscall(SYS_close, fd);
	*type = 0;
	return 0;
}

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

/* Returns the lowest free descriptor, which increases with each one that was left open. */
static int free_fd(void)
{
	int fd = dup(things[0]);

	close(fd);
	return fd;
}

static void send_all(void)
{
	char room[CMSG_SPACE(FDS_MAX * sizeof(int))] __attribute__((aligned(8))) = {0};
	struct cmsghdr *head = (struct cmsghdr *)room;
	struct iovec iov = {(void *)sent.data, sent.len};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	int fds[FDS_MAX];

	for (unsigned i = 0; i < sent.cnt; i++)
		fds[i] = things[sent.kinds[i]];
	if (sent.cnt) {
		msg.msg_control = room;
		msg.msg_controllen = CMSG_SPACE(sent.cnt * sizeof(int));
		head->cmsg_level = SOL_SOCKET;
		head->cmsg_type = SCM_RIGHTS;
		head->cmsg_len = CMSG_LEN(sent.cnt * sizeof(int));
		memcpy(CMSG_DATA(head), fds, sent.cnt * sizeof(int));
	}
	assert(sendmsg(pair[1], &msg, 0) == (ssize_t)sent.len);
}

/* taken: the earlier result, with fd. */
static void by_kernel(bool taken, int fd)
{
	int before, now = -1;
	struct stat st;
	char byte;

	if (!things[0])
		open_things();
	before = free_fd();
	send_all();
	assert(pass_fd__take(pair[0], S_IFREG, &now) == taken);
	if (taken && now >= 0) {
		assert(fd >= 0 && !fstat(now, &st) && S_ISREG(st.st_mode));
		close(now);
	} else {
		assert(!taken || now == fd);
	}
	assert(free_fd() == before);
	assert(recv(pair[0], &byte, 1, 0) < 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, size};
	static unsigned runs;
	int fd = -1;
	bool taken;

	sent.cnt = take8(&in) % (FDS_MAX + 1);
	for (unsigned i = 0; i < sent.cnt; i++)
		sent.kinds[i] = take8(&in) % 4;
	sent.data = in.p;
	sent.len = in.left;
	taken = pass_fd__take(MEMORY, S_IFREG, &fd);
	if (taken) {
		assert(fd >= 0 ? *open_type(fd) == S_IFREG && sent.cnt == 1 : fd >= -4095);
		if (fd >= 0)
			close(fd);
	}
	for (unsigned i = 0; i < OPEN_MAX_CNT; i++)
		assert(!open_types[i]);
	if (!(runs++ % KERNEL_EVERY))
		by_kernel(taken, fd);
	return 0;
}
