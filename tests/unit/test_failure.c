/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Explained failures: Xids and memory at their address, hangs, holders of memory. */
#include "failure_check.h"

#include <time.h>
#include "findings_check.h"

static void xid(uint32_t number, const char *message)
{
	struct trace_event ev = {.kind = EVENT_XID, .type = TYPE_XID, .op = "xid", .name = "xid"};

	ev.start_ns = ev.end_ns = f.now_ns;
	ev.xid.xid = number;
	ev.xid.gpu = "PCI:0000:3b:00";
	ev.xid.message = message;
	send(&ev);
}

#define FAULT_AT(pid, address)                                                                     \
	"pid=" pid ", name=python3, Ch 00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS GPC0 "  \
	"GPCCLIENT_T1_0 faulted @ " address ". Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_WRITE"

static void fault_is_in(const char *message, enum memory_state state, uint64_t offset,
			const char *text)
{
	const struct fail_case *c = &failures()->cases[0];

	xid(31, message);
	error(CUDA_ERROR_ILLEGAL_ADDRESS);
	finish();
	assert_int_equal(failures()->cnt, 1);
	assert_true(c->has_xid);
	assert_int_equal(c->xid.number, 31);
	assert_string_equal(c->xid.access, "write");
	assert_int_equal(c->mem.state, state);
	assert_int_equal(c->mem.offset, offset);
	if (!strstr(c->verdict, text))
		fail_msg("no \"%s\" in \"%s\"", text, c->verdict);
}

static void test_freed(void **state)
{
	start();
	alloc("cuMemAlloc_v2", 0x7f055e000000, 64 * MIB);
	alloc("cuMemAlloc_v2", 0x7f0550000000, MIB);
	release("cuMemFree_v2", 0x7f055e000000);
	launch("after_free(float*)", 0x10);
	fault_is_in(FAULT_AT("100", "0x7f05_5e400000"), MEMORY_FREED, 4 * MIB,
		    "which cuMemFree freed");
	assert_true(failures()->cases[0].certain);
}

static void test_past_end(void **state)
{
	start();
	alloc("cuMemAlloc_v2", 0x7f0550000000, MIB);
	launch("k", 0x10);
	fault_is_in(FAULT_AT("100", "0x7f05_50100004"), MEMORY_PAST_END, 4,
		    "4 B past the end of a block of 1.00 MiB of cuMemAlloc");
}

static void test_far_past_end(void **state)
{
	start();
	alloc("cuMemAlloc_v2", 0x7f0550000000, MIB);
	launch("k", 0x10);
	fault_is_in(FAULT_AT("100", "0x7f05_90100000"), MEMORY_PAST_END, 1024 * MIB,
		    "1.00 GiB past the end");
}

static void test_null(void **state)
{
	start();
	alloc("cuMemAlloc_v2", 0x7f0550000000, MIB);
	launch("k", 0x10);
	fault_is_in(FAULT_AT("100", "0x0_00000008"), MEMORY_NULL, 0, "null pointer");
}

static void test_no_access(void **state)
{
	start();
	alloc("cuMemAlloc_v2", 0x7f0550000000, MIB);
	launch("k", 0x10);
	fault_is_in(FAULT_AT("100", "0x7f05_50000010"), MEMORY_LIVE, 16, "has no access to it");
}

static void test_never_mapped(void **state)
{
	start();
	launch("k", 0x10);
	fault_is_in(FAULT_AT("100", "0x7f05_50000010"), MEMORY_NEVER, 0, "no block of memory near");
}

/* The driver may report the fault after the call has failed. */
static void test_late_xid(void **state)
{
	start();
	launch("k", 0x10);
	error(CUDA_ERROR_ILLEGAL_ADDRESS);
	xid(31, FAULT_AT("100", "0x0_00000000"));
	finish();
	assert_int_equal(failures()->cases[0].mem.state, MEMORY_NULL);
}

static void test_xid_of_others(void **state)
{
	start();
	launch("k", 0x10);
	xid(31, FAULT_AT("999", "0x7f05_50000010"));
	error(CUDA_ERROR_ILLEGAL_ADDRESS);
	finish();
	assert_int_equal(failures()->cnt, 1);
	assert_false(failures()->cases[0].has_xid);
}

