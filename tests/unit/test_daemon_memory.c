/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* All memory limits of the daemon together stay below the limit in its unit. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "attach/attach.h"
#include "daemon/memory.h"

/* Fragmentation of malloc(): measured, daemon-memory. */
#define RESERVE (24ull << 20)

static void put(void *ctx, const char *what, uint64_t bytes)
{
	uint64_t *sum = ctx;

	*sum += bytes;
	print_message("%6.1f MiB  %s\n", bytes / 1048576.0, what);
}

static uint64_t most(const struct config *c, unsigned cpus)
{
	struct quotas q;

	quotas__init(&q, false, c->trace.kernel);
	memory__set_limits(c, &q);
	return memory__max_bytes(c, &q, cpus, NULL, NULL);
}

static struct config *defaults(const char *set)
{
	struct config_errors errors = {0};
	struct config *c = config__new();

	assert_non_null(c);
	if (set)
		assert_true(config__set(c, set, &errors));
	return c;
}

/* With a collector, and for any number of processors. */
static void test_defaults(void **state)
{
	const char *const *also = *state;
	struct config *c = defaults("otlp.endpoint=http://127.0.0.1:4318");
	struct config_errors errors = {0};
	uint64_t sum = 0, all;
	struct quotas q;

	if (also)
		assert_true(config__set(c, *also, &errors));
	quotas__init(&q, false, false);
	memory__set_limits(c, &q);
	all = memory__max_bytes(c, &q, 64, put, &sum);
	assert_int_equal(all, sum);
	for (unsigned cpus = 1; cpus <= 1024; cpus++)
		assert_true(most(c, cpus) + RESERVE <= MEMORY_UNIT);
	config__free(c);
}

/* Larger settings exceed the unit's limit. */
static void test_more(void **state)
{
	static const char *const sets[] = {"metrics.max_counts=262144", "metrics.max_tasks=65536",
					   "trace.buffer_size=512M", "recorder.memory=512M"};

	for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++) {
		struct config *c = defaults(sets[i]);

		assert_true(most(c, 8) > MEMORY_UNIT);
		config__free(c);
	}
}

/* With lines that wait for the GPU the sum fits, too, but without RESERVE. More such lines exceed
 * the limit. */
static void test_gpu_time(void **state)
{
	struct config *c = defaults("otlp.endpoint=http://127.0.0.1:4318");

	c->trace.gpu_time = CT_GPU_TIME_GRAPHS;
	assert_true(most(c, 64) <= MEMORY_UNIT);
	c->trace.gpu_pending_size = 64 << 20;
	assert_true(most(c, 64) > MEMORY_UNIT);
	config__free(c);
}

/* The unit has the limit that the sum is compared with. */
static void test_unit(void **state)
{
	char line[256], want[64];
	bool found = false;
	FILE *f = fopen("dist/cudatrace.service.in", "r");

	assert_non_null(f);
	snprintf(want, sizeof(want), "MemoryMax=%lluM\n", MEMORY_UNIT >> 20);
	while (fgets(line, sizeof(line), f))
		found |= !strcmp(line, want);
	fclose(f);
	assert_true(found);
}

static void test_rings(void **state)
{
	assert_int_equal(rings__share(8 << 20, 1), 8 << 20);
	assert_int_equal(rings__share(8 << 20, 4), 2 << 20);
	assert_int_equal(rings__share(8 << 20, 64), 1 << 20);
	assert_int_equal(rings__share(8 << 20, 65), 512 << 10);
	assert_int_equal(rings__share(8 << 20, 224), 256 << 10);
	assert_int_equal(rings__share(64 << 10, 224), 64 << 10);
	/* A larger request gets larger rings. */
	assert_int_equal(rings__share(256 << 20, 224), 1 << 20);
}

static const char *inject = "trace.inject=true";

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_defaults), cmocka_unit_test_prestate(test_defaults, &inject),
		cmocka_unit_test(test_more),	 cmocka_unit_test(test_unit),
		cmocka_unit_test(test_rings),	 cmocka_unit_test(test_gpu_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
