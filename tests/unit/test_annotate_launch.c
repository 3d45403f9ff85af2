/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Meaning of launches, kernel names, streams and captures; and every row of the table with any
 * values that a target may pass. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "model/annotate_priv.h"
#include "model/params.h"
#include "random.h"
#include "test_model.h"

#include "ct_bpf.h"

static struct rig r;

static int setup(void **state)
{
	rig_open(&r, false, 0);
	return 0;
}

static int teardown(void **state)
{
	rig_close(&r);
	return 0;
}

/* --- launches --- */

#define LAUNCH_ARGS                                                                                \
	{"f", 0xf00}, {"gridDimX", 0x900000001}, {"gridDimY", 2}, {"gridDimZ", 3},                 \
		{"blockDimX", 4}, {"blockDimY", 5}, {"blockDimZ", 6}, {"sharedMemBytes", 7},       \
	{                                                                                          \
		"hStream", 0x5                                                                     \
	}

static void check_launch(const struct trace_event *ev, uint32_t first)
{
	const struct launch_info *l = &ev->launch;

	assert_int_equal(ev->type, TYPE_KERNEL);
	assert_string_equal(ev->op, "launch");
	assert_int_equal(ev->has & ~HAS_KERNEL, HAS_LAUNCH | HAS_STREAM);
	assert_true(l->has_config);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(l->grid[i], first + i);
		assert_int_equal(l->block[i], first + 3 + i);
	}
	assert_int_equal(l->shared_mem_sz, first + 6);
	assert_int_equal(l->func, 0xf00);
	assert_int_equal(ev->stream, 5);
}

/* A pointee as the library writes it; cnt may be a lie. */
static int params_of(uint8_t *to, unsigned cnt, unsigned flags, unsigned listed,
		     const struct ct_param *of, unsigned bytes)
{
	struct ct_params head = {.cnt = cnt, .flags = flags};

	memcpy(to, &head, sizeof(head));
	memcpy(to + sizeof(head), of, listed * sizeof(*of));
	for (unsigned i = 0; i < bytes; i++)
		to[sizeof(head) + listed * sizeof(*of) + i] = i + 1;
	return sizeof(head) + listed * sizeof(*of) + bytes;
}

static void test_params(void **state)
{
	const struct ct_param of[] = {{0, 4}, {8 | CT_PARAM_F_MISSING, 8}, {16, 16}, {32, 8}};
	struct launch_params p;
	uint8_t data[1024] = {0};

	assert_true(launch_params_read(&p, data, params_of(data, 4, CT_PARAMS_F_MORE, 4, of, 22)));
	assert_true(p.more && !p.unknown && p.cnt == 4);
	assert_int_equal(p.of[0].len, 4);
	assert_int_equal(p.of[1].off, 8);
	assert_int_equal(p.of[1].len, 0);
	assert_int_equal(p.of[2].len, 16);
	/* The values end in the last one. */
	assert_int_equal(p.of[3].len, 2);
	assert_int_equal(p.bytes[4], 5);
	assert_true(
		launch_params_read(&p, data, params_of(data, 0, CT_PARAMS_F_UNKNOWN, 0, of, 0)));
	assert_true(p.unknown && !p.cnt);
}

static void count_word(void *ctx, unsigned param, unsigned at, uint64_t value)
{
	*(uint64_t *)ctx += value;
}

/* The library's memory may have any content. */
static void test_hostile_params(void **state)
{
	const struct ct_param of[CT_PARAMS_MAX] = {{0x7fff, 0xffff}, {1, 0xffff}};
	struct launch_params p;
	uint64_t sum = 0;
	uint8_t data[1024] = {0};

	assert_false(launch_params_read(&p, data, 0));
	assert_false(launch_params_read(&p, data, 7));
	/* More than there are, or than are listed; too many values. */
	assert_false(launch_params_read(&p, data, params_of(data, 3, 0, 2, of, 0)));
	assert_false(launch_params_read(&p, data, params_of(data, 0xffff, 0, 4, of, 0)));
	assert_false(launch_params_read(&p, data, params_of(data, 33, 0, 32, of, 8)));
	assert_false(launch_params_read(&p, data, params_of(data, 2, 0, 2, of, 257)));
	assert_true(launch_params_read(&p, data, params_of(data, 32, 0, 32, of, 256)));
	assert_int_equal(p.of[0].len, 256);
	assert_int_equal(p.of[1].len, 0);
	for (unsigned n = 0; n < 100000; n++) {
		for (unsigned i = 0; i < sizeof(data); i++)
			data[i] = rnd() >> (n % 64);
		if (launch_params_read(&p, data, rnd() % sizeof(data))) {
			sum = 0;
			for (unsigned i = 0; i < p.cnt; i++)
				sum += p.of[i].len;
			assert_true(sum <= sizeof(p.bytes) && p.cnt <= CT_PARAMS_MAX);
			launch_params_words(&p, count_word, &sum);
		}
	}
}

