/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Work that is not known to have completed: the suspects of a fault. */
#include "failure_check.h"

static void test_stream_wait(void **state)
{
	start();
	launch("a", 0x10);
	launch("b", 0x20);
	sync_stream(0x10);
	launch("c", 0x10);
	error(CUDA_ERROR_ILLEGAL_ADDRESS);
	suspects("b c", false);
}

static void test_only_suspect(void **state)
{
	start();
	launch("a", 0x10);
	ctx_sync();
	launch("b", 0x10);
	error(CUDA_ERROR_ILLEGAL_ADDRESS);
	error(CUDA_ERROR_ILLEGAL_ADDRESS); /* follows from the first */
	suspects("b", true);
	assert_int_equal(failures()->cases[0].cnt, 2);
}

/* A trace that begins late knows nothing about earlier work until a wait for the whole context. */
static void test_late_start(void **state)
{
	launch("a", 0x10);
	error(CUDA_ERROR_ILLEGAL_ADDRESS);
	suspects("a", false);
	assert_true(failures()->cases[0].partial);
}

static void test_event_wait(void **state)
{
	start();
	launch("a", 0x10);
	with_event("cuEventRecord", 0x10, 0xe1);
	launch("b", 0x10);
	of_event("cuEventSynchronize", 0xe1);
	error(CUDA_ERROR_LAUNCH_FAILED);
	suspects("b", true);
}

/* 0x20 waited for a: when c is done, so is a, but not b. */
static void test_wait_between_streams(void **state)
{
	start();
	launch("a", 0x10);
	with_event("cuEventRecord", 0x10, 0xe1);
	launch("b", 0x10);
	with_event("cuStreamWaitEvent", 0x20, 0xe1);
	launch("c", 0x20);
	sync_stream(0x20);
	error(CUDA_ERROR_ASSERT);
	suspects("b", true);
}

static void test_legacy_stream(void **state)
{
	start();
	stream(0x10, "CU_STREAM_DEFAULT");
	stream(0x20, "CU_STREAM_NON_BLOCKING");
	launch("blocking", 0x10);
	launch("free", 0x20);
	launch("legacy", 0);
	launch("later", 0x10);
	sync_stream(0);
	error(CUDA_ERROR_ASSERT);
	/* A wait for the legacy stream waits for all blocking streams. */
	suspects("free", true);
}

/* Work of a blocking stream waits for earlier work of the legacy stream. */
static void test_after_legacy_stream(void **state)
{
	start();
	stream(0x10, "CU_STREAM_DEFAULT");
	launch("legacy", 0);
	launch("blocking", 0x10);
	launch("legacy again", 0);
	sync_stream(0x10);
	error(CUDA_ERROR_ASSERT);
	suspects("legacy again", true);
}

static void test_copies(void **state)
{
	struct trace_event ev;

	start();
	launch("a", 0);
	copy("cuMemcpyHtoD_v2", COPY_DIR_HTOD, 65536, "");
	launch("b", 0);
	copy("cuMemcpyDtoH_v2", COPY_DIR_DTOH, 4, "");
	launch("c", 0);
	ev = factory_copy(&f, "cuMemcpyHtoDAsync_v2", COPY_DIR_HTOD, 4, 1000);
	ev.has |= HAS_STREAM;
	send(&ev);
	error(CUDA_ERROR_ILLEGAL_ADDRESS);
	suspects("c cuMemcpyHtoDAsync", false);
}

/* A copy executes no code. */
static void test_copy_cannot_assert(void **state)
{
	struct trace_event ev;

	start();
	launch("a", 0);
	copy("cuMemcpyHtoD_v2", COPY_DIR_HTOD, 65536, "");
	ev = factory_copy(&f, "cuMemcpyHtoDAsync_v2", COPY_DIR_HTOD, 4, 1000);
	send(&ev);
	error(CUDA_ERROR_ASSERT);
	suspects("a", true);
}

/* Another thread submits while this one waits. */
static void test_submitted_meanwhile(void **state)
{
	struct trace_event wait, ev;

	start();
	launch("a", 0x10);
	wait = factory_sync(&f, 0x10);
	wait.end_ns += 100000;
	f.now_ns = wait.start_ns + 10000;
	f.tid++;
	ev = factory_launch(&f, "b", 0x10);
	send(&ev);
	f.tid--;
	f.now_ns = wait.end_ns;
	send(&wait);
	error(CUDA_ERROR_ASSERT);
	suspects("b", true);
}

static void gpu_record(uint64_t call_id, uint64_t end_ns)
{
	struct trace_event ev = {.kind = EVENT_GPU, .type = TYPE_GPU, .op = "kernel", .name = "k"};

	ev.pid = ev.tid = f.pid;
	ev.start_ns = end_ns - 100;
	ev.end_ns = end_ns;
	ev.gpu.call_id = call_id;
	send(&ev);
}

