/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Finds the CPython of a process: the file that exports _PyRuntime (libpython3.X.so, or the program
 * itself), its version, and its mapping. The process and its files are untrusted.
 */
#ifndef ATTACH_FIND_PYTHON_H
#define ATTACH_FIND_PYTHON_H

#include "decode/python.h"

#include <sys/types.h>

/* Returns 0; -ENOENT: no Python, or not readable; -EINVAL: its frames cannot be read, reason in
 * why. *file (NULL: not needed): its file if 0 is returned; the caller closes it. */
int python__find(pid_t pid, struct python_location *place, int *file, char *why, size_t why_size);

/* A line of /proc/PID/maps with a file that may be a Python, or 0. */
struct python_map {
	uint64_t start, end, off;
	const char *path; /* in line */
};
int python_parse_map_line(char *line, const char *program, struct python_map *map);
#endif /* ATTACH_FIND_PYTHON_H */
