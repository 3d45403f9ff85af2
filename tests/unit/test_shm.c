/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Memory shared with a traced process: what the tracer waits for, and the time up to which it
 * reads. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "inject/inject_priv.h"
#include "util/clock.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RING_SZ (64 << 10)

static int begin(void **state)
{
	struct shm *m = calloc(1, sizeof(*m));

	*state = m;
	return !m || shm__open(m, RING_SZ, NULL, NULL);
}

static int end(void **state)
{
	struct shm *m = *state;

	shm__close(m);
	close(m->fd);
	free(m);
	return 0;
}

/* Writes a record like a thread. */
static void write_record(struct shm *m, unsigned i, uint64_t ns)
{
	struct ct_shm_slot *s = shm__slot(m, i);
	struct ct_task *rec = (struct ct_task *)((char *)s + m->mem->ring_off + s->head % RING_SZ);

	memset(rec, 0, sizeof(*rec));
	rec->rec.kind = CT_REC_THREAD;
	rec->rec.size = sizeof(*rec);
	rec->rec.ts_ns = ns;
	s->state = CT_SLOT_LIVE;
	s->head += (sizeof(*rec) + 7) / 8 * 8;
}

static bool look(struct shm *m, uint64_t now)
{
	bool whole = true;

	shm__find_slots(m);
	for (unsigned i = 0; i < m->slot_cnt; i++)
		whole &= shm__look(m, i, now);
	return whole;
}

/* At each moment one of two threads writes a record, but each was idle once since the clock was
 * read. */
static void test_takes_turns(void **state)
{
	struct shm *m = *state;
	uint64_t now = now_ns();

	shm__slot(m, 0)->state = shm__slot(m, 1)->state = CT_SLOT_LIVE;
	shm__slot(m, 0)->busy = 1;
	assert_false(look(m, now));
	shm__slot(m, 0)->busy = 0;
	shm__slot(m, 1)->busy = 1;
	assert_true(look(m, now));
	/* Its current record may have begun before the clock was read again. */
	assert_false(look(m, now + 1));
}

static void test_waits_not_long(void **state)
{
	struct shm *m = *state;
	uint64_t began = now_ns();

	shm__slot(m, 0)->state = CT_SLOT_LIVE;
	shm__slot(m, 0)->busy = 1;
	while (!look(m, began))
		assert_true(now_ns() - began < 5000000000ull);
	assert_true(now_ns() - began >= 5000000);
}

static void test_ends(void **state)
{
	struct shm *m = *state;
	struct ct_task rec;

	write_record(m, 0, 7);
	shm__end(m, now_ns());
	write_record(m, 0, 8);
	write_record(m, 1, 9);
	assert_true(look(m, now_ns()));
	assert_int_equal(m->slot_cnt, 1);
	assert_int_equal(m->slots[0].key, 7);
	assert_int_equal(shm__take(m, 0, &rec), sizeof(rec));
	assert_true(look(m, now_ns()));
	assert_int_equal(m->slots[0].size, 0);
	assert_int_equal(m->bad_cnt, 0);
}

static struct ct_shm_short *write_short(struct shm *m, uint32_t size, uint8_t word_cnt,
					const uint64_t *words)
{
	struct ct_shm_slot *s = shm__slot(m, 0);
	struct ct_shm_short *c =
		(struct ct_shm_short *)((char *)s + m->mem->ring_off + s->head % RING_SZ);

	*c = (struct ct_shm_short){.size = size,
				   .kind = CT_SHM_REC_SHORT,
				   .ts_ns = 7,
				   .end_ns = 19,
				   .call_id = 3,
				   .tid = 4,
				   .result = -5,
				   .func_id = CT_MAX_FUNCS - 1,
				   .word_cnt = word_cnt,
				   .cap_cnt = 1,
				   .cap_len = {8, -14}};
	memcpy(c->words, words, size - sizeof(*c));
	s->state = CT_SLOT_LIVE;
	s->head += (size + 7) / 8 * 8;
	return c;
}

