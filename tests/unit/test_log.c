/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Messages to a reader that does not read are dropped and counted. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "util/log.h"

/* Of the pipe. */
#define SIZE 8192

struct pipe {
	int ends[2], old;
};

static int stderr_to_pipe(void **state)
{
	static struct pipe p;

	*state = &p;
	p.old = dup(STDERR_FILENO);
	return pipe2(p.ends, O_CLOEXEC) || fcntl(p.ends[1], F_SETPIPE_SZ, SIZE) < 0 ||
	       dup2(p.ends[1], STDERR_FILENO) < 0;
}

static int restore(void **state)
{
	struct pipe *p = *state;

	log_set_wait(-1);
	dup2(p->old, STDERR_FILENO);
	close(p->old);
	close(p->ends[0]);
	return close(p->ends[1]);
}

/* Returns what the pipe contains. */
static const char *take(const struct pipe *p)
{
	static char text[65536];
	struct pollfd in = {.fd = p->ends[0], .events = POLLIN};
	size_t n = 0;
	ssize_t ret;

	while (poll(&in, 1, 0) == 1 && (ret = read(in.fd, text + n, sizeof(text) - 1 - n)) > 0)
		n += ret;
	text[n] = '\0';
	return text;
}

static void drops_and_counts(void **state)
{
	static char full[SIZE];
	struct pipe *p = *state;

	memset(full, 'x', sizeof(full));
	assert_int_equal(write(p->ends[1], full, sizeof(full)), sizeof(full));
	log_set_wait(20);
	info("one");
	info("two");
	assert_int_equal(strspn(take(p), "x"), sizeof(full));
	info("three");
	assert_string_equal(take(p), "cudatrace: warning: 2 messages were dropped: the reader of "
				     "stderr was too slow\ncudatrace: three\n");
	info("four");
	assert_string_equal(take(p), "cudatrace: four\n");
}

/* The part that the pipe takes is written. */
static void drops_the_rest(void **state)
{
	static char text[3 * SIZE];
	struct pipe *p = *state;

	memset(text, 'y', sizeof(text));
	log_set_wait(20);
	log_write(text, sizeof(text));
	assert_int_equal(strlen(take(p)), SIZE);
	log_set_wait(20);
	log_write(text, 10);
	assert_non_null(strstr(take(p), "1 message was dropped"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(drops_and_counts, stderr_to_pipe, restore),
		cmocka_unit_test_setup_teardown(drops_the_rest, stderr_to_pipe, restore),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
