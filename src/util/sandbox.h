/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a tracer that has set up everything can still do: follow processes, have the process that
 * attaches do so with libraries that come later, and write to the files that it has open. The
 * daemon also makes new files, listens and sends. The process that attaches makes links of programs
 * that are loaded, and looks at processes. Everything else is given up for good.
 */
#ifndef UTIL_SANDBOX_H
#define UTIL_SANDBOX_H

#include <stdbool.h>

struct sandbox_needs {
	bool daemon;	  /* else a trace */
	bool links;	  /* instead of either: the process that attaches (attach/probe/links.h) */
	bool inject;	  /* a trace that programs connect to (inject/inject.h) */
	bool gpu_log;	  /* reads the driver's log (gpu/ctxsw.h) */
	bool screen;	  /* a trace that is shown on one (top/screen.h) */
	bool perf_probes; /* with links, one perf event each: asks for CAP_SYS_ADMIN */
};

/* Drops capabilities, sets no_new_privs, installs a seccomp filter. Says what did not work; tracing
 * goes on without that part. The command that was forked before is not touched. */
void sandbox__enter(const struct sandbox_needs *needs);

/* cudatrace-read (util/reader.h): first the process that makes readers, then each reader once more,
 * which can make no process. They open files for reading, and nothing else. */
void sandbox__enter_reader(bool makes_readers);

/* cudatrace-open (util/opener.h): it opens files for whoever they belong to. */
void sandbox__enter_opener(void);
/* For signal-witness, which only polls, reads and writes. no_new_privs is set already. */
void sandbox__enter_witness(void);

#endif /* UTIL_SANDBOX_H */
