/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Several producers as one stream of records. They are made up; their records are complete, or come
 * during the search. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "trace/source.h"
#include "util/clock.h"

#define RECORDS 4096

struct made {
	struct source s;
	struct ct_call calls[RECORDS];
	unsigned cnt, pos;
	unsigned asked;		/* take() was called */
	unsigned busy_at, busy; /* that record is incomplete for so many looks */
	unsigned full, lost;
	void (*on_look)(uint64_t now);
	struct ct_rec unfinished; /* size 0: none */
	unsigned level_fn, always_fn;
	pid_t level_pid;
	enum ct_proc_level proc_level, default_level;
	int level_ret;
	uint64_t counted;
	struct seen_thread threads[4];
};

static struct sources ss;
static struct {
	uint64_t id, parent_id, end_ns;
} got[2 * RECORDS];
static unsigned got_cnt, closed_cnt;
static uint64_t start_ns;

static void on_record(void *ctx, const struct raw *raw)
{
	assert_ptr_equal(ctx, &ss);
	assert_int_equal(raw->rec->kind, CT_REC_CALL);
	got[got_cnt].id = raw->call.id;
	got[got_cnt].parent_id = raw->call.parent_id;
	got[got_cnt++].end_ns = raw->call.call->end_ns;
}

static bool is_busy(const struct made *m)
{
	return m->busy && m->pos == m->busy_at;
}

static void find_next(struct made *m)
{
	m->s.next_ns = m->pos < m->cnt ? m->calls[m->pos].end_ns : SOURCE_NONE;
}

static bool made_look(struct source *s, uint64_t now)
{
	struct made *m = (void *)s;

	if (m->on_look)
		m->on_look(now);
	find_next(m);
	if (!is_busy(m))
		return true;
	m->busy--;
	s->next_ns = SOURCE_NONE; /* unknown so far */
	return false;
}

static size_t made_take(struct source *s, size_t max, uint64_t until)
{
	struct made *m = (void *)s;
	size_t cnt = 0;

	m->asked++;
	for (; cnt < max && s->next_ns <= until && !is_busy(m); cnt++) {
		source__give(s, &m->calls[m->pos], m->calls[m->pos].rec.size);
		m->pos++;
		find_next(m);
	}
	return cnt;
}

static bool made_was_full(struct source *s)
{
	struct made *m = (void *)s;
	bool was = m->full;

	m->full = 0;
	return was;
}

static void made_totals(struct source *s, struct ct_totals *sum)
{
	struct made *m = (void *)s;

	assert_int_equal(sum->drops[CT_DROP_CALL], 0);
	sum->stats[CT_STAT_ENTRIES] = m->cnt + m->lost;
	sum->drops[CT_DROP_CALL] = m->lost;
	sum->cost_ns = 10 * m->cnt;
	sum->busiest = (uint64_t)m->cnt << 32 | s->number;
}

static void made_each_thread(struct source *s, thread_fn fn, void *ctx)
{
	struct made *m = (void *)s;

	for (unsigned i = 0; i < 4 && m->threads[i].pid; i++)
		fn(ctx, &m->threads[i]);
}

static void made_unfinished(struct source *s)
{
	struct made *m = (void *)s;
	struct ct_call c = {.rec = m->unfinished, .call_id = 7};

	source__give(s, &c, CT_CALL_FIXED_SZ);
}

static int made_set_level(struct source *s, unsigned func_id, const struct fn_level *l)
{
	struct made *m = (void *)s;

	assert_int_equal(l->level, CT_LEVEL_COUNT);
	m->level_fn = func_id;
	return m->level_ret;
}

static int made_set_always(struct source *s, unsigned func_id, bool always)
{
	struct made *m = (void *)s;

	m->always_fn = always ? func_id : 0;
	return m->level_ret;
}

static int made_set_proc(struct source *s, pid_t pid, enum ct_proc_level level)
{
	struct made *m = (void *)s;

	m->level_pid = pid;
	m->proc_level = level;
	return m->level_ret;
}

static void made_set_default(struct source *s, enum ct_proc_level level)
{
	((struct made *)s)->default_level = level;
}

static void made_read_counts(struct source *s, const struct count_reader *r)
{
	const struct ct_count_key key = {.pid = 3, .func_id = 4};
	const struct ct_error_key error = {.pid = 3, .func_id = 4, .result = 5};
	struct ct_count c = {0};

	c.hist[7] = ((struct made *)s)->counted;
	if (r->count)
		r->count(r->ctx, s->number, &key, &c);
	if (r->error)
		r->error(r->ctx, s->number, &error, 1);
}

static void made_take_counts(struct source *s, pid_t pid, ct_generation generation,
			     const struct count_reader *r)
{
	assert_int_equal(pid, 3);
	assert_int_equal(generation, 9);
	made_read_counts(s, r);
	((struct made *)s)->counted = 0;
}

