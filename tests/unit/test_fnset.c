/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "ct_record.h"
#include "decode/fnset.h"

static struct fnset *set;
static char err[512];

static void select_ok(const char *expr)
{
	if (fnset__select(set, expr, err, sizeof(err)))
		fail_msg("%s: %s", expr, err);
}

static bool wanted(const char *symbol)
{
	int id = fnset__id(set, symbol);

	assert_true(id >= 0);
	return fnset__wanted(set, id);
}

static unsigned wanted_cnt(void)
{
	unsigned n = 0;

	for (unsigned id = 0; id < fnset__cnt(set); id++)
		n += fnset__wanted(set, id);
	return n;
}

/* Functions of families that are traced by default. */
static unsigned usual_cnt(void)
{
	unsigned n = 0;

	for (unsigned id = 0; id < fnset__cnt(set); id++)
		n += !api_at(fnset__fn(set, id)->api)->is_requested;
	return n;
}

static void test_default(void **state)
{
	assert_true(wanted("cuInit"));
	assert_true(wanted("cuLaunchKernel"));
	assert_false(wanted("cuCtxGetDevice"));
	fnset__set_detail(set, DETAIL_ALL);
	assert_true(wanted("cuCtxGetDevice"));
	assert_int_equal(wanted_cnt(), usual_cnt());
}

static void test_requested(void **state)
{
	const struct api *nvtx = api_at(API_NVTX);
	char traced[512], not_traced[512];

	assert_true(nvtx->is_requested);
	assert_false(fnset__wants_api(set, nvtx));
	select_ok("all,query");
	assert_false(fnset__wants_api(set, nvtx));
	fnset__describe(set, traced, sizeof(traced), not_traced, sizeof(not_traced));
	assert_string_equal(not_traced, "nothing");
	select_ok("*,cu*,n*");
	assert_true(wanted("cuLaunchKernel"));
	assert_false(wanted("nvtxMarkA"));
	select_ok("launch,nvtxMark*");
	assert_true(wanted("nvtxMarkA"));
	assert_false(wanted("nvtxRangePop"));
	select_ok("launch");
	fnset__add(set, API_NVTX);
	assert_true(wanted("nvtxRangePop"));
	assert_true(wanted("cuLaunchKernel"));
	assert_false(wanted("cuInit"));
	assert_false(wanted("nvtxWhatever"));
	select_ok("!nvtxMark*");
	assert_true(wanted("cuInit"));
	assert_true(wanted("nvtxRangePop"));
	assert_false(wanted("nvtxMarkA"));
	select_ok("none");
	assert_false(fnset__wants_api(set, nvtx));
}

static void test_ids(void **state)
{
	unsigned cnt = fnset__cnt(set);
	int id = fnset__id(set, "cuWhatever_v3_ptsz");
	const struct api_fn *fn = fnset__fn(set, id);

	assert_int_equal(id, cnt);
	assert_int_equal(fnset__id(set, "cuWhatever_v3_ptsz"), id);
	assert_int_equal(fnset__cnt(set), cnt + 1);
	assert_string_equal(fn->symbol, "cuWhatever_v3_ptsz");
	assert_string_equal(fn->name, "cuWhatever");
	assert_false(fn->known);
	assert_int_equal(fn->arg_cnt, 6);
	assert_int_equal(fn->class, CLASS_OTHER);
	assert_true(fnset__wanted(set, id));
	assert_null(fnset__fn(set, cnt + 1));
	assert_null(fnset__fn(set, UINT32_MAX));
	assert_false(fnset__wanted(set, cnt + 1));
	assert_string_equal(fnset__fn(set, fnset__id(set, "cuInit"))->name, "cuInit");
}

static void test_id_limit(void **state)
{
	char name[32];
	int id = 0;

	for (unsigned i = 0; i <= CT_MAX_FUNCS && id >= 0; i++) {
		snprintf(name, sizeof(name), "cuX%u", i);
		id = fnset__id(set, name);
	}
	assert_int_equal(id, -ENOSPC);
	/* The last is the tracer's own. */
	assert_int_equal(fnset__cnt(set), CT_MAX_FUNCS - 1);
	select_ok("other");
	assert_true(wanted("cuX0"));
}

static unsigned reused_cnt;
static char reused[32];

static void on_reuse(void *ctx, unsigned id)
{
	assert_ptr_equal(ctx, &reused_cnt);
	reused_cnt++;
	snprintf(reused, sizeof(reused), "%s", fnset__fn(set, id)->symbol);
}

