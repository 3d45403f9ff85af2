/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Bytes and operations of kernels by their parameters; names are from traces of PyTorch 2.11. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "model/params.h"
#include "report/kernels/kernel_work.h"

static struct launch_params params;
static struct launch_info launch;
static unsigned used;

static void start(const char *kernel, uint32_t x, uint32_t y, uint32_t z)
{
	memset(&params, 0, sizeof(params));
	used = 0;
	launch = (struct launch_info){.kernel = kernel,
				      .grid = {x, y, z},
				      .block = {128, 1, 1},
				      .has_config = true,
				      .params = &params};
}

static void put(const void *data, unsigned size)
{
	params.of[params.cnt++] = (struct launch_param){.size = size, .len = size};
	memcpy(params.bytes + used, data, size);
	used += size;
}

static void put32(int32_t v)
{
	put(&v, 4);
}

static void put64(uint64_t v)
{
	put(&v, 8);
}

/* -1: not known. */
static double bytes(void)
{
	struct kernel_work w;

	return kernel_work_of(&launch, &w) ? w.bytes : -1;
}

#define N	   1000
#define VECTORIZED "void at::native::vectorized_elementwise_kernel<8, "
#define ARRAY(n)   ", std::array<char*, " #n "ul> >(int, "

static double elementwise(const char *kernel, unsigned pointers, bool is_square)
{
	uint64_t ptr[8] = {0x100000, 0x200000, is_square ? 0x200000 : 0x300000, 0x400000};

	start(kernel, 2, 1, 1);
	put32(N);
	put("", 1);
	put(ptr, 8 * pointers);
	return bytes();
}

static void test_elementwise(void **state)
{
	const char *add = VECTORIZED "at::native::CUDAFunctor_add<c10::Half>" ARRAY(3);
	const char *times = VECTORIZED "at::native::AUnaryFunctor<c10::Half, c10::Half, c10::Half, "
				       "at::native::binary_internal::MulFunctor<float> >" ARRAY(2);
	const char *equal =
		VECTORIZED "at::native::AUnaryFunctor<long, long, bool, at::native::(anonymous "
			   "namespace)::CompareEqFunctor<long> >" ARRAY(2);
	const char *mul = VECTORIZED "at::native::BinaryFunctor<float, float, float, "
				     "at::native::binary_internal::MulFunctor<float> >" ARRAY(3);
	const char *tanh =
		VECTORIZED "at::native::tanh_kernel_cuda(at::TensorIteratorBase&)::{lambda()#2}::"
			   "operator()() const::{lambda()#3}::operator()() "
			   "const::{lambda(c10::Half)#1}" ARRAY(2);
	const char *where = VECTORIZED
		"at::native::(anonymous namespace)::where_kernel_impl(at::TensorIterator&)::"
		"{lambda()#1}::operator()() const::{lambda()#2}::operator()() "
		"const::{lambda(bool, c10::Half, c10::Half)#1}" ARRAY(4);

	assert_true(elementwise(add, 3, false) == 6 * N);
	assert_true(elementwise(times, 2, false) == 4 * N);
	assert_true(elementwise(equal, 2, false) == 9 * N);
	assert_true(elementwise(mul, 3, false) == 12 * N);
	assert_true(elementwise(mul, 3, true) == 8 * N); /* x * x */
	assert_true(elementwise(tanh, 2, false) == 4 * N);
	assert_true(elementwise(where, 4, false) == 7 * N);
	assert_true(elementwise(VECTORIZED "at::native::FillFunctor<long>" ARRAY(1), 1, false) ==
		    8 * N);
	assert_true(elementwise(VECTORIZED "at::native::bfloat16_copy_kernel_cuda(at::"
					   "TensorIteratorBase&)::{lambda(float)#1}" ARRAY(2),
				2, false) == 6 * N);
}

