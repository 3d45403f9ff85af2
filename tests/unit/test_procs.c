/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Counts of several producers for one process, as the daemon adds them up. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/procs.h"
#include "util/out.h"

#define ROWS 4

struct made {
	struct source s;
	struct {
		ct_generation generation;
		uint32_t pid, func_id;
		uint64_t calls, errors;
	} rows[ROWS];
	unsigned cnt;
	enum ct_proc_level level; /* of this process */
	bool is_slow;
	unsigned searches; /* of the whole table */
};

static struct made made[2];
static struct sources ss;
static struct quotas quotas;
static struct dprocs ps;

static void give(struct made *m, unsigned i, const struct count_reader *r)
{
	const struct ct_count_key key = {m->rows[i].generation, m->rows[i].pid, m->rows[i].func_id,
					 0};
	const struct ct_error_key error = {m->rows[i].generation, m->rows[i].pid,
					   m->rows[i].func_id, 2, 0};
	struct ct_count c = {.errors = m->rows[i].errors};

	c.hist[0] = m->rows[i].calls;
	if (r->count)
		r->count(r->ctx, m->s.number, &key, &c);
	if (r->error && m->rows[i].errors)
		r->error(r->ctx, m->s.number, &error, m->rows[i].errors);
}

static void made_read(struct source *s, const struct count_reader *r)
{
	struct made *m = (void *)s;

	for (unsigned i = 0; i < m->cnt; i++)
		give(m, i, r);
}

static void made_take(struct source *s, pid_t pid, ct_generation generation,
		      const struct count_reader *r)
{
	struct made *m = (void *)s;

	assert_int_equal(pid, getpid());
	for (unsigned i = 0; i < m->cnt; i++) {
		if (generation && m->rows[i].generation && m->rows[i].generation != generation)
			continue;
		give(m, i, r);
		m->rows[i--] = m->rows[--m->cnt];
	}
}

static bool made_is_slow(struct source *s, pid_t pid, ct_generation generation)
{
	return ((struct made *)s)->is_slow;
}

static void made_take_all(struct source *s, const struct count_reader *r)
{
	struct made *m = (void *)s;

	m->searches++;
	for (unsigned i = 0; i < m->cnt; i++) {
		if (!r->wanted(r->ctx, m->rows[i].pid, m->rows[i].generation))
			continue;
		give(m, i, r);
		m->rows[i--] = m->rows[--m->cnt];
	}
}

static int made_set_proc(struct source *s, pid_t pid, enum ct_proc_level level)
{
	assert_int_equal(pid, getpid());
	((struct made *)s)->level = level;
	return 0;
}

static const struct source_ops made_ops = {
	.read_counts = made_read,
	.take_counts = made_take,
	.is_slow_to_take = made_is_slow,
	.take_all_counts = made_take_all,
	.set_proc = made_set_proc,
};

static void on_cause(void *ctx, struct dproc *p, enum cause why, uint64_t ns)
{
}

static int setup(void **state)
{
	memset(made, 0, sizeof(made));
	for (unsigned i = 0; i < 2; i++) {
		made[i].s = (struct source){.ops = &made_ops, .number = i};
		ss.of[i] = &made[i].s;
	}
	ss.cnt = 2;
	quotas__init(&quotas, false, false);
	quotas.of[QUOTA_LABELS].max = 100;
	ps = (struct dprocs){
		.sources = &ss,
		.fns = fnset__new(),
		.metrics = metrics__new(1000),
		.cfg = config__new(),
		.root = "",
		.quota = &quotas.of[QUOTA_LABELS],
		.caused = on_cause,
	};
	assert_true(ps.fns && ps.metrics && ps.cfg);
	return 0;
}

static int teardown(void **state)
{
	dprocs__free(&ps);
	metrics__free(ps.metrics);
	config__free((struct config *)ps.cfg);
	fnset__free(ps.fns);
	return 0;
}

static void put(struct made *m, unsigned i, const char *symbol, uint64_t calls, uint64_t errors)
{
	int id = fnset__id(ps.fns, symbol);

	assert_true(id >= 0 && i < ROWS);
	m->rows[i].pid = getpid();
	m->rows[i].func_id = id;
	m->rows[i].calls = calls;
	m->rows[i].errors = errors;
	if (m->cnt <= i)
		m->cnt = i + 1;
}

/* Returns the number at the end of this family's line. 0: there is no line. */
static uint64_t value(const char *family, const char *symbol)
{
	static const struct metrics_self self = {.version = "1", .driver_version = "1"};
	struct out *o = out__memory();
	char *text, *line, *save;
	uint64_t sum = 0;

	metrics__print(ps.metrics, &self, o);
	text = strndup(o->buf, o->len);
	out__close(o);
	assert_non_null(text);
	for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		if (!strncmp(line, family, strlen(family)) && strstr(line, symbol))
			sum += strtoull(strrchr(line, ' '), NULL, 10);
	free(text);
	return sum;
}

