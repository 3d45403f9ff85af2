/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Reports' memory has one limit, and all of it is freed. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "report/report.h"
#include "saved/reader.h"
#include "util/out.h"
#include "util/memlimit.h"

#define KIB 1024
#define MIB (1024 * KIB)

static void test_sum(void **state)
{
	char *a, *b;

	memlimit_set(64 * KIB);
	a = memlimit_new(MEMLIMIT_THREADS, 40 * KIB);
	assert_non_null(a);
	assert_true(memlimit_used() >= 40 * KIB && memlimit_used() < 48 * KIB);
	assert_null(memlimit_new(MEMLIMIT_POOLS, 40 * KIB));
	assert_int_equal(memlimit_rejected(MEMLIMIT_POOLS), 1);
	b = memlimit_new(MEMLIMIT_POOLS, 8 * KIB);
	assert_non_null(b);
	b[0] = 7;
	/* A block that cannot grow stays as it was. */
	assert_null(memlimit_resize(MEMLIMIT_POOLS, b, 40 * KIB));
	assert_int_equal(b[0], 7);
	memlimit_free(a);
	b = memlimit_resize(MEMLIMIT_POOLS, b, 40 * KIB);
	assert_non_null(b);
	assert_int_equal(b[0], 7);
	assert_null(memlimit_new(MEMLIMIT_TEXTS, SIZE_MAX));
	assert_null(memlimit_resize(MEMLIMIT_TEXTS, b, SIZE_MAX));
	memlimit_free(b);
	memlimit_free(NULL);
	assert_int_equal(memlimit_used(), 0);
	assert_int_equal(memlimit_rejected(MEMLIMIT_POOLS), 2);
	assert_int_equal(memlimit_rejected(MEMLIMIT_TEXTS), 2);
	assert_int_equal(memlimit_rejected(MEMLIMIT_THREADS), 0);
}

/* A new owner may use half of what is left; freed memory goes back to its owner's share. */
static void test_shares(void **state)
{
	char *a, *b, *shared;
	uint32_t was;
	int at;

	memlimit_set(64 * KIB);
	memlimit_set_owner(&at, 1);
	a = memlimit_new(MEMLIMIT_THREADS, 24 * KIB);
	assert_non_null(a);
	assert_null(memlimit_new(MEMLIMIT_THREADS, 12 * KIB));
	assert_int_equal(memlimit_rejected(MEMLIMIT_THREADS), 1);
	memlimit_set_owner(&at, 2);
	b = memlimit_new(MEMLIMIT_THREADS, 16 * KIB);
	assert_non_null(b);
	assert_null(memlimit_new(MEMLIMIT_THREADS, 8 * KIB));
	/* The same number in another trace is another process. */
	memlimit_set_owner(&was, 2);
	shared = memlimit_new(MEMLIMIT_THREADS, 8 * KIB);
	assert_non_null(shared);
	memlimit_free(shared);
	/* Freed while another owner is set. */
	memlimit_free(a);
	memlimit_set_owner(&at, 1);
	a = memlimit_new(MEMLIMIT_THREADS, 20 * KIB);
	assert_non_null(a);
	/* Memory that is allocated for another owner counts for that one. */
	was = memlimit_push_owner(b);
	assert_null(memlimit_new(MEMLIMIT_THREADS, 14 * KIB));
	memlimit_pop_owner(was);
	/* Without an owner there is no share. */
	was = memlimit_push_owner(NULL);
	shared = memlimit_new(MEMLIMIT_THREADS, 24 * KIB);
	assert_non_null(shared);
	memlimit_pop_owner(was);
	memlimit_free(shared);
	memlimit_free(a);
	memlimit_free(b);
	assert_int_equal(memlimit_used(), 0);
}

/* Each owner pays for the bytes that it adds. */
static void test_shared_block(void **state)
{
	char *a, *b;
	int at;

	memlimit_set(64 * KIB);
	memlimit_set_owner(&at, 1);
	a = memlimit_resize(MEMLIMIT_THREADS, NULL, 28 * KIB);
	assert_non_null(a);
	assert_null(memlimit_resize(MEMLIMIT_THREADS, a, 36 * KIB));
	memlimit_set_owner(&at, 2);
	a = memlimit_resize(MEMLIMIT_THREADS, a, 36 * KIB);
	assert_non_null(a);
	b = memlimit_new(MEMLIMIT_THREADS, 12 * KIB);
	assert_null(b);
	b = memlimit_new(MEMLIMIT_THREADS, 8 * KIB);
	assert_non_null(b);
	memlimit_free(a);
	memlimit_free(b);
	assert_int_equal(memlimit_used(), 0);
}

