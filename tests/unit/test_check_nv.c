/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* raw_check(): a record of a system call into the driver, with wrong lengths. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "record/check.h"

#define ROOM 2400

/* A record under construction. */
struct made {
	union {
		struct ct_nv nv;
		uint8_t bytes[ROOM];
	};
};

static void begin(struct made *m)
{
	memset(m, 0, sizeof(*m));
	m->nv.rec.kind = CT_REC_NV;
	m->nv.rec.size = sizeof(m->nv);
	m->nv.op = CT_NV_IOCTL;
	m->nv.dev = CT_NV_CTL;
}

/* Adds a block like the BPF side: padded to 8. */
static void add(struct made *m, uint8_t block, int16_t len)
{
	struct ct_nv *nv = &m->nv;

	nv->blocks[nv->block_cnt].block = block;
	nv->blocks[nv->block_cnt].len = len;
	if (len > 0) {
		memset(m->bytes + nv->rec.size, 'a' + nv->block_cnt, len);
		nv->rec.size += (len + 7) & ~7;
	}
	nv->block_cnt++;
}

/* Checks a copy of size bytes in a block of that size, and reads everything in the result. */
static int check(const struct made *m, size_t size, struct raw_nv *raw)
{
	uint8_t *copy = malloc(size ? size : 1);
	struct raw checked;
	unsigned sum = 0;
	int ret;

	assert_non_null(copy);
	memcpy(copy, m, size);
	memset(&checked, 0xee, sizeof(checked));
	ret = raw_check(copy, size, 0, &checked);
	*raw = checked.nv;
	if (!ret && checked.rec->kind != CT_REC_NV)
		ret = -ENOTSUP;
	if (!ret) {
		assert_ptr_equal(raw->nv, copy);
		assert_true(raw->block_cnt <= CT_NV_MAX_BLOCKS);
		for (unsigned i = 0; i < raw->block_cnt; i++) {
			int len = raw->blocks[i].len;

			assert_int_equal(raw->blocks[i].data != NULL, len > 0);
			if (len <= 0)
				continue;
			assert_true(raw->blocks[i].data >= copy + sizeof(struct ct_nv));
			assert_true(raw->blocks[i].data + len <= copy + size);
			for (int j = 0; j < len; j++)
				sum += raw->blocks[i].data[j];
		}
	}
	free(copy);
	return sum == UINT32_MAX ? -EIO : ret;
}

static void whole(void **state)
{
	struct raw_nv raw;
	struct made m;

	begin(&m);
	assert_int_equal(check(&m, sizeof(m.nv), &raw), 0);
	assert_int_equal(raw.block_cnt, 0);
	add(&m, CT_NV_ENTRY, 32);
	add(&m, CT_NV_EXIT, -14);
	add(&m, CT_NV_EXIT, 3);
	add(&m, CT_NV_PARAMS, 0);
	add(&m, CT_NV_PARAMS, 256);
	add(&m, CT_NV_PARAMS, 8);
	assert_int_equal(check(&m, m.nv.rec.size, &raw), 0);
	assert_int_equal(raw.block_cnt, 6);
	assert_int_equal(raw.blocks[0].len, 32);
	assert_int_equal(raw.blocks[1].len, -14);
	assert_int_equal(raw.blocks[2].len, 3);
	assert_int_equal(raw.blocks[4].len, 256);
	/* The ring delivers more bytes than the record when it pads. */
	assert_int_equal(check(&m, m.nv.rec.size + 8, &raw), 0);
}

/* Positions of the blocks' bytes. */
static void places(void **state)
{
	struct raw raw;
	struct made m;

	begin(&m);
	add(&m, CT_NV_ENTRY, 5);
	add(&m, CT_NV_EXIT, -14);
	add(&m, CT_NV_EXIT, 16);
	assert_int_equal(raw_check(&m, m.nv.rec.size, 0, &raw), 0);
	assert_ptr_equal(raw.nv.blocks[0].data, m.bytes + sizeof(m.nv));
	assert_null(raw.nv.blocks[1].data);
	assert_ptr_equal(raw.nv.blocks[2].data, m.bytes + sizeof(m.nv) + 8);
	assert_memory_equal(raw.nv.blocks[2].data, "cccccccccccccccc", 16);
}

