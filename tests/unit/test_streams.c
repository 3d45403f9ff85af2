/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The report's analysis of streams and events. */
#include "memory_check.h"
#include "report/time/idle.h"
#include "report/gpu/streams.h"

static void ask(const char *symbol, const char *args)
{
	struct trace_event ev = begin(symbol);

	call_args(&ev, "%s", args);
}

static void idle_is(uint64_t count)
{
	struct idle_result d;

	idle_result(r, &d);
	assert_int_equal(d.count, count);
}

static void of_event(const char *symbol, uint64_t event, int32_t result)
{
	struct trace_event ev = factory_call(&f, symbol, 500, 1000);

	ev.has = HAS_CU_EVENT;
	ev.cu_event = event;
	ev.result = result;
	send(&ev);
}

static void launch_on(uint64_t stream)
{
	struct trace_event ev = factory_launch(&f, "k", stream);

	send(&ev);
}

static void copy_on(uint64_t stream, uint64_t size)
{
	struct trace_event ev = factory_copy(&f, "cuMemcpyHtoDAsync_v2", COPY_DIR_HTOD, size, 1000);

	ev.has |= HAS_STREAM;
	ev.stream = stream;
	send(&ev);
}

/* The side stream's work is done when the stream that waited for it is done. Depths: 1, 2 on both;
 * then 1 each. */
static void test_edges_and_depth(void **state)
{
	on("cuStreamCreate", 0xa, "'phStream':'0xa','Flags':'CU_STREAM_NON_BLOCKING'");
	on("cuStreamCreateWithPriority", 0xb,
	   "'phStream':'0xb','flags':'CU_STREAM_DEFAULT','priority':-3");
	copy_on(0xa, 300);
	launch_on(0xa);
	with_event("cuEventRecord", 0xa, 0xe1);
	with_event("cuStreamWaitEvent", 0xb, 0xe1);
	launch_on(0xb);
	launch_on(0xb);
	on("cuStreamSynchronize", 0xb, "");
	launch_on(0xa);
	launch_on(0xb);
	finish();
	check_json("{'stream':'0xa','pid':100,'default':false,'created_ts':0.000500,'flags':1,"
		   "'launches':2,'transfers':1,'bytes':300,'syncs':0,'sync_ns':0,'max_depth':2,"
		   "'mean_depth':1.33333,'events_recorded':1,'events_waited':0}");
	check_json("'flags':0,'priority':-3,'launches':3,'transfers':0,'bytes':0,'syncs':1,"
		   "'sync_ns':1000,'max_depth':2,'mean_depth':1.33333,'events_recorded':0,"
		   "'events_waited':1}");
	check_json("'edges':[{'from':'0xa','to':'0xb','pid':100,'count':1}]");
	check_json("'default_stream':{'launches':0,'share':0,'switches':0,'serialising':false,");
}

/* A reused handle is another stream; events keep what was recorded at which time. */
static void test_events_and_handles(void **state)
{
	on("cuStreamCreate", 0xa, "'phStream':'0xa','Flags':'CU_STREAM_NON_BLOCKING'");
	launch_on(0xa);
	with_event("cuEventRecord", 0xa, 0xe1);
	launch_on(0xa);
	launch_on(0xa);
	of_event("cuEventQuery", 0xe1, 600); /* not ready */
	launch_on(0xa);			     /* 4 deep */
	of_event("cuEventSynchronize", 0xe1, 0);
	launch_on(0xa); /* 5 submitted, 1 done */
	on("cuStreamDestroy_v2", 0xa, "");
	of_event("cuEventCreate", 0xe1, 0); /* a new one: recorded nowhere */
	on("cuStreamCreate", 0xa, "'phStream':'0xa','Flags':'CU_STREAM_NON_BLOCKING'");
	with_event("cuStreamWaitEvent", 0xa, 0xe1);
	launch_on(0xa);
	finish();
	check_json("'launches':5,'transfers':0,'bytes':0,'syncs':0,'sync_ns':0,'max_depth':4,"
		   "'mean_depth':2.8,'events_recorded':1,'events_waited':0}");
	check_json("'launches':1,'transfers':0,'bytes':0,'syncs':0,'sync_ns':0,'max_depth':1,"
		   "'mean_depth':1,'events_recorded':0,'events_waited':1}],'edges':[]");
}

static void test_captured(void **state)
{
	struct trace_event ev;

	on("cuStreamBeginCapture_v2", 0xa, "");
	ev = factory_launch(&f, "k", 0xa);
	ev.capturing = true;
	send(&ev);
	copy_on(0xa, 300);
	with_event("cuEventRecord", 0xa, 0xe1);
	with_event("cuStreamWaitEvent", 0xb, 0xe1);
	copy_on(0xb, 300);
	on("cuStreamEndCapture", 0xa, "'phGraph':'0xa0'");
	copy_on(0xa, 70);
	finish();
	check_json("'streams':{'count':1,'list':[{'stream':'0xa','pid':100,'default':false,"
		   "'launches':0,'transfers':1,'bytes':70,");
	check_json("'edges':[]");
}

