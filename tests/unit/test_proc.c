/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Processes and threads by ids that are reused or have the same last bits. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>

#include "model/proc.h"

#define CNT 500

static struct procs ps;

static int setup(void **state)
{
	ps = (struct procs){.names = kernel_names__new(NULL)};
	return !ps.names;
}

static int teardown(void **state)
{
	procs__free(&ps);
	kernel_names__free(ps.names);
	return 0;
}

static void name_it(uint32_t pid, uint32_t tid, int turn)
{
	char comm[16];

	snprintf(comm, sizeof(comm), "%u %u %d", pid, tid, turn);
	proc__set_comm(procs__get(&ps, pid), proc__thread(&ps, procs__get(&ps, pid), tid), comm);
}

static void has_name(uint32_t pid, uint32_t tid, int turn)
{
	char comm[16];

	snprintf(comm, sizeof(comm), "%u %u %d", pid, tid, turn);
	assert_string_equal(proc__thread(&ps, procs__get(&ps, pid), tid)->comm, comm);
}

/* The same thread ids in two processes, and more than the limit. */
static void test_ids(void **state)
{
	for (uint32_t i = 1; i <= CNT; i++) {
		name_it(1, i, 0);
		name_it(2, i, 0);
	}
	for (uint32_t i = 1; i <= CNT; i++) {
		has_name(1, i, 0);
		has_name(2, i, 0);
		has_name(2, 1 + i % 3 * 64, 0);
	}
}

static void test_again(void **state)
{
	for (int turn = 0; turn < 3; turn++) {
		struct proc *p;

		for (uint32_t pid = 1; pid <= CNT; pid++)
			name_it(pid, 7, turn);
		for (uint32_t pid = 1; pid <= CNT; pid++)
			has_name(pid, 7, turn);
		/* Another program: its threads have no names yet. */
		p = procs__find(&ps, CNT);
		procs__renew(&ps, p);
		assert_string_equal(proc__thread(&ps, p, 7)->comm, "");
		for (uint32_t pid = 1; pid <= CNT; pid++) {
			procs__remove(&ps, procs__find(&ps, pid));
			assert_null(procs__find(&ps, pid));
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_ids, setup, teardown),
		cmocka_unit_test_setup_teardown(test_again, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
