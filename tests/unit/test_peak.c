/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Peak performance of GPUs: NVIDIA's numbers, and none where they are unknown. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "report/kernels/peak.h"

static double tflops_of(uint32_t capability, uint32_t sm_cnt, uint32_t mhz, const char *model,
			enum peak_type type, bool half)
{
	struct device d = {.capability = capability, .sm_cnt = sm_cnt, .clock_khz = 1000 * mhz};

	strcpy(d.model, model);
	return peak_of(&d, type, half).tflops;
}

/* Data sheets have rounded numbers. */
static void is_about(double tflops, double said)
{
	assert_true(tflops > said * 0.985 && tflops < said * 1.015);
}

static void test_data_sheets(void **state)
{
	const char *h100 = "NVIDIA H100 80GB HBM3";

	is_about(tflops_of(90, 132, 1980, h100, PEAK_BF16, false), 989.4);
	is_about(tflops_of(90, 132, 1980, h100, PEAK_TF32, false), 494.7);
	is_about(tflops_of(90, 132, 1980, h100, PEAK_FP8, false), 1978.9);
	is_about(tflops_of(90, 132, 1980, h100, PEAK_FP64, false), 66.9);
	is_about(tflops_of(90, 132, 1980, h100, PEAK_FP32, false), 66.9);
	is_about(tflops_of(90, 132, 1980, "NVIDIA H200", PEAK_FP16, false), 989.4);
	is_about(tflops_of(90, 114, 1755, "NVIDIA H100 PCIe", PEAK_FP16, false), 756.4);
	is_about(tflops_of(90, 114, 1755, "NVIDIA H100 PCIe", PEAK_FP64, false), 51.2);
	is_about(tflops_of(80, 108, 1410, "NVIDIA A100-SXM4-80GB", PEAK_BF16, false), 312);
	is_about(tflops_of(80, 108, 1410, "NVIDIA A100-SXM4-80GB", PEAK_TF32, false), 156);
	is_about(tflops_of(80, 108, 1410, "NVIDIA A100-SXM4-80GB", PEAK_FP64, false), 19.5);
	is_about(tflops_of(80, 108, 1410, "NVIDIA A100-SXM4-80GB", PEAK_INT8, false), 624);
	is_about(tflops_of(86, 72, 1695, "NVIDIA A10", PEAK_FP16, false), 125);
	is_about(tflops_of(86, 72, 1695, "NVIDIA A10", PEAK_FP32, false), 31.2);
	is_about(tflops_of(89, 58, 2040, "NVIDIA L4", PEAK_FP8, false), 242);
	is_about(tflops_of(89, 58, 2040, "NVIDIA L4", PEAK_TF32, false), 60.5);
	is_about(tflops_of(75, 40, 1590, "Tesla T4", PEAK_FP16, false), 65);
	is_about(tflops_of(70, 80, 1530, "Tesla V100-SXM2-32GB", PEAK_FP16, false), 125);
	is_about(tflops_of(70, 80, 1530, "Tesla V100-SXM2-32GB", PEAK_FP64, false), 7.8);
}