static void switches(const char *flags, uint64_t want)
{
	struct streams_result s;
	char args[64];

	snprintf(args, sizeof(args), "'phStream':'0xa','Flags':'%s'", flags);
	on("cuStreamCreate", 0xa, args);
	for (int i = 0; i < 6; i++) {
		launch_on(0);
		launch_on(0xa);
		launch_on(0xa);
	}
	finish();
	streams_result(r, &s);
	assert_int_equal(s.switches, want);
	assert_int_equal(s.default_work, 6);
	assert_int_equal(s.work, 18);
}

static void test_default_stream(void **state)
{
	switches("CU_STREAM_DEFAULT", 11);
	check_json("'default_stream':{'launches':6,'share':0.333333,'switches':11,"
		   "'serialising':true,");
	check_json("{'id':'default-stream',");
}

static void test_default_stream_beside(void **state)
{
	char *s;

	switches("CU_STREAM_NON_BLOCKING", 0);
	check_json("'serialising':false");
	s = json_of();
	assert_null(strstr(s, "default-stream"));
	free(s);
}

/* Each thread's own default stream is separate, and differs from the legacy one. */
static void test_per_thread(void **state)
{
	struct trace_event ev;

	for (uint32_t tid = 100; tid < 102; tid++) {
		ev = factory_on_stream(&f, "cuLaunchKernel_ptsz", 0, 1000);
		ev.has |= HAS_LAUNCH;
		ev.tid = tid;
		send(&ev);
	}
	finish();
	check_json("{'stream':'0x2','pid':100,'tid':100,'default':true,'launches':1,");
	check_json("{'stream':'0x2','pid':100,'tid':101,'default':true,'launches':1,");
	check_json("'default_stream':{'launches':0,");
}

static void two_contexts(void)
{
	ask("cuCtxCreate_v2", "'pctx':'0xa0','dev':0");
	on("cuStreamCreate", 0x10, "'phStream':'0x10'");
	ask("cuCtxCreate_v2", "'pctx':'0xa1','dev':1");
	launch_on(0x11);
	launch_on(0);
	ask("cuCtxSetCurrent", "'ctx':'0xa0'");
	launch_on(0x10);
	launch_on(0);
}

/* cuCtxSynchronize waits for the thread's context: another device may be busy. */
static void test_context(void **state)
{
	two_contexts();
	ask("cuCtxSynchronize", "");
	launch_on(0x10); /* 1 deep; 0x11 is busy: not idle */
	idle_is(0);
	ask("cuCtxSynchronize", "");
	ask("cuCtxSynchronize_v2", "'ctx':'0xa1'");
	launch_on(0x10);
	idle_is(1);
	launch_on(0x11);
	finish();
	check_json("{'stream':'0x10','pid':100,'default':false,'created_ts':0.003500,'launches':3,"
		   "'transfers':0,'bytes':0,'syncs':0,'sync_ns':0,'max_depth':1,");
	check_json("{'stream':'0x11','pid':100,'default':false,'launches':2,'transfers':0,"
		   "'bytes':0,'syncs':0,'sync_ns':0,'max_depth':1,");
	check_json("{'stream':'0x0','pid':100,'default':true,'context':'0xa0','launches':1,");
	check_json("{'stream':'0x0','pid':100,'default':true,'context':'0xa1','launches':1,");
}

/* The context of a thread that has set none is unknown. */
static void test_context_unknown(void **state)
{
	two_contexts();
	f.tid++;
	ask("cuCtxSynchronize", "");
	ask("cuStreamSynchronize", "'hStream':'0x0'");
	launch_on(0x10);
	idle_is(0);
	finish();
	check_json("{'stream':'0x10','pid':100,'default':false,'created_ts':0.003500,'launches':2,"
		   "'transfers':0,'bytes':0,'syncs':0,'sync_ns':0,'max_depth':2,");
}

/* A process whose start was not traced: no context is known, which counts as one. */
static void test_context_not_seen(void **state)
{
	launch_on(0x10);
	launch_on(0x11);
	ask("cuCtxSynchronize", "");
	launch_on(0x10);
	finish();
	idle_is(1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_edges_and_depth),
		TEST(test_events_and_handles),
		TEST(test_captured),
		TEST(test_default_stream),
		TEST(test_default_stream_beside),
		TEST(test_per_thread),
		TEST(test_context),
		TEST(test_context_unknown),
		TEST(test_context_not_seen),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
