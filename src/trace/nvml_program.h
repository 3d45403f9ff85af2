/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* cudatrace-nvml (nvml/), which is embedded in this program. */
#ifndef TRACE_NVML_PROGRAM_H
#define TRACE_NVML_PROGRAM_H

#include <stdbool.h>
#include <sys/types.h>

struct nvml_program {
	/* Records come from socks[0]; closing it ends the process. socks[1] is the process's end.
	 * It is kept open so that poll() does not wake forever after the process has ended. */
	int socks[2];
	bool has_socks;
	pid_t pid; /* 0: it has not been started, or has ended */
	int error; /* -errno: it failed to start */
};

/* Starts it from memory, with one sample each period. Call this before tracing starts, so that it
 * is not traced. */
void nvml_program__start(struct nvml_program *p, unsigned period_ms);
/* true: it has ended by itself since the last call, with that status, as of waitpid(). */
bool nvml_program__has_ended(struct nvml_program *p, int *status);
void nvml_program__end(struct nvml_program *p);

#endif /* TRACE_NVML_PROGRAM_H */
