/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The CUDA tables of functions: every row is well formed, a few rows match cuda.h, and a real
 * driver exports nothing that is missing in the tables. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "cuda.h"

#ifndef TEST_DATA_DIR
#define TEST_DATA_DIR "tests/unit"
#endif

#define MAX_ARGS 16 /* in families that are traced by default */
#define MAX_CAPS 8
/* include/ct_spec.h: the most that one capture holds. */
#define MAX_CAP_SZ 1024

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* Exported by driver 580, in no header, so without a prototype: traced as class OTHER. */
static const char *const undocumented[] = {
	"cuEGLApiInit",
	"cuMemGetAttribute",
	"cuMemGetAttribute_v2",
};

/* Passed by value, but not in one integer register: code that maps arguments to argument words must
 * handle each of them (see the head of cuda_api.def). */
static const struct {
	const char *name, *arg;
} no_word[] = {
	{"cuIpcOpenEventHandle", "handle"},
	{"cuIpcOpenMemHandle", "handle"},
	{"cuEGLStreamProducerPresentFrame", "eglframe"},
	{"ncclCommInitRank", "commId"},
	{"ncclCommInitRankConfig", "commId"},
	{"ncclTeamRankToWorld", "team"},
	{"ncclTeamRankToLsa", "team"},
	{"ncclLsaBarrierCreateRequirement", "team"},
	{"ncclGinBarrierCreateRequirement", "team"},
	{"ncclGinInboxA2ACreateRequirement", "peers"},
	{"cuParamSetf", "value"},
	{"cuTexRefSetMipmapLevelBias", "bias"},
	{"cuTexRefSetMipmapLevelClamp", "minMipmapLevelClamp"},
	{"cuTexRefSetMipmapLevelClamp", "maxMipmapLevelClamp"},
};

static bool is_arr(const struct api_arg *a)
{
	return a->dir == DIR_IN_ARR || a->dir == DIR_OUT_ARR;
}

static bool is_str(const struct api_arg *a)
{
	return a->dir == DIR_IN_STR || a->dir == DIR_OUT_STR || a->dir == DIR_OUT_PSTR;
}

static const struct api_fn *fn_get(const char *symbol)
{
	const struct api_fn *fn = api_fn_by_symbol(symbol);

	if (!fn)
		fail_msg("no row for %s", symbol);
	return fn;
}

static void check_arg(const struct api_fn *fn, int i)
{
	const struct api_arg *a = &fn->args[i];

	if (!a->type || !a->name || !*a->name || a->dir <= DIR_END || a->dir > DIR_OUT_ARR)
		fail_msg("%s: argument %d is not complete", fn->symbol, i);
	if (!a->type->size)
		fail_msg("%s: %s has no size", fn->symbol, a->name);
	if (a->dir != DIR_IN && !is_str(a) && a->type->size > MAX_CAP_SZ)
		fail_msg("%s: %s is too big to capture", fn->symbol, a->name);
	if (is_arr(a)) {
		const struct api_arg *count = &fn->args[a->count_arg];

		if (a->count_arg >= fn->arg_cnt || count->dir != DIR_IN)
			fail_msg("%s: %s has no number", fn->symbol, a->name);
		if (count->type->kind != KIND_UINT && count->type->kind != KIND_INT)
			fail_msg("%s: %s is no number", fn->symbol, count->name);
	}
	for (int j = 0; j < i; j++)
		if (!strcmp(a->name, fn->args[j].name))
			fail_msg("%s: two arguments named %s", fn->symbol, a->name);
}

static bool has_no_word(const struct api_fn *fn, const struct api_arg *a)
{
	for (size_t i = 0; i < COUNT(no_word); i++)
		if (!strcmp(no_word[i].name, fn->name) && !strcmp(no_word[i].arg, a->name))
			return true;
	return false;
}

