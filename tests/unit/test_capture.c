/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Streams that capture, and how a capture spreads. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "model/capture.h"

static uint32_t tid = 1;
static uint64_t ids;

/* A successful call, as in a saved trace. */
static struct trace_event does(struct capture_set *c, const char *symbol, uint64_t stream,
			       uint64_t event, const char *args)
{
	struct event_text text = {.args = args, .args_len = strlen(args)};
	struct trace_event ev = {.kind = EVENT_CALL, .fn = api_fn_by_symbol(symbol), .tid = tid};

	assert_non_null(ev.fn);
	ev.name = ev.fn->name;
	ev.text = &text;
	ev.id = ++ids;
	ev.stream = stream;
	ev.cu_event = event;
	ev.has = HAS_STREAM | (event ? HAS_CU_EVENT : 0);
	capture_set__event(c, &ev);
	return ev;
}

static void capture_set__begin(struct capture_set *c, uint64_t stream)
{
	struct trace_event ev = does(c, "cuStreamBeginCapture_v2", stream, 0, "");

	assert_int_equal(ev.capture, ev.id);
}

static void capture_set__end(struct capture_set *c, uint64_t stream)
{
	does(c, "cuStreamEndCapture", stream, 0, "");
}

static void capture_set__record(struct capture_set *c, uint64_t event, uint64_t stream)
{
	does(c, "cuEventRecord", stream, event, "");
}

static void capture_set__wait(struct capture_set *c, uint64_t stream, uint64_t event)
{
	does(c, "cuStreamWaitEvent", stream, event, "\"Flags\":0");
}

static bool capture_set__has(struct capture_set *c, uint64_t stream)
{
	return does(c, "cuLaunchKernel", stream, 0, "").capturing;
}

static void test_one(void **state)
{
	struct capture_set c = {0};

	assert_false(capture_set__has(&c, 1));
	capture_set__end(&c, 1);
	capture_set__begin(&c, 1);
	capture_set__begin(&c, 1);
	assert_true(capture_set__has(&c, 1));
	assert_false(capture_set__has(&c, 2));
	capture_set__end(&c, 2);
	assert_true(capture_set__has(&c, 1));
	capture_set__end(&c, 1);
	assert_false(capture_set__has(&c, 1));
	/* The default stream of a thread may capture: its handle is 0. */
	capture_set__begin(&c, 0);
	assert_true(capture_set__has(&c, 0));
	capture_set__clear(&c);
	assert_false(capture_set__has(&c, 0));
	capture_set__clear(&c);
}

static void test_spread(void **state)
{
	struct capture_set c = {0};

	capture_set__begin(&c, 1);
	/* Fork: 2 waits for an event recorded on 1, 3 for one recorded on 2. */
	capture_set__record(&c, 100, 1);
	capture_set__wait(&c, 2, 100);
	assert_true(capture_set__has(&c, 2));
	capture_set__record(&c, 101, 2);
	capture_set__wait(&c, 3, 101);
	assert_true(capture_set__has(&c, 3));
	/* An event is not a stream. */
	assert_false(capture_set__has(&c, 100));
	/* Join: nothing changes. */
	capture_set__record(&c, 102, 3);
	capture_set__wait(&c, 1, 102);
	/* The capture ends with the stream on which it began, and with no other. */
	capture_set__end(&c, 2);
	assert_true(capture_set__has(&c, 2));
	capture_set__end(&c, 1);
	for (uint64_t s = 1; s <= 3; s++)
		assert_false(capture_set__has(&c, s));
	/* The events no longer belong to a capture. */
	capture_set__wait(&c, 2, 100);
	assert_false(capture_set__has(&c, 2));
	capture_set__clear(&c);
}

static void test_outside(void **state)
{
	struct capture_set c = {0};

	capture_set__begin(&c, 1);
	/* An event recorded outside of the capture, or never recorded, spreads nothing. */
	capture_set__record(&c, 100, 9);
	capture_set__wait(&c, 2, 100);
	capture_set__wait(&c, 2, 555);
	assert_false(capture_set__has(&c, 2));
	/* Recorded in the capture, then again outside of it. */
	capture_set__record(&c, 100, 1);
	capture_set__record(&c, 100, 9);
	capture_set__wait(&c, 2, 100);
	assert_false(capture_set__has(&c, 2));
	/* A handle may belong to a stream and to an event at once. */
	capture_set__record(&c, 1, 9);
	assert_true(capture_set__has(&c, 1));
	capture_set__clear(&c);
}

static void test_two(void **state)
{
	struct capture_set c = {0};

	capture_set__begin(&c, 1);
	capture_set__begin(&c, 2);
	capture_set__record(&c, 100, 1);
	capture_set__record(&c, 200, 2);
	capture_set__wait(&c, 3, 100);
	capture_set__wait(&c, 4, 200);
	/* Captures do not merge (the driver refuses it): the first one counts. */
	capture_set__wait(&c, 3, 200);
	capture_set__end(&c, 2);
	assert_true(capture_set__has(&c, 1));
	assert_true(capture_set__has(&c, 3));
	assert_false(capture_set__has(&c, 2));
	assert_false(capture_set__has(&c, 4));
	/* An event recorded in the other capture now belongs to that one. */
	capture_set__begin(&c, 2);
	capture_set__record(&c, 100, 2);
	capture_set__wait(&c, 5, 100);
	capture_set__end(&c, 1);
	assert_true(capture_set__has(&c, 5));
	capture_set__end(&c, 2);
	assert_false(capture_set__has(&c, 5));
	assert_int_equal(c.cnt, 0);
	capture_set__clear(&c);
}

