/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Several rings read as one stream: rings in memory, filled as the kernel fills them. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <linux/bpf.h>
#include <string.h>

#include "record/ring_priv.h"
#include "util/clock.h"

#include "ct_nv.h"

#define SZ    16384u
#define RINGS 5

struct fake {
	unsigned long consumer, producer;
	uint8_t data[2 * SZ];
};

static struct fake fakes[RINGS];
static struct ct_rec got[4096];
static unsigned got_cnt;

static void on_record(void *ctx, const void *rec, size_t size)
{
	assert_ptr_equal(ctx, fakes);
	assert_in_range(size, sizeof(struct ct_rec), SZ);
	got[got_cnt++ % 4096] = *(const struct ct_rec *)rec;
}

static struct ring *open_rings(unsigned cnt)
{
	struct ring *r = ring__new(RINGS, SZ, on_record, fakes);

	assert_non_null(r);
	memset(fakes, 0, sizeof(fakes));
	got_cnt = 0;
	for (unsigned i = 0; i < cnt; i++)
		ring__add(r, &fakes[i].consumer, &fakes[i].producer, fakes[i].data);
	return r;
}

static void put_at(struct fake *f, unsigned long at, const void *data, size_t size)
{
	for (size_t i = 0; i < size; i++)
		f->data[(at + i) % SZ] = f->data[(at + i) % SZ + SZ] = ((const uint8_t *)data)[i];
}

/* Returns the position of its header. */
static unsigned long put(struct fake *f, const void *rec, uint32_t size, uint32_t flags)
{
	uint32_t header[2] = {size | flags};
	unsigned long at = f->producer;

	assert_true(at + 8 + size - f->consumer <= SZ);
	put_at(f, at, header, sizeof(header));
	put_at(f, at + 8, rec, size);
	f->producer += (8 + size + 7) & ~7u;
	return at;
}

static unsigned long put_task(unsigned i, uint64_t ns, uint32_t flags)
{
	struct ct_rec rec = {.kind = CT_REC_THREAD, .size = sizeof(rec), .ts_ns = ns, .pid = i};

	return put(&fakes[i], &rec, sizeof(rec), flags);
}

static void by_time(void **state)
{
	struct ring *r = open_rings(RINGS);

	/* 20 records each, for all rings in turn, the last ring first. */
	for (unsigned n = 0; n < 100; n++)
		put_task(RINGS - 1 - n % RINGS, 1000 + n, 0);
	assert_int_equal(ring__drain(r, 1000), 100);
	for (unsigned n = 0; n < 100; n++) {
		assert_int_equal(got[n].ts_ns, 1000 + n);
		assert_int_equal(got[n].pid, RINGS - 1 - n % RINGS);
	}
	for (unsigned i = 0; i < RINGS; i++)
		assert_int_equal(fakes[i].consumer, fakes[i].producer);
	assert_int_equal(ring__drain(r, 1000), 0);
	ring__free(r);
}

/* Calls and system calls are ordered by their ends. */
static void by_end(void **state)
{
	struct ring *r = open_rings(3);
	struct ct_call call = {.rec = {.kind = CT_REC_CALL, .ts_ns = 10}, .end_ns = 300};
	struct ct_nv nv = {.rec = {.kind = CT_REC_NV, .ts_ns = 5}, .end_ns = 200};

	call.rec.size = CT_CALL_FIXED_SZ;
	nv.rec.size = sizeof(nv);
	put(&fakes[0], &call, CT_CALL_FIXED_SZ, 0);
	put(&fakes[1], &nv, sizeof(nv), 0);
	put_task(2, 100, 0);
	put_task(2, 400, 0);
	assert_int_equal(ring__drain(r, 10), 4);
	assert_int_equal(got[0].ts_ns, 100);
	assert_int_equal(got[1].kind, CT_REC_NV);
	assert_int_equal(got[2].kind, CT_REC_CALL);
	assert_int_equal(got[3].ts_ns, 400);
	ring__free(r);
}

static void some_at_a_time(void **state)
{
	struct ring *r = open_rings(2);

	for (unsigned n = 0; n < 30; n++)
		put_task(n % 2, n, 0);
	assert_int_equal(ring__drain(r, 7), 7);
	assert_true(ring__was_full(r)); /* as far as is known */
	assert_int_equal(ring__drain(r, 7), 7);
	assert_int_equal(ring__drain(r, 100), 16);
	for (unsigned n = 0; n < 30; n++)
		assert_int_equal(got[n].ts_ns, n);
	ring__free(r);
}

