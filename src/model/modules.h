/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Maps addresses of a process to files and functions. */
#ifndef MODEL_MODULES_H
#define MODEL_MODULES_H

#include "event.h"

/* Files, each stored once for all processes that map it. */
struct module_files;
struct quotas;
/* redact: unless CT_REDACT_NOTHING, paths, function names and perf maps are not read; build IDs and
 * offsets are. */
struct module_files *module_files__new(struct quotas *q, enum ct_redact redact);
void module_files__free(struct module_files *f);

/* One process's mappings. */
struct modules;
struct modules *modules__new(struct module_files *files, uint32_t pid);
void modules__free(struct modules *m);
/* Reads the mappings. */
void modules__read(struct modules *m);
/* Fills *frame for the return address, or instruction, frame->ip, at ns (CLOCK_MONOTONIC). The
 * caller frees *symbol; the other strings live as long as m. */
void modules__resolve(struct modules *m, struct stack_frame *frame, bool is_return, uint64_t ns,
		      char **symbol);

#endif /* MODEL_MODULES_H */
