/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a tracer that has set up everything can still do: follow processes, attach to libraries that
 * come later, and write to the files that it has open. Everything else is given up for good.
 */
#ifndef CLI_SANDBOX_H
#define CLI_SANDBOX_H

#include <stdbool.h>

struct sandbox_needs {
	bool perf_probes; /* one perf event each: asks for CAP_SYS_ADMIN */
};

/* Drops capabilities, sets no_new_privs, installs a seccomp filter. Says what did not work; tracing
 * goes on without that part. The command that was forked before is not touched. */
void sandbox__enter(const struct sandbox_needs *needs);

#endif /* CLI_SANDBOX_H */