/* Wraps repeatedly, with records across the ring's end. */
static void wraps(void **state)
{
	struct ring *r = open_rings(2);
	struct ct_call call = {.rec = {.kind = CT_REC_CALL, .size = sizeof(call)}};
	uint64_t ns = 0;

	for (unsigned n = 0; n < 500; n++) {
		for (unsigned i = 0; i < 40; i++) {
			call.end_ns = ++ns;
			call.rec.ts_ns = ns;
			put(&fakes[(n + i) % 2], &call, sizeof(call) - 8 * (i % 3), 0);
		}
		assert_int_equal(ring__drain(r, 100), 40);
		for (unsigned i = 0; i < 40; i++)
			assert_int_equal(got[(got_cnt - 40 + i) % 4096].ts_ns, ns - 39 + i);
	}
	assert_true(fakes[0].producer > 100 * SZ);
	ring__free(r);
}

static void discarded(void **state)
{
	struct ring *r = open_rings(2);

	put_task(0, 1, BPF_RINGBUF_DISCARD_BIT);
	put_task(1, 2, 0);
	put_task(0, 3, 0);
	put_task(0, 4, BPF_RINGBUF_DISCARD_BIT);
	assert_int_equal(ring__drain(r, 100), 2);
	assert_int_equal(got[0].ts_ns, 2);
	assert_int_equal(got[1].ts_ns, 3);
	assert_int_equal(fakes[0].consumer, fakes[0].producer);
	ring__free(r);
}

/* A record that is not completed delays others only briefly, and is taken once complete. */
static void incomplete(void **state)
{
	uint32_t len = sizeof(struct ct_rec);
	struct ring *r = open_rings(2);
	unsigned long at;

	put_task(0, 1, 0);
	at = put_task(0, 2, BPF_RINGBUF_BUSY_BIT);
	put_task(0, 3, 0);
	put_task(1, 4, 0);
	assert_int_equal(ring__drain(r, 100), 2);
	assert_int_equal(got[0].ts_ns, 1);
	assert_int_equal(got[1].ts_ns, 4);
	assert_int_equal(ring__drain(r, 100), 0);
	put_at(&fakes[0], at, &len, sizeof(len));
	put_task(1, 5, 0);
	assert_int_equal(ring__drain(r, 100), 3);
	assert_int_equal(got[2].ts_ns, 2);
	assert_int_equal(got[3].ts_ns, 3);
	assert_int_equal(got[4].ts_ns, 5);
	ring__free(r);
}

/* Records from the future are not waited for: processors' clocks may differ. */
static void later_than_now(void **state)
{
	struct ring *r = open_rings(2);
	uint64_t ns = now_ns() + 3600 * SEC_NS;

	put_task(0, ns, 0);
	put_task(1, ns + 1, 0);
	assert_int_equal(ring__drain(r, 100), 2);
	assert_int_equal(got[1].ts_ns, ns + 1);
	ring__free(r);
}

/* Only records until that time, and only as many as requested. */
static void until(void **state)
{
	struct ring *r = open_rings(3);

	assert_true(ring__look(r));
	assert_int_equal(ring__next_ns(r), UINT64_MAX);
	for (unsigned n = 0; n < 30; n++)
		put_task(n % 3, 100 + n, 0);
	assert_int_equal(ring__take(r, 100, 1000), 0);
	assert_true(ring__look(r));
	assert_int_equal(ring__next_ns(r), 100);
	assert_int_equal(ring__take(r, 100, 99), 0);
	assert_int_equal(ring__take(r, 100, 109), 10);
	assert_int_equal(ring__next_ns(r), 110);
	assert_false(ring__was_full(r));
	assert_int_equal(ring__take(r, 5, 119), 5);
	assert_true(ring__was_full(r)); /* as far as is known */
	assert_int_equal(ring__take(r, 100, 1000), 15);
	assert_int_equal(ring__next_ns(r), UINT64_MAX);
	for (unsigned n = 0; n < 30; n++)
		assert_int_equal(got[n].ts_ns, 100 + n);
	ring__free(r);
}

/* Less room than the longest record needs. */
static void nearly_full(void **state)
{
	struct ring *r = open_rings(2);

	put_task(1, 1, 0);
	assert_int_equal(ring__drain(r, 1000), 1);
	assert_false(ring__was_full(r));
	while (fakes[1].producer - fakes[1].consumer + 4096 <= SZ)
		put_task(1, 2, 0);
	ring__drain(r, 1000);
	assert_true(ring__was_full(r));
	assert_false(ring__was_full(r));
	ring__free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(by_time),	  cmocka_unit_test(by_end),
		cmocka_unit_test(some_at_a_time), cmocka_unit_test(wraps),
		cmocka_unit_test(discarded),	  cmocka_unit_test(incomplete),
		cmocka_unit_test(later_than_now), cmocka_unit_test(nearly_full),
		cmocka_unit_test(until),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