static int open_ret;

static int made_open(struct source *s, struct tracer *t)
{
	return open_ret;
}

static void made_close(struct source *s)
{
	closed_cnt++;
}

static const struct source_ops made_ops = {
	.size = sizeof(struct made),
	.open = made_open,
	.look = made_look,
	.take = made_take,
	.was_full = made_was_full,
	.totals = made_totals,
	.each_thread = made_each_thread,
	.unfinished = made_unfinished,
	.set_level = made_set_level,
	.set_always = made_set_always,
	.set_proc = made_set_proc,
	.set_default = made_set_default,
	.read_counts = made_read_counts,
	.take_counts = made_take_counts,
	.unfinished_counts = made_read_counts,
	.close = made_close,
};

/* Only the required operations. */
static const struct source_ops least_ops = {
	.size = sizeof(struct made), .open = made_open, .look = made_look, .take = made_take};

static struct made *add(const struct source_ops *ops)
{
	open_ret = 0;
	assert_int_equal(sources__open(&ss, ops, ss.cnt, NULL, on_record, &ss), 0);
	return (struct made *)ss.of[ss.cnt - 1];
}

static void put(struct made *m, uint64_t end_ns)
{
	struct ct_call *c = &m->calls[m->cnt++];

	c->rec.kind = CT_REC_CALL;
	c->rec.size = CT_CALL_FIXED_SZ;
	c->end_ns = end_ns;
	c->call_id = m->cnt;
	c->parent_id = m->cnt - 1;
}

static int setup(void **state)
{
	memset(got, 0, sizeof(got));
	got_cnt = closed_cnt = 0;
	start_ns = now_ns() - 1000000000;
	return 0;
}

static int teardown(void **state)
{
	unsigned cnt = 0;

	for (unsigned i = 0; i < ss.cnt; i++)
		cnt += ss.of[i]->ops == &made_ops;
	closed_cnt = 0;
	sources__close(&ss);
	assert_int_equal(ss.cnt, 0);
	assert_int_equal(closed_cnt, cnt);
	return 0;
}

static void assert_in_order(unsigned cnt)
{
	assert_int_equal(got_cnt, cnt);
	for (unsigned i = 1; i < cnt; i++)
		assert_true(got[i - 1].end_ns <= got[i].end_ns);
}

/* Their records interleave in time, one by one and in runs, and come in batches. */
static void by_time(void **state)
{
	struct made *a = add(&made_ops), *b = add(&made_ops);
	uint32_t seed = 1;

	for (unsigned n = 0; n < RECORDS; n++) {
		seed = seed * 1664525 + 1013904223;
		put(seed >> 28 < 8 || n / 512 % 2 ? a : b, start_ns + n);
	}
	assert_true(a->cnt > RECORDS / 2 && b->cnt > RECORDS / 8);
	for (unsigned n = 0; n < RECORDS; n += 100)
		assert_int_equal(sources__drain(&ss, 100), RECORDS - n < 100 ? RECORDS - n : 100);
	assert_int_equal(sources__drain(&ss, 100), 0);
	for (unsigned n = 0; n < RECORDS; n++)
		assert_int_equal(got[n].end_ns, start_ns + n);
	assert_in_order(RECORDS);
}

/* Records of others cost an idle producer, and one that has several in a row, at most one take()
 * per turn. */
static void runs(void **state)
{
	struct made *a = add(&made_ops), *b = add(&made_ops);

	for (unsigned n = 0; n < 100; n++)
		put(a, start_ns + n);
	assert_int_equal(sources__drain(&ss, SIZE_MAX), 100);
	assert_int_equal(a->asked, 1);
	assert_int_equal(b->asked, 0);
	for (unsigned n = 0; n < 100; n++)
		put(n < 50 ? a : b, start_ns + 100 + n);
	assert_int_equal(sources__drain(&ss, SIZE_MAX), 100);
	assert_int_equal(a->asked, 2);
	assert_int_equal(b->asked, 1);
	assert_in_order(200);
}

/* During the look at the second, the first makes a record, from which one of the second follows. */
static void cause_and_effect(uint64_t now)
{
	struct made *a = (void *)ss.of[0], *b = (void *)ss.of[1];

	if (a->cnt)
		return;
	put(a, now + 10);
	put(b, now + 20);
}

static void causes_come_first(void **state)
{
	/* Alone, and after others that cause nothing. */
	for (unsigned others = 0; others < 3; others++) {
		struct made *a = add(&made_ops), *b = add(&made_ops);

		b->on_look = cause_and_effect;
		for (unsigned i = 0; i < others; i++)
			put(b, start_ns + i);
		got_cnt = 0;
		assert_int_equal(sources__drain(&ss, SIZE_MAX), others + 2);
		assert_int_equal(a->pos, 1);
		assert_in_order(others + 2);
		sources__close(&ss);
	}
}

