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
		cmocka_unit_test_setup_teardown(test_ids, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