static void truncated(void **state)
{
	struct raw_nv raw;
	struct made m;
	uint32_t size;

	begin(&m);
	add(&m, CT_NV_ENTRY, 32);
	add(&m, CT_NV_EXIT, 40);
	size = m.nv.rec.size;
	/* Fewer bytes than the record's size. */
	for (uint32_t n = 0; n < size; n++)
		assert_int_equal(check(&m, n, &raw), -EINVAL);
	/* The record's own size is too small: bytes of the last block are missing. */
	for (uint32_t n = 0; n < size; n++) {
		m.nv.rec.size = n;
		assert_int_equal(check(&m, size, &raw), -EINVAL);
		assert_int_equal(check(&m, n, &raw), -EINVAL);
	}
	/* The padding of the last block may be missing. */
	begin(&m);
	add(&m, CT_NV_EXIT, 33);
	for (uint32_t n = m.nv.rec.size - 7; n <= m.nv.rec.size; n++) {
		struct made cut = m;

		cut.nv.rec.size = n;
		assert_int_equal(check(&cut, n, &raw), 0);
	}
}

static void sizes_that_lie(void **state)
{
	static const uint32_t sizes[] = {
		0,	    1,		24,	   sizeof(struct ct_nv) - 1, ROOM + 1, 0x7fffffff,
		0x80000000, 0xfffffff8, 0xffffffff};
	struct raw_nv raw;
	struct made m;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		begin(&m);
		add(&m, CT_NV_EXIT, 8);
		m.nv.rec.size = sizes[i];
		assert_int_equal(check(&m, sizeof(m.nv) + 8, &raw), -EINVAL);
	}
}

static void lengths_that_lie(void **state)
{
	struct raw_nv raw;
	struct made m;

	for (int len = INT16_MIN; len <= INT16_MAX; len++) {
		begin(&m);
		add(&m, CT_NV_EXIT, 64);
		add(&m, CT_NV_EXIT, 64);
		m.nv.blocks[0].len = len;
		/* Longer than it was: the bytes of the second block would lie outside. */
		assert_int_equal(check(&m, m.nv.rec.size, &raw), len <= 64 ? 0 : -EINVAL);
	}
	/* Longer than a block may be, although the bytes exist. */
	begin(&m);
	add(&m, CT_NV_EXIT, CT_NV_SPAN_SZ_MAX);
	assert_int_equal(check(&m, m.nv.rec.size, &raw), 0);
	begin(&m);
	add(&m, CT_NV_EXIT, CT_NV_SPAN_SZ_MAX + 1);
	assert_int_equal(check(&m, m.nv.rec.size, &raw), -EINVAL);
}

static void counts_and_kinds(void **state)
{
	struct raw_nv raw;
	struct made m;

	for (unsigned cnt = 0; cnt < 256; cnt++) {
		begin(&m);
		m.nv.block_cnt = cnt;
		assert_int_equal(check(&m, m.nv.rec.size, &raw),
				 cnt <= CT_NV_MAX_BLOCKS ? 0 : -EINVAL);
	}
	for (unsigned op = 0; op < 256; op++) {
		begin(&m);
		m.nv.op = op;
		assert_int_equal(check(&m, m.nv.rec.size, &raw),
				 op >= CT_NV_IOCTL && op <= CT_NV_POLL ? 0 : -EINVAL);
	}
	/* raw_check() accepts any block kind and any device number. */
	for (unsigned v = 0; v < 256; v++) {
		begin(&m);
		add(&m, v, 8);
		m.nv.dev = v;
		assert_int_equal(check(&m, m.nv.rec.size, &raw), 0);
	}
}

static void any_bytes(void **state)
{
	uint32_t seed = 7, good = 0;
	struct raw_nv raw;
	struct made m;

	for (int round = 0; round < 20000; round++) {
		begin(&m);
		for (int i = 0; i < 1 + round % CT_NV_MAX_BLOCKS; i++)
			add(&m, i % 5, 1 + (round * 37 + i * 11) % CT_NV_SPAN_SZ_MAX);
		for (int i = 0; i < 1 + round % 4; i++) {
			seed = seed * 1664525 + 1013904223;
			m.bytes[(seed >> 8) % sizeof(m.nv)] = seed >> 24;
		}
		seed = seed * 1664525 + 1013904223;
		good += !check(&m, (seed >> 8) % ROOM, &raw);
	}
	assert_true(good > 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whole),
		cmocka_unit_test(places),
		cmocka_unit_test(truncated),
		cmocka_unit_test(sizes_that_lie),
		cmocka_unit_test(lengths_that_lie),
		cmocka_unit_test(counts_and_kinds),
		cmocka_unit_test(any_bytes),
	};

	return cmocka_run_group_tests_name("check_nv", tests, NULL, NULL);
}
