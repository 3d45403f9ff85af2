/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ct_bpf.h"
#include "ct_record.h"
#include "decode/value.h"
#include "json_check.h"
#include "random.h"
#include "text/json.h"

static const struct api_fn *fn(const char *symbol)
{
	const struct api_fn *f = api_fn_by_symbol(symbol);

	if (!f)
		fail_msg("no row for %s", symbol);
	return f;
}

static void check_cap(const struct api_fn *f, const struct ct_spec *spec, const struct ct_cap *cap)
{
	if (cap->kind == CT_CAP_NONE || cap->kind > CT_CAP_EXTRA || !cap->size ||
	    cap->size > CT_CAP_SZ_MAX || cap->arg >= spec->word_cnt ||
	    (cap->kind == CT_CAP_ARR && cap->count_arg >= spec->word_cnt))
		fail_msg("%s: a capture that makes no sense", f->symbol);
}

static void test_specs(void **state)
{
	unsigned cnt;
	const struct api_fn *fns = api_fns(&cnt);

	assert_true(cnt < CT_MAX_FUNCS);
	for (unsigned i = 0; i < cnt; i++) {
		const struct api_fn *f = &fns[i];
		struct ct_spec spec;
		int last = -1;

		api_fn_spec(f, &spec);
		assert_true(spec.word_cnt <= CT_MAX_WORDS);
		assert_true(spec.cap_cnt <= CT_MAX_CAPS);
		for (unsigned c = 0; c < spec.cap_cnt; c++)
			check_cap(f, &spec, &spec.caps[c]);
		for (unsigned a = 0; a < f->arg_cnt; a++) {
			int cap = api_arg_cap(f, a), word = api_arg_word(f, a);

			assert_true(word < spec.word_cnt);
			if (word < 0 && !api_at(f->api)->is_requested &&
			    !(f->args[a].dir == DIR_IN &&
			      (f->args[a].type->kind == KIND_FLOAT ||
			       f->args[a].type->size > 8 * (CT_MAX_WORDS - CT_REG_WORDS_X86))))
				fail_msg("%s: argument %u is in no word", f->symbol, a);
			/* Parameters of kernels are the last pointee, and only in-process. */
			if (cap < 0 || spec.caps[cap].kind == CT_CAP_PARAMS)
				continue;
			assert_true(cap > last && cap < spec.cap_cnt);
			assert_int_equal(spec.caps[cap].arg, word);
			last = cap;
		}
	}
}

static struct ct_spec spec_of(const char *symbol)
{
	struct ct_spec spec;

	api_fn_spec(fn(symbol), &spec);
	return spec;
}

static void check_one(struct ct_cap c, enum ct_cap_kind kind, unsigned arg, unsigned flags,
		      unsigned size)
{
	assert_int_equal(c.kind, kind);
	assert_int_equal(c.arg, arg);
	assert_int_equal(c.flags, flags);
	assert_int_equal(c.size, size);
}

/* Functions that need a kernel's name, and those after which names are read again. */
static void test_spec_handles(void **state)
{
	static const struct {
		const char *symbol;
		uint8_t word, flags;
	} rows[] = {
		{"cuLaunchKernel", 1, 0},
		{"cuLaunchKernelEx_ptsz", 2, 0},
		{"cuLaunchCooperativeKernel", 1, 0},
		{"cuModuleGetFunction", 1, CT_SPEC_F_HANDLE_OUT},
		{"cuLibraryGetKernel", 1, CT_SPEC_F_HANDLE_OUT},
		{"cuKernelGetFunction", 2, 0},
		{"cuFuncGetName", 2, 0},
		{"cuModuleEnumerateFunctions", 0, 0},
		{"cuFuncGetAttribute", 0, 0},
		{"cuModuleGetGlobal_v2", 0, 0},
		{"cuMemAlloc_v2", 0, 0},
		{"cuModuleUnload", 0, CT_SPEC_F_UNLOADS},
		{"cuLibraryUnload", 0, CT_SPEC_F_UNLOADS},
		{"cuCtxDestroy_v2", 0, CT_SPEC_F_UNLOADS},
		{"cuDevicePrimaryCtxReset_v2", 0, CT_SPEC_F_UNLOADS},
		{"cuDevicePrimaryCtxRelease_v2", 0, CT_SPEC_F_UNLOADS},
		{"cuStreamDestroy_v2", 0, 0},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ct_spec s = spec_of(rows[i].symbol);

		if (s.handle_word != rows[i].word ||
		    (s.flags & (CT_SPEC_F_HANDLE_OUT | CT_SPEC_F_UNLOADS)) != rows[i].flags)
			fail_msg("%s: word %u, flags %#x", rows[i].symbol, s.handle_word, s.flags);
	}
}

