/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Functions of an ELF file by address. The file is untrusted and may change while it is read: sizes
 * are limited, and nothing is mapped. Names are read from the file only when needed: PyTorch has
 * 100 MB of them.
 */
#ifndef UTIL_SYMBOLS_H
#define UTIL_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct symbols;

/* Takes ownership of fd, also on failure. Returns NULL when out of memory. An invalid file yields
 * an empty result. */
struct symbols *symbols__read(int fd);
/* Reads segments and build id, but no names. */
struct symbols *symbols__read_nameless(int fd);
void symbols__free(struct symbols *s);
/* Bytes of memory. */
size_t symbols__size(const struct symbols *s);
/* Hexadecimal; "" when the file has none. */
const char *symbols__build_id(const struct symbols *s);
/* The address that the byte at file offset off is linked at; false: it is not loaded. */
bool symbols__address(const struct symbols *s, uint64_t off, uint64_t *addr);
/* Name and start of the function that contains addr. */
bool symbols__find(const struct symbols *s, uint64_t addr, char *name, size_t size,
		   uint64_t *start);

#endif /* UTIL_SYMBOLS_H */