/* The hardware is at fault: the kernel is not accused. */
static void test_xid_of_hardware(void **state)
{
	start();
	launch("k", 0x10);
	xid(48, "DBE (double bit error) ECC Error");
	error(CUDA_ERROR_ECC_UNCORRECTABLE);
	xid(79, "GPU has fallen off the bus.");
	finish();
	assert_int_equal(failures()->cnt, 1);
	assert_false(failures()->cases[0].certain);
}

static void test_xid_alone(void **state)
{
	start();
	xid(79, "GPU has fallen off the bus.");
	finish();
	assert_int_equal(failures()->cnt, 1);
	assert_int_equal(failures()->cases[0].kind, CASE_XID);
	assert_non_null(strstr(failures()->cases[0].verdict, "the hardware is at fault"));
}

static void test_xid_messages(void **state)
{
	struct fail_xid x = {0};

	xid_parse(&x, NULL);
	xid_parse(&x, "pid=99999999999999999999, faulted @ 0x");
	assert_false(x.pid || x.has_address);
	xid_parse(&x, "pid='<unknown>', faulted @ 0xffffffffffffffff1");
	assert_false(x.pid || x.has_address);
	xid_parse(&x, "pid='77', faulted @ 0x7F05_5e400000 ACCESS_TYPE_VIRT_READ");
	assert_int_equal(x.pid, 77);
	assert_int_equal(x.address, 0x7f055e400000);
	assert_string_equal(x.access, "read");
}

static void unfinished(const char *symbol, unsigned has, uint64_t stream, uint64_t event)
{
	struct trace_event ev = factory_call(&f, symbol, 500, 5000000000);

	ev.has = has;
	ev.stream = stream;
	ev.cu_event = event;
	ev.unfinished = true;
	send(&ev);
}

/* The stream waits for another one: the work there is named. */
static void test_hang(void **state)
{
	start();
	launch("done", 0x10);
	ctx_sync();
	launch("spins", 0x20);
	with_event("cuEventRecord", 0x20, 0xe1);
	with_event("cuStreamWaitEvent", 0x10, 0xe1);
	launch("waits", 0x10);
	launch("waits, too", 0x10);
	unfinished("cuStreamSynchronize", HAS_STREAM, 0x10, 0);
	suspects("spins waits waits, too", false);
	assert_int_equal(failures()->cases[0].behind, 2);
}

/* Nothing else can run. */
static void test_hang_of_one(void **state)
{
	start();
	launch("done", 0x10);
	ctx_sync();
	launch("spins", 0x10);
	unfinished("cuCtxSynchronize", 0, 0, 0);
	suspects("spins", true);
}

/* Each stream's first work counts once, and so does what waits behind it, however many there are.
 */
static void test_hang_of_many_streams(void **state)
{
	const struct fail_case *c = &failures()->cases[0];

	start();
	ctx_sync();
	for (unsigned i = 0; i < 2 * SUSPECTS_MAX; i++) {
		launch("first", 0x100 + i);
		launch("second", 0x100 + i);
	}
	unfinished("cuCtxSynchronize", 0, 0, 0);
	finish();
	assert_int_equal(c->suspect_cnt, 4 * SUSPECTS_MAX);
	assert_int_equal(c->behind, 2 * SUSPECTS_MAX);
	assert_int_equal(c->listed_cnt, SUSPECTS_MAX);
	assert_non_null(strstr(c->verdict, "each of 16 streams"));
}

/* Several streams wait for one work that is not listed any more. */
static void test_hang_behind_one(void **state)
{
	const struct fail_case *c = &failures()->cases[0];

	start();
	ctx_sync();
	for (unsigned i = 0; i <= SUSPECTS_MAX; i++)
		launch("first", 0x100 + i);
	with_event("cuEventRecord", 0x100 + SUSPECTS_MAX, 0xe1);
	for (unsigned i = 0; i < 4; i++) {
		with_event("cuStreamWaitEvent", 0x200 + i, 0xe1);
		launch("waits", 0x200 + i);
	}
	unfinished("cuCtxSynchronize", 0, 0, 0);
	finish();
	assert_int_equal(c->suspect_cnt, SUSPECTS_MAX + 1 + 4);
	assert_int_equal(c->behind, 4);
}

