/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The names of an output that is split: trace.jsonl, trace.1.jsonl, trace.2.jsonl. The number
 * stands before the ending; .gz and .zst belong to it.
 */
#ifndef UTIL_SEGMENT_H
#define UTIL_SEGMENT_H

#include <stddef.h>

/* The name of piece n (from 1), where path is the first one's. -ENAMETOOLONG or 0. */
int segment_path(char *buf, size_t size, const char *path, unsigned n);
/* Its number by its name; 0: the first, or none. */
unsigned segment_number(const char *path);
/* The name of the piece behind path, which is piece n, whatever was left of its name. */
int segment_after(char *buf, size_t size, const char *path, unsigned n);
/* Those that may be of one output stand in the order of their numbers, where the first of them
 * stood: a shell sorts them by letters. */
void segments_sort(const char **paths, unsigned cnt);

#endif /* UTIL_SEGMENT_H */