static void test_gpu_records(void **state)
{
	uint64_t a, b;

	start();
	a = launch("a", 0x10);
	b = launch("b", 0x10);
	launch("c", 0x10);
	gpu_record(a, f.now_ns);
	error(CUDA_ERROR_ASSERT);
	/* Records may come after the error. */
	gpu_record(b, failures()->cases[0].at_ns);
	suspects("c", true);
}

/* They may be of more launches than a failure lists. */
static void test_many_gpu_records(void **state)
{
	const struct fail_case *c = &failures()->cases[0];
	uint64_t ids[3 * SUSPECTS_MAX];

	start();
	for (unsigned i = 0; i < 3 * SUSPECTS_MAX; i++)
		ids[i] = launch("k", 0x10);
	launch("last", 0x10);
	error(CUDA_ERROR_ASSERT);
	for (unsigned i = 0; i < 2 * SUSPECTS_MAX; i++)
		gpu_record(ids[i], c->at_ns);
	assert_int_equal(c->suspect_cnt, SUSPECTS_MAX + 1);
	assert_int_equal(c->listed_cnt, SUSPECTS_MAX);
	for (unsigned i = 2 * SUSPECTS_MAX; i < 3 * SUSPECTS_MAX; i++)
		gpu_record(ids[i], c->at_ns);
	suspects("last", true);
}

/* The oldest unfinished work of a stream is kept, whatever other streams submit. */
static void test_many(void **state)
{
	start();
	launch("stuck", 0x10);
	for (unsigned i = 0; i < 3 * INFLIGHT_MAX; i++)
		launch("k", 0x20);
	sync_stream(0x20);
	error(CUDA_ERROR_ASSERT);
	suspects("stuck", true);
}

static void test_too_many(void **state)
{
	const struct fail_case *c = &failures()->cases[0];

	start();
	launch("first", 0x10);
	for (unsigned i = 0; i < 2 * INFLIGHT_MAX; i++)
		launch("k", 0x10);
	error(CUDA_ERROR_ASSERT);
	finish();
	assert_string_equal(c->suspects[0].kernel, "first");
	assert_int_equal(c->suspect_cnt, INFLIGHT_MAX + 1);
	assert_true(c->partial && !c->certain);
}

static void test_many_streams(void **state)
{
	start();
	for (unsigned i = 0; i < 2 * INFLIGHT_STREAMS_MAX + 10; i++)
		launch("k", 0x1000 + i);
	ctx_sync();
	launch("last", 0x1000);
	error(CUDA_ERROR_ASSERT);
	suspects("last", false);
	assert_true(failures()->cases[0].partial);
}

/* Random hostile calls: no crash, and each suspect is unfinished. */
static void test_hostile(void **state)
{
	static const char *const symbols[] = {
		"cuLaunchKernel",    "cuStreamSynchronize",    "cuEventRecord",
		"cuStreamWaitEvent", "cuEventSynchronize",     "cuEventQuery",
		"cuStreamCreate",    "cuStreamDestroy_v2",     "cuStreamQuery",
		"cuCtxSynchronize",  "cuEventDestroy_v2",      "cuMemcpyDtoH_v2",
		"cuLaunchHostFunc",  "cuStreamWaitValue32_v2", "cuMemFree_v2"};
	uint64_t x = 42;

	for (unsigned i = 0; i < 200000; i++) {
		struct trace_event ev;

		x = x * 6364136223846793005ull + 1442695040888963407ull;
		ev = begin(symbols[(x >> 33) % (sizeof(symbols) / sizeof(symbols[0]))]);
		ev.has = x >> 40 & (HAS_STREAM | HAS_CU_EVENT | HAS_SIZE | HAS_PTR);
		ev.stream = x >> 50 & 7;
		ev.cu_event = x >> 53 & 7;
		ev.size = x;
		ev.ptr = x >> 12;
		ev.pid += x >> 60 & 1;
		ev.tid += x >> 58 & 3;
		ev.result = (x >> 20) % 1000 ? 0 : CUDA_ERROR_ASSERT;
		ev.is_error = ev.result;
		ev.unfinished = !((x >> 10) % 5000);
		send(&ev);
	}
	finish();
	assert_in_range(failures()->cnt, 1, CASES_MAX);
	free(json_of());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_stream_wait),
		TEST(test_only_suspect),
		TEST(test_late_start),
		TEST(test_event_wait),
		TEST(test_wait_between_streams),
		TEST(test_legacy_stream),
		TEST(test_after_legacy_stream),
		TEST(test_copies),
		TEST(test_copy_cannot_assert),
		TEST(test_submitted_meanwhile),
		TEST(test_gpu_records),
		TEST(test_many_gpu_records),
		TEST(test_many),
		TEST(test_too_many),
		TEST(test_many_streams),
		TEST(test_hostile),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
