/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "failure.h"

#include <string.h>

#include "decode/api_values.h"
#include "decode/cuda.h"

static const struct {
	int32_t result;
	const char *meaning;
} faults[] = {
	{CUDA_ERROR_ILLEGAL_ADDRESS,
	 "a kernel accessed an invalid address: compute-sanitizer names the line"},
	{CUDA_ERROR_MISALIGNED_ADDRESS,
	 "a kernel accessed a misaligned address: compute-sanitizer names the line"},
	{CUDA_ERROR_INVALID_ADDRESS_SPACE,
	 "a kernel accessed an address of another memory space: compute-sanitizer names the line"},
	{CUDA_ERROR_ILLEGAL_INSTRUCTION, "a kernel executed an instruction that does not exist"},
	{CUDA_ERROR_INVALID_PC, "a kernel jumped to an invalid address"},
	{CUDA_ERROR_HARDWARE_STACK_ERROR, "a kernel corrupted or exceeded its call stack"},
	{CUDA_ERROR_ASSERT, "an assertion in a kernel failed: its text is on the program's stderr"},
	{CUDA_ERROR_LAUNCH_FAILED, "a kernel failed: compute-sanitizer names the line"},
	{CUDA_ERROR_LAUNCH_TIMEOUT, "a kernel ran longer than a GPU with a display allows"},
	{CUDA_ERROR_ECC_UNCORRECTABLE, "the GPU's memory is damaged: see the kernel's log"},
};

const char *fault_meaning(const struct api_fn *fn, int32_t result)
{
	/* Other libraries have their own result numbers. */
	const char *name = result ? fn_result_name(fn, result) : NULL;

	if (!name || strncmp(name, "CUDA_", 5))
		return NULL;
	for (unsigned i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
		if (faults[i].result == result)
			return faults[i].meaning;
	return NULL;
}

bool failure_is_at_exit(const struct api_fn *fn, int32_t result)
{
	return fn->api == API_CUDA && result == CUDA_ERROR_DEINITIALIZED;
}

bool failure_matters(const struct api_fn *fn, int32_t result)
{
	if (fn->op == OP_QUERY || fn->op == OP_LOOKUP)
		return fault_meaning(fn, result);
	return !failure_is_at_exit(fn, result);
}
