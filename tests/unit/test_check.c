/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Raw records that pass raw_check() need no further checks. Each record lies in a block of exactly
 * its size, so that ASan detects a read past the end. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "random.h"
#include "record/check.h"

#define BUF_SZ 4096

/* Returns the record's kind or an error; for a call also its parts. */
static int checked(const void *data, size_t size, struct raw_call *call)
{
	struct raw raw;
	int ret;

	memset(&raw, 0xee, sizeof(raw));
	ret = raw_check(data, size, 0, &raw);
	*call = raw.call;
	if (ret)
		return ret;
	assert_ptr_equal(raw.rec, data);
	return raw.rec->kind;
}

static int check_copy(const void *data, size_t size, struct raw_call *raw)
{
	void *copy = malloc(size ? size : 1);
	int ret;

	assert_non_null(copy);
	memcpy(copy, data, size);
	ret = checked(copy, size, raw);
	/* Everything that the result refers to can be read. */
	if (ret == CT_REC_CALL) {
		volatile uint64_t sum = 0;

		for (unsigned i = 0; i < raw->word_cnt; i++)
			sum += raw->words[i];
		for (unsigned i = 0; i < raw->cap_cnt; i++) {
			assert_int_equal(!!raw->caps[i].data, raw->caps[i].len > 0);
			for (int k = 0; k < raw->caps[i].len; k++)
				sum += raw->caps[i].data[k];
		}
		for (unsigned i = 0; i < raw->stack_cnt; i++)
			sum += raw->stack[i];
		for (unsigned i = 0; i < raw->python_cnt; i++)
			sum += raw->python[i].code + raw->python[i].off;
	}
	free(copy);
	return ret;
}

/* A call with word_cnt words and captures of these lengths; returns its size. */
static size_t make_call(uint8_t buf[BUF_SZ], unsigned word_cnt, const int *lens, unsigned cap_cnt)
{
	struct ct_call *c = (struct ct_call *)buf;
	size_t off = CT_CALL_FIXED_SZ + 8 * word_cnt;

	memset(buf, 0x5a, BUF_SZ);
	memset(c, 0, CT_CALL_FIXED_SZ);
	c->rec.kind = CT_REC_CALL;
	c->word_cnt = word_cnt;
	c->cap_cnt = cap_cnt;
	for (unsigned i = 0; i < cap_cnt; i++) {
		c->cap_len[i] = lens[i];
		if (lens[i] > 0)
			off += (lens[i] + 7) & ~7;
	}
	c->rec.size = off;
	return off;
}

static void test_call(void **state)
{
	static const int lens[] = {8, 0, -EFAULT, 13, 1};
	_Alignas(8) uint8_t buf[BUF_SZ];
	size_t size = make_call(buf, 5, lens, 5);
	struct raw_call raw;

	assert_int_equal(checked(buf, size, &raw), CT_REC_CALL);
	assert_ptr_equal(raw.call, buf);
	assert_int_equal(raw.word_cnt, 5);
	assert_ptr_equal(raw.words, buf + CT_CALL_FIXED_SZ);
	assert_int_equal(raw.cap_cnt, 5);
	for (int i = 0; i < 5; i++)
		assert_int_equal(raw.caps[i].len, lens[i]);
	assert_ptr_equal(raw.caps[0].data, buf + CT_CALL_FIXED_SZ + 40);
	assert_null(raw.caps[1].data);
	assert_null(raw.caps[2].data);
	assert_ptr_equal(raw.caps[3].data, buf + CT_CALL_FIXED_SZ + 48);
	assert_ptr_equal(raw.caps[4].data, buf + CT_CALL_FIXED_SZ + 64);
	/* The ring may deliver more bytes than the record's size. */
	assert_int_equal(check_copy(buf, size + 8, &raw), CT_REC_CALL);
	/* The last capture needs no padding behind it. */
	((struct ct_call *)buf)->rec.size = size - 7;
	assert_int_equal(check_copy(buf, size - 7, &raw), CT_REC_CALL);
	((struct ct_call *)buf)->rec.size = size - 8;
	assert_int_equal(check_copy(buf, size - 8, &raw), -EINVAL);
}