/* A producer with a clock ahead is not waited for. */
static void later_than_now(void **state)
{
	struct made *a = add(&made_ops), *b = add(&made_ops);

	put(a, start_ns + 3600000000000);
	put(b, start_ns + 3600000000001);
	put(b, start_ns);
	b->calls[2] = b->calls[0];
	b->calls[0] = b->calls[1];
	b->calls[1] = b->calls[2];
	b->cnt = 2;
	assert_int_equal(sources__drain(&ss, SIZE_MAX), 3);
	assert_in_order(3);
}

/* An incomplete record delays all records that may follow from it. */
static void incomplete(void **state)
{
	struct made *a = add(&made_ops), *b = add(&made_ops);

	for (unsigned n = 0; n < 20; n++)
		put(n % 2 ? b : a, start_ns + n);
	b->busy_at = 0;
	b->busy = 3;
	assert_int_equal(sources__drain(&ss, SIZE_MAX), 20);
	assert_int_equal(b->busy, 0);
	for (unsigned n = 0; n < 20; n++)
		put(n % 2 ? a : b, start_ns + 20 + n);
	a->busy_at = a->pos + 5; /* found when it is its turn */
	a->busy = 3;
	assert_int_equal(sources__drain(&ss, SIZE_MAX), 20);
	assert_int_equal(a->busy, 0);
	assert_in_order(40);
}

static void ids(void **state)
{
	struct made *m[3] = {add(&made_ops), add(&made_ops), add(&made_ops)};

	for (unsigned n = 0; n < 300; n++)
		put(m[n % 3], start_ns + n);
	assert_int_equal(sources__drain(&ss, SIZE_MAX), 300);
	for (unsigned i = 0; i < 300; i++) {
		/* Ids of the first producer do not change. */
		if (i % 3 == 0)
			assert_int_equal(got[i].id, i / 3 + 1);
		for (unsigned k = 0; k < i; k++)
			assert_true(got[k].id != got[i].id);
		/* The previous call of its own producer. */
		assert_int_equal(got[i].parent_id, i < 3 ? 0 : got[i - 3].id);
	}
}

static void loss(void **state)
{
	struct made *a = add(&made_ops), *b = add(&made_ops), *c = add(&least_ops);
	struct ct_totals sum;

	for (unsigned n = 0; n < 30; n++)
		put(n % 3 ? a : b, start_ns + n);
	put(c, start_ns);
	/* Two records of b have wrong lengths. */
	b->calls[3].rec.size = b->calls[4].rec.size = CT_CALL_FIXED_SZ - 1;
	b->full = 1;
	b->lost = 5;
	a->lost = 2;
	assert_int_equal(sources__drain(&ss, SIZE_MAX), 31);
	assert_in_order(29);
	assert_int_equal(sources__bad_records(&ss), 2);
	assert_int_equal(b->s.bad_cnt, 2);
	assert_false(source__was_full(&a->s));
	assert_false(source__was_full(&c->s));
	assert_true(source__was_full(&b->s));
	assert_false(source__was_full(&b->s));
	sources__totals(&ss, &sum);
	assert_int_equal(sum.drops[CT_DROP_CALL], 7);
	assert_int_equal(sum.stats[CT_STAT_ENTRIES], 37);
	assert_int_equal(sum.cost_ns, 300);
	assert_true(sum.busiest == 20ull << 32);
	assert_int_equal(source__lost(&a->s), 2);
	assert_int_equal(source__lost(&c->s), 0);
	assert_int_equal(sources__lost(&ss), 7);
}

static uint32_t drop_owners[4];
static unsigned drop_owner_cnt;

static void on_drop_owner(void *ctx, uint32_t pid)
{
	assert_ptr_equal(ctx, &ss);
	drop_owners[drop_owner_cnt++] = pid;
}

/* all: whether the owners of all of them are known */
static void lose(struct made *m, unsigned cnt, bool all, unsigned who)
{
	m->lost += cnt;
	drop_owner_cnt = 0;
	assert_int_equal(source__newly_lost(&m->s), cnt);
	assert_int_equal(source__drop_owners(&m->s, cnt, on_drop_owner, &ss), all);
	assert_int_equal(drop_owner_cnt, who);
}