/* Each stream waits for the one before it: the search takes no time that anybody notices. */
static void test_hang_of_chain(void **state)
{
	clock_t began;

	start();
	ctx_sync();
	for (unsigned i = 0; i < INFLIGHT_STREAMS_MAX - 6; i++) {
		if (i)
			with_event("cuStreamWaitEvent", 0x100 + i, 0xe00 + i - 1);
		launch("k", 0x100 + i);
		with_event("cuEventRecord", 0x100 + i, 0xe00 + i);
	}
	for (unsigned i = 0; i < INFLIGHT_MAX + 1000; i++)
		launch("k", 0x100);
	began = clock();
	unfinished("cuCtxSynchronize", 0, 0, 0);
	assert_true(clock() - began < CLOCKS_PER_SEC);
	finish();
	assert_int_equal(failures()->cases[0].suspects[0].stream, 0);
}

static void test_hang_of_event(void **state)
{
	start();
	launch("k", 0x20);
	unfinished("cuEventSynchronize", HAS_CU_EVENT, 0, 0xe1);
	suspects("", false);
	assert_int_equal(failures()->cases[0].wait_event, 0xe1);
	assert_non_null(strstr(failures()->cases[0].verdict, "no record of"));
}

static void test_hang_of_value(void **state)
{
	start();
	on("cuStreamWaitValue32_v2", 0x10, "");
	launch("k", 0x10);
	unfinished("cuCtxSynchronize", 0, 0, 0);
	suspects("cuStreamWaitValue32 k", false);
	assert_non_null(strstr(failures()->cases[0].verdict, "waits for a value"));
}

/* Other waits were as long. */
static void test_no_hang(void **state)
{
	struct trace_event ev;

	start();
	launch("k", 0x10);
	ev = factory_sync(&f, 0x10);
	ev.end_ns += 1000000000;
	f.now_ns = ev.end_ns;
	send(&ev);
	launch("k", 0x10);
	unfinished("cuCtxSynchronize", 0, 0, 0);
	finish();
	assert_int_equal(failures()->cnt, 0);
	check_json("'failure':[]");
}

static void test_out_of_memory(void **state)
{
	const struct fail_case *c = &failures()->cases[0];
	struct trace_event ev;

	start();
	alloc("cuMemAlloc_v2", 0x7f0000000000, 64 * MIB);
	alloc("cuMemAlloc_v2", 0x7f0010000000, 32 * MIB);
	alloc("cuMemAlloc_v2", 0x7f0020000000, 16 * MIB);
	release("cuMemFree_v2", 0x7f0020000000);
	ev = begin("cuMemAlloc_v2");
	ev.has = HAS_SIZE;
	ev.size = 128 * MIB;
	ev.result = CUDA_ERROR_OUT_OF_MEMORY;
	ev.is_error = true;
	send(&ev);
	release("cuMemFree_v2", 0x7f0000000000);
	loses("out-of-memory", 0);
	says("out-of-memory",
	     "cuMemAlloc requested 128 MiB, and less was free. The process held 96.0 MiB in 2 "
	     "blocks. 1 call failed for this reason.");
	assert_int_equal(failures()->cnt, 1);
	assert_int_equal(c->kind, CASE_OOM);
	assert_int_equal(c->requested, 128 * MIB);
	assert_int_equal(c->held, 96 * MIB);
	assert_int_equal(c->holder_cnt, 1);
	assert_int_equal(c->holders[0].cnt, 2);
	assert_int_equal(c->holders[0].largest, 64 * MIB);
}