static void test_rows(void **state)
{
	unsigned cnt;
	const struct api_fn *fns = api_fns(&cnt);

	assert_true(cnt > 650);
	for (unsigned i = 0; i < cnt; i++) {
		const struct api_fn *fn = &fns[i];
		int caps = 0;

		/* This also checks that symbols are unique. */
		if (api_fn_by_symbol(fn->symbol) != fn)
			fail_msg("%s: found as another row", fn->symbol);
		if (fn->arg_cnt > (api_at(fn->api)->is_requested ? API_ARGS_MAX : MAX_ARGS) ||
		    fn->args[fn->arg_cnt].dir != DIR_END)
			fail_msg("%s: %d arguments", fn->symbol, fn->arg_cnt);
		if (fn->since < 1000 || fn->since % 10)
			fail_msg("%s: since %d", fn->symbol, fn->since);
		assert_true(fn->known);
		assert_true(fn->class < CLASS_OTHER || fn->api != API_CUDA);
		assert_true(fn->op < OP_CNT);
		for (int a = 0; a < fn->arg_cnt; a++) {
			check_arg(fn, a);
			caps += fn->args[a].dir != DIR_IN;
		}
		if (caps > MAX_CAPS && !api_at(fn->api)->is_requested)
			fail_msg("%s: %d captures", fn->symbol, caps);
	}
}

static void test_words(void **state)
{
	unsigned cnt;
	const struct api_fn *fns = api_fns(&cnt);

	for (unsigned i = 0; i < cnt; i++) {
		bool float_seen = false;

		/* A tool drafts their tables; it determines which register has what. */
		if (api_at(fns[i].api)->is_requested)
			continue;
		for (int j = 0; j < fns[i].arg_cnt; j++) {
			const struct api_arg *a = &fns[i].args[j];
			bool odd = a->dir == DIR_IN &&
				   (a->type->size > 8 || a->type->kind == KIND_FLOAT);

			if (odd != has_no_word(&fns[i], a))
				fail_msg("%s: %s: by value in one register, or not?", fns[i].symbol,
					 a->name);
			if (float_seen && !odd)
				fail_msg("%s: %s after a float", fns[i].symbol, a->name);
			float_seen = float_seen || (odd && a->type->kind == KIND_FLOAT);
		}
	}
}

/* The forms of one function mean the same; _ptsz and _ptds differ only in the stream. */
static void test_forms(void **state)
{
	unsigned cnt;
	const struct api_fn *fns = api_fns(&cnt);

	for (unsigned i = 0; i < cnt; i++) {
		const struct api_fn *fn = &fns[i], *plain;
		char symbol[80];
		size_t len = strlen(fn->symbol);

		if (i && !strcmp(fn->name, fns[i - 1].name)) {
			assert_int_equal(fn->class, fns[i - 1].class);
			assert_int_equal(fn->op, fns[i - 1].op);
		}
		if (!fn->per_thread)
			continue;
		snprintf(symbol, sizeof(symbol), "%.*s", (int)len - 5, fn->symbol);
		plain = fn_get(symbol);
		assert_int_equal(plain->arg_cnt, fn->arg_cnt);
		for (int a = 0; a < fn->arg_cnt; a++) {
			assert_int_equal(plain->args[a].dir, fn->args[a].dir);
			assert_int_equal(plain->args[a].count_arg, fn->args[a].count_arg);
			assert_ptr_equal(plain->args[a].type, fn->args[a].type);
			assert_string_equal(plain->args[a].name, fn->args[a].name);
		}
	}
}

static const struct api_arg *arg_of(const struct api_fn *fn, enum cuda_dir dir, const char *type)
{
	for (int i = 0; i < fn->arg_cnt; i++)
		if (fn->args[i].dir == dir && !strcmp(fn->args[i].type->name, type))
			return &fn->args[i];
	return NULL;
}

static bool has_ptr_out(const struct api_fn *fn)
{
	for (int i = 0; i < fn->arg_cnt; i++)
		if (fn->args[i].dir == DIR_OUT && fn->args[i].type->size == 8)
			return true;
	return false;
}

