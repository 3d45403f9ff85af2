/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* --torch: names in symbols, call frame information, words of arguments, calls in code. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "attach/find/cfi.h"
#include "attach/find/torch.h"
#include "decode/cuda.h"
#include "decode/torch.h"
#include "random.h"

static void operator_is(const char *symbol, const char *name)
{
	char buf[64];

	if (name) {
		assert_true(torch_operator_name(symbol, buf, sizeof(buf)));
		assert_string_equal(buf, name);
	} else {
		assert_false(torch_operator_name(symbol, buf, sizeof(buf)));
	}
}

static void test_operator_names(void **state)
{
	operator_is("_ZN2at4_ops5addmm4callERKNS_6TensorES4_S4_RKN3c106ScalarES8_", "aten::addmm");
	operator_is("_ZN2at4_ops11add__Tensor4callEv", "aten::add__Tensor");
	operator_is("_ZN2at4_ops5addmm10redispatchEv", NULL);
	operator_is("_ZN2at4_ops99addmm4callEv", NULL);
	operator_is("_ZN2at4_ops99999999999999999999addmm4callEv", NULL);
	operator_is("_ZN2at4_ops", NULL);
	operator_is("_ZN2at6native5addmmE", NULL);
	operator_is("", NULL);
}

static void node_is(const char *symbol, const char *name)
{
	char buf[64];

	if (name) {
		assert_true(torch_node_name(symbol, buf, sizeof(buf)));
		assert_string_equal(buf, name);
	} else {
		assert_false(torch_node_name(symbol, buf, sizeof(buf)));
	}
}

static void test_node_names(void **state)
{
	node_is("_ZTVN5torch8autograd9generated14AddmmBackward0E", "AddmmBackward0");
	node_is("_ZTVN5torch8autograd14AccumulateGradE", "torch::autograd::AccumulateGrad");
	node_is("_ZTVN5torch8autograd7CppNodeI3FooEE", NULL);
	node_is("_ZTVN5torch3jit5GraphE", NULL);
	node_is("_ZTVN5torch8autograd200", NULL);
	node_is("_ZTVN5torch8autograd60"
		"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxE",
		NULL);
	node_is("_ZTI", NULL);
}

static void test_rows(void **state)
{
	const struct api_fn *fn =
		api_fn_by_symbol("_ZN2at27getStepCallbacksUnlessEmptyENS_11RecordScopeE");

	assert_non_null(fn);
	assert_string_equal(fn->name, "getStepCallbacksUnlessEmpty");
	assert_true(api_fn_is_entry_only(fn));
	assert_ptr_equal(api_of_symbol(fn->symbol), api_at(API_TORCH));
	/* Other C++ functions belong to no family. */
	assert_null(api_of_symbol("_ZN2at4_ops5addmm4callEv"));
	assert_ptr_equal(api_of_file("libtorch_cpu.so"), api_at(API_TORCH));
	assert_null(api_of_file("libtorch_cuda.so"));
}

static const struct cfi_align align = {1, -8};

static bool run(const char *code, size_t len, uint64_t at, struct cfi_frame *f)
{
	*f = (struct cfi_frame){.off = 8};
	return cfi_run((const uint8_t *)code, len, &align, at, f);
}

