/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "peak.h"

#include <string.h>

/*
 * Operations per cycle of a multiprocessor; a product and a sum are two. Values are for its fastest
 * units, without sparsity, from the tables of NVIDIA's white papers and data sheets: V100 125
 * TFLOP/s of FP16 at 1530 MHz with 80 SMs, T4 65 at 1590 with 40, A100 312 at 1410 with 108 (FP64
 * 19.5 and TF32 156, INT8 624), A10 125 at 1695 with 72 (FP32 31.2, TF32 62.5), L4 121 at 2040 with
 * 58 (FP8 242), H100 SXM 989 at 1830 with 132 (TF32 495, FP8 1979; FP32 and FP64 67 at 1980), B200
 * 2250 at 1855 with 148 (TF32 1125, FP8 and INT8 4500, FP4 9000; FP32 75 and FP64 37 at 1965), B300
 * the same with FP4 13500, RTX 5090 419 with 16-bit sums at 2407 with 170 (FP32 105, FP8 and INT8
 * 838, FP4 1676), RTX PRO 6000 504 at 2617 with 188, AGX Orin INT8 85 at 1300 with 16 (FP32 5.3).
 * The values of AGX Orin, B200, B300 and RTX are not checked against the documents yet. Other GPUs,
 * and types that are not listed, have no known peak.
 */
static const struct rate {
	uint32_t capability;
	uint32_t ops[PEAK_TYPE_CNT];
} rates[] = {
	{70, {[PEAK_FP64] = 64, [PEAK_FP32] = 128, [PEAK_FP16] = 1024}},
	{75, {[PEAK_FP64] = 4, [PEAK_FP32] = 128, [PEAK_FP16] = 1024, [PEAK_INT8] = 2048}},
	{80,
	 {[PEAK_FP64] = 128,
	  [PEAK_FP32] = 128,
	  [PEAK_TF32] = 1024,
	  [PEAK_FP16] = 2048,
	  [PEAK_BF16] = 2048,
	  [PEAK_INT8] = 4096}},
	{86,
	 {[PEAK_FP64] = 4,
	  [PEAK_FP32] = 256,
	  [PEAK_TF32] = 512,
	  [PEAK_FP16] = 1024,
	  [PEAK_BF16] = 1024,
	  [PEAK_INT8] = 2048}},
	{87,
	 {[PEAK_FP32] = 256,
	  [PEAK_TF32] = 1024,
	  [PEAK_FP16] = 2048,
	  [PEAK_BF16] = 2048,
	  [PEAK_INT8] = 4096}},
	{89,
	 {[PEAK_FP64] = 4,
	  [PEAK_FP32] = 256,
	  [PEAK_TF32] = 512,
	  [PEAK_FP16] = 1024,
	  [PEAK_BF16] = 1024,
	  [PEAK_FP8] = 2048,
	  [PEAK_INT8] = 2048}},
	{90,
	 {[PEAK_FP64] = 256,
	  [PEAK_FP32] = 256,
	  [PEAK_TF32] = 2048,
	  [PEAK_FP16] = 4096,
	  [PEAK_BF16] = 4096,
	  [PEAK_FP8] = 8192,
	  [PEAK_INT8] = 8192}},
	{100,
	 {[PEAK_FP64] = 128,
	  [PEAK_FP32] = 256,
	  [PEAK_TF32] = 4096,
	  [PEAK_FP16] = 8192,
	  [PEAK_BF16] = 8192,
	  [PEAK_FP8] = 16384,
	  [PEAK_FP4] = 32768,
	  [PEAK_INT8] = 16384}},
	{103,
	 {[PEAK_FP32] = 256,
	  [PEAK_TF32] = 4096,
	  [PEAK_FP16] = 8192,
	  [PEAK_BF16] = 8192,
	  [PEAK_FP8] = 16384,
	  [PEAK_FP4] = 49152}},
	{120,
	 {[PEAK_FP64] = 4,
	  [PEAK_FP32] = 256,
	  [PEAK_TF32] = 512,
	  [PEAK_FP16] = 1024,
	  [PEAK_BF16] = 1024,
	  [PEAK_FP8] = 2048,
	  [PEAK_FP4] = 4096,
	  [PEAK_INT8] = 2048}},
};

