/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The report's analysis of memory: allocations and frees, leaks, bad frees. */
#include "memory_check.h"

static void test_leak(void **state)
{
	uint64_t id;

	process("exec");
	context(0xc0, 0);
	set_current(0xc0);
	alloc("cuMemAlloc_v2", 0x10000, 4096);
	id = alloc("cuMemAlloc_v2", 0x20000, 100);
	release("cuMemFree_v2", 0x10000);
	process("exit");
	finish();
	check_kind(BLOCK_DEVICE, 2, 1, 100, 4196);
	assert_int_equal(m->leak_cnt, 1);
	assert_int_equal(m->leak_bytes, 100);
	assert_int_equal(m->leaks[0].id, id);
	assert_int_equal(m->leaks[0].ptr, 0x20000);
	assert_int_equal(m->leaks[0].end, LEAK_EXIT);
	assert_int_equal(m->kinds[BLOCK_DEVICE].live, 0);
	check_json("'devices':[{'device':0,'pid':100,'live_bytes':100,'peak_bytes':4196,");
	check_json("'leaks':[{'ptr':'0x20000','size':100,'kind':'device',");
	check_json("'call':'cuMemAlloc','pid':100,'device':0,'end':'exit'}],'leak_bytes':100,"
		   "'leak_count':1,'leak_ends':{'exit':{'count':1,'bytes':100}}");
	check_json("'sizes':[{'below':128,'count':1,'bytes':100},{'below':8192,'count':1,'bytes':"
		   "4096}]");
}

/* A program that frees nothing: its rows have a limit, which the report mentions. */
static void test_bound(void **state)
{
	process("exec");
	for (uint64_t i = 1; i <= MEMLIMIT_ALLOCATIONS_MAX + 10; i++)
		alloc("cuMemAlloc_v2", i << 12, 4096);
	assert_int_equal(m->block_cnt, MEMLIMIT_ALLOCATIONS_MAX);
	assert_int_equal(m->rejected_cnt, 10);
	check_kind(BLOCK_DEVICE, MEMLIMIT_ALLOCATIONS_MAX, 0, MEMLIMIT_ALLOCATIONS_MAX * 4096ull,
		   MEMLIMIT_ALLOCATIONS_MAX * 4096ull);
	/* Freed memory makes room. */
	release("cuMemFree_v2", 1 << 12);
	alloc("cuMemAlloc_v2", 1 << 12, 4096);
	alloc("cuMemAlloc_v2", 1 << 12, 4096);
	assert_int_equal(m->rejected_cnt, 10);
	process("exit");
	assert_int_equal(m->block_cnt, 0);
	finish();
	check_json("'rejected':10");
}

/* The process may still free it. */
static void test_no_leak_while_running(void **state)
{
	process("exec");
	alloc("cuMemAlloc_v2", 0x10000, 4096);
	finish();
	assert_int_equal(m->leak_cnt, 0);
	check_kind(BLOCK_DEVICE, 1, 0, 4096, 4096);
}

