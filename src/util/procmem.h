/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Memory of another process, by process_vm_readv(2): bounded, never blocks on the target. */
#ifndef UTIL_PROCMEM_H
#define UTIL_PROCMEM_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Exactly size bytes at addr, or -errno. */
int procmem_read(pid_t pid, uint64_t addr, void *buf, size_t size);
/* A NUL-terminated string of at most size - 1 bytes. Its length, -ENAMETOOLONG when no NUL came
 * (buf then holds the beginning), or -errno. */
int procmem_read_str(pid_t pid, uint64_t addr, char *buf, size_t size);

#endif /* UTIL_PROCMEM_H */