static void test_rows(void **state)
{
	struct memlimit_share s = {0};
	unsigned n[4] = {0};
	int at;

	memlimit_set(MIB);
	for (int p = 0; p < 4; p++) {
		memlimit_set_owner(&at, p);
		while (memlimit_charge(&s, 1, 1000, MEMLIMIT_POOLS))
			n[p]++;
	}
	/* Half of the rest that the previous ones left. */
	assert_int_equal(n[0], 1000);
	assert_int_equal(n[1], 500);
	assert_int_equal(n[2], 250);
	assert_int_equal(n[3], 125);
	assert_int_equal(memlimit_rejected(MEMLIMIT_POOLS), 4);
	memlimit_set_owner(&at, 0);
	memlimit_uncharge(&s, NULL, 1000);
	assert_true(memlimit_has(&s, 563, 1000));
	assert_false(memlimit_has(&s, 564, 1000));
	assert_int_equal(s.used, 875);
	memlimit_share_free(&s);
	assert_int_equal(memlimit_used(), 0);
}

/* Processes above the limit share one owner. */
static void test_owners(void **state)
{
	struct memlimit_share s = {0};
	unsigned i;

	memlimit_set(64 * MIB);
	for (i = 0; i < (1 << 17) + 1000; i++) {
		memlimit_set_owner(&s, i);
		assert_true(memlimit_charge(&s, 1, 1 << 19, MEMLIMIT_THREADS));
	}
	assert_int_equal(s.used, i);
	assert_int_equal(s.of[7], 1);
	/* 0 means no owner */
	assert_int_equal(s.of[(1 << 17) - 1], 1002);
	memlimit_share_free(&s);
	assert_int_equal(memlimit_used(), 0);
}

struct run {
	struct report *report;
	uint64_t most;
};

static int on_begin(void *ctx, const char *path, const struct trace_info *info)
{
	struct run *run = ctx;
	struct report_opts opts = {.top = 100, .html = true};

	if (!run->report)
		run->report = report__new(&opts, info);
	return run->report ? 0 : -1;
}

static void on_event(void *ctx, const struct trace_event *ev)
{
	struct run *run = ctx;

	report__event(run->report, ev);
	run->most = memlimit_used() > run->most ? memlimit_used() : run->most;
}

/* A trace in which nothing occurs twice. */
static char hostile[] = "/tmp/cudatrace-room.XXXXXX";

static int make_hostile(void **state)
{
	char cmd[128];

	close(mkstemp(hostile));
	snprintf(cmd, sizeof(cmd), "python3 tests/helpers/hostile_trace.py 3000 300 >%s", hostile);
	return system(cmd);
}

static int unlink_hostile(void **state)
{
	return unlink(hostile);
}

/* Reports on it with this memory limit. The caller frees the JSON form of the report. */
static char *report_of(uint64_t room, uint64_t *most)
{
	static const struct reader_ops ops = {.begin = on_begin, .event = on_event};
	char *text;
	struct out *out = out__memory();
	struct term term = {.width = 80};
	struct run run = {0};
	struct saved_file f;
	struct reader *r;
	struct json j;

	memlimit_set(room);
	r = reader__new(&ops, &run);
	assert_int_equal(reader__file(r, hostile, &f), 0);
	assert_int_equal(f.bad_lines, 0);
	report__finish(run.report, NULL, &f, 1);
	json__init(&j, out);
	report__json(run.report, &j);
	text = strndup(out->buf, out->len);
	out__close(out);
	term.f = fopen("/dev/null", "w");
	report__print(run.report, &term);
	fclose(term.f);
	report__free(run.report);
	reader__free(r);
	*most = run.most;
	return text;
}

static void test_enough(void **state)
{
	uint64_t most;
	char *text = report_of(MEMLIMIT_SZ, &most);

	/* Functions that are not in the table, and devices of processes, have their own limits. */
	assert_non_null(strstr(text, "\"rejected\":{\"functions\":"));
	assert_non_null(strstr(text, ",\"devices\":"));
	assert_int_equal(memlimit_rejected(MEMLIMIT_TEXTS), 0);
	assert_int_equal(memlimit_rejected(MEMLIMIT_THREADS), 0);
	assert_true(most > 8 * MIB);
	assert_int_equal(memlimit_used(), 0);
	free(text);
}

/* Small limits, so that each table is once the one that hits it. */
static void test_small(void **state)
{
	for (uint64_t size = 256 * KIB; size <= 8 * MIB; size += size / 2) {
		uint64_t most;
		char *text = report_of(size, &most);

		/* malloc() may return more than was requested. */
		assert_true(most <= size + 4 * KIB);
		assert_non_null(strstr(text, "\"rejected\":{"));
		assert_int_equal(memlimit_used(), 0);
		free(text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sum),	     cmocka_unit_test(test_shares),
		cmocka_unit_test(test_shared_block), cmocka_unit_test(test_rows),
		cmocka_unit_test(test_owners),	     cmocka_unit_test(test_enough),
		cmocka_unit_test(test_small),
	};

	return cmocka_run_group_tests(tests, make_hostile, unlink_hostile);
}
