/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A folder of traces as an argument: its files, in the order of their names. */
#ifndef CLI_TRACE_FOLDER_H
#define CLI_TRACE_FOLDER_H

#include "opts.h"

/* Traces in a folder; a report lists as many. */
#define TRACE_FOLDER_MAX 4096

/* Replaces each folder in files by the traces in it: *.jsonl, *.jsonl.gz, *.jsonl.zst. Exits with a
 * message if a folder has none. */
void trace_folder__expand(struct strv *files);

#endif /* CLI_TRACE_FOLDER_H */