static uint64_t calls(const char *symbol)
{
	return value("cudatrace_calls_total", symbol);
}

static uint64_t errors(const char *symbol)
{
	return value("cudatrace_errors_total", symbol);
}

static void read_all(void)
{
	dprocs__read_counts(&ps);
	dprocs__read_errors(&ps);
}

/* Each producer counts by itself, also the same function. */
static void same_function(void **state)
{
	put(&made[0], 0, "cuInit", 100, 10);
	put(&made[1], 0, "cuInit", 5, 1);
	read_all();
	assert_int_equal(calls("cuInit"), 105);
	assert_int_equal(errors("cuInit"), 11);
	read_all();
	assert_int_equal(calls("cuInit"), 105);
	put(&made[1], 0, "cuInit", 7, 2);
	put(&made[1], 1, "cuDeviceGet", 3, 0);
	read_all();
	assert_int_equal(calls("cuInit"), 107);
	assert_int_equal(errors("cuInit"), 12);
	assert_int_equal(calls("cuDeviceGet"), 3);
}

/* One producer distinguishes the programs of a process, the other does not. */
static void lives(void **state)
{
	struct dproc *p;

	put(&made[0], 0, "cuInit", 10, 0);
	made[0].rows[0].generation = 71;
	put(&made[1], 0, "cuInit", 5, 1);
	read_all();
	assert_int_equal(calls("cuInit"), 15);
	p = dprocs__find(&ps, getpid());
	assert_non_null(p);
	assert_int_equal(p->generation, 71);
	/* Counts of the next program wait until the end of the last one has been read. */
	put(&made[0], 1, "cuInit", 100, 0);
	made[0].rows[1].generation = 72;
	put(&made[0], 0, "cuInit", 12, 0);
	put(&made[1], 0, "cuInit", 6, 2);
	read_all();
	assert_int_equal(calls("cuInit"), 18);
	put(&made[1], 0, "cuInit", 8, 2);
	dprocs__exec(&ps, p, 72);
	assert_int_equal(made[1].cnt, 0);
	assert_int_equal(calls("cuInit"), 20);
	assert_int_equal(errors("cuInit"), 2);
	put(&made[1], 0, "cuInit", 1, 0);
	read_all();
	assert_int_equal(calls("cuInit"), 121);
	dprocs__remove(&ps, p, 72);
	assert_int_equal(calls("cuInit"), 121);
	assert_null(dprocs__find(&ps, getpid()));
}

/* Programs that end one after the other are searched for together. */
static void ends(void **state)
{
	struct dproc *p;

	made[0].is_slow = true;
	for (unsigned i = 0; i < 3; i++) {
		put(&made[0], i, "cuInit", 10 + i, 1);
		made[0].rows[i].generation = 71 + i;
	}
	put(&made[1], 0, "cuInit", 5, 1);
	read_all();
	assert_int_equal(calls("cuInit"), 15);
	p = dprocs__find(&ps, getpid());
	put(&made[0], 0, "cuInit", 20, 2);
	dprocs__exec(&ps, p, 72);
	dprocs__exec(&ps, p, 73);
	assert_int_equal(made[1].cnt, 0);
	dprocs__remove(&ps, p, 73);
	dprocs__take_unknown(&ps, getpid(), 74);
	assert_null(dprocs__find(&ps, getpid()));
	assert_int_equal(made[0].searches, 0);
	read_all();
	assert_int_equal(made[0].searches, 1);
	assert_int_equal(made[0].cnt, 0);
	assert_int_equal(calls("cuInit"), 20 + 11 + 12 + 5);
	assert_int_equal(errors("cuInit"), 2 + 1 + 1 + 1);
	assert_null(dprocs__find(&ps, getpid()));
}

static void levels(void **state)
{
	struct dproc *p = dprocs__get(&ps, getpid(), NULL);

	assert_non_null(p);
	for (int level = CT_PROC_TRACE; level <= CT_PROC_OFF; level++) {
		dprocs__set_level(&ps, p,
				  level == CT_PROC_TRACE     ? LEVEL_TRACE
				  : level == CT_PROC_METRICS ? LEVEL_METRICS
							     : LEVEL_OFF);
		assert_int_equal(made[0].level, level);
		assert_int_equal(made[1].level, level);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {TEST(same_function), TEST(lives), TEST(ends),
					   TEST(levels)};

	return cmocka_run_group_tests_name("procs", tests, NULL, NULL);
}