static void test_every_kind(void **state)
{
	struct trace_event ev;

	process("exec");
	alloc("cuMemAlloc_v2", 0x10000, 1);
	alloc("cuMemAllocHost_v2", 0x20000, 2);
	alloc("cuMemHostAlloc", 0x30000, 4);
	alloc("cuMemAllocManaged", 0x40000, 8);
	alloc("cuArrayCreate_v2", 0x10000, 16); /* a handle */
	alloc("cuMipmappedArrayCreate", 0x10001, 32);
	alloc("cuMemCreate", 0x10002, 64);
	alloc("cuMemAllocAsync", 0x50000, 128);
	alloc("cuMemAllocFromPoolAsync_ptsz", 0x60000, 256);
	alloc("cuMemHostRegister_v2", 0x70000, 512);
	ev = begin("cuIpcOpenMemHandle_v2");
	call_args(&ev, "'pdptr':'0x80000','handle':'00','Flags':0");
	ev = begin("cuImportExternalMemory");
	ev.type = TYPE_INTEROP;
	call_args(&ev, "'extMem_out':'0x10003','memHandleDesc':{'type':1,'fd':3,'size':1024}");
	alloc("cuMemAddressReserve", 0x10000, 2048);
	check_kind(BLOCK_HOST, 2, 0, 6, 6);
	check_kind(BLOCK_ARRAY, 2, 0, 48, 48);
	check_kind(BLOCK_VMM, 1, 0, 64, 64);
	check_kind(BLOCK_POOL, 2, 0, 384, 384);
	check_kind(BLOCK_REGISTERED, 1, 0, 512, 512);
	check_kind(BLOCK_IPC, 1, 0, 0, 0);
	check_kind(BLOCK_EXTERNAL, 1, 0, 1024, 1024);
	check_kind(BLOCK_RESERVED, 1, 0, 2048, 2048);
	assert_int_equal(m->device_bytes, 1 + 48 + 64 + 384);
	release("cuMemFree_v2", 0x10000);
	release("cuMemFreeHost", 0x20000);
	release("cuMemFreeHost", 0x30000);
	release("cuMemFree_v2", 0x40000);
	release("cuArrayDestroy", 0x10000);
	release("cuMipmappedArrayDestroy", 0x10001);
	release("cuMemRelease", 0x10002);
	release("cuMemFreeAsync", 0x50000);
	release("cuMemFree_v2", 0x60000);
	release("cuMemHostUnregister", 0x70000);
	release("cuIpcCloseMemHandle", 0x80000);
	ev = begin("cuDestroyExternalMemory");
	ev.type = TYPE_INTEROP;
	call_args(&ev, "'extMem':'0x10003'");
	release("cuMemAddressFree", 0x10000);
	process("exit");
	finish();
	for (unsigned k = 0; k < BLOCK_KIND_CNT; k++) {
		assert_int_equal(m->kinds[k].live + m->kinds[k].kept, 0);
		assert_int_equal(m->kinds[k].allocs, m->kinds[k].frees);
		assert_true(m->kinds[k].allocs > 0);
	}
	assert_int_equal(m->leak_cnt, 0);
	assert_int_equal(m->bad_free_cnt, 0);
	assert_int_equal(m->unmatched_free_cnt, 0);
	assert_int_equal(m->device_bytes, 0);
	assert_int_equal(m->device_peak, 497);
}

static void test_bad_frees(void **state)
{
	process("exec");
	alloc("cuMemAlloc_v2", 0x10000, 4096);
	alloc("cuMemAlloc_v2", 0x20000, 4096);
	alloc("cuMemAllocHost_v2", 0x30000, 4096);
	release("cuMemFree_v2", 0x10000);
	release_err("cuMemFree_v2", 0x10000, 1);
	release_err("cuMemFree_v2", 0x99000, 1);
	release_err("cuMemFree_v2", 0x20010, 1);
	release_err("cuMemFree_v2", 0x30000, 1);
	release_err("cuMemFree_v2", 0x20000, 700); /* the kernel before it is to blame */
	release("cuMemFree_v2", 0);
	finish();
	assert_int_equal(m->bad_free_cnt, 4);
	assert_int_equal(m->bad_frees[0].what, BAD_DOUBLE);
	assert_true(m->bad_frees[0].confidence == 1);
	assert_int_equal(m->bad_frees[1].what, BAD_UNKNOWN);
	assert_true(m->bad_frees[1].confidence == 0.9);
	assert_int_equal(m->bad_frees[2].inside, 0x20000);
	assert_int_equal(m->bad_frees[3].what, BAD_FUNCTION);
	check_kind(BLOCK_DEVICE, 2, 1, 4096, 8192);
	check_json("{'what':'double free','ptr':'0x10000',");
	check_json("'error':'CUDA_ERROR_INVALID_VALUE','confidence':1}");
}

/* Memory from before the trace may be freed in it. */
static void test_late_attach(void **state)
{
	release("cuMemFree_v2", 0x10000);
	release_err("cuMemFree_v2", 0x20000, 1);
	release_err("cuMemFree_v2", 0x10000, 1);
	finish();
	assert_int_equal(m->unmatched_free_cnt, 1);
	assert_int_equal(m->bad_free_cnt, 2);
	assert_true(m->bad_frees[0].confidence == 0.5);
	assert_int_equal(m->bad_frees[1].what, BAD_DOUBLE);
	check_kind(BLOCK_DEVICE, 0, 0, 0, 0);
}