static void test_stack(void **state)
{
	static const int lens[] = {8, 13};
	_Alignas(8) uint8_t buf[BUF_SZ];
	size_t size = make_call(buf, 2, lens, 2);
	struct ct_call *c = (struct ct_call *)buf;
	struct raw_call raw;

	assert_int_equal(checked(buf, size, &raw), CT_REC_CALL);
	assert_null(raw.stack);
	assert_int_equal(raw.stack_cnt, 0);
	c->stack_cnt = 3;
	c->rec.size = size + 24;
	assert_int_equal(checked(buf, size + 24, &raw), CT_REC_CALL);
	assert_int_equal(raw.stack_cnt, 3);
	assert_ptr_equal(raw.stack, buf + size);
	assert_int_equal(check_copy(buf, size + 24, &raw), CT_REC_CALL);
	/* The last frame is truncated. */
	c->rec.size = size + 23;
	assert_int_equal(check_copy(buf, size + 23, &raw), -EINVAL);
	c->stack_cnt = CT_STACK_MAX;
	c->rec.size = size + 8 * CT_STACK_MAX;
	assert_int_equal(check_copy(buf, c->rec.size, &raw), CT_REC_CALL);
	c->stack_cnt = CT_STACK_MAX + 1;
	c->rec.size = size + 8 * (CT_STACK_MAX + 1);
	assert_int_equal(check_copy(buf, c->rec.size, &raw), -EINVAL);
	c->stack_cnt = 255;
	c->rec.size = size;
	assert_int_equal(check_copy(buf, size, &raw), -EINVAL);
}

/* A Python stack behind the native one. */
static void test_python(void **state)
{
	_Alignas(8) uint8_t buf[BUF_SZ];
	size_t size = make_call(buf, 2, NULL, 0);
	struct ct_call *c = (struct ct_call *)buf;
	struct raw_call raw;

	assert_int_equal(checked(buf, size, &raw), CT_REC_CALL);
	assert_null(raw.python);
	c->stack_cnt = 1;
	c->python_cnt = 2;
	c->rec.size = size + 8 + 32;
	assert_int_equal(checked(buf, size + 40, &raw), CT_REC_CALL);
	assert_ptr_equal(raw.python, buf + size + 8);
	assert_int_equal(raw.python_cnt, 2);
	assert_int_equal(check_copy(buf, size + 40, &raw), CT_REC_CALL);
	c->rec.size = size + 39;
	assert_int_equal(check_copy(buf, size + 39, &raw), -EINVAL);
	c->python_cnt = CT_PYTHON_MAX + 1;
	c->rec.size = size + 8 + 16 * (CT_PYTHON_MAX + 1);
	assert_int_equal(check_copy(buf, c->rec.size, &raw), -EINVAL);
}

/* Truncated at each byte, with the record's size reduced to match, and without. */
static void check_truncations(uint8_t *buf, size_t size, size_t least, int kind)
{
	struct ct_rec *rec = (struct ct_rec *)buf;
	struct raw_call raw;

	rec->size = size;
	assert_int_equal(check_copy(buf, size, &raw), kind);
	for (size_t n = 0; n < size; n++) {
		rec->size = size;
		assert_int_equal(check_copy(buf, n, &raw), -EINVAL);
		rec->size = n;
		assert_int_equal(check_copy(buf, n, &raw), n < least ? -EINVAL : kind);
		/* The bytes exist, but the size excludes them. */
		assert_int_equal(check_copy(buf, size, &raw), n < least ? -EINVAL : kind);
	}
	rec->size = size + 1;
	assert_int_equal(check_copy(buf, size, &raw), -EINVAL);
	rec->size = UINT32_MAX;
	assert_int_equal(check_copy(buf, size, &raw), -EINVAL);
	rec->size = 0;
	assert_int_equal(check_copy(buf, size, &raw), -EINVAL);
}

static void test_truncated(void **state)
{
	static const int lens[CT_MAX_CAPS] = {8, 24, -14, 0, 128, 1, 1024, 7};
	_Alignas(8) uint8_t buf[BUF_SZ];
	size_t size;

	size = make_call(buf, CT_MAX_WORDS, lens, CT_MAX_CAPS);
	/* Everything except the padding of the last capture. */
	check_truncations(buf, size, size - 1, CT_REC_CALL);
	check_truncations(buf, make_call(buf, 0, NULL, 0), CT_CALL_FIXED_SZ, CT_REC_CALL);
	check_truncations(buf, make_call(buf, 3, NULL, 0), CT_CALL_FIXED_SZ + 24, CT_REC_CALL);
	for (int kind = CT_REC_THREAD; kind <= CT_REC_LIB; kind++) {
		size = kind == CT_REC_LIB ? sizeof(struct ct_lib_map) : sizeof(struct ct_task);
		memset(buf, 0xff, size);
		((struct ct_rec *)buf)->kind = kind;
		check_truncations(buf, size, size, kind);
	}
}

static void test_kinds(void **state)
{
	_Alignas(8) uint8_t buf[BUF_SZ] = {0};
	struct ct_rec *rec = (struct ct_rec *)buf;
	struct raw_call raw;

	rec->size = 512;
	for (unsigned kind = 0; kind <= UINT16_MAX; kind++) {
		int ret;

		rec->kind = kind;
		ret = checked(buf, 512, &raw);
		if (kind > CT_REC_NONE && kind <= CT_REC_LIB)
			assert_int_equal(ret, kind);
		else if (kind == CT_REC_NONE || kind >= CT_REC_KIND_CNT)
			assert_int_equal(ret, -EINVAL);
		else /* records of --kernel have their own checks */
			assert_true(ret == (int)kind || ret == -EINVAL);
	}
}