/* Ids of a file that is gone are reused once no others are left. */
static void test_give_back(void **state)
{
	unsigned cnt = fnset__cnt(set);
	int a, b, id;

	fnset__on_reuse(set, on_reuse, &reused_cnt);
	a = fnset__id(set, "cuOfTwo");
	b = fnset__id(set, "cuOfOne");
	fnset__hold(set, a);
	fnset__hold(set, a);
	fnset__hold(set, b);
	fnset__hold(set, 0); /* of the table: nothing to hold */
	fnset__release(set, 0);
	fnset__release(set, a);
	fnset__release(set, b);
	assert_true(fnset__is_held(set, a));
	assert_false(fnset__is_held(set, b) || fnset__is_held(set, 0));
	/* The same name again: the same id. */
	assert_int_equal(fnset__id(set, "cuOfOne"), b);
	for (unsigned i = cnt + 2; i < CT_MAX_FUNCS - 1; i++) {
		char name[32];

		snprintf(name, sizeof(name), "cuY%u", i);
		assert_int_equal(fnset__id(set, name), i);
	}
	assert_int_equal(reused_cnt, 0);
	id = fnset__id(set, "cuLate");
	assert_int_equal(id, b);
	assert_int_equal(reused_cnt, 1);
	assert_string_equal(reused, "cuOfOne");
	assert_string_equal(fnset__fn(set, id)->symbol, "cuLate");
	assert_int_equal(fnset__find(set, "cuOfOne"), -ENOENT);
	assert_int_equal(fnset__id(set, "cuOfOne"), -ENOSPC);
	fnset__release(set, a);
	assert_int_equal(fnset__id(set, "cuOfOne"), a);
}

static void test_names(void **state)
{
	select_ok("cuMemAlloc");
	assert_true(wanted("cuMemAlloc_v2"));
	assert_false(wanted("cuMemFree_v2"));
	select_ok("cuMemAlloc_v2,cuInit");
	assert_true(wanted("cuMemAlloc_v2"));
	assert_true(wanted("cuInit"));
	assert_int_equal(wanted_cnt(), 2);
	/* The last call wins. */
	select_ok(" cuMemFree , cuInit ");
	assert_false(wanted("cuMemAlloc_v2"));
	assert_true(wanted("cuMemFree_v2"));
	select_ok("cuCtxGetDevice");
	assert_true(wanted("cuCtxGetDevice"));
}

static void test_globs(void **state)
{
	select_ok("cuLaunch*");
	assert_true(wanted("cuLaunchKernelEx"));
	assert_true(wanted("cuLaunchKernel"));
	assert_false(wanted("cuInit"));
	select_ok("*_v2");
	assert_true(wanted("cuMemAlloc_v2"));
	assert_false(wanted("cuLaunchKernel"));
	select_ok("cuMem[AF]*,!cuMemFree");
	assert_true(wanted("cuMemAlloc_v2"));
	assert_false(wanted("cuMemFree_v2"));
}

static void test_classes(void **state)
{
	select_ok("memory,transfer");
	assert_true(wanted("cuMemAlloc_v2"));
	assert_true(wanted("cuMemGetInfo_v2"));
	assert_true(wanted("cuMemcpyHtoD_v2"));
	assert_false(wanted("cuLaunchKernel"));
	select_ok("memory,!query");
	assert_false(wanted("cuMemGetInfo_v2"));
	select_ok("query");
	assert_true(wanted("cuCtxGetDevice"));
	assert_false(wanted("cuInit"));
	select_ok("all");
	assert_int_equal(wanted_cnt(), usual_cnt());
	select_ok("none");
	assert_int_equal(wanted_cnt(), 0);
	select_ok("all,none,launch");
	assert_true(wanted("cuLaunchKernel"));
	assert_false(wanted("cuInit"));
}

static void test_negation(void **state)
{
	select_ok("!memory");
	assert_false(wanted("cuMemAlloc_v2"));
	assert_true(wanted("cuLaunchKernel"));
	assert_false(wanted("cuCtxGetDevice"));
	select_ok("!memory,transfer");
	assert_false(wanted("cuMemcpyHtoD_v2"));
	select_ok("!memory,!transfer");
	assert_false(wanted("cuMemcpyHtoD_v2"));
	assert_false(wanted("cuMemAlloc_v2"));
	assert_true(wanted("cuInit"));
	select_ok("all,!memory,cuMemAlloc");
	assert_true(wanted("cuMemAlloc_v2"));
	assert_false(wanted("cuMemFree_v2"));
	assert_true(wanted("cuCtxGetDevice"));
	select_ok("!all");
	assert_int_equal(wanted_cnt(), 0);
	/* Functions that are found later. */
	select_ok("!other");
	assert_false(wanted("cuTurnsUpLater"));
	select_ok("launch");
	assert_false(wanted("cuTurnsUpStillLater"));
}