static void test_launch(void **state)
{
	const struct trace_event *ev;

	ev = CALL(&r, "cuLaunchKernel", LAUNCH_ARGS);
	check_launch(ev, 1);
	assert_false(ev->launch.cooperative || ev->capturing || ev->launch.kernel);
	check_launch(CALL(&r, "cuLaunchKernel_ptsz", LAUNCH_ARGS), 1);
	ev = CALL(&r, "cuLaunchCooperativeKernel", LAUNCH_ARGS);
	check_launch(ev, 1);
	assert_true(ev->launch.cooperative);
	/* A failed launch keeps its configuration. */
	r.result = 1;
	check_launch(CALL(&r, "cuLaunchKernel", LAUNCH_ARGS), 1);
	/* Old forms: earlier calls set the configuration. */
	ev = CALL(&r, "cuLaunchGrid", {"f", 0xf00}, {"grid_width", 4}, {"grid_height", 5});
	assert_int_equal(ev->has, HAS_LAUNCH);
	assert_false(ev->launch.has_config);
	assert_int_equal(ev->launch.func, 0xf00);
	ev = CALL(&r, "cuLaunchGridAsync", {"f", 0xf00}, {"hStream", 0x5});
	assert_int_equal(ev->has, HAS_LAUNCH | HAS_STREAM);
	ev = CALL(&r, "cuLaunch", {"f", 0xf00});
	assert_int_equal(ev->has, HAS_LAUNCH);
	/* Several launches in one call: only its arguments describe them. */
	ev = CALL(&r, "cuLaunchCooperativeKernelMultiDevice", {"numDevices", 0});
	assert_int_equal(ev->has, 0);
	assert_string_equal(ev->op, "launch");
	ev = CALL(&r, "cuLaunchHostFunc", {"hStream", 0x5}, {"fn", 0x1234});
	assert_int_equal(ev->has, HAS_STREAM);
	assert_string_equal(ev->op, "launch_host");
	assert_int_equal(CALL0(&r, "cuFuncSetBlockShape")->has, 0);
}

struct config {
	uint32_t grid[3], block[3], shared, pad;
	uint64_t stream, attrs;
	uint32_t attr_cnt, pad2;
};
_Static_assert(sizeof(struct config) == 56, "CUlaunchConfig");
struct attr {
	uint32_t id, pad, value[16];
};

static void test_launch_ex(void **state)
{
	struct config c = {{10, 11, 12}, {13, 14, 15}, 16, 0, 0x5, 0x7fff0000, 3, 0};
	static const struct attr attrs[] = {
		{6, 0, {1}}, /* CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION */
		{4, 0, {2, 3, 4}},
		{2, 0, {1}},
	};
	const struct trace_event *ev;

	ev = CALL(&r, "cuLaunchKernelEx", {"f", 0xf00}, {"config", .data = &c, .len = sizeof(c)},
		  {"config", .data = attrs, .len = sizeof(attrs), .next = true});
	check_launch(ev, 10);
	assert_true(ev->launch.cooperative);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(ev->launch.cluster[i], 2 + i);
	/* Attributes that could not be read, or only all but the last. */
	ev = CALL(&r, "cuLaunchKernelEx_ptsz", {"f", 0xf00},
		  {"config", .data = &c, .len = sizeof(c)});
	check_launch(ev, 10);
	assert_int_equal(ev->launch.cluster[0], 0);
	assert_false(ev->launch.cooperative);
	ev = CALL(&r, "cuLaunchKernelEx", {"f", 0xf00}, {"config", .data = &c, .len = sizeof(c)},
		  {"config", .data = attrs, .len = sizeof(attrs) - 1, .next = true});
	assert_int_equal(ev->launch.cluster[2], 4);
	assert_false(ev->launch.cooperative);
	/* No attributes: the rest of the array is ignored. */
	c.attr_cnt = 0;
	ev = CALL(&r, "cuLaunchKernelEx", {"f", 0xf00}, {"config", .data = &c, .len = sizeof(c)},
		  {"config", .data = attrs, .len = sizeof(attrs), .next = true});
	check_launch(ev, 10);
	assert_int_equal(ev->launch.cluster[0], 0);
	/* Only part of the configuration was read, or none. */
	for (int len = -14; len < 52; len += 11) {
		ev = CALL(&r, "cuLaunchKernelEx", {"f", 0xf00}, {"config", .data = &c, .len = len});
		assert_int_equal(ev->has, HAS_LAUNCH);
		assert_false(ev->launch.has_config);
		assert_int_equal(ev->launch.func, 0xf00);
	}
}

