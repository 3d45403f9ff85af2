/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The report's analysis of launches, and occupancy. */
#include "memory_check.h"
#include "report/kernels/ncu.h"
#include "report/kernels/occupancy.h"

static struct trace_event launch(const char *kernel, uint32_t grid, uint32_t block)
{
	struct trace_event ev = factory_launch(&f, kernel, 0);

	ev.launch.grid[0] = grid;
	ev.launch.block[0] = block;
	return ev;
}

static void test_launches(void **state)
{
	static const char name[] = "fill<float>(float*)";
	struct trace_event ev;

	ev = launch(name, 10, 128);
	send(&ev);
	ev = launch(name, 30, 64);
	ev.stream = 0x77;
	ev.end_ns += 2000;
	ev.launch.shared_mem_sz = 512;
	send(&ev);
	ev = launch(name, 20, 64); /* a node: no time, no stream, no threads */
	ev.stream = 0x88;
	ev.capturing = true;
	send(&ev);
	ev = launch(name, 7, 32);
	ev.is_error = true;
	ev.result = 1;
	send(&ev);
	ev = launch(NULL, 1, 1);
	ev.launch.func = 0x99;
	ev.launch.cluster[0] = 2;
	ev.launch.cluster[1] = ev.launch.cluster[2] = 1;
	send(&ev);
	finish();
	check_json("'kernels':{'launches':3,'nodes':1,'unnamed':1,'total_ns':14000,'threads':3201,"
		   "'blocks':41,'list':[");
	check_json("{'name':'fill<float>(float*)','count':2,'nodes':1,'total_ns':10000,"
		   "'mean_ns':5000,'max_ns':6000,'grid_min':[10,1,1],'grid_max':[30,1,1],"
		   "'block':[128,1,1],'block_min':[64,1,1],'shared_mem':512,'threads':3200,"
		   "'blocks':40,'streams':2,'errors':1,'ncu':'ncu --target-processes all "
		   "--kernel-name fill --launch-skip 1 --launch-count 1 python3 infer.py'}");
	check_json("{'name':null,'function':'0x99','count':1,'nodes':0,'total_ns':4000,"
		   "'mean_ns':4000,'max_ns':4000,'grid_min':[1,1,1],'grid_max':[1,1,1],"
		   "'block':[1,1,1],'shared_mem':0,'cluster':[2,1,1],'threads':1,'blocks':1,");
}

static void ask(const char *symbol, const char *args)
{
	struct trace_event ev = begin(symbol);

	call_args(&ev, "%s", args);
}

static void capability(int major, int minor)
{
	struct trace_event ev = begin("cuDeviceComputeCapability");

	call_args(&ev, "'major':%d,'minor':%d,'dev':0", major, minor);
}

/* 256 threads are 8 warps; 96 registers are 3072 a warp: 5 warps in each of the 4 parts, 20 in all,
 * so 2 blocks of 8 warps fit: 16 of 64. */
static void test_occupancy_of_kernel(void **state)
{
	struct trace_event ev;

	capability(9, 0);
	ev = launch("k", 10, 256);
	ev.launch.func = 0x10;
	send(&ev);
	ask("cuFuncGetAttribute", "'pi':96,'attrib':'CU_FUNC_ATTRIBUTE_NUM_REGS','hfunc':'0x10'");
	finish();
	check_json("'registers':96,'streams'"); /* static shared memory is unknown */
}

static void test_occupancy_by_name(void **state)
{
	static const char name[] = "k";
	struct trace_event ev;

	ask("cuDeviceGetAttribute",
	    "'pi':9,'attrib':'CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR','dev':0");
	ask("cuDeviceGetAttribute",
	    "'pi':0,'attrib':'CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR','dev':0");
	ev = begin("cuLibraryGetKernel");
	ev.has = HAS_KERNEL;
	ev.launch.kernel = name;
	call_args(&ev, "'pKernel':'0x20','library':'0x1','name':'k'");
	ask("cuKernelGetAttribute",
	    "'pi':96,'attrib':'CU_FUNC_ATTRIBUTE_NUM_REGS','kernel':'0x20','dev':0");
	ask("cuKernelGetAttribute",
	    "'pi':0,'attrib':'CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES','kernel':'0x20','dev':0");
	ev = launch(name, 10, 256);
	ev.launch.func = 0x21; /* the function that belongs to kernel 0x20 */
	send(&ev);
	finish();
	check_json("'compute_capability':'9.0'");
	check_json("'registers':96,'occupancy':0.25,");
}