static void test_cfi(void **state)
{
	/* push %rbp; mov %rsp,%rbp; ...; as gcc writes it */
	static const char fp[] =
		"\x41\x0e\x10\x86\x02\x43\x0d\x06\x4b\x8f\x03\x02\x70\x0a\x0c\x07\x08\x44\x0b";
	/* push %rbx; sub $0x20,%rsp */
	static const char sp[] = "\x41\x0e\x10\x83\x02\x44\x0e\x30";
	struct cfi_frame f;

	assert_true(run(fp, sizeof(fp) - 1, 0, &f));
	assert_true(!f.by_fp && f.off == 8);
	assert_true(run(fp, sizeof(fp) - 1, 1, &f));
	assert_true(!f.by_fp && f.off == 16);
	assert_true(run(fp, sizeof(fp) - 1, 50, &f));
	assert_true(f.by_fp && f.off == 16);
	/* In the epilogue, and after it again. */
	assert_true(run(fp, sizeof(fp) - 1, 1 + 3 + 11 + 0x70, &f));
	assert_true(!f.by_fp && f.off == 8);
	assert_true(run(fp, sizeof(fp) - 1, 1000, &f));
	assert_true(f.by_fp && f.off == 16);
	assert_true(f.fp == CFI_SAVED && f.fp_off == -16 && !f.last);
	assert_true(run(sp, sizeof(sp) - 1, 100, &f));
	assert_true(!f.by_fp && f.off == 0x30 && f.fp == CFI_SAME);
	/* pop %rbp; no caller; in another register; by an expression */
	assert_true(run("\x86\x02\x41\xc6", 4, 0, &f) && f.fp == CFI_SAVED);
	assert_true(run("\x86\x02\x41\xc6", 4, 1, &f) && f.fp == CFI_SAME);
	assert_true(run("\x11\x06\x7e", 3, 0, &f) && f.fp == CFI_SAVED && f.fp_off == 16);
	assert_true(run("\x07\x10", 2, 0, &f) && f.last);
	assert_true(run("\x09\x06\x03", 3, 0, &f) && f.fp == CFI_UNKNOWN);
	assert_true(run("\x10\x06\x02\x76\x00", 5, 0, &f) && f.fp == CFI_UNKNOWN);
	/* A return address at another place, as after a signal. */
	assert_false(run("\x90\x02", 2, 0, &f));
	assert_false(run("\x10\x10\x02\x76\x00", 5, 0, &f));
	/* another register, an expression, truncated, not balanced, too far */
	assert_false(run("\x0c\x0a\x08", 3, 100, &f));
	assert_false(run("\x0f\x01\x30", 3, 100, &f));
	assert_false(run("\x0e", 1, 100, &f));
	assert_false(run("\x0b", 1, 100, &f));
	assert_false(run("\x0e\xff\xff\xff\x7f", 5, 100, &f));
	assert_false(run("\x0e\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 11, 100, &f));
	assert_false(run("\x10\x03\xff\x7f", 4, 100, &f));
}

static void test_any_cfi(void **state)
{
	struct cfi_frame f;

	for (int n = 0; n < 200000; n++) {
		size_t len = rnd() % 40;
		uint8_t *code = malloc(len ?: 1);

		assert_non_null(code);
		for (size_t i = 0; i < len; i++)
			code[i] = rnd();
		f = (struct cfi_frame){.off = 8};
		cfi_run(code, len, &align, rnd() % 300, &f);
		code_arg_words(code, len);
		for (size_t i = 0; i < len; i++)
			code_called(code, len, i, 0x1000);
		free(code);
	}
}

static void test_code(void **state)
{
	static const uint8_t call[] = "\x90\xe8\x10\x00\x00\x00\x90";
	/* movzwl 0x18(%rbp),%ecx; push 0x10(%rbp); mov -0x38(%rbp),%rax; mov 8(%rbp),%rax */
	static const uint8_t args[] =
		"\x0f\xb7\x4d\x18\xff\x75\x10\x48\x8b\x45\xc8\x48\x8b\x45\x08";

	assert_int_equal(code_called(call, 7, 1, 0x1000), 0x1016);
	assert_int_equal(code_called(call, 7, 0, 0x1000), 0);
	assert_int_equal(code_called(call, 5, 1, 0x1000), 0);
	assert_int_equal(code_arg_words(args, sizeof(args) - 1), 2);
	assert_int_equal(code_arg_words(args + 4, 3), 2);
	assert_int_equal(code_arg_words(args + 7, sizeof(args) - 8), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_operator_names), cmocka_unit_test(test_node_names),
		cmocka_unit_test(test_rows),	       cmocka_unit_test(test_cfi),
		cmocka_unit_test(test_any_cfi),	       cmocka_unit_test(test_code),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