static void test_counts(void **state)
{
	_Alignas(8) uint8_t buf[BUF_SZ];
	struct ct_call *c = (struct ct_call *)buf;
	struct raw_call raw;

	make_call(buf, 0, NULL, 0);
	c->rec.size = BUF_SZ;
	for (unsigned n = 0; n < 256; n++) {
		c->word_cnt = n;
		c->cap_cnt = 0;
		assert_int_equal(checked(buf, BUF_SZ, &raw),
				 n <= CT_MAX_WORDS ? CT_REC_CALL : -EINVAL);
		c->word_cnt = 0;
		c->cap_cnt = n;
		assert_int_equal(checked(buf, BUF_SZ, &raw),
				 n <= CT_MAX_CAPS ? CT_REC_CALL : -EINVAL);
	}
}

static void test_lengths(void **state)
{
	_Alignas(8) uint8_t buf[BUF_SZ];
	int lens[CT_MAX_CAPS];
	struct raw_call raw;
	size_t size;

	for (int len = INT16_MIN; len <= INT16_MAX; len++) {
		struct ct_call *c = (struct ct_call *)buf;

		/* Room for the longest capture. */
		if (len == INT16_MIN || len == 1)
			make_call(buf, 2, NULL, 0);
		c->rec.size = CT_CALL_FIXED_SZ + 16 + CT_CAP_SZ_MAX;
		c->cap_cnt = 1;
		c->cap_len[0] = len;
		assert_int_equal(checked(buf, c->rec.size, &raw),
				 len <= CT_CAP_SZ_MAX ? CT_REC_CALL : -EINVAL);
		if (len <= 0)
			assert_null(raw.caps[0].data);
	}
	/* Each capture fits by itself; together they do not. */
	for (unsigned i = 0; i < CT_MAX_CAPS; i++)
		lens[i] = 200;
	size = make_call(buf, 1, lens, CT_MAX_CAPS);
	((struct ct_call *)buf)->rec.size = size - 200;
	assert_int_equal(check_copy(buf, size - 200, &raw), -EINVAL);
	/* One byte more than the record holds, in the last capture only. */
	size = make_call(buf, 1, lens, CT_MAX_CAPS);
	((struct ct_call *)buf)->cap_len[CT_MAX_CAPS - 1] = 201;
	assert_int_equal(check_copy(buf, size, &raw), -EINVAL);
	/* An unread capture takes no room. */
	make_call(buf, 1, lens, CT_MAX_CAPS);
	((struct ct_call *)buf)->cap_len[0] = -14;
	assert_int_equal(check_copy(buf, size, &raw), CT_REC_CALL);
	assert_ptr_equal(raw.caps[1].data - (uint8_t *)raw.words, 8);
}

/* Random bytes as a record, mostly with a plausible size and kind. The record ends where its block
 * does, so that ASan guards the memory behind it. */
static void test_random(void **state)
{
	enum { MAX = 640 };
	uint8_t *block = malloc(MAX);
	unsigned ok = 0;

	assert_non_null(block);
	rnd_state = 0x9e3779b97f4a7c15;
	for (unsigned round = 0; round < 1000000; round++) {
		size_t size = rnd() % (MAX / 8 + 1) * 8;
		uint8_t *buf = block + MAX - size;
		struct raw_call raw;

		for (size_t i = 0; i < size && i < 160; i += 8) {
			uint64_t x = rnd();

			memcpy(buf + i, &x, 8);
		}
		if (size >= sizeof(struct ct_rec) && round % 16) {
			((struct ct_rec *)buf)->size = round % 3 ? size : rnd() % (size + 8);
			((struct ct_rec *)buf)->kind = round % 5 ? CT_REC_CALL : rnd() % 8;
		}
		if (size >= CT_CALL_FIXED_SZ && round % 4) {
			struct ct_call *c = (struct ct_call *)buf;

			c->call_id >>= 64 - RAW_ID_BITS;
			c->parent_id >>= 64 - RAW_ID_BITS;
			c->operator_id >>= 64 - RAW_ID_BITS;
			c->word_cnt = rnd() % (CT_MAX_WORDS + 2);
			c->cap_cnt = rnd() % (CT_MAX_CAPS + 2);
			c->python_cnt = round % 8 ? 0 : rnd() % 8;
			for (int i = 0; i < CT_MAX_CAPS; i++)
				c->cap_len[i] = (int)(rnd() % 160) - 40;
		}
		if (checked(buf, size, &raw) != CT_REC_CALL)
			continue;
		ok++;
		for (unsigned i = 0; i < raw.word_cnt; i++)
			assert_in_range((uintptr_t)&raw.words[i], (uintptr_t)buf,
					(uintptr_t)block + MAX - 8);
		for (unsigned i = 0; i < raw.python_cnt; i++)
			assert_in_range((uintptr_t)&raw.python[i], (uintptr_t)buf,
					(uintptr_t)block + MAX - sizeof(raw.python[i]));
		for (unsigned i = 0; i < raw.cap_cnt; i++)
			if (raw.caps[i].len > 0)
				assert_in_range((uintptr_t)raw.caps[i].data + raw.caps[i].len,
						(uintptr_t)buf, (uintptr_t)block + MAX);
	}
	free(block);
	/* If all records were invalid, the round would test nothing. */
	assert_true(ok > 10000);
}

