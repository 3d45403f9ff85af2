/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What to type to have Nsight Compute look into a kernel: what no tracer sees (cache misses, bank
 * conflicts, stalls). */
#ifndef REPORT_KERNELS_NCU_H
#define REPORT_KERNELS_NCU_H

#include "model/trace.h"

#include <stdbool.h>
#include <stddef.h>

#define NCU_SZ 4096

/* A line for a shell: one launch of the kernel, from the middle of its launches, of the command
 * that was traced. mangled: or NULL. false: it has no name that ncu would find, or there is no
 * room. */
bool ncu_command(const struct trace_info *info, const char *name, const char *mangled,
		 uint64_t launches, char buf[NCU_SZ]);

#endif /* REPORT_KERNELS_NCU_H */
