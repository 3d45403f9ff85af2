/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Texts as zstd frames. One frame after the other is a zstd file, so that a text is compressed once
 * for all who write it. */
#ifndef UTIL_ZFRAME_H
#define UTIL_ZFRAME_H

#include <stddef.h>

/* Of a frame of len bytes, if these do not shrink: ZSTD_COMPRESSBOUND of what is longer than 128
 * KiB. */
#define ZFRAME_ROOM(len) ((len) + ((len) >> 8))
/* What it takes for one (ZSTD_sizeof_CCtx() of zstd 1.5.4, after 512 KiB). */
#define ZFRAME_SZ (510 << 10)

struct zframe;
struct ZSTD_CCtx_s;

/* Level 1 with a table of 4 KiB instead of 64, which stays in the nearest cache: lines repeat what
 * the last few had. As small, in three quarters of the time (docs/measured/throughput.md). */
void zstd_for_lines(struct ZSTD_CCtx_s *zstd);
/* NULL: no memory. */
struct zframe *zframe__new(void);
/* NULL is fine. */
void zframe__free(struct zframe *z);
/* The frame's length; 0: no memory, or it is longer than room. It has no checksum (the same
 * page says what that would take). */
size_t zframe__make(struct zframe *z, const char *text, size_t len, char *frame, size_t room);

#endif /* UTIL_ZFRAME_H */