static void test_name(void **state)
{
	_Alignas(8) uint8_t buf[BUF_SZ] = {0};
	struct ct_name *n = (struct ct_name *)buf;
	struct raw_call raw;

	n->rec.kind = CT_REC_NAME;
	n->rec.size = sizeof(*n);
	assert_int_equal(check_copy(buf, sizeof(*n), &raw), CT_REC_NAME);
	assert_int_equal(check_copy(buf, sizeof(*n) - 1, &raw), -EINVAL);
	memcpy(n->name, "k", 2);
	n->len = 2;
	assert_int_equal(check_copy(buf, sizeof(*n) + 2, &raw), -EINVAL);
	n->rec.size = sizeof(*n) + 2;
	assert_int_equal(check_copy(buf, sizeof(*n) + 2, &raw), CT_REC_NAME);
	/* No NUL in it. */
	n->len = 1;
	assert_int_equal(check_copy(buf, sizeof(*n) + 2, &raw), -EINVAL);
	n->len = UINT32_MAX;
	assert_int_equal(check_copy(buf, sizeof(*n) + 2, &raw), -EINVAL);
	n->len = CT_NAME_SZ_MAX;
	n->rec.size = sizeof(*n) + CT_NAME_SZ_MAX;
	assert_int_equal(check_copy(buf, n->rec.size, &raw), CT_REC_NAME);
	n->len++;
	n->rec.size++;
	assert_int_equal(check_copy(buf, n->rec.size, &raw), -EINVAL);
}

/* Ids of two producers differ, and no producer can send an id of another. */
static void test_ids(void **state)
{
	static const uint64_t ids[] = {1, 2, 1024, (1ull << RAW_ID_BITS) - 1};
	const unsigned last = RAW_PRODUCER_MAX - 1;
	_Alignas(8) uint8_t buf[BUF_SZ];
	struct ct_call *c = (struct ct_call *)buf;
	struct ct_nv nv = {.rec = {.size = sizeof(nv), .kind = CT_REC_NV}, .op = CT_NV_OPEN};
	size_t size = make_call(buf, 0, NULL, 0);
	struct raw first, other;

	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
		c->call_id = nv.call_id = ids[i];
		c->parent_id = i ? ids[i - 1] : 0;
		assert_int_equal(raw_check(buf, size, 0, &first), 0);
		assert_int_equal(raw_check(buf, size, last, &other), 0);
		assert_int_equal(first.call.id, ids[i]);
		assert_int_equal(first.call.parent_id, c->parent_id);
		assert_int_equal(other.call.id, (uint64_t)last << RAW_ID_BITS | ids[i]);
		assert_true(other.call.id < 1ull << 53);
		/* A call without a parent stays without one. */
		assert_int_equal(!other.call.parent_id, !i);
		assert_int_equal(raw_check(&nv, sizeof(nv), 0, &first), 0);
		assert_int_equal(first.nv.call_id, ids[i]);
		assert_int_equal(raw_check(&nv, sizeof(nv), last, &first), 0);
		assert_int_equal(first.nv.call_id, other.call.id);
	}
	c->call_id = nv.call_id = 1ull << RAW_ID_BITS;
	assert_int_equal(raw_check(buf, size, 0, &first), -EINVAL);
	assert_int_equal(raw_check(&nv, sizeof(nv), 0, &first), -EINVAL);
	c->call_id = 1;
	c->parent_id = 1ull << 63;
	assert_int_equal(raw_check(buf, size, 0, &first), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_call),	  cmocka_unit_test(test_stack),
		cmocka_unit_test(test_truncated), cmocka_unit_test(test_kinds),
		cmocka_unit_test(test_counts),	  cmocka_unit_test(test_lengths),
		cmocka_unit_test(test_random),	  cmocka_unit_test(test_name),
		cmocka_unit_test(test_ids),	  cmocka_unit_test(test_python),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
