/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Reads rows of a BPF table while others add and delete rows. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "attach/map_rows.h"

#include <bpf/bpf.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#define STAY 500u /* keys below this one stay in the table */
#define MAX  4096

static int table = -1;
static atomic_bool stop;
static unsigned seen[MAX];

static void count(void *ctx, const void *key, const void *val)
{
	uint32_t k = *(const uint32_t *)key;

	assert_true(k < MAX);
	assert_int_equal(*(const uint64_t *)val, 7 * k);
	seen[k]++;
}

static void add(uint32_t key)
{
	uint64_t val = 7 * key;

	assert_int_equal(bpf_map_update_elem(table, &key, &val, BPF_ANY), 0);
}

static void *churn(void *arg)
{
	while (!stop)
		for (uint32_t key = STAY; key < MAX && !stop; key++) {
			uint32_t old = key - 100 < STAY ? key + (MAX - STAY) - 100 : key - 100;

			add(key);
			bpf_map_delete_elem(table, &old);
		}
	return arg;
}

/* With BPF_MAP_GET_NEXT_KEY rows came twice, since it starts over after a deleted key. */
static void test_once(void **state)
{
	pthread_t thread;

	if (table < 0)
		skip();
	for (uint32_t key = 0; key < STAY; key++)
		add(key);
	assert_int_equal(pthread_create(&thread, NULL, churn, NULL), 0);
	for (unsigned n = 0; n < 200; n++) {
		memset(seen, 0, sizeof(seen));
		map_rows__each(table, sizeof(uint32_t), sizeof(uint64_t), count, NULL);
		for (uint32_t key = 0; key < STAY; key++)
			assert_int_equal(seen[key], 1);
	}
	stop = true;
	pthread_join(thread, NULL);
}

static void test_empty(void **state)
{
	int empty = bpf_map_create(BPF_MAP_TYPE_HASH, "empty", 4, 8, 4, NULL);

	if (empty < 0)
		skip();
	map_rows__each(empty, sizeof(uint32_t), sizeof(uint64_t), count, NULL);
	close(empty);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_once),
		cmocka_unit_test(test_empty),
	};

	table = bpf_map_create(BPF_MAP_TYPE_HASH, "rows", sizeof(uint32_t), sizeof(uint64_t), MAX,
			       NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
