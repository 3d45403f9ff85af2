/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Which file, and which function in it, an address of a process is. */
#ifndef MODEL_MODULES_H
#define MODEL_MODULES_H

#include "event.h"

/* Files, each once however many processes map it. */
struct module_files;
struct quotas;
/* hide: paths of files, their functions' names, and perf maps are not read but for
 * CT_REDACT_NOTHING; build ids and places in a file are. */
struct module_files *module_files__new(struct quotas *q, enum ct_redact redact);
void module_files__free(struct module_files *f);

/* One process's mappings. */
struct modules;
struct modules *modules__new(struct module_files *files, uint32_t pid);
void modules__free(struct modules *m);
/* Reads the mappings. */
void modules__read(struct modules *m);
/* Fills what can be known of the return address, or instruction, frame->ip, at ns
 * (CLOCK_MONOTONIC); the symbol is the caller's to free, the other strings live as long as m. */
void modules__resolve(struct modules *m, struct stack_frame *frame, bool is_return, uint64_t ns,
		      char **symbol);

#endif /* MODEL_MODULES_H */
