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

/* 0; -ENOENT: it has none, or cannot be read; -EINVAL: one whose frames cannot be read, and why. */
int python__find(pid_t pid, struct python_place *place, char *why, size_t why_size);

/* A line of /proc/PID/maps with a file that may be a Python, or 0. */
struct python_map {
	uint64_t start, end, off;
	const char *path; /* in line */
};
int python_parse_map_line(char *line, const char *program, struct python_map *map);
/* Of the file: the layout, and the address of _PyRuntime as it is linked; *bias: what is to be
 * added where what is at off in the file is mapped at start. Closes fd. 0, -ENOENT, -EINVAL and
 * why. */
int python_file_read(int fd, const char *path, uint64_t start, uint64_t off,
		     struct python_layout *l, char *why, size_t why_size);

#endif /* ATTACH_FIND_PYTHON_H */