/* Functions that each level is the first to include. */
static const struct {
	const char *symbol;
	enum api_detail detail;
} first_of[] = {
	{"cuInit", DETAIL_LOW},
	{"cuLaunchKernel", DETAIL_LOW},
	{"cuGraphLaunch", DETAIL_LOW},
	{"cuGraphAddKernelNode_v2", DETAIL_LOW},
	{"cuMemcpyHtoDAsync_v2", DETAIL_LOW},
	{"cuMemsetD8Async", DETAIL_LOW},
	{"cuMemAllocAsync", DETAIL_LOW},
	{"cuStreamSynchronize", DETAIL_LOW},
	{"cuEventSynchronize", DETAIL_LOW},
	{"cuCtxSynchronize", DETAIL_LOW},
	{"cuModuleLoadData", DETAIL_LOW},
	{"cuLibraryGetKernel", DETAIL_LOW},
	{"cuKernelGetFunction", DETAIL_LOW},
	/* handles of kernels and memory go with it */
	{"cuCtxDestroy_v2", DETAIL_LOW},
	{"cuDevicePrimaryCtxRetain", DETAIL_LOW},
	{"ncclAllReduce", DETAIL_LOW},
	{"ncclGroupStart", DETAIL_LOW},
	{"cuCtxSetCurrent", DETAIL_NORMAL},
	{"cuCtxPushCurrent_v2", DETAIL_NORMAL},
	{"cuCtxPopCurrent_v2", DETAIL_NORMAL},
	{"cuEventRecord", DETAIL_NORMAL},
	{"cuStreamWaitEvent", DETAIL_NORMAL},
	{"cuStreamCreate", DETAIL_NORMAL},
	{"cuThreadExchangeStreamCaptureMode", DETAIL_NORMAL},
	{"cuFuncSetAttribute", DETAIL_NORMAL},
	{"cuNobodyKnows", DETAIL_NORMAL},
	{"cuDeviceGetAttribute", DETAIL_HIGH},
	{"cuFuncGetAttribute", DETAIL_HIGH},
	{"cuOccupancyMaxActiveBlocksPerMultiprocessor", DETAIL_HIGH},
	{"cuGetProcAddress_v2", DETAIL_HIGH},
	{"cuCtxGetCurrent", DETAIL_ALL},
	{"cuEventQuery", DETAIL_ALL},
	{"cuStreamIsCapturing", DETAIL_ALL},
	{"cuPointerGetAttribute", DETAIL_ALL},
	{"ncclCommGetAsyncError", DETAIL_ALL},
};

static void test_details(void **state)
{
	unsigned cnt = 0;

	for (int d = DETAIL_UNSET + 1; d < DETAIL_CNT; d++) {
		fnset__set_detail(set, d);
		for (unsigned i = 0; i < sizeof(first_of) / sizeof(first_of[0]); i++)
			if (wanted(first_of[i].symbol) !=
			    (first_of[i].detail <= (enum api_detail)d))
				fail_msg("--detail=%s: %s", detail_name(d), first_of[i].symbol);
		/* Each level has more than the one before. */
		assert_true(wanted_cnt() > cnt);
		cnt = wanted_cnt();
		assert_int_equal(detail_by_name(detail_name(d)), d);
	}
	assert_int_equal(cnt, usual_cnt());
	assert_int_equal(detail_by_name(""), -1);
	/* Everything except queries: the default. */
	fnset__set_detail(set, DETAIL_NORMAL);
	for (unsigned id = 0; id < fnset__cnt(set); id++)
		assert_int_equal(fnset__wanted(set, id),
				 !api_fn_is_query(fnset__fn(set, id)) &&
					 !api_at(fnset__fn(set, id)->api)->is_requested);
}

