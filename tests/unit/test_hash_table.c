/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Hash tables: order, deletion, hostile keys, and memory that is out at any growth. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned allocs, fails_at; /* the number of the allocation that fails; 0: none */

static void *failing_realloc(void *p, size_t size)
{
	return ++allocs == fails_at ? NULL : realloc(p, size);
}

static void *failing_calloc(size_t n, size_t size)
{
	return ++allocs == fails_at ? NULL : calloc(n, size);
}

#define realloc failing_realloc
#define calloc	failing_calloc
#include "util/hash_table.c"
#undef realloc
#undef calloc

struct item {
	struct hash_link link;
	uint64_t key;
	unsigned number;
};
HASH_TABLE(item, key);

struct pair_key {
	uint64_t a;
	uint32_t b, c;
};

struct pair {
	struct hash_link link;
	struct pair_key key;
};
HASH_TABLE(pair, key);

struct word {
	struct hash_link link;
	char text[64];
};
HASH_TABLE_TYPE(word);
HASH_TABLE_BYTES(word, text);

static int setup(void **state)
{
	allocs = fails_at = 0;
	return 0;
}

static void fill(struct item_table *t, uint64_t from, uint64_t to)
{
	for (uint64_t k = from; k < to; k++)
		assert_non_null(item_table__new(t, &k));
}

/* Checks the elements, their order in both directions, and that each is found. */
static void check(const struct item_table *t, const uint64_t *keys, unsigned cnt)
{
	const struct item *last = NULL;
	unsigned n = 0;

	hash_each (x, t) {
		assert_true(n < cnt);
		assert_int_equal(x->key, keys[n++]);
		assert_ptr_equal(x->link.prev, last);
		assert_ptr_equal(item_table__find(t, &x->key), x);
		last = x;
	}
	assert_int_equal(n, cnt);
	assert_int_equal(hash_cnt(t), cnt);
	if (last)
		assert_ptr_equal(t->table.index->last, last);
	else
		assert_null(t->table.index);
}

static void test_order(void **state)
{
	struct item_table t = {0};
	uint64_t keys[1000], k;

	check(&t, NULL, 0);
	for (unsigned i = 0; i < 1000; i++) {
		keys[i] = i * 7919ull % 1009 << 20;
		assert_non_null(item_table__new(&t, &keys[i]));
	}
	check(&t, keys, 1000);
	k = 5;
	assert_null(item_table__find(&t, &k));
	/* A deleted key that returns is the last. */
	k = keys[0];
	free(item_table__pop(&t));
	assert_null(item_table__find(&t, &k));
	memmove(keys, keys + 1, sizeof(keys) - sizeof(keys[0]));
	keys[999] = k;
	assert_non_null(item_table__new(&t, &k));
	check(&t, keys, 1000);
	item_table__free(&t);
	check(&t, NULL, 0);
	assert_null(t.table.index);
	assert_null(item_table__pop(&t));
}

static void test_delete_in_loop(void **state)
{
	struct item_table t = {0};
	uint64_t keys[100];
	unsigned n = 0;

	fill(&t, 0, 300);
	hash_each (x, &t) {
		if (x->key % 3 == 1) {
			keys[n++] = x->key;
			continue;
		}
		item_table__del(&t, x);
		free(x);
	}
	check(&t, keys, 100);
	hash_each (x, &t) {
		item_table__del(&t, x);
		free(x);
	}
	check(&t, NULL, 0);
	assert_null(t.table.index);
}

/* Tables of one row come and go: they use no memory when empty. */
static void test_last(void **state)
{
	struct item_table t = {0};
	struct item x = {.key = 1};

	for (int i = 0; i < 3; i++) {
		assert_int_equal(item_table__add(&t, &x), 0);
		assert_ptr_equal(t.first, &x);
		item_table__del(&t, &x);
		assert_null(t.table.index);
	}
}

static void test_equal_keys(void **state)
{
	struct item_table t = {0};
	struct item a = {.key = 1}, b = {.key = 1};
	uint64_t k = 1;

	fill(&t, 2, 20);
	assert_int_equal(item_table__add(&t, &a), 0);
	assert_int_equal(item_table__add(&t, &b), 0);
	fill(&t, 20, 200);
	assert_ptr_equal(item_table__find(&t, &k), &b);
	item_table__del(&t, &b);
	assert_ptr_equal(item_table__find(&t, &k), &a);
	item_table__del(&t, &a);
	assert_null(item_table__find(&t, &k));
	item_table__free(&t);
}

static void test_key_types(void **state)
{
	static const char *const texts[] = {"", "a", "ab", "12345678", "123456789012345678901234"};
	struct pair_table pairs = {0};
	struct word_table words = {0};
	struct word w[5] = {0};

	for (uint32_t i = 0; i < 100; i++)
		assert_non_null(pair_table__new(&pairs, &(struct pair_key){i / 10, i % 10, 7}));
	for (uint32_t i = 0; i < 100; i++) {
		const struct pair *p =
			pair_table__find(&pairs, &(struct pair_key){i / 10, i % 10, 7});

		assert_non_null(p);
		assert_int_equal(p->key.a * 10 + p->key.b, i);
		assert_null(pair_table__find(&pairs, &(struct pair_key){i / 10, i % 10, 8}));
	}
	pair_table__free(&pairs);
	for (unsigned i = 0; i < 5; i++) {
		strcpy(w[i].text, texts[i]);
		assert_int_equal(word_table__add(&words, &w[i], strlen(texts[i])), 0);
	}
	for (unsigned i = 0; i < 5; i++)
		assert_ptr_equal(word_table__find(&words, texts[i], strlen(texts[i])), &w[i]);
	assert_null(word_table__find(&words, "12345678", 7));
	assert_null(word_table__find(&words, "12345678\0", 9));
	while (word_table__pop(&words))
		;
}