/* Conditions that model/ relies on for an op. */
static void check_op(const struct api_fn *fn)
{
	int bytes = api_fn_bytes_arg(fn);

	switch (fn->op) {
	case OP_ALLOC:
	case OP_ALLOC_MANAGED:
	case OP_ALLOC_ASYNC:
		assert_true(bytes >= 0);
		assert_true(arg_of(fn, DIR_OUT, "CUdeviceptr") ||
			    arg_of(fn, DIR_OUT, "CUdeviceptr_v1"));
		break;
	case OP_FREE:
	case OP_FREE_ASYNC:
		assert_true(arg_of(fn, DIR_IN, "CUdeviceptr") ||
			    arg_of(fn, DIR_IN, "CUdeviceptr_v1"));
		break;
	case OP_ALLOC_HOST:
	case OP_MEM_CREATE:
	case OP_RESERVE:
		assert_true(bytes >= 0);
		assert_true(has_ptr_out(fn));
		break;
	case OP_COPY:
	case OP_COPY_HTOD:
	case OP_COPY_DTOH:
	case OP_COPY_DTOD:
	case OP_COPY_PEER:
	case OP_COPY_HTOA:
	case OP_COPY_ATOH:
	case OP_COPY_DTOA:
	case OP_COPY_ATOD:
	case OP_COPY_ATOA:
		assert_true(bytes >= 0);
		break;
	case OP_COPY_2D:
	case OP_COPY_3D:
	case OP_COPY_3D_PEER:
		assert_int_equal(fn->args[0].dir, DIR_IN_PTR);
		break;
	case OP_LAUNCH:
		assert_string_equal(fn->args[0].type->name, "CUfunction");
		assert_string_equal(fn->args[8].type->name, "CUstream");
		break;
	case OP_LAUNCH_EX:
		assert_string_equal(fn->args[0].type->name, "CUlaunchConfig");
		assert_string_equal(fn->args[1].type->name, "CUfunction");
		break;
	case OP_GRAPH_LAUNCH:
	case OP_UPLOAD:
		assert_string_equal(fn->args[0].type->name, "CUgraphExec");
		assert_string_equal(fn->args[1].type->name, "CUstream");
		break;
	case OP_CREATE:
		assert_true(has_ptr_out(fn) || fn->api != API_CUDA ||
			    !strncmp(fn->symbol, "cuTensorMap", 11));
		break;
	case OP_DESTROY:
		assert_true(fn->arg_cnt >= 1);
		break;
	default:
		break;
	}
}

/* The copy direction in the function's name; DtoD includes arrays. */
static enum copy_dir dir_in_name(const char *name)
{
	static const struct {
		const char *part;
		enum copy_dir dir;
	} parts[] = {
		{"HtoD", COPY_DIR_HTOD}, {"HtoA", COPY_DIR_HTOD}, {"DtoH", COPY_DIR_DTOH},
		{"AtoH", COPY_DIR_DTOH}, {"DtoD", COPY_DIR_DTOD}, {"DtoA", COPY_DIR_DTOD},
		{"AtoD", COPY_DIR_DTOD}, {"AtoA", COPY_DIR_DTOD}, {"Peer", COPY_DIR_PEER},
	};

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (strstr(name, parts[i].part))
			return parts[i].dir;
	return COPY_NONE;
}

static int count_fns(unsigned does, enum api_class class)
{
	unsigned cnt, n = 0;
	const struct api_fn *fns = api_fns(&cnt);

	for (unsigned i = 0; i < cnt; i++)
		n += op_does(fns[i].op, does) && fns[i].class == class;
	return n;
}