/* --- names --- */

static void check_kernel(const struct trace_event *ev, const char *name)
{
	if (!name) {
		assert_false(ev->has & HAS_KERNEL);
		assert_null(ev->launch.kernel);
		return;
	}
	assert_true(ev->has & HAS_KERNEL);
	assert_string_equal(ev->launch.kernel, name);
	assert_false(ev->launch.kernel_guessed);
}

static void test_names(void **state)
{
	const struct trace_event *ev;

	ev = CALL(&r, "cuModuleGetFunction", {"hfunc", 0x10}, {"hmod", 1},
		  {"name", .str = "_Z3addPfi"});
	assert_int_equal(ev->type, TYPE_MODULE);
	assert_string_equal(ev->op, "lookup");
	check_kernel(ev, "add(float*, int)");
	assert_string_equal(ev->launch.kernel_mangled, "_Z3addPfi");
	check_kernel(CALL(&r, "cuLaunchKernel", {"f", 0x10}), "add(float*, int)");
	check_kernel(CALL(&r, "cuLibraryGetKernel", {"pKernel", 0x20}, {"name", .str = "lib_k"}),
		     "lib_k");
	check_kernel(CALL(&r, "cuLaunchKernelEx", {"f", 0x20}), "lib_k");
	check_kernel(CALL(&r, "cuKernelGetFunction", {"pFunc", 0x21}, {"kernel", 0x20}), "lib_k");
	check_kernel(CALL(&r, "cuLaunchCooperativeKernel", {"f", 0x21}), "lib_k");
	check_kernel(CALL(&r, "cuFuncGetName", {"name", .str = "by_f"}, {"hfunc", 0x30}), "by_f");
	check_kernel(CALL(&r, "cuLaunchGrid", {"f", 0x30}), "by_f");
	check_kernel(CALL(&r, "cuKernelGetName", {"name", .str = "by_k"}, {"hfunc", 0x40}), "by_k");
	check_kernel(CALL(&r, "cuLaunchKernel", {"f", 0x40}), "by_k");
	/* Failed lookups have the requested name, and no handle. */
	r.result = 500;
	check_kernel(CALL(&r, "cuModuleGetFunction", {"hfunc", 0x50}, {"name", .str = "no"}), "no");
	check_kernel(CALL(&r, "cuLaunchKernel", {"f", 0x50}), NULL);
	/* A function of an unknown kernel is unknown. */
	check_kernel(CALL(&r, "cuKernelGetFunction", {"pFunc", 0x61}, {"kernel", 0x60}), NULL);
	check_kernel(CALL(&r, "cuLaunchKernel", {"f", 0x61}), NULL);
	check_kernel(CALL(&r, "cuLaunchKernel", {"f", 0}), NULL);
	/* Names that could not be read, or are empty. */
	check_kernel(CALL(&r, "cuModuleGetFunction", {"hfunc", 0x70}), NULL);
	check_kernel(CALL(&r, "cuModuleGetFunction", {"hfunc", 0x70}, {"name", .str = ""}), NULL);
	check_kernel(CALL(&r, "cuModuleGetFunction", {"hfunc", .len = -14}, {"name", .str = "x"}),
		     "x");
	/* Without a NUL the name is as long as the capture. */
	check_kernel(CALL(&r, "cuModuleGetFunction", {"hfunc", 0x80},
			  {"name", .data = "abcdef", .len = 4}),
		     "abcd");
	check_kernel(CALL(&r, "cuLaunchKernel", {"f", 0x80}), "abcd");
	/* A handle is reused for another kernel. */
	CALL(&r, "cuModuleUnload", {"hmod", 1});
	CALL(&r, "cuModuleGetFunction", {"hfunc", 0x10}, {"name", .str = "second"});
	check_kernel(CALL(&r, "cuLaunchKernel", {"f", 0x10}), "second");
	/* Other processes have other handles. */
	r.pid = RIG_PID + 1;
	check_kernel(CALL(&r, "cuLaunchKernel", {"f", 0x10}), NULL);
	/* Not a lookup of kernels. */
	ev = CALL(&r, "cuModuleGetGlobal_v2", {"dptr", 1}, {"bytes", 2}, {"name", .str = "var"});
	check_kernel(ev, NULL);
	assert_string_equal(ev->op, "lookup");
	check_kernel(CALL(&r, "cuModuleEnumerateFunctions",
			  {"functions", .data = (uint64_t[]){1, 2}, .len = 16},
			  {"numFunctions", 2}),
		     NULL);
}