/* For every function of the table: no spec requests redacted data. */
static void test_spec_hiding(void **state)
{
	const struct api_fn *rows;
	struct ct_spec all, s;
	unsigned cnt, texts = 0;

	rows = api_fns(&cnt);
	for (unsigned i = 0; i < cnt; i++) {
		api_fn_spec(&rows[i], &all);
		api_fn_spec_redacting(&rows[i], CT_REDACT_NOTHING, &s);
		assert_memory_equal(&s, &all, sizeof(s));
		api_fn_spec_redacting(&rows[i], CT_REDACT_ARGS, &s);
		/* The operator of PyTorch is not an argument. */
		if (!(s.flags & (CT_SPEC_F_OPERATOR | CT_SPEC_F_NODE)))
			assert_int_equal(s.word_cnt, 0);
		assert_int_equal(s.cap_cnt + s.bytes_word + s.handle_word, 0);
		assert_int_equal(s.flags, all.flags);
		api_fn_spec_redacting(&rows[i], CT_REDACT_STRINGS, &s);
		assert_int_equal(s.word_cnt, all.word_cnt);
		assert_int_equal(s.cap_cnt, all.cap_cnt);
		assert_int_equal(s.handle_word, 0);
		for (unsigned n = 0; n < s.cap_cnt; n++) {
			bool text = s.caps[n].kind == CT_CAP_STR || s.caps[n].kind == CT_CAP_PSTR ||
				    s.caps[n].kind == CT_CAP_FSTR;

			assert_int_equal(s.caps[n].size, text ? 0 : all.caps[n].size);
			texts += text;
		}
	}
	assert_true(texts > 30);
}

/* The in-process library must forward more than registers if an argument may be outside of them. */
static void test_spec_in_regs(void **state)
{
	struct api_fn unknown = *fn("cuMemAlloc_v2");
	struct ct_spec spec;

	assert_true(spec_of("cuMemAlloc_v2").in_regs);
	assert_true(spec_of("cuCtxSynchronize").in_regs);
	assert_true(spec_of("cuLaunchKernelEx").in_regs);
	assert_true(spec_of("ncclCommInitAll").in_regs);
	assert_false(spec_of("cuLaunchKernel").in_regs);
#ifdef __x86_64__
	assert_false(spec_of("cuIpcOpenMemHandle_v2").in_regs);
	assert_false(spec_of("cuIpcOpenEventHandle").in_regs);
	assert_false(spec_of("ncclCommInitRank").in_regs);
	assert_false(spec_of("ncclReduce").in_regs);
#endif
	unknown.known = false;
	api_fn_spec(&unknown, &spec);
	assert_int_equal(spec.word_cnt, 2);
	assert_false(spec.in_regs);
}