/* A row of cuda_ops.def fits the names and classes of its functions. */
static void test_op_desc(void **state)
{
	unsigned cnt;
	const struct api_fn *fns = api_fns(&cnt);

	for (unsigned i = 0; i < cnt; i++) {
		const struct api_fn *fn = &fns[i];
		const struct op_desc *op = &op_desc[fn->op];
		bool launches = op->does & (DOES_LAUNCH | DOES_LAUNCH_GRAPH);

		assert_string_equal(op->name, api_op_name(fn->op));
		assert_int_equal(!!(op->does & DOES_COPY), !strcmp(op->name, "copy"));
		if (op->does & DOES_COPY)
			assert_int_equal(op->dir, dir_in_name(fn->name));
		else
			assert_int_equal(op->dir, COPY_NONE);
		assert_int_equal(launches, !strcmp(op->name, "launch"));
		assert_int_equal(!!(op->does & DOES_SUBMIT),
				 launches || fn->class == CLASS_TRANSFER);
		/* Calls that allocate or free memory are never dropped for being short. */
		if (op->makes)
			assert_true(op->does & IS_KEPT);
		if (op->does & DOES_SUBMIT)
			assert_false(op->does & IS_KEPT);
		if (fn->class == CLASS_MEMORY && !strncmp(op->name, "alloc", 5))
			assert_int_equal(op->makes, 1);
		if (fn->class == CLASS_MEMORY && !strncmp(op->name, "free", 4))
			assert_int_equal(op->makes, -1);
	}
	/* Launches in two forms (_ptsz): by words, by a struct, cooperative; one for several
	 * devices, three old ones. Then launches of a graph. */
	assert_int_equal(count_fns(DOES_LAUNCH, CLASS_LAUNCH), 10);
	assert_int_equal(count_fns(DOES_LAUNCH_GRAPH, CLASS_GRAPH), 2);
}

static void test_blocks(void **state)
{
	assert_int_equal(op_desc[OP_ALLOC_ASYNC].block, BLOCK_POOL);
	assert_int_equal(block_desc[BLOCK_POOL].counted, MEM_DEVICE);
	assert_false(block_desc[BLOCK_POOL].in_context);
	assert_int_equal(block_desc[BLOCK_VMM].space, SPACE_HANDLE);
	assert_int_equal(block_desc[BLOCK_REGISTERED].counted, MEM_HOST);
	assert_int_equal(block_desc[BLOCK_RESERVED].counted, MEM_NONE);
	for (int k = 0; k < MEM_KIND_CNT; k++)
		assert_string_equal(mem_kind_name(k), block_desc[k].name);
	assert_null(copy_dir_name(COPY_NONE));
	assert_string_equal(copy_dir_name(COPY_DIR_PEER), "peer");
}

static void test_ops(void **state)
{
	bool class_used[CLASS_CNT] = {0}, op_used[OP_CNT] = {0};
	unsigned cnt;
	const struct api_fn *fns = api_fns(&cnt);

	for (unsigned i = 0; i < cnt; i++) {
		const struct api_fn *fn = &fns[i];

		class_used[fn->class] = op_used[fn->op] = true;
		assert_int_equal(api_fn_is_query(fn), fn->op == OP_QUERY);
		/* A query never waits, and a call that waits is not a query. */
		assert_int_equal(fn->class == CLASS_SYNC, fn->op == OP_SYNC);
		check_op(fn);
	}
	for (int c = 0; c < CLASS_CNT; c++)
		if (!class_used[c] && c != CLASS_OTHER && c != CLASS_QUERY)
			fail_msg("class %s has no row", api_class_name(c));
	for (int o = 0; o < OP_CNT; o++)
		if (!op_used[o])
			fail_msg("op %s (%d) has no row", api_op_name(o), o);
}

static void check_args(const char *symbol, enum api_class class, enum api_op op, int arg_cnt,
		       const char *const *names)
{
	const struct api_fn *fn = fn_get(symbol);

	assert_int_equal(fn->class, class);
	assert_int_equal(fn->op, op);
	assert_int_equal(fn->arg_cnt, arg_cnt);
	for (int i = 0; i < arg_cnt; i++)
		assert_string_equal(fn->args[i].name, names[i]);
}

#define CHECK_ARGS(symbol, class, op, ...)                                                         \
	do {                                                                                       \
		const char *const names[] = {__VA_ARGS__};                                         \
		check_args(symbol, class, op, COUNT(names), names);                                \
	} while (0)

