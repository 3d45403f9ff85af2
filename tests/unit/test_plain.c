// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/log.h"
#include "util/plain.h"

static void same(const char *text, size_t len, const char *want)
{
	char buf[64], *printed = NULL;
	size_t printed_len;
	FILE *f = open_memstream(&printed, &printed_len);

	memcpy(buf, text, len);
	plain_text(buf, len);
	assert_int_equal(len, strlen(want));
	assert_memory_equal(buf, want, len);
	assert_non_null(f);
	plain_print(f, text, len);
	fclose(f);
	assert_int_equal(printed_len, len);
	assert_memory_equal(printed, want, len);
	free(printed);
}
#define SAME(text, want) same(text, sizeof(text) - 1, want)

static void test_left_alone(void **state)
{
	SAME("", "");
	SAME("libcuda.so.1 ~!", "libcuda.so.1 ~!");
	SAME("3 \xc2\xb5s \xe2\x96\x88 \xf0\x9f\x98\x80",
	     "3 \xc2\xb5s \xe2\x96\x88 \xf0\x9f\x98\x80");
}

static void test_controls(void **state)
{
	SAME("a\033[2Jb\ac\r\n\t\x7f\0", "a?[2Jb?c?????");
	/* CSI as one byte, and as U+009B */
	SAME("\x9b"
	     "2J",
	     "?2J");
	SAME("\xc2\x9b"
	     "2J",
	     "??2J");
	SAME("\xc2\xa0", "\xc2\xa0");
}

static void test_no_utf8(void **state)
{
	SAME("\xc2", "?");
	SAME("\xe2\x96", "??");
	SAME("\xe2\x96z", "??z");
	SAME("\xff\xfe", "??");
	/* ESC and U+009B in a longer form than they need */
	SAME("\xc0\x9b\xe0\x82\x9b", "?????");
	SAME("\xed\xa0\x80", "???");
}

static void test_messages(void **state)
{
	char got[256] = "";
	int fds[2], err_fd = dup(STDERR_FILENO);

	assert_int_equal(pipe(fds), 0);
	dup2(fds[1], STDERR_FILENO);
	err("cannot read %s: no", "/tmp/\033]0;x\a\xc2\x9b/\xc3\xa9");
	dup2(err_fd, STDERR_FILENO);
	close(err_fd);
	close(fds[1]);
	assert_true(read(fds[0], got, sizeof(got) - 1) > 0);
	close(fds[0]);
	assert_string_equal(got, "cudatrace: cannot read /tmp/?]0;x???\x2f\xc3\xa9: no\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_left_alone),
		cmocka_unit_test(test_controls),
		cmocka_unit_test(test_no_utf8),
		cmocka_unit_test(test_messages),
	};

	return cmocka_run_group_tests_name("plain", tests, NULL, NULL);
}