static void test_spec_rows(void **state)
{
	struct ct_spec s = spec_of("cuMemAlloc_v2");

	assert_int_equal(s.word_cnt, 2);
	assert_int_equal(s.cap_cnt, 1);
	assert_int_equal(s.flags, CT_SPEC_F_KEEP);
	check_one(s.caps[0], CT_CAP_MEM, 0, CT_CAP_F_ON_SUCCESS, 8);

	s = spec_of("cuLaunchKernel");
	assert_int_equal(s.word_cnt, 11);
	assert_int_equal(s.cap_cnt, 1);
	check_one(s.caps[0], CT_CAP_EXTRA, 10, 0, 4);
	assert_int_equal(s.caps[0].off, 32);
	assert_int_equal(s.flags, 0);

	s = spec_of("ncclAllReduce");
	assert_int_equal(s.cap_cnt, 1);
	check_one(s.caps[0], CT_CAP_COMM, 5, 0, sizeof(struct ct_comm));
	s = spec_of("ncclCommInitRank");
	assert_int_equal(s.cap_cnt, 2);
	check_one(s.caps[0], CT_CAP_MEM, 0, CT_CAP_F_ON_SUCCESS, 8);
	check_one(s.caps[1], CT_CAP_COMM, 0, CT_CAP_F_DEREF, sizeof(struct ct_comm));

	s = spec_of("cuLaunchKernelEx");
	assert_int_equal(s.word_cnt, 4);
	assert_int_equal(s.cap_cnt, 3);
	check_one(s.caps[0], CT_CAP_MEM, 0, 0, 56);
	check_one(s.caps[1], CT_CAP_PARR, 0, 0, 72);
	assert_int_equal(s.caps[1].off, 40);
	assert_int_equal(s.caps[1].count_off, 48);

	s = spec_of("cuModuleGetFunction");
	check_one(s.caps[0], CT_CAP_MEM, 0, CT_CAP_F_ON_SUCCESS, 8);
	check_one(s.caps[1], CT_CAP_STR, 2, 0, 1024);

	s = spec_of("cuFuncGetName");
	check_one(s.caps[0], CT_CAP_PSTR, 0, CT_CAP_F_ON_SUCCESS, 1024);

	s = spec_of("cuDeviceGetName");
	check_one(s.caps[0], CT_CAP_STR, 0, CT_CAP_F_ON_SUCCESS, 256);

	s = spec_of("cuModuleEnumerateFunctions");
	check_one(s.caps[0], CT_CAP_ARR, 0, CT_CAP_F_ON_SUCCESS, 8);
	assert_int_equal(s.caps[0].count_arg, 1);
#ifdef __x86_64__
	/* 64 bytes by value: on the stack, so that the flags are in the second register. */
	s = spec_of("cuIpcOpenMemHandle_v2");
	assert_int_equal(s.word_cnt, 14);
	assert_int_equal(api_arg_word(fn("cuIpcOpenMemHandle_v2"), 1), 6);
	assert_int_equal(api_arg_word(fn("cuIpcOpenMemHandle_v2"), 2), 1);
#endif
	assert_int_equal(api_arg_word(fn("cuTexRefSetMipmapLevelBias"), 1), -1);
	assert_int_equal(api_arg_by_name(fn("cuMemAlloc_v2"), "bytesize"), 1);
	assert_int_equal(api_arg_by_name(fn("cuMemAlloc_v2"), "size"), -1);
}

static void check_args(const struct api_fn *f, const uint64_t *words, unsigned word_cnt,
		       const struct pointee *caps, unsigned cap_cnt, const char *want)
{
	struct out *o = out__memory();
	struct json j;

	json__init(&j, o);
	json_open(&j, NULL);
	api_visit_args(f, words, word_cnt, caps, cap_cnt, &j.v);
	json_close(&j);
	if (!json_valid(o->buf, o->len))
		fail_msg("%s: no JSON: %.*s", f->symbol, (int)o->len, o->buf);
	out_char(o, 0);
	if (want)
		assert_string_equal(o->buf, want);
	out__close(o);
}

#define WORDS(...)                                                                                 \
	(const uint64_t[]){__VA_ARGS__}, sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t)
#define CAP(p, n) ((struct pointee){(const uint8_t *)(p), n})

