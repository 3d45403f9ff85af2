/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The report's analysis of memory: its place and its lifetime. */
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
	/* Released while it is mapped: still live. */
	release("cuMemRelease", 0xa0);
	check_kind(BLOCK_VMM, 1, 1, 2 * MIB, 2 * MIB);
	check_kind(BLOCK_HOST, 1, 0, 4 * MIB, 4 * MIB);
	assert_int_equal(m->device_bytes, 2 * MIB);
	/* A mapping returns a handle. */
	ev = begin("cuMemRetainAllocationHandle");
	call_args(&ev, "'handle':'0xa5','addr':'0x10000010'");
	unmap(0x10000000, 4 * MIB);
	check_kind(BLOCK_VMM, 1, 1, 2 * MIB, 2 * MIB);
	release("cuMemRelease", 0xa5);
	check_kind(BLOCK_VMM, 1, 2, 0, 2 * MIB);
	map(0x10000000, 4 * MIB, 0xa1);
	release("cuMemRelease", 0xa1);
	check_kind(BLOCK_HOST, 1, 1, 4 * MIB, 4 * MIB);
	assert_int_equal(memory_host_place(r, 100, 0x10000100), HOST_PINNED);
	unmap(0x10000000, 4 * MIB);
	check_kind(BLOCK_HOST, 1, 1, 0, 4 * MIB);
	/* One handle twice, and memory that only its mapping holds at the end. */
	create(0xa0, 2 * MIB, "CU_MEM_LOCATION_TYPE_DEVICE", 1);
	map(0x10000000, 2 * MIB, 0xa0);
	create(0xa0, 6 * MIB, "CU_MEM_LOCATION_TYPE_DEVICE", 1);
	check_kind(BLOCK_VMM, 3, 2, 8 * MIB, 8 * MIB);
	release("cuMemRelease", 0xa0);
	check_kind(BLOCK_VMM, 3, 3, 2 * MIB, 8 * MIB);
	process("exit");
	finish();
	assert_int_equal(m->leak_cnt, 1);
	assert_int_equal(m->leak_bytes, 2 * MIB);
	assert_int_equal(m->leaks[0].device, 1);
	check_kind(BLOCK_VMM, 3, 3, 2 * MIB, 8 * MIB);
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
	f.tid = 101; /* no context in this thread, and two devices: unknown */
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
	/* Memory of the destroyed context. */
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
	/* The child has none of this memory. */
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
	assert_null(m->procs.first);
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
	/* 10 s: steps of 32 ms, and the peak is still visible. */
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

/* Live memory against a naive model. */
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

static void pool(uint64_t handle, const char *type, int id)
{
	struct trace_event ev = begin("cuMemPoolCreate");

	call_args(&ev,
		  "'pool':'0x%llx','poolProps':{'allocType':'CU_MEM_ALLOCATION_TYPE_%s',"
		  "'handleTypes':0,'location':{'type':'CU_MEM_LOCATION_TYPE_%s','id':%d}}",
		  (unsigned long long)handle, *type == 'N' ? "MANAGED" : "PINNED", type, id);
}

static void from_pool(uint64_t ptr, uint64_t size, uint64_t handle, uint64_t stream)
{
	struct trace_event ev = begin("cuMemAllocFromPoolAsync");

	ev.has = HAS_PTR | HAS_SIZE | HAS_STREAM;
	ev.ptr = ptr;
	ev.size = size;
	ev.stream = stream;
	call_args(&ev, "'dptr':'0x%llx','bytesize':%llu,'pool':'0x%llx'", (unsigned long long)ptr,
		  (unsigned long long)size, (unsigned long long)handle);
}

