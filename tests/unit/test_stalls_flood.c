/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A process that forges records of --stalls: memory is limited, others have their half, and all is
 * released. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "model/stalls.h"
#include "random.h"

#define RECORDS 300000

static union {
	struct ct_rec rec;
	struct ct_stall_code code;
	struct ct_stall_source source;
	struct ct_stall_pcs pcs;
	char space[sizeof(struct ct_stall_code) + CT_STALL_PART_MAX];
} r;

static uint32_t any(uint32_t below)
{
	return rnd() % below;
}

/* A forged record for an arbitrary function; its sizes may be wrong. */
static void forge(struct proc_stalls *s)
{
	uint64_t function = any(4) ? any(100000) : any(3);

	memset(&r, 0xa5, sizeof(r));
	r.rec.size = any(8) ? sizeof(r) : sizeof(r.code) + any(CT_STALL_PART_MAX);
	switch (any(3)) {
	case 0:
		r.code.function = function;
		r.code.size = any(16) ? CT_STALL_CODE_MAX : any(UINT32_MAX);
		r.code.off = any(4) ? 0 : any(UINT32_MAX);
		r.code.len = any(4) ? CT_STALL_PART_MAX : any(UINT32_MAX);
		proc_stalls__add_code(s, &r.code);
		break;
	case 1:
		r.source.function = function;
		r.source.pc = any(UINT32_MAX);
		r.source.len = any(4) ? CT_STALL_FILE_MAX : any(UINT32_MAX);
		proc_stalls__add_source(s, &r.source);
		break;
	default:
		r.pcs.function = any(64) ? 1 : function;
		r.pcs.cnt = any(4) ? CT_STALL_ROWS_MAX : any(UINT32_MAX);
		for (unsigned i = 0; i < CT_STALL_ROWS_MAX; i++)
			r.pcs.rows[i] = (struct ct_stall_row){
				any(UINT32_MAX), any(CT_STALL_CNT + 1), any(UINT32_MAX)};
		proc_stalls__add_pcs(s, &r.pcs);
	}
}

static unsigned event_cnt;

static void on_event(void *ctx, const struct trace_event *ev)
{
	event_cnt++;
}

static void flood(void **state)
{
	const struct trace_event base = {.kind = EVENT_STALLS};
	struct proc_stalls *forger, *honest;
	struct ct_stalls sums = {.rec.size = sizeof(sums), .function = 1, .reasons = {100}};
	struct quotas quotas;
	struct quota *q;

	quotas__init(&quotas, false, false);
	quotas__with(&quotas, QUOTA_STALLS);
	q = quotas__get(&quotas, QUOTA_STALLS);
	forger = proc_stalls__new(q);
	assert_non_null(forger);
	for (unsigned i = 0; i < RECORDS; i++) {
		forge(forger);
		assert_true(q->used <= q->share);
	}
	assert_true(q->full_cnt > 0);
	proc_stalls__give(forger, &sums, &base, on_event, NULL);
	assert_true(event_cnt > 0);
	honest = proc_stalls__new(q);
	assert_non_null(honest);
	r.code = (struct ct_stall_code){
		.rec.size = sizeof(r), .function = 1, .size = CT_STALL_CODE_MAX, .len = 16};
	sums.function = 1;
	q->full_cnt = 0;
	proc_stalls__add_code(honest, &r.code);
	assert_int_equal(q->full_cnt, 0);
	proc_stalls__free(forger);
	proc_stalls__free(honest);
	assert_int_equal(q->used, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(flood)};

	return cmocka_run_group_tests_name("stalls_flood", tests, NULL, NULL);
}