static void test_detail_and_expr(void **state)
{
	int launch = fnset__id(set, "cuLaunchKernel"), record = fnset__id(set, "cuEventRecord");

	/* Without a level only -e selects. */
	select_ok("event");
	assert_false(fnset__wanted(set, launch));
	assert_true(fnset__wanted_at(set, DETAIL_LOW, record));
	fnset__set_detail(set, DETAIL_LOW);
	assert_true(fnset__wanted(set, launch) && fnset__wanted(set, record));
	assert_true(fnset__wanted_at(set, DETAIL_LOW, record));
	assert_false(wanted("cuCtxSetCurrent"));
	select_ok("!sync");
	assert_true(fnset__wanted(set, launch));
	assert_false(fnset__wanted(set, record) || wanted("cuStreamSynchronize"));
	select_ok("cuEventRecord,!launch");
	assert_true(fnset__wanted(set, record) && wanted("cuMemAlloc_v2"));
	assert_false(fnset__wanted(set, launch));
	fnset__set_detail(set, DETAIL_ALL);
	select_ok("!launch");
	assert_true(wanted("cuCtxGetDevice"));
	assert_false(fnset__wanted(set, launch));
	assert_false(fnset__wanted_at(set, DETAIL_LOW, record));
	/* For marks only an expression with ! begins with the level's functions. */
	fnset__set_detail(set, DETAIL_LOW);
	assert_int_equal(fnset__mark(set, FNSET_STACK, "memory", err, sizeof(err)), 0);
	assert_false(fnset__is_marked(set, FNSET_STACK, launch));
	assert_int_equal(fnset__mark(set, FNSET_STACK, "!memory", err, sizeof(err)), 0);
	assert_true(fnset__is_marked(set, FNSET_STACK, launch));
	assert_false(fnset__is_marked(set, FNSET_STACK, record));
}

static void check_error(const char *expr, const char *want)
{
	unsigned before = wanted_cnt();

	assert_int_equal(fnset__select(set, expr, err, sizeof(err)), -EINVAL);
	assert_string_equal(err, want);
	/* The earlier selection stays. */
	assert_int_equal(wanted_cnt(), before);
}

static void test_errors(void **state)
{
	select_ok("launch");
	check_error("cuMemAloc",
		    "unknown function or class \"cuMemAloc\": did you mean cuMemAlloc?");
	check_error("cumemalloc",
		    "unknown function or class \"cumemalloc\": did you mean cuMemAlloc?");
	check_error("init,memry", "unknown function or class \"memry\": did you mean memory?");
	check_error("!strem", "unknown function or class \"strem\": did you mean stream?");
	check_error("xyzzyxyzzyxyzzy",
		    "unknown function or class \"xyzzyxyzzyxyzzy\": see cudatrace list");
	check_error("cuFoo*", "no function matches \"cuFoo*\": see cudatrace list");
	check_error("", "empty item in \"\": write names, globs or classes, such as "
			"memory,cuLaunch*");
	check_error("memory,", "empty item in \"memory,\": write names, globs or classes, such as "
			       "memory,cuLaunch*");
	check_error("!", "empty item in \"!\": write names, globs or classes, such as "
			 "memory,cuLaunch*");
}

static void test_error_bounds(void **state)
{
	char name[5000];

	memset(name, 'c', sizeof(name) - 1);
	name[sizeof(name) - 1] = 0;
	assert_int_equal(fnset__select(set, name, err, sizeof(err)), -EINVAL);
	for (size_t n = 1; n < 80; n++) {
		memset(err, 'x', sizeof(err));
		assert_int_equal(fnset__select(set, "cuMemcpyHtoDAsyn", err, n), -EINVAL);
		assert_true(strnlen(err, n) < n);
		assert_int_equal(err[n], 'x');
	}
}

static void test_describe(void **state)
{
	char in[2048], out[2048];

	fnset__describe(set, in, sizeof(in), out, sizeof(out));
	assert_non_null(strstr(in, "init, device"));
	assert_memory_equal(out, "query (", 7);
	assert_null(strchr(out, ','));
	fnset__set_detail(set, DETAIL_ALL);
	fnset__describe(set, in, sizeof(in), out, sizeof(out));
	assert_string_equal(in, "everything");
	assert_string_equal(out, "nothing");
	fnset__set_detail(set, DETAIL_UNSET);
	select_ok("none");
	fnset__describe(set, in, sizeof(in), out, sizeof(out));
	assert_string_equal(in, "nothing");
	select_ok("cuLaunchKernel,init");
	fnset__describe(set, in, sizeof(in), out, sizeof(out));
	assert_memory_equal(in, "init, launch (", 14);
	assert_non_null(strstr(out, "memory ("));
	for (size_t n = 1; n < 200; n++) {
		memset(out, 'x', sizeof(out));
		fnset__describe(set, in, n, out, n);
		assert_true(strnlen(out, n) < n);
		assert_int_equal(out[n], 'x');
	}
}

static int setup(void **state)
{
	set = fnset__new();
	return !set;
}