/* --- streams and captures --- */

static bool captures(uint64_t stream)
{
	return CALL(&r, "cuLaunchKernel", {"f", 1}, {"hStream", stream})->capturing;
}

static void begin(uint64_t stream)
{
	CALL(&r, "cuStreamBeginCapture_v2", {"hStream", stream}, {"mode", 1});
}

static void end(uint64_t stream, int result)
{
	r.result = result;
	CALL(&r, "cuStreamEndCapture", {"hStream", stream}, {"phGraph", 0x99});
}

static void test_capture(void **state)
{
	struct config c = {{1, 1, 1}, {1, 1, 1}, 0, 0, 0x6, 0, 0, 0};
	const struct trace_event *ev;

	assert_false(captures(5));
	begin(5);
	assert_string_equal(r.ev.op, "capture_begin");
	assert_int_equal(r.ev.type, TYPE_GRAPH);
	assert_true(captures(5));
	assert_false(captures(6));
	/* A capture spreads by events. */
	CALL(&r, "cuEventRecord", {"hEvent", 0xe1}, {"hStream", 5});
	assert_int_equal(r.ev.has, HAS_CU_EVENT | HAS_STREAM);
	CALL(&r, "cuStreamWaitEvent", {"hStream", 6}, {"hEvent", 0xe1});
	assert_int_equal(r.ev.has, HAS_CU_EVENT | HAS_STREAM);
	assert_int_equal(r.ev.cu_event, 0xe1);
	assert_int_equal(r.ev.stream, 6);
	assert_true(captures(6));
	ev = CALL(&r, "cuLaunchKernelEx", {"f", 1}, {"config", .data = &c, .len = sizeof(c)});
	assert_true(ev->capturing);
	CALL(&r, "cuEventRecordWithFlags", {"hEvent", 0xe2}, {"hStream", 6});
	CALL(&r, "cuStreamWaitEvent_ptsz", {"hStream", 7}, {"hEvent", 0xe2});
	assert_true(captures(7));
	/* Failed calls spread no capture. */
	r.result = 1;
	CALL(&r, "cuStreamWaitEvent", {"hStream", 8}, {"hEvent", 0xe2});
	assert_false(captures(8));
	/* Streams of another process. */
	r.pid = RIG_PID + 1;
	assert_false(captures(5));
	end(5, 0);
	assert_string_equal(r.ev.op, "capture_end");
	assert_false(captures(5) || captures(6) || captures(7));
	r.result = 1;
	begin(9);
	assert_false(captures(9));
	CALL(&r, "cuStreamBeginCaptureToGraph", {"hStream", 9});
	assert_true(captures(9));
	end(9, 0);
	CALL(&r, "cuStreamBeginCapture", {"hStream", 9});
	assert_true(captures(9));
}