/* CUDA's own answer takes precedence; two devices with different answers give none. */
static void test_occupancy_queried(void **state)
{
	struct trace_event ev;

	capability(8, 6);
	ask("cuOccupancyMaxActiveBlocksPerMultiprocessor",
	    "'numBlocks':3,'func':'0x30','blockSize':256,'dynamicSMemSize':0");
	ev = launch("k", 10, 256);
	ev.launch.func = 0x30;
	send(&ev);
	ev = launch("other", 10, 128);
	ev.launch.func = 0x31;
	send(&ev);
	ask("cuOccupancyMaxActiveBlocksPerMultiprocessor",
	    "'numBlocks':3,'func':'0x31','blockSize':256,'dynamicSMemSize':0");
	finish();
	check_json("'blocks':10,'occupancy':0.5,'streams'");
	check_json("'blocks':10,'streams'"); /* another block than the one queried */
}

static void multiprocessors(int cnt)
{
	struct trace_event ev = begin("cuDeviceGetAttribute");

	call_args(&ev, "'pi':%d,'attrib':'CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT','dev':0", cnt);
}

/* 3 blocks on each of 100 multiprocessors: 330 blocks are 1.1 waves. The second wave has 30 of 300:
 * 270 of 600 places stay empty. The largest grid counts. */
static void test_waves(void **state)
{
	struct trace_event ev;

	capability(8, 6);
	multiprocessors(100);
	ask("cuOccupancyMaxActiveBlocksPerMultiprocessor",
	    "'numBlocks':3,'func':'0x30','blockSize':256,'dynamicSMemSize':0");
	ev = launch("k", 330, 256);
	ev.launch.func = 0x30;
	send(&ev);
	ev = launch("k", 300, 256);
	ev.launch.func = 0x30;
	send(&ev);
	ev = launch("other", 330, 256);
	ev.launch.func = 0x31;
	send(&ev);
	finish();
	check_json("'multiprocessors':100,");
	check_json("'blocks':630,'occupancy':0.5,'waves':1.1,'tail_share':0.45,'streams'");
	check_json("'blocks':330,'streams'");
}

/* Limited by registers: 2 blocks on each of 132; 10 blocks fill 3.8 % of one wave. */
static void test_waves_of_small(void **state)
{
	struct trace_event ev;

	capability(9, 0);
	multiprocessors(132);
	ev = launch("k", 10, 256);
	ev.launch.func = 0x10;
	send(&ev);
	ask("cuFuncGetAttribute", "'pi':96,'attrib':'CU_FUNC_ATTRIBUTE_NUM_REGS','hfunc':'0x10'");
	ask("cuFuncGetAttribute",
	    "'pi':0,'attrib':'CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES','hfunc':'0x10'");
	finish();
	check_json("'occupancy':0.25,'waves':0.0378788,'tail_share':0.962121,");
}

static void test_waves_mixed(void **state)
{
	struct trace_event ev;

	capability(8, 6);
	multiprocessors(100);
	multiprocessors(82);
	ask("cuOccupancyMaxActiveBlocksPerMultiprocessor",
	    "'numBlocks':3,'func':'0x30','blockSize':256,'dynamicSMemSize':0");
	ev = launch("k", 330, 256);
	ev.launch.func = 0x30;
	send(&ev);
	finish();
	check_json("'compute_capability':'8.6','list':");
	check_json("'occupancy':0.5,'streams'");
}

static void blocks_of(uint32_t threads, uint32_t shared, const char *want)
{
	struct trace_event ev;

	capability(9, 0);
	multiprocessors(132);
	ask("cuFuncGetAttribute", "'pi':32,'attrib':'CU_FUNC_ATTRIBUTE_NUM_REGS','hfunc':'0x10'");
	ask("cuFuncGetAttribute",
	    "'pi':0,'attrib':'CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES','hfunc':'0x10'");
	ev = launch("k", 1056, 128);
	ev.launch.func = 0x10;
	send(&ev);
	ev = launch("k", 132, threads);
	ev.launch.func = 0x10;
	ev.launch.shared_mem_sz = shared;
	send(&ev);
	finish();
	check_json(want);
	teardown(NULL);
	setup(NULL);
}

/* Half a wave each, on two blocks; a whole one on a sixteenth of the warps. No launch has the
 * largest grid, the largest block and the most shared memory together. */
static void test_waves_of_blocks(void **state)
{
	blocks_of(128, 0, "'registers':32,'occupancy':1,'waves':0.5,'tail_share':0.5,'streams'");
	blocks_of(1024, 0, "'registers':32,'streams'");
	blocks_of(128, 200 << 10, "'registers':32,'streams'");
}

/* Two functions of one name, from two modules. */
static void test_occupancy_of_two(void **state)
{
	struct trace_event ev;

	capability(9, 0);
	for (int i = 0; i < 2; i++) {
		ev = launch("k", 10, 256);
		ev.launch.func = 0x10 + i;
		send(&ev);
	}
	ask("cuOccupancyMaxActiveBlocksPerMultiprocessor",
	    "'numBlocks':8,'func':'0x10','blockSize':256,'dynamicSMemSize':0");
	ask("cuOccupancyMaxActiveBlocksPerMultiprocessor",
	    "'numBlocks':2,'func':'0x11','blockSize':256,'dynamicSMemSize':0");
	finish();
	check_json("'blocks':20,'streams'");
}

