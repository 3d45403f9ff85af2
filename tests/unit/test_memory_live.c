/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The report's analysis of memory: where it lies and how long it lives. */
#include "memory_check.h"

#include <time.h>

static void map(uint64_t addr, uint64_t size, uint64_t handle)
{
	struct trace_event ev = begin("cuMemMap");

	ev.has = HAS_PTR | HAS_SIZE;
	ev.ptr = addr;
	ev.size = size;
	call_args(&ev, "'ptr':'0x%llx','size':%llu,'offset':0,'handle':'0x%llx','flags':0",
		  (unsigned long long)addr, (unsigned long long)size, (unsigned long long)handle);
}

static void unmap(uint64_t addr, uint64_t size)
{
	struct trace_event ev = begin("cuMemUnmap");

	ev.has = HAS_PTR | HAS_SIZE;
	ev.ptr = addr;
	ev.size = size;
	send(&ev);
}

static void create(uint64_t handle, uint64_t size, const char *type, int id)
{
	struct trace_event ev = begin("cuMemCreate");

	ev.has = HAS_PTR | HAS_SIZE;
	ev.ptr = handle;
	ev.size = size;
	call_args(&ev,
		  "'handle':'0x%llx','size':%llu,'prop':{'type':'CU_MEM_ALLOCATION_TYPE_PINNED',"
		  "'requestedHandleTypes':'CU_MEM_HANDLE_TYPE_NONE','location':{'type':'%s',"
		  "'id':%d}}",
		  (unsigned long long)handle, (unsigned long long)size, type, id);
}

static void test_vmm(void **state)
{
	struct trace_event ev;

	process("exec");
	context(0xc0, 0);
	set_current(0xc0);
	create(0xa0, 2 * MIB, "CU_MEM_LOCATION_TYPE_DEVICE", 1);
	create(0xa1, 4 * MIB, "CU_MEM_LOCATION_TYPE_HOST", 0);
	alloc("cuMemAddressReserve", 0x10000000, 8 * MIB);
	map(0x10000000, 2 * MIB, 0xa0);
	map(0x10000000 + 2 * MIB, 2 * MIB, 0xa0);
	/* Released while it is mapped: still there. */
	release("cuMemRelease", 0xa0);
	check_kind(BLOCK_VMM, 2, 1, 6 * MIB, 6 * MIB);
	assert_int_equal(m->device_bytes, 2 * MIB);
	/* A mapping gives a handle back. */
	ev = begin("cuMemRetainAllocationHandle");
	call_args(&ev, "'handle':'0xa5','addr':'0x10000000'");
	unmap(0x10000000, 4 * MIB);
	check_kind(BLOCK_VMM, 2, 1, 6 * MIB, 6 * MIB);
	release("cuMemRelease", 0xa5);
	check_kind(BLOCK_VMM, 2, 2, 4 * MIB, 6 * MIB);
	map(0x10000000, 4 * MIB, 0xa1);
	release("cuMemRelease", 0xa1);
	check_kind(BLOCK_VMM, 2, 3, 4 * MIB, 6 * MIB);
	unmap(0x10000000, 4 * MIB);
	check_kind(BLOCK_VMM, 2, 3, 0, 6 * MIB);
	/* Twice the same, and one that only its mapping holds at the end. */
	create(0xa0, 2 * MIB, "CU_MEM_LOCATION_TYPE_DEVICE", 1);
	map(0x10000000, 2 * MIB, 0xa0);
	create(0xa0, 6 * MIB, "CU_MEM_LOCATION_TYPE_DEVICE", 1);
	check_kind(BLOCK_VMM, 4, 3, 8 * MIB, 8 * MIB);
	release("cuMemRelease", 0xa0);
	check_kind(BLOCK_VMM, 4, 4, 2 * MIB, 8 * MIB);
	process("exit");
	finish();
	assert_int_equal(m->leak_cnt, 1);
	assert_int_equal(m->leak_bytes, 2 * MIB);
	assert_int_equal(m->leaks[0].device, 1);
	check_kind(BLOCK_VMM, 4, 4, 2 * MIB, 8 * MIB);
	check_json("'devices':[{'device':1,'pid':100,'live_bytes':2097152,'peak_bytes':8388608,");
}