/* An invalidated capture is over; a capture that another thread may not end goes on. */
static void test_capture_errors(void **state)
{
	static const struct {
		int result;
		bool over;
	} rows[] = {{901, true}, {904, true}, {908, false}, {1, false}};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		begin(5);
		end(5, rows[i].result);
		assert_int_equal(captures(5), !rows[i].over);
		end(5, 0);
		assert_false(captures(5));
	}
}

static void test_streams(void **state)
{
	const struct trace_event *ev;

	ev = CALL(&r, "cuStreamCreate", {"phStream", 0x55}, {"Flags", 1});
	assert_int_equal(ev->has, HAS_STREAM);
	assert_int_equal(ev->stream, 0x55);
	assert_string_equal(ev->op, "create");
	r.result = 2;
	assert_int_equal(CALL(&r, "cuStreamCreate", {"phStream", 0x55})->has, 0);
	ev = CALL(&r, "cuEventCreate", {"phEvent", 0xe1});
	assert_int_equal(ev->has, HAS_CU_EVENT);
	assert_int_equal(ev->cu_event, 0xe1);
	ev = CALL(&r, "cuStreamSynchronize", {"hStream", 0x55});
	assert_int_equal(ev->type, TYPE_SYNC);
	assert_int_equal(ev->stream, 0x55);
	ev = CALL(&r, "cuStreamSynchronize", {"hStream", 0});
	assert_int_equal(ev->has, HAS_STREAM); /* the default stream counts as a stream */
	ev = CALL(&r, "cuEventSynchronize", {"hEvent", 0xe1});
	assert_int_equal(ev->has, HAS_CU_EVENT);
	ev = CALL(&r, "cuGraphLaunch", {"hGraphExec", 1}, {"hStream", 0x55});
	assert_int_equal(ev->type, TYPE_GRAPH);
	assert_string_equal(ev->op, "launch");
	assert_int_equal(ev->has, HAS_STREAM);
}

/* --- words that are not at their argument's index --- */

static void test_words(void **state)
{
	const struct api_fn *fn = api_fn_by_symbol("cuIpcOpenMemHandle_v2");
	uint64_t words[CT_MAX_WORDS], val;
	struct trace_event ev = {.words = words, .word_cnt = CT_MAX_WORDS};
	struct annotations m;

	for (unsigned i = 0; i < CT_MAX_WORDS; i++)
		words[i] = 100 + i;
	annotate__init(&m, fn);
	/* pdptr, a handle of 64 bytes on the stack, Flags. */
#ifdef __x86_64__
	assert_true(event_arg(&m, &ev, 2, &val));
	assert_int_equal(val, 101);
	assert_true(event_arg_by_name(&m, &ev, "Flags", &val));
	assert_int_equal(val, 101);
#endif
	assert_false(event_arg(&m, &ev, 1, &val)); /* too large for a number */
	assert_false(event_arg(&m, &ev, 0, &val)); /* its capture is missing */
	assert_false(event_arg(&m, &ev, 3, &val));
	assert_false(event_arg(&m, &ev, -1, &val));
	assert_false(event_arg(&m, &ev, 99, &val));
	assert_false(event_arg_by_name(&m, &ev, "nothing", &val));
	ev.word_cnt = 1;
	assert_false(event_arg(&m, &ev, 2, &val));
	/* A float has no word. */
	annotate__init(&m, api_fn_by_symbol("cuParamSetf"));
	ev.word_cnt = CT_MAX_WORDS;
	assert_false(event_arg(&m, &ev, 2, &val));
	assert_true(event_arg(&m, &ev, 1, &val));
	assert_int_equal(val, 101);
}

/* --- the whole table --- */

/* Numbers near limits, and addresses that repeat. */
static uint64_t rnd_word(void)
{
	static const uint64_t odd[] = {0,	   1,	       2,	   8,
				       UINT64_MAX, 1ull << 63, UINT32_MAX, 0x7f0000000000};

	switch (rnd() % 4) {
	case 0:
		return rnd();
	case 1:
		return odd[rnd() % 8] + rnd() % 3 - 1;
	default:
		return rnd() % 64;
	}
}

