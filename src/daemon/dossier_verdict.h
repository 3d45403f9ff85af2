/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Reads the verdict on a process from a report's JSON, which is untrusted. */
#ifndef DAEMON_DOSSIER_VERDICT_H
#define DAEMON_DOSSIER_VERDICT_H

#include <stdint.h>

struct dossier_result;

/* Sets certain and verdict: of the first failure of process pid, else of the first of no known
 * process. Leaves them if there is none. */
void dossier_verdict_read(int folder, const char *name, uint32_t pid, struct dossier_result *res);

#endif /* DAEMON_DOSSIER_VERDICT_H */