/* Each thread has its own per-thread default stream. */
static void test_per_thread(void **state)
{
	static const struct {
		const char *begin, *launch, *end;
		uint64_t stream;
	} forms[] = {
		{"cuStreamBeginCapture_v2_ptsz", "cuLaunchKernel_ptsz", "cuStreamEndCapture_ptsz",
		 0},
		{"cuStreamBeginCapture_v2", "cuLaunchKernel", "cuStreamEndCapture",
		 CU_STREAM_PER_THREAD},
		{"cuStreamBeginCapture_v2_ptsz", "cuLaunchKernel_ptsz", "cuStreamEndCapture_ptsz",
		 CU_STREAM_PER_THREAD},
	};
	struct capture_set c = {0};
	uint64_t begun;

	for (unsigned i = 0; i < 3; i++) {
		begun = does(&c, forms[i].begin, forms[i].stream, 0, "").id;
		tid = 2;
		assert_false(does(&c, forms[i].launch, forms[i].stream, 0, "").capturing);
		assert_false(capture_set__has(&c, 0));
		does(&c, forms[i].end, forms[i].stream, 0, "");
		tid = 1;
		/* Both forms mean the same stream. */
		for (unsigned k = 0; k < 3; k++)
			assert_int_equal(does(&c, forms[k].launch, forms[k].stream, 0, "").capture,
					 begun);
		assert_false(capture_set__has(&c, 0));
		assert_int_equal(does(&c, forms[i].end, forms[i].stream, 0, "").capture, begun);
		assert_int_equal(c.cnt, 0);
	}
	/* Two threads capture at once. */
	begun = does(&c, forms[0].begin, 0, 0, "").id;
	tid = 2;
	assert_int_not_equal(does(&c, forms[0].begin, 0, 0, "").capture, begun);
	does(&c, forms[0].end, 0, 0, "");
	tid = 1;
	assert_int_equal(does(&c, forms[0].launch, 0, 0, "").capture, begun);
	capture_set__clear(&c);
}

/* Recorded for streams outside: a node, which spreads no capture. */
static void test_external(void **state)
{
	struct capture_set c = {0};

	capture_set__begin(&c, 1);
	assert_true(
		does(&c, "cuEventRecordWithFlags", 1, 100, "\"flags\":\"CU_EVENT_RECORD_EXTERNAL\"")
			.capture);
	capture_set__wait(&c, 2, 100);
	assert_false(capture_set__has(&c, 2));
	does(&c, "cuEventRecordWithFlags_ptsz", 1, 101, "\"flags\":1");
	capture_set__wait(&c, 2, 101);
	assert_false(capture_set__has(&c, 2));
	does(&c, "cuEventRecordWithFlags", 1, 102, "\"flags\":\"CU_EVENT_RECORD_DEFAULT\"");
	capture_set__wait(&c, 2, 102);
	assert_true(capture_set__has(&c, 2));
	capture_set__clear(&c);
}

/* Calls that become nodes, and calls that only concern the capture. */
static void test_nodes(void **state)
{
	static const char *const nodes[] = {"cuMemAllocAsync",	       "cuMemFreeAsync",
					    "cuMemAllocFromPoolAsync", "cuLaunchHostFunc",
					    "cuMemcpyHtoDAsync_v2",    "cuStreamWriteValue32_v2"};
	struct capture_set c = {0};

	for (unsigned i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++)
		assert_false(does(&c, nodes[i], 1, 0, "").capturing);
	capture_set__begin(&c, 1);
	for (unsigned i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++) {
		assert_true(does(&c, nodes[i], 1, 0, "").capturing);
		assert_false(does(&c, nodes[i], 2, 0, "").capturing);
	}
	assert_false(does(&c, "cuStreamQuery", 1, 0, "").capturing);
	assert_true(does(&c, "cuStreamQuery", 1, 0, "").capture);
	capture_set__clear(&c);
}

/* Captures that never end: their number is limited. */
static void test_many(void **state)
{
	struct capture_set c = {0};
	struct quotas q;

	quotas__init(&q, true, true);
	c.quota = &q.of[QUOTA_CAPTURES];
	for (uint64_t s = 1; s <= 10000; s++) {
		capture_set__begin(&c, s);
		capture_set__record(&c, s, s);
	}
	assert_int_equal(c.cnt, 4096);
	assert_true(c.quota->full_cnt > 0);
	assert_true(capture_set__has(&c, 1));
	for (uint64_t s = 1; s <= 10000; s++)
		capture_set__end(&c, s);
	assert_int_equal(c.cnt, 0);
	capture_set__begin(&c, 77);
	assert_true(capture_set__has(&c, 77));
	capture_set__clear(&c);
	assert_int_equal(c.quota->used, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one),	 cmocka_unit_test(test_spread),
		cmocka_unit_test(test_outside),	 cmocka_unit_test(test_two),
		cmocka_unit_test(test_many),	 cmocka_unit_test(test_per_thread),
		cmocka_unit_test(test_external), cmocka_unit_test(test_nodes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