static void test_devices(void **state)
{
	struct trace_event ev;

	process("exec");
	context(0xc0, 0);
	context(0xc1, 1);
	set_current(0xc0);
	alloc("cuMemAlloc_v2", 0x10000, 10);
	ev = begin("cuCtxPushCurrent_v2");
	call_args(&ev, "'ctx':'0xc1'");
	alloc("cuMemAlloc_v2", 0x20000, 20);
	f.tid = 101; /* a thread that has none: two devices, so who knows */
	alloc("cuMemAlloc_v2", 0x30000, 40);
	f.tid = 100;
	ev = begin("cuCtxPopCurrent_v2");
	call_args(&ev, "'pctx':'0xc1'");
	alloc("cuMemAlloc_v2", 0x40000, 80);
	ev = begin("cuMemPoolCreate");
	call_args(&ev, "'pool':'0x900','poolProps':{'allocType':'CU_MEM_ALLOCATION_TYPE_PINNED',"
		       "'handleTypes':0,'location':{'type':'CU_MEM_LOCATION_TYPE_DEVICE','id':1}}");
	ev = begin("cuMemAllocFromPoolAsync");
	ev.has = HAS_PTR | HAS_SIZE;
	ev.ptr = 0x50000;
	ev.size = 160;
	call_args(&ev, "'dptr':'0x50000','bytesize':160,'pool':'0x900','hStream':'0x0'");
	ev = begin("cuCtxCreate_v2");
	call_args(&ev, "'pctx':'0xc2','flags':0,'dev':1");
	alloc("cuMemAlloc_v2", 0x60000, 320);
	ev = begin("cuCtxDestroy_v2");
	call_args(&ev, "'ctx':'0xc2'");
	alloc("cuMemAlloc_v2", 0x70000, 640);
	finish();
	assert_int_equal(m->dev_row_cnt, 3);
	assert_int_equal(m->dev_rows[0]->device, 0);
	assert_int_equal(m->dev_rows[0]->live, 10 + 80 + 640);
	assert_int_equal(m->dev_rows[1]->device, 1);
	assert_int_equal(m->dev_rows[1]->live, 20 + 160);
	assert_int_equal(m->dev_rows[1]->peak, 20 + 160 + 320);
	assert_int_equal(m->dev_rows[2]->device, -1);
	assert_int_equal(m->dev_rows[2]->live, 40);
	/* That of the context that was destroyed. */
	assert_int_equal(m->leak_cnt, 1);
	assert_int_equal(m->leaks[0].end, LEAK_CONTEXT);
	check_json("'device':1,'end':'context'}]");
	check_json("'pools':{'created':1,'destroyed':0,'trims':0}");
}

static void test_primary_released(void **state)
{
	struct trace_event ev;

	process("exec");
	context(0xc0, 0);
	context(0xc0, 0);
	set_current(0xc0);
	alloc("cuMemAlloc_v2", 0x10000, 10);
	alloc("cuMemAllocAsync", 0x20000, 20); /* of the device, not of the context */
	ev = begin("cuDevicePrimaryCtxRelease_v2");
	call_args(&ev, "'dev':0");
	assert_int_equal(m->leak_cnt, 0);
	ev = begin("cuDevicePrimaryCtxRelease_v2");
	call_args(&ev, "'dev':0");
	assert_int_equal(m->leak_cnt, 1);
	check_kind(BLOCK_DEVICE, 1, 0, 0, 10);
	check_kind(BLOCK_POOL, 1, 0, 20, 20);
	alloc("cuMemAlloc_v2", 0x10000, 5);
	ev = begin("cuDevicePrimaryCtxReset_v2");
	call_args(&ev, "'dev':0");
	assert_int_equal(m->leak_cnt, 2);
	finish();
	assert_false(m->reset_unknown);
}

static void test_processes(void **state)
{
	process("exec");
	alloc("cuMemAlloc_v2", 0x10000, 1000);
	f.pid = f.tid = 200;
	process("fork");
	/* The child has none of it. */
	release_err("cuMemFree_v2", 0x10000, 1);
	alloc("cuMemAlloc_v2", 0x10000, 500);
	assert_int_equal(m->device_peak, 1500);
	process("exec");
	assert_int_equal(m->leak_ends[LEAK_EXEC].bytes, 500);
	alloc("cuMemAlloc_v2", 0x10000, 50);
	process("exit");
	f.pid = f.tid = 100;
	release("cuMemFree_v2", 0x10000);
	process("exit");
	finish();
	check_kind(BLOCK_DEVICE, 3, 1, 550, 1500);
	assert_int_equal(m->leak_ends[LEAK_EXIT].bytes, 50);
	assert_int_equal(m->bad_free_cnt, 1);
	assert_null(m->procs);
}

