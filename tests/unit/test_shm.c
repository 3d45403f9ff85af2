/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The memory that is shared with a traced process: what the tracer waits for, and until when it
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

#define RING_SZ (64 << 10)

static int begin(void **state)
{
	struct shm *m = calloc(1, sizeof(*m));

	*state = m;
	return !m || shm__open(m, RING_SZ, NULL);
}

static int end(void **state)
{
	shm__close(*state);
	free(*state);
	return 0;
}

/* As a thread does. */
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

/* At each moment one of two threads is at a record, but each was idle once since the clock was
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
	/* What it is at now may have been begun before the clock was read next. */
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

/* A call as the ring has it is one like all others when it is taken. */
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
	shm__each_call(m, 0, count_call, &cnt);
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

/* One that is in another has its parent's number before all words. */
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
	/* The program may write one that ends before it. */
	assert_true(look(m, now_ns()));
	assert_int_equal(shm__take(m, 0, &buf), CT_CALL_FIXED_SZ + 4);
	assert_int_equal(buf.call.parent_id, 0);
	assert_int_equal(buf.call.depth, 1);
}

/* One that would be longer than any is when it is taken. */
static void test_short_is_too_long(void **state)
{
	static const uint64_t words[CT_SHM_REC_MAX / 8];
	struct shm *m = *state;

	write_short(m, CT_SHM_REC_MAX, 2, words);
	look(m, now_ns());
	assert_int_equal(m->slots[0].size, 0);
	assert_int_equal(m->bad_cnt, 1);
}

/* Nor one that has become that since it was found. */
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

/* Numbers of calls that were never made: no more than one block for so many records. */
static void test_ids(void **state)
{
	struct shm *m = *state;
	struct inject *in = calloc(1, sizeof(*in));
	uint64_t first;

	assert_non_null(in);
	m->slot_cnt = 1;
	first = peers__trace_id(in, &m->slots[0], 1);
	assert_int_not_equal(first, 0);
	assert_int_equal(peers__trace_id(in, &m->slots[0], 2), first + 1);
	assert_int_equal(peers__trace_id(in, &m->slots[0], 1 << ID_BLOCK_LOG), 0);
	m->slots[0].taken_cnt = 60000;
	assert_int_not_equal(peers__trace_id(in, &m->slots[0], 1 << ID_BLOCK_LOG), 0);
	free(in);
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
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