static void count_call(void *ctx, const struct ct_call *c)
{
	assert_int_equal(c->rec.kind, CT_REC_CALL);
	assert_int_equal(c->call_id, 3);
	++*(int *)ctx;
}

/* A call in the ring's short form becomes a normal one when taken. */
static void test_short(void **state)
{
	static const uint64_t words[] = {11, 12, 13};
	union {
		struct ct_call call;
		uint8_t bytes[CT_SHM_REC_MAX];
	} buf;
	struct shm *m = *state;
	int cnt = 0;

	memset(&buf, 0xff, sizeof(buf));
	write_short(m, sizeof(struct ct_shm_short) + sizeof(words), 2, words);
	assert_true(look(m, now_ns()));
	assert_int_equal(m->slots[0].key, 19);
	shm__each_call(m, 0, UINT32_MAX, count_call, &cnt);
	assert_int_equal(cnt, 1);
	assert_int_equal(shm__take(m, 0, &buf), CT_CALL_FIXED_SZ + sizeof(words));
	assert_int_equal(buf.call.rec.kind, CT_REC_CALL);
	assert_int_equal(buf.call.rec.size, CT_CALL_FIXED_SZ + sizeof(words));
	assert_int_equal(buf.call.rec.ts_ns, 7);
	assert_int_equal(buf.call.rec.tid, 4);
	assert_int_equal(buf.call.rec.pid, 0);
	assert_int_equal(buf.call.end_ns, 19);
	assert_int_equal(buf.call.call_id, 3);
	assert_int_equal(buf.call.parent_id, 0);
	assert_int_equal(buf.call.result, -5);
	assert_int_equal(buf.call.func_id, CT_MAX_FUNCS - 1);
	assert_int_equal(buf.call.word_cnt, 2);
	assert_int_equal(buf.call.cap_cnt, 1);
	assert_int_equal(buf.call.cap_len[0], 8);
	assert_int_equal(buf.call.cap_len[1], -14);
	assert_int_equal(buf.call.cap_len[2], 0);
	assert_int_equal(buf.call.ioctl_cnt | buf.call.depth | buf.call.stack_cnt, 0);
	assert_memory_equal(buf.call.words, words, sizeof(words));
	assert_int_equal(m->slots[0].last_id, 3);
	assert_int_equal(m->bad_cnt, 0);
}

/* A nested call has its parent's number before its words. */
static void test_short_in_another(void **state)
{
	static const uint64_t words[] = {2, 11, 12};
	union {
		struct ct_call call;
		uint8_t bytes[CT_SHM_REC_MAX];
	} buf;
	struct shm *m = *state;
	struct ct_shm_short *c;

	memset(&buf, 0xff, sizeof(buf));
	c = write_short(m, sizeof(*c) + sizeof(words), 2, words);
	c->depth = 3;
	c->api_depth = 2;
	write_short(m, sizeof(*c) + 4, 0, words)->depth = 1;
	assert_true(look(m, now_ns()));
	assert_int_equal(shm__take(m, 0, &buf), CT_CALL_FIXED_SZ + 16);
	assert_int_equal(buf.call.rec.size, CT_CALL_FIXED_SZ + 16);
	assert_int_equal(buf.call.parent_id, 2);
	assert_int_equal(buf.call.depth, 3);
	assert_int_equal(buf.call.api_depth, 2);
	assert_int_equal(buf.call.word_cnt, 2);
	assert_memory_equal(buf.call.words, words + 1, 16);
	/* The program may write a call that ends before it. */
	assert_true(look(m, now_ns()));
	assert_int_equal(shm__take(m, 0, &buf), CT_CALL_FIXED_SZ + 4);
	assert_int_equal(buf.call.parent_id, 0);
	assert_int_equal(buf.call.depth, 1);
}

/* A call that would be too long when taken. */
static void test_short_is_too_long(void **state)
{
	static const uint64_t words[CT_SHM_REC_MAX / 8];
	struct shm *m = *state;

	write_short(m, CT_SHM_REC_MAX, 2, words);
	look(m, now_ns());
	assert_int_equal(m->slots[0].size, 0);
	assert_int_equal(m->bad_cnt, 1);
}