/* NVIDIA's tensor core numbers of these GPUs assume a clock below the highest one, which FP32 and
 * FP64 use (H100's white paper, v1.04). GH200's name is followed by its memory size. */
static const struct {
	const char *model;
	bool is_start;
	uint32_t clock_khz;
} clocks[] = {
	{"NVIDIA H100 80GB HBM3", false, 1830000}, {"NVIDIA H200", false, 1830000},
	{"NVIDIA GH200 ", true, 1830000},	   {"NVIDIA H100 PCIe", false, 1620000},
	{"NVIDIA B200", false, 1855000},	   {"NVIDIA B300", true, 1855000},
};

/* Peak memory rates of NVIDIA's data sheets, in 10^9 bytes per second. A name that is only a start
 * ends with a blank or a hyphen, because "NVIDIA A10" must not match "NVIDIA A100". */
static const struct {
	const char *model;
	bool is_start;
	unsigned gbps;
} memories[] = {
	{"Tesla V100-", true, 900},
	{"Tesla T4", false, 320},
	{"NVIDIA A100-SXM4-40GB", false, 1555},
	{"NVIDIA A100-PCIE-40GB", false, 1555},
	{"NVIDIA A100-SXM4-80GB", false, 2039},
	{"NVIDIA A100 80GB PCIe", false, 1935},
	{"NVIDIA A30", false, 933},
	{"NVIDIA A10", false, 600},
	{"NVIDIA A10G", false, 600},
	{"NVIDIA A40", false, 696},
	{"NVIDIA L4", false, 300},
	{"NVIDIA L40", false, 864},
	{"NVIDIA L40S", false, 864},
	{"NVIDIA H100 80GB HBM3", false, 3352},
	{"NVIDIA H100 PCIe", false, 2039},
	{"NVIDIA H100 NVL", false, 3938},
	{"NVIDIA H200", false, 4800},
	{"NVIDIA H200 NVL", false, 4800},
	{"NVIDIA B200", false, 8000},
	{"NVIDIA GeForce RTX 3090", false, 936},
	{"NVIDIA GeForce RTX 4090", false, 1008},
	{"NVIDIA GeForce RTX 5090", false, 1792},
	{"NVIDIA RTX A6000", false, 768},
	{"NVIDIA RTX 6000 Ada Generation", false, 960},
};

static bool is_model(const struct device *d, const char *model, bool is_start)
{
	return (is_start ? strncmp(d->model, model, strlen(model)) : strcmp(d->model, model)) == 0;
}

double peak_memory(const struct device *d, bool *is_listed)
{
	*is_listed = false;
	/* Two transfers per clock. */
	if (d->memory_khz && d->bus_bits)
		return 2.0 * d->memory_khz * d->bus_bits / 8 / 1e6;
	for (size_t i = 0; i < sizeof(memories) / sizeof(memories[0]); i++)
		if (is_model(d, memories[i].model, memories[i].is_start)) {
			*is_listed = true;
			return memories[i].gbps;
		}
	return 0;
}

static uint32_t tensor_clock(const struct device *d)
{
	for (size_t i = 0; i < sizeof(clocks) / sizeof(clocks[0]); i++)
		if (is_model(d, clocks[i].model, clocks[i].is_start) &&
		    clocks[i].clock_khz < d->clock_khz)
			return clocks[i].clock_khz;
	return d->clock_khz;
}

/* On these chips GeForce has half the rate with 32-bit sums; only the name distinguishes them. */
static bool may_be_geforce(const struct device *d)
{
	return d->capability == 75 || d->capability == 86 || d->capability == 89 ||
	       d->capability == 120;
}

struct peak peak_of(const struct device *d, enum peak_type type, bool half)
{
	bool is_tensor = type != PEAK_FP32 && type != PEAK_FP64;
	struct peak peak = {0};
	double ops = 0;

	for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++)
		if (rates[i].capability == d->capability)
			ops = rates[i].ops[type];
	if (is_tensor && may_be_geforce(d)) {
		if (!*d->model)
			return peak;
		if (strstr(d->model, "GeForce") && type != PEAK_INT8 && type != PEAK_FP4 && !half)
			ops /= 2;
	}
	peak.clock_khz = is_tensor ? tensor_clock(d) : d->clock_khz;
	peak.tflops = ops * d->sm_cnt * peak.clock_khz / 1e9;
	peak.most = ops * d->sm_cnt * d->clock_khz / 1e9;
	return peak;
}

