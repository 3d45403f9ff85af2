/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "dnn.h"

#include <stddef.h>
#include <string.h>

#define OPERANDS(a, b, c, how)                                                                     \
	{                                                                                          \
		a, b, c, how                                                                       \
	}

/* Ranks: 3 products, 2 operations with their own pass over a tensor, 1 reductions, 0 operations
 * fused to others. */
static const struct dnn_operation operations[] = {
	[10] = {"convolution_forward", 3, DNN_FORWARD, OPERANDS(704, 703, 705, 702)},
	[11] = {"convolution_backward_filter", 3, DNN_BACKWARD_FILTER,
		OPERANDS(717, 716, 715, 714)},
	[12] = {"convolution_backward_data", 3, DNN_BACKWARD_DATA, OPERANDS(711, 709, 710, 708)},
	[13] = {.op = "pointwise"},
	[14] = {.op = "statistics", .rank = 1},
	[19] = {"gemm", 3, DNN_PRODUCT, OPERANDS(1520, 1521, 1522, 1523)},
	[20] = {.op = "norm_statistics", .rank = 1},
	[22] = {.op = "reduction", .rank = 1},
	[23] = {.op = "norm_backward_weights", .rank = 2},
	[25] = {.op = "resample_forward", .rank = 2},
	[26] = {.op = "resample_backward", .rank = 2},
	[27] = {.op = "concat"},
	[28] = {.op = "signal"},
	[29] = {.op = "norm_forward", .rank = 2},
	[30] = {.op = "norm_backward", .rank = 2},
	[31] = {.op = "reshape"},
	[33] = {.op = "random"},
	[35] = {.op = "paged_cache_load"},
	[36] = {.op = "quantize", .rank = 1},
	[37] = {.op = "dequantize"},
	[39] = {.op = "expand_band_matrix"},
	[40] = {.op = "contract_band_matrix"},
	[41] = {"attention_forward", 3, DNN_ATTENTION, OPERANDS(2800, 2801, 2802, 0)},
	[42] = {.op = "grouped_gemm", .rank = 3},
	[43] = {"attention_backward", 3, DNN_ATTENTION_BACKWARD, OPERANDS(2851, 2852, 2853, 0)},
};

const struct dnn_operation *dnn_operation(uint64_t type)
{
	return type < sizeof(operations) / sizeof(operations[0]) && operations[type].op
		       ? &operations[type]
		       : NULL;
}

bool dnn_is_of_graph(uint64_t type, uint64_t attr)
{
	switch (type) {
	case DNN_ENGINEHEUR:
		return attr == 201 /* OPERATION_GRAPH */ || attr == 202 /* RESULTS */;
	case DNN_ENGINECFG:
		return attr == 300 /* ENGINE */;
	case DNN_PLAN:
		return attr == 401 /* ENGINE_CONFIG */;
	case DNN_ENGINE:
		return attr == 1300 /* OPERATION_GRAPH */;
	default:
		return false;
	}
}

const char *dnn_data_type(uint64_t type)
{
	static const char *const names[] = {
		[0] = "CUDA_R_32F",	 [1] = "CUDA_R_64F",	   [2] = "CUDA_R_16F",
		[3] = "CUDA_R_8I",	 [4] = "CUDA_R_32I",	   [6] = "CUDA_R_8U",
		[9] = "CUDA_R_16BF",	 [10] = "CUDA_R_64I",	   [12] = "CUDA_R_8F_E4M3",
		[13] = "CUDA_R_8F_E5M2", [15] = "CUDA_R_8F_UE8M0", [16] = "CUDA_R_4F_E2M1",
		[17] = "CUDA_R_4I",	 [18] = "CUDA_R_4U",	   [19] = "CUDA_R_32U",
		[20] = "CUDA_C_32F",	 [21] = "CUDA_C_64F",
	};

	return type < sizeof(names) / sizeof(names[0]) ? names[type] : NULL;
}

unsigned cuda_type_bits(const char *name)
{
	unsigned bits = 0;

	if (!name || (strncmp(name, "CUDA_R_", 7) && strncmp(name, "CUDA_C_", 7)))
		return 0;
	for (const char *s = name + 7; *s >= '0' && *s <= '9' && bits < 1000; s++)
		bits = 10 * bits + *s - '0';
	return name[5] == 'C' ? 2 * bits : bits;
}

const char *dnn_compute_type(uint64_t type)
{
	switch (type) {
	case 0:
		return "CUBLAS_COMPUTE_32F";
	case 1:
		return "CUBLAS_COMPUTE_64F";
	case 2:
		return "CUBLAS_COMPUTE_16F";
	case 4:
		return "CUBLAS_COMPUTE_32I";
	default:
		return NULL;
	}
}
