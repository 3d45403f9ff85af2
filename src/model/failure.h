/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Defines which failed calls are failures. All views use this rule. */
#ifndef MODEL_FAILURE_H
#define MODEL_FAILURE_H

#include "event.h"

/* Explains what this result implies about an earlier kernel or the hardware, or NULL. After such a
 * result the context is unusable (cuda.h, CUresult). */
const char *fault_meaning(const struct api_fn *fn, int32_t result);

/* Returns whether the result of a failed call of fn is harmless: CUDA_ERROR_DEINITIALIZED comes
 * from clean-up at exit. */
bool failure_is_at_exit(const struct api_fn *fn, int32_t result);

/*
 * Returns whether a call of fn that failed with this result is reported as a failure. Queries and
 * look-ups that fail are answers, except for faults of the GPU. CUDA_ERROR_NOT_READY and
 * ncclInProgress are not errors (trace_event.is_error).
 */
bool failure_matters(const struct api_fn *fn, int32_t result);

#endif /* MODEL_FAILURE_H */