static void test_elementwise_not_known(void **state)
{
	const char *add = VECTORIZED "at::native::CUDAFunctor_add<c10::Half>" ARRAY(3);

	/* A functor that is not in the table, one of an unknown type, and too few pointers. */
	assert_true(elementwise(VECTORIZED "mine::Functor<float>" ARRAY(2), 2, false) == -1);
	assert_true(elementwise(VECTORIZED "at::native::CUDAFunctor_add<mine::Type>" ARRAY(3), 3,
				false) == -1);
	assert_true(elementwise(add, 2, false) == -1);
	/* Conversions have other types in memory than the functor. */
	assert_true(elementwise("void at::native::unrolled_elementwise_kernel<at::native::"
				"CUDAFunctor_add<float>, std::array<char*, 3ul>, 4, "
				"TrivialOffsetCalculator<2, unsigned int>, "
				"at::native::memory::LoadWithCast<2>, "
				"at::native::memory::StoreWithCast<1> >(int, ",
				3, false) == -1);
	assert_true(elementwise("void at::native::unrolled_elementwise_kernel<at::native::"
				"CUDAFunctor_add<long>, std::array<char*, 3ul>, 4, "
				"TrivialOffsetCalculator<2, unsigned int>, "
				"at::native::memory::LoadWithoutCast, "
				"at::native::memory::StoreWithoutCast>(int, ",
				3, false) == 24 * N);
	/* Without parameters, or with a part of them. */
	start(add, 2, 1, 1);
	assert_true(bytes() == -1);
	launch.params = NULL;
	assert_true(bytes() == -1);
	elementwise(add, 3, false);
	params.of[2].len = 8;
	assert_true(bytes() == -1);
	/* Other kernels with the same end of their name. */
	assert_true(elementwise("void my_vectorized_elementwise_kernel<8, "
				"at::native::CUDAFunctor_add<c10::Half>" ARRAY(3),
				3, false) == -1);
	assert_true(elementwise("add(float*, int)", 3, false) == -1);
	assert_true(elementwise("", 3, false) == -1);
	assert_true(elementwise("vectorized_elementwise_kernel<", 3, false) == -1);
}

static void layer_norm(uint64_t beta)
{
	start("void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::Half, "
	      "float, false>(int, float, c10::Half const*, c10::Half const*, c10::Half const*, "
	      "float*, float*, c10::Half*)",
	      64, 1, 1);
	put32(768);
	put32(0x3727c5ac);
	put64(0x100000);
	put64(0x200000);
	put64(beta);
	put64(0x300000);
	put64(0x400000);
	put64(0x500000);
}

static void test_rows(void **state)
{
	layer_norm(0x600000);
	assert_true(bytes() == 64 * (2 * 768 * 2 + 2 * 4) + 2 * 768 * 2);
	layer_norm(0);
	assert_true(bytes() == 64 * (2 * 768 * 2 + 2 * 4) + 768 * 2);
	start("void (anonymous namespace)::softmax_warp_forward<c10::Half, float, float, 9, false, "
	      "false>(float*, c10::Half const*, int, int, int, bool const*, int, bool)",
	      250, 1, 1);
	put64(0x100000);
	put64(0x200000);
	put32(1000);
	put32(512);
	put32(500);
	assert_true(bytes() == 1000 * 500 * 6);
	params.bytes[19] = 0x80; /* a negative number */
	assert_true(bytes() == -1);
	start("void at::native::(anonymous namespace)::cunn_SoftMaxForward<8, c10::BFloat16, "
	      "float, c10::BFloat16, at::native::(anonymous "
	      "namespace)::SoftMaxForwardEpilogue>(c10::BFloat16*, c10::BFloat16 const*, int)",
	      32, 1, 1);
	put64(0x100000);
	put64(0x200000);
	put32(4096);
	assert_true(bytes() == 32 * 4096 * 4);
	start("void at::native::vectorized_gather_kernel<16, long>(char*, char*, long*, int, long, "
	      "long, long, long, bool)",
	      32, 1, 1);
	put64(0x100000);
	put64(0x200000);
	put64(0x300000);
	put32(32);
	put64(3072);
	/* The rows may be one row. */
	assert_true(bytes() == 32 * 3072 + 3072 + 32 * 8);
	launch.grid[0] = 16;
	assert_true(bytes() == -1);
}