static void test_known_rows(void **state)
{
	const struct api_fn *fn;

	CHECK_ARGS("cuLaunchKernel", CLASS_LAUNCH, OP_LAUNCH, "f", "gridDimX", "gridDimY",
		   "gridDimZ", "blockDimX", "blockDimY", "blockDimZ", "sharedMemBytes", "hStream",
		   "kernelParams", "extra");
	CHECK_ARGS("cuMemAlloc_v2", CLASS_MEMORY, OP_ALLOC, "dptr", "bytesize");
	CHECK_ARGS("cuGraphLaunch", CLASS_GRAPH, OP_GRAPH_LAUNCH, "hGraphExec", "hStream");
	CHECK_ARGS("cuStreamWaitEvent", CLASS_STREAM, OP_WAIT, "hStream", "hEvent", "Flags");
	CHECK_ARGS("cuModuleGetFunction", CLASS_MODULE, OP_LOOKUP, "hfunc", "hmod", "name");
	CHECK_ARGS("cuDeviceComputeCapability", CLASS_DEVICE, OP_QUERY, "major", "minor", "dev");

	fn = fn_get("cuMemAlloc_v2");
	assert_int_equal(fn->args[0].dir, DIR_OUT);
	assert_string_equal(fn->args[0].type->name, "CUdeviceptr");
	assert_int_equal(api_fn_bytes_arg(fn), 1);
	assert_int_equal(fn->since, 3020);
	/* The form of CUDA 2.0: 32 bits. */
	fn = fn_get("cuMemAlloc");
	assert_int_equal(fn->args[0].type->size, 4);
	assert_int_equal(fn->args[1].type->size, 4);
	assert_int_equal(api_fn_bytes_arg(fn), 1);
	assert_int_equal(fn->since, 2000);
	assert_int_equal(api_fn_bytes_arg(fn_get("cuStreamSynchronize")), -1);

	fn = fn_get("cuModuleLoadDataEx");
	assert_int_equal(fn->args[1].dir, DIR_IN);
	assert_int_equal(fn->args[1].type->kind, KIND_PTR);
	assert_int_equal(fn->args[3].dir, DIR_IN_ARR);
	assert_int_equal(fn->args[3].count_arg, 2);
	assert_string_equal(fn->args[3].type->name, "CUjit_option");
	assert_int_equal(fn_get("cuModuleGetFunction")->args[2].dir, DIR_IN_STR);
	assert_int_equal(fn_get("cuDeviceGetName")->args[0].dir, DIR_OUT_STR);
	assert_int_equal(fn_get("cuFuncGetName")->args[0].dir, DIR_OUT_PSTR);
	assert_int_equal(fn_get("cuMemHostAlloc")->args[0].type->kind, KIND_HEX);

	assert_true(fn_get("cuMemcpyHtoDAsync_v2")->is_async);
	assert_false(fn_get("cuMemcpyHtoD_v2")->is_async);
	assert_true(fn_get("cuLaunchKernel_ptsz")->per_thread);
	assert_false(fn_get("cuLaunchKernel")->per_thread);
	assert_int_equal(fn_get("cuCtxSynchronize")->arg_cnt, 0);
}

/* Calls that programs make by the hundred thousand are queries; calls that provide names and
 * handles to the model are not. */
static void test_queries(void **state)
{
	static const char *const queries[] = {
		"cuCtxGetDevice_v2",
		"cuCtxGetDevice",
		"cuDevicePrimaryCtxGetState",
		"cuCtxGetCurrent",
		"cuGetErrorString",
		"cuKernelGetAttribute",
		"cuGetProcAddress_v2",
		"cuDriverGetVersion",
		"cuCtxGetLimit",
		"cuDeviceGetAttribute",
		"cuStreamIsCapturing",
		"cuStreamQuery",
		"cuEventQuery",
		"cuPointerGetAttribute",
		"cuStreamGetCaptureInfo_v3",
		"cuMemGetInfo_v2",
		"cuGraphGetNodes",
		"cuEventElapsedTime_v2",
		"cuOccupancyMaxActiveClusters",
	};
	static const char *const shown[] = {
		"cuModuleGetFunction",	     "cuLibraryGetKernel",
		"cuKernelGetFunction",	     "cuFuncGetName",
		"cuKernelGetName",	     "cuLibraryGetModule",
		"cuModuleGetGlobal_v2",	     "cuGetExportTable",
		"cuLibraryEnumerateKernels", "cuThreadExchangeStreamCaptureMode",
		"cuStreamSynchronize",	     "cuCtxSetCurrent",
		"cuFuncGetModule",	     "cuKernelGetLibrary",
	};

	for (size_t i = 0; i < COUNT(queries); i++)
		if (!api_fn_is_query(fn_get(queries[i])))
			fail_msg("%s is a query", queries[i]);
	for (size_t i = 0; i < COUNT(shown); i++)
		if (api_fn_is_query(fn_get(shown[i])))
			fail_msg("%s is no query", shown[i]);
}