static void test_in(void **state)
{
	check_args(fn("cuInit"), WORDS(0xdeadbeef00000000), NULL, 0, "{\"Flags\":0}");
	check_args(fn("cuMemcpyHtoD_v2"), WORDS(0x7f0000001000, 0, 4096), NULL, 0,
		   "{\"dstDevice\":\"0x7f0000001000\",\"srcHost\":\"0x0\",\"ByteCount\":4096}");
	/* Words that are missing in the record. */
	check_args(fn("cuMemcpyHtoD_v2"), WORDS(0x1000), NULL, 0,
		   "{\"dstDevice\":\"0x1000\",\"srcHost\":null,\"ByteCount\":null}");
	check_args(fn("cuCtxResetPersistingL2Cache"), NULL, 0, NULL, 0, "{}");
	check_args(fn("cuCtxSetFlags"), WORDS(0), NULL, 0, "{\"flags\":\"CU_CTX_SCHED_AUTO\"}");
	check_args(fn("cuCtxSetFlags"), WORDS(0x600000009), NULL, 0,
		   "{\"flags\":\"CU_CTX_SCHED_SPIN|CU_CTX_MAP_HOST\"}");
	check_args(fn("cuCtxSetFlags"), WORDS(0x80001004), NULL, 0,
		   "{\"flags\":\"CU_CTX_SCHED_BLOCKING_SYNC|0x80001000\"}");
	check_args(fn("cuCtxSetFlags"), WORDS(0x1000), NULL, 0, "{\"flags\":\"0x1000\"}");
	check_args(fn("cuCtxSetLimit"), WORDS(0xffffffff00000001, 5), NULL, 0,
		   "{\"limit\":\"CU_LIMIT_PRINTF_FIFO_SIZE\",\"value\":5}");
	check_args(fn("cuCtxSetLimit"), WORDS(77777, 5), NULL, 0, "{\"limit\":77777,\"value\":5}");
	check_args(fn("cuMemsetD8_v2"), WORDS(0x1000, 0x12345ff, 3), NULL, 0,
		   "{\"dstDevice\":\"0x1000\",\"uc\":\"0xff\",\"N\":3}");
	check_args(fn("cuTexRefSetMipmapLevelBias"), WORDS(0x10), NULL, 0,
		   "{\"hTexRef\":\"0x10\",\"bias\":null}");
	/* A struct of 8 bytes by value. */
	check_args(fn("cuMemAdvise_v2"), WORDS(0x10, 1, 1, 0xffffffff00000001), NULL, 0,
		   "{\"devPtr\":\"0x10\",\"count\":1,\"advice\":\"CU_MEM_ADVISE_SET_READ_MOSTLY\","
		   "\"location\":{\"type\":\"CU_MEM_LOCATION_TYPE_DEVICE\",\"id\":-1}}");
}

static void test_by_value(void **state)
{
#ifdef __x86_64__
	static const uint64_t words[14] = {[0] = 0x7ffc0000, [1] = 1, [6] = 0x0807060504030201};
	uint64_t ptr = 0x7f0000002000;

	check_args(fn("cuIpcOpenMemHandle_v2"), words, 14, &CAP(&ptr, 8), 1,
		   "{\"pdptr\":\"0x7f0000002000\",\"handle\":\"0102030405060708"
		   "00000000000000000000000000000000000000000000000000000000"
		   "00000000000000000000000000000000000000000000000000000000\","
		   "\"Flags\":\"CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS\"}");
#else
	skip();
#endif
}

static void test_out(void **state)
{
	const struct api_fn *f = fn("cuMemAlloc_v2");
	uint64_t ptr = 0x7f1200000000;
	char uuid[16] = "\x01\x02\xff";

	check_args(f, WORDS(0x7ffc0000, 64), &CAP(&ptr, 8), 1,
		   "{\"dptr\":\"0x7f1200000000\",\"bytesize\":64}");
	/* Failed, unreadable, truncated, no capture at all. */
	check_args(f, WORDS(0x7ffc0000, 64), &CAP(NULL, 0), 1, "{\"dptr\":null,\"bytesize\":64}");
	check_args(f, WORDS(0x7ffc0000, 64), &CAP(NULL, -14), 1, "{\"dptr\":null,\"bytesize\":64}");
	check_args(f, WORDS(0x7ffc0000, 64), &CAP(&ptr, 7), 1, "{\"dptr\":null,\"bytesize\":64}");
	check_args(f, WORDS(0x7ffc0000, 64), NULL, 0, "{\"dptr\":null,\"bytesize\":64}");
	/* No room in the record. */
	check_args(f, WORDS(0x7ffc0000, 64), &CAP(NULL, -ENOSPC), 1,
		   "{\"dptr\":\"...\",\"bytesize\":64}");
	check_args(f, WORDS(0, 64), &CAP(NULL, -ENOSPC), 1, "{\"dptr\":null,\"bytesize\":64}");
	check_args(fn("cuDeviceGetUuid"), WORDS(0x7ffc0000, 0), &CAP(uuid, 16), 1,
		   "{\"uuid\":\"0102ff00000000000000000000000000\",\"dev\":0}");
}

