/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Restricts a tracer after its setup. It can still follow processes, have the attaching process
 * attach to new libraries, and write to its open files. The daemon can also create files, listen
 * and send. The attaching process can create links of loaded programs, and inspect processes.
 * Everything else is dropped for good.
 */
#ifndef UTIL_SANDBOX_H
#define UTIL_SANDBOX_H

#include <stdbool.h>

struct sandbox_needs {
	bool daemon;	  /* the daemon; else a trace */
	bool links;	  /* instead of either: the attaching process (attach/probe/links.h) */
	bool inject;	  /* a trace that programs connect to (inject/inject.h) */
	bool gpu_log;	  /* reads the driver's log (gpu/ctxsw.h) */
	bool screen;	  /* a trace shown on a screen (top/screen.h) */
	bool perf_probes; /* with links, as one perf event each, which needs CAP_SYS_ADMIN */
};

/* Drops capabilities, sets no_new_privs, and installs a seccomp filter. Warns about steps that
 * fail; tracing continues without them. Does not affect the command, which was forked before. */
void sandbox__enter(const struct sandbox_needs *needs);

/* For cudatrace-read (util/reader.h): first for the process that makes readers, then once more for
 * each reader, which cannot make processes. They can only open files for reading. */
void sandbox__enter_reader(bool makes_readers);

/* For the process that completes dossiers: it starts others, so it has no filter, but few
 * capabilities. */
void sandbox__enter_dossiers(void);
/* For cudatrace-open (util/opener.h): it opens files as the user who owns them. */
void sandbox__enter_opener(void);
/* For cudatrace-late (inject/late.h): it reads and writes the memory of processes. */
void sandbox__enter_late(void);
/* Of its parent in a daemon, which also enters network namespaces and reads filters. */
void sandbox__enter_late_server(void);
/* For cudatrace-guard (attach/guard.h): it continues stopped processes, and changes a map's rows.
 */
void sandbox__enter_guard(void);
/* For signal-witness, which only polls, reads and writes. no_new_privs is set already. */
void sandbox__enter_witness(void);

#endif /* UTIL_SANDBOX_H */
