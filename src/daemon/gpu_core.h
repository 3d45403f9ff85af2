/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Reads a GPU core dump of the driver: the kernels that were resident, and their program counters.
 * It is an ELF file (EM_CUDA, ET_CORE) whose sections are tables of devices, SMs, blocks, warps and
 * threads, each below a row of another, and the code of the loaded modules. The program controls
 * the file: all of it is untrusted.
 */
#ifndef DAEMON_GPU_CORE_H
#define DAEMON_GPU_CORE_H

#include <stddef.h>
#include <stdint.h>

struct json;

/* Rows in the result. */
#define GPU_CORE_GRIDS 64
#define GPU_CORE_PCS   64 /* of a grid */

/* Writes members to j, after json_open(): devices, warps, grids with their program counters, those
 * with most warps first. Writes the names of the largest to text. Returns 0, or -errno: then *why
 * has the reason and j has no members. */
int gpu_core_read(int fd, struct json *j, char *text, size_t size, const char **why);

#endif /* DAEMON_GPU_CORE_H */