static void test_public_name(void **state)
{
	static const struct {
		const char *symbol, *name;
	} cases[] = {
		{"cuCtxCreate_v4", "cuCtxCreate"},
		{"cuMemcpyHtoDAsync_v2_ptsz", "cuMemcpyHtoDAsync"},
		{"cuMemcpy_ptds", "cuMemcpy"},
		{"cuCtxGetId", "cuCtxGetId"},
		{"cuDeviceGetUuid_v2", "cuDeviceGetUuid"},
		{"cuMemsetD32", "cuMemsetD32"},
		{"cuMemsetD2D16_v2_ptds", "cuMemsetD2D16"},
		{"cuTexRefSetAddress2D_v3", "cuTexRefSetAddress2D"},
		{"cuStreamWriteValue64", "cuStreamWriteValue64"},
		{"cuFuture_v12", "cuFuture"},
		{"", ""},
		{"_v2", "_v2"},
		{"_ptsz", "_ptsz"},
	};
	char buf[64], small[8];

	for (size_t i = 0; i < COUNT(cases); i++) {
		api_public_name(cases[i].symbol, buf, sizeof(buf));
		assert_string_equal(buf, cases[i].name);
	}
	api_public_name("cuMemcpyHtoD_v2", small, sizeof(small));
	assert_string_equal(small, "cuMemcp");
}

static void test_lookups(void **state)
{
	assert_null(api_fn_by_symbol("cuNothing"));
	assert_null(api_fn_by_symbol(""));
	assert_null(api_fn_by_symbol("cuMemAlloc_v9"));
	assert_int_equal(api_class_by_name("launch", 6), CLASS_LAUNCH);
	assert_int_equal(api_class_by_name("launch,sync", 6), CLASS_LAUNCH);
	assert_int_equal(api_class_by_name("launc", 5), -1);
	assert_int_equal(api_class_by_name("", 0), -1);
	for (int c = 0; c < CLASS_CNT; c++) {
		const char *name = api_class_name(c);

		assert_int_equal(api_class_by_name(name, strlen(name)), c);
		assert_true(*api_class_text(c));
	}
	assert_string_equal(api_op_name(OP_LAUNCH_EX), "launch");
	assert_null(api_type_by_name("CUnothing"));
}

static bool is_undocumented(const char *symbol)
{
	for (size_t i = 0; i < COUNT(undocumented); i++)
		if (!strcmp(undocumented[i], symbol))
			return true;
	return false;
}

static void test_exports(void **state)
{
	FILE *f = fopen(TEST_DATA_DIR "/libcuda-580-exports.txt", "r");
	unsigned lines = 0, unknown = 0;
	char line[128];

	if (!f)
		fail_msg("cannot open %s/libcuda-580-exports.txt: run from the top of the tree",
			 TEST_DATA_DIR);
	while (fgets(line, sizeof(line), f)) {
		bool known;

		line[strcspn(line, "\n")] = 0;
		known = api_fn_by_symbol(line);
		if (known == is_undocumented(line))
			fail_msg("%s: %s", line,
				 known ? "has a row, take it off the list" : "no row");
		unknown += !known;
		lines++;
	}
	fclose(f);
	assert_int_equal(lines, 674);
	assert_int_equal(unknown, COUNT(undocumented));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows),	    cmocka_unit_test(test_words),
		cmocka_unit_test(test_forms),	    cmocka_unit_test(test_ops),
		cmocka_unit_test(test_op_desc),	    cmocka_unit_test(test_blocks),
		cmocka_unit_test(test_known_rows),  cmocka_unit_test(test_queries),
		cmocka_unit_test(test_public_name), cmocka_unit_test(test_lookups),
		cmocka_unit_test(test_exports),
	};

	return cmocka_run_group_tests_name("cuda_tables", tests, NULL, NULL);
}
