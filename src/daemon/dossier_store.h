/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Folders of dossiers in the daemon's directory: dossier-TIME-NUMBER-REASON-PID. */
#ifndef DAEMON_DOSSIER_STORE_H
#define DAEMON_DOSSIER_STORE_H

#include <stdint.h>

struct out;

#define DOSSIER_PREFIX "dossier-"

/* Removes the oldest folders until `keep` with at most `bytes` remain. Returns 0 or -errno. */
int dossier_store__shrink(int dir, uint64_t keep, uint64_t bytes);
/* Makes a folder, readable by us only. Returns a descriptor or -errno. */
int dossier_store__make(int dir, const char *name);
/* Creates a file. Returns a descriptor or -errno. */
int dossier_store__create(int folder, const char *name);
/* Creates a file with that text. Returns 0 or -errno. */
int dossier_store__write(int folder, const char *name, const struct out *text);

#endif /* DAEMON_DOSSIER_STORE_H */