static void test_blackwell(void **state)
{
	const char *b200 = "NVIDIA B200", *b300 = "NVIDIA B300 SXM6 AC";
	const char *pro = "NVIDIA RTX PRO 6000 Blackwell Server Edition";
	const char *geforce = "NVIDIA GeForce RTX 5090";

	is_about(tflops_of(100, 148, 1965, b200, PEAK_BF16, false), 2250);
	is_about(tflops_of(100, 148, 1965, b200, PEAK_TF32, false), 1125);
	is_about(tflops_of(100, 148, 1965, b200, PEAK_FP8, false), 4500);
	is_about(tflops_of(100, 148, 1965, b200, PEAK_INT8, false), 4500);
	is_about(tflops_of(100, 148, 1965, b200, PEAK_FP4, false), 9000);
	is_about(tflops_of(100, 148, 1965, b200, PEAK_FP32, false), 75);
	is_about(tflops_of(100, 148, 1965, b200, PEAK_FP64, false), 37);
	is_about(tflops_of(103, 148, 1965, b300, PEAK_FP4, false), 13500);
	is_about(tflops_of(120, 188, 2617, pro, PEAK_FP16, false), 503.8);
	is_about(tflops_of(120, 188, 2617, pro, PEAK_FP4, false), 2015);
	is_about(tflops_of(120, 170, 2407, geforce, PEAK_FP16, true), 419);
	is_about(tflops_of(120, 170, 2407, geforce, PEAK_BF16, false), 209.5);
	is_about(tflops_of(120, 170, 2407, geforce, PEAK_TF32, false), 104.8);
	is_about(tflops_of(120, 170, 2407, geforce, PEAK_INT8, false), 838);
	is_about(tflops_of(120, 170, 2407, geforce, PEAK_FP4, false), 1676);
	is_about(tflops_of(87, 16, 1300, "Orin", PEAK_INT8, false), 85);
}

static double memory_of(const char *model, uint32_t khz, uint32_t bits, bool listed)
{
	struct device d = {.memory_khz = khz, .bus_bits = bits};
	bool is_listed;
	double gbps;

	strcpy(d.model, model);
	gbps = peak_memory(&d, &is_listed);
	assert_int_equal(is_listed, listed);
	return gbps;
}

static void test_memory(void **state)
{
	is_about(memory_of("NVIDIA H100 80GB HBM3", 2619000, 5120, false), 3352);
	is_about(memory_of("NVIDIA GeForce RTX 4090", 10501000, 384, false), 1008);
	is_about(memory_of("NVIDIA H100 80GB HBM3", 0, 5120, true), 3352);
	is_about(memory_of("NVIDIA A10", 0, 0, true), 600);
	is_about(memory_of("Tesla V100-SXM2-32GB", 0, 0, true), 900);
	/* Names that begin like others, and none. */
	assert_true(memory_of("NVIDIA A1000", 0, 0, false) == 0);
	assert_true(memory_of("NVIDIA A100-SXM4-40GB MIG 1g.5gb", 0, 0, false) == 0);
	assert_true(memory_of("", 2619000, 0, false) == 0);
}

/* Sums of 32 bits take GeForce twice as long, and a GPU without a name may be one. */
static void test_geforce(void **state)
{
	const char *g = "NVIDIA GeForce RTX 3090";

	is_about(tflops_of(86, 82, 1695, g, PEAK_BF16, false), 71);
	is_about(tflops_of(86, 82, 1695, g, PEAK_FP16, false), 71);
	is_about(tflops_of(86, 82, 1695, g, PEAK_FP16, true), 142);
	is_about(tflops_of(86, 82, 1695, g, PEAK_FP32, false), 35.6);
	is_about(tflops_of(86, 82, 1695, g, PEAK_INT8, false), 284);
	assert_true(tflops_of(86, 82, 1695, "", PEAK_BF16, false) == 0);
	is_about(tflops_of(86, 82, 1695, "", PEAK_FP32, false), 35.6);
	is_about(tflops_of(90, 132, 1830, "", PEAK_BF16, false), 989.4);
}

static void test_not_known(void **state)
{
	assert_true(tflops_of(70, 80, 1530, "Tesla V100", PEAK_BF16, false) == 0);
	assert_true(tflops_of(80, 108, 1410, "NVIDIA A100", PEAK_FP8, false) == 0);
	assert_true(tflops_of(121, 48, 2400, "NVIDIA GB10", PEAK_BF16, false) == 0);
	assert_true(tflops_of(103, 148, 1965, "NVIDIA B300 SXM6 AC", PEAK_INT8, false) == 0);
	assert_true(tflops_of(90, 132, 1830, "NVIDIA H200", PEAK_NONE, false) == 0);
	assert_true(tflops_of(90, 0, 1830, "NVIDIA H200", PEAK_BF16, false) == 0);
	assert_true(tflops_of(90, 132, 0, "NVIDIA H200", PEAK_BF16, false) == 0);
	assert_true(tflops_of(0, 132, 1830, "NVIDIA H200", PEAK_BF16, false) == 0);
}