/* PyTorch's allocator gives its cache back and tries again. */
static void test_oom_retried(void **state)
{
	struct trace_event ev;

	start();
	alloc("cuMemAlloc_v2", 0x7f0000000000, 64 * MIB);
	ev = begin("cuMemAlloc_v2");
	ev.has = HAS_SIZE;
	ev.size = 128 * MIB;
	ev.result = CUDA_ERROR_OUT_OF_MEMORY;
	ev.is_error = true;
	send(&ev);
	release("cuMemFree_v2", 0x7f0000000000);
	alloc("cuMemAlloc_v2", 0x7f0000000000, 128 * MIB);
	finds_no("out-of-memory");
	assert_int_equal(failures()->cnt, 0);
}

/* A larger cache is a wish. */
static void test_oom_without_it(void **state)
{
	struct trace_event ev;

	start();
	alloc("cuMemAlloc_v2", 0x7f0000000000, 64 * MIB);
	ev = begin("cuMemAlloc_v2");
	ev.has = HAS_SIZE;
	ev.size = 128 * MIB;
	ev.result = CUDA_ERROR_OUT_OF_MEMORY;
	ev.is_error = true;
	send(&ev);
	launch("k", 0x10);
	finds_no("out-of-memory");
}

static void exhaust(uint64_t size)
{
	struct trace_event ev = begin("cuMemAlloc_v2");

	ev.has = HAS_SIZE;
	ev.size = size;
	ev.result = CUDA_ERROR_OUT_OF_MEMORY;
	ev.is_error = true;
	send(&ev);
}

/* The first failure was not the end: the verdict is on the one after which nothing was got. */
static void test_oom_after_retried(void **state)
{
	const struct fail_case *c = &failures()->cases[0];

	start();
	exhaust(1 * MIB);
	alloc("cuMemAlloc_v2", 0x7f0000000000, 1 * MIB);
	exhaust(512 * MIB);
	alloc("cuMemAlloc_v2", 0x7f0010000000, 2 * MIB);
	finish();
	assert_int_equal(failures()->cnt, 1);
	assert_int_equal(c->requested, 512 * MIB);
	assert_int_equal(c->held, 1 * MIB);
	assert_int_equal(c->cnt, 1);
}

/* A smaller block than the largest request that failed does not undo that. */
static void test_oom_of_larger(void **state)
{
	const struct fail_case *c = &failures()->cases[0];

	start();
	exhaust(1 * MIB);
	exhaust(512 * MIB);
	alloc("cuMemAlloc_v2", 0x7f0000000000, 1 * MIB);
	finish();
	assert_int_equal(failures()->cnt, 1);
	assert_int_equal(c->requested, 1 * MIB);
	assert_int_equal(c->cnt, 2);
}

static void test_finding(void **state)
{
	start();
	launch("a", 0x10);
	launch("b", 0x20);
	error(CUDA_ERROR_ILLEGAL_ADDRESS);
	error(CUDA_ERROR_ILLEGAL_ADDRESS);
	loses("gpu-fault", 0);
	says("gpu-fault",
	     "cuCtxSynchronize returned CUDA_ERROR_ILLEGAL_ADDRESS, and 2 calls failed for this "
	     "reason. 2 submissions had not completed");
}

/* Errors after which a context is usable. */
static void test_healthy(void **state)
{
	start();
	launch("k", 0x10);
	error(CUDA_ERROR_INVALID_VALUE);
	error(CUDA_ERROR_DEINITIALIZED);
	ctx_sync();
	process("exit");
	finds_no("gpu-fault");
	assert_int_equal(failures()->cnt, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_freed),	    TEST(test_past_end),
		TEST(test_far_past_end),    TEST(test_null),
		TEST(test_no_access),	    TEST(test_never_mapped),
		TEST(test_late_xid),	    TEST(test_xid_of_others),
		TEST(test_xid_of_hardware), TEST(test_xid_alone),
		TEST(test_xid_messages),    TEST(test_hang),
		TEST(test_hang_of_one),	    TEST(test_hang_of_event),
		TEST(test_hang_of_value),   TEST(test_no_hang),
		TEST(test_out_of_memory),   TEST(test_finding),
		TEST(test_healthy),	    TEST(test_oom_retried),
		TEST(test_oom_without_it),  TEST(test_oom_after_retried),
		TEST(test_oom_of_larger),   TEST(test_hang_of_many_streams),
		TEST(test_hang_behind_one), TEST(test_hang_of_chain),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
