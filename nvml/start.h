/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The dynamic loader, for programs that are linked with start.c. */
#ifndef NVML_START_H
#define NVML_START_H

void *lib_open(const char *path, int flags);
void *lib_symbol(void *lib, const char *name);
const char *lib_error(void);

#endif /* NVML_START_H */