static void test_over_time(void **state)
{
	uint64_t step;

	process("exec");
	alloc("cuMemAlloc_v2", 0x10000, 1000);
	f.now_ns = FACTORY_BASE_NS + 5000000; /* step 5 */
	alloc("cuMemAlloc_v2", 0x20000, 500);
	release("cuMemFree_v2", 0x20000);
	f.now_ns = FACTORY_BASE_NS + 8000000;
	release("cuMemFree_v2", 0x10000);
	finish();
	check_json("'over_time':{'step_ns':1000000,'kinds':{'device':[1000,1000,1000,1000,1000,"
		   "1500,1000,1000,1000]},'allocs':[1,0,0,0,0,1,0,0,0]}");
	/* 10 s: steps of 32 ms, and the peak is still to be seen. */
	f.now_ns = FACTORY_BASE_NS + 10000000000;
	alloc("cuMemAlloc_v2", 0x20000, 7);
	step = m->time.step_ns;
	assert_int_equal(step, 32000000);
	assert_int_equal(m->time.last, 10000003000 / step);
	assert_int_equal(m->time.max[BLOCK_DEVICE][0], 1500);
	assert_int_equal(m->time.max[BLOCK_DEVICE][1], 0);
	assert_int_equal(m->time.max[BLOCK_DEVICE][m->time.last], 7);
	assert_int_equal(m->time.allocs[0], 2);
}

/* What is live against a model that is too simple to be wrong. */
static void test_random(void **state)
{
	uint64_t live = 0, peak = 0, sizes[256] = {0}, x = 88172645463325252ull;

	process("exec");
	for (unsigned i = 0; i < 20000; i++) {
		unsigned slot;

		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		slot = x % 256;
		if (sizes[slot]) {
			release("cuMemFree_v2", 0x100000 + slot * 0x1000);
			live -= sizes[slot];
			sizes[slot] = 0;
		} else {
			sizes[slot] = x >> 8 & 0xfff;
			if (!sizes[slot])
				continue;
			alloc("cuMemAlloc_v2", 0x100000 + slot * 0x1000, sizes[slot]);
			live += sizes[slot];
		}
		if (live > peak)
			peak = live;
		assert_int_equal(m->device_bytes, live);
	}
	finish();
	assert_int_equal(m->device_peak, peak);
	assert_int_equal(m->unseen_free_cnt, 0);
}

/* Prints how much processor time an allocation or a free takes. Fails only when it is out of all
 * proportion: machines differ. */
static void test_cost(void **state)
{
	const unsigned cnt = 100000, live = 1000;
	struct trace_event a = begin("cuMemAlloc_v2"), b = begin("cuMemFree_v2");
	clock_t from;
	double ns;

	a.has = HAS_PTR | HAS_SIZE;
	b.has = HAS_PTR;
	process("exec");
	from = clock();
	for (unsigned i = 0; i < cnt; i++) {
		a.ptr = 0x7f0000000000 + (uint64_t)(i % live) * 0x200;
		a.size = 0x200;
		a.start_ns = b.start_ns = a.end_ns + 10;
		a.end_ns = b.end_ns = a.start_ns + 10;
		b.ptr = a.ptr;
		if (i >= live)
			report__event(r, &b);
		a.start_ns = a.end_ns = b.end_ns + 1;
		report__event(r, &a);
	}
	ns = (double)(clock() - from) * 1e9 / CLOCKS_PER_SEC;
	print_message("%.0f ns for each allocation or free, %u live\n", ns / (2 * cnt), live);
	assert_int_equal(m->kinds[BLOCK_DEVICE].live, live * 0x200);
	assert_int_equal(m->unseen_free_cnt, 0);
	assert_true(ns / (2 * cnt) < 20000);
	finish();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_vmm),	      TEST(test_devices),   TEST(test_primary_released),
		TEST(test_processes), TEST(test_over_time), TEST(test_random),
		TEST(test_cost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