/* Each allocation fails once: of the elements, and of the table, which grows seven times. */
static void test_no_memory(void **state)
{
	enum { CNT = 600 };
	unsigned table_allocs = 0, failures = 0;
	uint64_t keys[CNT], k;

	for (k = 0; k < CNT; k++)
		keys[k] = k;
	for (unsigned at = 1;; at++) {
		struct item_table t = {0};

		allocs = 0;
		fails_at = at;
		for (k = 0; k < CNT; k++) {
			if (item_table__new(&t, &k))
				continue;
			failures++;
			check(&t, keys, k);
			assert_null(item_table__find(&t, &k));
			/* There is memory again. */
			assert_non_null(item_table__new(&t, &k));
		}
		check(&t, keys, CNT);
		item_table__free(&t);
		table_allocs = allocs - CNT;
		if (allocs < at)
			break;
	}
	assert_int_equal(table_allocs, 8);
	assert_int_equal(failures, CNT + 8);
	/* Also where the caller has the element. */
	struct item_table t = {0};
	struct item x = {.key = CNT};

	allocs = fails_at = 0;
	fill(&t, 0, 8);
	allocs = 0;
	fails_at = 1;
	assert_int_equal(item_table__add(&t, &x), -ENOMEM);
	check(&t, keys, 8);
	assert_int_equal(item_table__add(&t, &x), 0);
	item_table__del(&t, &x);
	item_table__free(&t);
}

/* What quotas charge for a row is what the table uses. */
static void test_memory(void **state)
{
	struct item_table t = {0};

	for (uint64_t k = 0; k < 5000; k++) {
		assert_non_null(item_table__new(&t, &k));
		size_t size = sizeof(*t.table.index) +
			      t.table.index->bucket_cnt * sizeof(t.table.index->buckets[0]);

		assert_true(size <= HASH_TABLE_MIN_SZ + k * HASH_TABLE_ROW_SZ);
	}
	item_table__free(&t);
}

static unsigned longest_chain(const struct hash_index *t)
{
	unsigned longest = 0;

	for (uint32_t i = 0; i < t->bucket_cnt; i++) {
		unsigned n = 0;

		for (const struct hash_link *x = t->buckets[i]; x; x = x->chain)
			n++;
		longest = n > longest ? n : longest;
	}
	return longest;
}

/* Keys that are equal in most bits, or that a known multiplier moves into one chain. */
static void test_hostile_keys(void **state)
{
	const uint64_t inverse = 0xf1de83e19937733d; /* of 0x9e3779b97f4a7c15 */

	assert_true(inverse * 0x9e3779b97f4a7c15 == 1);
	for (unsigned i = 0; i < 5 * 200; i++) {
		const unsigned set = i % 5;
		struct item_table t = {0};

		/* The first seed is the one of this process, the others are always the same. */
		if (i && !set) {
			hash_seed[0] = hash_mix(i + 5, inverse);
			hash_seed[1] = hash_mix(hash_seed[0], inverse) | 1;
		}
		for (uint64_t n = 0; n < 1 << 12; n++) {
			const uint64_t keys[] = {n, n << 32, n << 48, (n << 48) * inverse,
						 n * inverse};

			assert_non_null(item_table__new(&t, &keys[set]));
		}
		/* In a table of random places it is at most 9; one product reaches 20. */
		assert_true(longest_chain(t.table.index) <= 14);
		item_table__free(&t);
	}
}

static void test_hostile_texts(void **state)
{
	struct word_table t = {0};

	for (unsigned i = 0; i < 1 << 14; i++) {
		struct word *w = calloc(1, sizeof(*w));

		assert_non_null(w);
		/* They differ in a few bits, at the begin or the end. */
		for (unsigned bit = 0; bit < 14; bit++)
			w->text[bit % 2 ? bit : 50 - bit] = i >> bit & 1 ? 'a' : 'b';
		assert_int_equal(word_table__add(&t, w, sizeof(w->text)), 0);
	}
	assert_true(longest_chain(t.table.index) <= 20);
	word_table__free(&t);
}

/* A program cannot predict the slots: they differ in each process. */
static void test_seed(void **state)
{
	unsigned long long seen[2];

	for (int i = 0; i < 2; i++) {
		FILE *f = popen("exec /proc/$PPID/exe hash", "re");

		assert_non_null(f);
		assert_int_equal(fscanf(f, "%llx", &seen[i]), 1);
		pclose(f);
	}
	assert_true(seen[0] != seen[1]);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_order, setup),
		cmocka_unit_test_setup(test_delete_in_loop, setup),
		cmocka_unit_test_setup(test_last, setup),
		cmocka_unit_test_setup(test_equal_keys, setup),
		cmocka_unit_test_setup(test_key_types, setup),
		cmocka_unit_test_setup(test_no_memory, setup),
		cmocka_unit_test_setup(test_memory, setup),
		cmocka_unit_test_setup(test_hostile_keys, setup),
		cmocka_unit_test_setup(test_hostile_texts, setup),
		cmocka_unit_test_setup(test_seed, setup),
	};

	if (argc > 1) {
		printf("%llx\n", (unsigned long long)(hash_word(1) ^ hash_bytes("abc", 3)));
		return 0;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
