/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Names of the segments of an output: trace.jsonl, trace.1.jsonl, trace.2.jsonl. The number
 * precedes the suffix; .gz and .zst are part of the suffix.
 */
#ifndef UTIL_SEGMENT_H
#define UTIL_SEGMENT_H

#include <stddef.h>

/* The name of segment n (from 1), where path is the first. Returns 0 or -ENAMETOOLONG. */
int segment_path(char *buf, size_t size, const char *path, unsigned n);
/* The number in the name; 0: the first segment, or no number. */
unsigned segment_number(const char *path);
/* The name of the segment after path, which is segment n, even if path was renamed. */
int segment_after(char *buf, size_t size, const char *path, unsigned n);
/* Sorts paths that may be segments of one output by number, at the position of the first of them: a
 * shell sorts them alphabetically. */
void segments_sort(const char **paths, unsigned cnt);

#endif /* UTIL_SEGMENT_H */
