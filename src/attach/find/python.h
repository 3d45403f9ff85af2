/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which CPython a process runs, and where: the file that exports _PyRuntime (libpython3.X.so, or
 * the program itself), its version, and where that file is mapped. The process and its files may be
 * anything.
 */
#ifndef ATTACH_FIND_PYTHON_H
#define ATTACH_FIND_PYTHON_H

#include "decode/python.h"

#include <sys/types.h>

/* 0; -ENOENT: it has none, or cannot be read; -EINVAL: one whose frames cannot be read, and why.
 * *file (NULL: not wanted): with 0 its file, to be closed. */
int python__find(pid_t pid, struct python_location *place, int *file, char *why, size_t why_size);

/* A line of /proc/PID/maps with a file that may be a Python, or 0. */
struct python_map {
	uint64_t start, end, off;
	const char *path; /* in line */
};
int python_parse_map_line(char *line, const char *program, struct python_map *map);
#endif /* ATTACH_FIND_PYTHON_H */