static void test_text(void **state)
{
	const struct api_fn *f = fn("cuDeviceGetName");
	char big[1024], want[400];

	check_args(f, WORDS(0x7ffc0000, 64, 0), &CAP("NVIDIA \"H200\"", 14), 1,
		   "{\"name\":\"NVIDIA \\\"H200\\\"\",\"len\":64,\"dev\":0}");
	check_args(f, WORDS(0x7ffc0000, 64, 0), &CAP("a\xff\n", 4), 1,
		   "{\"name\":\"a\xef\xbf\xbd\\u000a\",\"len\":64,\"dev\":0}");
	check_args(f, WORDS(0x7ffc0000, 64, 0), &CAP("", 1), 1,
		   "{\"name\":\"\",\"len\":64,\"dev\":0}");
	check_args(f, WORDS(0x7ffc0000, 64, 0), &CAP(NULL, 0), 1,
		   "{\"name\":null,\"len\":64,\"dev\":0}");
	memset(big, 'x', sizeof(big));
	big[3] = 0;
	check_args(f, WORDS(0x7ffc0000, 64, 0), &CAP(big, 256), 1,
		   "{\"name\":\"xxx\",\"len\":64,\"dev\":0}");
	/* 255 characters: complete, or truncated. */
	memset(big, 0, sizeof(big));
	memset(big, 'x', 255);
	snprintf(want, sizeof(want), "{\"name\":\"%.255s\",\"len\":64,\"dev\":0}", big);
	check_args(f, WORDS(0x7ffc0000, 64, 0), &CAP(big, 256), 1, want);
	snprintf(want, sizeof(want), "{\"name\":\"%.255s\",\"name_cut\":true,\"len\":64,\"dev\":0}",
		 big);
	check_args(f, WORDS(0x7ffc0000, 64, 0), &CAP(big, 255), 1, want);
}

static void test_arrays(void **state)
{
	const struct api_fn *f = fn("cuModuleEnumerateFunctions");
	static const uint64_t fs[] = {0x10, 0x20, 0x30};

	check_args(
		f, WORDS(0x7ffc0000, 3, 0x1), &CAP(fs, 24), 1,
		"{\"functions\":[\"0x10\",\"0x20\",\"0x30\"],\"numFunctions\":3,\"mod\":\"0x1\"}");
	/* More than was captured; less than a whole element. */
	check_args(
		f, WORDS(0x7ffc0000, 500, 0x1), &CAP(fs, 20), 1,
		"{\"functions\":[\"0x10\",\"0x20\",\"...\"],\"numFunctions\":500,\"mod\":\"0x1\"}");
	/* Fewer than captured. */
	check_args(f, WORDS(0x7ffc0000, 1, 0x1), &CAP(fs, 24), 1,
		   "{\"functions\":[\"0x10\"],\"numFunctions\":1,\"mod\":\"0x1\"}");
	check_args(f, WORDS(0x7ffc0000, 3, 0x1), &CAP(NULL, 0), 1,
		   "{\"functions\":null,\"numFunctions\":3,\"mod\":\"0x1\"}");
	/* The record had no room: the argument was set, and it was truncated. */
	check_args(f, WORDS(0x7ffc0000, 3, 0x1), &CAP(NULL, -ENOSPC), 1,
		   "{\"functions\":[\"...\"],\"numFunctions\":3,\"mod\":\"0x1\"}");
	check_args(f, WORDS(0, 3, 0x1), &CAP(NULL, -ENOSPC), 1,
		   "{\"functions\":null,\"numFunctions\":3,\"mod\":\"0x1\"}");
	f = fn("cuLinkCreate_v2");
	check_args(f, WORDS(0, 0x10, 0x10, 0x10), NULL, 0,
		   "{\"numOptions\":0,\"options\":[],\"optionValues\":[],\"stateOut\":null}");
	check_args(f, WORDS(0, 0, 0, 0x10), NULL, 0,
		   "{\"numOptions\":0,\"options\":null,\"optionValues\":null,\"stateOut\":null}");
}