/* Thread A frees, thread B gets the address at once, and B's record comes first. */
static void test_late_record(void **state)
{
	struct trace_event ev, late;

	process("exec");
	alloc("cuMemAlloc_v2", 0x10000, 100);
	late = begin("cuMemFree_v2");
	late.has = HAS_PTR;
	late.ptr = 0x10000;
	ev = begin("cuMemAlloc_v2");
	ev.tid = 101;
	ev.has = HAS_PTR | HAS_SIZE;
	ev.ptr = 0x10000;
	ev.size = 300;
	late.end_ns = ev.end_ns + 500;
	send(&ev);
	check_kind(BLOCK_DEVICE, 2, 0, 300, 300);
	assert_int_equal(m->unseen_free_cnt, 1);
	send(&late);
	check_kind(BLOCK_DEVICE, 2, 1, 300, 300);
	assert_int_equal(m->unseen_free_cnt, 0);
	assert_int_equal(m->late_free_cnt, 1);
	release("cuMemFree_v2", 0x10000);
	check_kind(BLOCK_DEVICE, 2, 2, 0, 300);
	/* Even later: the other thread has already freed it. */
	alloc("cuMemAlloc_v2", 0x10000, 100);
	late = begin("cuMemFree_v2");
	late.has = HAS_PTR;
	late.ptr = 0x10000;
	alloc("cuMemAlloc_v2", 0x10000, 300);
	release("cuMemFree_v2", 0x10000);
	late.end_ns = f.now_ns + 500;
	send(&late);
	check_kind(BLOCK_DEVICE, 4, 4, 0, 300);
	assert_int_equal(m->unseen_free_cnt, 0);
	assert_int_equal(m->unmatched_free_cnt, 0);
	assert_int_equal(m->late_free_cnt, 2);
	/* A free was lost: the block there now was freed in time. */
	alloc("cuMemAlloc_v2", 0x20000, 100);
	alloc("cuMemAlloc_v2", 0x20000, 50);
	release("cuMemFree_v2", 0x20000);
	check_kind(BLOCK_DEVICE, 6, 5, 0, 300);
	assert_int_equal(m->unseen_free_cnt, 1);
	finish();
}

/* cuMemAllocPitch and cuMemFreeAsync through public entries: the inner call comes first. */
static void test_nested(void **state)
{
	struct trace_event inner, outer;
	uint64_t parent;

	process("exec");
	outer = begin("cuMemAllocPitch_v2");
	inner = begin("cuMemAlloc_v2");
	inner.parent_id = outer.id;
	inner.depth = inner.api_depth = 1;
	outer.end_ns = f.now_ns += 100;
	inner.has = outer.has = HAS_PTR | HAS_SIZE;
	inner.ptr = outer.ptr = 0x10000;
	inner.size = outer.size = 700;
	send(&inner);
	parent = send(&outer);
	check_kind(BLOCK_DEVICE, 1, 0, 700, 700);
	assert_int_equal(m->unseen_free_cnt, 0);
	assert_int_equal(m->alloc_cnt, 1);
	assert_int_equal(m->sizes[10].cnt, 1);
	outer = begin("cuMemFreeAsync");
	inner = begin("cuMemFree_v2");
	inner.parent_id = outer.id;
	outer.end_ns = f.now_ns += 100;
	inner.has = outer.has = HAS_PTR;
	inner.ptr = outer.ptr = 0x10000;
	send(&inner);
	send(&outer);
	check_kind(BLOCK_DEVICE, 1, 1, 0, 700);
	assert_int_equal(m->unmatched_free_cnt, 0);
	assert_true(parent);
	finish();
}

static void test_fragmentation(void **state)
{
	process("exec");
	for (unsigned i = 0; i < 10; i++)
		alloc("cuMemAlloc_v2", 0x100000 + i * 0x1000, i == 4 ? 0x800 : 0x1000);
	release("cuMemFree_v2", 0x107000);
	release("cuMemFree_v2", 0x102000);
	process("exit");
	finish();
	assert_int_equal(m->frag.ranges, 10);
	assert_int_equal(m->frag.holes, 1);
	assert_int_equal(m->frag.largest_hole, 0x800);
	assert_int_equal(m->frag.span, 0xa000);
	check_json("'fragmentation':{'pid':100,");
	check_json(
		"'ranges':10,'regions':1,'holes':1,'largest_hole':2048,'span':40960,'share':0.05}");
}