/* A record that became such a call after it was found. */
static void test_short_of_late(void **state)
{
	static const uint64_t words[CT_SHM_REC_MAX / 8];
	struct shm *m = *state;
	void *buf = malloc(CT_SHM_REC_MAX);
	struct ct_shm_short *c;

	assert_non_null(buf);
	c = write_short(m, CT_SHM_REC_MAX, 2, words);
	c->kind = CT_REC_CALL;
	look(m, now_ns());
	assert_int_equal(m->slots[0].size, CT_SHM_REC_MAX);
	c->kind = CT_SHM_REC_SHORT;
	assert_int_equal(shm__take(m, 0, buf), CT_SHM_REC_MAX);
	free(buf);
}

/* Ids of calls that were never made: at most one block for so many records. */
static void test_ids(void **state)
{
	struct shm *m = *state;
	struct inject *in = calloc(1, sizeof(*in));
	uint64_t first;

	assert_non_null(in);
	m->slot_cnt = 1;
	first = clients__trace_id(in, &m->slots[0], 1);
	assert_int_not_equal(first, 0);
	assert_int_equal(clients__trace_id(in, &m->slots[0], 2), first + 1);
	assert_int_equal(clients__trace_id(in, &m->slots[0], 1 << ID_BLOCK_LOG), 0);
	m->slots[0].taken_cnt = 60000;
	assert_int_not_equal(clients__trace_id(in, &m->slots[0], 1 << ID_BLOCK_LOG), 0);
	free(in);
}

static void write_filler(struct shm *m, unsigned i, uint32_t size)
{
	struct ct_shm_slot *s = shm__slot(m, i);

	*(struct ct_rec *)((char *)s + m->mem->ring_off + s->head % RING_SZ) =
		(struct ct_rec){.size = size, .kind = CT_REC_NONE};
	s->state = CT_SLOT_LIVE;
	s->head += size;
}

/* A filler reaches the end of the ring exactly: otherwise one store would make the tracer read the
 * ring again. */
static void test_filler(void **state)
{
	struct shm *m = *state;
	struct ct_shm_slot *s = shm__slot(m, 0);
	struct ct_task rec;

	while (s->head + 2 * sizeof(rec) < RING_SZ)
		write_record(m, 0, 7);
	look(m, now_ns());
	while (m->slots[0].size)
		shm__take(m, 0, &rec);
	write_filler(m, 0, RING_SZ - s->head);
	write_record(m, 0, 8);
	look(m, now_ns());
	assert_int_equal(m->slots[0].key, 8);
	shm__take(m, 0, &rec);
	assert_int_equal(m->broken_cnt, 0);
	write_filler(m, 0, 8);
	write_record(m, 0, 9);
	look(m, now_ns());
	assert_int_equal(m->slots[0].size, 0);
	assert_int_equal(m->broken_cnt, 1);
}

/* Records that stay invalid are not read forever. */
static void test_broken(void **state)
{
	struct shm *m = *state;

	for (unsigned i = 0; i < SHM_BROKEN_MAX; i++) {
		write_record(m, 0, 7);
		look(m, now_ns());
		assert_int_not_equal(m->slots[0].size, 0);
		shm__take(m, 0, &(struct ct_task){0});
		write_filler(m, 0, 16);
		look(m, now_ns());
		assert_int_equal(m->broken_cnt, i + 1);
	}
	write_record(m, 0, 7);
	write_filler(m, 1, 16);
	shm__slot(m, 0)->busy = 1;
	assert_true(look(m, now_ns()));
	assert_int_equal(m->slots[0].size, 0);
	assert_int_equal(m->broken_cnt, SHM_BROKEN_MAX);
}

static void nothing(void *ctx, const struct ct_call *c)
{
	++*(unsigned *)ctx;
}

