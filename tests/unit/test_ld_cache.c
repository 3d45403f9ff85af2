/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The dynamic linker's cache in a container has arbitrary contents. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attach/find/ld_cache.h"

#ifdef __aarch64__
#define FLAGS 0x0a03
#else
#define FLAGS 0x0303
#endif

struct cache {
	char bytes[8192];
	size_t size;
};

static void put(struct cache *c, const void *p, size_t n)
{
	memcpy(c->bytes + c->size, p, n);
	c->size += n;
}

static void put32(struct cache *c, uint32_t x)
{
	put(c, &x, sizeof(x));
}

static void begin(struct cache *c, uint32_t cnt)
{
	put(c, "glibc-ld.so.cache1.1", 20);
	put32(c, cnt);
	for (int i = 0; i < 6; i++)
		put32(c, 0);
}

static void entry(struct cache *c, uint32_t flags, uint32_t name, uint32_t path)
{
	put32(c, flags);
	put32(c, name);
	put32(c, path);
	put32(c, 0);
	put(c, "\0\0\0\0\0\0\0", 8);
}

static bool note(void *ctx, const char *name, const char *path)
{
	char *text = ctx;

	sprintf(text + strlen(text), "%.64s=%.64s;", name, path);
	return strlen(text) < 400;
}

/* In memory of exactly its size: the sanitizer detects a read past the end. */
static const char *read_all(const struct cache *c)
{
	static char text[1024];
	char *copy = malloc(c->size ? c->size : 1);

	*text = 0;
	memcpy(copy, c->bytes, c->size);
	ld_cache__each(copy, c->size, note, text);
	free(copy);
	return text;
}

static void good(struct cache *c)
{
	begin(c, 3);
	entry(c, FLAGS, 120, 133);
	entry(c, 0x0003, 120, 133); /* 32-bit */
	entry(c, FLAGS, 149, 151);
	put(c, "libcuda.so.1\0/l/libcuda.so.1\0x\0/x", 34);
}

static void reads(void **state)
{
	struct cache c = {0}, old = {0};

	good(&c);
	assert_string_equal(read_all(&c), "libcuda.so.1=/l/libcuda.so.1;x=/x;");
	/* Behind the old format, at a multiple of 8 */
	put(&old, "ld.so-1.7.0\0", 12);
	put32(&old, 1);
	put(&old, "123456789abc\0\0\0\0", 16);
	put(&old, c.bytes, c.size);
	assert_string_equal(read_all(&old), "libcuda.so.1=/l/libcuda.so.1;x=/x;");
}

static void cut_anywhere(void **state)
{
	struct cache c = {0};
	size_t whole;

	good(&c);
	whole = c.size;
	for (c.size = 0; c.size < whole; c.size++)
		assert_null(strstr(read_all(&c), "x=/x"));
}

static void hostile(void **state)
{
	struct cache c = {0};

	begin(&c, UINT32_MAX);
	entry(&c, FLAGS, 0, 0);
	assert_string_equal(read_all(&c), "");

	/* Offsets outside, strings without a NUL, or too long. */
	c.size = 0;
	begin(&c, 4);
	entry(&c, FLAGS, UINT32_MAX, 144);
	entry(&c, FLAGS, 144, 8000);
	entry(&c, FLAGS, 144, 146);
	entry(&c, FLAGS, 145, 144);
	put(&c, "a", 2);
	memset(c.bytes + c.size, 'b', 4500);
	c.size += 4500;
	assert_string_equal(read_all(&c), "=a;");

	c.size = 0;
	put(&c, "ld.so-1.7.0\0", 12);
	put32(&c, UINT32_MAX);
	put(&c, c.bytes, 16);
	assert_string_equal(read_all(&c), "");
}

static void stops(void **state)
{
	struct cache c = {0};

	begin(&c, 200);
	for (int i = 0; i < 200; i++)
		entry(&c, FLAGS, 0, 0);
	assert_in_range(strlen(read_all(&c)), 400, 460);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads),
		cmocka_unit_test(cut_anywhere),
		cmocka_unit_test(hostile),
		cmocka_unit_test(stops),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