/* Far apart: no hole. A free attempted after the driver's end is no leak. */
static void test_regions(void **state)
{
	process("exec");
	alloc("cuMemAlloc_v2", 0x100000, 0x1000);
	alloc("cuMemAlloc_v2", 0x102000, 0x1000);
	alloc("cuMemAlloc_v2", 0x7f0000000000, 0x2000);
	release_err("cuMemFree_v2", 0x102000, 4);
	process("exit");
	finish();
	check_json(
		"'ranges':3,'regions':2,'holes':1,'largest_hole':4096,'span':20480,'share':0.2}");
	assert_int_equal(m->leak_cnt, 2);
	check_json("'too_late_frees':1,");
	assert_int_equal(m->bad_free_cnt, 0);
}

/* Frees that were lost: nothing may stay forever. */
static void test_lost_frees(void **state)
{
	process("exec");
	alloc("cuMemAlloc_v2", 0x100000, 0x4000);
	for (unsigned i = 0; i < 4; i++)
		alloc("cuMemAlloc_v2", 0x100000 + 0x800 + i * 0x1000, 0x400);
	alloc("cuMemAllocHost_v2", 0x200000, 0x1000);
	alloc("cuMemHostRegister_v2", 0x200800, 0x1000);
	finish();
	check_kind(BLOCK_DEVICE, 5, 0, 0x1000, 0x4000);
	check_kind(BLOCK_HOST, 1, 0, 0, 0x1000);
	assert_int_equal(m->unseen_free_cnt, 2);
}

static void test_failed(void **state)
{
	struct trace_event ev;

	ev = begin("cuMemAlloc_v2");
	ev.has = HAS_SIZE;
	ev.size = 1ull << 40;
	ev.result = 2;
	ev.is_error = true;
	send(&ev);
	finish();
	check_json("'failed_allocs':{'count':1,'largest':1099511627776,'first_ts':0.001000}");
	check_kind(BLOCK_DEVICE, 0, 0, 0, 0);
}

/* Counts UTF-8 characters: bytes that begin one. */
static size_t columns(const char *line)
{
	size_t n = 0;

	for (; *line; line++)
		n += (*line & 0xc0) != 0x80;
	return n;
}

static void test_text(void **state)
{
	const struct term term = {.f = tmpfile(), .width = 80};
	char text[8192];
	size_t len;

	process("exec");
	context(0xc0, 0);
	set_current(0xc0);
	alloc("cuMemAlloc_v2", 0x10000, 4096);
	alloc("cuMemAlloc_v2", 0x20000, 4096);
	release("cuMemFree_v2", 0x10000);
	release_err("cuMemFree_v2", 0x10000, 1);
	copy("cuMemcpyHtoD_v2", COPY_DIR_HTOD, 100, "'srcHost':'0x9000'");
	process("exit");
	finish();
	r->opts.full = true;
	report__print(r, &term);
	rewind(term.f);
	len = fread(text, 1, sizeof(text) - 1, term.f);
	text[len] = '\0';
	fclose(term.f);
	assert_non_null(strstr(text, "Never freed: 1 allocation with 4.00 KiB"));
	assert_non_null(strstr(text, "cuMemAlloc 0x20000, process 100"));
	assert_non_null(strstr(text, "double free: cuMemFree 0x10000, process 100"));
	assert_non_null(strstr(text, "Pageable host memory: 1 copy, 100 B in total"));
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
		assert_true(columns(line) <= 80);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_leak),	  TEST(test_no_leak_while_running),
		TEST(test_bound),	  TEST(test_every_kind),
		TEST(test_bad_frees),	  TEST(test_late_attach),
		TEST(test_late_record),	  TEST(test_nested),
		TEST(test_fragmentation), TEST(test_regions),
		TEST(test_lost_frees),	  TEST(test_failed),
		TEST(test_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
