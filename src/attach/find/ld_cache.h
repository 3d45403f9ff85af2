/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The dynamic linker's cache of libraries, /etc/ld.so.cache: ours, or a container's (untrusted). */
#ifndef ATTACH_FIND_LD_CACHE_H
#define ATTACH_FIND_LD_CACHE_H

#include <stdbool.h>
#include <stddef.h>

/* Measured sizes: 20 kB to 200 kB. */
#define LD_CACHE_SZ_MAX (16u << 20)

/* Calls fn for every library of this machine's type (64-bit) until fn returns false. Names and
 * paths are shorter than 4096 bytes and live as long as buf. An invalid cache has no libraries. */
void ld_cache__each(const char *buf, size_t size,
		    bool (*fn)(void *ctx, const char *name, const char *path), void *ctx);

#endif /* ATTACH_FIND_LD_CACHE_H */
