/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Global ranks in environments. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "model/job.h"

#include <stdlib.h>
#include <string.h>

static int64_t rank_in(const char *env, size_t len)
{
	char *copy = malloc(len + 1); /* so that sanitizers see reads beyond it */
	uint32_t rank;
	bool found;

	memcpy(copy, env, len);
	copy[len] = 0;
	found = job_rank_in(copy, len, &rank);
	free(copy);
	return found ? (int64_t)rank : -1;
}
#define RANK_IN(env) rank_in(env, sizeof(env) - 1)

static void test_names(void **state)
{
	assert_int_equal(RANK_IN("HOME=/\0RANK=3\0"), 3);
	assert_int_equal(RANK_IN("SLURM_PROCID=12\0"), 12);
	assert_int_equal(RANK_IN("OMPI_COMM_WORLD_RANK=0"), 0);
	assert_int_equal(RANK_IN("PMI_RANK=1048575\0A=b\0"), 1048575);
}

/* torchrun below srun: all ranks of a node have the number of their node. */
static void test_order(void **state)
{
	assert_int_equal(RANK_IN("PMI_RANK=1\0SLURM_PROCID=1\0RANK=9\0"), 9);
	assert_int_equal(RANK_IN("RANK=\0SLURM_PROCID=1\0"), 1);
}

static void test_others(void **state)
{
	assert_int_equal(RANK_IN(""), -1);
	assert_int_equal(RANK_IN("LOCAL_RANK=3\0RANKS=4\0rank=1\0"), -1);
	assert_int_equal(RANK_IN("RANK=-1\0"), -1);
	assert_int_equal(RANK_IN("RANK=3 \0"), -1);
	assert_int_equal(RANK_IN("RANK=12345678\0"), -1);
	assert_int_equal(RANK_IN("RANK=secret\0"), -1);
	assert_int_equal(RANK_IN("RANK"), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
