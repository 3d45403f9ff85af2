/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The report's analysis of transfers. */
#include "memory_check.h"

static void test_transfers(void **state)
{
	process("exec");
	alloc("cuMemAllocHost_v2", 0x20000, 0x1000);
	alloc("cuMemAllocManaged", 0x40000, 0x1000);
	copy("cuMemcpyHtoD_v2", COPY_DIR_HTOD, 100, "'srcHost':'0x9000'");
	copy("cuMemcpyHtoD_v2", COPY_DIR_HTOD, 5000, "'srcHost':'0x20800'");
	copy("cuMemcpyHtoDAsync_v2", COPY_DIR_HTOD, 65536, "'srcHost':'0x40000'");
	copy("cuMemcpyDtoHAsync_v2", COPY_DIR_DTOH, 10, "'dstHost':'0x20fff','srcDevice':'0x1'");
	copy("cuMemcpyAsync", COPY_DIR_DTOH, 20, "'dst':'0x21000','src':'0x20000'");
	copy("cuMemcpyDtoDAsync_v2", COPY_DIR_DTOD, 30, "'dstDevice':'0x1','srcDevice':'0x2'");
	copy("cuMemcpy2D_v2", COPY_DIR_HTOD, 40,
	     "'pCopy':{'srcMemoryType':'CU_MEMORYTYPE_HOST','srcHost':'0x20010','dstHost':null}");
	copy("cuMemcpyBatchAsync", COPY_DIR_HTOD, 50,
	     "'dsts':['0x1','0x2'],'srcs':['0x20000','0x20100'],'sizes':[20,30],'count':2");
	copy("cuMemcpyBatchAsync", COPY_NONE, 60, "'dsts':['0x1'],'srcs':['0x20000'],'count':1");
	copy("cuMemsetD8Async", COPY_NONE, 70, "'dstDevice':'0x1'");
	finish();
	check_json("{'direction':'HtoD','count':5,'bytes':70726,'total_ns':5000,'async':2,"
		   "'sync':3,'pinned':3,'pageable':1,'managed':1,'unknown':0,'mean_size':14145.2,"
		   "'small':4,'gbps':1.71333,'max_gbps':5}");
	check_json("{'direction':'DtoH','count':2,'bytes':30,'total_ns':2000,'async':2,"
		   "'sync':0,'pinned':1,'pageable':1,");
	check_json("{'direction':'DtoD','count':1,'bytes':30,'total_ns':1000,'async':1,'sync':0,"
		   "'pinned':0,'pageable':0,'managed':0,'unknown':0,");
	check_json("{'direction':'unknown','count':1,'bytes':60,");
	check_json("'memset':{'count':1,'bytes':70,'total_ns':1000,'async':1,'sync':0}");
	check_json("'pageable':{'count':2,'bytes':120,'total_ns':2000}");
	check_json("'batches':{'calls':2,'copies':3}");
	check_json("'direction':'HtoD','size':65536,'duration_ns':1000,'pinned':true},{");
	check_json("{'direction':'HtoD','below':8192,'count':1,'bytes':5000}");
}

/* Memory pinned before the trace is unknown. */
static void test_transfers_attached(void **state)
{
	copy("cuMemcpyHtoD_v2", COPY_DIR_HTOD, 100, "'srcHost':'0x9000'");
	finish();
	check_json("'pinned':0,'pageable':0,'managed':0,'unknown':1,");
}

static void test_paths(void **state)
{
	struct trace_event ev = begin("cuMemCreate");
	uint64_t val, words[4] = {0};
	uint32_t prop[8] = {1, 0, 1, 7};
	uint64_t arr[3] = {5, 6, 7};
	struct ct_spec spec;

	api_fn_spec(ev.fn, &spec);
	ev.words = words;
	ev.word_cnt = 4;
	ev.cap_cnt = api_arg_cap(ev.fn, 2) + 1;
	ev.caps[ev.cap_cnt - 1] = (struct pointee){(const uint8_t *)prop, 16};
	assert_true(event_path_u64(&ev, "prop.location.id", &val));
	assert_int_equal(val, 7);
	assert_true(event_path_u64(&ev, "prop.location.type", &val));
	assert_int_equal(val, 1);
	assert_false(event_path_u64(&ev, "prop.win32HandleMetaData", &val)); /* not read */
	assert_false(event_path_u64(&ev, "prop.location", &val));
	assert_false(event_path_u64(&ev, "prop.nothing", &val));
	assert_false(event_path_u64(&ev, "nothing", &val));
	ev.caps[ev.cap_cnt - 1].len = -14;
	assert_false(event_path_u64(&ev, "prop.location.id", &val));
	ev = begin("cuMemcpyBatchAsync");
	ev.cap_cnt = api_arg_cap(ev.fn, 2) + 1;
	ev.caps[ev.cap_cnt - 1] = (struct pointee){(const uint8_t *)arr, 24};
	assert_int_equal(event_array_u64(&ev, "sizes", words, 4), 3);
	assert_int_equal(words[2], 7);
	assert_int_equal(event_array_u64(&ev, "sizes", words, 2), 2);
	ev.caps[ev.cap_cnt - 1].len = 23;
	assert_int_equal(event_array_u64(&ev, "sizes", words, 4), 2);
	ev.caps[ev.cap_cnt - 1].len = -14;
	assert_int_equal(event_array_u64(&ev, "sizes", words, 4), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_transfers),
		TEST(test_transfers_attached),
		TEST(test_paths),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