static void send_random(unsigned func_id)
{
	struct ct_call *c = calloc(1, CT_CALL_FIXED_SZ + CT_MAX_WORDS * 8 + CT_MAX_CAPS * 1024);
	size_t off = CT_CALL_FIXED_SZ;

	assert_non_null(c);
	c->rec.kind = CT_REC_CALL;
	c->rec.flags = rnd() % 8 ? 0 : rnd() % 4;
	c->rec.pid = RIG_PID + rnd() % 2;
	c->rec.tid = rnd() % 3;
	c->rec.ts_ns = rnd() % 1000;
	c->end_ns = rnd() % 1000;
	c->func_id = func_id;
	c->result = rnd() % 4 ? 0 : (int32_t)rnd();
	c->word_cnt = rnd() % (CT_MAX_WORDS + 1);
	c->cap_cnt = rnd() % (CT_MAX_CAPS + 1);
	for (unsigned i = 0; i < c->word_cnt; i++, off += 8)
		c->words[i] = rnd_word();
	for (unsigned i = 0; i < c->cap_cnt; i++) {
		unsigned len = rnd() % 3 ? rnd() % 9 * 8 : rnd() % 1025;

		c->cap_len[i] = rnd() % 8 ? (int)len : -(int)(rnd() % 100);
		for (unsigned k = 0; c->cap_len[i] > 0 && k < (len + 7) / 8; k++, off += 8) {
			uint64_t x = rnd() % 4 ? rnd_word() : 0x4141415f5a5f0041 + rnd() % 64;

			memcpy((uint8_t *)c + off, &x, 8);
		}
	}
	c->rec.size = off;
	rig_record(&r, c, off);
	free(c);
}

static void no_u64(struct visitor *v, const char *name, uint64_t x)
{
}

static void no_i64(struct visitor *v, const char *name, int64_t x)
{
}

static void no_f64(struct visitor *v, const char *name, double x)
{
}

static void no_sym(struct visitor *v, const char *name, const char *s)
{
	assert_non_null(s);
}

static volatile uint8_t seen;

static void no_bytes(struct visitor *v, const char *name, const uint8_t *p, size_t len)
{
	for (size_t i = 0; i < len; i++)
		seen ^= p[i];
}

static void no_text(struct visitor *v, const char *name, const char *s, size_t len, bool cut)
{
	no_bytes(v, name, (const uint8_t *)s, len);
}

static void no_open(struct visitor *v, const char *name)
{
}

static void no_close(struct visitor *v)
{
}

/* A visitor that reads everything and outputs nothing. */
static const struct visitor_ops no_ops = {.u64 = no_u64,
					  .i64 = no_i64,
					  .f64 = no_f64,
					  .hex = no_u64,
					  .sym = no_sym,
					  .text = no_text,
					  .bytes = no_bytes,
					  .none = no_open,
					  .open = no_open,
					  .close = no_close,
					  .open_array = no_open,
					  .close_array = no_close};

static void visit_all(const struct trace_event *ev)
{
	struct visitor v = {&no_ops};

	event_visit_fields(ev, &v);
	event_visit_args(ev, &v);
}

static void test_random(void **state)
{
	unsigned cnt = fnset__cnt(r.fns);

	rnd_state = 0x6a09e667f3bcc909;
	fnset__id(r.fns, "cuNobodyKnows");
	r.peek = visit_all;
	for (unsigned round = 0; round < 60; round++)
		for (unsigned id = 0; id <= cnt; id++) {
			unsigned before = r.cnt;

			send_random(id);
			/* Calls of NVTX and PyTorch are not events; ranges, marks and operators
			 * are. An operator ends at the next event. */
			if (fnset__fn(r.fns, id)->api == API_NVTX ||
			    fnset__fn(r.fns, id)->api == API_TORCH)
				assert_true(r.cnt <= before + 1 + CT_OPERATORS_MAX);
			else
				assert_in_range(r.cnt, before + 1, before + 1 + CT_OPERATORS_MAX);
		}
	assert_int_equal(model__bad_records(r.m), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_launch),	   TEST(test_params),  TEST(test_hostile_params),
		TEST(test_launch_ex),	   TEST(test_names),   TEST(test_capture),
		TEST(test_capture_errors), TEST(test_streams), TEST(test_words),
		TEST(test_random),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
