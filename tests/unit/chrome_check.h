/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Checks a trace with Python. Include cmocka.h before. */
#ifndef TESTS_CHROME_CHECK_H
#define TESTS_CHROME_CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Evaluates a Python expression, which must be true, over the parsed trace `d`. */
static inline void check_py(const char *text, const char *expr)
{
	char path[] = "/tmp/test_chrome.XXXXXX", cmd[4096];
	int fd = mkstemp(path), ret;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
	snprintf(cmd, sizeof(cmd), "python3 tests/helpers/says.py %s '%s'", path, expr);
	ret = system(cmd);
	if (ret)
		print_error("not so: %s\n%s\n", expr, text);
	unlink(path);
	assert_int_equal(ret, 0);
}

#endif /* TESTS_CHROME_CHECK_H */