const char *peak_type_name(enum peak_type type)
{
	static const char *const names[PEAK_TYPE_CNT] = {
		[PEAK_FP64] = "FP64", [PEAK_FP32] = "FP32", [PEAK_TF32] = "TF32",
		[PEAK_FP16] = "FP16", [PEAK_BF16] = "BF16", [PEAK_FP8] = "FP8",
		[PEAK_FP4] = "FP4",   [PEAK_INT8] = "INT8",
	};

	return names[type];
}

static bool is(const char *s, const char *t)
{
	return s && !strcmp(s, t);
}

static bool is_fp8(const char *type)
{
	return is(type, "CUDA_R_8F_E4M3") || is(type, "CUDA_R_8F_E5M2");
}

/* For 32 bits: a mode of the handle (cublasSetMathMode) may select TF32, which the call does not
 * show. The kernel's name does: sm80_xmma_gemm_f32f32_tf32f32_..., ampere_sgemm_128x64_tn,
 * sm80_xmma_gemm_f32f32_f32f32_f32_tn_..._ffma_... (the instruction for 32 bits). */
static enum peak_type type_by_kernel(const char *kernel)
{
	if (!kernel || strstr(kernel, "tensorop"))
		return PEAK_NONE;
	if (strstr(kernel, "tf32"))
		return PEAK_TF32;
	return strstr(kernel, "_sgemm_") || strstr(kernel, "_ffma_") ? PEAK_FP32 : PEAK_NONE;
}

enum peak_type peak_type_of(const struct gemm_info *g, const char *kernel)
{
	static const struct {
		const char *type, *compute; /* compute NULL: the function has no such argument */
		enum peak_type is;
	} types[] = {
		{"CUDA_R_64F", NULL, PEAK_FP64},
		{"CUDA_R_64F", "CUBLAS_COMPUTE_64F", PEAK_FP64},
		{"CUDA_R_64F", "CUBLAS_COMPUTE_64F_PEDANTIC", PEAK_FP64},
		{"CUDA_R_32F", "CUBLAS_COMPUTE_32F_PEDANTIC", PEAK_FP32},
		{"CUDA_R_32F", "CUBLAS_COMPUTE_32F_FAST_TF32", PEAK_TF32},
		{"CUDA_R_32F", "CUBLAS_COMPUTE_32F_FAST_16F", PEAK_FP16},
		{"CUDA_R_32F", "CUBLAS_COMPUTE_32F_FAST_16BF", PEAK_BF16},
		{"CUDA_R_16F", NULL, PEAK_FP16},
		{"CUDA_R_16F", "CUBLAS_COMPUTE_16F", PEAK_FP16},
		{"CUDA_R_16F", "CUBLAS_COMPUTE_32F", PEAK_FP16},
		{"CUDA_R_16F", "CUBLAS_COMPUTE_32F_FAST_16F", PEAK_FP16},
		{"CUDA_R_16BF", "CUBLAS_COMPUTE_32F", PEAK_BF16},
		{"CUDA_R_16BF", "CUBLAS_COMPUTE_32F_FAST_16BF", PEAK_BF16},
		{"CUDA_R_8I", "CUBLAS_COMPUTE_32I", PEAK_INT8},
	};

	/* The longest functions have A's type beyond the kept arguments; it must equal B's. */
	const char *type = g->a_type ?: g->b_type;

	if (is_fp8(g->a_type) && is_fp8(g->b_type))
		return is(g->compute_type, "CUBLAS_COMPUTE_32F") ? PEAK_FP8 : PEAK_NONE;
	if (!is(g->b_type, type))
		return PEAK_NONE;
	if (is(type, "CUDA_R_4F_E2M1"))
		return is(g->compute_type, "CUBLAS_COMPUTE_32F") ? PEAK_FP4 : PEAK_NONE;
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (is(type, types[i].type) &&
		    (types[i].compute ? is(g->compute_type, types[i].compute) : !g->compute_type))
			return types[i].is;
	if (is(type, "CUDA_R_32F") &&
	    (!g->compute_type || is(g->compute_type, "CUBLAS_COMPUTE_32F")))
		return type_by_kernel(kernel);
	return PEAK_NONE;
}
