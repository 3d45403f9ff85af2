/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Compresses texts to zstd frames. Concatenated frames are a zstd file, so a text is compressed
 * once for all files that contain it. */
#ifndef UTIL_ZFRAME_H
#define UTIL_ZFRAME_H

#include <stddef.h>

/* Maximum size of a frame of len incompressible bytes: ZSTD_COMPRESSBOUND for more than 128 KiB. */
#define ZFRAME_ROOM(len) ((len) + ((len) >> 8))
/* Memory of a compressor (ZSTD_sizeof_CCtx() of zstd 1.5.4, after 512 KiB). */
#define ZFRAME_SZ (510 << 10)

struct zframe;
struct ZSTD_CCtx_s;

/* Level 1 with a table of 4 KiB instead of 64, which stays in the L1 cache: lines repeat what the
 * last few had. The output is as small, in three quarters of the time
 * (docs/measured/throughput.md). */
void zstd_for_lines(struct ZSTD_CCtx_s *zstd);
/* Returns NULL when out of memory. */
struct zframe *zframe__new(void);
/* z may be NULL. */
void zframe__free(struct zframe *z);
/* Returns the length of the frame; 0: out of memory, or longer than room. It has no checksum (that
 * page has its cost). */
size_t zframe__make(struct zframe *z, const char *text, size_t len, char *frame, size_t room);

#endif /* UTIL_ZFRAME_H */
