/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Functions of an ELF file by address. The file may be anything, and may change while it is read:
 * sizes are bounded, nothing is mapped. Names stay in the file until they are asked for: a PyTorch
 * has 100 MB of them.
 */
#ifndef UTIL_SYMBOLS_H
#define UTIL_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct symbols;

/* Takes fd over, also on failure. NULL when there is no memory. A file that makes no sense has
 * nothing in it. */
struct symbols *symbols__read(int fd);
/* Segments and build id: no names are read. */
struct symbols *symbols__read_nameless(int fd);
void symbols__free(struct symbols *s);
/* Hexadecimal; "" when it has none. */
/* Bytes of memory. */
size_t symbols__size(const struct symbols *s);
const char *symbols__build_id(const struct symbols *s);
/* The address that the byte at off in the file is linked at; false: it is not loaded. */
bool symbols__address(const struct symbols *s, uint64_t off, uint64_t *addr);
/* Name of the function that holds addr, and where it begins. */
bool symbols__find(const struct symbols *s, uint64_t addr, char *name, size_t size,
		   uint64_t *start);

#endif /* UTIL_SYMBOLS_H */