static enum peak_type type_of(const char *a, const char *b, const char *compute, const char *kernel)
{
	struct gemm_info g = {.a_type = a, .b_type = b, .compute_type = compute};

	return peak_type_of(&g, kernel);
}

static void test_types(void **state)
{
	const char *f16 = "CUDA_R_16F", *bf16 = "CUDA_R_16BF", *f32 = "CUDA_R_32F",
		   *f64 = "CUDA_R_64F", *e4 = "CUDA_R_8F_E4M3", *e5 = "CUDA_R_8F_E5M2",
		   *c32 = "CUBLAS_COMPUTE_32F";

	assert_int_equal(type_of(f16, f16, c32, NULL), PEAK_FP16);
	assert_int_equal(type_of(bf16, bf16, c32, NULL), PEAK_BF16);
	assert_int_equal(type_of(NULL, bf16, c32, NULL), PEAK_BF16);
	assert_int_equal(type_of(e4, e5, c32, NULL), PEAK_FP8);
	assert_int_equal(type_of("CUDA_R_4F_E2M1", "CUDA_R_4F_E2M1", c32, NULL), PEAK_FP4);
	assert_int_equal(type_of("CUDA_R_4F_E2M1", f16, c32, NULL), PEAK_NONE);
	assert_int_equal(type_of(f64, f64, NULL, NULL), PEAK_FP64);
	assert_int_equal(type_of(f32, f32, "CUBLAS_COMPUTE_32F_FAST_TF32", NULL), PEAK_TF32);
	assert_int_equal(type_of(f32, f32, "CUBLAS_COMPUTE_32F_PEDANTIC", NULL), PEAK_FP32);
	assert_int_equal(type_of("CUDA_R_8I", "CUDA_R_8I", "CUBLAS_COMPUTE_32I", NULL), PEAK_INT8);
	/* The call does not show whether TF32 is allowed. */
	assert_int_equal(type_of(f32, f32, c32, NULL), PEAK_NONE);
	assert_int_equal(type_of(f32, f32, c32, "sm80_xmma_gemm_f32f32_tf32f32_f32_tn"), PEAK_TF32);
	assert_int_equal(type_of(f32, f32, NULL, "ampere_sgemm_128x64_tn"), PEAK_FP32);
	assert_int_equal(type_of(f32, f32, NULL,
				 "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize32x64x8_stage3_"
				 "warpsize1x2x1_ffma_aligna4_alignc4_execute_kernel__5x_cublas"),
			 PEAK_FP32);
	assert_int_equal(type_of(f32, f32, NULL, "splitKreduce_kernel"), PEAK_NONE);
	/* Unknown types, and types that do not match. */
	assert_int_equal(type_of(f16, bf16, c32, NULL), PEAK_NONE);
	assert_int_equal(type_of(f16, f16, "CUBLAS_COMPUTE_64F", NULL), PEAK_NONE);
	assert_int_equal(type_of(e4, f16, c32, NULL), PEAK_NONE);
	assert_int_equal(type_of("CUDA_C_32F", "CUDA_C_32F", c32, NULL), PEAK_NONE);
	assert_int_equal(type_of(NULL, NULL, c32, NULL), PEAK_NONE);
	assert_int_equal(type_of(f16, NULL, c32, NULL), PEAK_NONE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_data_sheets), cmocka_unit_test(test_blackwell),
		cmocka_unit_test(test_memory),	    cmocka_unit_test(test_geforce),
		cmocka_unit_test(test_not_known),   cmocka_unit_test(test_types),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