static void tells_losers(void **state)
{
	struct made *m = add(&made_ops);

	m->threads[0] = (struct seen_thread){.pid = 10, .tid = 10, .lost = 3};
	m->threads[1] = (struct seen_thread){.pid = 10, .tid = 11, .lost = 1};
	m->threads[2] = (struct seen_thread){.pid = 20, .tid = 20};
	lose(m, 4, true, 1);
	assert_int_equal(drop_owners[0], 10);
	m->threads[2].lost = 5;
	lose(m, 5, true, 1);
	assert_int_equal(drop_owners[0], 20);
	m->threads[0].lost++;
	m->threads[2].lost++;
	lose(m, 2, true, 2);
	/* A thread that is gone, or never existed. */
	m->threads[0].lost++;
	lose(m, 2, false, 0);
	m->threads[0].lost++;
	lose(m, 1, true, 1);
	/* One has ended; its losses were reported before. */
	m->threads[1].lost = 0;
	m->threads[2].lost += 2;
	lose(m, 2, true, 1);
	assert_int_equal(drop_owners[0], 20);
	/* One lost records and ended, another lost some. */
	m->threads[2].lost = 0;
	m->threads[0].lost++;
	lose(m, 4, false, 0);
}

static void in_flight(void **state)
{
	struct made *a = add(&made_ops), *b = add(&made_ops);

	add(&least_ops);
	a->unfinished = b->unfinished =
		(struct ct_rec){.kind = CT_REC_CALL, .size = CT_CALL_FIXED_SZ};
	sources__unfinished(&ss);
	assert_int_equal(got_cnt, 2);
	assert_int_equal(got[0].id, 7);
	assert_int_equal(got[1].id, 1ull << RAW_ID_BITS | 7);
}

static void levels(void **state)
{
	const struct fn_level l = {.level = CT_LEVEL_COUNT};
	struct made *a = add(&made_ops), *b;

	add(&least_ops);
	b = add(&made_ops);
	assert_int_equal(sources__set_level(&ss, 41, &l), 0);
	assert_int_equal(a->level_fn, 41);
	assert_int_equal(b->level_fn, 41);
	a->level_ret = -ENOENT;
	assert_int_equal(sources__set_level(&ss, 42, &l), -ENOENT);
	assert_int_equal(b->level_fn, 42);
	assert_int_equal(sources__set_always(&ss, 43, true), -ENOENT);
	assert_int_equal(b->always_fn, 43);
	assert_int_equal(sources__set_proc(&ss, 44, CT_PROC_OFF), -ENOENT);
	sources__set_default(&ss, CT_PROC_METRICS);
	for (int i = 0; i < 2; i++) {
		const struct made *m = i ? a : b;

		assert_int_equal(m->level_pid, 44);
		assert_int_equal(m->proc_level, CT_PROC_OFF);
		assert_int_equal(m->default_level, CT_PROC_METRICS);
	}
}

static uint64_t counted[3];
static unsigned error_cnt;

static void on_count(void *ctx, unsigned source, const struct ct_count_key *key,
		     const struct ct_count *c)
{
	assert_ptr_equal(ctx, &ss);
	assert_int_equal(key->func_id, 4);
	counted[source] += ct_count_calls(c);
}

static void on_error(void *ctx, unsigned source, const struct ct_error_key *key, uint64_t cnt)
{
	assert_ptr_equal(ctx, &ss);
	assert_int_equal(key->result, 5);
	error_cnt += 1 + source * cnt;
}

static void counts(void **state)
{
	const struct count_reader both = {.count = on_count, .error = on_error, .ctx = &ss},
				  none = {.ctx = &ss};
	struct made *a = add(&made_ops), *b;

	add(&least_ops);
	b = add(&made_ops);
	a->counted = 10;
	b->counted = 1;
	sources__read_counts(&ss, &both);
	sources__read_counts(&ss, &none);
	assert_int_equal(counted[0], 10);
	assert_int_equal(counted[1], 0);
	assert_int_equal(counted[2], 1);
	assert_int_equal(error_cnt, 4);
	sources__unfinished_counts(&ss, &both);
	sources__take_counts(&ss, 3, 9, &both);
	sources__take_counts(&ss, 3, 9, &both);
	assert_int_equal(counted[0], 30);
	assert_int_equal(counted[2], 3);
}

static void opening(void **state)
{
	open_ret = SOURCE_UNUSED;
	assert_int_equal(sources__open(&ss, &made_ops, 0, NULL, on_record, &ss), 0);
	assert_int_equal(ss.cnt, 0);
	assert_int_equal(closed_cnt, 1);
	open_ret = -EACCES;
	assert_int_equal(sources__open(&ss, &made_ops, 0, NULL, on_record, &ss), -EACCES);
	assert_int_equal(ss.cnt, 0);
	assert_int_equal(closed_cnt, 2);
	assert_int_equal(sources__drain(&ss, SIZE_MAX), 0);
	add(&least_ops);
	assert_int_equal(source__fd(ss.of[0]), -1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(by_time),	      TEST(runs),	  TEST(causes_come_first),
		TEST(later_than_now), TEST(incomplete),	  TEST(ids),
		TEST(loss),	      TEST(tells_losers), TEST(in_flight),
		TEST(levels),	      TEST(counts),	  TEST(opening),
	};

	return cmocka_run_group_tests_name("source", tests, NULL, NULL);
}