struct launch_config {
	uint32_t grid[3], block[3], shared, pad;
	uint64_t stream, attrs;
	uint32_t attr_cnt, pad2;
};

struct launch_attr {
	uint32_t id, pad;
	uint32_t value[16];
};

static void test_launch_config(void **state)
{
	const struct api_fn *f = fn("cuLaunchKernelEx");
	struct launch_config cfg = {.grid = {4, 2, 1},
				    .block = {128, 1, 1},
				    .shared = 1024,
				    .stream = 0xabc,
				    .attrs = 0x7ffc1000,
				    .attr_cnt = 1};
	struct launch_attr attr = {.id = 4, .value = {2, 1, 1}};
	struct pointee caps[] = {CAP(&cfg, sizeof(cfg)), CAP(&attr, sizeof(attr))};

	assert_int_equal(sizeof(cfg), 56);
	assert_int_equal(sizeof(attr), 72);
#define CFG                                                                                        \
	"\"gridDimX\":4,\"gridDimY\":2,\"gridDimZ\":1,\"blockDimX\":128,\"blockDimY\":1,"          \
	"\"blockDimZ\":1,\"sharedMemBytes\":1024,\"hStream\":\"0xabc\","
#define REST ",\"f\":\"0x77\",\"kernelParams\":\"0x88\",\"extra\":null}"
#define ATTR "{\"id\":\"CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION\",\"value\":[2,1,1]}"
	check_args(f, WORDS(0x10, 0x77, 0x88, 0), caps, 2,
		   "{\"config\":{" CFG "\"attrs\":[" ATTR "],\"numAttrs\":1}" REST);
	cfg.attr_cnt = 50;
	check_args(f, WORDS(0x10, 0x77, 0x88, 0), caps, 2,
		   "{\"config\":{" CFG "\"attrs\":[" ATTR ",\"...\"],\"numAttrs\":50}" REST);
	/* Attributes that could not be read: their address is shown. */
	caps[1].len = -14;
	check_args(f, WORDS(0x10, 0x77, 0x88, 0), caps, 2,
		   "{\"config\":{" CFG "\"attrs\":\"0x7ffc1000\",\"numAttrs\":50}" REST);
	check_args(f, WORDS(0x10, 0x77, 0x88, 0), NULL, 0, "{\"config\":null" REST);
	/* Truncated in the middle. */
	caps[0].len = 30;
	check_args(f, WORDS(0x10, 0x77, 0x88, 0), caps, 2,
		   "{\"config\":{\"gridDimX\":4,\"gridDimY\":2,\"gridDimZ\":1,\"blockDimX\":128,"
		   "\"blockDimY\":1,\"blockDimZ\":1,\"sharedMemBytes\":1024,\"hStream\":null,"
		   "\"attrs\":null,\"numAttrs\":null}" REST);
}

#define SOME "\"0xabababababababab\""