static void test_each_call_has_an_end(void **state)
{
	static const uint64_t words[2];
	struct shm *m = *state;
	unsigned cnt = 0;
	uint64_t id;

	for (unsigned i = 0; i < 300; i++)
		write_short(m, sizeof(struct ct_shm_short) + sizeof(words), 2, words);
	look(m, now_ns());
	assert_false(shm__each_call(m, 0, 100, nothing, &cnt));
	assert_int_equal(cnt, 100);
	assert_true(shm__each_call(m, 0, 1000, nothing, &cnt));
	assert_int_equal(cnt, 400);
	assert_true(shm__last_call(m, 0, &id));
	assert_int_equal(id, 3);
	assert_int_equal(shm__unread(m), 300);
	write_filler(m, 0, 16); /* invalid: an estimate */
	look(m, now_ns());
	assert_int_equal(shm__unread(m), 301);
}

static uint64_t drops_after(struct shm *m, uint64_t reported, uint64_t age)
{
	for (int k = 0; k < CT_DROP_CNT; k++)
		shm__slot(m, 0)->drops[k] = reported;
	shm__read_totals(m, m->opened_ns + age, 0);
	return m->totals.drops[CT_DROP_CALL];
}

/* It only grows, and at most as fast as threads can call. */
static void test_numbers(void **state)
{
	struct shm *m = *state;
	struct ct_count c = {.errors = UINT64_MAX, .total_ns = UINT64_MAX, .max_ns = UINT64_MAX};

	write_record(m, 0, 7);
	look(m, now_ns());
	assert_int_equal(drops_after(m, 12, 1000000), 12);
	assert_int_equal(drops_after(m, UINT64_MAX - 7, 1000000), 100000);
	assert_int_equal(drops_after(m, 3, 2000000), 100000);
	assert_int_equal(drops_after(m, 1ull << 63, 3000000), 300000);
	assert_int_equal(drops_after(m, 0, 4000000), 300000);
	/* The process has ended: nothing is added. */
	m->ended_ns = m->opened_ns + 4000000;
	assert_int_equal(drops_after(m, UINT64_MAX, 1ull << 40), 400000);
	c.hist[3] = c.entered = 1ull << 62;
	count_limit(&c, 1000000);
	assert_int_equal(c.hist[3], 100000);
	assert_int_equal(c.entered, 100000);
	assert_int_equal(c.errors, 100000);
	assert_true(c.total_ns < 1ull << 40 && c.max_ns < 1ull << 40);
}

/* A user gets half, a process half of the rest. */
static void test_shares(void **state)
{
	struct shm_memlimit room = {.max = 9, .used = 0};
	unsigned a = 0, b = 0;

	while (shm_charge(&room, 0, a))
		a++;
	while (shm_charge(&room, 0, b))
		b++;
	assert_int_equal(a, 5);
	assert_int_equal(b, 4);
	room.used = 0;
	for (a = 0; shm_charge(&room, a, a);)
		a++;
	assert_int_equal(a, 3);
	/* Another process of that user gets some. */
	assert_true(shm_charge(&room, 0, a));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_takes_turns, begin, end),
		cmocka_unit_test_setup_teardown(test_waits_not_long, begin, end),
		cmocka_unit_test_setup_teardown(test_ends, begin, end),
		cmocka_unit_test_setup_teardown(test_short, begin, end),
		cmocka_unit_test_setup_teardown(test_short_in_another, begin, end),
		cmocka_unit_test_setup_teardown(test_short_is_too_long, begin, end),
		cmocka_unit_test_setup_teardown(test_short_of_late, begin, end),
		cmocka_unit_test_setup_teardown(test_ids, begin, end),
		cmocka_unit_test_setup_teardown(test_filler, begin, end),
		cmocka_unit_test_setup_teardown(test_broken, begin, end),
		cmocka_unit_test_setup_teardown(test_each_call_has_an_end, begin, end),
		cmocka_unit_test_setup_teardown(test_numbers, begin, end),
		cmocka_unit_test(test_shares),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