struct flash {
	uint64_t qkv[3], strides[9];
	uint32_t heads, kv_heads, ratio, gap;
	uint64_t o[8];
	uint32_t batch, q, k, knew, d, q_rounded, k_rounded, d_rounded, rest[8];
};

#define FLASH(type, causal)                                                                        \
	"void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4, false, "    \
	"false, cutlass::" type ", Flash_kernel_traits<128, 128, 64, 4, cutlass::" type            \
	"> >, false, " causal                                                                      \
	", false, false, true, true, false, false>(pytorch_flash::Flash_fwd_params)"

static bool flash(const char *kernel, const struct flash *f, struct kernel_work *w)
{
	start(kernel, 4, 2, 8);
	put(f, sizeof(*f));
	return kernel_work_of(&launch, w);
}

static void test_attention(void **state)
{
	struct flash f = {.heads = 8,
			  .kv_heads = 2,
			  .ratio = 4,
			  .batch = 2,
			  .q = 500,
			  .k = 600,
			  .d = 80,
			  .q_rounded = 512,
			  .k_rounded = 640,
			  .d_rounded = 96};
	struct flash bad;
	struct kernel_work w;
	double pairs = 0;

	assert_true(flash(FLASH("half_t", "false"), &f, &w));
	assert_int_equal(w.type, PEAK_FP16);
	assert_true(w.ops == 4.0 * 500 * 600 * 80 * 8 * 2);
	assert_true(w.bytes == 2.0 * 2 * 80 * (2 * 500 * 8 + 2 * 600 * 2));
	assert_true(flash(FLASH("bfloat16_t", "true"), &f, &w));
	assert_int_equal(w.type, PEAK_BF16);
	for (int q = 0; q < 500; q++)
		pairs += 600 - 500 + q + 1;
	assert_true(w.ops == 4 * pairs * 80 * 8 * 2);
	/* Values that contradict each other, the grid or the name. */
	for (int i = 0; i < 6; i++) {
		bad = f;
		bad.heads += i == 0;
		bad.batch += i == 1;
		bad.q += 200 * (i == 2);
		bad.d = i == 3 ? 100 : bad.d;
		bad.d_rounded = i == 4 ? 160 : bad.d_rounded;
		bad.k_rounded = i == 5 ? 512 : bad.k_rounded;
		assert_false(flash(FLASH("half_t", "false"), &bad, &w));
	}
	assert_false(flash(FLASH("float", "false"), &f, &w));
	/* Another layout, and a structure that was cut. */
	memset(&bad, 0x11, sizeof(bad));
	assert_false(flash(FLASH("half_t", "false"), &bad, &w));
	start(FLASH("half_t", "false"), 4, 2, 8);
	put(&f, 200);
	assert_false(kernel_work_of(&launch, &w));
}

static void test_products(void **state)
{
	struct gemm_info g = {.m = 100,
			      .n = 20,
			      .k = 30,
			      .batch = 4,
			      .a_type = "CUDA_R_8F_E4M3",
			      .b_type = "CUDA_R_8F_E4M3",
			      .c_type = "CUDA_R_16BF"};

	assert_true(product_bytes(&g, 4, 4) == 4 * (3000 + 600 + 2 * 2000));
	assert_true(product_bytes(&g, 1, 4) == 3000 + 4 * (600 + 2 * 2000));
	g.a_type = g.b_type = "CUDA_R_4F_E2M1";
	assert_true(product_bytes(&g, 4, 4) == 4 * (1500 + 300 + 2 * 2000));
	g.a_type = g.b_type = g.c_type = "CUDA_C_32F";
	assert_true(product_bytes(&g, 4, 4) == 4 * 8 * (3000 + 600 + 2000));
	g.c_type = NULL;
	assert_true(product_bytes(&g, 4, 4) == 0);
	g.c_type = "CUDA_R_1000000000000F";
	assert_true(product_bytes(&g, 4, 4) > 0);
	g.c_type = "float";
	assert_true(product_bytes(&g, 4, 4) == 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_elementwise), cmocka_unit_test(test_elementwise_not_known),
		cmocka_unit_test(test_rows),	    cmocka_unit_test(test_attention),
		cmocka_unit_test(test_products),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