/* Members of a union: only the one that the struct's number selects, in its own type. */
static void test_unions(void **state)
{
	static const struct {
		uint32_t at, x;
		const char *symbol, *want; /* behind the array's one element's first member */
	} rows[] = {
		{16, 5, "1",
		 "_WAIT_VALUE_32\",\"address\":" SOME ",\"value\":5,\"flags\":\"0xabababab\"}"},
		{16, 5, "2",
		 "_WRITE_VALUE_32\",\"address\":" SOME ",\"value\":5,\"flags\":\"0xabababab\"}"},
		{4, 3, "3", "_FLUSH_REMOTE_WRITES\",\"flags\":\"0x3\"}"},
		{20, 1, "4",
		 "_WAIT_VALUE_64\",\"address\":" SOME
		 ",\"value\":7175121835,\"flags\":\"0xabababab\"}"},
		{4, 1, "6", "_BARRIER\",\"flags\":\"CU_STREAM_MEMORY_BARRIER_TYPE_GPU\"}"},
	};
	static const struct {
		uint32_t id, value[4];
		const char *want;
	} attrs[] = {
		{0, {7, 8, 9, 1}, "{}"},
		{1,
		 {16, 1, 32, 0},
		 "{\"value\":{\"base_ptr\":\"0x100000010\",\"num_bytes\":32,\"hitRatio\":0,\"hitProp\":\"CU_ACCESS_PROPERTY_NORMAL\",\"missProp\":\"CU_ACCESS_PROPERTY_NORMAL\"}}"},
		{2, {1, 8, 9, 1}, "{\"value\":1}"},
		{3, {2, 8, 9, 1}, "{\"value\":\"CU_SYNC_POLICY_SPIN\"}"},
		{4, {2, 4, UINT32_MAX, 1}, "{\"value\":[2,4,4294967295]}"},
		{7,
		 {0x10, 0, 1, 5},
		 "{\"value\":{\"event\":\"0x10\",\"flags\":\"CU_EVENT_RECORD_EXTERNAL\",\"triggerAtBlockStart\":5}}"},
		{8, {-3, 8, 9, 1}, "{\"value\":-3}"},
		{9, {0x201, 8, 9, 1}, "{\"value\":{\"default_\":1,\"remote\":2}}"},
		{13, {1, 8, 9, 0}, "{\"value\":{\"deviceUpdatable\":1,\"devNode\":\"0x9\"}}"},
		{14, {50, 8, 9, 1}, "{\"value\":50}"},
		{99, {50, 8, 9, 1}, "{}"},
	};
	uint32_t op[12], value[16] = {0};
	char want[512];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		memset(op, 0xab, sizeof(op));
		op[0] = rows[i].symbol[0] - '0';
		op[rows[i].at / 4] = rows[i].x;
		snprintf(want, sizeof(want),
			 "{\"stream\":\"0x0\",\"count\":1,\"paramArray\":[{\"operation\":"
			 "\"CU_STREAM_MEM_OP%s],\"flags\":0}",
			 rows[i].want);
		check_args(fn("cuStreamBatchMemOp"), WORDS(0, 1, 0x10, 0), &CAP(op, sizeof(op)), 1,
			   want);
	}
	for (size_t i = 0; i < sizeof(attrs) / sizeof(attrs[0]); i++) {
		const char *name =
			api_enum_name(api_enum_by_name("CUlaunchAttributeID"), attrs[i].id);

		memcpy(value, attrs[i].value, sizeof(attrs[i].value));
		snprintf(want, sizeof(want), "{\"hStream\":\"0x1\",\"attr\":%s%s%s,\"value\":%s}",
			 name ? "\"" : "", name ? name : "99", name ? "\"" : "", attrs[i].want);
		check_args(fn("cuStreamSetAttribute"), WORDS(1, attrs[i].id, 0x10),
			   &CAP(value, sizeof(value)), 1, want);
	}
}

/* An unnamed number of an enum has the sign of its C type. */
static void test_enum_signs(void **state)
{
	uint8_t edge[8] = {200, 201, 255};
	uint32_t access[3] = {1, 0, 0xfffffffe};

	check_args(fn("cuGraphAddDependencies_v2"), WORDS(0, 0, 0, 0x10, 1),
		   (struct pointee[]){CAP(NULL, 0), CAP(NULL, 0), CAP(edge, 8)}, 3,
		   "{\"hGraph\":\"0x0\",\"from\":null,\"to\":null,\"edgeData\":[{\"from_port\":200,"
		   "\"to_port\":201,\"type\":255}],\"numDependencies\":1}");
	check_args(fn("cuMemSetAccess"), WORDS(0, 1, 0x10, 1), &CAP(access, 12), 1,
		   "{\"ptr\":\"0x0\",\"size\":1,\"desc\":[{\"location\":{\"type\":"
		   "\"CU_MEM_LOCATION_TYPE_DEVICE\",\"id\":0},\"flags\":4294967294}],\"count\":1}");
}