/* Host pools are not GPU memory; captured allocations do not exist yet. */
static void test_pools(void **state)
{
	process("exec");
	context(0xc0, 0);
	set_current(0xc0);
	pool(0x901, "DEVICE", 3);
	pool(0x902, "HOST", 0);
	pool(0x903, "NONE", 0);
	from_pool(0x10000, 10, 0x901, 5);
	from_pool(0x20000, 20, 0x902, 5);
	from_pool(0x30000, 40, 0x903, 5);
	on("cuStreamBeginCapture_v2", 5, "");
	from_pool(0x40000, 80, 0x901, 5);
	from_pool(0x50000, 160, 0x901, 6);
	on("cuStreamEndCapture", 5, "'phGraph':'0x99'");
	finish();
	check_kind(BLOCK_POOL, 2, 0, 170, 170);
	check_kind(BLOCK_HOST, 1, 0, 20, 20);
	check_kind(BLOCK_MANAGED, 1, 0, 40, 40);
	assert_int_equal(m->device_peak, 170);
	check_json("'device':3,'pid':100,'live_bytes':170,'peak_bytes':170,");
}

static void ipc(const char *symbol, const char *args)
{
	struct trace_event ev = begin(symbol);

	call_args(&ev, "%s", args);
}

/* cuIpcOpenMemHandle counts. */
static void test_opened_twice(void **state)
{
	process("exec");
	for (int i = 0; i < 3; i++)
		ipc("cuIpcOpenMemHandle_v2", "'pdptr':'0x7f5000000000'");
	for (int i = 0; i < 3; i++)
		ipc("cuIpcCloseMemHandle", "'dptr':'0x7f5000000000'");
	assert_int_equal(m->unmatched_free_cnt, 0);
	assert_int_equal(m->block_cnt, 0);
	ipc("cuIpcCloseMemHandle", "'dptr':'0x7f5000000000'");
	finish();
	assert_int_equal(m->unseen_free_cnt, 0);
	assert_int_equal(m->unmatched_free_cnt, 1);
	check_kind(BLOCK_IPC, 3, 3, 0, 0);
}

/*
 * The live sums (summary, Chrome, metrics, top) and the report follow the same calls, which a
 * driver would accept: physical memory, mappings, handles, pools, captures, imports, contexts. Both
 * are compared with a simple table.
 */
#define SIM_SLOTS 8

struct phys {
	uint64_t size;
	int handles, maps; /* size 0: none of it */
	bool host;
};

static uint64_t sim_x;

static unsigned pick(unsigned n)
{
	sim_x ^= sim_x << 13;
	sim_x ^= sim_x >> 7;
	sim_x ^= sim_x << 17;
	return (sim_x >> 20) % n;
}

static void sim_vmm(struct phys *phys, int *mapped)
{
	unsigned h = pick(SIM_SLOTS), at = pick(SIM_SLOTS);
	uint64_t addr = 0x10000000 + at * 0x1000000ull;
	struct phys *p = &phys[h];

	switch (pick(5)) {
	case 0:
		if (p->handles || p->maps)
			return;
		*p = (struct phys){(1 + pick(4)) * MIB, 1, 0, pick(3) == 0};
		create(0xa0 + h, p->size,
		       p->host ? "CU_MEM_LOCATION_TYPE_HOST_NUMA" : "CU_MEM_LOCATION_TYPE_DEVICE",
		       0);
		break;
	case 1:
		if (!p->handles || mapped[at] >= 0)
			return;
		mapped[at] = h;
		p->maps++;
		map(addr, p->size, 0xa0 + h);
		break;
	case 2:
		if (!p->handles)
			return;
		p->handles--;
		release("cuMemRelease", 0xa0 + h);
		break;
	case 3:
		if (mapped[at] < 0)
			return;
		p = &phys[mapped[at]];
		p->maps--;
		mapped[at] = -1;
		unmap(addr, p->size);
		break;
	case 4:
		if (mapped[at] < 0)
			return;
		h = mapped[at];
		phys[h].handles++;
		{
			struct trace_event ev = begin("cuMemRetainAllocationHandle");

			call_args(&ev, "'handle':'0x%x','addr':'0x%llx'", 0xa0 + h,
				  (unsigned long long)addr + pick(MIB));
		}
	}
}

struct pending_call {
	uint64_t size;
	int kind; /* enum mem_kind */
	bool in_context;
};

