/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The command that profiles a kernel with Nsight Compute, for data that no tracer has (cache
 * misses, bank conflicts, stalls). */
#ifndef REPORT_KERNELS_NCU_H
#define REPORT_KERNELS_NCU_H

#include "model/trace.h"

#include <stdbool.h>
#include <stddef.h>

#define NCU_SZ 4096

/* A shell command that profiles one launch, from the middle of the kernel's launches in the traced
 * command. mangled may be NULL. false: ncu cannot find its name, or buf is too small. */
bool ncu_command(const struct trace_info *info, const char *name, const char *mangled,
		 uint64_t launches, char buf[NCU_SZ]);

#endif /* REPORT_KERNELS_NCU_H */