static void test_marks(void **state)
{
	char text[128];
	int get = fnset__id(set, "cuCtxGetDevice"), launch = fnset__id(set, "cuLaunchKernel");

	assert_false(fnset__is_marked(set, FNSET_COUNT, get));
	fnset__describe_mark(set, FNSET_COUNT, text, sizeof(text));
	assert_string_equal(text, "");
	/* A counted function is traced, whatever -e selects, in any order of the two. */
	assert_int_equal(fnset__mark(set, FNSET_COUNT, "query", err, sizeof(err)), 0);
	assert_true(fnset__is_marked(set, FNSET_COUNT, get));
	assert_false(fnset__is_marked(set, FNSET_COUNT, launch));
	assert_true(wanted("cuCtxGetDevice"));
	assert_true(wanted("cuLaunchKernel"));
	select_ok("launch");
	assert_true(wanted("cuCtxGetDevice"));
	assert_false(wanted("cuMemAlloc_v2"));
	fnset__describe_mark(set, FNSET_COUNT, text, sizeof(text));
	assert_int_equal(strncmp(text, "query (", 7), 0);
	/* A mark that does not select the function for tracing. */
	assert_int_equal(fnset__mark(set, FNSET_NO_RETURN, "cuMemAlloc,launch", err, sizeof(err)),
			 0);
	assert_true(fnset__is_marked(set, FNSET_NO_RETURN, launch));
	assert_false(wanted("cuMemAlloc_v2"));
	assert_int_not_equal(fnset__mark(set, FNSET_COUNT, "nosuch", err, sizeof(err)), 0);
	assert_true(fnset__is_marked(set, FNSET_COUNT, get));
	assert_int_equal(fnset__id_of(set, fnset__fn(set, launch)), launch);
	assert_int_equal(fnset__id_of(set, fnset__fn(set, fnset__id(set, "cuNoRow"))),
			 fnset__id(set, "cuNoRow"));
}

/* A bucket begins at its floor; the previous one ends before. Powers of two end buckets. */
static void test_hist(void **state)
{
	assert_int_equal(ct_hist_index(0), 0);
	assert_int_equal(ct_hist_index(256), 0);
	for (unsigned log = CT_HIST_LOG_MIN; log < CT_HIST_LOG_MAX; log++)
		assert_int_equal(ct_hist_index((1ull << log) + 1), ct_hist_index(1ull << log) + 1);
	for (uint32_t i = 1; i < CT_HIST_CNT; i++) {
		assert_int_equal(ct_hist_index(ct_hist_floor(i)), i);
		assert_int_equal(ct_hist_index(ct_hist_floor(i) - 1), i - 1);
	}
	assert_true(ct_hist_floor(CT_HIST_CNT - 1) > 28ull * 1000000000);
	assert_int_equal(ct_hist_index(UINT64_MAX), CT_HIST_CNT - 1);
}

/* Of NVSHMEM's 1,500 exports, only those need ids that a name or a glob selects. */
static void test_exports_without_row(void **state)
{
	int sum, ids;

	fnset__id(set, "nvshmemx_float_alltoall_on_stream");
	sum = fnset__id(set, "nvshmemx_float_sum_reduce_on_stream");
	ids = fnset__id(set, "nvshmemid_new");
	assert_true(sum >= 0 && ids > sum && fnset__fn(set, ids)->api == API_NVSHMEM);
	assert_true(fnset__may_trace(set, "cuNotInTheTable"));
	select_ok("nvshmem");
	assert_false(fnset__may_trace(set, "nvshmemx_float_sum_reduce_on_stream"));
	select_ok("nvshmemx_*_reduce_on_stream");
	assert_true(fnset__may_trace(set, "nvshmemx_half_sum_reduce_on_stream"));
	assert_false(fnset__may_trace(set, "nvshmemx_half_alltoall_on_stream"));
	fnset__drop_unwanted(set);
	assert_int_equal(fnset__find(set, "nvshmemx_float_alltoall_on_stream"), -ENOENT);
	sum = fnset__find(set, "nvshmemx_float_sum_reduce_on_stream");
	assert_true(fnset__is_generic(set, sum) && fnset__wanted(set, sum));
	assert_int_equal(fnset__id(set, "nvshmemid_new"), sum + 1);
}

static int teardown(void **state)
{
	fnset__free(set);
	return 0;
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_default),
		TEST(test_ids),
		TEST(test_requested),
		TEST(test_id_limit),
		TEST(test_give_back),
		TEST(test_names),
		TEST(test_globs),
		TEST(test_classes),
		TEST(test_negation),
		TEST(test_errors),
		TEST(test_describe),
		TEST(test_error_bounds),
		TEST(test_marks),
		TEST(test_hist),
		TEST(test_details),
		TEST(test_detail_and_expr),
		TEST(test_exports_without_row),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