static void sim_alloc(struct pending_call *held, bool captures)
{
	static const struct {
		uint64_t pool;
		int kind;
	} pools[] = {{0x901, MEM_DEVICE}, {0x902, MEM_HOST}, {0x903, MEM_MANAGED}};
	unsigned at = pick(SIM_SLOTS), k = pick(6);
	uint64_t addr = 0x700000 + at * 0x10000, size = 1 + pick(0x10000);
	struct pending_call *x = &held[at];

	if (x->size) {
		release(pick(2) ? "cuMemFree_v2" : "cuMemFreeAsync", addr);
		x->size = 0;
		return;
	}
	if (k < 3) {
		from_pool(addr, size, pools[k].pool, 5);
		if (!captures)
			*x = (struct pending_call){size, pools[k].kind, false};
		return;
	}
	alloc(k == 3   ? "cuMemAlloc_v2"
	      : k == 4 ? "cuMemAllocHost_v2"
		       : "cuMemAllocManaged",
	      addr, size);
	*x = (struct pending_call){size,
				   k == 3   ? MEM_DEVICE
				   : k == 4 ? MEM_HOST
					    : MEM_MANAGED,
				   true};
}

static void sim_context(struct pending_call *held)
{
	struct trace_event ev = begin("cuDevicePrimaryCtxReset_v2");

	call_args(&ev, "'dev':0");
	for (unsigned i = 0; i < SIM_SLOTS; i++)
		if (held[i].in_context)
			held[i].size = 0;
}

static uint64_t report_live(enum mem_kind kind)
{
	uint64_t sum = 0;

	for (int k = 0; k < BLOCK_KIND_CNT; k++)
		if (block_desc[k].counted == kind)
			sum += m->kinds[k].live;
	return sum;
}

static void test_agree(void **state)
{
	struct phys phys[SIM_SLOTS] = {0};
	struct pending_call held[SIM_SLOTS] = {0};
	int mapped[SIM_SLOTS], opened = 0;
	uint64_t peak = 0;
	bool captures = false;

	live = &live_mem;
	sim_x = 0x9e3779b97f4a7c15ull;
	memset(mapped, -1, sizeof(mapped));
	ipc("cuInit", "'Flags':0");
	context(0xc0, 0);
	set_current(0xc0);
	pool(0x901, "DEVICE", 0);
	pool(0x902, "HOST", 0);
	pool(0x903, "NONE", 0);
	for (unsigned i = 0; i < 20000; i++) {
		uint64_t want[MEM_KIND_CNT] = {0};
		unsigned what = pick(100);

		if (what < 50) {
			sim_vmm(phys, mapped);
		} else if (what < 90) {
			sim_alloc(held, captures);
		} else if (what < 93) {
			on(captures ? "cuStreamEndCapture" : "cuStreamBeginCapture_v2", 5, "");
			captures = !captures;
		} else if (what < 96) {
			opened++;
			ipc("cuIpcOpenMemHandle_v2", "'pdptr':'0x7f5000000000'");
		} else if (what < 99 && opened) {
			opened--;
			ipc("cuIpcCloseMemHandle", "'dptr':'0x7f5000000000'");
		} else if (pick(8) == 0) {
			sim_context(held);
			opened = 0;
		}
		for (unsigned k = 0; k < SIM_SLOTS; k++) {
			if (held[k].size)
				want[held[k].kind] += held[k].size;
			if (phys[k].handles || phys[k].maps)
				want[phys[k].host ? MEM_HOST : MEM_DEVICE] += phys[k].size;
		}
		if (want[MEM_DEVICE] > peak)
			peak = want[MEM_DEVICE];
		for (int k = 0; k < MEM_KIND_CNT; k++) {
			assert_int_equal(report_live(k), want[k]);
			assert_int_equal(live_mem.bytes[k], want[k]);
		}
		assert_int_equal(m->device_bytes, want[MEM_DEVICE]);
	}
	assert_int_equal(m->device_peak, peak);
	assert_int_equal(m->unseen_free_cnt, 0);
	assert_true(peak > 8 * MIB);
	finish();
}

/* Prints the processor time of an allocation or a free. Fails only if it is far too long: machines
 * differ. */
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
		TEST(test_cost),      TEST(test_pools),	    TEST(test_opened_twice),
		TEST(test_agree),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
