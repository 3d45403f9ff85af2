/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* cudatrace-nvml (nvml/): the program carries it. */
#ifndef TRACE_NVML_PROGRAM_H
#define TRACE_NVML_PROGRAM_H

#include <stdbool.h>
#include <sys/types.h>

struct nvml_program {
	/* Its records come from socks[0]; when that is closed it ends. socks[1] is its end of it,
	 * and kept, so that who polls is not woken for ever when it has ended by itself. */
	int socks[2];
	bool has_socks;
	pid_t pid; /* 0: it has not been started, or has ended */
	int error; /* -errno: it could not be started */
};

/* Starts it from memory, with a sample each period; before anything is traced, so that it is not.
 */
void nvml_program__start(struct nvml_program *p, unsigned period_ms);
/* true: it has ended by itself since this was last asked, with that status, as of waitpid(). */
bool nvml_program__has_ended(struct nvml_program *p, int *status);
void nvml_program__end(struct nvml_program *p);

#endif /* TRACE_NVML_PROGRAM_H */
