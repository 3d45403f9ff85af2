/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* cudatrace-nvml (nvml/): the program carries it. */
#ifndef TRACE_NVML_PROGRAM_H
#define TRACE_NVML_PROGRAM_H

#include <sys/types.h>

/* Starts it from memory, with a sample each period. Its records come from socks[0]; when that is
 * closed it ends. socks[1] is its end of it, and kept, so that who polls is not woken for ever when
 * it has ended by itself. 0 or -errno. */
int nvml_program__start(unsigned period_ms, pid_t *pid, int socks[2]);

#endif /* TRACE_NVML_PROGRAM_H */
