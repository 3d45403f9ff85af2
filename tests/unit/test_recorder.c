/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zstd.h>

#include "daemon/recorder.h"
#include "util/zframe.h"

#define SEC 1000000000ull

static void add_line(struct recorder *r, const char *text, size_t len, uint64_t now_ns)
{
	const struct line line = {.text = text,
				  .len = len,
				  .kind = EVENT_CALL,
				  .type = TYPE_MEMORY,
				  .abandoned = true};

	recorder__line(r, &line, now_ns);
}

/* The end line of a dump counts the stored lines. */
static void check_counts(const struct recorder *r, uint64_t calls)
{
	struct trace_end end = {0};

	recorder__count(r, &end);
	assert_int_equal(end.event_cnt, calls);
	assert_int_equal(end.call_cnt, calls);
	assert_int_equal(end.type_cnt[TYPE_MEMORY], calls);
	assert_int_equal(end.stats[CT_STAT_ENTRIES], calls);
	assert_int_equal(end.stats[CT_STAT_ABANDONED], calls);
	assert_int_equal(end.stats[CT_STAT_UNFINISHED], 0);
}

static size_t add(struct recorder *r, unsigned n, uint64_t now_ns)
{
	char line[128];
	int len = snprintf(line, sizeof(line), "{\"n\":%u,\"x\":\"%08x%08x%08x\"}\n", n,
			   (unsigned)rand(), (unsigned)rand(), (unsigned)rand());

	add_line(r, line, len, now_ns);
	return len;
}

/* Unpacks a dump: several frames one after the other. */
static char *unpack(struct recorder *r)
{
	static const char first[] = "{\"first\":1}\n", last[] = "{\"last\":1}\n";
	int fd = memfd_create("dump", MFD_CLOEXEC);
	size_t size, cap = 64 << 20;
	char *packed, *text = malloc(cap);
	ZSTD_DCtx *d = ZSTD_createDCtx();

	assert_true(fd >= 0 && text && d);
	assert_int_equal(recorder__dump(r, fd, first, strlen(first), last, strlen(last)), 0);
	size = lseek(fd, 0, SEEK_END);
	packed = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
	assert_true(packed != MAP_FAILED);
	cap = ZSTD_decompressDCtx(d, text, cap - 1, packed, size);
	assert_false(ZSTD_isError(cap));
	text[cap] = '\0';
	munmap(packed, size);
	ZSTD_freeDCtx(d);
	close(fd);
	assert_ptr_equal(strstr(text, first), text);
	assert_string_equal(text + cap - strlen(last), last);
	return text;
}

static unsigned lines(const char *s)
{
	unsigned n = 0;

	while ((s = strchr(s, '\n'))) {
		s++;
		n++;
	}
	return n;
}

static void all_of_it(void **state)
{
	struct recorder *r = recorder__new(10 * SEC, 64 << 20);
	struct recorder_stats s;
	char *text;

	for (unsigned i = 0; i < 50000; i++)
		add(r, i, SEC);
	recorder__stats(r, &s);
	assert_int_equal(s.lines, 50000);
	assert_int_equal(s.oldest_ns, SEC);
	assert_int_equal(s.cut, 0);
	/* same dump twice: it drops nothing */
	for (int i = 0; i < 2; i++) {
		text = unpack(r);
		assert_int_equal(lines(text), 50002);
		assert_non_null(strstr(text, "{\"n\":0,"));
		assert_non_null(strstr(text, "{\"n\":49999,"));
		free(text);
	}
	recorder__free(r);
}

static void only_the_last_seconds(void **state)
{
	struct recorder *r = recorder__new(10 * SEC, 64 << 20);
	struct recorder_stats s;
	char *text;

	for (unsigned i = 0; i < 100000; i++)
		add(r, i, i * SEC / 1000);
	recorder__stats(r, &s);
	assert_true(s.lines >= 10000 && s.lines < 10000 + 2 * 256 * 1024 / 40);
	assert_true(s.oldest_ns <= 90 * SEC && s.oldest_ns > 75 * SEC);
	text = unpack(r);
	assert_int_equal(lines(text), s.lines + 2);
	assert_non_null(strstr(text, "{\"n\":90000,"));
	free(text);
	recorder__free(r);
}

static void memory_is_bounded(void **state)
{
	struct recorder *r = recorder__new(1000 * SEC, 2 << 20);
	struct recorder_stats s;

	for (unsigned i = 0; i < 400000; i++)
		add(r, i, SEC + i);
	recorder__stats(r, &s);
	assert_true(s.bytes <= 2 << 20);
	assert_true(s.bytes > 1 << 20);
	assert_int_equal(s.cut + s.lines, 400000);
	recorder__free(r);
}

/* Frames between lines, in order; they are dropped and counted like lines. */
static void frames(void **state)
{
	static char text[64 << 10], frame[ZFRAME_ROOM(sizeof(text))], want[1 << 20];
	struct recorder *r = recorder__new(10 * SEC, 64 << 20);
	struct zframe *z = zframe__new();
	struct recorder_stats s;
	struct trace_end sums = {.event_cnt = 100, .call_cnt = 100};
	size_t len = 0, cnt = 0;
	char *got;

	sums.type_cnt[TYPE_MEMORY] = sums.stats[CT_STAT_ABANDONED] = 100;
	for (unsigned i = 0; i < 10; i++) {
		size_t n = 0;

		for (unsigned k = 0; k < 100; k++)
			n += sprintf(text + n, "{\"frame\":%u,\"line\":%u}\n", i, k);
		recorder__frame(r, frame, zframe__make(z, text, n, frame, sizeof(frame)), 100,
				&sums, SEC * (i + 1));
		memcpy(want + len, text, n);
		len += n;
		n = sprintf(text, "{\"n\":%u}\n", i);
		add_line(r, text, n, SEC * (i + 1));
		memcpy(want + len, text, n);
		len += n;
		cnt += 101;
	}
	recorder__stats(r, &s);
	assert_int_equal(s.lines, cnt);
	check_counts(r, cnt);
	assert_int_equal(s.oldest_ns, SEC);
	got = unpack(r);
	assert_memory_equal(strchr(got, '\n') + 1, want, len);
	free(got);
	add_line(r, text, 1, 15 * SEC + 1);
	recorder__stats(r, &s);
	assert_int_equal(s.lines, 5 * 101 + 1);
	check_counts(r, s.lines);
	assert_int_equal(s.cut, 0);
	recorder__free(r);
	zframe__free(z);
}

static void nothing_yet(void **state)
{
	struct recorder *r = recorder__new(SEC, 1 << 20);
	struct recorder_stats s;
	char *text;

	recorder__stats(r, &s);
	assert_int_equal(s.lines + s.oldest_ns, 0);
	text = unpack(r);
	assert_int_equal(lines(text), 2);
	free(text);
	recorder__free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_of_it),	     cmocka_unit_test(only_the_last_seconds),
		cmocka_unit_test(memory_is_bounded), cmocka_unit_test(frames),
		cmocka_unit_test(nothing_yet),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