static void test_generic(void **state)
{
	static const struct api_fn f = {.symbol = "cuNew_v2", .name = "cuNew"};

	check_args(&f, WORDS(0, 1, 2, 3, 4, UINT64_MAX, 9), NULL, 0,
		   "{\"arg0\":\"0x0\",\"arg1\":\"0x1\",\"arg2\":\"0x2\",\"arg3\":\"0x3\","
		   "\"arg4\":\"0x4\",\"arg5\":\"0xffffffffffffffff\"}");
	check_args(&f, WORDS(7), NULL, 0, "{\"arg0\":\"0x7\"}");
}

/* A function that is not in the table, as in a test or a later source. */
static void test_own_row(void **state)
{
	static const struct api_type f64 = {"double", 8, KIND_FLOAT, NULL, NULL};
	static const struct api_arg args[] = {{DIR_OUT, 0, &f64, "x"}, {0}};
	static const struct api_fn f = {
		.symbol = "cuOwn", .name = "cuOwn", .known = true, .arg_cnt = 1, .args = args};
	double x = 0.25;

	check_args(&f, WORDS(0x10), &CAP(&x, 8), 1, "{\"x\":0.25}");
	x = __builtin_nan("");
	check_args(&f, WORDS(0x10), &CAP(&x, 8), 1, "{\"x\":null}");
}

/* Random words and captures, each in memory of its exact size: ASan detects a read past any of
 * them. */
static void visit_random(const struct api_fn *f)
{
	struct pointee caps[CT_MAX_CAPS];
	struct ct_spec spec;
	uint64_t *words;
	unsigned cap_cnt, word_cnt;

	api_fn_spec(f, &spec);
	cap_cnt = rnd() % 4 ? spec.cap_cnt : rnd() % (spec.cap_cnt + 1);
	word_cnt = rnd() % 4 ? spec.word_cnt : rnd() % (spec.word_cnt + 1);
	words = malloc(word_cnt * sizeof(*words) + !word_cnt);
	for (unsigned i = 0; i < word_cnt; i++)
		words[i] = rnd() >> (rnd() % 64);
	for (unsigned i = 0; i < cap_cnt; i++) {
		unsigned kind = spec.caps[i].kind;
		bool many = kind == CT_CAP_ARR || kind == CT_CAP_PARR;
		unsigned max = many ? CT_CAP_SZ_MAX : spec.caps[i].size;
		int len = rnd() % 3 ? (int)max : (int)(rnd() % (max + 1));
		uint8_t *p = malloc(len ? len : 1);

		for (int b = 0; b < len; b++)
			p[b] = rnd() % 4 ? 0 : rnd();
		caps[i] = (struct pointee){p, rnd() % 8 ? len : -14};
	}
	check_args(f, words, word_cnt, caps, cap_cnt, NULL);
	for (unsigned i = 0; i < cap_cnt; i++)
		free((void *)caps[i].data);
	free(words);
}

static void test_random(void **state)
{
	unsigned cnt;
	const struct api_fn *fns = api_fns(&cnt);

	for (unsigned i = 0; i < cnt; i++)
		for (int k = 0; k < 5; k++)
			visit_random(&fns[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_specs),	      cmocka_unit_test(test_spec_rows),
		cmocka_unit_test(test_spec_handles),  cmocka_unit_test(test_in),
		cmocka_unit_test(test_by_value),      cmocka_unit_test(test_out),
		cmocka_unit_test(test_text),	      cmocka_unit_test(test_arrays),
		cmocka_unit_test(test_launch_config), cmocka_unit_test(test_generic),
		cmocka_unit_test(test_own_row),	      cmocka_unit_test(test_random),
		cmocka_unit_test(test_spec_hiding),   cmocka_unit_test(test_spec_in_regs),
		cmocka_unit_test(test_unions),	      cmocka_unit_test(test_enum_signs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
