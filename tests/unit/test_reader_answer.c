/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Valid answers of the reading process are accepted; others leave nothing behind. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/pass_fd.h"

static int pair[2], file, folder;

static int setup(void **state)
{
	file = memfd_create("file", MFD_CLOEXEC);
	folder = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair);
}

static void say(int number, size_t size, const int *fds, unsigned cnt)
{
	char room[CMSG_SPACE(4 * sizeof(int))] __attribute__((aligned(8))) = {0};
	struct cmsghdr *head = (struct cmsghdr *)room;
	char text[16] = {0};
	struct iovec iov = {text, size};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	memcpy(text, &number, sizeof(number));
	if (cnt) {
		msg.msg_control = room;
		msg.msg_controllen = CMSG_SPACE(cnt * sizeof(int));
		head->cmsg_level = SOL_SOCKET;
		head->cmsg_type = SCM_RIGHTS;
		head->cmsg_len = CMSG_LEN(cnt * sizeof(int));
		memcpy(CMSG_DATA(head), fds, cnt * sizeof(int));
	}
	assert_int_equal(sendmsg(pair[1], &msg, 0), size);
}

static int free_fd(void)
{
	int fd = dup(file);

	close(fd);
	return fd;
}

#define REFUSED -100000

/* Returns the answer taken; a descriptor is 0, and closed. */
static int taken(int number, size_t size, const int *fds, unsigned cnt)
{
	int before = free_fd(), fd = 12345;
	bool ok;

	say(number, size, fds, cnt);
	ok = pass_fd__take(pair[0], S_IFREG, &fd);
	if (ok && fd >= 0) {
		assert_int_equal(fd, before);
		close(fd);
	}
	assert_int_equal(free_fd(), before);
	return !ok ? REFUSED : fd >= 0 ? 0 : fd;
}

static void test_as_it_should(void **state)
{
	assert_int_equal(taken(0, 4, &file, 1), 0);
	assert_int_equal(taken(-ENOENT, 4, NULL, 0), -ENOENT);
	/* This process had no descriptor left for it. */
	assert_int_equal(taken(0, 4, NULL, 0), -EMFILE);
}

/* A number above 0 could be one of our own descriptors, to be read and closed. */
static void test_numbers(void **state)
{
	assert_int_equal(taken(1, 4, NULL, 0), REFUSED);
	assert_int_equal(taken(pair[1], 4, NULL, 0), REFUSED);
	assert_int_equal(taken(-4096, 4, NULL, 0), REFUSED);
	assert_int_equal(taken(0, 3, NULL, 0), REFUSED);
	assert_int_equal(taken(0, 8, &file, 1), REFUSED);
}

static void test_descriptors(void **state)
{
	const int two[] = {file, file}, four[] = {file, file, file, file};

	assert_int_equal(taken(0, 4, &folder, 1), REFUSED);
	assert_int_equal(taken(0, 4, &pair[1], 1), REFUSED);
	assert_int_equal(taken(0, 4, two, 2), REFUSED);
	assert_int_equal(taken(0, 4, four, 4), REFUSED);
	assert_int_equal(taken(-ENOENT, 4, &file, 1), REFUSED);
	assert_int_equal(taken(5, 4, &file, 1), REFUSED);
}

static void test_gone(void **state)
{
	int fd;

	close(pair[1]);
	assert_false(pass_fd__take(pair[0], S_IFREG, &fd));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_as_it_should),
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_descriptors),
		cmocka_unit_test(test_gone),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