static void ncu(const char *name, const char *mangled, const char *const *argv, unsigned argc,
		const char *want)
{
	const struct trace_info of = {.argv = argv, .argc = argc};
	char buf[NCU_SZ];

	if (!want) {
		assert_false(ncu_command(&of, name, mangled, 10, buf));
		return;
	}
	assert_true(ncu_command(&of, name, mangled, 10, buf));
	assert_string_equal(buf, want);
}

static void test_ncu(void **state)
{
	static const char *const words[] = {"./a b", "it's", "", "$(rm x)", "--lr=0.1"};
	static char huge[NCU_SZ + 1];
	const char *const one[] = {huge};

	ncu("void at::native::fill<4, float>(int)", "_ZN2at6native4fillILi4EfEEvi", NULL, 0,
	    "ncu --target-processes all --kernel-name-base mangled --kernel-name "
	    "_ZN2at6native4fillILi4EfEEvi --launch-skip 5 --launch-count 1 COMMAND");
	ncu("void at::native::fill<4, float>(int)", NULL, NULL, 0,
	    "ncu --target-processes all --kernel-name fill --launch-skip 5 --launch-count 1 COMMAND");
	ncu("add_kernel", "add_kernel", words, 5,
	    "ncu --target-processes all --kernel-name add_kernel --launch-skip 5 --launch-count 1 "
	    "'./a b' 'it'\\''s' '' '$(rm x)' --lr=0.1");
	/* Invalid names, and values that do not fit. */
	ncu(NULL, NULL, NULL, 0, NULL);
	ncu("k;rm", NULL, NULL, 0, NULL);
	ncu("k", "_Z;rm x", NULL, 0,
	    "ncu --target-processes all --kernel-name k --launch-skip 5 --launch-count 1 COMMAND");
	memset(huge, 'x', NCU_SZ);
	ncu("k", NULL, one, 1, NULL);
}

static void test_occupancy_mixed(void **state)
{
	struct trace_event ev;
	char *s;

	capability(8, 6);
	capability(9, 0);
	ask("cuOccupancyMaxActiveBlocksPerMultiprocessor",
	    "'numBlocks':3,'func':'0x30','blockSize':256,'dynamicSMemSize':0");
	ev = launch("k", 10, 256);
	ev.launch.func = 0x30;
	send(&ev);
	finish();
	s = json_of();
	/* The row continues after it; timeline has a class of that name. */
	assert_non_null(strstr(s, "\"blocks\":10,\"streams\""));
	assert_null(strstr(s, "\"compute_capability\""));
	free(s);
}

static void shares(unsigned cc, uint64_t threads, uint64_t regs, uint64_t shared, double want)
{
	const struct occupancy_use use = {threads, regs, shared};
	uint64_t blocks;
	double got;

	assert_true(occupancy_blocks(cc, &use, &blocks));
	got = occupancy_share(cc, threads, blocks);
	assert_true(got > want - 1e-9 && got < want + 1e-9);
}

static void test_limits(void **state)
{
	const struct occupancy_use use = {256, 32, 0};
	uint64_t blocks;

	shares(90, 1024, 32, 0, 1);
	shares(90, 1024, 33, 0, 0.5);		     /* 1280 registers a warp: 48 warps */
	shares(90, 32, 16, 0, 0.5);		     /* 32 blocks of one warp */
	shares(86, 32, 16, 0, 16 / 48.);	     /* 16 of the 48 warps */
	shares(75, 1024, 32, 0, 1);		     /* the limit is 32 warps */
	shares(80, 128, 32, 40 * 1024, 4 * 4 / 64.); /* 4 blocks of 41 KiB in 164 */
	shares(70, 128, 32, 40 * 1024, 2 * 4 / 64.); /* 2 blocks of 41 KiB in 96 */
	shares(120, 768, 40, 0, 1);
	assert_false(occupancy_blocks(65, &use, &blocks));
	assert_int_equal(occupancy_max_threads(89), 1536);
	assert_int_equal(occupancy_max_threads(65), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_launches),
		TEST(test_occupancy_of_kernel),
		TEST(test_occupancy_by_name),
		TEST(test_occupancy_queried),
		TEST(test_waves),
		TEST(test_waves_of_small),
		TEST(test_waves_mixed),
		TEST(test_waves_of_blocks),
		TEST(test_occupancy_of_two),
		TEST(test_ncu),
		TEST(test_occupancy_mixed),
		TEST(test_limits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
