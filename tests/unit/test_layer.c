/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The suite containers tests real overlays. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <unistd.h>

#include "attach/find/layer.h"

static const struct layer_file below = {
	.ino = 7,
	.size = 100,
	.mtime = {10, 1},
	.ctime = {20, 2},
};

static void same(void **state)
{
	struct layer_file a = below, b = below;

	/* A disk may be a copy of another. */
	assert_false(layer_file__same(&a, &b));
	b.overlay = true;
	assert_true(layer_file__same(&a, &b));
	assert_true(layer_file__same(&b, &a));
	a.overlay = true;
	assert_true(layer_file__same(&a, &b));
}

static void others(void **state)
{
	struct layer_file a = below, b;

	a.overlay = true;
	b = a;
	b.ino++;
	assert_false(layer_file__same(&a, &b));
	b = a;
	b.size++;
	assert_false(layer_file__same(&a, &b));
	b = a;
	b.mtime.tv_nsec++;
	assert_false(layer_file__same(&a, &b));
	b = a;
	b.ctime.tv_sec++;
	assert_false(layer_file__same(&a, &b));
}

static void of_descriptors(void **state)
{
	struct layer_file a = below, b = below;
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	assert_int_equal(layer_file__read(&a, fd), 0);
	assert_true(a.ino && a.size);
	close(fd);
	assert_true(layer_file__read(&b, fd) < 0);
	assert_int_equal(b.ino, below.ino);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(same),
		cmocka_unit_test(others),
		cmocka_unit_test(of_descriptors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
